//! The state of the emulated machine, behind one lock.

use crate::codes::{INVALID_CONTEXT, INVALID_HANDLE, NOT_INITIALIZED};
use crate::memory::{DeviceAllocation, PinnedAllocation};
use crate::order::{Recent, VectorClock};
use crate::settings::Settings;
use crate::work::Queued;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

/// One emulated GPU.
#[derive(Debug, Default)]
pub struct EmulatedDevice {
    /// Number of holds on its primary context.
    pub retained: u64,
    /// Bytes allocated.
    pub used: u64,
    /// The most bytes allocated at a time.
    pub peak: u64,
    /// The error that ended it.
    pub lost: Option<u32>,
}

#[derive(Debug, Default)]
pub struct EmulatedStream {
    pub device: usize,
    pub queue: VecDeque<Queued>,
    /// Work that was taken from the queue and is under way.
    pub running: Option<Queued>,
    /// Number of pieces of work put on it.
    pub queued: u64,
    /// The moment before the next work put on it.
    pub clock: VectorClock,
    /// A destroyed stream ends its thread.
    pub destroyed: bool,
}

#[derive(Debug, Default)]
pub struct EmulatedEvent {
    pub device: usize,
    /// Number of its records.
    pub recorded: u64,
    /// The records that were not reached yet. They may be on several streams, in any order.
    pub ahead: BTreeSet<u64>,
    /// The moment of the last record.
    pub clock: VectorClock,
}

#[derive(Debug)]
pub struct Handle {
    pub device: usize,
    pub stream: u64,
}

/// The emulated machine. Handles and addresses are never used twice, so stale ones are noticed.
#[derive(Default)]
pub struct Emulator {
    pub settings: Settings,
    pub initialised: bool,
    pub devices: Vec<EmulatedDevice>,
    /// Device memory by address.
    pub blocks: BTreeMap<u64, DeviceAllocation>,
    /// Pinned host memory by address.
    pub pinned: BTreeMap<usize, PinnedAllocation>,
    pub pinned_bytes: u64,
    pub pinned_peak: u64,
    pub streams: BTreeMap<u64, EmulatedStream>,
    pub events: BTreeMap<u64, EmulatedEvent>,
    pub handles: BTreeMap<u64, Handle>,
    /// Handles of cuBLASXt.
    pub xt: BTreeSet<u64>,
    pub next_id: u64,
    /// Number of calls so far; below, by name.
    pub calls: u64,
    pub calls_by_name: BTreeMap<&'static str, u64>,
    /// The name of the last call that was made to fail.
    pub failed: Option<&'static str>,
    pub pageable_copies: u64,
    /// Products for which cuBLAS found no memory.
    pub refused_products: u64,
    pub violations: Vec<Violation>,
    /// The moment that the host has waited for.
    pub waited_for: VectorClock,
    /// Memory used by work that the host has not waited for.
    pub recent: Vec<Recent>,
}

/// A mistake of the program that the driver would not notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Violation {
    /// Work on two streams uses the same memory, one of the two writes it, and no order is defined.
    Unordered,
    /// Memory is freed although work that the host has not waited for uses it.
    FreedInUse,
    /// The last hold on a context is released while memory, streams, events or cuBLAS handles of it are left.
    ContextNotEmpty,
}

impl Violation {
    /// Describes the violation.
    pub fn text(self) -> &'static str {
        match self {
            Self::Unordered => {
                "work on two streams uses the same memory, one of the two writes it, and no order is defined"
            }
            Self::FreedInUse => "memory is freed although work that was not waited for uses it",
            Self::ContextNotEmpty => {
                "a context is released while memory, streams, events or handles of it are left"
            }
        }
    }
}

static STATE: OnceLock<Mutex<Emulator>> = OnceLock::new();

/// Notified whenever work was queued or done.
pub static CHANGED: Condvar = Condvar::new();

thread_local! {
    /// The devices whose contexts this thread has made current; the last one is.
    static CURRENT: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Locks the machine.
pub fn lock() -> MutexGuard<'static, Emulator> {
    STATE
        .get_or_init(|| Mutex::new(Emulator::new(Settings::read())))
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
}

/// Makes the context of a device current on this thread.
pub fn push_current(device: usize) {
    CURRENT.with_borrow_mut(|stack| stack.push(device));
}

/// Makes the previous context current again. Returns the device of the one that was, if any.
pub fn pop_current() -> Option<usize> {
    CURRENT.with_borrow_mut(Vec::pop)
}

/// Returns the device whose context is current, even if it is lost.
pub fn current_device() -> Option<usize> {
    CURRENT.with_borrow(|stack| stack.last().copied())
}

impl Emulator {
    /// Makes a machine without history.
    pub fn new(settings: Settings) -> Self {
        let devices = settings.visible.iter().map(|_| EmulatedDevice::default());
        Self { devices: devices.collect(), settings, ..Self::default() }
    }

    /// Returns a number that was never returned before.
    pub fn fresh_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Returns the device whose context is current, if it is usable.
    pub fn current(&self) -> Result<usize, u32> {
        if !self.initialised {
            return Err(NOT_INITIALIZED);
        }
        let device = current_device().ok_or(INVALID_CONTEXT)?;
        if self.devices[device].retained == 0 {
            return Err(INVALID_CONTEXT);
        }
        self.alive(device)?;
        Ok(device)
    }

    /// Refuses a lost device, with the error that ended it.
    pub fn alive(&self, device: usize) -> Result<(), u32> {
        self.devices[device].lost.map_or(Ok(()), Err)
    }

    /// Ends a device: work queued on it never runs.
    pub fn lose(&mut self, device: usize, code: u32) {
        self.devices[device].lost.get_or_insert(code);
        for stream in self.streams.values_mut().filter(|s| s.device == device) {
            stream.queue.clear();
        }
        for event in self.events.values_mut().filter(|e| e.device == device) {
            event.ahead.clear();
        }
        self.recent.retain(|recent| recent.device != device);
        CHANGED.notify_all();
    }

    /// Returns the stream, which must belong to the current device.
    pub fn stream(&mut self, id: u64) -> Result<&mut EmulatedStream, u32> {
        let device = self.current()?;
        let stream = self.streams.get_mut(&id).ok_or(INVALID_HANDLE)?;
        if stream.device == device && !stream.destroyed { Ok(stream) } else { Err(INVALID_HANDLE) }
    }

    /// Takes note of a violation.
    pub fn report_violation(&mut self, what: Violation) {
        self.violations.push(what);
        // A library has no other way to name the violation if no test asks for it.
        let message = format!("CUDA emulator: {}\n", what.text());
        let _ = std::io::Write::write_all(&mut std::io::stderr(), message.as_bytes());
    }

    /// Returns `true` if the context of a device is not empty.
    pub fn is_left_in(&self, device: usize) -> bool {
        let streams = self.streams.values();
        self.blocks.values().any(|block| block.device == device)
            || self.pinned.values().any(|pinned| pinned.device == device)
            || streams.filter(|s| !s.destroyed).any(|s| s.device == device)
            || self.events.values().any(|event| event.device == device)
            || self.handles.values().any(|handle| handle.device == device)
    }

    /// Counts the contexts, allocations, streams, events and handles that were not released.
    pub fn count_live(&self) -> u64 {
        let contexts: u64 = self.devices.iter().map(|d| d.retained).sum();
        let streams = self.streams.values().filter(|s| !s.destroyed).count();
        let others = self.blocks.len()
            + self.pinned.len()
            + streams
            + self.events.len()
            + self.handles.len()
            + self.xt.len();
        contexts + others as u64
    }
}
