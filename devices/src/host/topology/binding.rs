//! Binding threads to cores.

use super::{CoreInfo, Topology, set_indices};
use crate::contract::DeviceError;
use hwlocality::cpu::binding::CpuBindingFlags;
use hwlocality::cpu::cpuset::CpuSet;
use std::marker::PhantomData;
use std::sync::Arc;

impl Topology {
    /// Binds the calling thread to the processing units of `core`.
    ///
    /// # Errors
    /// Returns [`DeviceError::Binding`] if the core is not of this machine (hwloc would pretend to succeed), or the
    /// system refuses.
    pub fn bind_current_thread(&self, core: &CoreInfo) -> Result<(), DeviceError> {
        self.bind_to_units(&core.pus)
            .map_err(|reason| DeviceError::Binding { core: core.core, reason })
    }

    /// Binds the calling thread to these processing units together.
    ///
    /// # Errors
    /// Returns [`DeviceError::BindingTogether`] if the topology is another machine's, or the system refuses.
    pub(crate) fn bind_current_thread_to_units(&self, units: &[u32]) -> Result<(), DeviceError> {
        self.bind_to_units(units)
            .map_err(|reason| DeviceError::BindingTogether { units: units.to_vec(), reason })
    }

    /// Keeps the calling thread on the processing units that are left to this process, if others were
    /// [taken away](Topology::with_allowed_pus) from it, until the returned value is dropped. Threads that it starts meanwhile,
    /// also in libraries, stay there.
    ///
    /// A system that refuses lets the thread run where it may.
    pub fn confine_current_thread(self: &Arc<Self>) -> Option<ConfinedThread> {
        let units = self.units_left()?;
        let before = self.current_binding().ok()?;
        self.bind_to_units(&units).ok()?;
        Some(ConfinedThread { topology: Arc::clone(self), before, thread: PhantomData })
    }

    /// Binds the calling thread to the processing units of `core`, with the threads that it starts meanwhile, until the returned
    /// value is dropped.
    ///
    /// # Errors
    /// Returns [`DeviceError::BindingUnknown`] if the system does not tell where the thread may run, and the errors of
    /// [`bind_current_thread`](Self::bind_current_thread).
    pub fn confine_to_core(
        self: &Arc<Self>,
        core: &CoreInfo,
    ) -> Result<ConfinedThread, DeviceError> {
        let before = self.current_binding()?;
        self.bind_current_thread(core)?;
        Ok(ConfinedThread { topology: Arc::clone(self), before, thread: PhantomData })
    }

    fn bind_to_units(&self, units: &[u32]) -> Result<(), String> {
        let mut set = CpuSet::new();
        for &unit in units {
            set.set(unit as usize);
        }
        self.ask_this_system(|hwloc| hwloc.bind_cpu(&set, CpuBindingFlags::THREAD))
    }

    /// Returns the operating system's indices of the processing units that the calling thread may run on, ascending.
    ///
    /// # Errors
    /// Returns [`DeviceError::BindingUnknown`] if the system does not tell, or the topology is another machine's.
    pub(crate) fn current_binding(&self) -> Result<Vec<u32>, DeviceError> {
        self.ask_this_system(|hwloc| hwloc.cpu_binding(CpuBindingFlags::THREAD))
            .map(|set| set_indices(&set))
            .map_err(DeviceError::BindingUnknown)
    }
}

/// The calling thread on some processing units, until this value is dropped.
#[must_use]
pub struct ConfinedThread {
    topology: Arc<Topology>,
    /// The units where it may run otherwise.
    before: Vec<u32>,
    /// It is another thread's binding elsewhere.
    thread: PhantomData<*const ()>,
}

impl Drop for ConfinedThread {
    fn drop(&mut self) {
        if let Err(reason) = self.topology.bind_to_units(&self.before) {
            tracing::warn!(reason, "the calling thread stays on some cores");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_bound_where_it_was_asked_to() {
        let topology = Topology::discover().unwrap();
        if !topology.is_this_system() {
            // HWLOC_SYNTHETIC or HWLOC_XMLFILE is set, so there is nothing to bind to.
            return;
        }
        for core in topology.cores() {
            let bound = std::thread::scope(|scope| {
                scope
                    .spawn(|| {
                        topology.bind_current_thread(&core).unwrap();
                        topology.current_binding().unwrap()
                    })
                    .join()
                    .unwrap()
            });
            assert_eq!(bound, core.pus);
        }
    }

    #[test]
    fn a_thread_returns_from_the_core_that_it_was_confined_to() {
        let topology = Arc::new(Topology::discover().unwrap());
        if !topology.is_this_system() {
            return;
        }
        let before = topology.current_binding().unwrap();
        let core = topology.cores().swap_remove(0);
        let confined = topology.confine_to_core(&core).unwrap();
        assert_eq!(topology.current_binding().unwrap(), core.pus);
        drop(confined);
        assert_eq!(topology.current_binding().unwrap(), before);
    }

    #[test]
    fn another_machine_cannot_be_bound_to() {
        let topology = Topology::from_synthetic("core:2 pu:1").unwrap();
        let error = topology.bind_current_thread(&topology.cores()[1]).unwrap_err();
        assert!(matches!(error, DeviceError::Binding { core: 1, .. }));
        assert!(topology.current_binding().is_err());
    }
}
