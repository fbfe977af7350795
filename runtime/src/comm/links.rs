//! What the links between ranks carry.

use std::time::{Duration, Instant};

use isochron_devices::thread_cpu_time_s;
use isochron_hierarchy::predict::Links;

use super::{Comm, Message, Transfer, largest};

/// Bytes of a message whose time is the bandwidth's: large against what a latency carries on any network, and still
/// milliseconds on a slow one.
const LONG: usize = 512 << 10;
/// Messages of each length, one after the other; the fastest counts, since what else goes on only delays.
const TRIES: usize = 8;

/// Measures what a rank sends and receives at a time, with all ranks at it. The slowest link counts.
///
/// # Collective
/// All ranks.
pub fn measure_links(comm: &dyn Comm) -> Links {
    let (rank, size) = (comm.rank(), comm.size());
    if size == 1 {
        return Links {
            latency_s: 0.0,
            bytes_per_s: f64::INFINITY,
        };
    }
    let (next, before) = ((rank + 1) % size, (rank + size - 1) % size);
    // Who sends to one neighbour alone may come late himself, and then waits for nothing: long messages need both sides.
    let links = links(
        largest(comm, exchange_s(comm, 1, &[next, before], &[before, next])),
        largest(comm, exchange_s(comm, LONG, &[next], &[before])),
    );
    tracing::debug!(links.latency_s, links.bytes_per_s, "measured the links");
    links
}

/// What carries one byte in `short_s` seconds, and a long message in `long_s`.
fn links(short_s: f64, long_s: f64) -> Links {
    // Where the long one was hardly slower the short one was disturbed, or the clock is too coarse to see either.
    let long_s = long_s.max(1e-9);
    let latency_s = short_s.min(long_s / 2.0);
    Links {
        latency_s,
        bytes_per_s: LONG as f64 / (long_s - latency_s),
    }
}

/// Seconds of an exchange of messages of so many bytes: half of the fastest two in a row.
///
/// Where all ranks hear of both neighbours, none can have made two exchanges in less than a message takes there and one back,
/// however far apart they began. Who met at a barrier before each would time how late the other one leaves it. Nobody sleeps
/// meanwhile, as waking up takes longer than a message.
fn exchange_s(comm: &dyn Comm, bytes: usize, to: &[usize], from: &[usize]) -> f64 {
    let messages = |ranks: &[usize], first: usize| -> Vec<Message> {
        let numbered = ranks.iter().zip(first..);
        let plain = numbered.map(|(&rank, buffer)| Message::plain(rank, buffer, 0..bytes));
        plain.collect()
    };
    let (sends, recvs) = (messages(to, 0), messages(from, to.len()));
    let mut buffers = vec![vec![0u8; bytes]; to.len() + from.len()];
    let mut starts = vec![Instant::now()];
    for _ in 0..TRIES {
        let mut transfer = Transfer::start(comm, buffers, &sends, &recvs);
        while !transfer.progress() {
            std::thread::yield_now();
        }
        buffers = transfer.finish();
        starts.push(Instant::now());
    }
    let in_a_row = starts.windows(3).map(|three| three[2] - three[0]);
    in_a_row.min().unwrap_or_default().as_secs_f64() / 2.0
}

/// How long a rank sleeps between two looks at a message whose cost is measured, about as it does while its devices compute.
const LOOKS: Duration = Duration::from_micros(100);

/// Seconds of CPU time that this rank needs for each byte of a long message that it sends or receives, with all ranks at it:
/// what copies and the system's calls take of a core that could compute. 0 for one rank alone.
///
/// # Collective
/// All ranks.
pub fn core_s_per_byte(comm: &dyn Comm) -> f64 {
    let (rank, size) = (comm.rank(), comm.size());
    if size == 1 {
        return 0.0;
    }
    let sends = [Message::plain((rank + 1) % size, 0, 0..LONG)];
    let recvs = [Message::plain((rank + size - 1) % size, 1, 0..LONG)];
    let mut buffers = vec![vec![0u8; LONG]; 2];
    let mut least_s = f64::INFINITY;
    for _ in 0..TRIES {
        let start_s = thread_cpu_time_s();
        let mut transfer = Transfer::start(comm, buffers, &sends, &recvs);
        while !transfer.progress() {
            std::thread::sleep(LOOKS);
        }
        buffers = transfer.finish();
        least_s = least_s.min(thread_cpu_time_s() - start_s);
    }
    least_s / (2 * LONG) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_alone_handles_no_messages() {
        assert_eq!(core_s_per_byte(&crate::comm::LocalComm::new()), 0.0);
    }

    #[test]
    fn a_disturbed_message_makes_no_link_infinitely_fast() {
        let sound = links(1e-4, 5.1e-3);
        assert_eq!(sound.latency_s, 1e-4);
        assert!((sound.bytes_per_s - LONG as f64 / 5e-3).abs() < 1.0);
        for short_s in [1e-4, 2e-4, 1.0] {
            let disturbed = links(short_s, 1.5e-4);
            assert!(disturbed.bytes_per_s <= 2.0 * LONG as f64 / 1.5e-4);
            assert!(disturbed.latency_s > 0.0 && disturbed.latency_s <= 7.5e-5);
        }
        assert!(links(0.0, 0.0).bytes_per_s.is_finite());
    }
}
