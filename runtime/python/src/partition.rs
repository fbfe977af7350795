//! Work divided over the ranks by benchmarks of a kernel of the program.

use std::cell::RefCell;
use std::rc::Rc;

use isochron::devices::kernel::{Interrupt, Kernel, KernelError};
use isochron::hierarchy::model::Point;
use isochron::partition::{DynamicPartition, TimeModel};
use isochron::prelude::Error;
use pyo3::call::PyCallArgs;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{RaisedError, agree_on, check_methods};
use crate::session_state::PySession;
use crate::settings::{configure, read_keywords};
use crate::thread_bound::{ThreadBound, run_detached};

/// Units, seconds, repetitions and half-width of the confidence interval: a point of a `Model`.
pub(crate) type PointTuple = (u64, f64, u32, f64);

fn list_numbers(point: &Point) -> PointTuple {
    (point.d, point.t_s, point.reps, point.ci_s)
}

/// The first exception that the program's objects have raised in a call.
#[derive(Clone, Default)]
pub(crate) struct RaisedFirst(Rc<RefCell<Option<PyErr>>>);

impl RaisedFirst {
    /// Calls the program. Returns the words of an exception.
    pub fn call<R>(&self, body: impl FnOnce(Python<'_>) -> PyResult<R>) -> Result<R, String> {
        Python::attach(body).map_err(|error| {
            let words = error.to_string();
            self.0.borrow_mut().get_or_insert(error);
            words
        })
    }

    /// Ends a call: this rank raises its own exception, where the others get its words.
    pub fn settle<T>(&self, outcome: Result<T, Error>) -> Result<T, RaisedError> {
        match self.0.take() {
            Some(raised) => Err(raised.into()),
            None => Ok(outcome?),
        }
    }
}

/// A kernel of the program.
pub(crate) struct ObjectKernel {
    object: Py<PyAny>,
    pub raised: RaisedFirst,
    /// The words of the last exception.
    words: Option<String>,
}

impl ObjectKernel {
    pub fn read(kernel: &Bound<'_, PyAny>) -> Result<Self, RaisedError> {
        check_methods("kernel", kernel, &["initialize", "execute", "finalize"])?;
        Ok(Self { object: kernel.clone().unbind(), raised: RaisedFirst::default(), words: None })
    }

    fn call(
        &mut self,
        method: &str,
        arguments: impl for<'py> PyCallArgs<'py>,
    ) -> Result<(), KernelError> {
        let called = self.raised.call(|py| self.object.call_method1(py, method, arguments));
        called.map(drop).map_err(|words| {
            self.words = Some(words);
            KernelError::Code(1)
        })
    }
}

impl Kernel for ObjectKernel {
    // Nothing that measures here asks for it.
    fn complexity(&self, d: u64) -> f64 {
        d as f64
    }

    fn initialize(&mut self, d: u64) -> Result<(), KernelError> {
        self.call("initialize", (d,))
    }

    fn execute(&mut self, _: &Interrupt) -> Result<(), KernelError> {
        self.call("execute", ())
    }

    fn finalize(&mut self) -> Result<(), KernelError> {
        self.call("finalize", ())
    }

    fn explain_failure(&mut self) -> Option<String> {
        self.words.take()
    }
}

/// A model of the program.
struct ObjectModel {
    object: Py<PyAny>,
    raised: RaisedFirst,
}

impl TimeModel for ObjectModel {
    fn time_s(&mut self, units: f64) -> Result<f64, String> {
        self.raised.call(|py| self.object.call_method1(py, "time", (units,))?.extract(py))
    }

    fn update(&mut self, point: &Point) -> Result<(), String> {
        let point = (list_numbers(point),);
        self.raised.call(|py| self.object.call_method1(py, "update", point)).map(drop)
    }
}

/// Measures a kernel on all ranks.
pub(crate) fn benchmark_kernel(
    session: &PySession,
    kernel: &Bound<'_, PyAny>,
    d: u64,
    settings: Option<&Bound<'_, PyDict>>,
) -> Result<PointTuple, RaisedError> {
    let mut state = session.state().borrow()?;
    let asked = ObjectKernel::read(kernel)
        .and_then(|kernel| Ok((kernel, configure(read_keywords(settings)?)?)));
    let (mut object, config) = agree_on(&**state.session.comm(), asked)?;
    let found = run_detached(kernel.py(), || state.session.benchmark(&mut object, d, &config));
    object.raised.settle(found).map(|point| list_numbers(&point))
}

/// A partition, and the exceptions of its models.
struct PartitionState {
    partition: DynamicPartition,
    raised: RaisedFirst,
}

/// Units that are divided over the ranks of a session by benchmarks of a kernel: `Session.partition` makes it.
#[pyclass(name = "DynamicPartition", module = "isochron", frozen)]
pub struct PyDynamicPartition(ThreadBound<PartitionState>);

impl PyDynamicPartition {
    /// Begins a partition on all ranks of a session.
    pub(crate) fn begin(
        py: Python<'_>,
        session: &PySession,
        total: u64,
        models: Vec<Bound<'_, PyAny>>,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> Result<Self, RaisedError> {
        let mut state = session.state().borrow()?;
        let raised = RaisedFirst::default();
        let checked = models
            .iter()
            .try_for_each(|model| check_methods("models", model, &["time", "update"]))
            .and_then(|()| configure(read_keywords(settings)?));
        let config = agree_on(&**state.session.comm(), checked)?;
        let models = models.into_iter().map(|model| {
            let model = ObjectModel { object: model.unbind(), raised: raised.clone() };
            Box::new(model) as Box<dyn TimeModel>
        });
        let models = models.collect();
        let partition = run_detached(py, || state.session.partition(total, &config, models))?;
        Ok(Self(ThreadBound::new("partition", PartitionState { partition, raised })))
    }
}

#[pymethods]
impl PyDynamicPartition {
    /// Measures the kernel with this rank's units of the next division, as `Session.benchmark` does; updates the models, and
    /// divides anew. Returns True if that was the last time; after that it does nothing. All ranks call it together.
    fn iterate(&self, kernel: &Bound<'_, PyAny>) -> Result<bool, RaisedError> {
        let mut state = self.0.borrow()?;
        let PartitionState { partition, raised } = &mut *state;
        let mut kernel_object = agree_on(&**partition.comm(), ObjectKernel::read(kernel))?;
        kernel_object.raised = raised.clone();
        let ended = run_detached(kernel.py(), || partition.iterate(&mut kernel_object));
        raised.settle(ended)
    }

    /// True if there is nothing more to measure.
    #[getter]
    fn ended(&self) -> Result<bool, RaisedError> {
        Ok(self.0.borrow()?.partition.has_ended())
    }

    /// The units of each rank: of the division that was measured last, and at the end those of the result.
    #[getter]
    fn units(&self) -> Result<Vec<u64>, RaisedError> {
        Ok(self.0.borrow()?.partition.units().to_vec())
    }

    /// The seconds of each rank for its units.
    #[getter]
    fn times(&self) -> Result<Vec<f64>, RaisedError> {
        Ok(self.0.borrow()?.partition.times_s().to_vec())
    }
}
