//! What the emulated machine is like, from environment variables that are read at the first call.
//!
//! | variable (`ISOCHRON_CUDA_EMULATOR_…`) | what it says | without it |
//! |---|---|---|
//! | `DEVICES` | number of GPUs | 1 |
//! | `MEMORY` | bytes of each, such as `512K,1M`; the last one stands for all that follow | `64M` |
//! | `PCI` | bus ids, separated by commas | `0000:17:00.0`, `0000:18:00.0`, … |
//! | `MIG` | how each GPU is split: `1+1,0,2` is two GPU instances with a compute instance each, a whole GPU, and one GPU instance with two compute instances | none is |
//! | `VERSION` | the version of CUDA that the driver claims | `13000` |
//! | `SCHEDULE` | when queued work runs: `threads`, `late` or `early` | `threads` |
//! | `FAIL` | calls that fail: `cuInit:1=100,*:7=2` is the first `cuInit`, and the seventh call of any kind | |
//! | `PRODUCT` | `m·n·k` of the largest product for which cuBLAS finds memory to work with; it refuses larger ones | any is |
//!
//! `CUDA_VISIBLE_DEVICES` has the effect that it has with the real driver (module `visible`).

use crate::visible::{Gpu, Visible, visible};

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
    /// The devices that this process sees.
    pub visible: Vec<Visible>,
    /// `1000·major + 10·minor` of the CUDA version.
    pub version: i32,
    /// When queued work runs.
    pub schedule: Schedule,
    /// Calls that fail.
    pub failures: Vec<Failure>,
    /// The largest product that cuBLAS does not refuse, in multiplications.
    pub product: u64,
}

impl Settings {
    /// Reads the environment.
    pub fn read() -> Self {
        let text = |name: &str| std::env::var(format!("ISOCHRON_CUDA_EMULATOR_{name}")).ok();
        let version = text("VERSION").and_then(|v| v.parse().ok());
        let version = version.unwrap_or(13_000);
        let names = std::env::var("CUDA_VISIBLE_DEVICES").ok();
        Self {
            visible: visible(&gpus(text), version, names.as_deref()),
            version,
            schedule: match text("SCHEDULE").as_deref() {
                Some("late") => Schedule::Late,
                Some("early") => Schedule::Early,
                _ => Schedule::Threads,
            },
            failures: text("FAIL")
                .map(|list| list.split(',').filter_map(failure).collect())
                .unwrap_or_default(),
            product: text("PRODUCT")
                .and_then(|n| n.parse().ok())
                .unwrap_or(u64::MAX),
        }
    }
}

/// The GPUs of the machine.
fn gpus(text: impl Fn(&str) -> Option<String>) -> Vec<Gpu> {
    let list = |name: &str| -> Vec<String> {
        let text = text(name).unwrap_or_default();
        text.split(',').map(str::to_owned).collect()
    };
    let (memory, pci, mig) = (list("MEMORY"), list("PCI"), list("MIG"));
    let count = text("DEVICES").and_then(|n| n.parse().ok()).unwrap_or(1);
    let gpu = |i: usize| Gpu {
        memory: memory
            .get(i)
            .or(memory.last())
            .and_then(|text| bytes(text))
            .unwrap_or(64 << 20),
        pci: pci
            .get(i)
            .filter(|id| !id.is_empty())
            .cloned()
            .unwrap_or_else(|| format!("0000:{:02x}:00.0", 0x17 + i)),
        instances: mig.get(i).map(|text| instances(text)).unwrap_or_default(),
    };
    (0..count).map(gpu).collect()
}

/// The compute instances of each GPU instance, such as `1+2`.
fn instances(text: &str) -> Vec<usize> {
    let counts = text
        .split('+')
        .filter_map(|count| count.trim().parse().ok());
    counts.filter(|&count| count > 0).collect()
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
        assert_eq!(instances("1+2"), [1, 2]);
        assert!(instances("0").is_empty() && instances("").is_empty());
    }
}
