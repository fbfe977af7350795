//! The sizes of the campaign: several of them fit the GPU's memory, and each is computed in a moment.

use isochron_devices::{CudaInfo, ElementType, memory_available_bytes};
use serde::{Deserialize, Serialize};

use crate::shape::ProductShape;

/// The largest side of a C that stays on the GPU.
const LARGEST: usize = 16_384;
/// The longest update of that C with [`PANEL`], in seconds.
const UPDATE_S: f64 = 0.1;
/// The assumed speed of an unknown GPU, in flop/s.
const UNKNOWN_FLOPS_PER_S: f64 = 10e12;
/// The inner dimension of an update, as wide as multiplications make panels.
const PANEL: usize = 512;

/// Sizes of the campaign.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct GpuScale {
    /// The side of the C that stays on the GPU.
    pub side: usize,
    /// Inner dimension of an update.
    pub panel: usize,
    /// Block size of multiplications.
    pub block: usize,
    /// Bytes of the copies that measure the link.
    pub copy_bytes: u64,
    /// Updates of a job after the first one.
    pub updates: usize,
    /// `true` for tiny sizes.
    pub small: bool,
    /// `true` if the side was given, so that free memory does not limit it.
    pub given: bool,
}

impl GpuScale {
    /// Chooses the sizes for this GPU: tiny ones, or with the given `side`, or the largest that fit.
    pub fn new(gpu: &CudaInfo, small: bool, side: Option<usize>) -> Self {
        if small {
            return Self {
                side: 192,
                panel: 32,
                block: 32,
                copy_bytes: 1 << 18,
                updates: 3,
                small,
                given: false,
            };
        }
        // C and both panels, with room for as much again: the parts hold other matrices too.
        let memory = gpu
            .memory_bytes
            .min(memory_available_bytes().unwrap_or(u64::MAX) / 4);
        let fitting = ((memory / 16) as f64).sqrt();
        let peak = gpu.peak_f64_flops_per_s.unwrap_or(UNKNOWN_FLOPS_PER_S);
        let quick = (UPDATE_S * peak / (2.0 * PANEL as f64)).sqrt();
        let fitting = (fitting.min(quick) as usize).min(LARGEST);
        Self {
            // A multiple of two panels, so that half of it is whole panels too.
            side: side.unwrap_or(fitting).max(1024) / 1024 * 1024,
            panel: PANEL,
            block: 128,
            copy_bytes: 256 << 20,
            updates: 32,
            small,
            given: side.is_some(),
        }
    }

    /// Returns the shapes of updates with C on the GPU: squares with panels of several widths, and slices.
    pub fn resident_shapes(&self) -> Vec<(ElementType, ProductShape)> {
        let (side, panel) = (self.side, self.panel);
        let (f64, f32) = (ElementType::F64, ElementType::F32);
        [
            (f64, side, side, panel / 4),
            (f64, side, side, panel / 2),
            (f64, side, side, panel),
            (f64, side, side, 2 * panel),
            (f64, side / 2, side / 2, panel),
            (f64, side, side / 4, panel),
            (f64, side, side / 16, panel),
            (f32, side, side, panel),
            (f32, side, side, 2 * panel),
            (f32, side, side / 4, panel),
        ]
        .map(|(element, m, n, k)| (element, ProductShape { m, n, k }))
        .to_vec()
    }

    /// Returns the shape of a product whose C does not fit: the host has memory for three times its matrices. Its tiles
    /// are so large that a link of 50 GB/s keeps up with 50 Tflop/s.
    pub fn out_of_core_shape(&self) -> ProductShape {
        let mut side = 2 * self.side;
        let available = memory_available_bytes().unwrap_or(u64::MAX);
        while !self.given
            && side > 4 * self.panel
            && 3 * 8 * (side * side + 2 * side * self.side) as u64 > available
        {
            side -= self.panel;
        }
        ProductShape {
            m: side,
            n: side,
            k: self.side / self.panel * self.panel,
        }
    }

    /// Returns the blocks of the largest square that models are measured at, each as wide as a panel.
    pub fn model_blocks(&self) -> usize {
        // The cores take long for larger ones.
        let largest = self.side / 4 * 3;
        (largest / self.panel).clamp(1, 32).pow(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_whole_blocks() {
        let scale = GpuScale {
            side: 16_384,
            panel: PANEL,
            block: 128,
            copy_bytes: 0,
            updates: 8,
            small: false,
            given: true,
        };
        assert_eq!(scale.model_blocks(), 24 * 24);
        assert!(
            scale
                .resident_shapes()
                .iter()
                .all(|(_, shape)| shape.n % 128 == 0)
        );
        let whole = scale.out_of_core_shape();
        assert_eq!((whole.m, whole.n, whole.k), (32_768, 32_768, 16_384));
    }
}
