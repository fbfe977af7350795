//! Models from files.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use isochron_hierarchy::model::{Fit, ModelFile, Point, SpeedModel, Surface, SurfaceFile};
use isochron_hierarchy::partition::PartitionError;

use crate::failure::Failure;

/// A failure to use what `path` names.
pub fn failed(path: &Path, reason: impl Display) -> Failure {
    Failure::input(format!("{}: {reason}", path.display()))
}

/// The failure of a partitioner, with the file that it comes from, or else with `flag`.
pub fn refused(paths: &[PathBuf], flag: &str, error: &PartitionError) -> Failure {
    let path = match error {
        PartitionError::InvalidModel { index, .. } | PartitionError::InvalidSpeed { index, .. } => {
            paths.get(*index)
        }
        _ => None,
    };
    match path {
        Some(path) => failed(path, error),
        None => Failure::input(format!("{flag}: {error}")),
    }
}

/// What a file may hold.
pub enum Measured {
    /// Times of sizes.
    Points(Vec<Point>),
    /// Times of heights and widths.
    Surface(Surface),
}

/// Reads a points file or a surface file, whichever it says it is.
pub fn measured(path: &Path) -> Result<Measured, Failure> {
    let text = text(path)?;
    if names_surface(&text) {
        surface_of(path, &text).map(Measured::Surface)
    } else {
        points_of(path, &text).map(Measured::Points)
    }
}

/// Reads a points file that holds points.
pub fn read(path: &Path) -> Result<Vec<Point>, Failure> {
    points_of(path, &text(path)?)
}

/// Reads points files and makes a model of each.
pub fn models<P: AsRef<Path>>(paths: &[P], fit: Fit) -> Result<Vec<Box<dyn SpeedModel>>, Failure> {
    let model = |path: &P| {
        let path = path.as_ref();
        fit.model(&read(path)?).map_err(|error| failed(path, error))
    };
    paths.iter().map(model).collect()
}

/// Reads a surface file and makes a model of it.
pub fn surface(path: &Path) -> Result<Surface, Failure> {
    surface_of(path, &text(path)?)
}

/// What the partitioners take models as.
pub fn borrowed(models: &[Box<dyn SpeedModel>]) -> Vec<&dyn SpeedModel> {
    models.iter().map(|model| &**model).collect()
}

fn text(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| failed(path, error))
}

/// Whether a header above the points names the format of surfaces, of any version.
fn names_surface(text: &str) -> bool {
    let lines = text.trim_start_matches('\u{feff}').lines().map(str::trim);
    let headers = lines
        .filter(|line| !line.is_empty())
        .map_while(|line| line.strip_prefix('#'));
    headers
        .filter_map(|header| header.split_once(':'))
        .any(|(key, value)| {
            key.trim() == "format" && value.trim().split(' ').next() == Some("isochron-surface")
        })
}

fn points_of(path: &Path, text: &str) -> Result<Vec<Point>, Failure> {
    let file = ModelFile::parse(text).map_err(|error| failed(path, error))?;
    if file.points.is_empty() {
        return Err(failed(path, "holds no points"));
    }
    Ok(file.points)
}

fn surface_of(path: &Path, text: &str) -> Result<Surface, Failure> {
    let file = SurfaceFile::parse(text).map_err(|error| failed(path, error))?;
    if file.points.is_empty() {
        return Err(failed(path, "holds no points"));
    }
    Surface::from_points(file.points).map_err(|error| failed(path, error))
}

#[cfg(test)]
mod tests {
    use super::names_surface;

    #[test]
    fn the_format_header_above_the_points_tells_surfaces() {
        for text in [
            "# format: isochron-surface 1\n4 4 1\n",
            "\u{feff}\r\n# device: gpu\r\n\r\n#format:isochron-surface 2\r\n",
        ] {
            assert!(names_surface(text), "{text:?}");
        }
        for text in [
            "",
            "4 1\n",
            "# format: isochron-points 1\n",
            "# a format: isochron-surface 1\n",
            "4 1\n# format: isochron-surface 1\n",
        ] {
            assert!(!names_surface(text), "{text:?}");
        }
    }
}
