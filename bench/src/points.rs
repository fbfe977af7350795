//! Points that `isochron measure` prints.

use std::process::Command;

use anyhow::Context as _;
use isochron_hierarchy::model::Point;
use serde::Deserialize;

use crate::process::run_program;

/// The document of `isochron measure --json`, as far as it is needed.
#[derive(Debug, Deserialize)]
pub struct MeasuredModels {
    pub ranks: Vec<MeasuredModel>,
}

/// The model of a rank.
#[derive(Debug, Deserialize)]
pub struct MeasuredModel {
    pub points: Vec<Point>,
}

impl MeasuredModels {
    /// Returns the points of the first rank.
    ///
    /// # Errors
    /// If there is none.
    pub fn into_first(self) -> anyhow::Result<Vec<Point>> {
        let first = self.ranks.into_iter().next();
        Ok(first.context("no rank has points")?.points)
    }
}

/// Measures a kernel on one rank by `isochron measure` with these words.
///
/// # Errors
/// If the command fails.
pub fn measure_points(words: &str) -> anyhow::Result<Vec<Point>> {
    let words = words.split(' ');
    let (text, _) = run_program(
        Command::new("isochron")
            .arg("measure")
            .args(words)
            .arg("--json"),
    )?;
    let models: MeasuredModels = serde_json::from_str(&text).context(text)?;
    models.into_first()
}
