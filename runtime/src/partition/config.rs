//! The settings of benchmarks, and of partitions that are made by them.

use isochron_devices::MeasureConfig;
use isochron_hierarchy::balance::{BalanceConfig, Strategy};
use isochron_hierarchy::model::Fit;
use isochron_hierarchy::partition::Partitioner;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::plan::{check_epsilon, refuse_hpopta};

/// The settings of a benchmark, the same on all ranks.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BenchmarkConfig {
    /// Precision to reach, and its limits.
    #[serde(flatten)]
    pub measure: MeasureConfig,
    /// Lets the calling thread run where it may, for kernels that compute with several threads. Otherwise it is bound to one core
    /// while the kernel runs.
    pub unbound: bool,
}

/// The settings of a partition, the same on all ranks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PartitionConfig {
    /// Imbalance `max |t_i - t_j| / t_i` beyond the noise of the times at which it ends.
    pub epsilon: f64,
    /// Most measured divisions, at least 1.
    pub max_iterations: u32,
    /// Model of each rank's points.
    pub fit: Fit,
    /// Partitioner by these models; not HPOPTA, which takes measured times alone.
    pub partitioner: Partitioner,
    /// Units come in multiples of this number, at least 1. The rest of the total goes to one rank.
    pub granule: u64,
    /// Precision of each benchmark, and its limits.
    #[serde(flatten)]
    pub measure: MeasureConfig,
    /// As [`BenchmarkConfig::unbound`].
    pub unbound: bool,
}

impl Default for PartitionConfig {
    fn default() -> Self {
        let BalanceConfig { epsilon, max_iterations, fit, partitioner, .. } =
            BalanceConfig::default();
        let BenchmarkConfig { measure, unbound } = BenchmarkConfig::default();
        Self { epsilon, max_iterations, fit, partitioner, granule: 1, measure, unbound }
    }
}

impl PartitionConfig {
    /// Returns the settings of each benchmark.
    pub(super) fn benchmark(&self) -> BenchmarkConfig {
        BenchmarkConfig { measure: self.measure, unbound: self.unbound }
    }

    /// Returns the settings of the algorithm.
    pub(super) fn balance(&self) -> BalanceConfig {
        BalanceConfig {
            strategy: Strategy::Fpm,
            epsilon: self.epsilon,
            max_iterations: self.max_iterations,
            fit: self.fit,
            partitioner: self.partitioner,
            reps: self.measure.min_reps,
            ..BalanceConfig::default()
        }
    }

    /// Checks the settings for this number of models of the program's own, on `ranks` ranks.
    pub(super) fn check(&self, models: usize, ranks: usize) -> Result<(), Error> {
        check_epsilon(self.epsilon)?;
        self.measure.validate()?;
        refuse_hpopta(self.partitioner)?;
        let at_least_1 = "use at least 1";
        if self.max_iterations == 0 {
            return Err(Error::parameter("max_iterations", 0, at_least_1));
        }
        if self.granule == 0 {
            return Err(Error::parameter("granule", 0, at_least_1));
        }
        if models == 0 {
            return Ok(());
        }
        if models != ranks {
            let reason = format!("there are {ranks} ranks: give a model for each, or none");
            return Err(Error::parameter("models", models, reason));
        }
        let chosen = (self.fit, self.partitioner);
        if chosen != (Fit::default(), Partitioner::default()) {
            let reason = "models of the program divide by gpa: leave fit and partitioner out";
            return Err(Error::parameter("models", models, reason));
        }
        Ok(())
    }
}
