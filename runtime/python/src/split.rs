//! Splitting units by measured points.

use std::collections::BTreeSet;

use isochron::hierarchy::partition::{Limits, Memory};
use isochron::hierarchy::{SplitOptions, split};
use pyo3::prelude::*;

use crate::errors::{Count, Number, RaisedError, describe, read_units};
use crate::models::PyModel;

/// Limits of a device: the most units, sizes that it must not get (for "hpopta"), and its memory as
/// `(bytes_per_unit, fixed_bytes, available_bytes)`.
#[pyclass(name = "Limits", module = "isochron", frozen, from_py_object)]
#[derive(Clone)]
pub struct PyLimits(Limits);

#[pymethods]
impl PyLimits {
    #[new]
    #[pyo3(signature = (*, cap=None, forbidden=BTreeSet::new(), memory=None))]
    fn new(
        cap: Option<Count<u64>>,
        forbidden: BTreeSet<Count<u64>>,
        memory: Option<[Count<u64>; 3]>,
    ) -> Self {
        let memory = memory.map(|[bytes_per_unit, fixed_bytes, available_bytes]| Memory {
            bytes_per_unit: bytes_per_unit.0,
            fixed_bytes: fixed_bytes.0,
            available_bytes: available_bytes.0,
        });
        Self(Limits {
            cap: cap.map(|cap| cap.0),
            forbidden: forbidden.into_iter().map(|units| units.0).collect(),
            memory,
        })
    }

    /// The most units that cap and memory allow; None without either.
    #[getter]
    fn max_units(&self) -> Option<u64> {
        Some(self.0.max_units()).filter(|&units| units < u64::MAX)
    }
}

/// The units of each device, and the seconds that the models predict for them.
#[pyclass(name = "Partition", module = "isochron", frozen, get_all)]
pub struct PyPartition {
    /// Units of each device.
    units: Vec<u64>,
    /// Predicted seconds of each device.
    times: Vec<f64>,
}

#[pymethods]
impl PyPartition {
    fn __repr__(&self) -> String {
        format!("<Partition {:?}>", self.units)
    }
}

/// Splits `total` units over devices by their measured points, so that all finish together.
///
/// `points` has a list of `(units, seconds)`, or a `Model`, for each device. `fit` is the kind of model that is made of the
/// points; `partitioner` is "gpa" or "npa", or "hpopta" for times of any shape, with `fit="raw-piecewise"`. Units come in
/// multiples of `granule`. `limits` has `Limits` for each device.
#[pyfunction]
#[pyo3(name = "split", signature = (total, points, *, fit="piecewise-speed", partitioner="gpa", granule=1, limits=Vec::new()))]
pub fn split_units(
    total: Count<u64>,
    points: Vec<Bound<'_, PyAny>>,
    fit: &str,
    partitioner: &str,
    #[pyo3(from_py_with = read_units)] granule: u64,
    limits: Vec<PyLimits>,
) -> Result<PyPartition, RaisedError> {
    let options = SplitOptions {
        fit: fit.parse()?,
        partitioner: partitioner.parse()?,
        granule,
        limits: limits.into_iter().map(|limits| limits.0).collect(),
    };
    let points = points.iter().enumerate();
    let points = points.map(|(index, points)| read_points(index, points));
    let points = points.collect::<Result<Vec<_>, RaisedError>>()?;
    let points: Vec<&[(u64, f64)]> = points.iter().map(Vec::as_slice).collect();
    let parts = split(total.0, &points, &options)?;
    Ok(PyPartition { units: parts.units, times: parts.times_s })
}

/// Reads the points of a device: a model, or units and seconds.
fn read_points(index: usize, points: &Bound<'_, PyAny>) -> Result<Vec<(u64, f64)>, RaisedError> {
    if let Ok(model) = points.extract::<PyRef<'_, PyModel>>() {
        let measured = model.points.iter().filter(|point| point.reps > 0);
        return Ok(measured.map(|point| (point.d, point.t_s)).collect());
    }
    let read = points.extract::<Vec<(Count<u64>, Number)>>();
    Ok(read
        .map_err(|error| {
            let value = format!("{} for device {index}", describe(points));
            let reason = "use a Model, or a list of pairs of units (a whole number) and seconds";
            RaisedError::refuse_as(&error, "points", value, reason)
        })?
        .into_iter()
        .map(|(units, seconds)| (units.0, seconds.0))
        .collect())
}
