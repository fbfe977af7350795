//! Strategies, and the conditions that end a balancing.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, VariantArray};

use super::BalanceError;
use crate::layout::Arrangement;
use crate::learn::Tuning;
use crate::model::Fit;
use crate::partition::Partitioner;

/// A way to seek the balance.
///
/// # References
/// Clarke et al. 2012, section 4, compares the first four.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[derive(Display, EnumString, VariantArray, strum::VariantNames)]
#[strum(serialize_all = "kebab-case", parse_err_ty = BalanceError, parse_err_fn = unknown_strategy)]
pub enum Strategy {
    /// The same amount for every part; nothing is measured.
    Homogeneous,
    /// One measurement of an even division, then in proportion to the speeds it showed.
    SingleCpm,
    /// In proportion to the speeds that the last division showed, again and again.
    MultiCpm,
    /// By functional performance models that every measurement adds a point to.
    Fpm,
    /// By models that the steps of the run refine ([`learn`](crate::learn)), after a short look. Where all
    /// is decided before the run, as by [`Dpa`](super::Dpa), it is [`Fpm`](Self::Fpm).
    #[default]
    Adaptive,
}

impl Strategy {
    /// Returns the rule by which it divides.
    pub fn rule(self) -> Rule {
        match self {
            Self::Homogeneous => Rule::Even,
            Self::SingleCpm => Rule::Constant { is_single: true },
            Self::MultiCpm => Rule::Constant { is_single: false },
            Self::Fpm => Rule::Functional { learns: false },
            Self::Adaptive => Rule::Functional { learns: true },
        }
    }
}

fn unknown_strategy(name: &str) -> BalanceError {
    BalanceError::UnknownStrategy(name.to_owned())
}

/// A rule by which measured times divide work. [`Strategy::rule`] tells that of a strategy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The same amount for every part, whatever the times.
    Even,
    /// In proportion to the last measured speeds.
    Constant {
        /// `true` if the first measured division is the only one.
        is_single: bool,
    },
    /// By functional performance models of the parts.
    Functional {
        /// `true` if the steps of the run refine the models. A balancing before the run is the same.
        learns: bool,
    },
}

impl Rule {
    /// Returns `true` if the steps of the run refine the models.
    pub fn learns(self) -> bool {
        self == Self::Functional { learns: true }
    }
}

/// The division that [`Strategy::Fpm`] measures first, after each part's first small point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum BalanceStart {
    /// The even one, as in the papers.
    Even,
    /// The division that the first points suggest. Between unlike parts the even division is the most
    /// expensive measurement: the slowest part works on as much as the fastest.
    #[default]
    FirstPoints,
}

/// The settings of a balancing.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct BalanceConfig {
    /// The balancing strategy.
    pub strategy: Strategy,
    /// Imbalance that counts as balanced.
    pub epsilon: f64,
    /// Most measured divisions, without the first small points; at least one is measured.
    pub max_iterations: u32,
    /// Updates of the run that the caller knows of, each a run of the measured kernel; 0 if unknown, or if the plan counts
    /// them. If they are known, balancing ends as soon as a further measurement would cost more than it can save.
    pub steps: u64,
    /// Fewest repetitions of a measurement that the caller expects; in a plan `made.measure` has those that were asked for.
    /// Each is one kernel run, or several if the [cost](crate::times::Sample::cost_s) of earlier measurements says so.
    pub reps: u32,
    /// First measurement of `fpm`: an `even` division, or `first-points`.
    pub start: BalanceStart,
    /// Model made of the points, if the strategy is `fpm`.
    pub fit: Fit,
    /// Partitioner that divides by these models.
    pub partitioner: Partitioner,
    /// Arrangement of the areas.
    pub layout: Arrangement,
    /// Settings of `adaptive`, as the caller gave them. A unit is an element of C.
    pub adaptive: Tuning,
}

impl BalanceConfig {
    /// Returns the settings for the devices of a node that is itself balanced by these: half the tolerance,
    /// because a node's time is known no better than its devices are balanced.
    ///
    /// # Deviations
    /// * **Tolerance of devices**: the paper leaves ε₁ and ε₂ open (Clarke et al. 2012, section 3). Here `ε₂ = ε₁/2`,
    ///   because nodes could not be balanced to ε₁ by times that are themselves off by as much.
    ///
    /// # References
    /// Clarke et al. 2012, section 3: ε₁ between nodes (INPA, step 6), ε₂ between devices (IDPA, step 4).
    #[must_use]
    pub fn for_devices(self) -> Self {
        Self { epsilon: 0.5 * self.epsilon, ..self }
    }

    /// Returns the rule of the strategy.
    pub fn rule(&self) -> Rule {
        self.strategy.rule()
    }
}

impl Default for BalanceConfig {
    /// Learning in the run. Before it FPM to 5 % in at most 10 iterations, 3 repetitions a measurement, the
    /// number of steps unknown; piecewise linear speeds, GPA and BR, as in the papers.
    fn default() -> Self {
        Self {
            strategy: Strategy::default(),
            epsilon: 0.05,
            max_iterations: 10,
            steps: 0,
            reps: 3,
            start: BalanceStart::FirstPoints,
            fit: Fit::default(),
            partitioner: Partitioner::default(),
            layout: Arrangement::default(),
            adaptive: Tuning::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_balanced_more_closely_than_nodes() {
        let nodes = BalanceConfig::default();
        let devices = nodes.for_devices();
        assert_eq!(devices.epsilon, 0.025);
        assert_eq!(BalanceConfig { epsilon: nodes.epsilon, ..devices }, nodes);
    }

    #[test]
    fn strategies_have_one_name_in_text_and_in_json() {
        for &strategy in Strategy::VARIANTS {
            assert_eq!(strategy.to_string().parse(), Ok(strategy));
            let json = serde_json::to_string(&strategy).expect("serialises");
            assert_eq!(json, format!("\"{strategy}\""));
        }
        assert!("cpm".parse::<Strategy>().is_err());
    }
}
