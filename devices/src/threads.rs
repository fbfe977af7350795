//! The threads of a device.

use crate::DeviceError;
use crate::topology::{CoreInfo, Topology};
use rayon::{ThreadPool, ThreadPoolBuilder};

/// Starts the `count >= 1` threads of the device called `name`.
///
/// # Errors
/// [`DeviceError::Threads`] if the system does not start them.
pub fn start_threads(name: &str, count: usize) -> Result<ThreadPool, DeviceError> {
    let thread_name = name.to_owned();
    ThreadPoolBuilder::new()
        .num_threads(count)
        .thread_name(move |i| format!("{thread_name}-{i}"))
        .build()
        .map_err(|error| {
            DeviceError::no_threads(
                format!("a thread for each of the {count} cores of device {name}"),
                error,
            )
        })
}

/// Binds all threads of the pool together to the processing units that are left to this process, if others were
/// [taken away](Topology::with_allowed_pus) from it. Otherwise they run where the process may run.
///
/// # Errors
/// [`DeviceError::BindingTogether`] if the system refuses.
pub fn confine_threads(pool: &ThreadPool, topology: &Topology) -> Result<(), DeviceError> {
    let Some(units) = topology.units_left() else {
        return Ok(());
    };
    pool.broadcast(|_| topology.bind_current_thread_to_units(&units))
        .into_iter()
        .collect()
}

/// Binds each thread of the pool to its own core; there are as many cores as threads.
///
/// # Errors
/// [`DeviceError::Binding`] if the system refuses.
pub fn bind_threads(
    pool: &ThreadPool,
    topology: &Topology,
    cores: &[CoreInfo],
) -> Result<(), DeviceError> {
    // Every thread of the pool runs this exactly once, with its own index.
    pool.broadcast(|thread| topology.bind_current_thread(&cores[thread.index()]))
        .into_iter()
        .collect()
}
