//! Times and their statistics: samples, measurements, noise, outliers, drift and shrinkage.
//!
//! The module knows neither parts nor steps. The numbers that decide, such as the deviation from which a time counts as
//! disturbed, come from its callers.
//!
//! | type | stands for |
//! |---|---|
//! | [`Sample`] | the time of some units: a mean, a prediction or a lower bound |
//! | [`Measurement`] | a sample with the repetitions behind it and the end of measuring |
//! | [`Series`] | the repetitions of one size, as the model store keeps them |
//! | [`LogTime`] | the logarithm of a time with its variance, as learner and store compute with it |
//!
//! Times elsewhere are rows of a file or of a model ([`Point`](crate::model::Point)), what the clocks say of an update
//! (`UpdateTime` of the devices), or documents and results.

mod drift;
mod expectation;
mod log_time;
mod measurement;
mod noise;
mod outliers;
mod running_mean;
mod sample;
mod series;
mod shrink;
mod spread;

pub use drift::DriftRule;
pub(crate) use drift::{Deviation, Shift, SizeLevel, Watch};
pub(crate) use expectation::expect_longest;
pub use log_time::{LogTime, find_noise};
pub(crate) use log_time::{drop_outrun, find_common, merge_sizes};
pub use measurement::{MeasureOutcome, Measurement};
pub(crate) use noise::Noise;
pub use noise::NoiseRule;
pub use outliers::{OutlierRule, SortedTimes, find_scatter};
pub use running_mean::{RunningMean, find_median, looks_normal};
pub use sample::{Quality, Sample};
pub use series::Series;
pub use shrink::shrink_alike;
pub(crate) use spread::{expected_range, pool_errors};

/// Quantile 0.975 of the normal distribution: half of an interval of 95 % in standard deviations.
pub const QUANTILE: f64 = 1.96;
