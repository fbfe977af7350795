//! When queued work runs.

use crate::call::fails_later;
use crate::codes::INVALID_HANDLE;
use crate::settings::Schedule;
use crate::state::{CHANGED, Emulator, lock};
use crate::work::{Queued, Work};
use std::sync::{MutexGuard, PoisonError};

type Guard = MutexGuard<'static, Emulator>;

fn wait(guard: Guard) -> Guard {
    CHANGED.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

/// Puts work on a stream of the current device.
pub fn enqueue(stream: u64, work: Work) -> Result<(), u32> {
    let fails = fails_later();
    let mut emulator = lock();
    emulator.stream(stream)?;
    emulator.order(stream, &work);
    emulator
        .stream(stream)?
        .queue
        .push_back(Queued { work, fails });
    CHANGED.notify_all();
    Ok(())
}

/// Does what the stream's queue holds, on a thread of its own, until the stream is destroyed.
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
            step(emulator, stream)
        } else {
            wait(emulator)
        };
    }
}

/// Waits until the stream has done everything.
pub fn drain(stream: u64) -> Result<(), u32> {
    let emulator = lock();
    let (device, clock) = {
        let state = emulator.streams.get(&stream).ok_or(INVALID_HANDLE)?;
        (state.device, state.clock.clone())
    };
    let idle = |e: &Emulator| {
        let state = e.streams.get(&stream);
        state.is_none_or(|s| s.queue.is_empty() && s.running.is_none())
    };
    let mut emulator = settle(emulator, Some(stream), idle);
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
    let owner = emulator.recorder(event, recorded);
    let reached = |e: &Emulator| !e.is_ahead(event, recorded);
    let mut emulator = settle(emulator, owner, reached);
    emulator.wait_for(&clock);
    emulator.alive(device)
}

/// Waits until nothing runs on devices that are lost: the driver ends their work before it frees their memory.
pub fn quiesce() {
    let mut emulator = lock();
    let busy = |e: &Emulator| {
        let mut streams = e.streams.values();
        streams.any(|s| s.running.is_some() && e.devices[s.device].lost.is_some())
    };
    while busy(&emulator) {
        emulator = wait(emulator);
    }
}

/// Lets work run as the schedule says until `done`; `wanted` is the stream that is waited for.
fn settle(mut emulator: Guard, wanted: Option<u64>, done: impl Fn(&Emulator) -> bool) -> Guard {
    if emulator.settings.schedule == Schedule::Early {
        while let Some(other) = emulator.ready_stream(wanted) {
            emulator = step(emulator, other);
        }
    }
    while !done(&emulator) {
        let next = wanted.and_then(|stream| emulator.runnable_for(stream));
        emulator = match (emulator.settings.schedule, next) {
            (Schedule::Threads, _) => wait(emulator),
            (_, Some(stream)) => step(emulator, stream),
            // Streams that wait for each other in a circle, or another thread is at work.
            (_, None) => wait(emulator),
        };
    }
    emulator
}

/// Does the first piece of work of a stream, with the lock released meanwhile.
fn step(mut emulator: Guard, stream: u64) -> Guard {
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
            ready.run();
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
        (Ok(()), Work::Record(event, number)) => {
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
    /// Whether the stream has work that nothing holds back.
    fn can_step(&self, stream: u64) -> bool {
        let Some(state) = self.streams.get(&stream) else {
            return false;
        };
        state.running.is_none()
            && state
                .queue
                .front()
                .is_some_and(|queued| !self.is_held_back(&queued.work))
    }

    fn is_held_back(&self, work: &Work) -> bool {
        let Work::Wait(event, number) = work else {
            return false;
        };
        self.is_ahead(*event, *number)
    }

    /// Whether the event has not been reached for the `number`-th time. What is recorded later has no say in that. An event
    /// that was destroyed holds nothing back: the driver keeps it until it is reached, and streams that wait for it are
    /// settled before.
    fn is_ahead(&self, event: u64, number: u64) -> bool {
        let event = self.events.get(&event);
        event.is_some_and(|e| e.ahead.contains(&number))
    }

    /// A stream other than `except` that can go on.
    fn ready_stream(&self, except: Option<u64>) -> Option<u64> {
        let mut others = self.streams.keys().filter(|&&id| Some(id) != except);
        others.find(|&&id| self.can_step(id)).copied()
    }

    /// The stream that must go on next so that `stream` can.
    fn runnable_for(&self, stream: u64) -> Option<u64> {
        let mut next = stream;
        for _ in 0..=self.streams.len() {
            if self.can_step(next) {
                return Some(next);
            }
            match self.streams.get(&next)?.queue.front()?.work {
                Work::Wait(event, number) => next = self.recorder(event, number)?,
                _ => return None,
            }
        }
        None
    }

    /// The stream that is to reach the event for the `number`-th time.
    fn recorder(&self, event: u64, number: u64) -> Option<u64> {
        let records = |queued: &Queued| match queued.work {
            Work::Record(e, n) => e == event && n == number,
            _ => false,
        };
        let mut streams = self.streams.iter();
        streams
            .find(|(_, s)| s.queue.iter().chain(s.running.as_ref()).any(records))
            .map(|(&id, _)| id)
    }
}
