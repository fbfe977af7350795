//! The plate, in which every row has its place on every rank, and the rows around those of a rank.

use std::ops::Range;

use isochron::comm::{Message, Transfer};
use isochron::prelude::*;

use super::{COLS, ROWS};

/// Returns the plate, hot above its first row and cold below its last.
pub fn make_plate() -> Vec<f64> {
    let rows = vec![0.5; ROWS as usize * COLS];
    [vec![1.0; COLS], rows, vec![0.0; COLS]].concat()
}

/// Returns the cells of some rows.
pub fn find_cells(rows: Range<u64>) -> Range<usize> {
    (rows.start as usize + 1) * COLS..(rows.end as usize + 1) * COLS
}

/// Exchanges the rows at the borders with the ranks above and below.
pub fn exchange_borders(
    balancer: &Rebalancer,
    comm: &dyn Comm,
    plate: Vec<f64>,
) -> Result<Vec<f64>, Error> {
    let (own, [above, below]) = (find_cells(balancer.part()), balancer.neighbours());
    let sends = [(above, own.start), (below, own.end - COLS)];
    let recvs = [(above, own.start - COLS), (below, own.end)];
    let [sends, recvs] = [sends, recvs].map(|rows| {
        let rows = rows.iter().filter_map(|&(other, row)| Some((other?, row)));
        rows.map(|(other, row)| Message::plain(other, 0, row..row + COLS)).collect::<Vec<_>>()
    });
    Ok(Transfer::start(comm, vec![plate], &sends, &recvs)?.finish()?.remove(0))
}
