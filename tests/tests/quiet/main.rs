//! Tests of judgements by measured times. They take turns, in a test program of their own, which `cargo test` runs
//! beside no other: work of another test looks like a slow device or link.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

mod health;
#[cfg(target_os = "linux")]
mod links;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Waits for the turn of a test, which lasts until the result is dropped.
fn take_turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
