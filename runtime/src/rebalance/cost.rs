//! The cost of a first move.

use std::hint::black_box;
use std::time::Instant;

use crate::comm::{CollectiveCall, Comm, measure_exchange_s};
use crate::error::Error;

/// Bytes of a message that is timed, unless a single unit has more.
const MESSAGE_BYTES: usize = 1 << 20;
/// Most bytes of a message. Longer units take as much more time.
const MOST_BYTES: usize = 1 << 24;
/// Messages that are timed.
const TRIES: usize = 4;
/// The messages of an exchange: one to each neighbour, and one from it.
const MESSAGES: usize = 4;
/// Copies of a unit into memory that the process has not touched yet: packed, received and in its place.
const COPIES: f64 = 3.0;

/// Measures the seconds to move a unit of `unit_bytes` bytes between neighbouring ranks for the first time, for
/// [`RebalanceConfig::move_unit_s`](super::RebalanceConfig::move_unit_s). That is into new pages of memory; where a program has
/// pages to spare, a move may take a quarter of it.
///
/// Without this value, a balancer expects the first move to take ten times the computation of its units, and a loop of a few
/// sweeps moves nothing. Measuring takes some tens of milliseconds. Returns 0 on a single rank.
///
/// # Errors
/// Returns [`Error::Settings`] on every rank for ranks with other lengths; the errors of [`Comm`].
///
/// # Collective
/// All ranks, with the same length.
pub fn measure_move_unit_s(comm: &dyn Comm, unit_bytes: usize) -> Result<f64, Error> {
    let _call =
        CollectiveCall::new(comm, "measuring a move").with("unit_bytes", &unit_bytes).enter()?;
    if comm.size() == 1 || unit_bytes == 0 {
        return Ok(0.0);
    }
    comm.check_messages()?;
    let units = (MESSAGE_BYTES / unit_bytes).max(1);
    let bytes = (units * unit_bytes).min(MOST_BYTES);
    let exchange_s = measure_exchange_s(comm, bytes, TRIES)?;
    let message_s = exchange_s / MESSAGES as f64 + COPIES * measure_copy_s(bytes);
    comm.largest(message_s * unit_bytes as f64 / bytes as f64)
}

/// Measures the seconds to copy some bytes into new memory.
fn measure_copy_s(bytes: usize) -> f64 {
    let source = vec![1u8; bytes];
    // What was freed would be taken again, and has its pages.
    let copies = [(); TRIES].map(|()| {
        let start = Instant::now();
        let copy = black_box(source.clone());
        (start.elapsed().as_secs_f64(), copy)
    });
    let mut times_s = copies.map(|(seconds, _)| seconds);
    times_s.sort_by(f64::total_cmp);
    times_s[TRIES / 2]
}
