//! Dynamic load balancing: an application's own iterations are the measurements.
//!
//! Three devices of unknown speed sweep over 6000 rows. After a while another job takes two thirds of the
//! second one. Prints each sweep's rows and times.
//!
//! Reference: Clarke's thesis, section 4.3.

#![allow(clippy::print_stdout, reason = "an example prints its result")]

use isochron_hierarchy::learn::AdaptiveError;
use isochron_hierarchy::partition::imbalance;
use isochron_hierarchy::rebalance::{LoopPart, Rebalance, RebalanceConfig};

/// Rows of the application's matrix.
pub const ROWS: u64 = 6000;

/// The first sweep in which the second device is slower.
pub const DISTURBED: usize = 12;

/// One iteration of the application.
pub struct Sweep {
    /// Rows of each device.
    pub rows: Vec<u64>,
    /// Seconds that each device took.
    pub times_s: Vec<f64>,
}

/// Returns the seconds of a device. Its speed saturates with its rows.
fn time_s(device: usize, sweep: usize, rows: u64) -> f64 {
    let speed = match device {
        0 => 1000.0,
        1 if sweep < DISTURBED => 3000.0,
        1 => 1000.0,
        _ => 5000.0,
    };
    (rows as f64 + 50.0) / speed
}

/// Runs the application and balances it at the same time.
pub fn run_sweeps(sweeps: usize) -> Result<Vec<Sweep>, AdaptiveError> {
    // These times have no noise, so little needs to be gained and seen.
    let config =
        RebalanceConfig { trigger: 1.01, window: 2, cooldown: 2, ..RebalanceConfig::default() };
    let mut rebalance = Rebalance::new(config, ROWS, vec![LoopPart::default(); 3])?;
    let mut done = Vec::new();
    for sweep in 0..sweeps {
        let rows = rebalance.units().to_vec();
        let times_s: Vec<f64> = (0..3).map(|i| time_s(i, sweep, rows[i])).collect();
        rebalance.observe(&times_s)?;
        rebalance.advise()?;
        done.push(Sweep { rows, times_s });
    }
    Ok(done)
}

#[allow(dead_code, reason = "a test takes the function above")]
fn main() -> Result<(), AdaptiveError> {
    for (sweep, Sweep { rows, times_s }) in run_sweeps(24)?.iter().enumerate() {
        let last_s = times_s.iter().copied().fold(0.0, f64::max);
        println!(
            "sweep {sweep:<3} rows {rows:<5?} {last_s:.3} s, imbalance {:.2}",
            imbalance(times_s)
        );
    }
    Ok(())
}
