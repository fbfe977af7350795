//! Measurements of the links between ranks.

use std::time::{Duration, Instant};

use isochron_devices::thread_cpu_time_s;
use isochron_hierarchy::predict::Links;

use super::contract::Comm;
use super::transfer::{Message, Transfer};

/// Bytes of a message that takes much longer than the latency on any network, and still milliseconds on a slow one.
const LONG_BYTES: usize = 512 << 10;
/// Messages of each length, one after the other. The fastest counts: disturbances only delay.
const TRIES: usize = 8;

/// Measures latency and bandwidth while all ranks send and receive at once. The slowest link counts.
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
    // With one neighbour alone, a late rank would find a short message already there: it is exchanged with both neighbours.
    // A long message travels only once both its ranks are there.
    let links = fit_links(
        comm.largest(measure_exchange_s(
            comm,
            1,
            &[next, before],
            &[before, next],
        )),
        comm.largest(measure_exchange_s(comm, LONG_BYTES, &[next], &[before])),
    );
    tracing::debug!(links.latency_s, links.bytes_per_s, "measured the links");
    links
}

/// Finds the links that carry one byte in `short_s` seconds and [`LONG_BYTES`] in `long_s`.
fn fit_links(short_s: f64, long_s: f64) -> Links {
    // If the long message was hardly slower, the short one was disturbed, or the clock is too coarse for both.
    let long_s = long_s.max(1e-9);
    let latency_s = short_s.min(long_s / 2.0);
    Links {
        latency_s,
        bytes_per_s: LONG_BYTES as f64 / (long_s - latency_s),
    }
}

/// Measures the seconds of an exchange of messages of `bytes` bytes: half of the fastest two in a row.
///
/// If all ranks receive from both neighbours, none can make two exchanges in less time than a message takes to a neighbour
/// and back, however far apart the ranks began. A barrier before each message would add its own skew to the measured time.
/// No rank sleeps meanwhile: waking up takes longer than a message.
fn measure_exchange_s(comm: &dyn Comm, bytes: usize, to: &[usize], from: &[usize]) -> f64 {
    let (sends, recvs) = (
        whole_buffers(to, 0, bytes),
        whole_buffers(from, to.len(), bytes),
    );
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

/// Makes a message of `bytes` bytes for each rank, in buffers from `first` on.
fn whole_buffers(ranks: &[usize], first: usize, bytes: usize) -> Vec<Message> {
    let numbered = ranks.iter().zip(first..);
    numbered
        .map(|(&rank, buffer)| Message::plain(rank, buffer, 0..bytes))
        .collect()
}

/// Time between two looks at a message of which the CPU time is measured, about as long as while devices compute.
const LOOK_INTERVAL: Duration = Duration::from_micros(100);

/// Measures the CPU time, in seconds, that this rank needs for each byte that it sends or receives in long messages. All
/// ranks send and receive meanwhile. The time goes into copies and system calls, which occupy a core. 0 for a single rank.
///
/// # Collective
/// All ranks.
pub fn core_s_per_byte(comm: &dyn Comm) -> f64 {
    let (rank, size) = (comm.rank(), comm.size());
    if size == 1 {
        return 0.0;
    }
    let sends = whole_buffers(&[(rank + 1) % size], 0, LONG_BYTES);
    let recvs = whole_buffers(&[(rank + size - 1) % size], 1, LONG_BYTES);
    let mut buffers = vec![vec![0u8; LONG_BYTES]; 2];
    let mut least_s = f64::INFINITY;
    for _ in 0..TRIES {
        let start_s = thread_cpu_time_s();
        let mut transfer = Transfer::start(comm, buffers, &sends, &recvs);
        while !transfer.progress() {
            std::thread::sleep(LOOK_INTERVAL);
        }
        buffers = transfer.finish();
        least_s = least_s.min(thread_cpu_time_s() - start_s);
    }
    least_s / (2 * LONG_BYTES) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_rank_handles_no_messages() {
        assert_eq!(core_s_per_byte(&super::super::LocalComm::new()), 0.0);
    }

    #[test]
    fn a_disturbed_message_makes_no_link_infinitely_fast() {
        let sound = fit_links(1e-4, 5.1e-3);
        assert_eq!(sound.latency_s, 1e-4);
        assert!((sound.bytes_per_s - LONG_BYTES as f64 / 5e-3).abs() < 1.0);
        for short_s in [1e-4, 2e-4, 1.0] {
            let disturbed = fit_links(short_s, 1.5e-4);
            assert!(disturbed.bytes_per_s <= 2.0 * LONG_BYTES as f64 / 1.5e-4);
            assert!(disturbed.latency_s > 0.0 && disturbed.latency_s <= 7.5e-5);
        }
        assert!(fit_links(0.0, 0.0).bytes_per_s.is_finite());
    }
}
