//! The threads of a device.

use crate::DeviceError;
use crate::topology::{CoreInfo, Topology};
use rayon::{ThreadPool, ThreadPoolBuilder};

/// Starts the `count >= 1` threads of the device called `name`.
///
/// # Errors
/// [`DeviceError::Config`] if the system starts none.
pub fn start_threads(name: &str, count: usize) -> Result<ThreadPool, DeviceError> {
    let thread_name = name.to_owned();
    ThreadPoolBuilder::new()
        .num_threads(count)
        .thread_name(move |i| format!("{thread_name}-{i}"))
        .build()
        .map_err(|error| DeviceError::Config {
            device: name.to_owned(),
            reason: format!("cannot start {count} threads: {error}"),
        })
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
