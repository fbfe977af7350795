//! The contract of a communicator, and of messages under way.

use std::sync::Arc;

use super::pause::Pause;
use crate::error::Error;

/// A group of ranks that send each other messages.
///
/// Collectives over values of any type are methods of `dyn Comm`.
///
/// # Errors
/// Of every method that returns a `Result`: [`Error::Mpi`] on the rank whose message-passing library reports an error, and
/// [`Error::Rank`] on every other rank, which waits for it no longer; [`Error::Group`] for a group of the program's own. A failure lasts: every later call returns it, too.
/// [`Error::Forked`] in a forked child of the process that has made the communicator.
///
/// # Collective
/// Every method but [`rank`](Comm::rank), [`size`](Comm::size), [`host`](Comm::host), [`host_name`](Comm::host_name),
/// [`implementation`](Comm::implementation), [`start`](Comm::start), [`check_messages`](Comm::check_messages) and [`abandon`](Comm::abandon): all ranks call it, in the
/// same order.
pub trait Comm {
    /// This rank, `0 <= rank < size`.
    fn rank(&self) -> usize;

    /// Number of ranks, at least 1.
    fn size(&self) -> usize;

    /// Name of the host this rank runs on, which no other host of these ranks has: hosts that give themselves one name
    /// are numbered.
    fn host(&self) -> &str;

    /// Name that the host of this rank gives itself. Other hosts may have it too.
    fn host_name(&self) -> &str {
        self.host()
    }

    /// Name and version of the message-passing library.
    fn implementation(&self) -> &str;

    /// Returns when every rank has called it.
    fn barrier(&self) -> Result<(), Error>;

    /// Replaces `data` on every rank by that of `root`, which is the same on all ranks.
    ///
    /// # Errors
    /// Also returns [`Error::Parameter`] on every rank for a `root` that is no rank.
    fn broadcast(&self, root: usize, data: &mut Vec<u8>) -> Result<(), Error>;

    /// Returns every rank's `data`, by rank; lengths may differ.
    fn all_gather(&self, data: &[u8]) -> Result<Vec<Vec<u8>>, Error>;

    /// Replaces `values`, of the same length on all ranks, by their sums over all ranks.
    fn sum_f64(&self, values: &mut [f64]) -> Result<(), Error>;

    /// Replaces `values`, of the same length on all ranks, by their sums over all ranks, modulo 2⁶⁴.
    fn sum_u64(&self, values: &mut [u64]) -> Result<(), Error>;

    /// Makes a communicator of the ranks that give a number, in the order of the numbers, which differ. Returns `None` on the others.
    fn split(&self, number: Option<usize>) -> Result<Option<Arc<dyn Comm>>, Error>;

    /// Starts to receive and to send; returns at once. Not collective.
    ///
    /// Messages with one tag between one pair of ranks arrive in the order in which both list them, call after call. A
    /// received message is sent on to the ranks that [`MessageSpan::forward`] names. [`Transfer`](super::Transfer) is
    /// the safe way to call it.
    ///
    /// # Safety
    /// The memory of the messages stays allocated until they are done, and for ever if this call or the returned value
    /// reports an error. They are done when the returned value says so or has been dropped without an error. Until then
    /// nothing writes to memory that is sent or touches memory that is received. Memory that is received overlaps no other
    /// message.
    #[allow(unsafe_code, reason = "memory that is lent until an event has no safe signature")]
    unsafe fn start(
        &self,
        sends: &[MessageSpan],
        recvs: &[MessageSpan],
    ) -> Result<Box<dyn InFlight + '_>, Error>;

    /// Returns an error, the same on all ranks, if they only gather and share values, so that [`start`](Comm::start) refuses every message.
    /// Not collective.
    fn check_messages(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Tells the other ranks that this one takes part no longer, for the given reason: their calls return [`Error::Rank`].
    /// Not collective. Without other ranks, it does nothing.
    fn abandon(&self, _cause: &str) {}
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

/// Checks that there is a rank of this number, which the user knows by a name.
///
/// # Errors
/// Returns [`Error::Parameter`].
pub fn check_rank(name: &'static str, rank: usize, ranks: usize) -> Result<(), Error> {
    if rank < ranks {
        return Ok(());
    }
    let reason = format!("the ranks are 0 to {}", ranks - 1);
    Err(Error::parameter(name, rank, reason))
}

/// The largest tag of a message: that of the logs and answers of a run that learns. Every MPI library knows one more, which
/// tells of a rank that has failed.
pub const MAX_TAG: u32 = 32766;

/// Messages under way. Dropping it waits until they are done.
pub trait InFlight {
    /// Makes the messages progress; returns `true` once all have arrived and left.
    ///
    /// # Errors
    /// Fails as [`Comm`].
    fn progress(&mut self) -> Result<bool, Error>;

    /// Waits until all have arrived and left, with growing pauses.
    ///
    /// # Errors
    /// Fails as [`Comm`].
    fn wait(&mut self) -> Result<(), Error> {
        let mut pause = Pause::default();
        while !self.progress()? {
            pause.wait();
        }
        Ok(())
    }
}
