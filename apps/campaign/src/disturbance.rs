//! Disturbances of a repetition: other programs on this host's processors and GPUs, and heat.

use std::time::Instant;

use crate::gpus::{GpuReading, Gpus};
use crate::processors::ProcessorTimes;

/// The state of this host at a moment, which is read before and after each repetition.
#[derive(Debug)]
pub(crate) struct HostState {
    at: Instant,
    processors: ProcessorTimes,
    gpus: Vec<GpuReading>,
}

impl HostState {
    /// Reads the state.
    pub fn read(gpus: &Gpus) -> Self {
        Self { at: Instant::now(), processors: ProcessorTimes::read(), gpus: gpus.read() }
    }

    /// Lists the disturbances in the time from `before` to this state.
    pub fn list_disturbances(&self, before: &Self) -> Vec<String> {
        let time = self.at.duration_since(before.at);
        let of_processors = self.processors.describe_others(&before.processors, time);
        let of_gpus = self.gpus.iter().zip(&before.gpus).enumerate();
        let of_gpus = of_gpus.flat_map(|(gpu, (after, before))| after.describe(before, gpu, time));
        of_processors.into_iter().chain(of_gpus).collect()
    }
}
