//! The processes of this host, as the system tells of them.

use std::fs::{self, File};
use std::io::Read as _;

/// A process. Its number and start are its own until the system starts anew.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HostProcess {
    pub number: i32,
    pub parent: i32,
    pub group: i32,
    pub own_ticks: u64,
    /// Processor time of children for which it has waited.
    pub children_ticks: u64,
    /// Ticks from the system's start to its own.
    pub start: u64,
    /// It has ended, and its parent has not waited for it yet.
    pub has_ended: bool,
}

impl HostProcess {
    /// Reads a process by its number, or by `self`; `None` if it has gone.
    pub fn read(name: &str) -> Option<Self> {
        Self::parse(&String::from_utf8_lossy(&read_file(name, "stat")?))
    }

    /// Returns the start of a process that runs, by its number or by `self`.
    pub fn find_start(name: &str) -> Option<u64> {
        let process = Self::read(name).filter(|process| !process.has_ended);
        process.map(|process| process.start)
    }

    pub fn parse(line: &str) -> Option<Self> {
        // The name of the program, in parentheses, may have blanks.
        let (begin, end) = line.rsplit_once(')')?;
        let fields: Vec<&str> = end.split_whitespace().collect();
        let field =
            |place: usize| -> u64 { fields.get(place).and_then(|it| it.parse().ok()).unwrap_or(0) };
        Some(Self {
            number: begin.split(' ').next()?.parse().ok()?,
            parent: field(1) as i32,
            group: field(2) as i32,
            own_ticks: field(11) + field(12),
            children_ticks: field(13) + field(14),
            start: field(19),
            has_ended: matches!(fields.first(), Some(&("X" | "Z"))),
        })
    }

    /// Lists the numbers of the processes that can be seen.
    pub fn list_numbers() -> impl Iterator<Item = i32> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
    }

    /// Lists these processes.
    pub fn list() -> Vec<Self> {
        let numbers = Self::list_numbers();
        numbers.filter_map(|number| Self::read(&number.to_string())).collect()
    }
}

/// Reads a file of a process: in few calls, although the system tells no size.
pub(crate) fn read_file(process: &str, name: &str) -> Option<Vec<u8>> {
    let mut content = Vec::with_capacity(1 << 14);
    let mut file = File::open(format!("/proc/{process}/{name}")).ok()?;
    file.read_to_end(&mut content).ok()?;
    Some(content)
}
