//! Streams, and events on them.

use crate::call::{Out, export, write_result};
use crate::codes::INVALID_HANDLE;
use crate::schedule::{drain, drain_event, enqueue, serve};
use crate::settings::WorkSchedule;
use crate::state::{CHANGED, EmulatedEvent, EmulatedStream, lock};
use crate::work::StreamWork;
use std::ffi::c_uint;

export! { driver:
    Plain fn cuStreamCreate(stream: Out<'_, u64>, _flags: c_uint) {
        let mut emulator = lock();
        let device = emulator.current()?;
        let id = emulator.fresh_id();
        write_result(stream, id)?;
        emulator.streams.insert(id, EmulatedStream { device, ..Default::default() });
        if emulator.settings.schedule == WorkSchedule::Threads {
            std::thread::spawn(move || serve(id));
        }
        Ok(())
    }

    Releases fn cuStreamDestroy_v2(stream: u64) {
        // The driver lets the work end before the stream goes.
        let outcome = drain(stream);
        let mut emulator = lock();
        if emulator.settings.schedule == WorkSchedule::Threads {
            emulator.streams.get_mut(&stream).ok_or(INVALID_HANDLE)?.destroyed = true;
        } else {
            emulator.streams.remove(&stream).ok_or(INVALID_HANDLE)?;
        }
        CHANGED.notify_all();
        outcome
    }

    Waits fn cuStreamSynchronize(stream: u64) {
        lock().stream(stream)?;
        drain(stream)
    }

    Queues fn cuStreamWaitEvent(stream: u64, event: u64, _flags: c_uint) {
        let recorded = lock().events.get(&event).ok_or(INVALID_HANDLE)?.recorded;
        // A wait for an event that was never recorded ends at once.
        enqueue(stream, StreamWork::Wait(event, recorded))
    }

    Plain fn cuEventCreate(event: Out<'_, u64>, _flags: c_uint) {
        let mut emulator = lock();
        let device = emulator.current()?;
        let id = emulator.fresh_id();
        write_result(event, id)?;
        emulator.events.insert(id, EmulatedEvent { device, ..Default::default() });
        Ok(())
    }

    Releases fn cuEventDestroy_v2(event: u64) {
        let mut emulator = lock();
        let removed = emulator.events.remove(&event).ok_or(INVALID_HANDLE)?;
        CHANGED.notify_all();
        emulator.alive(removed.device)
    }

    Queues fn cuEventRecord(event: u64, stream: u64) {
        let number = {
            let mut emulator = lock();
            emulator.stream(stream)?;
            let state = emulator.events.get_mut(&event).ok_or(INVALID_HANDLE)?;
            state.recorded += 1;
            state.ahead.insert(state.recorded);
            state.recorded
        };
        enqueue(stream, StreamWork::Record(event, number))
    }

    Waits fn cuEventSynchronize(event: u64) {
        lock().current()?;
        drain_event(event)
    }
}
