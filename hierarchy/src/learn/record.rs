//! Input, decisions and results of a run of [`Adaptive`](super::Adaptive).

use serde::{Deserialize, Serialize};

use crate::times::Sample;

/// The reason for a division.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ChangeReason {
    /// The first division of the run.
    First,
    /// It saves more time than the change costs.
    Saving,
    /// A part became slower or faster, and the change saves more than it costs.
    Drift,
    /// The configuration forces changes.
    Forced,
}

/// A division that the run changed to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DivisionChange {
    /// Steps done before it.
    pub step: u64,
    /// The reason.
    pub why: ChangeReason,
    /// Units of each part.
    pub units: Vec<u64>,
    /// Seconds that the steps left are expected to take less with it; 0 for the first division.
    pub saving_s: f64,
    /// Seconds that the change costs.
    pub cost_s: f64,
    /// Expected seconds of a step with it.
    pub step_s: f64,
}

/// A lasting change of a part's speed in mid-run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Drift {
    /// Index of the part.
    pub part: usize,
    /// Steps done before the first one that it affects.
    pub step: u64,
    /// Time of the part after it over that before; above 1 if the part became slower.
    pub factor: f64,
}

/// The model of a part's time at the end, `t(d) = fixed_s + d / v(d)`, and with a capacity
/// `+ g · max(0, d - capacity)`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct PartModel {
    /// Seconds of a step before its first unit. In a multiplication a unit is an element of C, and a step has the
    /// width `panel`.
    pub fixed_s: f64,
    /// Units per second beyond these.
    pub units_per_s: f64,
    /// Least and largest number of units at which the speed may begin to fall; `None` if it does not fall.
    pub capacity: Option<[f64; 2]>,
    /// Units for which the time is given: those of the last step, or the largest looked at.
    pub units: f64,
    /// Seconds that these units take.
    pub time_s: f64,
    /// Half-width of the 95 % interval of that time, in seconds.
    pub ci_s: f64,
}

/// The times of a measurement or of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Observed {
    /// `true` if the parts were only measured; `false` for a step of the multiplication.
    pub is_measurement: bool,
    /// Number of the burst; measurements of one burst share disturbances.
    pub burst: u64,
    /// The time of each part's units; without meaning for a part without units.
    pub samples: Vec<Sample>,
}

impl Observed {
    /// Takes the undisturbed times of a measurement or of a step: of each part its units and seconds.
    pub fn undisturbed(is_measurement: bool, burst: u64, units: &[u64], times_s: &[f64]) -> Self {
        let samples = units.iter().zip(times_s);
        Self {
            is_measurement,
            burst,
            samples: samples.map(|(&d, &t_s)| Sample::measured(d, t_s, 1, 0.0)).collect(),
        }
    }

    /// Returns the units of each part.
    pub fn list_units(&self) -> Vec<u64> {
        self.samples.iter().map(|sample| sample.units).collect()
    }
}
