//! The progress of reading the traces, on a terminal.

use std::cell::Cell;
use std::path::Path;
use std::time::Instant;

use crate::lines::count;
use crate::terminal_line::TerminalLine;

/// Bytes after which the line may change again: a look at the clock costs more than a line of a trace.
const SHOWN_BYTES: u64 = 1 << 20;

/// The progress over all traces.
pub struct TraceProgress {
    line: TerminalLine,
    start: Instant,
    n_traces: usize,
    /// Bytes of all traces; less if some are pipes.
    total_bytes: u64,
    read_bytes: Cell<u64>,
    /// Bytes that an earlier command has read.
    earlier_bytes: Cell<u64>,
    shown_bytes: Cell<u64>,
    /// Iterations of the traces before this one.
    earlier_iterations: Cell<u64>,
    iterations: Cell<u64>,
}

impl TraceProgress {
    /// Starts to read these traces.
    pub fn start(paths: &[impl AsRef<Path>]) -> Self {
        let files = paths.iter().filter_map(|path| path.as_ref().metadata().ok());
        Self {
            line: TerminalLine::of_rank(true),
            start: Instant::now(),
            n_traces: paths.len(),
            total_bytes: files.map(|file| file.len()).sum(),
            read_bytes: Cell::new(0),
            earlier_bytes: Cell::new(0),
            shown_bytes: Cell::new(0),
            earlier_iterations: Cell::new(0),
            iterations: Cell::new(0),
        }
    }

    /// Counts bytes of the trace `name` that were read.
    pub fn count_bytes(&self, bytes: u64, name: &str) {
        let read = self.read_bytes.get() + bytes;
        self.read_bytes.set(read);
        if read >= self.shown_bytes.get() {
            self.shown_bytes.set(read + SHOWN_BYTES);
            self.line.refresh(|| self.describe(name, self.start.elapsed().as_secs_f64()));
        }
    }

    /// Counts bytes that an earlier command has read.
    pub fn skip_bytes(&self, bytes: u64) {
        self.earlier_bytes.set(self.earlier_bytes.get() + bytes);
        self.read_bytes.set(self.read_bytes.get() + bytes);
    }

    /// Takes in the number of iterations of this trace that were found so far.
    pub fn note_iterations(&self, iterations: u64) {
        self.iterations.set(iterations);
    }

    /// Ends a trace with these iterations.
    pub fn end_trace(&self, iterations: u64) {
        let earlier = self.earlier_iterations.get();
        self.earlier_iterations.set(earlier + iterations);
        self.iterations.set(0);
    }

    /// Describes the progress after these seconds, the most important first: a narrow terminal cuts the end.
    fn describe(&self, name: &str, elapsed_s: f64) -> String {
        let (read, total) = (self.read_bytes.get(), self.total_bytes);
        let traces = count(self.n_traces as u64, "trace");
        let mut text = if read <= total {
            format!("reading: {} % of {traces}", 100 * read / total.max(1))
        } else {
            format!("reading: {} MB of {traces}", read / 1_000_000)
        };
        // The first bytes tell nothing about the speed.
        let now_read = read - self.earlier_bytes.get();
        if now_read >= SHOWN_BYTES && read <= total {
            let left_s = elapsed_s * (total - read) as f64 / now_read as f64;
            text += &format!(", about {left_s:.0} s left");
        }
        let iterations = self.earlier_iterations.get() + self.iterations.get();
        let iterations = count(iterations, "iteration");
        format!("{text}, {iterations}, now {name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_tells_the_part_the_time_left_and_the_iterations() {
        let progress = TraceProgress {
            n_traces: 2,
            total_bytes: 8 << 20,
            ..TraceProgress::start(&["missing.prv"])
        };
        progress.count_bytes(100, "a.prv");
        assert_eq!(
            progress.describe("a.prv", 9.0),
            "reading: 0 % of 2 traces, 0 iterations, now a.prv"
        );
        progress.note_iterations(30);
        progress.count_bytes((2 << 20) - 100, "b.prv");
        assert_eq!(
            progress.describe("b.prv", 2.0),
            "reading: 25 % of 2 traces, about 6 s left, 30 iterations, now b.prv"
        );
        // A pipe has no length.
        progress.count_bytes(20 << 20, "/dev/stdin");
        assert_eq!(
            progress.describe("/dev/stdin", 2.0),
            "reading: 23 MB of 2 traces, 30 iterations, now /dev/stdin"
        );
    }
}
