//! What the threads of a team share, in every order that threads can take and with every value that the memory model
//! lets them read; with most threads, in the orders of few interruptions. A thread that sleeps for ever is a failure.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

#[path = "../src/team/gate.rs"]
mod gate;
#[path = "../src/team/running.rs"]
mod running;

/// The module of the same name in `src/team`, on modelled threads.
mod sync {
    pub use ModelledWaiter as Waiter;
    pub use loom::sync::atomic::{AtomicUsize, Ordering};
    pub use loom::sync::{Condvar, Mutex};

    use loom::sync::MutexGuard;
    use std::time::Duration;

    /// One look that fails is followed by sleep, as the last of many is.
    pub const LOOKS: u32 = 1;

    /// Nothing: as the looks are counted, no thread need be made to let others go first.
    pub fn spin_loop() {}

    pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap()
    }

    /// What the standard library says of `park` and `unpark`: a token, at most one, that pausing waits for and takes.
    pub struct ModelledWaiter {
        token: Mutex<bool>,
        given: Condvar,
    }

    impl ModelledWaiter {
        pub fn this_thread() -> Self {
            Self {
                token: Mutex::new(false),
                given: Condvar::new(),
            }
        }

        /// Time never runs out, so that a wake-up that is missed shows.
        pub fn pause(&self, _: Option<Duration>) {
            let mut token = lock(&self.token);
            while !*token {
                token = self.given.wait(token).unwrap();
            }
            *token = false;
        }

        pub fn wake(&self) {
            *lock(&self.token) = true;
            self.given.notify_one();
        }
    }
}

use gate::Gate;
use loom::model::Builder;
use loom::thread;
use running::RunningDrivers;
use std::sync::Arc;
use sync::{AtomicUsize, Ordering};

/// A value that says nothing about any other: it is seen where something else makes it visible.
type Note = AtomicUsize;

/// Notes that nobody has written.
fn notes<const N: usize>() -> [Note; N] {
    std::array::from_fn(|_| Note::new(0))
}

/// Whether this thread sees all of them written.
fn all_are_seen(notes: &[Note]) -> bool {
    notes.iter().all(|note| note.load(Ordering::Relaxed) == 1)
}

/// The most often that a thread is interrupted in the models of most threads: there are too many interleavings to see
/// them all, and hardly a mistake takes more interruptions to show.
const INTERRUPTIONS: usize = 3;

/// Runs `model` in every interleaving, or in all of at most so many interruptions.
fn explore(interruptions: Option<usize>, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = interruptions;
    builder.check(model);
}

/// In the interleavings explored, `N` threads meet at a gate, and each that has passed it sees what all did before.
fn meet_at_a_gate<const N: usize>(interruptions: Option<usize>) {
    explore(interruptions, || {
        let shared = Arc::new((Gate::new(N), notes::<N>()));
        let come = |i: usize, (gate, notes): &(Gate, [Note; N])| {
            notes[i].store(1, Ordering::Relaxed);
            gate.pass();
            assert!(all_are_seen(notes), "thread {i} of {N} is alone");
        };
        let others: Vec<_> = (1..N)
            .map(|i| {
                let shared = shared.clone();
                thread::spawn(move || come(i, &shared))
            })
            .collect();
        come(0, &shared);
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

#[test]
fn nobody_passes_the_gate_before_all_have_come() {
    meet_at_a_gate::<1>(None);
    meet_at_a_gate::<2>(None);
    meet_at_a_gate::<3>(Some(INTERRUPTIONS));
}

/// In the interleavings explored, the caller returns when `N` drivers are done, and sees what they wrote.
fn wait_for_drivers<const N: usize>(interruptions: Option<usize>) {
    explore(interruptions, || {
        let shared = Arc::new((RunningDrivers::new(N), notes::<N>()));
        let drivers: Vec<_> = (0..N)
            .map(|i| {
                let shared = shared.clone();
                thread::spawn(move || {
                    let (running, notes) = &*shared;
                    notes[i].store(1, Ordering::Relaxed);
                    running.end_driver();
                })
            })
            .collect();
        let (running, notes) = &*shared;
        let mut looks = 0;
        running.wait_for_drivers(&mut || {
            looks += 1;
            looks < 2
        });
        assert!(looks > 0, "messages are looked at, however soon all ends");
        assert!(all_are_seen(notes), "a result of {N} is not visible");
        drivers.into_iter().for_each(|it| it.join().unwrap());
    });
}

#[test]
fn the_caller_is_woken_and_sees_what_every_driver_wrote() {
    wait_for_drivers::<1>(None);
    wait_for_drivers::<2>(None);
    wait_for_drivers::<3>(Some(INTERRUPTIONS));
}

#[test]
fn a_call_begins_together_and_ends_with_every_result() {
    const N: usize = 2;
    explore(None, || {
        let shared = Arc::new((
            Gate::new(N),
            RunningDrivers::new(N),
            notes::<N>(),
            notes::<N>(),
        ));
        let drivers: Vec<_> = (0..N)
            .map(|i| {
                let shared = shared.clone();
                thread::spawn(move || {
                    let (gate, running, awake, results) = &*shared;
                    awake[i].store(1, Ordering::Relaxed);
                    gate.pass();
                    assert!(all_are_seen(awake), "driver {i} begins alone");
                    results[i].store(1, Ordering::Relaxed);
                    running.end_driver();
                })
            })
            .collect();
        let (_, running, _, results) = &*shared;
        running.wait_for_drivers(&mut || false);
        assert!(all_are_seen(results), "a result is not visible");
        drivers.into_iter().for_each(|it| it.join().unwrap());
    });
}
