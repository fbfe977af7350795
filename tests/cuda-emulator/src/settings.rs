//! What the emulated machine is like, from environment variables that are read at the first call.
//!
//! | variable (`ISOCHRON_CUDA_EMULATOR_…`) | what it says | without it |
//! |---|---|---|
//! | `DEVICES` | number of devices | 1 |
//! | `MEMORY` | bytes of each, such as `512K,1M`; the last one stands for all that follow | `64M` |
//! | `PCI` | bus ids, separated by commas | `0000:17:00.0`, `0000:18:00.0`, … |
//! | `MIG` | `1`: the devices are slices of one GPU, on one bus | |
//! | `VERSION` | the version of CUDA that the driver claims | `13000` |
//! | `SCHEDULE` | when queued work runs: `threads`, `late` or `early` | `threads` |
//! | `FAIL` | calls that fail: `cuInit:1=100,*:7=2` is the first `cuInit`, and the seventh call of any kind | |

/// When queued work runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schedule {
    /// Each stream on its own thread, as soon as it can.
    Threads,
    /// When something waits for it, and then only what that needs.
    Late,
    /// When something waits: first everything on all other streams that is ready, then what was asked for.
    Early,
}

/// A call that is to fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Name of the function; `*` stands for any.
    pub call: String,
    /// Which of its calls, from 1.
    pub number: u64,
    /// What it returns.
    pub code: u32,
    /// Whether the call succeeds and its work fails when it runs.
    pub later: bool,
}

/// The emulated machine.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Bytes of memory of each device.
    pub memory: Vec<u64>,
    /// Bus id of each device.
    pub pci: Vec<String>,
    /// Whether the devices are slices of one.
    pub mig: bool,
    /// `1000·major + 10·minor` of the CUDA version.
    pub version: i32,
    /// When queued work runs.
    pub schedule: Schedule,
    /// Calls that fail.
    pub failures: Vec<Failure>,
}

impl Settings {
    /// Reads the environment.
    pub fn read() -> Self {
        let text = |name: &str| std::env::var(format!("ISOCHRON_CUDA_EMULATOR_{name}")).ok();
        let count = text("DEVICES").and_then(|n| n.parse().ok()).unwrap_or(1);
        let memory = text("MEMORY").unwrap_or_else(|| "64M".to_owned());
        let memory: Vec<u64> = memory.split(',').filter_map(bytes).collect();
        let mig = text("MIG").is_some_and(|value| value == "1");
        let given: Vec<String> = text("PCI")
            .map(|list| list.split(',').map(str::to_owned).collect())
            .unwrap_or_default();
        let bus = |i: usize| {
            let own = || format!("0000:{:02x}:00.0", 0x17 + if mig { 0 } else { i });
            given.get(i).cloned().unwrap_or_else(own)
        };
        let size = |i: usize| *memory.get(i).or(memory.last()).unwrap_or(&(64 << 20));
        Self {
            memory: (0..count).map(size).collect(),
            pci: (0..count).map(bus).collect(),
            mig,
            version: text("VERSION")
                .and_then(|v| v.parse().ok())
                .unwrap_or(13_000),
            schedule: match text("SCHEDULE").as_deref() {
                Some("late") => Schedule::Late,
                Some("early") => Schedule::Early,
                _ => Schedule::Threads,
            },
            failures: text("FAIL")
                .map(|list| list.split(',').filter_map(failure).collect())
                .unwrap_or_default(),
        }
    }
}

/// `512K`, `3M`, `1G` or a plain number.
fn bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let (digits, shift) = match text.char_indices().last()? {
        (at, 'K') => (&text[..at], 10),
        (at, 'M') => (&text[..at], 20),
        (at, 'G') => (&text[..at], 30),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok().map(|n| n << shift)
}

/// `call:number=code`.
fn failure(text: &str) -> Option<Failure> {
    let (call, rest) = text.trim().split_once(':')?;
    let (number, code) = rest.split_once('=')?;
    Some(Failure {
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
        assert_eq!(bytes("512K"), Some(512 << 10));
        assert_eq!(bytes(" 12 "), Some(12));
        assert_eq!(bytes("many"), None);
        let read = failure("cuMemAlloc_v2:3=2").map(|f| (f.call, f.number, f.code));
        assert_eq!(read, Some(("cuMemAlloc_v2".to_owned(), 3, 2)));
        assert_eq!(failure("cuInit"), None);
    }
}
