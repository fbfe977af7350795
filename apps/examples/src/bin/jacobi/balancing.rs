//! The strategies that divide the rows.
//!
//! # Deviations
//!
//! * **balance while iterating**: the thesis's program balances in every iteration (appendix A.5), its algorithm until the
//!   times are equal (4.3). Here `fpm` is the algorithm, because noise would move rows in every iteration.
//! * **constant speeds of ranks without rows**: the thesis does not consider them (2.3.1). Here a rank that got nothing
//!   keeps its last speed, by which it can come back.

use std::sync::Arc;

use clap::ValueEnum;
use isochron::comm::share_outcome;
use isochron::hierarchy::balance::{BalanceError, BalanceStep, Dpa, imbalance};
use isochron::hierarchy::model::Fit;
use isochron::hierarchy::partition::{Partitioner, proportional};
use isochron::hierarchy::times::Sample;
use isochron::prelude::*;
use isochron::rebalance::measure_move_unit_s;

use super::Arguments;

/// Imbalance up to which cpm and fpm leave the rows where they are.
const EPSILON: f64 = 0.05;

/// Iterations of the whole method for each one that a decision waits for.
const PATIENCE: u64 = 20;

/// Seconds of a sweep that the clock is too coarse to see.
const LEAST_S: f64 = 1e-9;

/// A strategy that divides the rows.
#[derive(Clone, Copy, ValueEnum)]
pub enum JacobiStrategy {
    /// The same rows for all ranks
    Even,
    /// In proportion to the speeds of the last iteration, after every iteration
    Cpm,
    /// By partial speed functions of the iterations' times, until these are equal (DPA)
    Fpm,
    /// By what the iterations teach, where it pays to move rows
    Adaptive,
}

/// A strategy at work.
pub enum Balancing {
    Even,
    /// The last speed of each rank, in rows a second.
    Constant(Vec<f64>),
    /// On the head rank, until balancing has ended.
    Functional(Option<Box<Dpa>>),
    Adaptive(Box<Rebalancer>),
}

impl Balancing {
    /// Starts with the even division.
    pub fn start(comm: &Arc<dyn Comm>, arguments: &Arguments) -> Result<Self, Error> {
        let (ranks, rows) = (comm.size(), arguments.size);
        Ok(match arguments.strategy {
            JacobiStrategy::Even => Self::Even,
            JacobiStrategy::Cpm => Self::Constant(vec![1.0; ranks]),
            JacobiStrategy::Fpm => {
                let dpa = || Box::new(Dpa::new(set_up_fpm(arguments.partitioner), ranks, rows));
                Self::Functional((comm.rank() == 0).then(dpa))
            }
            JacobiStrategy::Adaptive => {
                let row_bytes = size_of::<f64>() * (rows as usize + 1);
                let config = RebalanceConfig {
                    move_unit_s: Some(measure_move_unit_s(&**comm, row_bytes)?),
                    ..pace_decisions(arguments)
                };
                let part = LoopPart::default();
                Self::Adaptive(Box::new(Rebalancer::new(Arc::clone(comm), rows, &config, part)?))
            }
        })
    }

    /// Takes the seconds of all ranks for their rows. Returns the rows of the next iteration if they change.
    pub fn advise(
        &mut self,
        comm: &dyn Comm,
        rows: &[u64],
        times_s: &[f64],
    ) -> Result<Option<Vec<u64>>, Error> {
        match self {
            Self::Even => Ok(None),
            Self::Constant(speeds) => {
                let decided = (comm.rank() == 0).then(|| divide_by_speeds(speeds, rows, times_s));
                share_outcome(comm, 0, decided)
            }
            Self::Functional(dpa) => {
                let decided = (comm.rank() == 0).then(|| observe_sweep(dpa, rows, times_s));
                share_outcome(comm, 0, decided)
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

fn set_up_fpm(partitioner: Partitioner) -> BalanceConfig {
    BalanceConfig {
        strategy: Strategy::Fpm,
        epsilon: EPSILON,
        max_iterations: 20,
        partitioner,
        fit: if partitioner == Partitioner::Npa { Fit::Akima } else { Fit::default() },
        // An iteration of the method is no loss, so measuring always pays.
        steps: 0,
        ..BalanceConfig::default()
    }
}

/// Returns the settings of decisions. A method of few iterations cannot wait for many of them before rows move: waiting takes
/// at most a twentieth, and the first iteration counts, since the rows were written before it.
fn pace_decisions(arguments: &Arguments) -> RebalanceConfig {
    let usual = RebalanceConfig::default();
    let patience = (arguments.max_iterations / PATIENCE).max(1);
    RebalanceConfig {
        // A method with a tolerance may end long before.
        sweeps: (arguments.tolerance == 0.0).then_some(arguments.max_iterations),
        warm_up: if patience < usual.window { 0 } else { usual.warm_up },
        window: usual.window.min(patience),
        cooldown: usual.cooldown.min(patience),
        ..usual
    }
}

/// Divides in proportion to the speeds of the last iteration, unless its times are balanced. A rank without rows keeps the
/// speed that it had.
///
/// # References
/// Clarke's thesis, section 2.3.1.
fn divide_by_speeds(
    speeds: &mut [f64],
    rows: &[u64],
    times_s: &[f64],
) -> Result<Option<Vec<u64>>, Error> {
    let mut busy_s = Vec::new();
    for ((speed, &count), &time_s) in speeds.iter_mut().zip(rows).zip(times_s) {
        if count > 0 {
            busy_s.push(time_s.max(LEAST_S));
            *speed = count as f64 / time_s.max(LEAST_S);
        }
    }
    if imbalance(&busy_s) <= EPSILON {
        return Ok(None);
    }
    let units = proportional(speeds, rows.iter().sum()).map_err(BalanceError::from)?.units;
    Ok((units != rows).then_some(units))
}

/// Takes the times of an iteration. Returns the rows of the next one if they change, and drops an algorithm that has ended.
fn observe_sweep(
    dpa: &mut Option<Box<Dpa>>,
    rows: &[u64],
    times_s: &[f64],
) -> Result<Option<Vec<u64>>, Error> {
    let Some(algorithm) = dpa else { return Ok(None) };
    let times: Vec<Sample> = rows
        .iter()
        .zip(times_s)
        .map(|(&count, &time_s)| match count {
            0 => Sample::default(),
            _ => Sample::measured(count, time_s.max(LEAST_S), 1, 0.0),
        })
        .collect();
    algorithm.observe(&times)?;
    let next = match algorithm.step() {
        BalanceStep::Measure(units) => units,
        BalanceStep::Done(balanced) => {
            *dpa = None;
            balanced.units
        }
    };
    Ok((next != rows).then_some(next))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constant_speeds_follow_the_last_iteration() -> Result<(), Error> {
        let mut speeds = vec![1.0; 3];
        let next = divide_by_speeds(&mut speeds, &[40, 40, 40], &[1.0, 2.0, 4.0])?;
        assert_eq!(next, Some(vec![69, 34, 17]));
        let balanced = divide_by_speeds(&mut speeds, &[69, 34, 17], &[1.0, 1.0, 1.04])?;
        assert_eq!(balanced, None);
        // A rank that has got nothing comes back with the speed that it had.
        let mut speeds = vec![10.0, 10.0];
        let next = divide_by_speeds(&mut speeds, &[100, 0], &[10.0, 0.0])?;
        assert_eq!(next, None, "a single busy rank is balanced");
        assert_eq!(speeds, [10.0, 10.0]);
        Ok(())
    }
}
