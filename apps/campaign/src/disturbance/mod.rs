//! Disturbances of a repetition: others on this host's processors and GPUs, and heat.

mod gpus;
mod processors;

use std::time::Duration;

use self::gpus::{GpuState, Gpus};
use self::processors::ProcessorTimes;

/// A look at this host before and after each repetition.
#[derive(Debug)]
pub(crate) struct Lookout {
    gpus: Gpus,
}

/// The state of this host at a moment.
#[derive(Debug)]
pub(crate) struct HostState {
    processors: ProcessorTimes,
    gpus: Vec<GpuState>,
}

impl Lookout {
    pub fn open() -> Self {
        Self { gpus: Gpus::open() }
    }

    pub fn look(&self) -> HostState {
        HostState {
            processors: ProcessorTimes::read(),
            gpus: self.gpus.read(),
        }
    }
}

impl HostState {
    /// Lists the reasons not to trust what took this time from `before` to this state.
    pub fn list_disturbances(&self, before: &Self, took: Duration) -> Vec<String> {
        let of_processors = self.processors.describe_others(&before.processors, took);
        let of_gpus = self.gpus.iter().zip(&before.gpus).enumerate();
        let of_gpus = of_gpus.flat_map(|(gpu, (after, before))| after.describe(before, gpu, took));
        of_processors.into_iter().chain(of_gpus).collect()
    }
}
