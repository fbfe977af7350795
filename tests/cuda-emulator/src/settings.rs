//! The emulated machine's properties, from environment variables that are read at the first call.
//!
//! | variable (`ISOCHRON_CUDA_EMULATOR_…`) | meaning | default |
//! |---|---|---|
//! | `DEVICES` | number of GPUs | 1 |
//! | `MEMORY` | bytes of each, such as `512K,1M`; the last value is that of all further GPUs | `64M` |
//! | `PCI` | bus ids, separated by commas | `0000:17:00.0`, `0000:18:00.0`, … |
//! | `MIG` | the split of each GPU: `1+1,0,2` is two GPU instances with a compute instance each, a whole GPU, and one GPU instance with two compute instances | none is split |
//! | `VERSION` | the version of CUDA that the driver claims | `13000` |
//! | `SCHEDULE` | the time at which queued work runs: `threads`, `late` or `early` | `threads` |
//! | `FAIL` | calls that fail: `cuInit:1=100,*:7=2` is the first `cuInit`, and the seventh call of any kind | |
//! | `PRODUCT` | `m·n·k` of the largest product for which cuBLAS finds a workspace; it refuses larger ones | no limit |
//!
//! `CUDA_VISIBLE_DEVICES` has the same effect as with the real driver (module `visible`).

use crate::visible::{EmulatedGpu, Visible, list_visible};

/// The time at which queued work runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WorkSchedule {
    /// As soon as possible, each stream on its own thread.
    #[default]
    Threads,
    /// When a call waits for it, and then only the work needed.
    Late,
    /// When a call waits: first all work of the other streams that is ready, then the work needed.
    Early,
}

/// A call that is to fail.
#[derive(Debug, PartialEq)]
pub struct PlannedFailure {
    /// Name of the function; `*` stands for any.
    pub call: String,
    /// Number of the call that fails, from 1.
    pub number: u64,
    /// The code that it returns.
    pub code: u32,
    /// `true` if the call succeeds, and its work fails when it runs.
    pub later: bool,
}

/// The emulated machine.
#[derive(Debug, Default)]
pub struct Settings {
    /// The devices that this process sees.
    pub visible: Vec<Visible>,
    /// `1000·major + 10·minor` of the CUDA version.
    pub version: i32,
    /// The time at which queued work runs.
    pub schedule: WorkSchedule,
    /// Calls that are still to fail.
    pub failures: Vec<PlannedFailure>,
    /// The largest product that cuBLAS does not refuse, in multiplications.
    pub product: u64,
}

impl Settings {
    /// Reads the settings from the environment.
    pub fn read() -> Self {
        let version = read_variable("VERSION").and_then(|v| v.parse().ok());
        let version = version.unwrap_or(13_000);
        let names = std::env::var("CUDA_VISIBLE_DEVICES").ok();
        Self {
            visible: list_visible(&read_gpus(), version, names.as_deref()),
            version,
            schedule: match read_variable("SCHEDULE").as_deref() {
                Some("late") => WorkSchedule::Late,
                Some("early") => WorkSchedule::Early,
                _ => WorkSchedule::Threads,
            },
            failures: read_variable("FAIL")
                .map(|list| list.split(',').filter_map(parse_failure).collect())
                .unwrap_or_default(),
            product: read_variable("PRODUCT").and_then(|n| n.parse().ok()).unwrap_or(u64::MAX),
        }
    }
}

/// Returns the value of a variable of the emulator.
fn read_variable(name: &str) -> Option<String> {
    std::env::var(format!("ISOCHRON_CUDA_EMULATOR_{name}")).ok()
}

/// Returns the parts of a variable that are separated by commas.
fn read_list(name: &str) -> Vec<String> {
    read_variable(name).unwrap_or_default().split(',').map(str::to_owned).collect()
}

/// Returns the GPUs of the machine.
fn read_gpus() -> Vec<EmulatedGpu> {
    let [memory, pci, mig] = ["MEMORY", "PCI", "MIG"].map(read_list);
    let count = read_variable("DEVICES").and_then(|n| n.parse().ok());
    (0..count.unwrap_or(1))
        .map(|i: usize| EmulatedGpu {
            memory: memory
                .get(i)
                .or(memory.last())
                .and_then(|text| parse_bytes(text))
                .unwrap_or(64 << 20),
            pci: pci
                .get(i)
                .filter(|id| !id.is_empty())
                .cloned()
                .unwrap_or_else(|| format!("0000:{:02x}:00.0", 0x17 + i)),
            instances: mig.get(i).map(|text| parse_instances(text)).unwrap_or_default(),
        })
        .collect()
}

/// Reads the numbers of compute instances of each GPU instance, such as `1+2`.
fn parse_instances(text: &str) -> Vec<usize> {
    text.split('+')
        .filter_map(|count| count.trim().parse().ok())
        .filter(|&count| count > 0)
        .collect()
}

/// Reads a size: `512K`, `3M`, `1G` or a plain number.
fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let (digits, shift) = match text.char_indices().last()? {
        (at, 'K') => (&text[..at], 10),
        (at, 'M') => (&text[..at], 20),
        (at, 'G') => (&text[..at], 30),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok().map(|n| n << shift)
}

/// Reads a failure: `call:number=code`.
fn parse_failure(text: &str) -> Option<PlannedFailure> {
    let (call, rest) = text.trim().split_once(':')?;
    let (number, code) = rest.split_once('=')?;
    Some(PlannedFailure {
        call: call.to_owned(),
        number: number.parse().ok()?,
        code: code.parse().ok()?,
        later: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_failures_are_read() {
        assert_eq!(parse_bytes("512K"), Some(512 << 10));
        assert_eq!(parse_bytes(" 12 "), Some(12));
        assert_eq!(parse_bytes("many"), None);
        let read = parse_failure("cuMemAlloc_v2:3=2").map(|f| (f.call, f.number, f.code));
        assert_eq!(read, Some(("cuMemAlloc_v2".to_owned(), 3, 2)));
        assert_eq!(parse_failure("cuInit"), None);
        assert_eq!(parse_instances("1+2"), [1, 2]);
        assert!(parse_instances("0").is_empty() && parse_instances("").is_empty());
    }
}
