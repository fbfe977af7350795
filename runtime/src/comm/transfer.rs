//! Messages that travel while something else is done.

use std::ops::Range;

#[cfg(doc)]
use super::contract::MAX_TAG;
use super::contract::{Comm, InFlight, MessageSpan};
use crate::error::Error;

/// One message of a [`Transfer`]: a range of elements of one of its buffers, and the other rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The rank that it goes to or comes from; never this one.
    pub rank: usize,
    /// Index of the buffer.
    pub buffer: usize,
    /// Elements of the buffer.
    pub range: Range<usize>,
    /// Number that tells it from other messages between the two ranks, the same on both sides, at most [`MAX_TAG`].
    pub tag: u32,
    /// Ranks to which a received message is sent on, with the same tag, as soon as it has arrived. Ignored for a
    /// message that is sent.
    pub forward: Vec<usize>,
}

impl Message {
    /// Makes a message between two ranks with tag 0; such messages arrive in the order in which they are sent.
    pub fn plain(rank: usize, buffer: usize, range: Range<usize>) -> Self {
        Self { rank, buffer, range, tag: 0, forward: Vec::new() }
    }
}

/// Messages under way, with the buffers that they lie in. No code can touch the buffers before all messages are done.
pub struct Transfer<'c, T> {
    flight: Box<dyn InFlight + 'c>,
    buffers: Vec<Vec<T>>,
}

impl<'c, T: bytemuck::Pod> Transfer<'c, T> {
    /// Starts the messages. Those with one tag between one pair of ranks arrive in the order in which both list them,
    /// transfer by transfer. Empty ones are not sent.
    ///
    /// # Errors
    /// Returns the errors of [`Comm`]; the buffers are never freed then.
    ///
    /// # Panics
    /// If a message does not lie in its buffer, a received message overlaps another one, or a tag is beyond
    /// [`MAX_TAG`].
    pub fn start(
        comm: &'c dyn Comm,
        mut buffers: Vec<Vec<T>>,
        sends: &[Message],
        recvs: &[Message],
    ) -> Result<Self, Error> {
        check_disjoint(sends, recvs);
        // Taken once: a later reference into a buffer would end the claim of the pointers before it.
        let places: Vec<(*mut T, usize)> =
            buffers.iter_mut().map(|buffer| (buffer.as_mut_ptr(), buffer.len())).collect();
        let (sends, recvs) = (find_spans(sends, &places), find_spans(recvs, &places));
        // SAFETY: the spans lie in the buffers. This value owns their memory, which neither moves nor is freed, also
        // when the value is leaked, and no code reaches it before `finish`. After an error it is leaked. Received memory
        // overlaps no other message, and every pattern of bits is an element.
        match unsafe { comm.start(&sends, &recvs) } {
            Ok(flight) => Ok(Self { flight, buffers }),
            Err(error) => {
                std::mem::forget(buffers);
                Err(error)
            }
        }
    }

    /// Makes the messages progress; returns `true` once all have arrived and left.
    ///
    /// # Errors
    /// Returns the errors of [`Comm`]; the buffers are never freed then.
    pub fn progress(&mut self) -> Result<bool, Error> {
        self.flight.progress()
    }

    /// Waits for the messages and returns the buffers.
    ///
    /// # Errors
    /// Returns the errors of [`Comm`]; the buffers are never freed then.
    pub fn finish(mut self) -> Result<Vec<Vec<T>>, Error> {
        self.flight.wait()?;
        Ok(std::mem::take(&mut self.buffers))
    }
}

impl<T> Drop for Transfer<'_, T> {
    /// Waits for the messages before the buffers are freed. A library that has failed may still write to them.
    fn drop(&mut self) {
        if self.flight.wait().is_err() {
            std::mem::forget(std::mem::take(&mut self.buffers));
        }
    }
}

/// Finds the memory of the messages that are not empty, in buffers given by their starts and lengths.
fn find_spans<T>(messages: &[Message], places: &[(*mut T, usize)]) -> Vec<MessageSpan> {
    messages
        .iter()
        .filter(|message| !message.range.is_empty())
        .map(|message| {
            let (start, len) = places[message.buffer];
            assert!(message.range.end <= len, "a message does not lie in its buffer");
            MessageSpan {
                rank: message.rank,
                tag: message.tag,
                forward: message.forward.clone(),
                start: start.wrapping_add(message.range.start).cast(),
                bytes: message.range.len() * size_of::<T>(),
            }
        })
        .collect()
}

/// Checks that no received message overlaps another one.
fn check_disjoint(sends: &[Message], recvs: &[Message]) {
    let sent = sends.iter().map(|message| (message, false));
    let received = recvs.iter().map(|message| (message, true));
    let mut all: Vec<(&Message, bool)> = sent.chain(received).collect();
    all.retain(|(message, _)| !message.range.is_empty());
    all.sort_by_key(|(message, _)| (message.buffer, message.range.start));
    // How far the messages so far reach: the last buffer, and the end in it.
    let (mut sent_end, mut received_end) = ((0, 0), (0, 0));
    for (message, received) in all {
        let start = (message.buffer, message.range.start);
        assert!(
            start >= received_end && (start >= sent_end || !received),
            "a message is received over another one"
        );
        let end = if received { &mut received_end } else { &mut sent_end };
        *end = (message.buffer, message.range.end).max(*end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(buffer: usize, range: Range<usize>) -> Message {
        Message::plain(1, buffer, range)
    }

    #[test]
    fn sent_messages_may_overlap() {
        let sends = [message(0, 0..4), message(0, 2..6), message(0, 0..4)];
        check_disjoint(&sends, &[message(0, 6..9), message(1, 0..4)]);
    }

    #[test]
    #[should_panic(expected = "received over another")]
    fn received_messages_may_not_overlap() {
        check_disjoint(&[message(0, 0..9)], &[message(0, 5..6)]);
    }

    #[test]
    #[should_panic(expected = "received over another")]
    fn two_received_messages_may_not_overlap() {
        check_disjoint(&[], &[message(2, 0..5), message(2, 4..6)]);
    }
}
