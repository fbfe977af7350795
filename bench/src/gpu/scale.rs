//! How large things are: what the GPU's memory holds several times, and what it computes in a moment.

use isochron_devices::{CudaInfo, ElementType, memory_available_bytes};

use crate::direct::Shape;

/// The largest side of a C that stays on the GPU.
const LARGEST: usize = 16_384;
/// What an update of that C is to take at most, in seconds, with [`PANEL`].
const UPDATE_S: f64 = 0.1;
/// Assumed of a GPU that is not known, flop/s.
const UNKNOWN_FLOPS_PER_S: f64 = 10e12;
/// The inner dimension of an update, as wide as multiplications make panels.
const PANEL: usize = 512;

/// Sizes of the campaign.
#[derive(Debug, Clone)]
pub struct Scale {
    /// The side of the C that stays on the GPU.
    pub side: usize,
    /// Inner dimension of an update.
    pub panel: usize,
    /// Block of the balance in jobs.
    pub block: usize,
    /// Bytes that are copied to find out what the link carries.
    pub copy_bytes: u64,
    /// Updates of a job after the first one.
    pub updates: usize,
    /// Whether they are tiny.
    pub small: bool,
    /// Whether the side was given, whatever memory seems to be there.
    pub given: bool,
}

impl Scale {
    /// For this GPU; tiny where that is asked for, or with the `side` that was given.
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
        // C and both panels, with room for as much again: the parts hold other things beside it.
        let memory = gpu
            .memory_bytes
            .min(memory_available_bytes().unwrap_or(u64::MAX) / 4);
        let fitting = ((memory / 16) as f64).sqrt();
        let peak = gpu.peak_f64_flops_per_s.unwrap_or(UNKNOWN_FLOPS_PER_S);
        let quick = (UPDATE_S * peak / (2.0 * PANEL as f64)).sqrt();
        let fitting = (fitting.min(quick) as usize).min(LARGEST);
        // In whole panels, and such that a part of it is one.
        let side_is_given = side.is_some();
        let side = side.unwrap_or(fitting).max(1024) / 1024 * 1024;
        Self {
            side,
            panel: PANEL,
            block: 128,
            copy_bytes: 256 << 20,
            updates: 32,
            small,
            given: side_is_given,
        }
    }

    /// The shapes of updates with C on the GPU: squares, with panels of several widths, and slices.
    pub fn resident(&self) -> Vec<(ElementType, Shape)> {
        let (side, panel) = (self.side, self.panel);
        let shape = |m, n, k| Shape { m, n, k };
        let mut shapes: Vec<(ElementType, Shape)> = [panel / 4, panel / 2, panel, 2 * panel]
            .map(|k| (ElementType::F64, shape(side, side, k)))
            .to_vec();
        let others = [
            (ElementType::F64, shape(side / 2, side / 2, panel)),
            (ElementType::F64, shape(side, side / 4, panel)),
            (ElementType::F64, shape(side, side / 16, panel)),
            (ElementType::F32, shape(side, side, panel)),
            (ElementType::F32, shape(side, side, 2 * panel)),
            (ElementType::F32, shape(side, side / 4, panel)),
        ];
        shapes.extend(others);
        shapes
    }

    /// The whole product whose C does not fit: as large as the host has memory for twice, and for panels as large as C. Its
    /// tiles are so large that a link of 50 GB/s keeps up with 50 Tflop/s.
    pub fn out_of_core(&self) -> Shape {
        let mut side = 2 * self.side;
        let bytes = |side: usize| 8.0 * (side * side + 2 * side * self.side) as f64;
        let available = memory_available_bytes().unwrap_or(u64::MAX) as f64;
        while !self.given && 3.0 * bytes(side) > available && side > 4 * self.panel {
            side -= self.panel;
        }
        Shape {
            m: side,
            n: side,
            k: self.side / self.panel * self.panel,
        }
    }

    /// Sides of the squares that models are measured at, whole blocks each.
    pub fn model_sides(&self) -> Vec<usize> {
        let block = self.model_block();
        let steps = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32];
        let sides = steps.into_iter().map(|step| step * block);
        // The cores take long for larger ones.
        let largest = self.side / 4 * 3;
        sides.take_while(|&side| side <= largest).collect()
    }

    /// The block of the models.
    pub fn model_block(&self) -> usize {
        self.panel
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_whole_blocks() {
        let scale = Scale {
            side: 16_384,
            panel: PANEL,
            block: 128,
            copy_bytes: 0,
            updates: 8,
            small: false,
            given: true,
        };
        let sides = scale.model_sides();
        assert_eq!((sides[0], sides.last()), (512, Some(&12_288)));
        assert!(scale.resident().iter().all(|(_, shape)| shape.n % 128 == 0));
        let whole = scale.out_of_core();
        assert_eq!((whole.m, whole.n, whole.k), (32_768, 32_768, 16_384));
    }
}
