//! Products of whole numbers, of which every element is compared.

use serde::{Deserialize, Serialize};

use crate::contract::{Depth, DeviceError, PanelPair, View, ViewMut};
use crate::team::DeviceTeam;

/// Products that a device has computed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProductCount {
    /// All of them.
    pub all: u64,
    /// Sums of products that were wrong: at least one product of each was.
    pub wrong: u64,
}

/// Rows, columns and inner dimensions of the products.
const SHAPES: [[usize; 3]; 8] = [
    [32, 32, 32],
    [64, 64, 64],
    [96, 96, 96],
    [48, 80, 64],
    [37, 53, 41],
    [96, 33, 72],
    [40, 96, 88],
    [512, 384, 256],
];

/// Products of a small shape that are summed before they are compared, and rounds of them for each of the large one.
const TOGETHER: usize = 16;
const SMALL_ROUNDS: usize = 8;

/// The largest magnitude of an element: all sums are exact.
const LARGEST: u64 = 8;

/// A product with its result, on all devices at once, each with its own columns.
struct KnownProduct {
    rows: usize,
    k: usize,
    slices: Vec<usize>,
    a: Vec<f64>,
    b: Vec<f64>,
    /// The result by columns.
    c: Vec<f64>,
}

impl KnownProduct {
    fn new([rows, cols, k]: [usize; 3], works: &[bool], seed: u64) -> Self {
        let slices: Vec<usize> = works.iter().map(|&works| if works { cols } else { 0 }).collect();
        let mut state = seed;
        let mut draw =
            |count: usize| -> Vec<i32> { (0..count).map(|_| draw_whole(&mut state)).collect() };
        let (a, b) = (draw(rows * k), draw(k * slices.iter().sum::<usize>()));
        let columns = b.chunks_exact(k);
        let c = columns.flat_map(|column| {
            let mut sums = vec![0_i32; rows];
            for (line, &factor) in a.chunks_exact(rows).zip(column) {
                sums.iter_mut().zip(line).for_each(|(sum, &element)| *sum += factor * element);
            }
            sums
        });
        let c = c.map(f64::from).collect();
        let [a, b] = [a, b].map(|elements| elements.into_iter().map(f64::from).collect());
        Self { rows, k, slices, a, b, c }
    }

    /// Has the devices sum this product so often; returns which of them were wrong.
    fn run(&self, team: &mut DeviceTeam, times: usize) -> Result<Vec<bool>, DeviceError> {
        let cols = self.slices.iter().sum();
        let mut sums = vec![0.0; self.c.len()];
        let mut c = ViewMut::new(&mut sums[..], self.rows, cols, self.rows);
        let panels: PanelPair<'_, f64> = (
            View::new(&self.a[..], self.rows, self.k, self.rows),
            View::new(&self.b[..], self.k, cols, self.k),
        );
        team.begin(c.reborrow(), &self.slices, Depth::of(self.k, times))?;
        for _ in 0..times {
            team.update(1.0, panels, None, c.reborrow(), &self.slices, &mut || false)?;
        }
        team.finish(c, &self.slices)?;
        let mut first = 0;
        let wrong = self.slices.iter().map(|columns| {
            let own = first..first + columns * self.rows;
            first = own.end;
            let mut elements = sums[own.clone()].iter().zip(&self.c[own]);
            elements.any(|(sum, once)| {
                // Zeros of both signs are equal.
                (sum + 0.0).to_bits() != (times as f64 * once + 0.0).to_bits()
            })
        });
        Ok(wrong.collect())
    }
}

/// Returns a whole number that looks random: `SplitMix64`.
fn draw_whole(state: &mut u64) -> i32 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ (mixed >> 31)) % (2 * LARGEST + 1)) as i32 - LARGEST as i32
}

/// Has all devices of a team that `works` multiply whole numbers, small matrices of many shapes and now and then large ones, until
/// each has computed `wanted` products or `is_over`. Every element is compared with its exact value.
///
/// # Errors
/// Returns [`DeviceError::Device`] with the first device that failed, and the other errors of [`DeviceTeam::update`].
pub fn count_wrong_products(
    team: &mut DeviceTeam,
    works: &[bool],
    wanted: u64,
    is_over: &mut dyn FnMut() -> bool,
) -> Result<Vec<ProductCount>, DeviceError> {
    let mut counts = vec![ProductCount::default(); works.len()];
    let known: Vec<KnownProduct> =
        (1..).zip(SHAPES).map(|(seed, shape)| KnownProduct::new(shape, works, seed)).collect();
    let Some((large, small)) = known.split_last().filter(|_| works.contains(&true)) else {
        return Ok(counts);
    };
    let mut all = 0;
    for round in 0.. {
        if all >= wanted || (round > 0 && is_over()) {
            break;
        }
        let rounds = small.iter().map(|product| (product, TOGETHER));
        let is_large = round % SMALL_ROUNDS == 0;
        for (product, times) in rounds.chain(is_large.then_some((large, 1))) {
            let wrong = product.run(team, times)?;
            all += times as u64;
            for ((count, wrong), _) in
                counts.iter_mut().zip(wrong).zip(works).filter(|(_, works)| **works)
            {
                count.all += times as u64;
                count.wrong += u64::from(wrong);
            }
        }
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{
        DeviceClock, DeviceInfo, DeviceKind, Scalar, UpdateTime, Updates, Worker,
    };

    /// A device whose every n-th update leaves one element as it was; never for 0.
    struct Forgetful {
        info: DeviceInfo,
        every: u64,
        updates: u64,
    }

    impl Worker for Forgetful {
        fn info(&self) -> &DeviceInfo {
            &self.info
        }
    }

    impl<T: Scalar> Updates<T> for Forgetful {
        fn begin(&mut self, _c: ViewMut<'_, T>, _depth: Depth) -> Result<UpdateTime, DeviceError> {
            Ok(UpdateTime::default())
        }

        fn update_ahead(
            &mut self,
            alpha: T,
            (a, b): PanelPair<'_, T>,
            _next: Option<PanelPair<'_, T>>,
            mut c: ViewMut<'_, T>,
        ) -> Result<UpdateTime, DeviceError> {
            let forgotten = *c.element_mut(1, 1);
            for column in 0..c.cols() {
                for (line, factor) in b.col(column).iter().enumerate() {
                    let sums = c.col_mut(column).iter_mut().zip(a.col(line));
                    sums.for_each(|(sum, element)| *sum = *sum + alpha * *element * *factor);
                }
            }
            self.updates += 1;
            if self.every > 0 && self.updates.is_multiple_of(self.every) {
                *c.element_mut(1, 1) = forgotten;
            }
            Ok(UpdateTime::default())
        }

        fn finish(&mut self, _c: ViewMut<'_, T>) -> Result<UpdateTime, DeviceError> {
            Ok(UpdateTime::default())
        }
    }

    #[test]
    fn a_device_that_computes_wrongly_now_and_then_is_found() {
        let workers = [0, 301, 0].map(|every| -> Box<dyn Worker> {
            let info = DeviceInfo::new("d", DeviceKind::Cpu, DeviceClock::Cores);
            Box::new(Forgetful { info, every, updates: 0 })
        });
        let mut team = DeviceTeam::new(workers.into()).unwrap();
        let works = [true, true, false];
        let found = count_wrong_products(&mut team, &works, 900, &mut || false).unwrap();
        assert!(found[0].all >= 900 && found[0].wrong == 0 && found[2].all == 0, "{found:?}");
        assert!((2..=4).contains(&found[1].wrong), "{found:?}");
        // There is a round even if there is no time.
        let found = count_wrong_products(&mut team, &works, 900, &mut || true).unwrap();
        assert!(found[0].all > 0);
    }

    #[test]
    fn whole_numbers_are_small_and_of_both_signs() {
        let mut state = 1;
        let drawn: Vec<i32> = (0..1000).map(|_| draw_whole(&mut state)).collect();
        assert!(drawn.iter().all(|number| number.unsigned_abs() as u64 <= LARGEST));
        assert!(drawn.iter().any(|number| *number < 0) && drawn.iter().any(|number| *number > 0));
    }
}
