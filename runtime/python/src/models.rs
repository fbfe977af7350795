//! Performance models of measured points.

use isochron::hierarchy::model::{
    Fit, ModelError, Point, SpeedModel, Surface, SurfacePoint, TimeFunction,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::errors::{Count, Number, RaisedError, describe, read_units};

/// Reads a measured point: units and seconds, and if they are known the repetitions and the half-width of the mean's
/// confidence interval.
fn read_point(point: &Bound<'_, PyAny>) -> Result<Point, RaisedError> {
    read_numbers(point).map_err(|error| {
        let reason = "use units (a whole number) and seconds, or these with repetitions and half-width of the interval";
        RaisedError::refuse_as(&error, "points", describe(point), reason)
    })
}

fn read_numbers(point: &Bound<'_, PyAny>) -> PyResult<Point> {
    let numbers: Vec<Bound<'_, PyAny>> = point.extract()?;
    let (units, rest) = match &numbers[..] {
        [units, rest @ ..] => (units.extract::<Count<u64>>()?, rest),
        [] => return Err(PyValueError::new_err("it is empty")),
    };
    let (t_s, reps, ci_s) = match rest {
        [t_s] => (t_s.extract::<Number>()?, Count(1), Number(0.0)),
        [t_s, reps, ci_s] => (t_s.extract()?, reps.extract()?, ci_s.extract()?),
        _ => return Err(PyValueError::new_err("it has two or four numbers")),
    };
    Ok(Point { d: units.0, t_s: t_s.0, reps: reps.0, ci_s: ci_s.0 })
}

/// One size, or several.
enum PySizes {
    One(f64),
    Several(Vec<f64>),
}

impl<'a, 'py> FromPyObject<'a, 'py> for PySizes {
    type Error = PyErr;

    fn extract(sizes: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        match sizes.extract::<Number>() {
            Ok(size) => Ok(Self::One(size.0)),
            Err(error) if !error.is_instance_of::<PyTypeError>(sizes.py()) => Err(error),
            Err(_) => {
                let sizes: Vec<Number> = sizes.extract()?;
                Ok(Self::Several(sizes.into_iter().map(|size| size.0).collect()))
            }
        }
    }
}

/// The value at one size, or at each of several.
#[derive(IntoPyObject)]
enum PyValues {
    One(f64),
    Several(Vec<f64>),
}

impl PySizes {
    fn evaluate(self, value: impl Fn(f64) -> f64) -> PyValues {
        match self {
            PySizes::One(size) => PyValues::One(value(size)),
            PySizes::Several(sizes) => PyValues::Several(sizes.into_iter().map(value).collect()),
        }
    }
}

/// The speed of a device as a function of the size, from measured points.
///
/// `fit` is "piecewise-speed" (linear in speed, in admissible shape), "piecewise-time" (linear in time, increasing), "akima"
/// (smooth), "raw-piecewise" (through every point) or "cpm" (one speed for all sizes).
#[pyclass(name = "Model", module = "isochron", frozen)]
pub struct PyModel {
    pub(crate) points: Vec<Point>,
    fit: Fit,
}

impl PyModel {
    /// Keeps points that make a model.
    pub(crate) fn from_points(points: Vec<Point>, fit: Fit) -> Result<Self, ModelError> {
        fit.model(&points)?;
        Ok(Self { points, fit })
    }

    /// Makes the model. It costs no more than a few evaluations.
    fn make(&self) -> Result<Box<dyn SpeedModel>, RaisedError> {
        Ok(self.fit.model(&self.points)?)
    }
}

#[pymethods]
impl PyModel {
    #[new]
    #[pyo3(signature = (points, fit="piecewise-speed"))]
    fn new(points: Vec<Bound<'_, PyAny>>, fit: &str) -> Result<Self, RaisedError> {
        let points = points.iter().map(read_point);
        let points = points.collect::<Result<_, RaisedError>>()?;
        Ok(Self::from_points(points, fit.parse()?)?)
    }

    /// The points: units, seconds, repetitions and half-width of the confidence interval.
    #[getter]
    fn points(&self) -> Vec<(u64, f64, u32, f64)> {
        self.points.iter().map(|point| (point.d, point.t_s, point.reps, point.ci_s)).collect()
    }

    /// The kind of the model.
    #[getter]
    fn fit(&self) -> String {
        self.fit.to_string()
    }

    /// Returns the units per second at a size, or at each of several.
    fn speed(&self, sizes: PySizes) -> Result<PyValues, RaisedError> {
        let model = self.make()?;
        Ok(sizes.evaluate(|size| model.speed(size)))
    }

    /// Returns the seconds that a size takes, or each of several.
    fn time(&self, sizes: PySizes) -> Result<PyValues, RaisedError> {
        let model = self.make()?;
        Ok(sizes.evaluate(|size| model.time_s(size)))
    }

    /// Returns the units that are done within some seconds.
    fn units_within(&self, seconds: Number) -> Result<f64, RaisedError> {
        Ok(self.make()?.units_within(seconds.0))
    }

    fn __repr__(&self) -> String {
        format!("<Model {} of {} points>", self.fit, self.points.len())
    }
}

/// The speed of a device as a function of the height and the width of a rectangle, from measured points
/// `(height, width, seconds)`.
#[pyclass(name = "Surface", module = "isochron", frozen)]
pub struct PySurface(Surface);

#[pymethods]
impl PySurface {
    #[new]
    fn new(points: Vec<(Count<u64>, Count<u64>, Number)>) -> Result<Self, RaisedError> {
        let points = points.into_iter().map(|(m, n, t_s)| SurfacePoint {
            m: m.0,
            n: n.0,
            t_s: t_s.0,
            reps: 1,
            ci_s: 0.0,
        });
        Ok(Self(Surface::from_points(points.collect())?))
    }

    /// Returns the units per second: blocks of the rectangle.
    fn speed(&self, height: Number, width: Number) -> f64 {
        self.0.speed(height.0, width.0)
    }

    /// Returns the seconds that a rectangle takes.
    fn time(&self, height: Number, width: Number) -> f64 {
        self.0.time_s(height.0, width.0)
    }
}

/// Seconds at some sizes `(units, seconds)`, all multiples of a granule, without any assumption on the sizes between.
#[pyclass(name = "TimeFunction", module = "isochron", frozen)]
pub struct PyTimeFunction(TimeFunction);

#[pymethods]
impl PyTimeFunction {
    #[new]
    #[pyo3(signature = (points, granule=1))]
    fn new(
        points: Vec<(Count<u64>, Number)>,
        #[pyo3(from_py_with = read_units)] granule: u64,
    ) -> Result<Self, RaisedError> {
        let points = points.into_iter();
        let points = points.map(|(units, seconds)| (units.0, seconds.0));
        Ok(Self(TimeFunction::new(granule, points.collect())?))
    }

    /// The points, ascending in units.
    #[getter]
    fn points(&self) -> Vec<(u64, f64)> {
        self.0.points().to_vec()
    }

    /// The largest size.
    #[getter]
    fn max_units(&self) -> u64 {
        self.0.max_units()
    }

    /// Returns the seconds that a size takes, or None if it is none of the sizes.
    fn time(&self, units: Count<u64>) -> Option<f64> {
        self.0.time_s(units.0)
    }
}
