//! Ranks over MPI: the only user of rsmpi.
//!
//! Every operation is started non-blocking and completed by polling with growing pauses. Blocking calls of some
//! libraries (MPICH) spin while they wait, on a core that the devices need.
//!
//! Operations go through the `ffi` layer of rsmpi. Its safe requests report no errors, and cannot be held in one list with
//! run-time lengths. An operation owns the memory that it uses until it is complete. After an error the library may still use
//! that memory, so it is never freed.
//!
//! A program's own communicator is only duplicated or split. The duplicate returns errors; the program's error handlers stay as they
//! are. No call is made before MPI is initialised or after it is finalised.

mod failure;
mod flight;
mod handlers;
mod hosts;
mod message;

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::ops::Add;
use std::os::raw::c_int;
use std::sync::{Arc, OnceLock};

use isochron_core::Error;
use isochron_core::comm::{Comm, InFlight, MessageSpan, Pause, Settings, agree};
use isochron_core::internal::watch::note_progress;
use isochron_core::internal::{check_rank, describe_differences};
use isochron_devices::internal::HomeProcess;
use mpi::Threading;
use mpi::environment::{self, Universe};
use mpi::ffi;
use mpi::raw::AsRaw as _;
use mpi::traits::{Communicator, Equivalence};

use failure::{RankFailure, describe_code};
use flight::Requests;
use handlers::{ReturnedErrors, asks_others, is_known, needs_persistent};
use hosts::{OwnHost, label_host};
use message::test_request;

/// Default for the longest message that is sent in one piece, in bytes: MPI 3 counts are 32-bit.
const LONGEST: usize = 1 << 30;
/// Largest number of values that are summed at once.
const MAX_SUMMED: usize = 1 << 27;
/// The bytes of a number of 64 bits.
type MpiWord = [u8; LENGTH_BYTES];
/// Bytes of the number of bytes of a rank's data.
const LENGTH_BYTES: usize = size_of::<u64>();
/// The most bytes that travel with their length.
const MOST_SHORT: usize = 1016;
/// The most bytes of all ranks that do.
const MOST_OF_ALL_RANKS: usize = 1 << 14;

/// The process that has met MPI. A forked child inherits an MPI that answers no call.
static MET_BY: OnceLock<HomeProcess> = OnceLock::new();

/// Exit status of a job that a panic ended.
const PANIC_STATUS: i32 = 101;

/// The ranks of an MPI communicator.
///
/// An error of MPI on one rank is an error on all: that rank gets [`Error::Mpi`], and the others [`Error::Rank`]. The same
/// holds for a rank that panics while it uses or drops this value.
///
/// MPI may be finalised while this value lives: its methods then return errors, and dropping it does nothing. It stays on
/// the thread that made it.
pub struct MpiComm {
    /// This value's own.
    comm: ffi::MPI_Comm,
    rank: usize,
    size: usize,
    /// The name of its host that no other host has, and the one that the host gives itself.
    host: String,
    host_name: String,
    implementation: String,
    home: HomeProcess,
    longest: usize,
    /// The reason for which every call fails from now on.
    failure: RefCell<Option<RankFailure>>,
    /// Number of looks at unfinished operations.
    polls: Cell<u32>,
    /// `true` if MPI takes errors of requests to handlers of other communicators, which may be replaced for a while.
    asks_others: bool,
    /// `true` if messages are persistent requests, whose errors MPI takes to this communicator's handler.
    starts_persistent: bool,
    /// Finalises MPI when it is dropped, which happens after the communicator was freed.
    universe: Option<Universe>,
    /// MPI need not allow calls from other threads.
    _thread: PhantomData<*const ()>,
}

impl MpiComm {
    /// Initialises MPI and takes all processes of the job.
    ///
    /// # Errors
    /// Returns [`Error::Forked`] in a forked child of a process that has met MPI; [`Error::Parameter`] when MPI is
    /// initialised already: use [`adopt`](MpiComm::adopt) then; and for a library without `MPI_THREAD_FUNNELED`.
    ///
    /// # Collective
    /// All processes of the job.
    pub fn initialize() -> Result<Self, Error> {
        check_home()?;
        let (universe, _) =
            mpi::initialize_with_threading(Threading::Funneled).ok_or_else(|| {
                let reason = "MPI runs already in this process; adopt its communicator";
                Error::parameter("MPI", "initialised", reason)
            })?;
        let mut comm = Self::adopt(&universe.world())?;
        comm.universe = Some(universe);
        Ok(comm)
    }

    /// Makes a communicator over the ranks of `comm`, for programs that have initialised MPI themselves.
    ///
    /// Its messages do not mix with those of `comm`, which stays as it is, with its error handler.
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] if MPI is not initialised, or finalised already, for the null communicator or one
    /// between two groups, and, on every rank, if MPI does not allow any rank's calling thread to call it while other
    /// threads compute, as with `MPI_THREAD_SINGLE`; [`Error::Mpi`] if MPI fails; [`Error::Forked`] in a forked child
    /// of a process that has met MPI.
    ///
    /// # Collective
    /// All ranks of `comm`.
    pub fn adopt(comm: &impl Communicator) -> Result<Self, Error> {
        // SAFETY: a communicator of rsmpi is live while it is borrowed.
        unsafe { Self::adopt_raw(comm.as_raw()) }
    }

    /// Makes a communicator over the ranks of `comm`, as [`adopt`](Self::adopt) does. The handle stays the caller's.
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] if MPI is not initialised, or finalised already, for the null communicator or one
    /// between two groups, and, on every rank, if MPI does not allow any rank's calling thread to call it while other
    /// threads compute, as with `MPI_THREAD_SINGLE`; [`Error::Mpi`] if MPI fails; [`Error::Forked`] in a forked child
    /// of a process that has met MPI.
    ///
    /// # Safety
    /// `comm` is a handle of the MPI library that this program is linked with, and has not been freed.
    ///
    /// # Collective
    /// All ranks of `comm`.
    pub unsafe fn adopt_raw(comm: ffi::MPI_Comm) -> Result<Self, Error> {
        // SAFETY: by this function's contract.
        let mut made = unsafe { Self::duplicate(comm) }?;
        agree(&made, check_thread())?;
        made.host = made.find_label()?;
        Ok(made)
    }

    /// Makes a communicator over the ranks of the one that Fortran knows by this number, as [`adopt_raw`](Self::adopt_raw)
    /// does. `MPI_Comm_c2f` gives the number in C (`MPI_Comm_toint` with the standard ABI), `py2f` in mpi4py.
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] for a number of which MPI knows no communicator, if MPI is not initialised, or
    /// finalised already, for the null communicator or one between two groups, and, on every rank, if MPI does not
    /// allow any rank's calling thread to call it while other threads compute, as with `MPI_THREAD_SINGLE`;
    /// [`Error::Mpi`] if MPI fails; [`Error::Forked`] in a forked child of a process that has met MPI.
    ///
    /// # Safety
    /// The MPI library that this program is linked with has given this number to a communicator, which may have been freed, or
    /// never to any handle.
    ///
    /// # Collective
    /// All ranks of the communicator.
    pub unsafe fn adopt_fortran(comm: c_int) -> Result<Self, Error> {
        check_running()?;
        // SAFETY: MPI runs. The handle is looked at before it is used.
        unsafe {
            let handle = ffi::RSMPI_Comm_f2c(comm);
            if handle == ffi::RSMPI_COMM_NULL || is_known(handle) {
                Self::adopt_raw(handle)
            } else {
                let reason = "MPI knows no communicator of this number: was it freed?";
                Err(Error::parameter("communicator", comm, reason))
            }
        }
    }

    /// Duplicates a communicator.
    ///
    /// # Safety
    /// The conditions of [`adopt_raw`](Self::adopt_raw).
    unsafe fn duplicate(comm: ffi::MPI_Comm) -> Result<Self, Error> {
        check_running()?;
        // SAFETY: MPI runs; by the contract, these handles and those made of them are live.
        unsafe {
            let null = ffi::RSMPI_COMM_NULL;
            if comm == null {
                let reason = "this process is no rank of it";
                return Err(Error::parameter("communicator", "MPI_COMM_NULL", reason));
            }
            let (mut own, mut inter, mut rank) = (null, 0, 0);
            ffi::MPI_Comm_rank(comm, &mut rank);
            let code = ffi::MPI_Comm_test_inter(comm, &mut inter);
            describe_code("MPI_Comm_test_inter", rank as usize, code)?;
            if inter != 0 {
                let reason = "its ranks are two groups; merge them by MPI_Intercomm_merge";
                return Err(Error::parameter("communicator", "intercommunicator", reason));
            }
            let code = ffi::MPI_Comm_dup(comm, &mut own);
            describe_code("MPI_Comm_dup", rank as usize, code)?;
            Ok(Self::wrap(own))
        }
    }

    /// Takes a communicator over, and has it return errors.
    ///
    /// # Safety
    /// MPI runs, and the communicator is live and of this value alone.
    unsafe fn wrap(comm: ffi::MPI_Comm) -> Self {
        let [mut rank, mut size] = [0; 2];
        // SAFETY: as the caller says.
        unsafe {
            ffi::MPI_Comm_set_errhandler(comm, ffi::RSMPI_ERRORS_RETURN);
            ffi::MPI_Comm_rank(comm, &mut rank);
            ffi::MPI_Comm_size(comm, &mut size);
        }
        let host_name = environment::processor_name().unwrap_or_else(|_| "unknown".to_string());
        let version = environment::library_version().unwrap_or_else(|_| "MPI".to_string());
        let implementation = short_version(&version);
        Self {
            comm,
            rank: rank as usize,
            size: size as usize,
            host: host_name.clone(),
            host_name,
            asks_others: asks_others(&implementation),
            starts_persistent: needs_persistent(&version),
            implementation,
            home: HomeProcess::current(),
            longest: LONGEST,
            failure: RefCell::default(),
            polls: Cell::default(),
            universe: None,
            _thread: PhantomData,
        }
    }

    /// Finds the name of this rank's host that no other host of the ranks has.
    ///
    /// # Collective
    /// All ranks.
    fn find_label(&self) -> Result<String, Error> {
        let comm: &dyn Comm = self;
        let hosts = comm.gather(&OwnHost::read(&self.host_name))?;
        Ok(label_host(&hosts, self.rank))
    }

    /// Splits the communicator that Fortran knows by this number, whose ranks these are: returns the number of a communicator of the
    /// ranks that give a number, as [`split`](Comm::split) does, which is the caller's to free. On the others it is the number of
    /// `MPI_COMM_NULL`. The error handler is the one of the communicator that is split.
    ///
    /// # Errors
    /// Returns the errors of [`Comm`].
    ///
    /// # Safety
    /// This communicator was [adopted](Self::adopt_fortran) from the one with the number `comm`, which has not been freed.
    ///
    /// # Collective
    /// All ranks.
    pub unsafe fn split_fortran(&self, comm: c_int, number: Option<usize>) -> Result<c_int, Error> {
        self.check_usable("MPI_Comm_split")?;
        // SAFETY: MPI runs, and the communicator is live, as the caller says.
        unsafe {
            let made = self.split_raw(ffi::RSMPI_Comm_f2c(comm), number)?;
            Ok(ffi::RSMPI_Comm_c2f(made))
        }
    }

    /// Splits a communicator with the same ranks.
    ///
    /// # Safety
    /// MPI runs, and the communicator is live.
    unsafe fn split_raw(
        &self,
        comm: ffi::MPI_Comm,
        number: Option<usize>,
    ) -> Result<ffi::MPI_Comm, Error> {
        // SAFETY: reading a constant that the library has set before MPI_Init returned.
        let (mut made, none) = unsafe { (ffi::RSMPI_COMM_NULL, ffi::RSMPI_UNDEFINED) };
        let colour = if number.is_some() { 0 } else { none };
        // SAFETY: as the caller says.
        let code =
            unsafe { ffi::MPI_Comm_split(comm, colour, count(number.unwrap_or(0)), &mut made) };
        self.check_code("MPI_Comm_split", code)?;
        Ok(made)
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
        assert!(bytes > 0 && counted, "messages cannot be {bytes} bytes long");
        self.longest = bytes;
        self
    }

    /// Starts an operation by `start`, and waits for it. Returns its memory, which lies on the heap.
    fn run<M>(
        &self,
        call: &'static str,
        mut memory: M,
        start: impl FnOnce(&mut M, &mut ffi::MPI_Request) -> c_int,
    ) -> Result<M, Error> {
        self.check_usable(call)?;
        let mut request = null_request();
        match self
            .check_code(call, start(&mut memory, &mut request))
            .and_then(|()| self.wait_for(call, request))
        {
            Ok(()) => Ok(memory),
            Err(error) => {
                std::mem::forget(memory);
                Err(error)
            }
        }
    }

    /// Polls until the operation is complete.
    fn wait_for(&self, call: &'static str, mut request: ffi::MPI_Request) -> Result<(), Error> {
        let mut pause = Pause::default();
        while !self.test_all(call, std::slice::from_mut(&mut request))? {
            pause.wait();
        }
        Ok(())
    }

    /// Returns `true` if all `requests` are complete. Completed ones become null requests, which count as complete.
    ///
    /// They are tested one by one: `MPI_Testall` does not tell which error there was. The first one that is not complete makes
    /// all progress.
    fn test_all(
        &self,
        call: &'static str,
        requests: &mut [ffi::MPI_Request],
    ) -> Result<bool, Error> {
        self.check_usable(call)?;
        let _returned = self.return_errors();
        for request in requests {
            let was_under_way = *request != null_request();
            // SAFETY: MPI runs, and the request was made by this module and is live or null.
            let (code, is_complete) = unsafe { test_request(request) };
            self.check_code(call, code)?;
            if !is_complete {
                self.look_for_failure()?;
                return Ok(false);
            }
            if was_under_way {
                note_progress();
            }
        }
        Ok(true)
    }

    /// Has errors of requests returned until the value is dropped. Called while MPI runs.
    fn return_errors(&self) -> Option<ReturnedErrors> {
        // SAFETY: MPI runs, and is not finalised before the caller returns.
        self.asks_others.then(|| unsafe { ReturnedErrors::new() })
    }

    /// Returns the bytes of short data, which travel with their length: waiting for one operation costs less than for two.
    fn count_short_bytes(&self) -> usize {
        let each = (MOST_OF_ALL_RANKS / self.size).min(MOST_SHORT).min(self.longest);
        each - each % LENGTH_BYTES
    }

    /// Gathers every rank's record, by rank. All have the same length.
    fn gather_records(&self, record: Vec<u8>) -> Result<Vec<u8>, Error> {
        let bytes = count(record.len());
        let memory = (vec![0; record.len() * self.size], record);
        Ok(self
            .run("MPI_Iallgather", memory, |(all, record), request| {
                let (from, to) = (record.as_ptr().cast(), all.as_mut_ptr().cast());
                // SAFETY: `all` has room for the bytes of every rank, and `run` keeps the memory until the end.
                unsafe {
                    ffi::MPI_Iallgather(from, bytes, byte(), to, bytes, byte(), self.comm, request)
                }
            })?
            .0)
    }

    /// Replaces each value by its sum over all ranks. Short ones travel with their number.
    fn sum<T: Equivalence + Copy + Add<Output = T>>(
        &self,
        values: &mut [T],
        encode: fn(T) -> MpiWord,
        decode: fn(MpiWord) -> T,
    ) -> Result<(), Error> {
        let short = self.count_short_bytes();
        let bytes = size_of_val(values);
        let sent = if bytes <= short { &*values } else { &[] };
        let data: Vec<u8> = sent.iter().flat_map(|&value| encode(value)).collect();
        let records = self.gather_records(write_record(bytes, &data, short))?;
        let records = records.chunks_exact(LENGTH_BYTES + short);
        let lengths: Vec<u64> = records.clone().map(read_length).collect();
        let numbers = lengths.iter().map(|bytes| bytes / LENGTH_BYTES as u64);
        compare_values("number of values", &numbers.collect::<Vec<_>>())?;
        if bytes > short {
            return self.reduce_sum(values);
        }
        // In the order of the ranks, so that all have the same sums.
        for (index, value) in values.iter_mut().enumerate() {
            let start = (1 + index) * LENGTH_BYTES;
            let sum = records
                .clone()
                .filter_map(|record| record[start..].first_chunk())
                .map(|&word| decode(word))
                .reduce(Add::add);
            *value = sum.unwrap_or(*value);
        }
        Ok(())
    }

    fn reduce_sum<T: Equivalence + Copy>(&self, values: &mut [T]) -> Result<(), Error> {
        for values in values.chunks_mut(MAX_SUMMED) {
            let memory = [values.to_vec(), values.to_vec()];
            let [_, sums] = self.run("MPI_Iallreduce", memory, |[sent, received], request| {
                let (n, kind) = (count(sent.len()), T::equivalent_datatype().as_raw());
                let (from, to) = (sent.as_ptr().cast(), received.as_mut_ptr().cast());
                // SAFETY: both have `n` elements of that type, and `run` keeps them until the end.
                unsafe {
                    ffi::MPI_Iallreduce(from, to, n, kind, ffi::RSMPI_SUM, self.comm, request)
                }
            })?;
            values.copy_from_slice(&sums);
        }
        Ok(())
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

impl Drop for MpiComm {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.abandon(failure::PANICKED);
        }
        if !self.home.is_current() {
            // The parent finalises MPI.
            std::mem::forget(self.universe.take());
            return;
        }
        // After a failure operations may be under way for ever.
        if self.failure.get_mut().is_none() && is_running() {
            // SAFETY: MPI runs, the communicator is this value's own, and no operation is under way: each borrows it.
            unsafe { ffi::MPI_Comm_free(&mut self.comm) };
        }
    }
}

impl Comm for MpiComm {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn host(&self) -> &str {
        &self.host
    }

    fn host_name(&self) -> &str {
        &self.host_name
    }

    fn implementation(&self) -> &str {
        &self.implementation
    }

    fn barrier(&self) -> Result<(), Error> {
        // SAFETY: the communicator is live.
        self.run("MPI_Ibarrier", (), |_, request| unsafe { ffi::MPI_Ibarrier(self.comm, request) })
    }

    fn broadcast(&self, root: usize, data: &mut Vec<u8>) -> Result<(), Error> {
        self.check_usable("MPI_Ibcast")?;
        // The roots, then the length and the short data, to which all ranks but the root add 0.
        let short = self.count_short_bytes();
        let mut shared = vec![0; self.size];
        shared[self.rank] = root as u64;
        let record = if self.rank == root {
            write_record(data.len(), data, short)
        } else {
            vec![0; LENGTH_BYTES + short]
        };
        let words = record.chunks_exact(LENGTH_BYTES);
        shared.extend(words.map(read_length));
        self.reduce_sum(&mut shared)?;
        let (roots, record) = shared.split_at(self.size);
        compare_values("root", roots)?;
        check_rank("root", root, self.size)?;
        let record: Vec<u8> = record.iter().flat_map(|word| word.to_le_bytes()).collect();
        let length = read_length(&record) as usize;
        if length <= short {
            *data = record[LENGTH_BYTES..][..length].to_vec();
            return Ok(());
        }
        data.resize(length, 0);
        for start in (0..data.len()).step_by(self.longest) {
            let memory = std::mem::take(data);
            *data = self.run("MPI_Ibcast", memory, |memory, request| {
                let piece = &mut memory[start..];
                let bytes = count(piece.len().min(self.longest));
                // SAFETY: the piece has at least these bytes, and `run` keeps them until the end.
                unsafe {
                    let first = piece.as_mut_ptr().cast();
                    ffi::MPI_Ibcast(first, bytes, byte(), count(root), self.comm, request)
                }
            })?;
        }
        Ok(())
    }

    fn all_gather(&self, data: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        let short = self.count_short_bytes();
        let records = self.gather_records(write_record(data.len(), data, short))?;
        let records = records.chunks_exact(LENGTH_BYTES + short);
        let lengths = records.clone().map(|record| read_length(record) as usize);
        let lengths: Vec<usize> = lengths.collect();
        if lengths.iter().all(|&length| length <= short) {
            let parts = records.zip(lengths);
            let parts = parts.map(|(record, length)| record[LENGTH_BYTES..][..length].to_vec());
            return Ok(parts.collect());
        }
        let total: usize = lengths.iter().sum();
        if total > self.longest {
            // One operation cannot count all bytes.
            let broadcasts = (0..self.size).map(|root| {
                let mine = if root == self.rank { data } else { &[] };
                let mut part = mine.to_vec();
                self.broadcast(root, &mut part).map(|()| part)
            });
            return broadcasts.collect();
        }
        let counts: Vec<c_int> = lengths.into_iter().map(count).collect();
        let starts: Vec<c_int> =
            counts.iter().scan(0, |sum, n| Some(std::mem::replace(sum, *sum + n))).collect();
        // The pointer of an empty vector may be 1, which is MPI_IN_PLACE to Open MPI; that of a larger one never is.
        let sent = [data, &[0]].concat();
        let memory = ([sent, vec![0; total]], [counts, starts]);
        let memory = self.run("MPI_Iallgatherv", memory, |memory, request| {
            let ([sent, all], [counts, starts]) = memory;
            let (from, to) = (sent.as_ptr().cast(), all.as_mut_ptr().cast());
            let (n, counts, starts) = (count(data.len()), counts.as_ptr(), starts.as_ptr());
            // SAFETY: all parts lie in `all`, which has their sum; `run` keeps the memory until the end.
            unsafe {
                ffi::MPI_Iallgatherv(
                    from,
                    n,
                    byte(),
                    to,
                    counts,
                    starts,
                    byte(),
                    self.comm,
                    request,
                )
            }
        })?;
        let ([_, all], [counts, starts]) = memory;
        Ok(starts
            .iter()
            .zip(&counts)
            .map(|(&start, &len)| all[start as usize..][..len as usize].to_vec())
            .collect())
    }

    fn sum_f64(&self, values: &mut [f64]) -> Result<(), Error> {
        self.sum(values, f64::to_le_bytes, f64::from_le_bytes)
    }

    fn sum_u64(&self, values: &mut [u64]) -> Result<(), Error> {
        self.sum(values, u64::to_le_bytes, u64::from_le_bytes)
    }

    fn split(&self, number: Option<usize>) -> Result<Option<Arc<dyn Comm>>, Error> {
        self.check_usable("MPI_Comm_split")?;
        // SAFETY: MPI runs, and this communicator is live, as is the one that is made of it for the ranks with a number.
        unsafe {
            let own = self.split_raw(self.comm, number)?;
            if own == ffi::RSMPI_COMM_NULL {
                return Ok(None);
            }
            let mut made = Self::wrap(own);
            // No other host of fewer ranks has this name either.
            (made.host, made.longest) = (self.host.clone(), self.longest);
            Ok(Some(made.into()))
        }
    }

    unsafe fn start(
        &self,
        sends: &[MessageSpan],
        recvs: &[MessageSpan],
    ) -> Result<Box<dyn InFlight + '_>, Error> {
        self.check_usable("MPI_Irecv")?;
        // SAFETY: by the caller's contract, which is the same.
        let requests = unsafe { Requests::start(self, sends, recvs) }?;
        Ok(Box::new(requests))
    }

    fn abandon(&self, cause: &str) {
        self.fail(cause);
    }
}

/// Returns a record of a number of bytes, and of `data` itself, which has so many, if that is at most `short`.
fn write_record(bytes: usize, data: &[u8], short: usize) -> Vec<u8> {
    let mut record = (bytes as u64).to_le_bytes().to_vec();
    if bytes <= short {
        record.extend_from_slice(data);
    }
    record.resize(LENGTH_BYTES + short, 0);
    record
}

/// Returns the number that a record begins with.
fn read_length(record: &[u8]) -> u64 {
    let bytes = record.first_chunk::<LENGTH_BYTES>();
    bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Compares the values of all ranks, which are given by rank.
fn compare_values(name: &str, values: &[u64]) -> Result<(), Error> {
    if values.iter().all(|value| *value == values[0]) {
        return Ok(());
    }
    let ranks = values.iter();
    let ranks = ranks.map(|value| Settings::from([(name.to_owned(), value.to_string())]));
    let differences = describe_differences(&ranks.collect::<Vec<_>>());
    Err(Error::Settings(differences))
}

/// Returns `true` between the initialisation of MPI and its end.
fn is_running() -> bool {
    environment::is_initialized() && !environment::is_finalized()
}

fn check_running() -> Result<(), Error> {
    if !is_running() {
        let reason = "MPI has to be initialised and not yet finalised";
        return Err(Error::parameter("MPI", "not running", reason));
    }
    meet_mpi();
    check_home()
}

/// Remembers that this process has MPI, if it runs. A language whose programs may fork before their first session calls it
/// when the library is loaded.
#[doc(hidden)]
pub fn meet_mpi() {
    if is_running() {
        MET_BY.get_or_init(HomeProcess::current);
    }
}

/// Checks that this process is not a forked child of the one that has met MPI.
pub(super) fn check_home() -> Result<(), Error> {
    match MET_BY.get() {
        Some(home) => Ok(home.check("communicator")?),
        None => Ok(()),
    }
}

/// Checks that MPI allows the calling thread to call it while other threads compute.
fn check_thread() -> Result<(), Error> {
    const LEVEL: &str = "MPI thread level";
    let mut main = 0;
    // SAFETY: MPI runs.
    unsafe { ffi::MPI_Is_thread_main(&mut main) };
    match environment::threading_support() {
        Threading::Single => {
            let reason = "devices compute with threads: initialise MPI by MPI_Init_thread with MPI_THREAD_FUNNELED or more";
            Err(Error::parameter(LEVEL, "MPI_THREAD_SINGLE", reason))
        }
        Threading::Funneled if main == 0 => {
            let reason = "only the thread that initialised MPI may call it: adopt the communicator there, or initialise MPI \
                          with MPI_THREAD_SERIALIZED or more";
            Err(Error::parameter(LEVEL, "MPI_THREAD_FUNNELED", reason))
        }
        _ => Ok(()),
    }
}

fn null_request() -> ffi::MPI_Request {
    // SAFETY: reading a constant that the library has set before MPI_Init returned.
    unsafe { ffi::RSMPI_REQUEST_NULL }
}

fn byte() -> ffi::MPI_Datatype {
    u8::equivalent_datatype().as_raw()
}

fn count(n: usize) -> c_int {
    c_int::try_from(n).unwrap_or_else(|_| panic!("{n} does not fit an MPI count"))
}

/// Returns the first line of the library's description, without the padding and the build details.
fn short_version(version: &str) -> String {
    let line = version.trim_end_matches('\0').lines().next().unwrap_or("MPI");
    line.replace('\t', " ").split(',').next().unwrap_or("MPI").trim().to_string()
}

/// Does the work of [`abort_on_panic`](super::abort_on_panic).
pub(super) fn abort_on_panic() {
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        default(info);
        if is_running() {
            // SAFETY: MPI runs; MPI_Abort has no other precondition, and does not return. From a thread other than the main
            // one the standard promises nothing, but Open MPI and MPICH end the job; without this call the job would hang.
            unsafe { ffi::MPI_Abort(ffi::RSMPI_COMM_WORLD, PANIC_STATUS) };
        }
    }));
}

#[cfg(test)]
mod tests {
    use super::short_version;

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
