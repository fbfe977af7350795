//! Constant models oscillate across the edge of a memory, functional models settle at it:
//! `cargo run -p isochron-hierarchy --example memory_cliff`.
//!
//! Four machines sweep over a matrix, row by row. Two of them are fast and small: an even share just
//! exceeds their memory, and they page. They then look slow, and constant models give them hardly a row.
//! On few rows they look fast, and get too many again. Functional models keep both points, and find the
//! edge between them.
//!
//! The machines are those of Clarke's thesis, table 2.1. The outcome is that of its figures 2.4 to 2.7
//! (section 2.3.1): at 8000 rows both settle, at 11 000 only the functional models do. The speeds are made
//! up.

#![allow(clippy::print_stdout, reason = "an example prints its table")]

use isochron_hierarchy::balance::{
    BalanceConfig, BalanceError, BalanceStart, BalanceStep, Balanced, Dpa, Strategy,
};
use isochron_hierarchy::times::Sample;

/// Megabytes of memory and rows of 10 000 doubles per second, P_1 to P_4.
pub const MACHINES: [(f64, f64); 4] =
    [(256.0, 3600.0), (256.0, 3000.0), (512.0, 2400.0), (1024.0, 2400.0)];

/// Returns the seconds of a machine for `rows` rows of a matrix of `n` columns. Beyond its memory the
/// speed falls; at 1.4 times the memory it is a thirtieth.
pub fn time_s(machine: usize, n: u64, rows: u64) -> f64 {
    let (memory_mb, speed) = MACHINES[machine];
    let needed_mb = (rows * n) as f64 * 8e-6 + 20.0;
    let paging = ((needed_mb / memory_mb - 1.0) / 0.4).clamp(0.0, 1.0);
    let doubles = (rows * n) as f64;
    doubles / (speed * 1e4) * (1.0 + 29.0 * paging)
}

/// Balances a matrix of `n` rows to 10 % from an even division.
pub fn balance(strategy: Strategy, n: u64) -> Result<Balanced, BalanceError> {
    let config = BalanceConfig {
        strategy,
        start: BalanceStart::Even,
        epsilon: 0.1,
        max_iterations: 20,
        ..BalanceConfig::default()
    };
    let mut dpa = Dpa::new(config, MACHINES.len(), n);
    loop {
        match dpa.step() {
            BalanceStep::Done(balanced) => return Ok(balanced),
            BalanceStep::Measure(units) => {
                let times: Vec<Sample> = units
                    .iter()
                    .enumerate()
                    .map(|(machine, &rows)| {
                        Sample::measured(rows, time_s(machine, n, rows), 3, 0.0)
                    })
                    .collect();
                dpa.observe(&times)?;
            }
        }
    }
}

#[allow(dead_code, reason = "a test shares everything else")]
fn main() -> Result<(), BalanceError> {
    for n in [8_000, 11_000] {
        for strategy in [Strategy::MultiCpm, Strategy::Fpm] {
            let balanced = balance(strategy, n)?;
            println!("\n{n} rows, {strategy}: {}", balanced.why);
            println!("iteration, rows, seconds, imbalance");
            for (i, measured) in (1..).zip(&balanced.history) {
                let (rows, times_s) = (&measured.units, &measured.times_s);
                println!("{i:>2}  {rows:>5?}  {times_s:>6.2?}  {:.2}", measured.imbalance);
            }
        }
    }
    Ok(())
}
