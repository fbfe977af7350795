//! Dynamic partitioning with Akima splines and the numerical algorithm.
//!
//! The machines of the example `memory_cliff` share a matrix of 12 000 rows. An even share exceeds the
//! memory of two of them. Every iteration measures a division, adds its points to the splines, and divides
//! again by the numerical algorithm.
//!
//! This is the experiment of Clarke's thesis, figure 4.3 (section 4.3). The division reaches its optimum
//! by the seventh iteration, there and here. The speeds are made up. If they fall four times as steeply at
//! the edge of memory, it takes ten iterations.

use isochron_hierarchy::balance::imbalance;
use isochron_hierarchy::model::{AkimaFpm, ModelError, Point, SpeedModel};
use isochron_hierarchy::partition::{NpaSolution, PartitionError, even, npa};

use super::memory_cliff::{MACHINES, time_s};

/// Rows of the matrix, and its columns.
pub const ROWS: u64 = 12_000;

/// A measured division, and the numerical algorithm's next one.
pub struct NpaIteration {
    /// Rows of each machine.
    pub units: Vec<u64>,
    /// Seconds of each machine.
    pub times_s: Vec<f64>,
    /// Imbalance of these times.
    pub imbalance: f64,
    /// The next division; `None` after the last iteration.
    pub next: Option<NpaSolution>,
}

/// Partitions dynamically from the even division to an imbalance of `epsilon`.
pub fn balance_by_npa(epsilon: f64) -> Result<Vec<NpaIteration>, Box<dyn std::error::Error>> {
    let mut models = vec![AkimaFpm::new(); MACHINES.len()];
    let mut units = even(MACHINES.len(), ROWS);
    let mut history: Vec<NpaIteration> = Vec::new();
    while history.len() < 30 {
        let times_s = measure_times(&units);
        let imbalance = imbalance(&times_s);
        let next = if imbalance <= epsilon {
            None
        } else {
            add_points(&mut models, &units, &times_s)?;
            Some(divide_rows(&models)?)
        };
        let after = next.as_ref().map(|solution| solution.partition.units.clone());
        history.push(NpaIteration { units, times_s, imbalance, next });
        match after {
            Some(after) => units = after,
            None => break,
        }
    }
    Ok(history)
}

fn measure_times(units: &[u64]) -> Vec<f64> {
    units.iter().enumerate().map(|(machine, &rows)| time_s(machine, ROWS, rows)).collect()
}

fn add_points(models: &mut [AkimaFpm], units: &[u64], times_s: &[f64]) -> Result<(), ModelError> {
    for ((model, &d), &t_s) in models.iter_mut().zip(units).zip(times_s) {
        model.add(Point { d, t_s, reps: 3, ci_s: 0.0 })?;
    }
    Ok(())
}

fn divide_rows(models: &[AkimaFpm]) -> Result<NpaSolution, PartitionError> {
    let models: Vec<&dyn SpeedModel> =
        models.iter().map(|model| model as &dyn SpeedModel).collect();
    npa(&models, ROWS)
}
