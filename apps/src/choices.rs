//! Options that several commands have in common.

use std::fmt::Display;
use std::path::PathBuf;

use clap::Args;
use isochron_core::Error;
use isochron_core::session::{Session, SessionBuilder};
use isochron_devices::Grouping;
use isochron_hierarchy::balance::BalanceConfig;
use isochron_hierarchy::model::Fit;
use isochron_hierarchy::partition::Partitioner;

use crate::named_values::name_all;
use crate::numbers::{parse_positive, parse_whole};

/// The devices of each rank's node.
#[derive(Args)]
pub struct NodeArguments {
    /// Platform file with the devices of each rank's node [default: those of its host]
    #[arg(long, value_name = "FILE")]
    pub platform: Option<PathBuf>,
    /// Cores that form one device, in place of the platform file's rule: auto (by NUMA domain and
    /// kind), package, numa, kind or node
    #[arg(long, value_parser = name_all::<Grouping>(), hide_possible_values = true)]
    pub group: Option<Grouping>,
}

impl NodeArguments {
    /// Begins to set up a session with these devices.
    pub fn set_up_session(&self) -> SessionBuilder {
        let mut settings = Session::builder();
        if let Some(path) = &self.platform {
            settings = settings.platform_file(path);
        }
        match self.group {
            Some(grouping) => settings.grouping(grouping),
            None => settings,
        }
    }
}

/// The limits of balancing, and its models and partitioner.
#[derive(Args)]
pub struct BalancingArguments {
    /// Imbalance max |t_i - t_j| / t_i, beyond the noise of the times, at which measuring ends [default: 0.05]
    #[arg(long, value_name = "PART", value_parser = parse_positive)]
    epsilon: Option<f64>,
    /// Most measured divisions [default: 10]
    #[arg(long, value_name = "N", value_parser = parse_whole::<u32, 1>)]
    max_iterations: Option<u32>,
    /// Model of the measured points: cpm, piecewise-speed, piecewise-time, akima or raw-piecewise [default:
    /// piecewise-speed]
    #[arg(long, value_parser = name_all::<Fit>(), hide_possible_values = true)]
    fit: Option<Fit>,
    /// Partitioner by these models: gpa or npa, or in mxm hpopta, which divides the columns of C by measured times of any
    /// shape alone [default: gpa]
    #[arg(long, value_parser = name_all::<Partitioner>(), hide_possible_values = true)]
    partitioner: Option<Partitioner>,
}

impl BalancingArguments {
    /// Returns these settings, with the defaults of all others.
    pub fn make_config(&self) -> BalanceConfig {
        let defaults = BalanceConfig::default();
        let partitioner = self.partitioner.unwrap_or(defaults.partitioner);
        let fit = match partitioner {
            Partitioner::Hpopta => Fit::RawPiecewise,
            _ => defaults.fit,
        };
        BalanceConfig {
            epsilon: self.epsilon.unwrap_or(defaults.epsilon),
            max_iterations: self.max_iterations.unwrap_or(defaults.max_iterations),
            fit: self.fit.unwrap_or(fit),
            partitioner,
            ..defaults
        }
    }

    /// Lists the options with the values that they were given.
    pub fn list_given(&self) -> Vec<GivenOption> {
        vec![
            give("epsilon", self.epsilon),
            give("max-iterations", self.max_iterations),
            give("fit", self.fit),
            give("partitioner", self.partitioner),
        ]
    }
}

/// The name of an option, and the value that it was given.
pub type GivenOption = (&'static str, Option<String>);

/// Returns an option with its value.
pub fn give(name: &'static str, value: Option<impl ToString>) -> GivenOption {
    (name, value.map(|value| value.to_string()))
}

/// Refuses the first of these options that was given, for this reason.
pub fn refuse_given(
    given: impl IntoIterator<Item = GivenOption>,
    reason: &str,
) -> Result<(), Error> {
    let mut given = given.into_iter().filter_map(|(name, value)| Some((name, value?)));
    given.next().map_or(Ok(()), |(name, value)| Err(Error::parameter(name, value, reason)))
}

/// Refuses the first of these options that the chosen strategy does not read. `readers` has the strategies that read an option,
/// for each that not all read.
///
/// # Errors
/// Returns [`Error::Parameter`] with the option.
pub fn check_readers<S: Display + PartialEq>(
    strategy: S,
    readers: &[(&str, &[S])],
    given: impl IntoIterator<Item = GivenOption>,
) -> Result<(), Error> {
    for (name, value) in given {
        let of_option = readers.iter().find(|(option, _)| *option == name);
        let Some((value, (_, all))) = value.zip(of_option) else {
            continue;
        };
        if !all.contains(&strategy) {
            let reason = format!("an option of {}, not of {strategy}", name_strategies(all));
            return Err(Error::parameter(name, value, reason));
        }
    }
    Ok(())
}

/// Names strategies in a sentence.
pub fn name_strategies(strategies: &[impl Display]) -> String {
    match strategies {
        [only] => format!("strategy {only}"),
        [before @ .., last] => {
            let before: Vec<String> = before.iter().map(ToString::to_string).collect();
            format!("strategies {} and {last}", before.join(", "))
        }
        [] => "no strategy".to_owned(),
    }
}
