//! The threads of a device, and the processing units on which they run.

use crate::contract::DeviceError;
use crate::host::topology::{CoreInfo, Topology};
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Starts the `count >= 1` threads of the device called `name`.
///
/// # Errors
/// Returns [`DeviceError::Threads`] if the system does not start them.
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
/// Returns [`DeviceError::BindingTogether`] if the system refuses.
pub fn confine_threads(pool: &ThreadPool, topology: &Topology) -> Result<(), DeviceError> {
    let Some(units) = topology.units_left() else {
        return Ok(());
    };
    pool.broadcast(|_| topology.bind_current_thread_to_units(&units)).into_iter().collect()
}

/// Binds each thread of the pool to its own core; there are as many cores as threads.
///
/// # Errors
/// Returns [`DeviceError::Binding`] if the system refuses.
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

/// The processing units on which one thread was seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    units: Mutex<BTreeSet<u32>>,
}

impl Seen {
    /// Notes the unit that the calling thread runs on now.
    pub(crate) fn note_unit(&self) {
        if let Some(unit) = current_unit() {
            let mut units = self.units.lock().unwrap_or_else(PoisonError::into_inner);
            units.insert(unit);
        }
    }

    /// Returns the noted units, ascending.
    pub(crate) fn units(&self) -> Vec<u32> {
        let units = self.units.lock().unwrap_or_else(PoisonError::into_inner);
        units.iter().copied().collect()
    }
}

/// Returns the processing unit that the calling thread runs on, by the operating system's index.
#[cfg(target_os = "linux")]
fn current_unit() -> Option<u32> {
    u32::try_from(rustix::thread::sched_getcpu()).ok()
}

#[cfg(not(target_os = "linux"))]
fn current_unit() -> Option<u32> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_seen_where_it_runs() {
        let seen = Seen::default();
        seen.note_unit();
        assert_eq!(seen.units().len(), usize::from(cfg!(target_os = "linux")));
    }
}
