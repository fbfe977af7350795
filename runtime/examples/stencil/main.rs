//! A stencil whose rows follow the speeds of the ranks: `mpirun -n 3 stencil [SWEEPS]`.
//! `pace.rs` makes the last rank four times slower, and prints the times; `halo.rs` exchanges rows.
#![allow(clippy::print_stdout, reason = "an example prints its result")]
use halo::{exchange_borders, find_cells, make_plate};
use isochron::prelude::*;
use pace::{RunTimes, SlowRank};
use std::{ops::Range, sync::Arc, time::Instant};

mod halo;
mod pace;

const ROWS: u64 = 1200;
const COLS: usize = 4000;

/// Sets each inner cell of some rows to the mean of its four neighbours.
fn update_rows(plate: &[f64], next: &mut [f64], rows: Range<u64>) {
    for cells in rows.map(|row| find_cells(row..row + 1)) {
        for at in cells.start + 1..cells.end - 1 {
            let sides = plate[at - 1] + plate[at + 1];
            next[at] = 0.25 * (plate[at - COLS] + plate[at + COLS] + sides);
        }
    }
}

/// Runs all sweeps. Returns the sum of the cells' bits.
fn run(comm: &Arc<dyn Comm>, pace: &SlowRank, config: &RebalanceConfig) -> Result<u64, Error> {
    let mut balancer = Rebalancer::new(Arc::clone(comm), ROWS, config, LoopPart::default())?;
    let mut times = RunTimes::new(&**comm)?;
    let (mut plate, mut next) = (make_plate(), make_plate());
    for sweep in 0..pace.sweeps {
        let (start, rows) = (Instant::now(), balancer.part());
        plate = exchange_borders(&balancer, &**comm, plate)?;
        let work = || update_rows(&plate, &mut next, rows.clone());
        let seconds = pace.time_work(sweep, rows.end - rows.start, &**comm, work)?;
        std::mem::swap(&mut plate, &mut next);
        if balancer.observe(seconds)? {
            let (memory, first) = (&mut plate[COLS..], 0);
            balancer.migrate_memory(COLS, UnitMemory::Within { memory, first })?;
        }
        times.end_sweep(sweep, start);
    }
    times.print_summary(pace, ROWS, &balancer.report()?)?;
    let cells = plate[find_cells(balancer.part())].iter();
    let mut sum = [cells.fold(0, |sum: u64, cell| sum.wrapping_add(cell.to_bits()))];
    comm.sum_u64(&mut sum)?;
    Ok(sum[0])
}

fn main() -> Result<(), Error> {
    let comm = connect()?;
    let pace = SlowRank::read(comm.size());
    let even = run(&comm, &pace, &pace.keep_even())?;
    let balanced = run(&comm, &pace, &pace.configure())?;
    if comm.rank() == 0 {
        let same = even == balanced;
        println!("the same cells: {same}, sum of bits {even:016x}");
    }
    Ok(())
}
