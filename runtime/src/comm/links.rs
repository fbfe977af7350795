//! What the links between ranks carry.

use std::time::Instant;

use isochron_hierarchy::predict::Links;

use super::{Comm, Incoming, Outgoing, exchange, largest};

/// Bytes of a message whose time is the bandwidth's: large against what a latency carries on any network, and still
/// milliseconds on a slow one.
const LONG: usize = 512 << 10;
/// Messages of each length; the fastest counts, since what else goes on only delays.
const TRIES: usize = 4;

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
    let latency_s = largest(comm, ring_s(comm, 1));
    let long_s = largest(comm, ring_s(comm, LONG));
    // A clock too coarse to see the message must not make a link infinitely fast.
    let bytes_per_s = LONG as f64 / (long_s - latency_s).max(1e-9);
    tracing::debug!(latency_s, bytes_per_s, "measured the links");
    Links {
        latency_s,
        bytes_per_s,
    }
}

/// Seconds of the fastest of some messages of so many bytes to the next rank, while one comes from the rank before.
fn ring_s(comm: &dyn Comm, bytes: usize) -> f64 {
    let (rank, size) = (comm.rank(), comm.size());
    let (sent, mut received) = (vec![0u8; bytes], vec![0u8; bytes]);
    let tries = (0..TRIES).map(|_| {
        comm.barrier();
        let start = Instant::now();
        let outgoing = Outgoing {
            to: (rank + 1) % size,
            data: &sent,
        };
        let incoming = Incoming {
            from: (rank + size - 1) % size,
            data: &mut received,
        };
        exchange(comm, &[outgoing], &mut [incoming]);
        start.elapsed().as_secs_f64()
    });
    tries.fold(f64::INFINITY, f64::min)
}
