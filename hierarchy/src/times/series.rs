//! The repetitions of one size.

use serde::{Deserialize, Serialize};

/// The repetitions of one size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// Elements of C, bytes of a message, or units of a kernel.
    pub units: u64,
    /// Seconds of each repetition that is kept.
    pub seconds: Vec<f64>,
    /// `true` for a size that was given up: it takes at least these seconds.
    #[serde(default)]
    pub at_least: bool,
}

impl Series {
    /// Makes the series of measured times.
    pub fn measured(units: u64, seconds: Vec<f64>) -> Self {
        Self { units, seconds, at_least: false }
    }

    /// Adds a measured time to the series of its size, or a new series for it. The sizes ascend.
    pub fn add_time(all: &mut Vec<Self>, units: u64, seconds: f64) {
        match all.binary_search_by_key(&units, |series| series.units) {
            Ok(index) => all[index].seconds.push(seconds),
            Err(index) => all.insert(index, Self::measured(units, vec![seconds])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_added_by_size() {
        let mut all = Vec::new();
        for (units, seconds) in [(7, 1.0), (5, 2.0), (7, 3.0)] {
            Series::add_time(&mut all, units, seconds);
        }
        let expected = [(5, vec![2.0]), (7, vec![1.0, 3.0])];
        assert_eq!(all, expected.map(|(units, seconds)| Series::measured(units, seconds)));
    }
}
