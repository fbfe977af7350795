//! Dynamic load balancing: an application's own iterations are the measurements.
//!
//! Three devices of unknown speed sweep over 6000 rows. After a while another job takes two thirds of the
//! second one. Prints each sweep's rows and times.
//!
//! Reference: Clarke's thesis, section 4.3.

#![allow(clippy::print_stdout, reason = "an example prints its result")]

use isochron_hierarchy::balance::{
    BalanceConfig, BalanceError, BalanceStep, Dpa, Observation, imbalance,
};

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
pub fn run_sweeps(sweeps: usize) -> Result<Vec<Sweep>, BalanceError> {
    let config = BalanceConfig::default();
    let mut dpa = Dpa::new(config, 3, ROWS);
    let mut done = Vec::new();
    for sweep in 0..sweeps {
        let (rows, balanced) = match dpa.step() {
            BalanceStep::Measure(rows) => (rows, false),
            BalanceStep::Done(balanced) => (balanced.units, true),
        };
        let times_s: Vec<f64> = (0..3).map(|i| time_s(i, sweep, rows[i])).collect();
        if !balanced {
            let times: Vec<_> = times_s
                .iter()
                .map(|&t_s| Observation::measured(t_s, 1, 0.0))
                .collect();
            dpa.observe(&rows, &times)?;
        } else if imbalance(&times_s) > 2.0 * config.epsilon {
            // The speeds have changed, so that the models start again.
            let speeds: Vec<f64> = rows
                .iter()
                .zip(&times_s)
                .map(|(&d, t_s)| d as f64 / t_s)
                .collect();
            dpa = Dpa::new(config, 3, ROWS).with_prior(&speeds);
        }
        done.push(Sweep { rows, times_s });
    }
    Ok(done)
}

#[allow(dead_code, reason = "a test takes the function above")]
fn main() -> Result<(), BalanceError> {
    for (sweep, Sweep { rows, times_s }) in run_sweeps(24)?.iter().enumerate() {
        let last_s = times_s.iter().copied().fold(0.0, f64::max);
        println!(
            "sweep {sweep:<3} rows {rows:<5?} {last_s:.3} s, imbalance {:.2}",
            imbalance(times_s)
        );
    }
    Ok(())
}
