//! The report of `isochron mxm`, as far as campaigns read it.

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::statistics::nan_if_null;

/// The report of a multiplication. Keys that no campaign reads are kept as they are.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MxmReport {
    /// Seconds of the multiplication alone.
    pub wall_s: f64,
    /// Seconds of the work at the sum of the speeds that the devices showed.
    #[serde(deserialize_with = "nan_if_null")]
    pub ideal_s: f64,
    /// Speed in 10⁹ flop/s; missing in a brief report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gflops: Option<f64>,
    /// Imbalance of the busy times, max |t_i - t_j| / t_i.
    #[serde(deserialize_with = "nan_if_null")]
    pub imbalance: f64,
    /// `true` if the result passed its check; missing in a brief report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<bool>,
    /// The nodes by rank.
    pub nodes: Vec<NodeSummary>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// A node of a report.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NodeSummary {
    /// Its devices.
    pub devices: Vec<DeviceSummary>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// A device of a report.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DeviceSummary {
    /// `cpu` or `cuda`.
    pub kind: String,
    /// Units of work.
    pub units: f64,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl MxmReport {
    /// Parses the output of `isochron mxm --json`.
    ///
    /// # Errors
    /// If it is no report, or of a product that did not pass its check.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let report: Self = serde_json::from_str(text).context("the report")?;
        ensure!(report.verified == Some(true), "the result is not verified");
        Ok(report)
    }

    /// Returns the multiplication's time over the ideal one.
    pub fn over_ideal(&self) -> f64 {
        self.wall_s / self.ideal_s
    }

    /// Returns the devices of all nodes.
    pub fn devices(&self) -> impl Iterator<Item = &DeviceSummary> {
        self.nodes.iter().flat_map(|node| &node.devices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_report_without_a_good_check_is_refused() -> anyhow::Result<()> {
        let device = json!({ "kind": "cpu", "units": 3.0, "threads": [1], "name": "cpu0" });
        let node = json!({ "busy_s": 1.0, "bytes": 8, "devices": [device], "host": "a" });
        let report = json!({
            "m": 8, "block": 2, "wall_s": 1.5, "balance_s": 0.5, "ideal_s": 1.0, "gflops": 2.0, "imbalance": null,
            "balance": { "iterations": 2, "converged": true, "why": "balanced" }, "verified": true, "nodes": [node],
            "links": null, "version": "1",
        });
        let read = MxmReport::parse(&report.to_string())?;
        assert!(read.imbalance.is_nan() && (read.over_ideal() - 1.5).abs() < 1e-12);
        let kept = serde_json::to_value(&read)?;
        assert_eq!(
            (&kept["links"], &kept["nodes"][0]["host"]),
            (&Value::Null, &json!("a"))
        );
        let wrong = report
            .to_string()
            .replace("\"verified\":true", "\"verified\":false");
        assert!(MxmReport::parse(&wrong).is_err());
        Ok(())
    }
}
