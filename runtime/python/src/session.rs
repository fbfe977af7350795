//! Sessions: the ranks of a communicator and their devices.

use std::path::PathBuf;

use isochron::prelude::{
    BlasChoice, Grouping, HostScope, Report, Session, SessionBuilder, StoreMode,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::read_element;
use crate::communicator::{adopt_ranks, leave_block};
use crate::devices::PyDevice;
use crate::distribution::PyDistribution;
use crate::errors::{Count, Number, RaisedError, agree_on};
use crate::partition::{PointTuple, PyDynamicPartition, benchmark_kernel};
use crate::predict::PyPlatform;
use crate::product::{ProductKeywords, PyLastRun, PyMatrices, PyProduct};
use crate::session_state::{PySession, SessionState};
use crate::settings::{read_setting, to_python};
use crate::thread_bound::{ThreadBound, run_detached};

#[pymethods]
impl PySession {
    #[new]
    #[pyo3(signature = (comm=None, *, platform=None, grouping=None, blas=None, element=None, store=None, models=None, reserved_cores=Vec::new(), host_scope=None))]
    #[allow(clippy::too_many_arguments, reason = "keywords of Python")]
    fn new(
        py: Python<'_>,
        comm: Option<&Bound<'_, PyAny>>,
        platform: Option<PathBuf>,
        grouping: Option<&str>,
        blas: Option<&str>,
        element: Option<&Bound<'_, PyAny>>,
        store: Option<&str>,
        models: Option<PathBuf>,
        reserved_cores: Vec<Count<u32>>,
        host_scope: Option<&str>,
    ) -> Result<Self, RaisedError> {
        let comm = adopt_ranks(comm)?;
        let chosen = choose_devices([grouping, blas, host_scope], element);
        let chosen = chosen.and_then(|builder| Ok((builder, read_setting("store", store)?)));
        let (builder, store) = agree_on(&*comm, chosen)?;
        let store: StoreMode = store.unwrap_or_default();
        let reserved = reserved_cores.into_iter().map(|core| core.0);
        let mut builder = builder.store(store).reserved_cores(reserved);
        if let Some(platform) = platform {
            builder = builder.platform_file(platform);
        }
        if let Some(models) = models {
            builder = builder.models(models);
        }
        let session = run_detached(py, || builder.build(comm))?;
        let state =
            SessionState { session, last_run: None, keeps_models: store == StoreMode::ReadWrite };
        Ok(Self(ThreadBound::new("session", state)))
    }

    /// This rank.
    #[getter]
    fn rank(&self) -> Result<usize, RaisedError> {
        Ok(self.comm()?.rank())
    }

    /// Number of ranks.
    #[getter]
    fn ranks(&self) -> Result<usize, RaisedError> {
        Ok(self.comm()?.size())
    }

    /// Name of this rank's host.
    #[getter]
    fn host(&self) -> Result<String, RaisedError> {
        Ok(self.comm()?.host().to_owned())
    }

    /// The MPI library, or that there is none.
    #[getter]
    fn mpi(&self) -> Result<String, RaisedError> {
        Ok(self.comm()?.implementation().to_owned())
    }

    /// The devices of this rank.
    #[getter]
    fn devices(&self) -> Result<Vec<PyDevice>, RaisedError> {
        let state = self.0.borrow()?;
        Ok(state.session.devices().iter().map(PyDevice::from).collect())
    }

    /// Which matrices the last product used in place, and what it cost this rank to move and copy the others; None before the
    /// first product.
    #[getter]
    fn last_run(&self) -> Result<Option<PyLastRun>, RaisedError> {
        let state = self.0.borrow()?;
        Ok(state.last_run.as_ref().map(|(_, run)| run.into()))
    }

    /// Multiplies: `C = alpha·op(A)·op(B) + beta·C`. Returns `c`, or a new array if there is none.
    ///
    /// `a`, `b` and `c` are this rank's arrays, in two dimensions, of float32, float64, complex64 or complex128: one each, or
    /// a list of blocks, or None on a rank without elements. `on` has the `Distribution` of A, B and C; a single rank needs
    /// none. `ops` has the operation on A and on B: "N", "T", or "C" for the conjugate transpose. `alpha` is 1
    /// and `beta` 0 unless they are given; then `c` is not read (the command `isochron mxm --c` adds to C by default). `block`, `panel`, `split`, `strategy` and `epsilon` say how the product is planned. All ranks call it together, with the same arguments except their arrays.
    #[pyo3(signature = (a, b, c=None, *, alpha=None, beta=None, ops="NN", on=None, block=None, panel=None, split=None, strategy=None, epsilon=None))]
    #[allow(clippy::too_many_arguments, reason = "keywords of Python")]
    fn gemm<'py>(
        slf: &Bound<'py, Self>,
        a: &Bound<'py, PyAny>,
        b: &Bound<'py, PyAny>,
        c: Option<&Bound<'py, PyAny>>,
        alpha: Option<&Bound<'py, PyAny>>,
        beta: Option<&Bound<'py, PyAny>>,
        ops: &str,
        on: Option<[PyRef<'py, PyDistribution>; 3]>,
        block: Option<Count>,
        panel: Option<Count>,
        split: Option<&str>,
        strategy: Option<&str>,
        epsilon: Option<Number>,
    ) -> Result<Bound<'py, PyAny>, RaisedError> {
        let keywords = ProductKeywords { ops, block, panel, split, strategy, epsilon };
        let on = on.map(|on| on.map(|on| on.0.clone()));
        let given = PyMatrices::new(a, b, c);
        PyProduct::prepare_for(slf, &given, on, &keywords)?.multiply(
            slf.py(),
            &given,
            [alpha, beta],
        )
    }

    /// Plans a product of matrices with these distributions (A, B and C), to be run many times. `dtype` is a type of
    /// NumPy, or "f32", "f64", "c32" or "c64". The keywords are those of `gemm`. All ranks call it together, with the same
    /// arguments.
    #[pyo3(signature = (on, dtype, *, ops="NN", block=None, panel=None, split=None, strategy=None, epsilon=None))]
    #[allow(clippy::too_many_arguments, reason = "keywords of Python")]
    fn prepare(
        slf: &Bound<'_, Self>,
        on: [PyRef<'_, PyDistribution>; 3],
        dtype: &Bound<'_, PyAny>,
        ops: &str,
        block: Option<Count>,
        panel: Option<Count>,
        split: Option<&str>,
        strategy: Option<&str>,
        epsilon: Option<Number>,
    ) -> Result<PyProduct, RaisedError> {
        let keywords = ProductKeywords { ops, block, panel, split, strategy, epsilon };
        let on = on.map(|on| on.0.clone());
        PyProduct::prepare_as(slf, on, dtype, &keywords)
    }

    /// Returns the report of the last product: what every device did, and how long it took. All ranks call it together.
    fn report<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>, RaisedError> {
        let state = self.0.borrow()?;
        let Some((plan, run)) = &state.last_run else {
            let reason = "no product was run";
            return Err(RaisedError::refuse("report", "None", reason));
        };
        let execution = &run.execution;
        let report = run_detached(py, || Report::gather(&state.session, plan, execution, None))?;
        Ok(to_python(py, &report)?)
    }

    /// Measures a kernel with `d` units of this rank, while all ranks do the same, each with its own `d`. Returns the units, the
    /// mean seconds of a run, the repetitions, and the half-width of the confidence interval in seconds: a point of a `Model`.
    ///
    /// `kernel` is an object with the methods `initialize(d)`, `execute()` and `finalize()`. The settings are `confidence`,
    /// `precision`, `min_reps`, `max_reps`, `max_seconds` and `unbound`, the same on all ranks. The ranks repeat in step, each
    /// bound to the first core of its share meanwhile, unless `unbound` is true, the host has fewer cores than ranks, or a CPU
    /// quota leaves only some of them. All ranks call it together.
    #[pyo3(signature = (kernel, d, **settings))]
    fn benchmark(
        &self,
        kernel: &Bound<'_, PyAny>,
        d: Count<u64>,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> Result<PointTuple, RaisedError> {
        benchmark_kernel(self, kernel, d.0, settings)
    }

    /// Begins to divide `total` units over the ranks by benchmarks of a kernel. Call `iterate(kernel)` of the result until it
    /// returns True.
    ///
    /// `models` has an object for each rank, with the methods `time(units)` and `update(point)`, which divides; without models the
    /// points of each rank make a model by `fit`. The settings are those of `benchmark`, and `epsilon`, `max_iterations`, `fit`,
    /// `partitioner` and `granule`, the same on all ranks. All ranks call it together, with the same arguments.
    #[pyo3(signature = (total, models=None, **settings))]
    fn partition(
        &self,
        py: Python<'_>,
        total: Count<u64>,
        models: Option<Vec<Bound<'_, PyAny>>>,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> Result<PyDynamicPartition, RaisedError> {
        PyDynamicPartition::begin(py, self, total.0, models.unwrap_or_default(), settings)
    }

    /// Measures the speed of each rank by a kernel with each of `sizes` units, as `benchmark` does, and the network between the ranks, which
    /// takes at most about a second. Returns the `Platform` whose places are the ranks, the same on all of them. The settings are those of
    /// `benchmark`. All ranks call it together, with the same sizes and settings.
    #[pyo3(signature = (kernel, sizes, **settings))]
    fn recon(
        &self,
        kernel: &Bound<'_, PyAny>,
        sizes: Vec<Count<u64>>,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> Result<PyPlatform, RaisedError> {
        PyPlatform::recon(self, kernel, sizes, settings)
    }

    /// Adds the times that the session has learnt to the model store, so that later sessions begin with them. It does nothing
    /// without `store="read-write"`, or if there is nothing new. A store that cannot be written is no error: `notices` of the
    /// report's nodes have the reason. All ranks call it together.
    fn save_models(&self, py: Python<'_>) -> Result<(), RaisedError> {
        let mut state = self.0.borrow()?;
        Ok(run_detached(py, || state.session.save_models())?)
    }

    /// Releases the devices and the communicator. It does not save models.
    fn close(&self) -> Result<(), RaisedError> {
        self.0.close()
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (_kind, value, _trace))]
    fn __exit__(
        &self,
        py: Python<'_>,
        _kind: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) -> Result<bool, RaisedError> {
        let saved =
            if value.is_none() && self.keeps_models() { self.save_models(py) } else { Ok(()) };
        let left = leave_block(&self.0, |state| state.session.comm(), value);
        saved.and(left)
    }
}

fn choose_devices(
    [grouping, blas, host_scope]: [Option<&str>; 3],
    element: Option<&Bound<'_, PyAny>>,
) -> Result<SessionBuilder, RaisedError> {
    let mut builder = Session::builder();
    if let Some(grouping) = read_setting::<Grouping>("grouping", grouping)? {
        builder = builder.grouping(grouping);
    }
    if let Some(blas) = read_setting::<BlasChoice>("blas", blas)? {
        builder = builder.blas(blas);
    }
    if let Some(element) = element {
        builder = builder.element(read_element("element", element)?);
    }
    if let Some(scope) = read_setting::<HostScope>("host_scope", host_scope)? {
        builder = builder.host_scope(scope);
    }
    Ok(builder)
}
