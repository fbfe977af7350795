//! Dynamic partitioning with Akima splines and the numerical algorithm:
//! `cargo run -p isochron-hierarchy --example akima_npa`.
//!
//! The machines of the example `memory_cliff` share a matrix of 12 000 rows, which an even division does
//! not fit into two of them. Every iteration measures a division, adds its points to the splines, and
//! has the numerical algorithm divide anew.
//!
//! That is the experiment of Clarke's thesis, figure 4.3 (section 4.3), where the division is at its
//! optimum by the seventh iteration, as it is here. The speeds are made up, and the steeper they fall at
//! the edge of memory the longer it takes: ten iterations where they fall four times as steeply.

#![allow(clippy::print_stdout, reason = "an example prints its table")]

use isochron_hierarchy::balance::imbalance;
use isochron_hierarchy::model::{AkimaFpm, ModelError, Point, SpeedModel};
use isochron_hierarchy::partition::{NpaSolution, PartitionError, even, npa};

#[path = "memory_cliff.rs"]
pub mod memory_cliff;

use memory_cliff::{MACHINES, time_s};

/// Rows of the matrix, and its columns.
pub const ROWS: u64 = 12_000;

/// A measured division, and the numerical algorithm's answer to all that is known after it.
pub struct Iteration {
    /// Rows of each machine.
    pub units: Vec<u64>,
    /// Seconds of each machine.
    pub times_s: Vec<f64>,
    /// Of these times.
    pub imbalance: f64,
    /// `None` after the last.
    pub next: Option<NpaSolution>,
}

/// Dynamic partitioning from the even division to an imbalance of `epsilon`.
pub fn balance(epsilon: f64) -> Result<Vec<Iteration>, Box<dyn std::error::Error>> {
    let mut models = vec![AkimaFpm::new(); MACHINES.len()];
    let mut units = even(MACHINES.len(), ROWS);
    let mut history: Vec<Iteration> = Vec::new();
    while history.len() < 30 {
        let times_s = measure(&units);
        let imbalance = imbalance(&times_s);
        let next = if imbalance <= epsilon {
            None
        } else {
            learn(&mut models, &units, &times_s)?;
            Some(divide(&models)?)
        };
        let done = next.is_none();
        let after = next
            .as_ref()
            .map(|solution| solution.partition.units.clone());
        history.push(Iteration {
            units,
            times_s,
            imbalance,
            next,
        });
        if done {
            break;
        }
        units = after.unwrap_or_default();
    }
    Ok(history)
}

fn measure(units: &[u64]) -> Vec<f64> {
    units
        .iter()
        .enumerate()
        .map(|(machine, &rows)| time_s(machine, ROWS, rows))
        .collect()
}

fn learn(models: &mut [AkimaFpm], units: &[u64], times_s: &[f64]) -> Result<(), ModelError> {
    for ((model, &d), &t_s) in models.iter_mut().zip(units).zip(times_s) {
        model.add(Point {
            d,
            t_s,
            reps: 3,
            ci_s: 0.0,
        })?;
    }
    Ok(())
}

fn divide(models: &[AkimaFpm]) -> Result<NpaSolution, PartitionError> {
    let models: Vec<&dyn SpeedModel> = models
        .iter()
        .map(|model| model as &dyn SpeedModel)
        .collect();
    npa(&models, ROWS)
}

#[allow(dead_code, reason = "a test shares everything else")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!(
        "{:>9}  {:<24}  {:<28} {:>9}  solver",
        "iteration", "rows", "seconds", "imbalance"
    );
    for (i, iteration) in balance(0.1)?.iter().enumerate() {
        let rows: Vec<String> = iteration.units.iter().map(|u| format!("{u:>5}")).collect();
        let times: Vec<String> = iteration
            .times_s
            .iter()
            .map(|t| format!("{t:>6.2}"))
            .collect();
        let (rows, times) = (rows.join(" "), times.join(" "));
        let solver = iteration.next.as_ref().map_or_else(String::new, |next| {
            format!(
                "{} steps, residual {:.0e}, {}",
                next.iterations, next.residual, next.shares_of
            )
        });
        println!(
            "{:>9}  {rows:<24}  {times:<28} {:>9.2}  {solver}",
            i + 1,
            iteration.imbalance
        );
    }
    Ok(())
}
