//! Memory that the library hands to the program.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, PoisonError};

use crate::status::{CallFailure, call};

/// Memory that the program has yet to free, by its address.
static HANDED: Mutex<BTreeMap<usize, Box<[u8]>>> = Mutex::new(BTreeMap::new());

/// Hands bytes to the program until it calls [`isochron_free`].
pub(crate) fn hand_over<T>(mut bytes: Vec<u8>) -> *const T {
    // So that a zero ends a text, and no bytes have an address too.
    bytes.push(0);
    let bytes = bytes.into_boxed_slice();
    let start = bytes.as_ptr().cast::<T>();
    let mut handed = HANDED.lock().unwrap_or_else(PoisonError::into_inner);
    handed.insert(start.addr(), bytes);
    start
}

/// Frees a text or a state that a call has returned. A null pointer is no error.
///
/// # Safety
/// The memory is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isochron_free(memory: *const c_void) -> c_int {
    call(|| {
        let mut handed = HANDED.lock().unwrap_or_else(PoisonError::into_inner);
        if memory.is_null() || handed.remove(&memory.addr()).is_some() {
            Ok(())
        } else {
            let reason = "is not from this library: was it freed before?";
            Err(CallFailure::argument("memory", reason))
        }
    })
}
