//! Everything that the emulated machine knows, behind one lock.

use crate::codes::{INVALID_CONTEXT, INVALID_HANDLE, NOT_INITIALIZED};
use crate::memory::{Block, Pinned};
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
    pub next_id: u64,
    /// Calls so far, in all and by name.
    pub calls: u64,
    pub calls_by_name: BTreeMap<&'static str, u64>,
    pub failures: Vec<Failure>,
    /// The name of the last call that was made to fail.
    pub failed: Option<&'static str>,
    pub pageable_copies: u64,
    pub violations: u64,
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
        .get_or_init(|| Mutex::new(Emulator::new()))
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
    fn new() -> Self {
        let settings = Settings::read();
        Self {
            devices: settings.memory.iter().map(|_| Device::default()).collect(),
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
            next_id: 1,
            calls: 0,
            calls_by_name: BTreeMap::new(),
            failed: None,
            pageable_copies: 0,
            violations: 0,
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
    pub fn violation(&mut self, what: &str) {
        self.violations += 1;
        // The one way that a library has to say which.
        let message = format!("CUDA emulator: {what}\n");
        let _ = std::io::Write::write_all(&mut std::io::stderr(), message.as_bytes());
    }

    /// Contexts, memory, streams, events and handles that were not released.
    pub fn live(&self) -> u64 {
        let contexts: u64 = self.devices.iter().map(|d| d.retained).sum();
        let streams = self.streams.values().filter(|s| !s.destroyed).count();
        let others = self.blocks.len()
            + self.pinned.len()
            + streams
            + self.events.len()
            + self.handles.len();
        contexts + others as u64
    }
}
