//! A clock that interrupts runs which take too long.

use crate::contract::DeviceError;
use isochron_kernel::Interrupt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// Longest time between two looks at the clock.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// The state that the watching thread shares with the runs.
#[derive(Default)]
struct Watched {
    interrupt: Interrupt,
    /// Microseconds from the start of the watch to the start of the run, plus 1; 0 if nothing runs.
    started_us: AtomicU64,
    ends: AtomicBool,
}

/// A thread that sets the flag of a run once it has taken longer than a limit.
///
/// It looks at the clock now and then: waking it at the start of each run would disturb the run.
pub(super) struct RunWatch {
    watched: Arc<Watched>,
    start: Instant,
    /// `None` without a limit.
    thread: Option<JoinHandle<()>>,
}

impl RunWatch {
    /// Starts to watch runs that may take `limit_s` seconds, infinite without a limit.
    ///
    /// # Errors
    /// Returns [`DeviceError::Threads`] if the thread cannot be started.
    pub fn new(limit_s: f64) -> Result<Self, DeviceError> {
        let (watched, start) = (Arc::new(Watched::default()), Instant::now());
        // A limit beyond the largest duration is none.
        let limit = Duration::try_from_secs_f64(limit_s).ok();
        let shared = Arc::clone(&watched);
        let start_thread = |limit| Builder::new().spawn(move || watch_runs(&shared, start, limit));
        let thread = limit.map(start_thread).transpose().map_err(|error| {
            DeviceError::no_threads("a thread that watches the runs of a kernel", error)
        })?;
        Ok(Self { watched, start, thread })
    }

    /// Runs `run` with its flag; returns its result and its seconds.
    pub fn time<R>(&self, run: impl FnOnce(&Interrupt) -> R) -> (R, f64) {
        self.watched.interrupt.set(false);
        let since = self.start.elapsed().as_micros();
        let since = u64::try_from(since).unwrap_or(u64::MAX - 1);
        self.watched.started_us.store(since + 1, Ordering::Release);
        let begun = Instant::now();
        let result = run(&self.watched.interrupt);
        let time_s = begun.elapsed().as_secs_f64();
        self.watched.started_us.store(0, Ordering::Release);
        (result, time_s)
    }
}

/// Sets the flag of each run that has taken longer than `limit`, until the watch ends.
fn watch_runs(watched: &Watched, start: Instant, limit: Duration) {
    let pause = (limit / 8).clamp(Duration::from_millis(1), LONGEST_PAUSE);
    while !watched.ends.load(Ordering::Acquire) {
        let begun = watched.started_us.load(Ordering::Acquire);
        if begun > 0 && start.elapsed() > Duration::from_micros(begun - 1) + limit {
            watched.interrupt.set(true);
        }
        std::thread::park_timeout(pause);
    }
}

impl Drop for RunWatch {
    fn drop(&mut self) {
        self.watched.ends.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
