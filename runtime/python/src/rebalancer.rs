//! A loop of the program, balanced over the ranks.

use std::sync::{Arc, OnceLock};

use isochron::comm::{agree, agree_on_settings};
use isochron::prelude::{Comm, Error, LoopPart, RebalanceConfig, Rebalancer};
use isochron::rebalance::measure_move_unit_s;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyRange};
use serde_json::{Map, Value};

use crate::communicator::{adopt_ranks, leave_block};
use crate::errors::{Count, Number, RaisedError, agree_on};
use crate::moving::{
    count_row_bytes, describe_rows, find_memory, lock_out, lock_rows, make_blocks, make_rows,
    read_blocks, view_bytes,
};
use crate::settings::{configure, read_keywords, to_python};
use crate::thread_bound::{ThreadBound, run_detached};

/// The settings that describe one rank.
const OF_RANK: [&str; 3] = ["max_local", "weight", "function"];

/// A balancer and its communicator.
struct LoopState {
    balancer: Rebalancer,
    comm: Arc<dyn Comm>,
}

impl LoopState {
    fn keep(comm: Arc<dyn Comm>, balancer: Rebalancer) -> PyRebalancer {
        PyRebalancer {
            state: ThreadBound::new("balancer", Self { balancer, comm }),
            ended: OnceLock::new(),
        }
    }

    fn count_own(&self) -> u64 {
        self.balancer.units()[self.comm.rank()]
    }
}

/// Balances a loop over `units` of work: rows, blocks, cells. Each rank of `comm`, a communicator of mpi4py or a `Group`, has a part; without
/// one there is one local rank. The ranks of a `Group` move their data themselves, and so give `move_unit_s`.
///
/// The settings are those of the documentation of loops: `granule`, `sweeps`, `trigger`, `window`, `cooldown`, `warm_up`,
/// `check_every`, `max_move`, `growth`, `retry_after` and `move_unit_s`, the same on all ranks; and of this rank alone
/// `max_local`, `weight` and `function`.
///
/// As a context manager a balancer is closed at the end. If the block ends with an exception on one rank, the calls of the
/// other ranks raise `RunError`, and no rank waits for it. `units` and `moves` can be read afterwards.
#[pyclass(name = "Rebalancer", module = "isochron", frozen)]
pub struct PyRebalancer {
    state: ThreadBound<LoopState>,
    /// What can be read of a closed balancer.
    ended: OnceLock<EndedLoop>,
}

/// The last division of a loop, and the number of its changes.
#[derive(Clone)]
struct EndedLoop {
    units: Vec<u64>,
    moves: u64,
}

impl PyRebalancer {
    /// Returns the division and the number of its changes, also of a closed balancer.
    fn look(&self) -> Result<EndedLoop, RaisedError> {
        if let Some(ended) = self.ended.get() {
            return Ok(ended.clone());
        }
        let state = self.state.borrow()?;
        Ok(EndedLoop { units: state.balancer.units().to_vec(), moves: state.balancer.moves() })
    }

    /// Notes what can be read once the balancer is closed.
    fn note_end(&self) {
        if let Ok(ended) = self.look() {
            self.ended.get_or_init(|| ended);
        }
    }
}

#[pymethods]
impl PyRebalancer {
    #[new]
    #[pyo3(signature = (units, comm=None, **settings))]
    fn new(
        py: Python<'_>,
        units: Count<u64>,
        comm: Option<&Bound<'_, PyAny>>,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> Result<Self, RaisedError> {
        let comm = adopt_ranks(comm)?;
        let read = read_keywords(settings).and_then(read_loop_settings);
        let (config, part) = agree_on(&*comm, read)?;
        let shared = Arc::clone(&comm);
        let balancer = run_detached(py, || Rebalancer::new(shared, units.0, &config, part))?;
        Ok(LoopState::keep(comm, balancer))
    }

    /// Continues from what `state` returned, with the same parts.
    #[staticmethod]
    #[pyo3(signature = (state, comm=None))]
    fn restore(
        py: Python<'_>,
        state: &[u8],
        comm: Option<&Bound<'_, PyAny>>,
    ) -> Result<Self, RaisedError> {
        let comm = adopt_ranks(comm)?;
        let shared = Arc::clone(&comm);
        let balancer = run_detached(py, || Rebalancer::restore(shared, state))?;
        Ok(LoopState::keep(comm, balancer))
    }

    /// The units of each rank, also of a closed balancer.
    #[getter]
    fn units(&self) -> Result<Vec<u64>, RaisedError> {
        Ok(self.look()?.units)
    }

    /// The units of this rank, as a range. The parts follow each other in the order of the ranks.
    #[getter]
    fn part<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyRange>, RaisedError> {
        let part = self.state.borrow()?.balancer.part();
        Ok(PyRange::new(py, part.start as isize, part.end as isize)?)
    }

    /// The ranks that have the units just before this rank's, and just after; None where there are no units, and for a rank
    /// without any.
    #[getter]
    fn neighbours(&self) -> Result<(Option<usize>, Option<usize>), RaisedError> {
        let [before, after] = self.state.borrow()?.balancer.neighbours();
        Ok((before, after))
    }

    /// The number of times that the parts have changed, also of a closed balancer.
    #[getter]
    fn moves(&self) -> Result<u64, RaisedError> {
        Ok(self.look()?.moves)
    }

    /// Returns each rank's share of all units: weights for a partitioner. They sum to 1.
    fn shares(&self) -> Result<Vec<f64>, RaisedError> {
        Ok(self.state.borrow()?.balancer.shares())
    }

    /// Times the work of a sweep: `with balancer.step():`. The end of the block ends the sweep, as `balance` does.
    /// `moved` of the step says if the parts have changed. A block that raises does not end the sweep, and its time is
    /// ignored.
    fn step(slf: Py<Self>) -> PyStep {
        PyStep { balancer: slf, has_moved: std::sync::atomic::AtomicBool::new(false) }
    }

    /// Begins to time this rank's work.
    fn begin(&self) -> Result<(), RaisedError> {
        self.state.borrow()?.balancer.begin();
        Ok(())
    }

    /// Ends what `begin` began. Several pairs in a sweep add up.
    fn end(&self) -> Result<(), RaisedError> {
        self.state.borrow()?.balancer.end();
        Ok(())
    }

    /// Adds the seconds that this rank needed for `units` of its units, such as the time between two GPU events. The
    /// times of a sweep add up.
    fn record(&self, units: Count<u64>, seconds: Number) -> Result<(), RaisedError> {
        self.state.borrow()?.balancer.record(units.0, seconds.0);
        Ok(())
    }

    /// Leaves the current sweep out: nothing is learnt from it on any rank.
    fn ignore_sweep(&self) -> Result<(), RaisedError> {
        self.state.borrow()?.balancer.ignore_sweep();
        Ok(())
    }

    /// Ends a sweep. Returns True if the parts have changed. All ranks call it together.
    fn balance(&self, py: Python<'_>) -> Result<bool, RaisedError> {
        let mut state = self.state.borrow()?;
        Ok(run_detached(py, || state.balancer.balance())?)
    }

    /// Takes the seconds that this rank needed for its part, and ends the sweep. Returns True if the parts have changed. All
    /// ranks call it together.
    fn observe(&self, py: Python<'_>, seconds: Number) -> Result<bool, RaisedError> {
        let mut state = self.state.borrow()?;
        let units = state.count_own();
        state.balancer.record(units, seconds.0);
        Ok(run_detached(py, || state.balancer.balance())?)
    }

    /// Moves the rows of an array after the parts have changed, and returns the rows of the new part. `array` has a row
    /// for each unit of the old part, and may have any number of dimensions. All ranks call it together, once for each
    /// array.
    ///
    /// `out` is an array for the rows of the new part, which is returned; otherwise one is made. Both may be slices of one
    /// array that has a place for every row: then rows that stay are not touched, and the call takes as long as those that
    /// move. Otherwise all rows of the part are copied.
    #[pyo3(signature = (array, out=None))]
    fn migrate<'py>(
        &self,
        array: &Bound<'py, PyAny>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyAny>, RaisedError> {
        let py = array.py();
        let mut state = self.state.borrow()?;
        let LoopState { balancer, comm } = &mut *state;
        let parts = [balancer.part_before(), balancer.part()];
        let [before, now] = (parts.clone()).map(|part| part.end - part.start);
        let rows = agree_on(&**comm, lock_rows("array", array, before))?;
        agree_on_settings(&**comm, &describe_rows(&rows))?;
        let target = match out {
            Some(out) => lock_out(out, &rows, now).map(|target| (target, out.clone())),
            None => make_rows(array, &rows, now),
        };
        let (target, made) = agree_on(&**comm, target)?;
        // SAFETY: both arrays are locked and in one piece, and the target is writable; no other thread uses them meanwhile, as
        // the module of arrays says.
        let memory = agree_on(&**comm, unsafe { find_memory(&rows, &target, &parts) })?;
        let row_bytes = count_row_bytes(&rows);
        run_detached(py, || balancer.migrate_memory(row_bytes, memory))?;
        Ok(made)
    }

    /// Moves arrays after the parts have changed, and returns those of the new part. `blocks` has one for each unit of
    /// the old part; they may have any shapes and types. Arrays of units that stay are returned as they are. All ranks call
    /// it together.
    fn migrate_blocks<'py>(
        &self,
        blocks: &Bound<'py, PyAny>,
    ) -> Result<Vec<Bound<'py, PyAny>>, RaisedError> {
        let py = blocks.py();
        let mut state = self.state.borrow()?;
        let LoopState { balancer, comm } = &mut *state;
        let before = balancer.part_before();
        let read = agree_on(&**comm, read_blocks(blocks, before.end - before.start))?;
        let (kinds, locked) = (read.kinds, read.locked);
        let contents: Vec<&[u8]> = locked.iter().map(view_bytes).collect();
        let (kinds, contents) = run_detached(py, || {
            let kinds = balancer.exchange_blocks(&kinds)?;
            Ok::<_, Error>((kinds, balancer.exchange_blocks(&contents)?))
        })?;
        let made = make_blocks(py, &kinds.before, &contents.before).and_then(|mut made| {
            made.extend_from_slice(&read.arrays[contents.kept.clone()]);
            made.extend(make_blocks(py, &kinds.after, &contents.after)?);
            Ok(made)
        });
        Ok(agree(&**comm, made)?)
    }

    /// Takes the seconds that this rank needed to move its data by other means than `migrate` and `migrate_blocks`. A
    /// negative or non-finite time makes the next decision fail on every rank.
    fn note_move(&self, seconds: Number) -> Result<(), RaisedError> {
        self.state.borrow()?.balancer.note_move(seconds.0);
        Ok(())
    }

    /// Returns the sweeps, changes and drifts so far, the same on every rank. All ranks call it together.
    fn report<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>, RaisedError> {
        let mut state = self.state.borrow()?;
        let report = run_detached(py, || state.balancer.report())?;
        Ok(to_python(py, &report)?)
    }

    /// Returns what is known so far, for a checkpoint; the same bytes on every rank. All ranks call it together.
    fn state(&self, py: Python<'_>) -> Result<Vec<u8>, RaisedError> {
        let mut state = self.state.borrow()?;
        Ok(run_detached(py, || state.balancer.state())?)
    }

    /// Releases the communicator. `units` and `moves` can still be read.
    fn close(&self) -> Result<(), RaisedError> {
        self.note_end();
        self.state.close()
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (_kind, value, _trace))]
    fn __exit__(
        &self,
        _kind: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) -> Result<bool, RaisedError> {
        self.note_end();
        leave_block(&self.state, |state| &state.comm, value)
    }
}

/// A sweep that is timed.
#[pyclass(name = "Step", module = "isochron", frozen)]
pub struct PyStep {
    balancer: Py<PyRebalancer>,
    has_moved: std::sync::atomic::AtomicBool,
}

#[pymethods]
impl PyStep {
    /// True if the parts have changed at the end of the sweep.
    #[getter]
    fn moved(&self) -> bool {
        self.has_moved.load(std::sync::atomic::Ordering::Relaxed)
    }

    fn __enter__(slf: PyRef<'_, Self>) -> Result<PyRef<'_, Self>, RaisedError> {
        slf.balancer.get().begin()?;
        Ok(slf)
    }

    #[pyo3(signature = (_kind, value, _trace))]
    fn __exit__(
        &self,
        _kind: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) -> Result<bool, RaisedError> {
        let balancer = self.balancer.get();
        balancer.end()?;
        if value.is_none() {
            let has_moved = balancer.balance(value.py())?;
            self.has_moved.store(has_moved, std::sync::atomic::Ordering::Relaxed);
        } else {
            balancer.ignore_sweep()?;
        }
        Ok(false)
    }
}

/// Measures the seconds to move a unit of `unit_bytes` bytes between neighbouring ranks of `comm`, a communicator of mpi4py, for
/// `move_unit_s` of a `Rebalancer`. Without this value a balancer expects the first move to take ten times the computation of
/// its units. Measuring takes some milliseconds. All ranks call it together; on one rank it returns 0.
#[pyfunction]
#[pyo3(name = "measure_move_unit_s", signature = (unit_bytes, comm=None))]
pub fn measure_move(
    py: Python<'_>,
    unit_bytes: Count,
    comm: Option<&Bound<'_, PyAny>>,
) -> Result<f64, RaisedError> {
    let comm = adopt_ranks(comm)?;
    Ok(run_detached(py, || measure_move_unit_s(&*comm, unit_bytes.0))?)
}

/// Reads the settings of a loop, and those of this rank.
fn read_loop_settings(
    keywords: Map<String, Value>,
) -> Result<(RebalanceConfig, LoopPart), RaisedError> {
    let (of_rank, of_all) = (keywords.into_iter())
        .partition(|(name, _): &(String, Value)| OF_RANK.contains(&name.as_str()));
    Ok((configure(of_all)?, configure(of_rank)?))
}
