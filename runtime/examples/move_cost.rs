//! The cost of moving rows in place: `mpirun -n 2 move_cost [MIB]`.
//!
//! Each rank has 1024 rows, 512 MiB unless given. Some of them move to the next rank and back. The program prints the seconds
//! of a move, the longest of all ranks, and those of copying the part, which is what a move without a place for every row costs.
#![allow(clippy::print_stdout, reason = "an example prints its result")]
use std::time::Instant;

use isochron::prelude::*;
use isochron::rebalance::migrate_units;

/// Rows of each rank in the beginning.
const ROWS: u64 = 1024;
/// Times that each move is made, there and back.
const TRIES: usize = 5;

/// Returns the median of the seconds that a call takes on the slowest rank.
fn time_call(comm: &dyn Comm, mut call: impl FnMut() -> Result<(), Error>) -> Result<f64, Error> {
    let mut seconds = Vec::new();
    for _ in 0..2 * TRIES {
        comm.barrier()?;
        let start = Instant::now();
        call()?;
        seconds.push(comm.largest(start.elapsed().as_secs_f64())?);
    }
    seconds.sort_by(f64::total_cmp);
    Ok(seconds[TRIES])
}

/// Returns the resident memory of this process in MiB, if the system tells it.
fn read_resident_mib() -> Option<f64> {
    Some(
        std::fs::read_to_string("/proc/self/status")
            .ok()?
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))?
            .trim()
            .trim_end_matches(" kB")
            .parse::<f64>()
            .ok()?
            / 1024.0,
    )
}

fn main() -> Result<(), Error> {
    let comm = connect()?;
    let mib = std::env::args().nth(1).and_then(|word| word.parse().ok());
    let row_len = mib.unwrap_or(512) * (1 << 20) / 8 / ROWS as usize;
    let even = vec![ROWS; comm.size()];
    let mut rows: UnitArray<f64> = UnitArray::zeros(&*comm, &even, row_len)?;
    rows.fill(1.0);
    let mut moves = Vec::new();
    for moved in [0, 1, 10, 100] {
        let mut there = even.clone();
        there[0] -= moved;
        there[comm.size() - 1] += moved;
        let mut is_there = false;
        let move_s = time_call(&*comm, || {
            is_there = !is_there;
            let units = if is_there { &there } else { &even };
            migrate_units(&*comm, units, &mut rows)
        })?;
        moves.push((moved, move_s));
    }
    assert!(rows.iter().all(|&value| value == 1.0), "the rows are the same");
    let resident = read_resident_mib();
    let copy_s = time_call(&*comm, || {
        std::hint::black_box(rows.to_vec());
        Ok(())
    })?;
    if comm.rank() == 0 {
        println!("a copy of the part: {:.1} ms", 1e3 * copy_s);
        for (moved, move_s) in moves {
            let part = 100.0 * move_s / copy_s;
            println!("{moved} of {ROWS} rows: {:.1} ms, {part:.1} % of the copy", 1e3 * move_s);
        }
        if let Some(mib) = resident {
            println!("most resident memory before the copy: {mib:.0} MiB");
        }
    }
    Ok(())
}
