//! Algorithms of the program, predicted before they run.

use std::mem;
use std::path::PathBuf;

use isochron::plan::{ModelledCluster, SearchConfig, list_problems};
use isochron::predict::{
    Algorithm, AlgorithmError, Binding, Platform, PredictedRun, Scheme, choose, timeof,
};
use isochron::prelude::{ElementType, Error};
use pyo3::call::PyCallArgs;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::read_element;
use crate::communicator::adopt_group;
use crate::errors::{Count, Number, RaisedError, agree_on, check_methods};
use crate::partition::{ObjectKernel, RaisedFirst};
use crate::session_state::PySession;
use crate::settings::{configure, read_keywords, to_python};
use crate::thread_bound::{ThreadBound, run_detached};

/// The places that may run processes, with their speeds, and the network between them: `Session.recon` makes it, or `of_file`.
#[pyclass(name = "Platform", module = "isochron", frozen)]
pub struct PyPlatform(ThreadBound<Platform>);

impl PyPlatform {
    /// Measures the ranks of a session by a kernel of the program.
    pub(crate) fn recon(
        session: &PySession,
        kernel: &Bound<'_, PyAny>,
        sizes: Vec<Count<u64>>,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> Result<Self, RaisedError> {
        let mut state = session.state().borrow()?;
        let asked = ObjectKernel::read(kernel)
            .and_then(|kernel| Ok((kernel, configure(read_keywords(settings)?)?)));
        let (mut object, config) = agree_on(&**state.session.comm(), asked)?;
        let sizes: Vec<u64> = sizes.into_iter().map(|size| size.0).collect();
        let made = run_detached(kernel.py(), || state.session.recon(&mut object, &sizes, &config));
        Ok(Self(ThreadBound::new("platform", object.raised.settle(made)?)))
    }
}

#[pymethods]
impl PyPlatform {
    /// Makes a platform of a platform file with a network, whose places are the nodes of the file. Each device has the model of its
    /// name in the folder `models`, or without one the points file that the platform file names. A unit is one of the points files.
    #[staticmethod]
    #[pyo3(signature = (path, models=None))]
    fn of_file(path: PathBuf, models: Option<PathBuf>) -> Result<Self, RaisedError> {
        let platform = ModelledCluster::load(&path, models.as_deref())?.to_platform()?;
        Ok(Self(ThreadBound::new("platform", platform)))
    }

    /// Number of places.
    fn __len__(&self) -> Result<usize, RaisedError> {
        Ok(self.0.borrow()?.speeds.len())
    }
}

/// A predicted run.
#[pyclass(name = "PredictedRun", module = "isochron", frozen, get_all)]
#[derive(Clone)]
pub struct PyPredictedRun {
    /// Seconds.
    seconds: f64,
    /// Seconds in which the busiest process computes.
    compute_s: f64,
    /// The process that computes longest.
    slowest: usize,
    /// The least and the most seconds of nine of ten runs.
    bounds_s: (f64, f64),
    /// The part that is busy longest: `("work", process)`, `("sends", process)`, `("receives", process)` or `("uplink", number)`.
    binds: (&'static str, usize),
}

impl From<PredictedRun> for PyPredictedRun {
    fn from(run: PredictedRun) -> Self {
        let binds = match run.binds {
            Binding::Work(process) => ("work", process),
            Binding::Sends(process) => ("sends", process),
            Binding::Receives(process) => ("receives", process),
            Binding::Uplink(uplink) => ("uplink", uplink),
        };
        let PredictedRun { seconds, compute_s, slowest, bounds_s, .. } = run;
        Self { seconds, compute_s, slowest, bounds_s: bounds_s.into(), binds }
    }
}

/// The algorithm of least predicted seconds.
#[pyclass(name = "Choice", module = "isochron", frozen, get_all)]
pub struct PyChoice {
    /// Its number among the algorithms.
    chosen: usize,
    /// The place of each of its processes.
    places: Vec<usize>,
    /// Its prediction.
    run: PyPredictedRun,
    /// True if all places of its processes were compared; else some were exchanged as long as that helped.
    is_exact: bool,
    /// The predicted seconds of every algorithm at its best places; infinite for one with more processes than places.
    seconds: Vec<f64>,
}

/// The order of the work and of the messages of an `Algorithm`, each in percent of the whole.
#[pyclass(name = "Scheme", module = "isochron", frozen)]
pub struct PyScheme(ThreadBound<Scheme>);

#[pymethods]
impl PyScheme {
    /// Lets a process do this percentage of its whole work.
    fn compute(&self, process: Count, percent: Number) -> Result<(), RaisedError> {
        self.0.borrow()?.compute(process.0, percent.0);
        Ok(())
    }

    /// Lets a process send this percentage of its bytes for another one, as one message.
    fn transfer(&self, source: Count, to: Count, percent: Number) -> Result<(), RaisedError> {
        self.0.borrow()?.transfer(source.0, to.0, percent.0);
        Ok(())
    }

    /// Lets the actions of a `with` block begin together: each is a branch, and so is each block of `seq` or `repeat`.
    fn par(slf: Py<Self>) -> Result<Py<Self>, RaisedError> {
        slf.get().0.borrow()?.begin_par();
        Ok(slf)
    }

    /// Lets the actions of a `with` block follow each other, as they do outside of `par`.
    fn seq(slf: Py<Self>) -> Result<Py<Self>, RaisedError> {
        Self::repeat(slf, Count(1))
    }

    /// Repeats the actions of a `with` block one after the other, with the same percentages each time.
    fn repeat(slf: Py<Self>, times: Count) -> Result<Py<Self>, RaisedError> {
        slf.get().0.borrow()?.begin_repeat(times.0);
        Ok(slf)
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (_kind, _value, _trace))]
    fn __exit__(
        &self,
        _kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) -> Result<bool, RaisedError> {
        self.0.borrow()?.end();
        Ok(false)
    }
}

/// An algorithm of the program.
struct ObjectAlgorithm {
    object: Py<PyAny>,
    processes: usize,
    raised: RaisedFirst,
}

impl ObjectAlgorithm {
    fn read(algorithm: &Bound<'_, PyAny>, raised: &RaisedFirst) -> Result<Self, RaisedError> {
        let methods = ["processes", "volume", "size", "bytes", "scheme"];
        check_methods("algorithm", algorithm, &methods)?;
        let processes: Count = algorithm.call_method0("processes")?.extract()?;
        let object = algorithm.clone().unbind();
        Ok(Self { object, processes: processes.0, raised: raised.clone() })
    }

    /// Asks for a number. An exception gives none, and is raised at the end of the call.
    fn ask(&self, method: &str, arguments: impl for<'py> PyCallArgs<'py>) -> f64 {
        let asked = self
            .raised
            .call(|py| self.object.call_method1(py, method, arguments)?.extract::<Number>(py));
        asked.map_or(f64::NAN, |number| number.0)
    }
}

impl Algorithm for ObjectAlgorithm {
    fn processes(&self) -> usize {
        self.processes
    }

    fn volume(&self, process: usize) -> f64 {
        self.ask("volume", (process,))
    }

    fn size(&self, process: usize) -> f64 {
        self.ask("size", (process,))
    }

    fn bytes(&self, from: usize, to: usize) -> f64 {
        self.ask("bytes", (from, to))
    }

    fn scheme(&self, order: &mut Scheme) {
        let lent = PyScheme(ThreadBound::new("scheme", mem::take(order)));
        let asked = self.raised.call(|py| {
            let lent = Py::new(py, lent)?;
            self.object.call_method1(py, "scheme", (lent.clone_ref(py),))?;
            *order = mem::take(&mut *lent.get().0.borrow()?);
            // A program that has kept it may not go on.
            Ok(lent.get().0.close()?)
        });
        // The exception is raised at the end of the call.
        drop(asked);
    }
}

/// Makes a call with algorithms of the program, without the interpreter's lock. It raises their first exception.
fn use_algorithms<R>(
    py: Python<'_>,
    algorithms: &[Bound<'_, PyAny>],
    body: impl FnOnce(Vec<ObjectAlgorithm>) -> Result<R, AlgorithmError>,
) -> Result<R, RaisedError> {
    let raised = RaisedFirst::default();
    let read = algorithms.iter().map(|algorithm| ObjectAlgorithm::read(algorithm, &raised));
    let read = read.collect::<Result<_, _>>()?;
    let outcome = run_detached(py, || body(read));
    raised.settle(outcome.map_err(Error::from))
}

/// Plans a multiplication of an m x k by a k x n matrix on the nodes of a platform file with a network, in every way that is compared. Returns
/// the document of `isochron plan --json` as a dictionary: the `candidates` by predicted seconds, but within 1 % fewest nodes first, and the `plan` of the first; with `explain` what
/// changes of the cluster would bring (`explained`), and with `equal_ranks` the best ranks for a program that gives all ranks equal parts.
/// `models` is as for `Platform.of_file`.
#[pyfunction]
#[pyo3(signature = (path, m, n, k, *, models=None, dtype=None, blocks=None, explain=false, equal_ranks=false))]
#[expect(clippy::too_many_arguments, reason = "keywords of a Python function")]
pub fn search_plan<'py>(
    py: Python<'py>,
    path: PathBuf,
    m: Count,
    n: Count,
    k: Count,
    models: Option<PathBuf>,
    dtype: Option<&Bound<'py, PyAny>>,
    blocks: Option<Vec<Count>>,
    explain: bool,
    equal_ranks: bool,
) -> Result<Bound<'py, PyAny>, RaisedError> {
    let element = dtype.map(|dtype| read_element("dtype", dtype)).transpose()?;
    let blocks = blocks.map_or(SearchConfig::BLOCKS.to_vec(), |blocks| {
        blocks.into_iter().map(|block| block.0).collect()
    });
    let sizes = [m.0, n.0, k.0];
    let problems = list_problems(sizes, element.unwrap_or(ElementType::F64), &blocks)?;
    let config = SearchConfig { explain, equal_ranks };
    let found = run_detached(py, || {
        ModelledCluster::load(&path, models.as_deref())?.search(&problems, config)
    });
    Ok(to_python(py, &found?)?)
}

/// Predicts the run of an `Algorithm` with its processes on these places of a `Platform`, one for each process.
#[pyfunction]
#[pyo3(name = "timeof")]
pub fn predict_time(
    algorithm: &Bound<'_, PyAny>,
    platform: &PyPlatform,
    places: Vec<Count>,
) -> Result<PyPredictedRun, RaisedError> {
    let platform = platform.0.borrow()?;
    let places: Vec<usize> = places.into_iter().map(|place| place.0).collect();
    let one = std::slice::from_ref(algorithm);
    use_algorithms(algorithm.py(), one, |read| timeof(&read[0], &platform, &places))
        .map(PyPredictedRun::from)
}

/// Chooses the `Algorithm` of least predicted seconds, and the place of each of its processes. Within 1 %, fewer
/// processes win. Algorithms with more processes than the `Platform` has places are left out.
#[pyfunction]
#[pyo3(name = "choose")]
pub fn choose_algorithm(
    py: Python<'_>,
    algorithms: Vec<Bound<'_, PyAny>>,
    platform: &PyPlatform,
) -> Result<PyChoice, RaisedError> {
    let platform = platform.0.borrow()?;
    let found = use_algorithms(py, &algorithms, |read| choose(read, &platform))?;
    Ok(PyChoice {
        chosen: found.candidate,
        places: found.places,
        run: found.run.into(),
        is_exact: found.is_exact,
        seconds: found.seconds,
    })
}

/// Makes a communicator of mpi4py of the ranks of `comm` that are these places, such as the places of a `Choice`, in their order. Returns
/// None on the others, which are free, and without `comm`. The program frees it by `Free`. All ranks of `comm` call it together, with the same places.
#[pyfunction]
#[pyo3(name = "group", signature = (places, comm=None))]
pub fn make_group<'py>(
    places: Vec<Count>,
    comm: Option<&Bound<'py, PyAny>>,
) -> Result<Option<Bound<'py, PyAny>>, RaisedError> {
    let places: Vec<usize> = places.into_iter().map(|place| place.0).collect();
    adopt_group(comm, &places)
}
