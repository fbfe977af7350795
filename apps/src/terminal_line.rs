//! The line of progress on a terminal.

use std::cell::Cell;
use std::fs::{File, OpenOptions, read_to_string};
use std::io::{IsTerminal, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::{Duration, Instant};

use isochron_hierarchy::printable::escape;
use rustix::fs::OFlags;
use rustix::termios::tcgetwinsize;

/// Shortest time between two changes of a line that is refreshed.
const PAUSE: Duration = Duration::from_millis(200);

/// Width of a terminal that does not tell it.
const WIDTH: usize = 80;

/// Starts of the names of the programs that launch ranks.
const LAUNCHERS: [&str; 4] = ["mpirun", "mpiexec", "orterun", "prterun"];

/// A line on the terminal that is replaced again and again, and cleared at the end.
pub struct TerminalLine {
    /// `None` if nothing is to be shown.
    terminal: Option<File>,
    /// The time of the last change; `None` while there is no line.
    written: Cell<Option<Instant>>,
}

impl TerminalLine {
    /// Makes the line of a rank. It is shown by the head rank if standard error is a terminal, its own one or that of
    /// the `mpirun` that started it on this host.
    pub fn of_rank(is_head: bool) -> Self {
        let is_dumb = std::env::var_os("TERM").is_some_and(|kind| kind == "dumb");
        Self {
            terminal: if is_head && !is_dumb { find_terminal() } else { None },
            written: Cell::new(None),
        }
    }

    /// Returns `true` if the line is shown.
    pub fn is_shown(&self) -> bool {
        self.terminal.is_some()
    }

    /// Replaces the line.
    pub fn show(&self, text: &str) {
        let Some(mut terminal) = self.terminal.as_ref() else {
            return;
        };
        let width = tcgetwinsize(terminal).map_or(0, |size| usize::from(size.ws_col));
        let text = cut_text(&escape(text), if width > 0 { width } else { WIDTH });
        // If the terminal is closed, there is no one to tell.
        let _ = write!(terminal, "\r{text}\x1b[K");
        self.written.set(Some(Instant::now()));
    }

    /// Replaces the line, unless it has just changed.
    pub fn refresh(&self, describe: impl FnOnce() -> String) {
        let is_recent = self.written.get().is_some_and(|last| last.elapsed() < PAUSE);
        if self.is_shown() && !is_recent {
            self.show(&describe());
        }
    }

    /// Clears the line.
    pub fn clear(&self) {
        if let (Some(mut terminal), Some(_)) = (self.terminal.as_ref(), self.written.take()) {
            let _ = write!(terminal, "\r\x1b[K");
        }
    }
}

impl Drop for TerminalLine {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Names the rank that took longest, behind a comma, with its host; nothing unless several ranks took time.
pub fn describe_slowest(times_s: &[f64], hosts: &[String]) -> String {
    let busy = times_s.iter().zip(hosts).enumerate();
    let mut busy: Vec<_> = busy.filter(|(_, (time_s, _))| **time_s > 0.0).collect();
    busy.sort_by(|a, b| a.1.0.total_cmp(b.1.0));
    match busy.last() {
        Some((rank, (_, host))) if busy.len() > 1 => format!(", slowest: rank {rank} ({host})"),
        _ => String::new(),
    }
}

/// Describes the half-width of a confidence interval behind a comma, as a part of the time; `confidence` is its level.
pub fn describe_interval(part: f64, confidence: f64) -> String {
    let (percent, level) = (100.0 * part, 100.0 * confidence);
    format!(", ±{percent:.1} % at {level:.0} %")
}

/// Cuts a text to a line of a terminal. The last column stays free: terminals differ in what follows a full line.
fn cut_text(text: &str, width: usize) -> String {
    if text.chars().count() < width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(2)).chain(['…']).collect()
}

/// Returns the terminal that standard error leads to.
fn find_terminal() -> Option<File> {
    let own = std::io::stderr();
    if own.is_terminal() {
        return own.as_fd().try_clone_to_owned().ok().map(File::from);
    }
    // A launcher reads its ranks through pipes, and writes to its own standard error.
    let mut options = OpenOptions::new();
    let flags = OFlags::NOCTTY | OFlags::NONBLOCK;
    options.write(true).custom_flags(flags.bits().cast_signed());
    let theirs = options.open(format!("/proc/{}/fd/2", find_launcher()?)).ok()?;
    theirs.is_terminal().then_some(theirs)
}

/// Returns the process that launched this rank, if it is on this host.
fn find_launcher() -> Option<u32> {
    let mut process = std::os::unix::process::parent_id();
    while process > 1 {
        let status = read_to_string(format!("/proc/{process}/status")).ok()?;
        let name = find_field(&status, "Name:")?;
        if LAUNCHERS.iter().any(|launcher| name.starts_with(launcher)) {
            return Some(process);
        }
        process = find_field(&status, "PPid:")?.parse().ok()?;
    }
    None
}

fn find_field<'t>(status: &'t str, name: &str) -> Option<&'t str> {
    status.lines().filter_map(|line| line.strip_prefix(name)).map(str::trim).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_leaves_the_last_column_free() {
        assert_eq!(cut_text("abc", 4), "abc");
        assert_eq!(cut_text("±bcd", 4), "±b…");
        assert_eq!(cut_text("abc", 1), "…");
    }

    #[test]
    fn the_slowest_of_several_ranks_is_named() {
        let hosts = ["a", "b", "c"].map(str::to_owned);
        assert_eq!(describe_slowest(&[0.5, 2.0, 1.0], &hosts), ", slowest: rank 1 (b)");
        assert_eq!(describe_slowest(&[0.0, 2.0, 0.0], &hosts), "");
        assert_eq!(describe_slowest(&[1.0], &hosts), "");
    }

    #[test]
    fn fields_of_a_process_are_found_by_name() {
        let status = "Name:\tmpirun\nPid:\t9\nPPid:\t7\n";
        assert_eq!(find_field(status, "Name:"), Some("mpirun"));
        assert_eq!(find_field(status, "PPid:"), Some("7"));
        assert_eq!(find_field(status, "Uid:"), None);
    }
}
