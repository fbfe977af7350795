//! The shared state of a team's threads, in every order of the threads and with every value that the memory model lets
//! them read. Models with the most threads have only the orders of few interruptions. A thread that sleeps for ever is
//! a failure.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

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

    /// A thread sleeps after one failed look, as it does after the last of many.
    pub const LOOKS: u32 = 1;

    /// Does nothing: the looks are counted, so no thread has to let others go first.
    pub fn spin_loop() {}

    pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap()
    }

    /// `park` and `unpark` as the standard library documents them: at most one token, which a pause waits for and
    /// takes.
    pub struct ModelledWaiter {
        token: Mutex<bool>,
        given: Condvar,
    }

    impl ModelledWaiter {
        pub fn this_thread() -> Self {
            Self { token: Mutex::new(false), given: Condvar::new() }
        }

        /// Waits without a time limit, so that a missed wake-up shows.
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

/// A value that orders nothing: it is seen if something else makes it visible.
type Note = AtomicUsize;

/// Makes notes that no thread has written yet.
fn make_notes<const N: usize>() -> [Note; N] {
    std::array::from_fn(|_| Note::new(0))
}

/// Returns `true` if this thread sees all of them written.
fn all_are_seen(notes: &[Note]) -> bool {
    notes.iter().all(|note| note.load(Ordering::Relaxed) == 1)
}

/// Most interruptions of a thread in the models with the most threads. They have too many interleavings to see them
/// all, and hardly a mistake needs more interruptions to show.
const INTERRUPTIONS: usize = 3;

/// Runs `model` in every interleaving, or in those with at most this number of interruptions.
fn explore_orders(interruptions: Option<usize>, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = interruptions;
    builder.check(model);
}

/// Lets `N` threads meet at a gate. Each thread that has passed it sees the earlier writes of all.
fn meet_at_a_gate<const N: usize>(interruptions: Option<usize>) {
    explore_orders(interruptions, || {
        let shared = Arc::new((Gate::new(N), make_notes::<N>()));
        let others: Vec<_> = (1..N)
            .map(|i| {
                let shared = shared.clone();
                thread::spawn(move || come_to_gate(i, &shared))
            })
            .collect();
        come_to_gate(0, &shared);
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

fn come_to_gate<const N: usize>(i: usize, (gate, notes): &(Gate, [Note; N])) {
    notes[i].store(1, Ordering::Relaxed);
    gate.pass();
    assert!(all_are_seen(notes), "thread {i} of {N} is alone");
}

#[test]
fn no_thread_passes_the_gate_before_all_have_come() {
    meet_at_a_gate::<1>(None);
    meet_at_a_gate::<2>(None);
    meet_at_a_gate::<3>(Some(INTERRUPTIONS));
}

/// Lets a caller wait for `N` drivers. It returns when they are done, and sees their writes.
fn wait_for_drivers<const N: usize>(interruptions: Option<usize>) {
    explore_orders(interruptions, || {
        let shared = Arc::new((RunningDrivers::new(N), make_notes::<N>()));
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
fn the_caller_is_woken_and_sees_the_writes_of_every_driver() {
    wait_for_drivers::<1>(None);
    wait_for_drivers::<2>(None);
    wait_for_drivers::<3>(Some(INTERRUPTIONS));
}

#[test]
fn a_call_begins_together_and_ends_with_every_result() {
    const N: usize = 2;
    explore_orders(None, || {
        let shared =
            Arc::new((Gate::new(N), RunningDrivers::new(N), make_notes::<N>(), make_notes::<N>()));
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
