//! Functions for tests: counters, and failures to come.

use crate::settings::PlannedFailure;
use crate::state::lock;
use std::ffi::{c_char, c_int};

/// Counts the contexts, allocations, streams, events and cuBLAS handles that are alive.
#[unsafe(no_mangle)]
pub extern "C" fn isochron_cuda_emulator_live() -> u64 {
    lock().count_live()
}

/// Counts the violations, such as freeing memory that queued work needs.
#[unsafe(no_mangle)]
pub extern "C" fn isochron_cuda_emulator_violations() -> u64 {
    lock().violations.len() as u64
}

/// Writes the description of the first violation, ended by 0, to `text`, which has room for `bytes` bytes. It is empty if there
/// was none since the last reset.
///
/// # Safety
/// `text` points to `bytes >= 1` bytes that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isochron_cuda_emulator_violation(text: *mut c_char, bytes: usize) {
    let first = lock().violations.first().map_or("", |first| first.text());
    // SAFETY: by this function's contract.
    unsafe { crate::text::write_text(text, bytes, first) };
}

/// Counts the asynchronous copies from or to host memory that is not pinned.
#[unsafe(no_mangle)]
pub extern "C" fn isochron_cuda_emulator_pageable_copies() -> u64 {
    lock().pageable_copies
}

/// Counts the products that cuBLAS has refused because they exceed the largest.
#[unsafe(no_mangle)]
pub extern "C" fn isochron_cuda_emulator_refused_products() -> u64 {
    lock().refused_products
}

/// Sets the multiplications of the largest product for which cuBLAS finds a workspace.
#[unsafe(no_mangle)]
pub extern "C" fn isochron_cuda_emulator_set_product(multiplications: u64) {
    lock().settings.product = multiplications;
}

/// Counts the calls so far.
#[unsafe(no_mangle)]
pub extern "C" fn isochron_cuda_emulator_calls() -> u64 {
    lock().calls
}

/// Returns the most bytes of a device's memory that were allocated at one time since the last reset.
#[unsafe(no_mangle)]
pub extern "C" fn isochron_cuda_emulator_device_peak_bytes(device: c_int) -> u64 {
    let emulator = lock();
    let device = usize::try_from(device)
        .ok()
        .and_then(|d| emulator.devices.get(d));
    device.map_or(0, |d| d.peak)
}

/// Returns the most bytes of pinned host memory that were allocated at one time since the last reset.
#[unsafe(no_mangle)]
pub extern "C" fn isochron_cuda_emulator_pinned_peak_bytes() -> u64 {
    lock().pinned_peak
}

/// Makes the `number`-th call from now on return `code`. With `later` other than 0, a call that queues work succeeds, and its
/// work fails.
#[unsafe(no_mangle)]
pub extern "C" fn isochron_cuda_emulator_fail(number: u64, code: u32, later: c_int) {
    let mut emulator = lock();
    let failure = PlannedFailure {
        call: "*".to_owned(),
        number: emulator.calls + number,
        code,
        later: later != 0,
    };
    emulator.failures = vec![failure];
    emulator.failed = None;
}

/// Writes the name of the call that was made to fail, ended by 0, to `name`, which has room for `bytes` bytes. It is empty if
/// none was since the last reset.
///
/// # Safety
/// `name` points to `bytes >= 1` bytes that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isochron_cuda_emulator_failed(name: *mut c_char, bytes: usize) {
    let text = lock().failed.unwrap_or("");
    // SAFETY: by this function's contract.
    unsafe { crate::text::write_text(name, bytes, text) };
}

/// Sets the bytes of memory of a device.
#[unsafe(no_mangle)]
pub extern "C" fn isochron_cuda_emulator_set_memory(device: c_int, bytes: u64) {
    let mut emulator = lock();
    let index = usize::try_from(device).unwrap_or(usize::MAX);
    if let Some(device) = emulator.settings.visible.get_mut(index) {
        device.memory = bytes;
    }
}

/// Forgets failures to come, lost devices and the counters. Live resources stay.
#[unsafe(no_mangle)]
pub extern "C" fn isochron_cuda_emulator_reset() {
    let mut emulator = lock();
    emulator.failures.clear();
    emulator.failed = None;
    emulator.violations.clear();
    emulator.pageable_copies = 0;
    emulator.refused_products = 0;
    emulator.pinned_peak = emulator.pinned_bytes;
    for device in &mut emulator.devices {
        device.lost = None;
        device.peak = device.used;
    }
}
