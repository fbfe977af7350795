//! Points that `isochron measure` prints.

use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use isochron_hierarchy::model::Point;
use serde::Deserialize;

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
    /// Fails if there is none.
    pub fn into_first(self) -> anyhow::Result<Vec<Point>> {
        let first = self.ranks.into_iter().next();
        Ok(first.context("no rank has points")?.points)
    }
}

/// Measures a kernel on one rank by `isochron measure` with these words.
///
/// # Errors
/// Fails if the command fails.
pub fn measure_points(words: &str) -> anyhow::Result<Vec<Point>> {
    let mut command = Command::new("isochron");
    command.arg("measure").args(words.split(' ')).arg("--json");
    command.stdin(Stdio::null());
    let output = command.output().with_context(|| format!("{command:?}"))?;
    ensure!(
        output.status.success(),
        "{command:?}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    let models: MeasuredModels = serde_json::from_slice(&output.stdout)?;
    models.into_first()
}
