//! Traced models as tables and as JSON.

use std::path::Path;

use isochron_hierarchy::model::Point;
use isochron_hierarchy::printable::escape;
use serde::Serialize;

use crate::documents::FormatVersion;
use crate::lines::wrap;
use crate::points::{POINT_COLUMNS, format_model, format_point};
use crate::table::TextTable;

/// The models of some traces.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct TraceDocument {
    /// Version of the format.
    pub schema: FormatVersion<1>,
    /// Event around an iteration.
    pub event: String,
    /// Options that decide on times and sizes.
    pub measured_with: String,
    /// Models of the processes.
    pub models: Vec<TracedDocument>,
    /// Iterations that were left out, and sizes and times that may be wrong.
    pub notices: Vec<String>,
}

/// The model of a process, or of one of its threads.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct TracedDocument {
    /// Process (`rank0`, `process12`), or one of several threads with iterations (`rank0-thread1`).
    name: String,
    /// Its points file; `null` without `--out`.
    file: Option<String>,
    /// Its points, by size: a point counts the iterations of a size. Calls that do not count are not in their time,
    /// and `ci_s` is 0 of a single iteration.
    points: Vec<TracedPoint>,
}

/// A point with its speed.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
struct TracedPoint {
    #[serde(flatten)]
    point: Point,
    /// Units over the time.
    units_per_s: f64,
}

impl TracedDocument {
    /// Describes a model and its file.
    pub fn new(name: String, file: Option<&Path>, points: Vec<Point>) -> Self {
        let points =
            points.into_iter().map(|point| TracedPoint { units_per_s: point.speed(), point });
        let file = file.map(|path| path.display().to_string());
        Self { name, file, points: points.collect() }
    }
}

impl TraceDocument {
    /// Formats the text for people. Prose has at most `width` characters a line.
    pub fn format(&self, width: usize) -> String {
        let mut text = wrap(&escape(&self.measured_with), width);
        for model in &self.models {
            let mut table = TextTable::new(0, POINT_COLUMNS);
            for TracedPoint { point, .. } in &model.points {
                table.add_row(format_point(point));
            }
            text += &format_model(&model.name, model.file.as_deref(), &table, width);
        }
        for notice in &self.notices {
            text += &wrap(&format!("\n{}", escape(notice)), width);
        }
        text
    }
}
