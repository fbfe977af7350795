//! The line of progress on a terminal.

use std::cell::Cell;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use isochron::comm::Comm;
use isochron::progress::{Observer, Progress};

/// Shortest time between two changes of the line.
const PAUSE: Duration = Duration::from_millis(200);

/// A line on standard error that is written again and again, and cleared at the end.
pub(super) struct ProgressLine {
    /// Work of the whole multiplication.
    flop: f64,
    /// Start of the multiplication.
    start: Cell<Instant>,
    /// The time of the last change.
    written: Cell<Option<Instant>>,
}

impl ProgressLine {
    /// Makes the line of the head rank; `None` on other ranks, and if standard error is no terminal.
    pub(super) fn on_terminal(comm: &dyn Comm, flop: f64) -> Option<Self> {
        (comm.rank() == 0 && io::stderr().is_terminal()).then(|| Self {
            flop,
            start: Cell::new(Instant::now()),
            written: Cell::new(None),
        })
    }

    /// Clears the line.
    pub(super) fn clear(&self) {
        if self.written.take().is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

impl Observer for ProgressLine {
    /// Shows the progress, unless the line has just changed.
    fn observe(&self, progress: Progress) {
        let now = Instant::now();
        if let Progress::Multiplying { step: 0, .. } = progress {
            self.start.set(now);
        }
        if self.written.get().is_some_and(|last| now - last < PAUSE) {
            return;
        }
        self.written.set(Some(now));
        let elapsed_s = (now - self.start.get()).as_secs_f64();
        // If standard error is closed, there is no one to tell.
        let text = describe_progress(progress, self.flop, elapsed_s);
        let _ = write!(io::stderr(), "\r{text}\x1b[K");
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Describes the progress in less than 80 characters.
fn describe_progress(progress: Progress, flop: f64, elapsed_s: f64) -> String {
    match progress {
        Progress::Measuring { iteration } => format!("measuring: iteration {iteration}"),
        Progress::Multiplying { step: 0, steps } => format!("multiplying: step 1 of {steps}"),
        Progress::Multiplying { step, steps } => {
            let done = step as f64 / steps as f64;
            let gflops = done * flop / elapsed_s / 1e9;
            let left_s = elapsed_s * (1.0 - done) / done;
            let next = step + 1;
            format!("multiplying: step {next} of {steps}, {gflops:.1} GFLOP/s, {left_s:.0} s left")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_tells_the_speed_and_the_time_left() {
        let [first, later] = [0, 16].map(|step| Progress::Multiplying { step, steps: 64 });
        assert_eq!(
            describe_progress(first, 1e12, 0.0),
            "multiplying: step 1 of 64"
        );
        assert_eq!(
            describe_progress(later, 1e12, 2.0),
            "multiplying: step 17 of 64, 125.0 GFLOP/s, 6 s left"
        );
        let measuring = Progress::Measuring { iteration: 3 };
        assert_eq!(
            describe_progress(measuring, 1e12, 9.0),
            "measuring: iteration 3"
        );
    }
}
