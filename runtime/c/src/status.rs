//! The outcome of a call: a status, and a sentence for each thread.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use isochron::prelude::Comm;
use isochron::{Error, ErrorClass};

/// The call succeeded.
pub const ISOCHRON_OK: c_int = 0;
/// An argument is a null pointer, out of range, or not valid text.
pub const ISOCHRON_ARGUMENT: c_int = 1;
/// A handle is unknown: it was closed, is of another kind, or belongs to another thread or to the parent of a forked child.
pub const ISOCHRON_HANDLE: c_int = 2;
/// There is no setting of this name, or it does not take this value.
pub const ISOCHRON_SETTING: c_int = 3;
/// The request is wrong: a communicator, shapes, layouts, memory, a file. Nothing was computed.
pub const ISOCHRON_INPUT: c_int = 4;
/// The run failed.
pub const ISOCHRON_FAILED: c_int = 5;
/// The library has a defect.
pub const ISOCHRON_INTERNAL: c_int = 6;

/// The reason why a call failed.
#[derive(Debug, Clone)]
pub(crate) struct CallFailure {
    status: c_int,
    sentence: String,
}

impl CallFailure {
    pub(crate) fn argument(name: &str, reason: impl AsRef<str>) -> Self {
        Self::new(ISOCHRON_ARGUMENT, format!("{name}: {}", reason.as_ref()))
    }

    pub(crate) fn handle(sentence: impl Into<String>) -> Self {
        Self::new(ISOCHRON_HANDLE, sentence)
    }

    pub(crate) fn setting(sentence: impl Into<String>) -> Self {
        Self::new(ISOCHRON_SETTING, sentence)
    }

    pub(crate) fn input(error: impl std::error::Error) -> Self {
        Self::new(ISOCHRON_INPUT, error.to_string())
    }

    fn new(status: c_int, sentence: impl Into<String>) -> Self {
        let sentence = sentence.into();
        Self { status, sentence }
    }
}

impl From<Error> for CallFailure {
    fn from(error: Error) -> Self {
        let status = match error.class() {
            ErrorClass::Input => ISOCHRON_INPUT,
            ErrorClass::Run => ISOCHRON_FAILED,
        };
        Self::new(status, error.to_string())
    }
}

/// Turns a wrong argument of one rank into the same failure on every rank, before they act.
pub(crate) fn agree_on<T>(
    comm: &dyn Comm,
    outcome: Result<T, CallFailure>,
) -> Result<T, CallFailure> {
    if comm.size() == 1 {
        return outcome;
    }
    let failure = outcome.as_ref().err();
    let mine = failure.map(|failure| (failure.status, failure.sentence.clone()));
    let mut failures = comm.gather(&(comm.host().to_owned(), mine))?.into_iter().enumerate();
    let first = failures.find_map(|(rank, (host, failure))| Some((rank, host, failure?)));
    match first {
        None => outcome,
        Some((rank, host, (status, sentence))) => {
            Err(CallFailure::new(status, format!("rank {rank} on {host}: {sentence}")))
        }
    }
}

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

/// Makes a call. A panic becomes a status: it must not unwind into C.
pub(crate) fn call(body: impl FnOnce() -> Result<(), CallFailure>) -> c_int {
    let outcome = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        let sentence = format!("a defect of the library: {}", text.unwrap_or("a panic"));
        Err(CallFailure::new(ISOCHRON_INTERNAL, sentence))
    });
    let CallFailure { status, sentence } = match outcome {
        Ok(()) => CallFailure::new(ISOCHRON_OK, ""),
        Err(failure) => failure,
    };
    let sentence = CString::new(sentence.replace('\0', " ")).unwrap_or_default();
    // While a thread ends, it has no last error any more.
    let _ = LAST_ERROR.try_with(|last| last.replace(sentence));
    status
}

/// Returns the meaning of a status in a few words. The text is never freed.
#[unsafe(no_mangle)]
pub extern "C" fn isochron_strerror(status: c_int) -> *const c_char {
    let text: &CStr = match status {
        ISOCHRON_OK => c"no error",
        ISOCHRON_ARGUMENT => c"an argument is missing or out of range",
        ISOCHRON_HANDLE => c"the handle is unknown",
        ISOCHRON_SETTING => c"there is no such setting or value",
        ISOCHRON_INPUT => c"the request is wrong",
        ISOCHRON_FAILED => c"the run failed",
        ISOCHRON_INTERNAL => c"the library has a defect",
        _ => c"no status of this library",
    };
    text.as_ptr()
}

/// Returns the sentence of the last call on this thread: what failed, on which rank and why; empty after a success. The
/// text is valid until the next call on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn isochron_last_error() -> *const c_char {
    let text = LAST_ERROR.try_with(|last| last.borrow().as_ptr());
    text.unwrap_or(c"".as_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last_error() -> String {
        // SAFETY: a text that lives until the next call.
        let text = unsafe { CStr::from_ptr(isochron_last_error()) };
        text.to_str().unwrap().to_owned()
    }

    #[test]
    fn the_last_error_is_that_of_the_last_call_on_this_thread() {
        let status = call(|| Err(CallFailure::argument("units", "there are none")));
        assert_eq!((status, last_error().as_str()), (ISOCHRON_ARGUMENT, "units: there are none"));
        assert_eq!(std::thread::spawn(last_error).join().unwrap(), "");
        assert_eq!((call(|| Ok(())), last_error().as_str()), (ISOCHRON_OK, ""));
    }

    #[test]
    fn a_panic_is_a_status() {
        let status = call(|| panic!("an index of {}", 7));
        assert_eq!(status, ISOCHRON_INTERNAL);
        assert_eq!(last_error(), "a defect of the library: an index of 7");
    }

    #[test]
    fn every_status_has_a_text() {
        let texts = (-1..8).map(|status| {
            // SAFETY: a constant.
            unsafe { CStr::from_ptr(isochron_strerror(status)) }
        });
        let texts: Vec<&CStr> = texts.collect();
        assert_eq!(texts[0], texts[8]);
        assert!(texts[..8].iter().enumerate().all(|(index, text)| !texts[..index].contains(text)));
    }
}
