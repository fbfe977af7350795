//! Products of whole numbers, of which every element is compared.

use serde::{Deserialize, Serialize};

use crate::contract::{Depth, DeviceError, PanelPair, View, ViewMut};
use crate::team::DeviceTeam;

/// Products that a device has computed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProductCount {
    /// Number of products of each core, and of calls of the library.
    pub all: u64,
    /// Number of wrong sums; each holds at least one wrong product.
    pub wrong: u64,
}

/// Rows, columns and inner dimensions of the products.
const SHAPES: [[usize; 3]; 7] = [
    [32, 32, 32],
    [64, 64, 64],
    [96, 96, 96],
    [48, 80, 64],
    [37, 53, 41],
    [96, 33, 72],
    [40, 96, 88],
];

/// Products of each shape that are summed before they are compared.
const TOGETHER: usize = 4;

/// Products of a round, in as many calls of the library. As many lie side by side for each core in one call, so that all cores of a
/// device take part: an update of few operations is left to one thread.
const PRODUCTS: usize = TOGETHER * SHAPES.len();

/// Fewest operations of such a call: from there a device takes its own threads, however few they are.
const FLOP_OF_OWN_THREADS: usize = 1 << 25;

/// The largest magnitude of an element: all sums are exact.
const LARGEST: u64 = 8;

/// A product with its result, on all devices at once, side by side as often as wanted.
struct KnownProduct {
    rows: usize,
    k: usize,
    slices: Vec<usize>,
    a: Vec<f64>,
    b: Vec<f64>,
    /// The result of one by columns.
    c: Vec<f64>,
}

impl KnownProduct {
    /// Draws the factors of a product that lies side by side so often on each device.
    fn new([rows, cols, k]: [usize; 3], widths: &[usize], seed: u64) -> Self {
        let mut state = seed;
        let mut draw =
            |count: usize| -> Vec<i32> { (0..count).map(|_| draw_whole(&mut state)).collect() };
        let (a, b) = (draw(rows * k), draw(k * cols));
        let c = b.chunks_exact(k).flat_map(|column| {
            let mut sums = vec![0_i32; rows];
            for (line, &factor) in a.chunks_exact(rows).zip(column) {
                sums.iter_mut().zip(line).for_each(|(sum, &element)| *sum += factor * element);
            }
            sums
        });
        let c = c.map(f64::from).collect();
        let [a, b] =
            [a, b].map(|elements| elements.into_iter().map(f64::from).collect::<Vec<f64>>());
        let slices: Vec<usize> = widths.iter().map(|&width| width * cols).collect();
        Self { rows, k, b: b.repeat(widths.iter().sum()), slices, a, c }
    }

    /// Has the devices sum this product `times` times; returns which sums were wrong.
    fn run(&self, team: &mut DeviceTeam, times: usize) -> Result<Vec<bool>, DeviceError> {
        let cols: usize = self.slices.iter().sum();
        let mut sums = vec![0.0; self.rows * cols];
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
            let mut elements = sums[own].iter().zip(self.c.iter().cycle());
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

/// Has all devices of a team that `works` multiply whole numbers in matrices of many shapes, until each of their cores has computed
/// `wanted` products, or `is_over`. Every element is compared with its exact value. A device that fails ends it; the counts so far
/// are returned with the error.
pub fn count_wrong_products(
    team: &mut DeviceTeam,
    works: &[bool],
    wanted: u64,
    is_over: &mut dyn FnMut() -> bool,
) -> (Vec<ProductCount>, Result<(), DeviceError>) {
    let mut counts = vec![ProductCount::default(); works.len()];
    if !works.contains(&true) {
        return (counts, Ok(()));
    }
    let cores: Vec<usize> = team.infos().iter().map(|info| info.cores.len().max(1)).collect();
    let mut known = Vec::new();
    for (seed, shape) in (1..).zip(SHAPES) {
        let least = FLOP_OF_OWN_THREADS.div_ceil(2 * shape.iter().product::<usize>());
        let widths = works.iter().zip(&cores);
        let [narrow, wide]: [Vec<usize>; 2] = [
            widths.clone().map(|(&works, _)| usize::from(works)).collect(),
            widths
                .map(|(&works, cores)| if works { least.max(PRODUCTS * cores) } else { 0 })
                .collect(),
        ];
        known.push([narrow, wide].map(|widths| KnownProduct::new(shape, &widths, seed)));
    }
    let mut round = 0;
    while round * PRODUCTS < wanted as usize && !is_over() {
        let [_, wide] = &known[round % known.len()];
        let runs = known.iter().map(|[narrow, _]| (narrow, TOGETHER)).chain([(wide, 1)]);
        for (product, times) in runs {
            match product.run(team, times) {
                Ok(wrong) => {
                    let counts = counts.iter_mut().zip(wrong);
                    counts.for_each(|(count, wrong)| count.wrong += u64::from(wrong));
                }
                Err(error) => return (counts, Err(error)),
            }
        }
        let counted = counts.iter_mut().zip(works).filter(|(_, works)| **works);
        counted.for_each(|(count, _)| count.all += PRODUCTS as u64);
        round += 1;
    }
    (counts, Ok(()))
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
        let workers = [0, 101, 0].map(|every| -> Box<dyn Worker> {
            let info = DeviceInfo::new("d", DeviceKind::Cpu, DeviceClock::Cores);
            Box::new(Forgetful { info, every, updates: 0 })
        });
        let mut team = DeviceTeam::new(workers.into()).unwrap();
        let works = [true, true, false];
        let (found, ended) = count_wrong_products(&mut team, &works, 300, &mut || false);
        ended.unwrap();
        assert!(found[0].all >= 300 && found[0].wrong == 0 && found[2].all == 0, "{found:?}");
        assert!((2..=4).contains(&found[1].wrong), "{found:?}");
        let (found, ended) = count_wrong_products(&mut team, &works, 900, &mut || true);
        assert!(ended.is_ok() && found == [ProductCount::default(); 3]);
    }

    #[test]
    fn whole_numbers_are_small_and_of_both_signs() {
        let mut state = 1;
        let drawn: Vec<i32> = (0..1000).map(|_| draw_whole(&mut state)).collect();
        assert!(drawn.iter().all(|number| number.unsigned_abs() as u64 <= LARGEST));
        assert!(drawn.iter().any(|number| *number < 0) && drawn.iter().any(|number| *number > 0));
    }
}
