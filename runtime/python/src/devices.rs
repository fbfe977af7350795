//! The devices of a host, and measurements of them.

use isochron::devices::with_element;
use isochron::devices::{DeviceInfo, Node};
use isochron::hierarchy::model::{Fit, PiecewiseFpm};
use isochron::prelude::{BlasChoice, ElementType, Error, Grouping, MeasureConfig};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::read_element;
use crate::errors::{Count, RaisedError};
use crate::models::PyModel;
use crate::settings::{configure, read_keywords, read_setting};
use crate::thread_bound::{ThreadBound, run_detached};

/// A device of a node: a group of CPU cores, or a GPU with its host core.
#[pyclass(name = "Device", module = "isochron", frozen, get_all)]
pub struct PyDevice {
    /// Name, unique in its node.
    name: String,
    /// "cpu" or "cuda".
    kind: &'static str,
    /// The library that does the arithmetic, with its version.
    blas: String,
    /// Logical numbers of the cores that it uses.
    cores: Vec<u32>,
}

impl From<&DeviceInfo> for PyDevice {
    fn from(info: &DeviceInfo) -> Self {
        Self {
            name: info.name.clone(),
            kind: info.kind.name(),
            blas: info.blas.clone(),
            cores: info.cores.clone(),
        }
    }
}

#[pymethods]
impl PyDevice {
    fn __repr__(&self) -> String {
        format!("<Device {} with {}>", self.name, self.blas)
    }
}

/// The devices of this host, to be measured outside of a session.
///
/// `grouping` says which cores form a device: "auto", "core", "l3", "numa" or "all". `blas` is the library of the CPU devices.
#[pyclass(name = "Node", module = "isochron", frozen)]
pub struct PyNode(ThreadBound<Node>);

#[pymethods]
impl PyNode {
    #[new]
    #[pyo3(signature = (*, grouping=None, blas=None))]
    fn new(
        py: Python<'_>,
        grouping: Option<&str>,
        blas: Option<&str>,
    ) -> Result<Self, RaisedError> {
        let grouping = read_setting("grouping", grouping)?.unwrap_or(Grouping::Auto);
        let blas = read_setting("blas", blas)?.unwrap_or(BlasChoice::Auto);
        let node = run_detached(py, || Node::discover(grouping, &blas)).map_err(Error::from)?;
        Ok(Self(ThreadBound::new("node", node)))
    }

    /// The devices.
    #[getter]
    fn devices(&self) -> Result<Vec<PyDevice>, RaisedError> {
        let node = self.0.borrow()?;
        Ok(node.devices().iter().map(PyDevice::from).collect())
    }

    /// Unusual findings about the host, such as a GPU that cannot be used: one line each.
    #[getter]
    fn notices(&self) -> Result<Vec<String>, RaisedError> {
        Ok(self.0.borrow()?.notices().to_vec())
    }

    /// Measures the update `C += A·B` with `rows` rows of A and an inner dimension of `k`, on all devices together, for each
    /// of these numbers of columns. Returns a model of each device, in columns.
    ///
    /// The settings are `confidence`, `precision`, `min_reps`, `max_reps` and `max_seconds`.
    #[pyo3(signature = (rows, k, cols, *, dtype=None, **settings))]
    fn measure(
        &self,
        py: Python<'_>,
        rows: Count,
        k: Count,
        cols: Vec<Count>,
        dtype: Option<&Bound<'_, PyAny>>,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> Result<Vec<PyModel>, RaisedError> {
        let element = dtype.map(|dtype| read_element("dtype", dtype));
        let element = element.transpose()?.unwrap_or_default();
        let cols: Vec<usize> = cols.into_iter().map(|cols| cols.0).collect();
        let config: MeasureConfig = configure(read_keywords(settings)?)?;
        let mut node = self.0.borrow()?;
        let models =
            run_detached(py, || measure_typed(&mut node, element, rows.0, k.0, &cols, &config))?;
        Ok(models
            .into_iter()
            .map(|model| PyModel::from_points(model.points().to_vec(), Fit::PiecewiseSpeed))
            .collect::<Result<_, _>>()?)
    }
}

fn measure_typed(
    node: &mut Node,
    element: ElementType,
    rows: usize,
    k: usize,
    cols: &[usize],
    config: &MeasureConfig,
) -> Result<Vec<PiecewiseFpm>, Error> {
    let models = with_element!(element, T => node.measure::<T>(rows, k, cols, config));
    Ok(models?)
}
