//! The communicator of a session or balancer, from one of mpi4py.

use std::sync::Arc;

use isochron::comm::{Group, GroupComm};
use isochron::prelude::{Comm, LocalComm};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::errors::{Count, RaisedError, check_methods, describe, keep_exception};
use crate::thread_bound::{ThreadBound, run_detached};

/// Takes the ranks of a communicator of mpi4py, or of a group; without one, a single local rank.
///
/// # Collective
/// All ranks of `comm`.
pub(crate) fn adopt_ranks(comm: Option<&Bound<'_, PyAny>>) -> Result<Arc<dyn Comm>, RaisedError> {
    match comm {
        None => Ok(Arc::new(LocalComm::new())),
        Some(comm) if comm.hasattr("all_gather")? => {
            let group = ObjectGroup::read(comm)?;
            Ok(run_detached(comm.py(), || GroupComm::new(group))?.into())
        }
        Some(comm) => adopt_mpi(comm),
    }
}

/// A group of the program.
struct ObjectGroup {
    object: Py<PyAny>,
    rank: usize,
    size: usize,
}

impl ObjectGroup {
    fn read(group: &Bound<'_, PyAny>) -> Result<Self, RaisedError> {
        check_methods("comm", group, &["rank", "size", "all_gather"])?;
        let [rank, size] =
            ["rank", "size"].map(|name| group.call_method0(name)?.extract::<Count>());
        Ok(Self { object: group.clone().unbind(), rank: rank?.0, size: size?.0 })
    }
}

impl Group for ObjectGroup {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn all_gather(&self, data: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        keep_exception(None);
        let gathered = Python::attach(|py| {
            let data = PyBytes::new(py, data);
            let gathered = self.object.bind(py).call_method1("all_gather", (data,))?;
            gathered.extract::<Vec<PyBackedBytes>>()
        });
        let gathered = gathered.map_err(|error| {
            let text = format!("all_gather: {error}");
            keep_exception(Some(error));
            text
        })?;
        Ok(gathered.iter().map(|bytes| bytes.to_vec()).collect())
    }

    fn leave(&self) {
        // A group may lack it, and this rank leaves by an exception of its own.
        let _ = Python::attach(|py| self.object.call_method0(py, "leave"));
    }
}

#[cfg(feature = "mpi")]
fn adopt_mpi(comm: &Bound<'_, PyAny>) -> Result<Arc<dyn Comm>, RaisedError> {
    Ok(adopt_handle(comm)?.0.into())
}

/// Makes a group of these places, as a communicator of mpi4py; `None` on ranks that are free, and without a communicator.
///
/// # Collective
/// All ranks of `comm`.
pub(crate) fn adopt_group<'py>(
    comm: Option<&Bound<'py, PyAny>>,
    places: &[usize],
) -> Result<Option<Bound<'py, PyAny>>, RaisedError> {
    let Some(comm) = comm else {
        isochron::predict::find_process(&LocalComm::new(), places)?;
        return Ok(None);
    };
    split_mpi(comm, places)
}

#[cfg(feature = "mpi")]
fn split_mpi<'py>(
    comm: &Bound<'py, PyAny>,
    places: &[usize],
) -> Result<Option<Bound<'py, PyAny>>, RaisedError> {
    let (ranks, handle) = adopt_handle(comm)?;
    let py = comm.py();
    let (process, made) = run_detached(py, || {
        let process = isochron::predict::find_process(&ranks, places)?;
        // SAFETY: the ranks were adopted from the communicator of this handle, which lives as long as the call.
        let made = unsafe { ranks.split_fortran(handle, process)? };
        Ok::<_, isochron::Error>((process, made))
    })?;
    let mpi4py = py.import("mpi4py.MPI")?;
    let made = process.map(|_| {
        let comm = mpi4py.getattr("Comm")?.call_method1("f2py", (made,))?;
        mpi4py.getattr("Intracomm")?.call1((comm,))
    });
    Ok(made.transpose()?)
}

#[cfg(not(feature = "mpi"))]
fn split_mpi<'py>(
    comm: &Bound<'py, PyAny>,
    _places: &[usize],
) -> Result<Option<Bound<'py, PyAny>>, RaisedError> {
    adopt_mpi(comm).map(|_| None)
}

/// Takes the ranks of a communicator of mpi4py. Returns its handle, too.
#[cfg(feature = "mpi")]
fn adopt_handle(comm: &Bound<'_, PyAny>) -> Result<(isochron::prelude::MpiComm, i32), RaisedError> {
    use isochron::prelude::MpiComm;

    let py = comm.py();
    let mpi4py = py.import("sys")?.getattr("modules")?.call_method1("get", ("mpi4py.MPI",))?;
    if mpi4py.is_none() || !comm.is_instance(&mpi4py.getattr("Comm")?)? {
        let reason = "a communicator of mpi4py or a Group is needed, or None for one local rank";
        return Err(RaisedError::refuse_type("comm", describe(comm), reason));
    }
    let [is_begun, is_over] =
        ["Is_initialized", "Is_finalized"].map(|name| mpi4py.call_method0(name)?.is_truthy());
    if !is_begun? || is_over? {
        let reason = "MPI has to be initialised and not yet finalised";
        return Err(RaisedError::refuse("comm", "of MPI that does not run", reason));
    }
    let theirs: String = mpi4py.call_method0("Get_library_version")?.extract()?;
    compare_libraries(theirs.trim_end_matches('\0').trim())?;
    if !isochron::mpi::environment::is_initialized() {
        let reason = "this process has the MPI library of mpi4py and, beside it, another one of this package: compile mpi4py with the compiler of \
                      this one, as MPICC=mpicc_abi pip install --no-binary mpi4py mpi4py";
        return Err(RaisedError::refuse("comm", "of another MPI library", reason));
    }
    let handle: i32 = comm.call_method0("py2f")?.extract()?;
    // SAFETY: a communicator of mpi4py is live, or the null one; both use the same library.
    let adopted = run_detached(py, || unsafe { MpiComm::adopt_fortran(handle) });
    Ok((adopted?, handle))
}

/// Refuses an mpi4py of another MPI library than this package's.
#[cfg(feature = "mpi")]
fn compare_libraries(theirs: &str) -> Result<(), RaisedError> {
    let ours = isochron::mpi::environment::library_version().unwrap_or_default();
    let ours = ours.trim_end_matches('\0').trim();
    if ours == theirs {
        return Ok(());
    }
    let [ours, theirs] = [ours, theirs].map(|version| {
        version
            .lines()
            .next()
            .unwrap_or_default()
            .split(',')
            .next()
            .unwrap_or_default()
            .replace('\t', " ")
    });
    let reason = format!(
        "this package was built for {ours}: install mpi4py and isochron for the same MPI library"
    );
    Err(RaisedError::refuse("comm", format!("of {theirs}"), reason))
}

#[cfg(not(feature = "mpi"))]
fn adopt_mpi(comm: &Bound<'_, PyAny>) -> Result<Arc<dyn Comm>, RaisedError> {
    let reason = "this package was built without MPI: leave comm out, give a Group such as MpiGroup(comm), or install one that was built for the MPI library of mpi4py";
    Err(RaisedError::refuse_type("comm", describe(comm), reason))
}

/// Ends the block of a context manager: tells the other ranks of its exception, and closes the value. The exception goes on.
pub(crate) fn leave_block<T>(
    kept: &ThreadBound<T>,
    find_comm: fn(&T) -> &Arc<dyn Comm>,
    exception: &Bound<'_, PyAny>,
) -> Result<bool, RaisedError> {
    if let Ok(value) = kept.borrow() {
        abandon_ranks(&**find_comm(&value), exception);
    }
    let closed = kept.close();
    // An exception of the block tells more.
    if exception.is_none() {
        closed?;
    }
    Ok(false)
}

/// Tells the other ranks that this one has left, if it did so with an exception.
fn abandon_ranks(comm: &dyn Comm, exception: &Bound<'_, PyAny>) {
    if exception.is_none() {
        return;
    }
    let kind = exception.get_type().name();
    let kind = kind.map_or_else(|_| "an exception".to_owned(), |kind| kind.to_string());
    comm.abandon(&format!("it left with {kind}: {exception}"));
}
