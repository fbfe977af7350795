//! Ranks over MPI: the only user of rsmpi.
//!
//! Every operation is started non-blocking and completed by polling with growing pauses. Blocking calls of some
//! libraries (MPICH) spin while they wait, on a core that the devices need.
//!
//! Messages are sent through the `ffi` layer of rsmpi, because its safe requests cannot be held in one list with
//! run-time lengths. Each request is completed before the memory that it refers to is free again.
//!
//! Errors end the job, also those of an adopted communicator, so no status is looked at.

use std::ops::Range;
use std::os::raw::c_int;
use std::sync::Arc;

use mpi::collective::SystemOperation;
use mpi::datatype::PartitionMut;
use mpi::environment::Universe;
use mpi::ffi;
use mpi::raw::AsRaw as _;
use mpi::request::{self, Request, Scope};
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives as _, Equivalence, Root as _};

use super::contract::{Comm, InFlight, MAX_TAG, MessageSpan};
use super::pause::Pause;
use crate::error::Error;

/// Default for the longest message that is sent in one piece, in bytes: MPI 3 counts are 32-bit.
const LONGEST: usize = 1 << 30;
/// Largest number of values that are summed at once.
const MAX_SUMMED: usize = 1 << 27;

/// Exit status of a job that a panic ended.
const PANIC_STATUS: i32 = 101;

/// The ranks of an MPI communicator.
pub struct MpiComm {
    // Declared before the universe: the communicator is freed before MPI is finalised.
    comm: SimpleCommunicator,
    host: String,
    implementation: String,
    longest: usize,
    _universe: Option<Universe>,
}

impl MpiComm {
    /// Initialises MPI and takes `MPI_COMM_WORLD`. From then on a panic in any thread of any rank ends the job: a rank
    /// that unwinds would leave the others waiting.
    ///
    /// # Errors
    /// [`Error::Parameter`] when MPI is initialised already: use [`adopt`](MpiComm::adopt) then.
    ///
    /// # Collective
    /// All processes of the job.
    pub fn initialize() -> Result<Self, Error> {
        let (universe, _threading) = mpi::initialize_with_threading(mpi::Threading::Funneled)
            .ok_or_else(|| Error::Parameter {
                name: "MPI",
                value: "initialised".to_string(),
                reason: "MPI runs already in this process; adopt its communicator".to_string(),
            })?;
        abort_on_panic();
        let world = universe.world();
        Ok(Self::wrap(world, Some(universe)))
    }

    /// Makes a communicator over the ranks of `comm`, for programs that have initialised MPI themselves.
    ///
    /// Its messages do not mix with those of `comm`. MPI must not be finalised while this value lives. Its methods are
    /// called from the thread that initialised MPI.
    ///
    /// # Errors
    /// None yet.
    ///
    /// # Collective
    /// All ranks of `comm`.
    pub fn adopt(comm: &impl Communicator) -> Result<Self, Error> {
        Ok(Self::wrap(comm.duplicate(), None))
    }

    /// Sets the length of the pieces that longer messages are cut into; 1 GiB by default.
    ///
    /// A message may have more bytes than MPI can count (2³¹ - 1). Shorter pieces help networks that choke on long
    /// messages, and tests.
    ///
    /// # Panics
    /// When `bytes` is 0 or more than an MPI count.
    ///
    /// # Collective
    /// All ranks, with the same number, while no message is under way.
    pub fn with_longest_message(mut self, bytes: usize) -> Self {
        let counted = c_int::try_from(bytes).is_ok();
        assert!(
            bytes > 0 && counted,
            "messages cannot be {bytes} bytes long"
        );
        self.longest = bytes;
        self
    }

    fn wrap(comm: SimpleCommunicator, universe: Option<Universe>) -> Self {
        // SAFETY: a live communicator, and a constant that the library has set before MPI_Init returned.
        unsafe { ffi::MPI_Comm_set_errhandler(comm.as_raw(), ffi::RSMPI_ERRORS_ARE_FATAL) };
        let host = mpi::environment::processor_name().unwrap_or_else(|_| "unknown".to_string());
        let version = mpi::environment::library_version().unwrap_or_else(|_| "MPI".to_string());
        Self {
            comm,
            host,
            implementation: short_version(&version),
            longest: LONGEST,
            _universe: universe,
        }
    }

    fn reduce_sum<T: Equivalence + Copy>(&self, values: &mut [T]) {
        let sent = values.to_vec();
        for (sent, received) in sent.chunks(MAX_SUMMED).zip(values.chunks_mut(MAX_SUMMED)) {
            let (comm, sum) = (&self.comm, SystemOperation::sum());
            request::scope(|scope| {
                complete(comm.immediate_all_reduce_into(scope, sent, received, sum));
            });
        }
    }
}

impl From<MpiComm> for Arc<dyn Comm> {
    #[allow(
        clippy::arc_with_non_send_sync,
        reason = "owners in one thread; other communicators may be sent"
    )]
    fn from(comm: MpiComm) -> Self {
        Arc::new(comm)
    }
}

impl Comm for MpiComm {
    fn rank(&self) -> usize {
        self.comm.rank() as usize
    }

    fn size(&self) -> usize {
        self.comm.size() as usize
    }

    fn host(&self) -> &str {
        &self.host
    }

    fn implementation(&self) -> &str {
        &self.implementation
    }

    fn barrier(&self) {
        complete(self.comm.immediate_barrier());
    }

    fn broadcast(&self, root: usize, data: &mut Vec<u8>) {
        let mut length = [data.len() as u64 * u64::from(self.rank() == root)];
        self.sum_u64(&mut length);
        data.resize(length[0] as usize, 0);
        for chunk in data.chunks_mut(self.longest) {
            let root = self.comm.process_at_rank(count(root));
            request::scope(|scope| complete(root.immediate_broadcast_into(scope, chunk)));
        }
    }

    fn all_gather(&self, data: &[u8]) -> Vec<Vec<u8>> {
        let mut lengths = vec![0; self.size()];
        lengths[self.rank()] = data.len() as u64;
        self.sum_u64(&mut lengths);
        let total: usize = lengths.iter().map(|&len| len as usize).sum();
        if total > self.longest {
            // One operation cannot count all bytes.
            let broadcasts = (0..self.size()).map(|root| {
                let mine = if root == self.rank() { data } else { &[] };
                let mut part = mine.to_vec();
                self.broadcast(root, &mut part);
                part
            });
            return broadcasts.collect();
        }
        if total == 0 {
            return vec![Vec::new(); lengths.len()];
        }
        let counts: Vec<c_int> = lengths.iter().map(|&len| count(len as usize)).collect();
        let starts: Vec<c_int> = counts
            .iter()
            .scan(0, |sum, n| Some(std::mem::replace(sum, *sum + n)))
            .collect();
        // The pointer of an empty slice may be 1, which is MPI_IN_PLACE to Open MPI; that into a variable never is.
        let spare = [0u8];
        let sent = if data.is_empty() { &spare[..0] } else { data };
        let mut all = vec![0u8; total];
        let mut parts = PartitionMut::new(&mut all[..], &counts[..], &starts[..]);
        request::scope(|scope| {
            let comm = &self.comm;
            complete(comm.immediate_all_gather_varcount_into(scope, sent, &mut parts));
        });
        let parts = starts.iter().zip(&counts);
        parts
            .map(|(&start, &len)| all[start as usize..][..len as usize].to_vec())
            .collect()
    }

    fn sum_f64(&self, values: &mut [f64]) {
        self.reduce_sum(values);
    }

    fn sum_u64(&self, values: &mut [u64]) {
        self.reduce_sum(values);
    }

    unsafe fn start(&self, sends: &[MessageSpan], recvs: &[MessageSpan]) -> Box<dyn InFlight + '_> {
        let mut requests = Requests {
            comm: self,
            posted: Vec::with_capacity(sends.len() + recvs.len()),
            relays: Vec::new(),
        };
        for span in recvs {
            let first = requests.posted.len();
            // SAFETY: by the caller's contract.
            unsafe { requests.post(span, span.rank, true) };
            if !span.forward.is_empty() {
                requests.relays.push(Relay {
                    requests: first..requests.posted.len(),
                    span: span.clone(),
                });
            }
        }
        for span in sends {
            // SAFETY: by the caller's contract.
            unsafe { requests.post(span, span.rank, false) };
        }
        Box::new(requests)
    }
}

/// Polls until the operation is complete.
fn complete<'a, D: ?Sized, S: Scope<'a>>(mut request: Request<'a, D, S>) {
    let mut pause = Pause::default();
    while let Err(unfinished) = request.test() {
        request = unfinished;
        pause.wait();
    }
}

/// Requests that dropping this value completes, so that MPI never keeps a borrowed buffer.
struct Requests<'c> {
    comm: &'c MpiComm,
    posted: Vec<ffi::MPI_Request>,
    relays: Vec<Relay>,
}

/// A message to be sent on once it has arrived.
struct Relay {
    /// The requests that receive it.
    requests: Range<usize>,
    span: MessageSpan,
}

impl Requests<'_> {
    /// Starts to receive a message from `rank`, or to send it there.
    ///
    /// # Safety
    /// Its memory stays allocated until this value says that all is done or has been dropped; until then a received
    /// message stays untouched, and one that is sent unchanged.
    unsafe fn post(&mut self, span: &MessageSpan, rank: usize, is_received: bool) {
        assert!(span.tag <= MAX_TAG, "a tag that MPI may not know");
        let (tag, bytes) = (span.tag as c_int, u8::equivalent_datatype().as_raw());
        let comm = self.comm.comm.as_raw();
        for (start, length) in cut_message(span, self.comm.longest) {
            let (start, length, rank) = (start.cast(), count(length), count(rank));
            let mut request = null_request();
            // SAFETY: by this function's contract; the request is completed before this value goes.
            unsafe {
                if is_received {
                    ffi::MPI_Irecv(start, length, bytes, rank, tag, comm, &mut request);
                } else {
                    ffi::MPI_Isend(start, length, bytes, rank, tag, comm, &mut request);
                }
            }
            self.posted.push(request);
        }
    }

    /// Sends on the messages that have arrived.
    fn pass_on(&mut self) {
        let mut next = 0;
        while let Some(Relay { requests, .. }) = self.relays.get(next) {
            if !test_all(&mut self.posted[requests.clone()]) {
                next += 1;
                continue;
            }
            let Relay { span, .. } = self.relays.swap_remove(next);
            for &rank in &span.forward {
                // SAFETY: the memory is that of a message given to this value; it has arrived and is not written any
                // more.
                unsafe { self.post(&span, rank, false) };
            }
        }
    }
}

impl InFlight for Requests<'_> {
    fn progress(&mut self) -> bool {
        self.pass_on();
        self.relays.is_empty() && test_all(&mut self.posted)
    }
}

/// Cuts a message into pieces that MPI can count, each given by its start and its bytes. Both sides cut it alike, and
/// the pieces between two ranks arrive in order.
fn cut_message(
    span: &MessageSpan,
    longest: usize,
) -> impl Iterator<Item = (*mut u8, usize)> + use<> {
    let (start, bytes) = (span.start, span.bytes);
    (0..bytes).step_by(longest).map(move |first| {
        let length = longest.min(bytes - first);
        (start.wrapping_add(first), length)
    })
}

impl Drop for Requests<'_> {
    fn drop(&mut self) {
        self.wait();
    }
}

/// Returns `true` if all `requests` are complete. Completed ones become null requests, which count as complete.
fn test_all(requests: &mut [ffi::MPI_Request]) -> bool {
    let mut flag: c_int = 0;
    // SAFETY: the requests were made by this module and are live or null; statuses are not wanted.
    unsafe {
        ffi::MPI_Testall(
            count(requests.len()),
            requests.as_mut_ptr(),
            &mut flag,
            ffi::RSMPI_STATUSES_IGNORE,
        )
    };
    flag != 0
}

fn null_request() -> ffi::MPI_Request {
    // SAFETY: reading a constant that the library has set before MPI_Init returned.
    unsafe { ffi::RSMPI_REQUEST_NULL }
}

fn count(n: usize) -> c_int {
    c_int::try_from(n).unwrap_or_else(|_| panic!("{n} does not fit an MPI count"))
}

/// Returns the first line of the library's description, without the padding and the build details.
fn short_version(version: &str) -> String {
    let line = version
        .trim_end_matches('\0')
        .lines()
        .next()
        .unwrap_or("MPI");
    let line = line.replace('\t', " ");
    line.split(',').next().unwrap_or("MPI").trim().to_string()
}

fn abort_on_panic() {
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        default(info);
        if !mpi::environment::is_finalized() {
            // SAFETY: MPI was initialised before this hook was set and is not finalised; MPI_Abort has no other
            // precondition, and does not return. From a thread other than the main one the standard promises
            // nothing, but Open MPI and MPICH end the job; without this call the job would hang.
            unsafe { ffi::MPI_Abort(ffi::RSMPI_COMM_WORLD, PANIC_STATUS) };
        }
    }));
}

#[cfg(test)]
mod tests {
    use super::{LONGEST, MessageSpan, cut_message, short_version};

    #[test]
    fn messages_beyond_what_mpi_counts_go_in_pieces() {
        // Only addresses are computed; the memory is not read.
        let span = MessageSpan {
            rank: 3,
            tag: 0,
            forward: Vec::new(),
            start: std::ptr::null_mut(),
            bytes: 5 * LONGEST + 7,
        };
        let cut: Vec<_> = cut_message(&span, LONGEST).collect();
        assert_eq!(cut.len(), 6);
        let mut next = 0;
        for (start, bytes) in cut {
            assert_eq!(start.addr(), next);
            assert!(i32::try_from(bytes).is_ok());
            next += bytes;
        }
        assert_eq!(next, span.bytes);
        let empty = MessageSpan { bytes: 0, ..span };
        assert_eq!(cut_message(&empty, 10).count(), 0);
    }

    #[test]
    fn implementation_names_are_one_short_line() {
        assert_eq!(
            short_version("Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4"),
            "Open MPI v4.1.4"
        );
        assert_eq!(
            short_version("MPICH Version:\t4.0.2\nMPICH Release date:\t..."),
            "MPICH Version: 4.0.2"
        );
    }
}
