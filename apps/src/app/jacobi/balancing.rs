//! The strategies that divide the rows.

use std::sync::Arc;

use isochron_core::Error;
use isochron_core::comm::{Comm, share_outcome};
use isochron_core::hierarchy::balance::{
    BalanceConfig, BalanceError, BalanceStep, Dpa, Strategy, imbalance,
};
use isochron_core::hierarchy::model::Fit;
use isochron_core::hierarchy::partition::{Partitioner, proportional};
use isochron_core::hierarchy::times::Sample;
use isochron_core::prelude::{LoopPart, RebalanceConfig, Rebalancer};
use isochron_core::rebalance::measure_move_unit_s;

use super::options::{BalancingOptions, JacobiArguments, JacobiStrategy};
use super::system::LinearSystem;
use crate::host_share::HostShare;

/// Iterations up to which a limit is taken for their number, whatever the tolerance.
const FEW_ITERATIONS: u64 = 100;

/// Iterations of the whole method for each one that a decision waits for.
const PATIENCE: u64 = 20;

/// Seconds of a sweep that the clock is too coarse to see.
const LEAST_S: f64 = 1e-9;

/// A strategy at work.
pub enum Balancing {
    Even,
    Constant {
        epsilon: f64,
        /// Last speed of each rank, in rows a second.
        speeds: Vec<f64>,
    },
    /// `None` once balancing has ended, and on other ranks than the head.
    Functional {
        dpa: Option<Box<Dpa>>,
        is_over: bool,
    },
    Adaptive(Box<Rebalancer>),
}

/// Makes the algorithm of fpm.
fn make_dpa(options: &BalancingOptions, ranks: usize, rows: u64) -> Dpa {
    let smooth = match options.partitioner() {
        Partitioner::Npa => Fit::Akima,
        _ => Fit::default(),
    };
    let config = BalanceConfig {
        strategy: Strategy::Fpm,
        epsilon: options.epsilon(),
        max_iterations: options.max_divisions.unwrap_or(20),
        partitioner: options.partitioner(),
        fit: options.fit.unwrap_or(smooth),
        // An iteration of the method is no loss, so measuring always pays.
        steps: 0,
        ..BalanceConfig::default()
    };
    Dpa::new(config, ranks, rows)
}

impl Balancing {
    /// Starts with the even division.
    ///
    /// # Errors
    /// The errors of [`Rebalancer::new`].
    ///
    /// # Collective
    /// All ranks.
    pub fn start(
        comm: &Arc<dyn Comm>,
        arguments: &JacobiArguments,
        system: &LinearSystem,
    ) -> Result<Self, Error> {
        let options = &arguments.balancing;
        let (ranks, rows) = (comm.size(), system.size() as u64);
        Ok(match options.strategy {
            JacobiStrategy::Even => Self::Even,
            JacobiStrategy::Cpm => {
                Self::Constant { epsilon: options.epsilon(), speeds: vec![1.0; ranks] }
            }
            JacobiStrategy::Fpm => Self::Functional {
                dpa: (comm.rank() == 0).then(|| Box::new(make_dpa(options, ranks, rows))),
                is_over: false,
            },
            JacobiStrategy::Adaptive => {
                let row_bytes = size_of::<f64>() * (system.size() + 1);
                let config = RebalanceConfig {
                    move_unit_s: Some(measure_move_unit_s(comm.as_ref(), row_bytes)?),
                    ..pace_decisions(arguments)
                };
                let part = limit_part(comm.as_ref(), system)?;
                Self::Adaptive(Box::new(Rebalancer::new(Arc::clone(comm), rows, &config, part)?))
            }
        })
    }

    /// Takes the seconds of all ranks for their rows. Returns the rows of the next iteration if they change.
    ///
    /// # Errors
    /// On every rank: those of the algorithms and of messages.
    ///
    /// # Collective
    /// All ranks, with the same rows and times.
    pub fn advise(
        &mut self,
        comm: &dyn Comm,
        rows: &[u64],
        times_s: &[f64],
    ) -> Result<Option<Vec<u64>>, Error> {
        match self {
            Self::Even => Ok(None),
            Self::Constant { epsilon, speeds } => {
                let decided =
                    (comm.rank() == 0).then(|| divide_by_speeds(speeds, *epsilon, rows, times_s));
                share_outcome(comm, 0, decided)
            }
            Self::Functional { is_over: true, .. } => Ok(None),
            Self::Functional { dpa, is_over } => {
                let decided = dpa.as_mut().map(|dpa| observe_sweep(dpa, rows, times_s));
                let (next, has_ended): (Vec<u64>, bool) = share_outcome(comm, 0, decided)?;
                *is_over = has_ended;
                Ok((next != rows).then_some(next))
            }
            Self::Adaptive(balancer) => {
                Ok(balancer.observe(times_s[comm.rank()])?.then(|| balancer.units().to_vec()))
            }
        }
    }

    /// Takes the seconds that this rank needed to move rows.
    pub fn note_move(&mut self, seconds: f64) {
        if let Self::Adaptive(balancer) = self {
            balancer.note_move(seconds);
        }
    }
}

/// Returns the settings of decisions. A method of few iterations cannot wait for many of them before rows move: waiting takes
/// at most a twentieth, and the first iteration counts, since the rows were written before it.
fn pace_decisions(arguments: &JacobiArguments) -> RebalanceConfig {
    let usual = RebalanceConfig::default();
    let most = arguments.max_iterations;
    if arguments.tolerance > 0.0 && most > FEW_ITERATIONS {
        // The method may end long before.
        return usual;
    }
    let patience = (most / PATIENCE).max(1);
    RebalanceConfig {
        sweeps: Some(most),
        warm_up: if patience < usual.window { 0 } else { usual.warm_up },
        window: usual.window.min(patience),
        cooldown: usual.cooldown.min(patience),
        ..usual
    }
}

/// Limits the rows of this rank to those that its part of the host's memory holds twice: when a part outgrows its room, the
/// old and the new memory are there for a moment.
fn limit_part(comm: &dyn Comm, system: &LinearSystem) -> Result<LoopPart, Error> {
    let row_bytes = 16 * (system.size() as u64 + 1);
    let free_bytes = HostShare::find(comm)?.free_bytes;
    let mine = system.rows()[comm.rank()];
    Ok(LoopPart {
        max_local: Some(mine.saturating_add(free_bytes / row_bytes)),
        ..LoopPart::default()
    })
}

/// Divides in proportion to the speeds of the last iteration, unless its times are balanced. A rank without rows keeps the
/// speed that it had.
///
/// # References
/// Clarke's thesis, section 2.3.1.
fn divide_by_speeds(
    speeds: &mut [f64],
    epsilon: f64,
    rows: &[u64],
    times_s: &[f64],
) -> Result<Option<Vec<u64>>, Error> {
    for ((speed, &count), &time_s) in speeds.iter_mut().zip(rows).zip(times_s) {
        if count > 0 {
            *speed = count as f64 / time_s.max(LEAST_S);
        }
    }
    let busy_s: Vec<f64> = rows
        .iter()
        .zip(times_s)
        .filter(|(count, _)| **count > 0)
        .map(|(_, &time_s)| time_s.max(LEAST_S))
        .collect();
    if imbalance(&busy_s) <= epsilon {
        return Ok(None);
    }
    let units = proportional(speeds, rows.iter().sum()).map_err(BalanceError::from)?.units;
    Ok((units != rows).then_some(units))
}

/// Takes the times of an iteration. Returns the rows of the next one, and `true` if balancing has ended.
fn observe_sweep(dpa: &mut Dpa, rows: &[u64], times_s: &[f64]) -> Result<(Vec<u64>, bool), Error> {
    let times: Vec<Sample> = rows
        .iter()
        .zip(times_s)
        .map(|(&count, &time_s)| match count {
            0 => Sample::default(),
            _ => Sample::measured(count, time_s.max(LEAST_S), 1, 0.0),
        })
        .collect();
    dpa.observe(&times)?;
    Ok(match dpa.step() {
        BalanceStep::Measure(units) => (units, false),
        BalanceStep::Done(balanced) => (balanced.units, true),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constant_speeds_follow_the_last_iteration() {
        let mut speeds = vec![1.0; 3];
        let next = divide_by_speeds(&mut speeds, 0.05, &[40, 40, 40], &[1.0, 2.0, 4.0]).unwrap();
        assert_eq!(next, Some(vec![69, 34, 17]));
        let balanced = divide_by_speeds(&mut speeds, 0.05, &[69, 34, 17], &[1.0, 1.0, 1.04]);
        assert_eq!(balanced.unwrap(), None);
        // A rank that has got nothing comes back with the speed that it had.
        let mut speeds = vec![10.0, 10.0];
        let next = divide_by_speeds(&mut speeds, 0.05, &[100, 0], &[10.0, 0.0]).unwrap();
        assert_eq!(next, None, "a single busy rank is balanced");
        assert_eq!(speeds, [10.0, 10.0]);
    }

    #[test]
    fn constant_speeds_swing_at_a_memory_cliff() {
        // Behind 50 rows the first rank pages.
        let mut speeds = vec![1.0; 2];
        let mut rows = vec![60, 60];
        let mut seen = Vec::new();
        for _ in 0..6 {
            let times_s =
                [if rows[0] > 50 { 10.0 } else { 0.01 * rows[0] as f64 }, 0.05 * rows[1] as f64];
            if let Some(next) = divide_by_speeds(&mut speeds, 0.05, &rows, &times_s).unwrap() {
                rows = next;
            }
            seen.push(rows[0]);
        }
        assert!(
            seen.iter().any(|&first| first < 40) && seen.iter().any(|&first| first > 60),
            "{seen:?}"
        );
    }
}
