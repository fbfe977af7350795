//! The entry of every call: it is counted, and may be made to fail.

use crate::codes::{self, INVALID_VALUE, NOT_INITIALIZED, SUCCESS};
use crate::state::{Emulator, lock};
use std::cell::Cell;
use std::mem::MaybeUninit;

/// The behaviour of a call that is made to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// It does nothing and returns the code.
    Plain,
    /// It puts work on a stream: the work, too, may be what fails.
    Queues,
    /// It waits for work: its failure means that the work failed, so the device is lost.
    Waits,
    /// It releases a resource: it does so and returns the code, as the driver does with errors of earlier work.
    Releases,
}

/// The place for a result of a call; `None` is C's null.
pub type Out<'a, T> = Option<&'a mut MaybeUninit<T>>;

/// Writes a result; a missing place is an error.
pub fn write_result<T>(to: Out<'_, T>, value: T) -> Result<(), u32> {
    to.ok_or(INVALID_VALUE)?.write(value);
    Ok(())
}

/// Exports functions of the `driver` or of `blas`, each with its [`Class`]; the bodies return `Result<(), u32>`.
macro_rules! export {
    ($library:ident: $($(#[$attribute:meta])* $class:ident fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block)*) => {$(
        $(#[$attribute])*
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($argument: $type),*) -> u32 {
            $crate::call::$library(stringify!($name), $crate::call::Class::$class, || $body)
        }
    )*};
}
pub(crate) use export;

thread_local! {
    /// The code with which the work of this call is to fail.
    static FAILS_LATER: Cell<Option<u32>> = const { Cell::new(None) };
}

/// Takes the code with which the work that this call queues is to fail, if any.
pub fn take_later_failure() -> Option<u32> {
    FAILS_LATER.take()
}

/// Runs a call of cuBLAS, which has its own codes.
pub fn blas(name: &'static str, class: Class, body: impl FnOnce() -> Result<(), u32>) -> u32 {
    codes::as_blas(driver(name, class, body))
}

/// Runs a call of the driver.
pub fn driver(name: &'static str, class: Class, body: impl FnOnce() -> Result<(), u32>) -> u32 {
    let failure = admit(name, class);
    match (failure, class) {
        (None, _) => body().err().unwrap_or(SUCCESS),
        (Some((code, true)), Class::Queues) => {
            FAILS_LATER.set(Some(code));
            let result = body();
            FAILS_LATER.set(None);
            result.err().unwrap_or(SUCCESS)
        }
        (Some((code, _)), Class::Releases) => {
            let _ = body();
            code
        }
        (Some((code, _)), _) => code,
    }
}

/// Counts the call. If it is to fail, returns the code, and `true` if its work fails later instead.
fn admit(name: &'static str, class: Class) -> Option<(u32, bool)> {
    let mut emulator = lock();
    emulator.calls += 1;
    let all = emulator.calls;
    let own = emulator.calls_by_name.entry(name).or_default();
    *own += 1;
    let own = *own;
    let found = emulator.settings.failures.iter().position(|failure| {
        (failure.call == name && failure.number == own)
            || (failure.call == "*" && failure.number == all)
    });
    let failure = emulator.settings.failures.remove(found?);
    emulator.failed = Some(name);
    let later = failure.later && class == Class::Queues;
    if !later && (codes::loses_device(failure.code) || class == Class::Waits) {
        lose_current(&mut emulator, failure.code);
    }
    Some((failure.code, later))
}

fn lose_current(emulator: &mut Emulator, code: u32) {
    if let Some(device) = crate::state::current_device() {
        emulator.lose(device, code);
    }
}

/// Refuses calls before `cuInit`.
pub fn initialised() -> Result<(), u32> {
    lock().initialised.then_some(()).ok_or(NOT_INITIALIZED)
}
