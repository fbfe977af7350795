//! Every element type.

use isochron_devices::cuda::{CudaConfig, Engine, Placement};
use isochron_devices::{Depth, Element, View, ViewMut};
use num_complex::{Complex32, Complex64};

use super::case::integers;
use super::{assert_clean, first};
use crate::emulator::Control;

/// Every element type, on the GPU and streaming: with panels that come ahead of their update, and gathered for a visit.
pub fn elements(control: Option<&Control>) -> usize {
    for limit in [None, Some((8 * ROWS * COLS / 4) as u64)] {
        let config = CudaConfig {
            memory_limit_bytes: limit,
            // So slow a link that as much as possible is gathered, whatever the GPU.
            link_bytes_per_s: Some(1e6),
            ..CudaConfig::default()
        };
        let info = first().expect("a GPU");
        // One engine, which has jobs of each type in turn.
        let mut engine = Engine::new("cuda0", &info, &config).expect("an engine");
        let streams = limit.is_some();
        element::<f32>(&mut engine, streams, |x| x as f32);
        element::<Complex64>(&mut engine, streams, |x| Complex64::new(x, 1.0 - x));
        element::<f64>(&mut engine, streams, |x| x);
        element::<Complex32>(&mut engine, streams, |x| {
            Complex32::new(x as f32, 1.0 - x as f32)
        });
    }
    assert_clean(control, "elements");
    4
}

const ROWS: usize = 160;
const COLS: usize = 150;
/// The inner dimension of each update, and its factor: narrow ones in between, and a factor that changes in mid-visit.
const UPDATES: [(usize, f64); 9] = [
    (5, 2.0),
    (5, 2.0),
    (5, 2.0),
    (3, 2.0),
    (5, -1.0),
    (5, -1.0),
    (1, 3.0),
    (5, 3.0),
    (5, 3.0),
];
const K_MAX: usize = 5;

/// What is multiplied, and what comes of it.
struct Matrices<T> {
    a: Vec<T>,
    b: Vec<T>,
    c: Vec<T>,
    expected: Vec<T>,
}

impl<T: Element> Matrices<T> {
    fn new(number: fn(f64) -> T) -> Self {
        let matrix =
            |count, seed| -> Vec<T> { integers(count, seed).into_iter().map(number).collect() };
        let all = UPDATES.iter().map(|update| update.0).sum::<usize>();
        let (a, b, c) = (
            matrix(ROWS * all, 4),
            matrix(all * COLS, 5),
            matrix(ROWS * COLS, 6),
        );
        let factors = UPDATES.iter().flat_map(|&(k, alpha)| vec![alpha; k]);
        let mut expected = c.clone();
        for (p, alpha) in factors.enumerate() {
            for j in 0..COLS {
                for i in 0..ROWS {
                    let c = &mut expected[j * ROWS + i];
                    *c = *c + number(alpha) * (a[p * ROWS + i] * b[j * all + p]);
                }
            }
        }
        Self { a, b, c, expected }
    }

    /// The panels of an update, and its factor.
    fn panels(&self, update: usize) -> (View<'_, T>, View<'_, T>) {
        let before = |n: usize| UPDATES[..n].iter().map(|update| update.0).sum::<usize>();
        let (k, all) = (before(update)..before(update + 1), before(UPDATES.len()));
        let (a, b) = (
            View::new(&self.a, ROWS, all, ROWS),
            View::new(&self.b, all, COLS, all),
        );
        (a.columns(k.clone()), b.block(k, 0..COLS))
    }

    /// The whole job. Some panels come ahead of their update, and some do not.
    fn multiply(&self, engine: &mut Engine, number: fn(f64) -> T) -> Vec<T> {
        let mut c = self.c.clone();
        let begun = engine.begin(View::new(&c, ROWS, COLS, ROWS), depth());
        begun.expect("begin");
        for (update, &(_, alpha)) in UPDATES.iter().enumerate() {
            let is_announced = update % 4 != 1 && update + 1 < UPDATES.len();
            let next = is_announced.then(|| self.panels(update + 1));
            let c = ViewMut::new(&mut c, ROWS, COLS, ROWS);
            let updated = engine.update(number(alpha), self.panels(update), next, c);
            updated.expect("update");
        }
        let finished = engine.finish(ViewMut::new(&mut c, ROWS, COLS, ROWS));
        finished.expect("finish");
        c
    }
}

/// The inner dimensions of all updates.
fn depth() -> Depth {
    Depth {
        k_max: K_MAX,
        k_total: UPDATES.iter().map(|update| update.0).sum(),
    }
}

fn element<T: Element>(engine: &mut Engine, streams: bool, number: fn(f64) -> T) {
    let matrices = Matrices::new(number);
    let plan = engine.plan(ROWS, COLS, depth(), T::TYPE).expect("a plan");
    let gathers = plan.placement != Placement::Resident && plan.updates_per_visit > 1;
    assert_eq!(gathers, streams, "{plan:?}");
    let c = matrices.multiply(engine, number);
    assert!(c == matrices.expected, "{}, {plan:?}", T::TYPE);
}
