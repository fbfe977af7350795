//! Messages that are exchanged to be timed.

use std::time::{Duration, Instant};

use isochron_devices::thread_cpu_time_s;

use super::contract::Comm;
use super::transfer::{Message, Transfer};
use crate::error::Error;

/// Rounds of short messages before messages are timed.
const GATHERING_ROUNDS: usize = 3;

/// Time without work before messages are timed.
pub(super) const REST: Duration = Duration::from_micros(500);

/// Time between two looks at a message of which the CPU time is measured, about as long as while devices compute.
const LOOK_INTERVAL: Duration = Duration::from_micros(100);

/// Looks of which the CPU time is measured.
const LOOKS: usize = 4;

/// Messages of one length to some ranks and from them.
struct Exchange<'c> {
    comm: &'c dyn Comm,
    sends: Vec<Message>,
    recvs: Vec<Message>,
    buffers: Vec<Vec<u8>>,
}

impl<'c> Exchange<'c> {
    /// Makes messages to both neighbours and from them. With one neighbour alone, a late rank would find a message already there.
    fn new(comm: &'c dyn Comm, bytes: usize) -> Self {
        let (rank, size) = (comm.rank(), comm.size());
        let (next, before) = ((rank + 1) % size, (rank + size - 1) % size);
        Self::between(comm, &[next, before], &[before, next], bytes)
    }

    fn between(comm: &'c dyn Comm, to: &[usize], from: &[usize], bytes: usize) -> Self {
        Self {
            comm,
            sends: whole_buffers(to, 0, bytes),
            recvs: whole_buffers(from, to.len(), bytes),
            // Not zeros, so that the pages exist before the first message: making them would be timed with it.
            buffers: vec![vec![1; bytes]; to.len() + from.len()],
        }
    }

    /// Exchanges the messages, and calls `pause` between two looks at them.
    fn run(&mut self, mut pause: impl FnMut()) -> Result<(), Error> {
        let buffers = std::mem::take(&mut self.buffers);
        let mut transfer = Transfer::start(self.comm, buffers, &self.sends, &self.recvs)?;
        while !transfer.progress()? {
            pause();
        }
        self.buffers = transfer.finish()?;
        Ok(())
    }
}

/// Measures the seconds of an exchange of messages of `bytes` bytes after a rest: half of the fastest two of `tries` in
/// a row, or one alone.
///
/// All ranks receive from both neighbours, so none can make two exchanges in less time than a message takes to a
/// neighbour and back, however far apart the ranks began. A barrier before each message would add its own skew to the
/// measured time. No rank sleeps meanwhile: waking up takes longer than a message.
pub(crate) fn measure_exchange_s(
    comm: &dyn Comm,
    bytes: usize,
    tries: usize,
) -> Result<f64, Error> {
    let mut exchange = Exchange::new(comm, bytes);
    std::thread::sleep(REST);
    // Brings the ranks together: waking up from a collective takes longer than a message. One round makes neighbours wait for
    // each other, and two their neighbours.
    for _ in 0..GATHERING_ROUNDS.min(comm.size() / 2) {
        Exchange::new(comm, 1).run(std::thread::yield_now)?;
    }
    time_in_a_row(tries, || exchange.run(std::thread::yield_now))
}

/// Measures the seconds of a message of `bytes` bytes between this rank and a partner, both ways at once: half of the fastest two
/// of `tries` in a row, or one alone. A message of one byte brings both together.
pub(super) fn measure_pair_s(
    comm: &dyn Comm,
    partner: usize,
    bytes: usize,
    tries: usize,
) -> Result<f64, Error> {
    let mut exchange = Exchange::between(comm, &[partner], &[partner], bytes);
    Exchange::between(comm, &[partner], &[partner], 1).run(std::thread::yield_now)?;
    time_in_a_row(tries, || exchange.run(std::thread::yield_now))
}

/// Returns the seconds of an exchange: half of the fastest two of `tries` in a row, or one alone.
fn time_in_a_row(
    tries: usize,
    mut exchange: impl FnMut() -> Result<(), Error>,
) -> Result<f64, Error> {
    let mut starts = vec![Instant::now()];
    for _ in 0..tries {
        exchange()?;
        starts.push(Instant::now());
    }
    let in_a_row = tries.min(2);
    let fastest = starts.windows(in_a_row + 1).map(|times| times[in_a_row] - times[0]).min();
    Ok(fastest.unwrap_or_default().as_secs_f64() / in_a_row as f64)
}

/// Measures the CPU time, in seconds, of an exchange of messages of `bytes` bytes: the least of some. Looking for them
/// does not count: the longer the way of a message, the more looks there are.
pub(super) fn measure_core_s(comm: &dyn Comm, bytes: usize, tries: usize) -> Result<f64, Error> {
    let look_s = measure_look_s();
    let mut exchange = Exchange::new(comm, bytes);
    let mut least_s = f64::INFINITY;
    for _ in 0..tries {
        let (start_s, mut looks) = (thread_cpu_time_s(), 0);
        exchange.run(|| {
            looks += 1;
            std::thread::sleep(LOOK_INTERVAL);
        })?;
        let spent_s = thread_cpu_time_s() - start_s - f64::from(looks) * look_s;
        least_s = least_s.min(spent_s.max(0.0));
    }
    Ok(least_s)
}

/// Measures the CPU time, in seconds, of a pause between two looks: the least of some.
fn measure_look_s() -> f64 {
    (0..LOOKS)
        .map(|_| {
            let start_s = thread_cpu_time_s();
            std::thread::sleep(LOOK_INTERVAL);
            thread_cpu_time_s() - start_s
        })
        .fold(f64::INFINITY, f64::min)
}

/// Makes a message of `bytes` bytes for each rank, in buffers from `first` on.
fn whole_buffers(ranks: &[usize], first: usize, bytes: usize) -> Vec<Message> {
    ranks
        .iter()
        .zip(first..)
        .map(|(&rank, buffer)| Message::plain(rank, buffer, 0..bytes))
        .collect()
}
