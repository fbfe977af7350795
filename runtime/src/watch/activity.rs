//! The present activity of this process: phase, step, and number of things done.
//!
//! A process is one rank, and its waits lie below any session, so the activity is one of the process. The rank's main thread
//! notes it by relaxed stores, and the watcher reads it about once a second.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use isochron_devices::internal::read_operations;
use rustix::event::{EventfdFlags, eventfd};
use serde::{Deserialize, Serialize};
use strum::{EnumIter, FromRepr, IntoStaticStr};

use crate::fault;

/// A phase of a rank's work.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Default,
    EnumIter,
    FromRepr,
    IntoStaticStr,
    Serialize,
    Deserialize,
)]
#[strum(serialize_all = "lowercase")]
#[repr(u32)]
pub enum RankPhase {
    /// The process starts, and joins the others.
    #[default]
    Start,
    /// The devices are looked for.
    Devices,
    /// BLAS libraries are tried.
    Libraries,
    /// The devices are measured, and the work is divided.
    Plan,
    /// Matrices are read or generated.
    Matrices,
    /// The steps of a multiplication.
    Multiply,
    /// The result is checked.
    Check,
    /// Results are written to files.
    Write,
    /// Results are printed: who reads them may take any time.
    Print,
    /// Work of a command without phases.
    Work,
    /// MPI is ended.
    End,
}

impl RankPhase {
    /// Describes the phase behind "it was".
    pub fn describe(self) -> &'static str {
        match self {
            Self::Start => "starting",
            Self::Devices => "looking for devices",
            Self::Libraries => "trying BLAS libraries",
            Self::Plan => "measuring and planning",
            Self::Matrices => "reading or making matrices",
            Self::Multiply => "multiplying",
            Self::Check => "checking the result",
            Self::Write => "writing results",
            Self::Print => "printing results",
            Self::Work => "at work",
            Self::End => "ending MPI",
        }
    }
}

static WAKER: OnceLock<OwnedFd> = OnceLock::new();
static PHASE: AtomicU32 = AtomicU32::new(RankPhase::Start as u32);
static STEP: AtomicU32 = AtomicU32::new(0);
static STEPS: AtomicU32 = AtomicU32::new(0);
/// Waits for other ranks that have begun and not ended.
static WAITS: AtomicU32 = AtomicU32::new(0);
/// Number of things done: waits that ended, messages that arrived, steps and phases begun, columns and pieces of matrices.
static DONE: AtomicU64 = AtomicU64::new(0);
/// Expected time of a step in microseconds, and of all work of the phase; 0 if unknown.
static STEP_US: AtomicU64 = AtomicU64::new(0);
static WORK_US: AtomicU64 = AtomicU64::new(0);
/// Time that the present call of the system may take in microseconds.
static CALL_US: AtomicU64 = AtomicU64::new(0);

/// Enters a phase, which begins without expectations.
pub fn enter(phase: RankPhase) {
    expect_work(0.0, 0.0);
    switch_to(phase);
    fault::pass_phase(phase.into(), note_progress);
}

/// Enters a phase within another one, which goes on when the returned value is dropped.
pub fn enter_within(phase: RankPhase) -> Within {
    let outer = RankPhase::from_repr(PHASE.load(Relaxed)).unwrap_or_default();
    switch_to(phase);
    fault::pass_phase(phase.into(), note_progress);
    Within(outer)
}

fn switch_to(phase: RankPhase) {
    PHASE.store(phase as u32, Relaxed);
    STEP.store(0, Relaxed);
    STEPS.store(0, Relaxed);
    note_progress();
    wake_watcher();
}

/// Wakes the watcher, if there is one: it tells a new phase at once.
pub(super) fn wake_watcher() {
    if let Some(waker) = WAKER.get() {
        // A counter that is full wakes it too.
        let _ = rustix::io::write(waker, &1u64.to_ne_bytes());
    }
}

/// Returns the event that wakes the watcher of this process; `None` where the system refuses one.
pub(super) fn make_waker() -> Option<BorrowedFd<'static>> {
    if WAKER.get().is_none() {
        let waker = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?;
        // Another thread's is as good.
        let _ = WAKER.set(waker);
    }
    WAKER.get().map(|waker| waker.as_fd())
}

/// A phase within another one.
#[must_use]
pub struct Within(RankPhase);

impl Drop for Within {
    fn drop(&mut self) {
        switch_to(self.0);
    }
}

/// Returns what this process does, to be written behind "it was".
pub fn describe_phase() -> &'static str {
    Activity::read().phase.describe()
}

/// Notes that a step of a multiplication begins, counted from 0.
pub(crate) fn begin_step(step: usize, steps: usize) {
    PHASE.store(RankPhase::Multiply as u32, Relaxed);
    STEP.store(saturate(step) + 1, Relaxed);
    STEPS.store(saturate(steps), Relaxed);
    note_progress();
    if step == 1 {
        fault::pass_phase("step", note_progress);
    }
}

fn saturate(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX - 1)
}

/// Notes the expected seconds of a step and of all work of this phase; 0 if unknown.
pub fn expect_work(step_s: f64, work_s: f64) {
    STEP_US.store((step_s * 1e6) as u64, Relaxed);
    WORK_US.store((work_s * 1e6) as u64, Relaxed);
}

/// Notes that something was done.
pub fn note_progress() {
    DONE.fetch_add(1, Relaxed);
}

/// A call of the system that shows no progress, which ends when it is dropped.
#[must_use]
#[derive(Debug)]
pub struct LongCall(());

impl LongCall {
    /// Begins a call that may take so many seconds.
    pub fn begin(may_take_s: f64) -> Self {
        CALL_US.store((may_take_s * 1e6) as u64, Relaxed);
        Self(())
    }
}

impl Drop for LongCall {
    fn drop(&mut self) {
        CALL_US.store(0, Relaxed);
        note_progress();
    }
}

/// A wait for other ranks, which ends when it is dropped.
#[derive(Debug)]
pub struct Wait(());

impl Wait {
    /// Begins to wait.
    pub fn begin() -> Self {
        WAITS.fetch_add(1, Relaxed);
        Self(())
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        WAITS.fetch_sub(1, Relaxed);
        note_progress();
    }
}

/// The activity at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Activity {
    pub phase: RankPhase,
    /// The step, from 1; 0 outside of the steps.
    pub step: u32,
    pub steps: u32,
    /// `true` while the rank waits for others.
    pub waits: bool,
    pub done: u64,
    /// Expected seconds of a step, and of all work of the phase; 0 if unknown.
    pub step_s: f64,
    pub work_s: f64,
    /// Seconds that the call of foreign code which runs may take; 0 if none runs.
    pub call_s: f64,
}

impl Activity {
    pub(super) fn read() -> Self {
        let operations = read_operations();
        Self {
            phase: RankPhase::from_repr(PHASE.load(Relaxed)).unwrap_or_default(),
            step: STEP.load(Relaxed),
            steps: STEPS.load(Relaxed),
            waits: WAITS.load(Relaxed) > 0,
            done: DONE.load(Relaxed) + operations.done,
            step_s: STEP_US.load(Relaxed) as f64 / 1e6,
            work_s: WORK_US.load(Relaxed) as f64 / 1e6,
            call_s: operations.may_take_s.max(CALL_US.load(Relaxed) as f64 / 1e6),
        }
    }
}
