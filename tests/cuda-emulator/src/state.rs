//! Everything that the emulated machine knows, behind one lock.

use crate::codes::{INVALID_CONTEXT, INVALID_HANDLE, NOT_INITIALIZED};
use crate::memory::{Block, Pinned};
use crate::order::{Clock, Recent};
use crate::settings::{Failure, Settings};
use crate::work::Queued;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

/// One emulated GPU.
#[derive(Debug, Default)]
pub struct Device {
    /// How often its primary context was retained.
    pub retained: u64,
    /// Bytes allocated, and the most that ever were.
    pub used: u64,
    pub peak: u64,
    /// The error that ended it.
    pub lost: Option<u32>,
}

#[derive(Debug)]
pub struct Stream {
    pub device: usize,
    pub queue: VecDeque<Queued>,
    /// Work that was taken from the queue and is not done.
    pub running: Option<Queued>,
    /// How many pieces of work were put on it.
    pub queued: u64,
    /// What comes before whatever is put on it next.
    pub clock: Clock,
    /// A destroyed stream ends its thread.
    pub destroyed: bool,
}

#[derive(Debug)]
pub struct Event {
    pub device: usize,
    /// How many times it was recorded.
    pub recorded: u64,
    /// Which of these were not reached yet. They may be on several streams, in any order.
    pub ahead: BTreeSet<u64>,
    /// What comes before the last of them.
    pub clock: Clock,
}

#[derive(Debug)]
pub struct Handle {
    pub device: usize,
    pub stream: u64,
}

/// The emulated machine. Handles and addresses are never used twice, so stale ones are noticed.
pub struct Emulator {
    pub settings: Settings,
    pub initialised: bool,
    pub devices: Vec<Device>,
    /// Device memory by address.
    pub blocks: BTreeMap<u64, Block>,
    /// Pinned host memory by address.
    pub pinned: BTreeMap<usize, Pinned>,
    pub pinned_bytes: u64,
    pub pinned_peak: u64,
    pub streams: BTreeMap<u64, Stream>,
    pub events: BTreeMap<u64, Event>,
    pub handles: BTreeMap<u64, Handle>,
    /// Handles of cuBLASXt.
    pub xt: BTreeSet<u64>,
    pub next_id: u64,
    /// Calls so far, in all and by name.
    pub calls: u64,
    pub calls_by_name: BTreeMap<&'static str, u64>,
    pub failures: Vec<Failure>,
    /// The name of the last call that was made to fail.
    pub failed: Option<&'static str>,
    pub pageable_copies: u64,
    /// Products for which cuBLAS found no memory.
    pub refused_products: u64,
    pub violations: Vec<Violation>,
    /// What the host has waited for.
    pub waited_for: Clock,
    /// The memory that other work uses.
    pub recent: Vec<Recent>,
}

/// Something that no correct program does, and that the driver would not notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Violation {
    /// Work on two streams uses the same memory, one of the two writes it, and nothing says which comes first.
    Unordered,
    /// Memory is freed that work uses for which the host has not waited.
    FreedInUse,
    /// The last hold on a context is released while memory, streams, events or cuBLAS handles of it are left.
    ContextNotEmpty,
}

impl Violation {
    /// What happened.
    pub fn text(self) -> &'static str {
        match self {
            Self::Unordered => {
                "work on two streams uses the same memory, and nothing orders what one of them writes"
            }
            Self::FreedInUse => "memory is freed that work uses which was not waited for",
            Self::ContextNotEmpty => {
                "a context is released while memory, streams, events or handles of it are left"
            }
        }
    }
}

static STATE: OnceLock<Mutex<Emulator>> = OnceLock::new();

/// Told whenever work was queued or done.
pub static CHANGED: Condvar = Condvar::new();

thread_local! {
    /// The devices whose contexts this thread has made current; the last one is.
    static CURRENT: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// The machine, locked.
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

/// What was current before is so again; the device that was, if any.
pub fn pop_current() -> Option<usize> {
    CURRENT.with_borrow_mut(Vec::pop)
}

fn current() -> Option<usize> {
    CURRENT.with_borrow(|stack| stack.last().copied())
}

impl Emulator {
    /// A machine on which nothing has happened.
    pub fn new(settings: Settings) -> Self {
        Self {
            devices: settings.visible.iter().map(|_| Device::default()).collect(),
            failures: settings.failures.clone(),
            settings,
            initialised: false,
            blocks: BTreeMap::new(),
            pinned: BTreeMap::new(),
            pinned_bytes: 0,
            pinned_peak: 0,
            streams: BTreeMap::new(),
            events: BTreeMap::new(),
            handles: BTreeMap::new(),
            xt: BTreeSet::new(),
            next_id: 1,
            calls: 0,
            calls_by_name: BTreeMap::new(),
            failed: None,
            pageable_copies: 0,
            refused_products: 0,
            violations: Vec::new(),
            waited_for: Clock::default(),
            recent: Vec::new(),
        }
    }

    /// A number that was never given out before.
    pub fn fresh_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// The device whose context is current, if it is in order.
    pub fn current(&self) -> Result<usize, u32> {
        if !self.initialised {
            return Err(NOT_INITIALIZED);
        }
        let device = current().ok_or(INVALID_CONTEXT)?;
        if self.devices[device].retained == 0 {
            return Err(INVALID_CONTEXT);
        }
        self.alive(device)?;
        Ok(device)
    }

    /// The current device whether it is lost or not: what is released is released then too.
    pub fn current_even_lost(&self) -> Option<usize> {
        current()
    }

    /// Refuses a lost device, with the error that ended it.
    pub fn alive(&self, device: usize) -> Result<(), u32> {
        self.devices[device].lost.map_or(Ok(()), Err)
    }

    /// Ends a device: what was queued on it never runs.
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

    /// The stream, which must belong to the current device.
    pub fn stream(&mut self, id: u64) -> Result<&mut Stream, u32> {
        let device = self.current()?;
        let stream = self.streams.get_mut(&id).ok_or(INVALID_HANDLE)?;
        if stream.device == device && !stream.destroyed {
            Ok(stream)
        } else {
            Err(INVALID_HANDLE)
        }
    }

    /// Takes note of something that no correct program does.
    pub fn violation(&mut self, what: Violation) {
        self.violations.push(what);
        // The one way that a library has to say which, where nobody asks.
        let message = format!("CUDA emulator: {}\n", what.text());
        let _ = std::io::Write::write_all(&mut std::io::stderr(), message.as_bytes());
    }

    /// Whether anything is left in the context of a device.
    pub fn is_left_in(&self, device: usize) -> bool {
        let streams = self.streams.values();
        self.blocks.values().any(|block| block.device == device)
            || self.pinned.values().any(|pinned| pinned.device == device)
            || streams.filter(|s| !s.destroyed).any(|s| s.device == device)
            || self.events.values().any(|event| event.device == device)
            || self.handles.values().any(|handle| handle.device == device)
    }

    /// Contexts, memory, streams, events and handles that were not released.
    pub fn live(&self) -> u64 {
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
