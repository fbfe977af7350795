//! Models from files.

use std::path::{Path, PathBuf};

use isochron_core::internal;
use isochron_hierarchy::model::{Fit, Point, SpeedModel, Surface, SurfacePoint};
use isochron_hierarchy::partition::PartitionError;
use isochron_hierarchy::printable::escape;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};

use crate::failure::Failure;
use crate::lines::wrap;
use crate::table::TextTable;

/// Makes the failure of a partitioner, with the file that it comes from, or else with `flag`.
pub fn refuse(paths: &[PathBuf], flag: &str, error: &PartitionError) -> Failure {
    let path = match error {
        PartitionError::InvalidModel { index, .. } | PartitionError::InvalidSpeed { index, .. } => {
            paths.get(*index)
        }
        _ => None,
    };
    match path {
        Some(path) => Failure::of_file(path, error),
        None => Failure::input(format!("{flag}: {error}")),
    }
}

/// The content of a file of measured times.
pub enum MeasuredFile {
    /// Times of sizes.
    Points(Vec<Point>),
    /// Times of heights and widths.
    Surface(Surface),
}

/// Reads a points file or a surface file, whichever its header names.
pub fn read_measured(path: &Path) -> Result<MeasuredFile, Failure> {
    match internal::read_measured(path)? {
        internal::AnyPointsFile::Points(file) => {
            accept(path, file.points).map(MeasuredFile::Points)
        }
        internal::AnyPointsFile::Surface(file) => {
            make_surface(path, file.points).map(MeasuredFile::Surface)
        }
    }
}

/// Reads a points file with at least one point.
pub fn read_points(path: &Path) -> Result<Vec<Point>, Failure> {
    accept(path, internal::read_points(path)?.points)
}

/// Reads points files, as [`read_points`] does.
pub fn read_all_points(paths: &[PathBuf]) -> Result<Vec<Vec<Point>>, Failure> {
    paths.iter().map(|path| read_points(path)).collect()
}

/// Makes a model of the points of each path.
pub fn make_models(
    paths: &[PathBuf],
    points: &[Vec<Point>],
    fit: Fit,
) -> Result<Vec<Box<dyn SpeedModel>>, Failure> {
    let models = paths
        .iter()
        .zip(points)
        .map(|(path, points)| fit.model(points).map_err(|error| Failure::of_file(path, error)));
    models.collect()
}

/// Reads a surface file and makes a model of it.
pub fn read_surface(path: &Path) -> Result<Surface, Failure> {
    make_surface(path, internal::read_surface(path)?.points)
}

/// Borrows models as the partitioners take them.
pub fn borrow_models(models: &[Box<dyn SpeedModel>]) -> Vec<&dyn SpeedModel> {
    models.iter().map(|model| &**model).collect()
}

/// The columns of [`format_point`].
pub const POINT_COLUMNS: &str = "units|s|± %|reps|units/s";

/// Formats a point. With 0 repetitions its time and its speed are bounds.
pub fn format_point(point: &Point) -> [String; 5] {
    let [longer, slower] = match point.reps {
        0 => [">", "<"],
        _ => [""; 2],
    };
    [
        point.d.to_string(),
        format!("{longer}{:.3e}", point.t_s),
        format!("{:.1}", 100.0 * point.ci_s / point.t_s),
        point.reps.to_string(),
        format!("{slower}{:.4e}", point.speed()),
    ]
}

/// Formats a model: its description, the file that was written, if any, and the table of its points. Prose has at most
/// `width` characters a line.
pub fn format_model(
    description: &str,
    file: Option<&str>,
    table: &TextTable,
    width: usize,
) -> String {
    let file = file.map_or_else(String::new, |file| format!("\n{}", escape(file)));
    let heading = format!("{}{file}", escape(description));
    format!("\n{}{table}", wrap(&heading, width))
}

/// Returns today's date in UTC, as `2026-01-31`.
pub fn today() -> String {
    let mut time = String::new();
    // Writing to a String cannot fail.
    let _ = SystemTime.format_time(&mut Writer::new(&mut time));
    time.truncate("2026-01-31".len());
    time
}

fn make_surface(path: &Path, points: Vec<SurfacePoint>) -> Result<Surface, Failure> {
    let points = accept(path, points)?;
    Surface::from_points(points).map_err(|error| Failure::of_file(path, error))
}

/// Refuses a file without points.
fn accept<P>(path: &Path, points: Vec<P>) -> Result<Vec<P>, Failure> {
    if points.is_empty() { Err(Failure::of_file(path, "holds no points")) } else { Ok(points) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_has_year_month_and_day() {
        let shape = today().replace(|c: char| c.is_ascii_digit(), "0");
        assert_eq!(shape, "0000-00-00");
    }
}
