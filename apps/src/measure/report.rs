//! The points of a campaign as tables and as JSON.

use std::ffi::OsStr;
use std::path::Path;

use isochron_hierarchy::model::{Point, SurfacePoint};
use isochron_hierarchy::printable::{escape, show_name};
use isochron_plot::{Curve, Mark, Plot, color};
use serde::Serialize;

use super::files::PartPoints;
use super::part::{MeasuredPart, Size};
use crate::documents::FormatVersion;
use crate::lines::{count, wrap};
use crate::points::{POINT_COLUMNS, format_model, format_point};
use crate::table::TextTable;

/// The result of a campaign.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct MeasureDocument {
    /// Version of the format.
    pub schema: FormatVersion<1>,
    /// Name of the kernel, or path of its library.
    pub kernel: String,
    /// Options that decide on times and on their precision.
    pub measured_with: String,
    /// Number of sizes that an earlier command had measured.
    pub resumed: usize,
    /// Unusual findings about the hosts, the devices and the model store, one line each.
    pub notices: Vec<String>,
    /// Models of the ranks, one for each rank or for each of its devices.
    pub ranks: Vec<MeasuredModelDocument>,
}

/// The points of a rank's kernel, or of one of its devices.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct MeasuredModelDocument {
    /// The rank.
    rank: usize,
    /// Its host.
    host: String,
    /// Device of the kernel `mxm`; `null` for other kernels.
    device: Option<String>,
    /// Logical core that the kernel was bound to; `null` if it was not, and for a device.
    core: Option<u32>,
    /// CPU quota of the host, in cores, which was taken out of the times; `null` without one.
    quota_cores: Option<f64>,
    /// Its points file; `null` without `--out`.
    file: Option<String>,
    /// Its points, by size.
    points: Vec<MeasuredPoint>,
}

/// A point with its speed.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
struct MeasuredPoint {
    #[serde(flatten)]
    point: Point,
    /// Height and width in blocks, of a surface.
    #[serde(skip_serializing_if = "Option::is_none")]
    sides: Option<Size>,
    /// Units over the time; with `reps` 0 an upper bound.
    units_per_s: f64,
    /// The kernel's own measure of work over the time, such as flop/s.
    work_per_s: f64,
}

impl MeasuredModelDocument {
    /// Makes the model of a part, of its points among all; with them is the work of each size.
    pub fn new(
        part: &MeasuredPart,
        file: Option<String>,
        index: usize,
        points: &[(Size, PartPoints)],
        work: &[f64],
    ) -> Self {
        let is_surface = points.iter().any(|((_, n), _)| *n > 1);
        let measured = points.iter().zip(work);
        let measured = measured.filter_map(|((sides, points), work)| {
            let sides = is_surface.then_some(*sides);
            Some(MeasuredPoint::new(&points[index]?, sides, *work))
        });
        Self {
            rank: part.rank,
            host: part.host.clone(),
            device: part.device.as_ref().map(|device| device.name.clone()),
            core: part.core,
            quota_cores: part.quota_cores,
            file,
            points: measured.collect(),
        }
    }

    /// Describes the part in one line.
    fn describe(&self) -> String {
        let what = self.device.as_ref();
        let what = what.map_or(String::new(), |device| format!("{device} of "));
        let place = match (&self.device, self.core) {
            (Some(_), _) => String::new(),
            (None, Some(core)) => format!(", core {core}"),
            (None, None) => ", not bound".to_owned(),
        };
        let quota = self.quota_cores;
        let quota = quota
            .map_or(String::new(), |cores| format!(", CPU quota of {cores:.2} cores taken out"));
        format!("{what}rank {} on {}{place}{quota}", self.rank, self.host)
    }
}

impl MeasuredPoint {
    fn new(point: &SurfacePoint, sides: Option<Size>, work: f64) -> Self {
        let point =
            Point { d: point.m * point.n, t_s: point.t_s, reps: point.reps, ci_s: point.ci_s };
        Self { point, sides, units_per_s: point.speed(), work_per_s: work / point.t_s }
    }
}

impl MeasureDocument {
    /// Formats the text for people. Prose has at most `width` characters a line.
    pub fn format(&self, width: usize) -> String {
        let heading = format!("kernel {}: {}", escape(&self.kernel), self.measured_with);
        let mut text = wrap(&heading, width);
        for model in &self.ranks {
            let (file, table) = (model.file.as_deref(), model.make_table());
            text += &format_model(&model.describe(), file, &table, width);
        }
        if self.resumed > 0 {
            let were = if self.resumed == 1 { "was" } else { "were" };
            let sizes = count(self.resumed as u64, "size");
            text += &wrap(&format!("\n{sizes} {were} measured before and kept"), width);
        }
        for notice in &self.notices {
            text += &wrap(notice, width);
        }
        text
    }
}

impl MeasureDocument {
    /// Makes the plot of speed against size, with a curve for each model.
    pub fn make_plot(&self) -> Plot {
        let curves = self.ranks.iter().enumerate();
        let kernel = Path::new(&self.kernel).file_name();
        let kernel = kernel.map_or(self.kernel.as_str().into(), OsStr::to_string_lossy);
        Plot {
            title: format!("kernel {}", show_name(&kernel)),
            x_name: "size, units",
            y_name: "10⁹ op/s",
            curves: curves.map(|(index, model)| model.make_curve(index)).collect(),
            marks: Vec::new(),
        }
    }
}

impl MeasuredModelDocument {
    fn make_curve(&self, index: usize) -> Curve {
        let points = self.points.iter().filter(|measured| measured.point.reps > 0);
        let marks: Vec<Mark> = points
            .map(|measured| {
                let Point { d, t_s, ci_s, .. } = measured.point;
                Mark::of_speed(d as f64, measured.work_per_s * t_s / 1e9, t_s, ci_s)
            })
            .collect();
        Curve {
            name: show_name(&self.describe()).into_owned(),
            symbol: '*',
            color: color::of_series(index),
            points: marks.iter().map(|mark| (mark.x, mark.y)).collect(),
            marks,
            ..Curve::default()
        }
    }

    fn make_table(&self) -> TextTable {
        let mut table = TextTable::new(0, &format!("{POINT_COLUMNS}|10⁹ op/s"));
        for measured in &self.points {
            let mut cells = format_point(&measured.point);
            if let Some((m, n)) = measured.sides {
                cells[0] = format!("{m}×{n}");
            }
            let bound = if measured.point.reps == 0 { "<" } else { "" };
            let work = format!("{bound}{:.3}", measured.work_per_s / 1e9);
            table.add_row(cells.into_iter().chain([work]));
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_marked_and_the_text_fits() {
        let part = MeasuredPart {
            rank: 1,
            host: "vm".to_owned(),
            core: Some(3),
            quota_cores: Some(0.5),
            ..MeasuredPart::default()
        };
        let points = [(4, 3), (8, 0)].map(|(m, reps)| {
            let point = SurfacePoint { m, n: 1, t_s: 0.5, reps, ci_s: 0.005 };
            ((m, 1), vec![None, Some(point)])
        });
        let file = Some("points/rank1-gemm.points".to_owned());
        let document = MeasureDocument {
            schema: FormatVersion,
            kernel: "gemm".to_owned(),
            measured_with: "block 32, 3 to 100 repetitions".to_owned(),
            resumed: 1,
            notices: vec!["a notice".to_owned()],
            ranks: vec![MeasuredModelDocument::new(&part, file, 1, &points, &[2e9, 4e9])],
        };
        let text = document.format(80);
        for part in [
            "rank 1 on vm, core 3, CPU quota of 0.50 cores taken out",
            "8.0000e0",
            ">5.000e-1",
            "<8.000",
            "1 size was measured",
            "a notice",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        let curves = document.make_plot().curves;
        assert_eq!(curves[0].marks.len(), 1, "a bound is not drawn");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}
