//! The end of a communicator whose ranks cannot all go on.
//!
//! A rank that fails outside of a collective call leaves the others waiting in theirs. So it sends them word, with a tag of its
//! own, and they look for it while they wait.

use std::mem::MaybeUninit;
use std::os::raw::c_int;
use std::time::Duration;

use isochron_core::comm::MAX_TAG;
use isochron_core::internal::{decode, encode};
use isochron_core::{Error, ErrorClass};
use mpi::ffi;
use serde::{Deserialize, Serialize};

use super::{MpiComm, byte, count, is_running, test_request};

/// The cause of a failure that is a panic. Its message is on that rank's standard error.
pub(super) const PANICKED: &str = "it panicked";

/// The tag of word of a failure.
const FAILURE_TAG: c_int = MAX_TAG as c_int + 1;
/// An unfinished operation is looked at this many times before the next look for word of a failure.
const LOOK_INTERVAL: u32 = 64;
/// Longest cause in bytes, so that libraries send it without waiting for the receiver.
const LONGEST_CAUSE: usize = 1000;
/// Looks at word of a failure that is under way, and the pause between them. Ranks that do not listen are not waited for.
const TELLING_LOOKS: usize = 1000;
const TELLING_PAUSE: Duration = Duration::from_micros(20);

/// The failure of a rank.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct RankFailure {
    rank: usize,
    host: String,
    cause: String,
}

impl From<&RankFailure> for Error {
    fn from(failure: &RankFailure) -> Self {
        let RankFailure { rank, host, cause } = failure.clone();
        let class = ErrorClass::Run;
        Error::Rank { rank, host, cause, class }
    }
}

impl MpiComm {
    /// Checks that MPI runs in this process and that no rank has failed.
    pub(super) fn check_usable(&self, call: &'static str) -> Result<(), Error> {
        self.home.check("communicator")?;
        if let Some(failure) = &*self.failure.borrow() {
            return Err(failure.into());
        }
        if is_running() {
            Ok(())
        } else {
            Err(Error::Mpi { call, rank: self.rank, message: "MPI is finalised".to_owned() })
        }
    }

    /// Turns the code that a call has returned into an error, of which the other ranks get word.
    pub(super) fn check_code(&self, call: &'static str, code: c_int) -> Result<(), Error> {
        let checked = describe_code(call, self.rank, code);
        if let Err(Error::Mpi { message, .. }) = &checked {
            self.fail(&format!("{call}: {message}"));
        }
        checked
    }

    /// Lets every call from now on fail, and tells the other ranks. The first failure counts.
    pub(super) fn fail(&self, cause: &str) {
        let mut known = self.failure.borrow_mut();
        if known.is_none() && self.home.is_current() && is_running() {
            let failure = known.insert(RankFailure {
                rank: self.rank,
                host: self.host.clone(),
                cause: cause.chars().take(LONGEST_CAUSE / 4).collect(),
            });
            self.tell_failure(failure);
        }
    }

    fn tell_failure(&self, failure: &RankFailure) {
        // The library may read it at any later time.
        let word: &'static [u8] = encode(failure).leak();
        let requests = (0..self.size).filter(|&rank| rank != self.rank).map(|rank| {
            let (start, bytes) = (word.as_ptr().cast_mut().cast(), count(word.len()));
            // SAFETY: MPI runs, and the memory is never freed and only read.
            let started =
                unsafe { self.start_message(start, bytes, count(rank), FAILURE_TAG, false) };
            started.request
        });
        let mut requests: Vec<_> = requests.collect();
        let _returned = self.return_errors();
        for _ in 0..TELLING_LOOKS {
            // What fails is not waited for.
            requests.retain_mut(|request| {
                // SAFETY: MPI runs, and the request was made above and is live.
                let (code, is_complete) = unsafe { test_request(request) };
                code == ffi::MPI_SUCCESS as c_int && !is_complete
            });
            if requests.is_empty() {
                return;
            }
            std::thread::sleep(TELLING_PAUSE);
        }
    }

    /// Looks for word of a failure, once in a while.
    pub(super) fn look_for_failure(&self) -> Result<(), Error> {
        let polls = self.polls.get().wrapping_add(1);
        self.polls.set(polls);
        if !polls.is_multiple_of(LOOK_INTERVAL) {
            return Ok(());
        }
        let (mut flag, mut bytes, mut status) = (0, 0, MaybeUninit::uninit());
        // SAFETY: a constant that the library has set before MPI_Init returned.
        let any = unsafe { ffi::RSMPI_ANY_SOURCE };
        // SAFETY: the communicator is live, and the status is written if there is a message.
        let code =
            unsafe { ffi::MPI_Iprobe(any, FAILURE_TAG, self.comm, &mut flag, status.as_mut_ptr()) };
        self.check_code("MPI_Iprobe", code)?;
        if flag == 0 {
            return Ok(());
        }
        // SAFETY: as above.
        let (status, from) = unsafe {
            ffi::MPI_Get_count(status.as_ptr(), byte(), &mut bytes);
            (ffi::RSMPI_STATUS_IGNORE, status.assume_init().MPI_SOURCE)
        };
        let mut word = vec![0u8; bytes as usize];
        let start = word.as_mut_ptr().cast();
        // SAFETY: the message is there and has these bytes, so the call does not wait.
        let code =
            unsafe { ffi::MPI_Recv(start, bytes, byte(), from, FAILURE_TAG, self.comm, status) };
        self.check_code("MPI_Recv", code)?;
        let failure: RankFailure = decode(from as usize, &word)?;
        Err((&*self.failure.borrow_mut().insert(failure)).into())
    }
}

/// Turns the code that a call of a rank has returned into an error with MPI's message.
pub(super) fn describe_code(call: &'static str, rank: usize, code: c_int) -> Result<(), Error> {
    if code == ffi::MPI_SUCCESS as c_int {
        return Ok(());
    }
    // Longer than the constant of any library.
    let mut text = [0u8; 2048];
    let mut length = 0;
    // SAFETY: the code is one that MPI returned, and the text is long enough.
    unsafe { ffi::MPI_Error_string(code, text.as_mut_ptr().cast(), &mut length) };
    let message = String::from_utf8_lossy(&text[..length as usize]);
    let lines: Vec<&str> = message.lines().map(str::trim).collect();
    Err(Error::Mpi { call, rank, message: lines.join("; ") })
}
