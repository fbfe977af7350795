//! The contract of a communicator, and of messages under way.

use super::pause::Pause;

/// A group of ranks that send each other messages.
///
/// An MPI error ends the whole job: no method reports one. Collectives over values of any type are methods of `dyn
/// Comm`.
///
/// # Collective
/// Every method but [`rank`](Comm::rank), [`size`](Comm::size), [`host`](Comm::host),
/// [`implementation`](Comm::implementation) and [`start`](Comm::start): all ranks call it, in the same order.
pub trait Comm {
    /// This rank, `0 <= rank < size`.
    fn rank(&self) -> usize;

    /// Number of ranks, at least 1.
    fn size(&self) -> usize;

    /// Name of the host this rank runs on.
    fn host(&self) -> &str;

    /// Name and version of the message-passing library.
    fn implementation(&self) -> &str;

    /// Returns when every rank has called it.
    fn barrier(&self);

    /// Replaces `data` on every rank by that of `root`, which is the same on all ranks.
    fn broadcast(&self, root: usize, data: &mut Vec<u8>);

    /// Returns every rank's `data`, by rank; lengths may differ.
    fn all_gather(&self, data: &[u8]) -> Vec<Vec<u8>>;

    /// Replaces `values`, of the same length on all ranks, by their sums over all ranks.
    fn sum_f64(&self, values: &mut [f64]);

    /// Replaces `values`, of the same length on all ranks, by their sums over all ranks, modulo 2⁶⁴.
    fn sum_u64(&self, values: &mut [u64]);

    /// Starts to receive and to send; returns at once. Not collective.
    ///
    /// Messages with one tag between one pair of ranks arrive in the order in which both list them, call after call. A
    /// received message is sent on to the ranks that [`MessageSpan::forward`] names. [`Transfer`](super::Transfer) is
    /// the safe way to call it.
    ///
    /// # Safety
    /// The memory of the messages stays allocated until they are done. They are done when the returned value says so or
    /// has been dropped. Until then nothing writes to memory that is sent or touches memory that is received. Memory
    /// that is received overlaps no other message.
    #[doc(hidden)]
    #[allow(
        unsafe_code,
        reason = "memory that is lent until an event has no safe signature"
    )]
    unsafe fn start(&self, sends: &[MessageSpan], recvs: &[MessageSpan]) -> Box<dyn InFlight + '_>;
}

/// Memory of a message, and the rank at its other end.
#[derive(Debug, Clone)]
pub struct MessageSpan {
    /// The other rank; never this one.
    pub rank: usize,
    /// Number of the message, the same on both sides, at most [`MAX_TAG`]. Messages with the same tag arrive in order.
    pub tag: u32,
    /// Ranks to which a received message is sent on, with the same tag, as soon as it has arrived.
    pub forward: Vec<usize>,
    /// First byte.
    pub start: *mut u8,
    /// Number of bytes.
    pub bytes: usize,
}

/// The largest tag that every MPI library knows.
pub const MAX_TAG: u32 = 32767;

/// Messages under way. Dropping it waits until they are done.
pub trait InFlight {
    /// Makes the messages progress; returns `true` once all have arrived and left.
    fn progress(&mut self) -> bool;

    /// Waits until all have arrived and left, with growing pauses.
    fn wait(&mut self) {
        let mut pause = Pause::default();
        while !self.progress() {
            pause.wait();
        }
    }
}
