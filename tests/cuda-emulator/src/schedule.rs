//! The schedule of queued work.

use crate::call::take_later_failure;
use crate::codes::INVALID_HANDLE;
use crate::settings::WorkSchedule;
use crate::state::{CHANGED, Emulator, lock};
use crate::work::{Queued, StreamWork};
use std::sync::{MutexGuard, PoisonError};

type Guard = MutexGuard<'static, Emulator>;

fn wait_for_change(guard: Guard) -> Guard {
    CHANGED.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

/// Puts work on a stream of the current device.
pub fn enqueue(stream: u64, work: StreamWork) -> Result<(), u32> {
    let fails = take_later_failure();
    let mut emulator = lock();
    emulator.stream(stream)?;
    emulator.order_work(stream, &work);
    emulator.stream(stream)?.queue.push_back(Queued { work, fails });
    CHANGED.notify_all();
    Ok(())
}

/// Does the work of a stream's queue on the stream's own thread, until the stream is destroyed.
pub fn serve(stream: u64) {
    let mut emulator = lock();
    loop {
        let Some(state) = emulator.streams.get(&stream) else {
            return;
        };
        if state.destroyed && state.queue.is_empty() {
            emulator.streams.remove(&stream);
            CHANGED.notify_all();
            return;
        }
        emulator = if emulator.can_step(stream) {
            do_next(emulator, stream)
        } else {
            wait_for_change(emulator)
        };
    }
}

/// Waits until the stream has done all its work.
pub fn drain(stream: u64) -> Result<(), u32> {
    let emulator = lock();
    let (device, clock) = {
        let state = emulator.streams.get(&stream).ok_or(INVALID_HANDLE)?;
        (state.device, state.clock.clone())
    };
    let mut emulator = run_until(emulator, Some(stream), |e| {
        e.streams.get(&stream).is_none_or(|s| s.queue.is_empty() && s.running.is_none())
    });
    emulator.wait_for(&clock);
    emulator.alive(device)
}

/// Waits until the event has been reached as often as it was recorded.
pub fn drain_event(event: u64) -> Result<(), u32> {
    let emulator = lock();
    let (device, recorded, clock) = {
        let state = emulator.events.get(&event).ok_or(INVALID_HANDLE)?;
        (state.device, state.recorded, state.clock.clone())
    };
    let owner = emulator.find_recorder(event, recorded);
    let mut emulator = run_until(emulator, owner, |e| !e.is_ahead(event, recorded));
    emulator.wait_for(&clock);
    emulator.alive(device)
}

/// Waits until no work runs on lost devices: the driver ends their work before it frees their memory.
pub fn quiesce() {
    let mut emulator = lock();
    while emulator.runs_on_lost_device() {
        emulator = wait_for_change(emulator);
    }
}

/// Lets work run by the schedule until `done`; `wanted` is the stream that is waited for.
fn run_until(mut emulator: Guard, wanted: Option<u64>, done: impl Fn(&Emulator) -> bool) -> Guard {
    if emulator.settings.schedule == WorkSchedule::Early {
        while let Some(other) = emulator.ready_stream(wanted) {
            emulator = do_next(emulator, other);
        }
    }
    while !done(&emulator) {
        let next = wanted.and_then(|stream| emulator.runnable_for(stream));
        emulator = match (emulator.settings.schedule, next) {
            (WorkSchedule::Threads, _) => wait_for_change(emulator),
            (_, Some(stream)) => do_next(emulator, stream),
            // Streams wait for each other in a circle, or another thread is at work.
            (_, None) => wait_for_change(emulator),
        };
    }
    emulator
}

/// Does the first work in a stream's queue, with the lock released meanwhile.
fn do_next(mut emulator: Guard, stream: u64) -> Guard {
    let Some(state) = emulator.streams.get_mut(&stream) else {
        return emulator;
    };
    let device = state.device;
    let Some(queued) = state.queue.pop_front() else {
        return emulator;
    };
    state.running = Some(queued.clone());
    let prepared = match queued.fails {
        Some(code) => Err(code),
        None => emulator.prepare(device, queued.work.clone()),
    };
    let outcome = match prepared {
        Ok(Some(ready)) => {
            drop(emulator);
            ready();
            emulator = lock();
            Ok(())
        }
        Ok(None) => Ok(()),
        Err(code) => Err(code),
    };
    if let Some(state) = emulator.streams.get_mut(&stream) {
        state.running = None;
    }
    match (outcome, queued.work) {
        (Err(code), _) => emulator.lose(device, code),
        (Ok(()), StreamWork::Record(event, number)) => {
            if let Some(event) = emulator.events.get_mut(&event) {
                event.ahead.remove(&number);
            }
        }
        _ => {}
    }
    CHANGED.notify_all();
    emulator
}

impl Emulator {
    /// Returns `true` if work runs on a lost device.
    fn runs_on_lost_device(&self) -> bool {
        let mut streams = self.streams.values();
        streams.any(|s| s.running.is_some() && self.devices[s.device].lost.is_some())
    }

    /// Returns `true` if the stream has work that is not held back.
    fn can_step(&self, stream: u64) -> bool {
        let Some(state) = self.streams.get(&stream) else {
            return false;
        };
        state.running.is_none()
            && state.queue.front().is_some_and(|queued| !self.is_held_back(&queued.work))
    }

    fn is_held_back(&self, work: &StreamWork) -> bool {
        let StreamWork::Wait(event, number) = work else {
            return false;
        };
        self.is_ahead(*event, *number)
    }

    /// Returns `true` if the event has not been reached for the `number`-th time; later records do not matter. A
    /// destroyed event holds nothing back: the driver keeps it until it is reached, and streams that wait for it are
    /// settled before.
    fn is_ahead(&self, event: u64, number: u64) -> bool {
        self.events.get(&event).is_some_and(|e| e.ahead.contains(&number))
    }

    /// Returns a stream other than `except` that can go on.
    fn ready_stream(&self, except: Option<u64>) -> Option<u64> {
        let mut others = self.streams.keys().filter(|&&id| Some(id) != except);
        others.find(|&&id| self.can_step(id)).copied()
    }

    /// Returns the stream that must go on next so that `stream` can.
    fn runnable_for(&self, stream: u64) -> Option<u64> {
        let mut next = stream;
        for _ in 0..=self.streams.len() {
            if self.can_step(next) {
                return Some(next);
            }
            match self.streams.get(&next)?.queue.front()?.work {
                StreamWork::Wait(event, number) => next = self.find_recorder(event, number)?,
                _ => return None,
            }
        }
        None
    }

    /// Returns the stream that is to reach the event for the `number`-th time.
    fn find_recorder(&self, event: u64, number: u64) -> Option<u64> {
        let mut streams = self.streams.iter();
        streams.find(|(_, stream)| {
            let mut works = stream.queue.iter().chain(stream.running.as_ref());
            works.any(|queued| matches!(queued.work, StreamWork::Record(e, n) if (e, n) == (event, number)))
        }).map(|(&id, _)| id)
    }
}
