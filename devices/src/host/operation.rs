//! The operations of devices and BLAS libraries: code of others, which computes without a sign of progress.
//!
//! A watch over ranks that stand still cannot look inside. It knows how large the operation is that runs, and how long others
//! took in this process.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// Flop a second of the first operation of a process, before any speed is known: a slow core.
const UNSEEN_FLOP_S: f64 = 4e9;
/// Bytes a second of copies between a device and its host, at least.
const COPIED_BYTES_S: f64 = 5e8;
/// An operation may take this many times as long as others let expect.
const LATE: f64 = 8.0;

/// Number of operations that have ended.
static DONE: AtomicU64 = AtomicU64::new(0);
/// Seconds that the operation which runs may take, as the bits of an `f64`; 0 if none runs.
static MAY_TAKE_S: AtomicU64 = AtomicU64::new(0);
/// The longest operation so far.
static LONGEST_FLOP: AtomicU64 = AtomicU64::new(0);
static LONGEST_S: AtomicU64 = AtomicU64::new(0);

/// An operation, which ends when it is dropped.
#[derive(Debug)]
pub struct Operation {
    start: Instant,
    /// 0 if it does not compute.
    flop: f64,
}

/// The operations of this process at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct OperationsSeen {
    /// Number of those that have ended.
    pub done: u64,
    /// Seconds that the one which runs may take; 0 if none runs.
    pub may_take_s: f64,
}

/// The largest size and the longest time of all operations so far.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Longest {
    flop: f64,
    seconds: f64,
}

impl Longest {
    fn read() -> Self {
        Self { flop: read(&LONGEST_FLOP), seconds: read(&LONGEST_S) }
    }

    fn and(self, flop: f64, seconds: f64) -> Self {
        Self { flop: self.flop.max(flop), seconds: self.seconds.max(seconds) }
    }

    /// Returns the seconds that an operation may take.
    fn limit_s(self, flop: f64) -> f64 {
        let expected_s = if self.flop > 0.0 {
            self.seconds * (flop / self.flop).max(1.0)
        } else {
            flop / UNSEEN_FLOP_S
        };
        LATE * expected_s
    }
}

impl Operation {
    /// Begins an operation of this size.
    pub fn begin(flop: f64) -> Self {
        write(&MAY_TAKE_S, Longest::read().limit_s(flop));
        Self { start: Instant::now(), flop }
    }

    /// Begins a copy between a device and its host.
    pub fn begin_copy(bytes: usize) -> Self {
        write(&MAY_TAKE_S, bytes as f64 / COPIED_BYTES_S);
        Self { start: Instant::now(), flop: 0.0 }
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        if self.flop > 0.0 {
            let Longest { flop, seconds } =
                Longest::read().and(self.flop, self.start.elapsed().as_secs_f64());
            write(&LONGEST_FLOP, flop);
            write(&LONGEST_S, seconds);
        }
        write(&MAY_TAKE_S, 0.0);
        DONE.fetch_add(1, Relaxed);
    }
}

/// Reads the operations of this process.
pub fn read_operations() -> OperationsSeen {
    OperationsSeen { done: DONE.load(Relaxed), may_take_s: read(&MAY_TAKE_S) }
}

fn read(place: &AtomicU64) -> f64 {
    f64::from_bits(place.load(Relaxed))
}

fn write(place: &AtomicU64, value: f64) {
    place.store(value.to_bits(), Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_may_take_several_times_what_others_took() {
        let none = Longest::default();
        assert_eq!(none.limit_s(4e9), LATE);
        let seen = none.and(1e9, 0.5).and(1e6, 0.75).and(2e9, 0.25);
        // Small ones may take as long as any: most of their time is no arithmetic.
        assert_eq!(seen.limit_s(1.0), LATE * 0.75);
        assert_eq!(seen.limit_s(2e10), LATE * 7.5);
    }

    #[test]
    fn an_operation_is_seen_while_it_runs() {
        // Other tests have operations too.
        let before = read_operations().done;
        drop(Operation::begin(1e9));
        drop(Operation::begin_copy(1 << 20));
        assert!(read_operations().done >= before + 2);
    }
}
