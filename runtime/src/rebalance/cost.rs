//! The cost of a first move.

use crate::comm::{CollectiveCall, Comm, REST, measure_exchange_s};
use crate::error::Error;

/// Bytes of a message that is timed, unless a single unit has more.
const MESSAGE_BYTES: usize = 1 << 20;
/// Most bytes of a message. Longer units take as much more time.
const MOST_BYTES: usize = 1 << 24;
/// Messages that are timed.
const TRIES: usize = 4;
/// The messages of an exchange: one to each neighbour, and one from it.
const MESSAGES: usize = 4;
/// Packing and unpacking take about as long as the message.
const WITH_PACKING: f64 = 2.0;

/// Measures the seconds to move a unit of `unit_bytes` bytes between neighbouring ranks, for
/// [`RebalanceConfig::move_unit_s`](super::RebalanceConfig::move_unit_s).
///
/// Without this value, a balancer expects the first move to take ten times the computation of its units, and a loop of a few
/// sweeps moves nothing. Measuring takes some milliseconds. Returns 0 on a single rank.
///
/// # Errors
/// [`Error::Settings`] on every rank for ranks with other lengths; those of [`Comm`].
///
/// # Collective
/// All ranks, with the same length.
pub fn measure_move_unit_s(comm: &dyn Comm, unit_bytes: usize) -> Result<f64, Error> {
    let _call = CollectiveCall::new(comm, "measuring a move")
        .with("unit_bytes", &unit_bytes)
        .enter()?;
    if comm.size() == 1 || unit_bytes == 0 {
        return Ok(0.0);
    }
    let units = (MESSAGE_BYTES / unit_bytes).max(1);
    let bytes = (units * unit_bytes).min(MOST_BYTES);
    let [exchange_s, _] = measure_exchange_s(comm, bytes, TRIES, REST)?;
    let byte_s = WITH_PACKING * exchange_s / (MESSAGES * bytes) as f64;
    comm.largest(byte_s * unit_bytes as f64)
}
