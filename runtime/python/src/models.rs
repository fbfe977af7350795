//! Performance models of measured points.

use isochron::hierarchy::model::{
    Fit, ModelError, Point, SpeedModel, Surface, SurfacePoint, TimeFunction,
};
use pyo3::prelude::*;

use crate::communicator::describe;
use crate::errors::RaisedError;

/// A measured point: units and seconds, and if they are known the repetitions and the half-width of the mean's confidence
/// interval.
#[derive(FromPyObject, Clone)]
pub(crate) enum GivenPoint {
    Whole(u64, f64, u32, f64),
    Plain(u64, f64),
}

impl From<GivenPoint> for Point {
    fn from(given: GivenPoint) -> Self {
        let (d, t_s, reps, ci_s) = match given {
            GivenPoint::Whole(d, t_s, reps, ci_s) => (d, t_s, reps, ci_s),
            GivenPoint::Plain(d, t_s) => (d, t_s, 1, 0.0),
        };
        Point { d, t_s, reps, ci_s }
    }
}

/// Reads a measured point.
fn read_point(point: &Bound<'_, PyAny>) -> Result<Point, RaisedError> {
    point.extract::<GivenPoint>().map(Point::from).map_err(|_| {
        let reason = "use units (a whole number) and seconds, or these with repetitions and half-width of the interval";
        RaisedError::refuse("points", describe(point), reason)
    })
}

/// One size, or several.
#[derive(FromPyObject)]
enum Sizes {
    One(f64),
    Several(Vec<f64>),
}

/// The value at one size, or at each of several.
#[derive(IntoPyObject)]
enum Values {
    One(f64),
    Several(Vec<f64>),
}

impl Sizes {
    fn evaluate(self, value: impl Fn(f64) -> f64) -> Values {
        match self {
            Sizes::One(size) => Values::One(value(size)),
            Sizes::Several(sizes) => Values::Several(sizes.into_iter().map(value).collect()),
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
        self.points
            .iter()
            .map(|point| (point.d, point.t_s, point.reps, point.ci_s))
            .collect()
    }

    /// The kind of the model.
    #[getter]
    fn fit(&self) -> String {
        self.fit.to_string()
    }

    /// Returns the units per second at a size, or at each of several.
    fn speed(&self, sizes: Sizes) -> Result<Values, RaisedError> {
        let model = self.make()?;
        Ok(sizes.evaluate(|size| model.speed(size)))
    }

    /// Returns the seconds that a size takes, or each of several.
    fn time(&self, sizes: Sizes) -> Result<Values, RaisedError> {
        let model = self.make()?;
        Ok(sizes.evaluate(|size| model.time_s(size)))
    }

    /// Returns the units that are done within some seconds.
    fn units_within(&self, seconds: f64) -> Result<f64, RaisedError> {
        Ok(self.make()?.units_within(seconds))
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
    fn new(points: Vec<(u64, u64, f64)>) -> Result<Self, RaisedError> {
        let points = points.into_iter().map(|(m, n, t_s)| SurfacePoint {
            m,
            n,
            t_s,
            reps: 1,
            ci_s: 0.0,
        });
        Ok(Self(Surface::from_points(points.collect())?))
    }

    /// Returns the units per second: blocks of the rectangle.
    fn speed(&self, height: f64, width: f64) -> f64 {
        self.0.speed(height, width)
    }

    /// Returns the seconds that a rectangle takes.
    fn time(&self, height: f64, width: f64) -> f64 {
        self.0.time_s(height, width)
    }
}

/// Seconds at some sizes `(units, seconds)`, all multiples of a granule, without any assumption on the sizes between.
#[pyclass(name = "TimeFunction", module = "isochron", frozen)]
pub struct PyTimeFunction(TimeFunction);

#[pymethods]
impl PyTimeFunction {
    #[new]
    #[pyo3(signature = (points, granule=1))]
    fn new(points: Vec<(u64, f64)>, granule: u64) -> Result<Self, RaisedError> {
        Ok(Self(TimeFunction::new(granule, points)?))
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
    fn time(&self, units: u64) -> Option<f64> {
        self.0.time_s(units)
    }
}
