//! Messages under way over MPI.

use std::ops::Range;

use isochron_core::Error;
use isochron_core::comm::{Comm as _, InFlight, MAX_TAG, MessageSpan};
use mpi::ffi;

use super::{MpiComm, count, failure};

/// Requests that dropping this value completes, so that MPI never keeps a borrowed buffer. If they fail, the buffers are
/// never freed.
pub(super) struct Requests<'c> {
    comm: &'c MpiComm,
    posted: Vec<ffi::MPI_Request>,
    relays: Vec<Relay>,
}

/// A message to be sent on once it has arrived.
struct Relay {
    /// The requests that receive it.
    requests: Range<usize>,
    span: MessageSpan,
}

impl<'c> Requests<'c> {
    /// Starts to receive and to send messages.
    ///
    /// # Safety
    /// The conditions of [`Comm::start`](super::Comm::start).
    pub(super) unsafe fn start(
        comm: &'c MpiComm,
        sends: &[MessageSpan],
        recvs: &[MessageSpan],
    ) -> Result<Self, Error> {
        let mut requests = Self {
            comm,
            posted: Vec::with_capacity(sends.len() + recvs.len()),
            relays: Vec::new(),
        };
        for span in recvs {
            let first = requests.posted.len();
            // SAFETY: by the caller's contract.
            unsafe { requests.post(span, span.rank, true) }?;
            if !span.forward.is_empty() {
                requests
                    .relays
                    .push(Relay { requests: first..requests.posted.len(), span: span.clone() });
            }
        }
        for span in sends {
            // SAFETY: by the caller's contract.
            unsafe { requests.post(span, span.rank, false) }?;
        }
        Ok(requests)
    }

    /// Starts to receive a message from `rank`, or to send it there.
    ///
    /// # Safety
    /// Its memory stays allocated until this value says that all is done or has been dropped, and for ever after an error.
    /// Until then a received message stays untouched, and one that is sent unchanged.
    unsafe fn post(
        &mut self,
        span: &MessageSpan,
        rank: usize,
        is_received: bool,
    ) -> Result<(), Error> {
        assert!(span.tag <= MAX_TAG, "a tag that MPI may not know");
        let (tag, comm) = (count(span.tag as usize), self.comm);
        for (start, length) in cut_message(span, comm.longest) {
            // SAFETY: by this function's contract; the request is completed before this value goes.
            let started = unsafe {
                comm.start_message(start.cast(), count(length), count(rank), tag, is_received)
            };
            let (call, code) = started.outcome;
            comm.check_code(call, code)?;
            self.posted.push(started.request);
        }
        Ok(())
    }

    /// Sends on the messages that have arrived.
    fn pass_on(&mut self) -> Result<(), Error> {
        let mut next = 0;
        while let Some(Relay { requests, .. }) = self.relays.get(next) {
            let arrived = &mut self.posted[requests.clone()];
            if !self.comm.test_all("MPI_Test", arrived)? {
                next += 1;
                continue;
            }
            let Relay { span, .. } = self.relays.swap_remove(next);
            for &rank in &span.forward {
                // SAFETY: the memory is that of a message given to this value; it has arrived and is not written any
                // more.
                unsafe { self.post(&span, rank, false) }?;
            }
        }
        Ok(())
    }
}

impl InFlight for Requests<'_> {
    fn progress(&mut self) -> Result<bool, Error> {
        self.pass_on()?;
        Ok(self.relays.is_empty() && self.comm.test_all("MPI_Test", &mut self.posted)?)
    }
}

impl Drop for Requests<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.comm.abandon(failure::PANICKED);
        }
        // The owner of the memory asks for the outcome itself.
        let _ = self.wait();
    }
}

/// Cuts a message into pieces that MPI can count, each given by its start and its bytes. Both sides cut it alike, and
/// the pieces between two ranks arrive in order.
fn cut_message(
    span: &MessageSpan,
    longest: usize,
) -> impl Iterator<Item = (*mut u8, usize)> + use<> {
    let (start, bytes) = (span.start, span.bytes);
    (0..bytes).step_by(longest).map(move |first| {
        let length = longest.min(bytes - first);
        (start.wrapping_add(first), length)
    })
}

#[cfg(test)]
mod tests {
    use super::super::LONGEST;
    use super::*;

    #[test]
    fn messages_beyond_what_mpi_counts_go_in_pieces() {
        // Only addresses are computed; the memory is not read.
        let span = MessageSpan {
            rank: 3,
            tag: 0,
            forward: Vec::new(),
            start: std::ptr::null_mut(),
            bytes: 5 * LONGEST + 7,
        };
        let cut: Vec<_> = cut_message(&span, LONGEST).collect();
        assert_eq!(cut.len(), 6);
        let mut next = 0;
        for (start, bytes) in cut {
            assert_eq!(start.addr(), next);
            assert!(i32::try_from(bytes).is_ok());
            next += bytes;
        }
        assert_eq!(next, span.bytes);
        let empty = MessageSpan { bytes: 0, ..span };
        assert_eq!(cut_message(&empty, 10).count(), 0);
    }
}
