//! Options that several commands have in common.

use std::path::PathBuf;

use clap::Args;
use isochron_core::session::{Session, SessionBuilder};
use isochron_devices::Grouping;
use isochron_hierarchy::balance::BalanceConfig;
use isochron_hierarchy::model::Fit;
use isochron_hierarchy::partition::Partitioner;

use crate::numbers::{parse_positive, parse_whole};

/// The devices of each rank's node.
#[derive(Args)]
pub struct NodeArguments {
    /// Platform file with the devices of each rank's node [default: those of its host]
    #[arg(long, value_name = "FILE")]
    pub platform: Option<PathBuf>,
    /// Cores that form one device, in place of the platform file's rule: auto (by NUMA domain and
    /// kind), package, numa, kind or node
    #[arg(long)]
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
    /// Imbalance max |t_i - t_j| / t_i, beyond the noise of the times, at which measuring ends
    #[arg(long, value_name = "PART", default_value_t = 0.05, value_parser = parse_positive)]
    pub epsilon: f64,
    /// Most measured divisions
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = parse_whole::<u32, 1>)]
    pub max_iterations: u32,
    /// Model of the measured points: cpm, piecewise-speed, piecewise-time, akima or raw-piecewise
    #[arg(long, default_value_t = Fit::default())]
    fit: Fit,
    /// Partitioner by these models: gpa, npa or hpopta
    #[arg(long, default_value_t = Partitioner::default())]
    partitioner: Partitioner,
}

impl BalancingArguments {
    /// Returns these settings, with the defaults of all others.
    pub fn make_config(&self) -> BalanceConfig {
        BalanceConfig {
            epsilon: self.epsilon,
            max_iterations: self.max_iterations,
            fit: self.fit,
            partitioner: self.partitioner,
            ..BalanceConfig::default()
        }
    }
}
