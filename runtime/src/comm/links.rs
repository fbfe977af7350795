//! What the links between ranks carry.

use std::time::Instant;

use isochron_hierarchy::predict::Links;

use super::{Comm, Message, Transfer, largest};

/// Bytes of a message whose time is the bandwidth's: large against what a latency carries on any network, and still
/// milliseconds on a slow one.
const LONG: usize = 512 << 10;
/// Messages of each length, one after the other; the fastest counts, since what else goes on only delays.
const TRIES: usize = 8;

/// Measures what a rank sends and receives at a time, with all ranks at it: each sends to the next one. The slowest link
/// counts.
///
/// # Collective
/// All ranks.
pub fn measure_links(comm: &dyn Comm) -> Links {
    if comm.size() == 1 {
        return Links {
            latency_s: 0.0,
            bytes_per_s: f64::INFINITY,
        };
    }
    let links = links(
        largest(comm, ring_s(comm, 1)),
        largest(comm, ring_s(comm, LONG)),
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

/// Seconds of the fastest of some messages of so many bytes to the next rank, while one comes from the rank before.
///
/// The ranks keep each other in step: none can be ahead of the one before. Who met at a barrier before each message would
/// time how late the other one leaves it. Nobody sleeps meanwhile, as waking up takes longer than a message.
fn ring_s(comm: &dyn Comm, bytes: usize) -> f64 {
    let (rank, size) = (comm.rank(), comm.size());
    let to = Message::plain((rank + 1) % size, 0, 0..bytes);
    let from = Message::plain((rank + size - 1) % size, 1, 0..bytes);
    let (to, from) = (std::slice::from_ref(&to), std::slice::from_ref(&from));
    let mut buffers = vec![vec![0u8; bytes], vec![0u8; bytes]];
    let mut fastest_s = f64::INFINITY;
    for _ in 0..TRIES {
        let start = Instant::now();
        let mut transfer = Transfer::start(comm, buffers, to, from);
        while !transfer.progress() {
            std::thread::yield_now();
        }
        fastest_s = fastest_s.min(start.elapsed().as_secs_f64());
        buffers = transfer.finish();
    }
    fastest_s
}

#[cfg(test)]
mod tests {
    use super::*;

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
