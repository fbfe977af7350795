//! Streams, and events on them.

use super::write_result;
use crate::call::{Class, driver};
use crate::codes::INVALID_HANDLE;
use crate::order::VectorClock;
use crate::schedule::{drain, drain_event, enqueue, serve};
use crate::settings::WorkSchedule;
use crate::state::{CHANGED, EmulatedEvent, EmulatedStream, lock};
use crate::work::StreamWork;
use std::collections::{BTreeSet, VecDeque};
use std::ffi::c_uint;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamCreate(stream: *mut u64, _flags: c_uint) -> u32 {
    driver("cuStreamCreate", Class::Plain, || {
        let mut emulator = lock();
        let index = emulator.current()?;
        let id = emulator.fresh_id();
        // SAFETY: the caller's promise.
        unsafe { write_result(stream, id) }?;
        emulator.streams.insert(
            id,
            EmulatedStream {
                device: index,
                queue: VecDeque::new(),
                running: None,
                queued: 0,
                clock: VectorClock::default(),
                destroyed: false,
            },
        );
        if emulator.settings.schedule == WorkSchedule::Threads {
            std::thread::spawn(move || serve(id));
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamDestroy_v2(stream: u64) -> u32 {
    driver("cuStreamDestroy_v2", Class::Releases, || {
        // The driver lets the work end before the stream goes.
        let outcome = drain(stream);
        let mut emulator = lock();
        if emulator.settings.schedule == WorkSchedule::Threads {
            let state = emulator.streams.get_mut(&stream).ok_or(INVALID_HANDLE)?;
            state.destroyed = true;
        } else {
            emulator.streams.remove(&stream).ok_or(INVALID_HANDLE)?;
        }
        CHANGED.notify_all();
        outcome
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamSynchronize(stream: u64) -> u32 {
    driver("cuStreamSynchronize", Class::Waits, || {
        lock().stream(stream)?;
        drain(stream)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamWaitEvent(stream: u64, event: u64, _flags: c_uint) -> u32 {
    driver("cuStreamWaitEvent", Class::Queues, || {
        let recorded = {
            let emulator = lock();
            emulator.events.get(&event).ok_or(INVALID_HANDLE)?.recorded
        };
        // A wait for an event that was never recorded ends at once.
        enqueue(stream, StreamWork::Wait(event, recorded))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventCreate(event: *mut u64, _flags: c_uint) -> u32 {
    driver("cuEventCreate", Class::Plain, || {
        let mut emulator = lock();
        let index = emulator.current()?;
        let id = emulator.fresh_id();
        // SAFETY: the caller's promise.
        unsafe { write_result(event, id) }?;
        let new = EmulatedEvent {
            device: index,
            recorded: 0,
            ahead: BTreeSet::new(),
            clock: VectorClock::default(),
        };
        emulator.events.insert(id, new);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventDestroy_v2(event: u64) -> u32 {
    driver("cuEventDestroy_v2", Class::Releases, || {
        let mut emulator = lock();
        let removed = emulator.events.remove(&event).ok_or(INVALID_HANDLE)?;
        CHANGED.notify_all();
        emulator.alive(removed.device)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventRecord(event: u64, stream: u64) -> u32 {
    driver("cuEventRecord", Class::Queues, || {
        let number = {
            let mut emulator = lock();
            emulator.stream(stream)?;
            let state = emulator.events.get_mut(&event).ok_or(INVALID_HANDLE)?;
            state.recorded += 1;
            state.ahead.insert(state.recorded);
            state.recorded
        };
        enqueue(stream, StreamWork::Record(event, number))
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventSynchronize(event: u64) -> u32 {
    driver("cuEventSynchronize", Class::Waits, || {
        lock().current()?;
        drain_event(event)
    })
}
