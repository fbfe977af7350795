//! A stencil whose rows follow the speeds of the ranks: `mpirun -n 3 stencil [SWEEPS] [--slow-from SWEEP] [--made-up]`.
//!
//! Each cell becomes the mean of its four neighbours. The last rank is four times slower than the others, from the
//! beginning or from a sweep on. The program runs once with even parts and once balanced, and prints the seconds, those
//! of the ideal division, and the number of moves.

#![allow(clippy::print_stdout, reason = "an example prints its result")]

use std::sync::Arc;
use std::time::Instant;

use isochron::Error;
use isochron::comm::{Comm, Message, Transfer, connect};
use isochron::rebalance::{LoopPart, RebalanceConfig, Rebalancer};

use pace::{SlowRank, SweepWork};

mod pace;

const ROWS: u64 = 1200;
const COLS: usize = 4000;

/// Returns this rank's rows, with the last row above and the first row below them, which neighbours have.
fn exchange_borders(
    comm: &dyn Comm,
    units: &[u64],
    rows: Vec<f64>,
) -> Result<[Vec<f64>; 3], Error> {
    let (rank, len) = (comm.rank(), rows.len());
    let above = units[..rank].iter().rposition(|&count| count > 0);
    let below = units[rank..].iter().skip(1).position(|&count| count > 0);
    let below = below.map(|ahead| rank + 1 + ahead);
    let (mut sends, mut recvs) = (Vec::new(), Vec::new());
    if units[rank] > 0 {
        let ends = [(above, 0..COLS, 1), (below, len - COLS..len, 2)];
        for (other, row, buffer) in ends
            .into_iter()
            .filter_map(|(o, row, b)| Some((o?, row, b)))
        {
            sends.push(Message::plain(other, 0, row));
            recvs.push(Message::plain(other, buffer, 0..COLS));
        }
    }
    // The plate is hot above its first row and cold below its last.
    let buffers = vec![rows, vec![1.0; COLS], vec![0.0; COLS]];
    let buffers = Transfer::start(comm, buffers, &sends, &recvs)?.finish()?;
    Ok(buffers.try_into().unwrap_or_default())
}

fn update_rows([rows, above, below]: &[Vec<f64>; 3]) -> Vec<f64> {
    let mut next = rows.clone();
    let all: Vec<&[f64]> = [&above[..]]
        .into_iter()
        .chain(rows.chunks(COLS))
        .chain([&below[..]])
        .collect();
    for (next, near) in next.chunks_mut(COLS).zip(all.windows(3)) {
        for col in 1..COLS - 1 {
            next[col] = 0.25 * (near[0][col] + near[2][col] + near[1][col - 1] + near[1][col + 1]);
        }
    }
    next
}

/// Runs all sweeps. Returns the sum of the cells' bits.
fn run_sweeps(
    comm: &Arc<dyn Comm>,
    pace: &SlowRank,
    config: &RebalanceConfig,
) -> Result<u64, Error> {
    let mut balancer = Rebalancer::new(Arc::clone(comm), ROWS, config, LoopPart::default())?;
    let mut work = SweepWork::new(&**comm)?;
    let mut rows = vec![0.5; balancer.units()[comm.rank()] as usize * COLS];
    for sweep in 0..pace.sweeps {
        let start = Instant::now();
        let bordered = exchange_borders(&**comm, balancer.units(), std::mem::take(&mut rows))?;
        let count = balancer.units()[comm.rank()];
        let seconds = pace.time_work(comm.rank(), (sweep, count), &mut work, || {
            rows = update_rows(&bordered)
        });
        if balancer.observe(seconds)? {
            rows = balancer.migrate(COLS, rows)?;
        }
        work.end_sweep(sweep, start);
    }
    let mut sum = [rows
        .iter()
        .fold(0, |sum: u64, cell| sum.wrapping_add(cell.to_bits()))];
    comm.sum_u64(&mut sum)?;
    work.print_summary(pace, ROWS, &balancer.report()?)?;
    Ok(sum[0])
}

fn main() -> Result<(), Error> {
    let comm = connect()?;
    let pace = SlowRank::read(comm.size());
    let even = RebalanceConfig {
        trigger: 1e12,
        ..pace.configure()
    };
    let even = run_sweeps(&comm, &pace, &even)?;
    let balanced = run_sweeps(&comm, &pace, &pace.configure())?;
    if comm.rank() == 0 {
        println!("the same cells: {}", even == balanced);
    }
    Ok(())
}
