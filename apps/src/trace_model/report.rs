//! Traced models as tables and as JSON.

use std::fmt::Write as _;
use std::path::PathBuf;

use isochron_hierarchy::model::Point;
use serde::Serialize;

use super::iterations::TracedModel;
use crate::lines::wrap;
use crate::table::TextTable;

/// The models of some traces.
#[derive(Serialize)]
pub struct TraceDocument {
    pub schema: u32,
    /// The event around iterations.
    pub event: String,
    /// The options that decide on times and sizes.
    pub measured_with: String,
    pub models: Vec<TracedDocument>,
    /// Iterations that were left out, and traces that may be incomplete.
    pub notices: Vec<String>,
}

/// The model of a process, thread or host.
#[derive(Serialize)]
pub struct TracedDocument {
    name: String,
    host: Option<String>,
    /// Its points file.
    file: Option<String>,
    points: Vec<TracedPoint>,
}

/// A point with its speed.
#[derive(Serialize)]
struct TracedPoint {
    #[serde(flatten)]
    point: Point,
    units_per_s: f64,
}

impl TracedDocument {
    /// Describes a model and its file.
    pub fn new((model, file): (TracedModel, Option<PathBuf>)) -> Self {
        let points = model.points.into_iter().map(|point| TracedPoint {
            units_per_s: point.speed(),
            point,
        });
        Self {
            name: model.name,
            host: model.host,
            file: file.map(|path| path.display().to_string()),
            points: points.collect(),
        }
    }
}

impl TraceDocument {
    /// Formats the text for people. Prose has at most `width` characters a line.
    pub fn format(&self, width: usize) -> String {
        let mut text = wrap(&self.measured_with, width);
        for model in &self.models {
            let host = model.host.as_ref().filter(|host| **host != model.name);
            let mut above = model.name.clone();
            above += &host.map(|host| format!(" on {host}")).unwrap_or_default();
            if let Some(file) = &model.file {
                above += &format!("\n{file}");
            }
            let mut table = TextTable::new(0, "units|s|± %|reps|units/s");
            for TracedPoint { point, units_per_s } in &model.points {
                table.add_row([
                    point.d.to_string(),
                    format!("{:.3e}", point.t_s),
                    format!("{:.1}", 100.0 * point.ci_s / point.t_s),
                    point.reps.to_string(),
                    format!("{units_per_s:.4e}"),
                ]);
            }
            // Writing to a String cannot fail.
            let _ = write!(text, "\n{}{table}", wrap(&above, width));
        }
        for notice in &self.notices {
            text += &wrap(&format!("\n{notice}"), width);
        }
        text
    }
}
