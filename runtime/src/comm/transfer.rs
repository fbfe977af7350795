//! Messages that travel while something else is done.

use std::ops::Range;

use super::Comm;

/// Memory of a message, in bytes, and the rank that it goes to or comes from.
#[derive(Debug, Clone)]
pub struct Span {
    /// The other rank; never this one.
    pub rank: usize,
    /// What tells it from other messages between the two, on both sides; those with the same tag arrive in order.
    pub tag: u32,
    /// Ranks that a message which is received is sent on to, with the same tag, as soon as it is here.
    pub forward: Vec<usize>,
    /// Where it begins.
    pub start: *mut u8,
    /// How long it is.
    pub bytes: usize,
}

/// Messages under way. Dropping it waits until they are done.
pub trait InFlight {
    /// Makes the messages progress; whether all have arrived and left.
    fn progress(&mut self) -> bool;

    /// Waits until all have arrived and left, with growing pauses.
    fn wait(&mut self);
}

/// One message of a [`Transfer`]: a stretch of one of its buffers, in elements, and the other rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The rank that it goes to or comes from; never this one.
    pub rank: usize,
    /// Which of the buffers.
    pub buffer: usize,
    /// Which of its elements.
    pub range: Range<usize>,
    /// What tells it from other messages between the two ranks, on both sides, at most [`MAX_TAG`].
    pub tag: u32,
    /// Ranks that a message which is received is sent on to, with the same tag, as soon as it is here; of one that is sent it
    /// says nothing.
    pub forward: Vec<usize>,
}

/// The largest tag that every MPI library knows.
pub const MAX_TAG: u32 = 32767;

impl Message {
    /// A message between two ranks alone, in the order of all such messages between them.
    pub fn plain(rank: usize, buffer: usize, range: Range<usize>) -> Self {
        Self {
            rank,
            buffer,
            range,
            tag: 0,
            forward: Vec::new(),
        }
    }
}

/// Messages under way, with the buffers that they lie in: nobody can touch them before all is done.
pub struct Transfer<'c, T> {
    // Declared before the buffers: it is dropped, and so has waited, before they are freed.
    flight: Box<dyn InFlight + 'c>,
    buffers: Vec<Vec<T>>,
}

impl<'c, T: bytemuck::Pod> Transfer<'c, T> {
    /// Starts the messages. Those with one tag between one pair of ranks arrive in the order in which both list them,
    /// transfer by transfer. Empty ones are not sent.
    ///
    /// # Panics
    /// When a message does not lie in its buffer, one that is received lies in another one, or a tag is beyond [`MAX_TAG`].
    pub fn start(
        comm: &'c dyn Comm,
        mut buffers: Vec<Vec<T>>,
        sends: &[Message],
        recvs: &[Message],
    ) -> Self {
        check_disjoint(sends, recvs);
        // Taken once: a later reference into a buffer would end the claim of the pointers before it.
        let places = buffers.iter_mut().map(|b| (b.as_mut_ptr(), b.len()));
        let places: Vec<(*mut T, usize)> = places.collect();
        let spans = |messages: &[Message]| -> Vec<Span> {
            let full = messages.iter().filter(|message| !message.range.is_empty());
            full.map(
                |Message {
                     rank,
                     buffer,
                     range,
                     tag,
                     forward,
                 }| {
                    let (start, len) = places[*buffer];
                    assert!(range.end <= len, "a message does not lie in its buffer");
                    Span {
                        rank: *rank,
                        tag: *tag,
                        forward: forward.clone(),
                        start: start.wrapping_add(range.start).cast(),
                        bytes: range.len() * size_of::<T>(),
                    }
                },
            )
            .collect()
        };
        let (sends, recvs) = (spans(sends), spans(recvs));
        // SAFETY: the spans lie in the buffers, whose memory neither moves nor is freed while this value owns them, also
        // when it is leaked; nobody can reach them before `finish`. What is received overlaps nothing, and every pattern
        // of bits is an element.
        let flight = unsafe { comm.start(&sends, &recvs) };
        Self { flight, buffers }
    }

    /// Makes the messages progress; whether all have arrived and left.
    pub fn progress(&mut self) -> bool {
        self.flight.progress()
    }

    /// Waits for the messages, and gives the buffers back.
    pub fn finish(mut self) -> Vec<Vec<T>> {
        self.flight.wait();
        std::mem::take(&mut self.buffers)
    }
}

/// A stretch that is received must overlap no other one.
fn check_disjoint(sends: &[Message], recvs: &[Message]) {
    let mut all: Vec<(&Message, bool)> = Vec::with_capacity(sends.len() + recvs.len());
    all.extend(sends.iter().map(|message| (message, false)));
    all.extend(recvs.iter().map(|message| (message, true)));
    all.retain(|(message, _)| !message.range.is_empty());
    all.sort_by_key(|(message, _)| (message.buffer, message.range.start));
    let mut end: Option<(usize, usize, bool)> = None;
    for (message, received) in all {
        let (start, stop) = (message.range.start, message.range.end);
        end = match end {
            Some((buffer, until, written)) if buffer == message.buffer && start < until => {
                assert!(
                    !received && !written,
                    "a message is received over another one"
                );
                Some((buffer, until.max(stop), false))
            }
            _ => Some((message.buffer, stop, received)),
        };
    }
}

/// One message to another rank, of borrowed elements.
#[derive(Debug)]
pub struct Outgoing<'a, T> {
    /// The receiving rank; never the sender itself.
    pub to: usize,
    /// The elements.
    pub data: &'a [T],
}

/// One message from another rank; its length is known to both sides.
#[derive(Debug)]
pub struct Incoming<'a, T> {
    /// The sending rank; never the receiver itself.
    pub from: usize,
    /// Where the elements go.
    pub data: &'a mut [T],
}

/// Sends and receives; returns when every message has arrived and left. Messages between one pair of ranks arrive in the
/// order in which both list them. Not collective: only the ranks that have messages for each other need to call it.
pub fn exchange<T: bytemuck::Pod>(
    comm: &dyn Comm,
    sends: &[Outgoing<'_, T>],
    recvs: &mut [Incoming<'_, T>],
) {
    let span = |rank: usize, start: *mut T, len: usize| Span {
        rank,
        tag: 0,
        forward: Vec::new(),
        start: start.cast(),
        bytes: len * size_of::<T>(),
    };
    let sends = sends
        .iter()
        .filter(|send| !send.data.is_empty())
        .map(|send| span(send.to, send.data.as_ptr().cast_mut(), send.data.len()))
        .collect::<Vec<_>>();
    let recvs = recvs
        .iter_mut()
        .filter(|recv| !recv.data.is_empty())
        .map(|recv| span(recv.from, recv.data.as_mut_ptr(), recv.data.len()))
        .collect::<Vec<_>>();
    // SAFETY: the memory is borrowed, what is received exclusively, until this function returns, and it does so, or
    // unwinds, when the messages are done. Sends are only read. Every pattern of bits is an element.
    unsafe { comm.start(&sends, &recvs) }.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(buffer: usize, range: Range<usize>) -> Message {
        Message::plain(1, buffer, range)
    }

    #[test]
    fn what_is_sent_may_overlap() {
        let sends = [message(0, 0..4), message(0, 2..6), message(0, 0..4)];
        check_disjoint(&sends, &[message(0, 6..9), message(1, 0..4)]);
    }

    #[test]
    #[should_panic(expected = "received over another")]
    fn what_is_received_may_not() {
        check_disjoint(&[message(0, 0..9)], &[message(0, 5..6)]);
    }

    #[test]
    #[should_panic(expected = "received over another")]
    fn not_even_by_another_receive() {
        check_disjoint(&[], &[message(2, 0..5), message(2, 4..6)]);
    }
}
