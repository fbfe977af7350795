//! Measurements of a kernel on all ranks in step.

use std::sync::Arc;

use isochron_devices::internal::{RankNode, cpu_quota_cores, kernel_core};
use isochron_devices::kernel::{Kernel, KernelRun, OwnRun, RunQuota};
use isochron_devices::measure::{limit_run_s, measure_kernel};
use isochron_devices::topology::{ConfinedThread, CoreInfo, Topology};
use isochron_devices::{DeviceError, MeasureConfig};
use isochron_hierarchy::times::Measurement;

use super::BenchmarkConfig;
use crate::comm::{CollectiveCall, Comm, MeasureRounds, agree};
use crate::error::Error;

/// A rank's place on its host for kernels of the program.
#[derive(Clone, Default)]
pub(crate) struct KernelSeat {
    /// The core to which the thread is bound, if there is one.
    core: Option<(Arc<Topology>, CoreInfo)>,
    /// This rank's part of the host's CPU quota, in cores; `None` without one.
    quota_cores: Option<f64>,
}

impl KernelSeat {
    /// Takes a core of this rank's node. A node of devices that others have made has none.
    pub fn of_node(node: &RankNode) -> Self {
        let Some(host) = &node.host else {
            return Self::default();
        };
        let core = kernel_core(&host.topology, host.place);
        let ranks = node.threads.len().max(1) as f64;
        Self {
            core: core.map(|core| (Arc::clone(&host.topology), core)),
            quota_cores: cpu_quota_cores().map(|cores| cores / ranks),
        }
    }

    /// Measures `d` units of a kernel while all ranks do the same, in step.
    ///
    /// # Errors
    /// On every rank, returns the errors of [`measure_kernel`]; [`Error::Settings`] for ranks with different configurations.
    ///
    /// # Collective
    /// All ranks.
    pub fn measure(
        &self,
        comm: &dyn Comm,
        kernel: &mut dyn Kernel,
        d: u64,
        config: &BenchmarkConfig,
    ) -> Result<Measurement, Error> {
        let prepared = config.measure.validate();
        let prepared = prepared.and_then(|()| self.prepare(kernel, config)).map_err(Error::from);
        let call = CollectiveCall::new(comm, "benchmarking a kernel").with_fields(config);
        let (_call, (mut run, _confined)) = call.enter_with(prepared)?;
        let found = repeat_in_step(comm, &mut run, d, &config.measure, false);
        agree(comm, found.map_err(Error::from))
    }

    /// Binds the calling thread, and prepares the runs of a kernel.
    fn prepare<'k>(
        &self,
        kernel: &'k mut dyn Kernel,
        config: &BenchmarkConfig,
    ) -> Result<(OwnRun<'k>, Option<ConfinedThread>), DeviceError> {
        let core = self.core.as_ref().filter(|_| !config.unbound);
        let confined = core.map(|(topology, core)| topology.confine_to_core(core)).transpose()?;
        let name = kernel.name().to_owned();
        let run = OwnRun::new(&name, Box::new(kernel), limit_run_s(&config.measure))?;
        let quota = RunQuota {
            cores: self.quota_cores.unwrap_or(f64::INFINITY),
            has_threads: config.unbound,
        };
        Ok((run.with_quota(quota), confined))
    }
}

/// Measures `d` units of this rank's kernel while all ranks do the same, in step. A rank that `is_load` repeats as long
/// as the others need it to. Fails on this rank alone.
///
/// # Errors
/// On the rank that fails, returns the errors of [`measure_kernel`].
///
/// # Collective
/// All ranks.
pub fn repeat_in_step(
    comm: &dyn Comm,
    kernel: &mut dyn KernelRun,
    d: u64,
    config: &MeasureConfig,
    is_load: bool,
) -> Result<Measurement, DeviceError> {
    let mut rounds = MeasureRounds::new(comm);
    let found =
        measure_kernel(kernel, d, config, &mut |needed| rounds.ask_for_round(needed && !is_load));
    // A rank that has ended, or that failed, takes part too.
    while rounds.ask_for_round(false) {}
    found
}
