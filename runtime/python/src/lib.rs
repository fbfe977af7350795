//! The Python package `isochron`.
//!
//! It calls the front door of the Rust library and nothing behind it. `arrays` turns NumPy arrays into slices by the
//! buffer protocol, which needs neither NumPy's headers nor a copy; `communicator` adopts communicators of mpi4py;
//! `thread_bound` keeps values on the thread that MPI allows. Everything that waits or computes does so without the
//! interpreter's lock.
//!
//! Calls that all ranks make check their arguments first, agree on the outcome, and only then act, as in the library.

mod arrays;
mod communicator;
mod devices;
mod distribution;
mod errors;
mod models;
mod moving;
mod partition;
mod predict;
mod product;
mod rebalancer;
mod session;
mod session_state;
mod settings;
mod split;
mod thread_bound;

/// The native part of the package.
#[pyo3::pymodule]
mod _isochron {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::devices::{PyDevice, PyNode};
    #[pymodule_export]
    use crate::distribution::PyDistribution;
    use crate::errors::input_error;
    #[pymodule_export]
    use crate::errors::{IsochronError, RunError};
    #[pymodule_export]
    use crate::models::{PyModel, PySurface, PyTimeFunction};
    #[pymodule_export]
    use crate::partition::PyDynamicPartition;
    #[pymodule_export]
    use crate::predict::{
        PyChoice, PyPlatform, PyPredictedRun, PyScheme, choose_algorithm, make_group, predict_time,
        search_plan,
    };
    #[pymodule_export]
    use crate::product::{PyLastRun, PyProduct};
    #[pymodule_export]
    use crate::rebalancer::{PyRebalancer, PyStep, measure_move};
    #[pymodule_export]
    use crate::session_state::PySession;
    #[pymodule_export]
    use crate::split::{PyLimits, PyPartition, split_units};

    #[pymodule_init]
    fn begin_module(module: &Bound<'_, PyModule>) -> PyResult<()> {
        // A program may fork before it makes a session.
        #[cfg(feature = "mpi")]
        isochron::comm::mpi::meet_mpi();
        module.add("InputError", input_error(module.py())?)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
