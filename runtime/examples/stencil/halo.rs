//! The rows around those of a rank.

use isochron::comm::{Message, Transfer};
use isochron::prelude::*;

use super::COLS;

/// Adds a row above and below a rank's own: the plate is hot above its first row and cold below its last.
pub fn surround(rows: Vec<f64>) -> Vec<f64> {
    [vec![1.0; COLS], rows, vec![0.0; COLS]].concat()
}

/// Takes the added rows away.
pub fn own_rows(plate: &[f64]) -> &[f64] {
    &plate[COLS..plate.len() - COLS]
}

/// Exchanges the rows at the borders with the ranks above and below.
pub fn exchange_borders(
    balancer: &Rebalancer,
    comm: &dyn Comm,
    plate: Vec<f64>,
) -> Result<Vec<f64>, Error> {
    let (len, [above, below]) = (plate.len(), balancer.neighbours());
    let sends = [(above, COLS), (below, len - 2 * COLS)];
    let recvs = [(above, 0), (below, len - COLS)];
    let [sends, recvs] = [sends, recvs].map(|rows| {
        let rows = rows.iter().filter_map(|&(other, row)| Some((other?, row)));
        rows.map(|(other, row)| Message::plain(other, 0, row..row + COLS))
            .collect::<Vec<_>>()
    });
    Ok(Transfer::start(comm, vec![plate], &sends, &recvs)?
        .finish()?
        .remove(0))
}
