//! Every element type.

use isochron_devices::cuda::{CudaConfig, Placement, TilePlan};
use isochron_devices::{CudaWorker, Depth, DeviceError, Element, JobShape, View, ViewMut};
use num_complex::{Complex32, Complex64};

use super::case::integers;
use super::{assert_clean, worker_with};
use crate::emulator::Control;

/// Every element type, on the GPU and streaming: with panels that come ahead of their update, and gathered for a visit.
pub fn elements(control: Option<&Control>) -> usize {
    for limit in [None, Some((8 * MANY.rows * MANY.cols / 4) as u64)] {
        // One worker has jobs of each type in turn.
        let mut worker = limited_worker(limit, None);
        let streams = limit.is_some();
        element::<f32>(&mut worker, streams);
        element::<Complex64>(&mut worker, streams);
        element::<f64>(&mut worker, streams);
        element::<Complex32>(&mut worker, streams);
    }
    assert_clean(control, "elements");
    8
}

/// Every element type, streaming with less and less memory, down to the least that there can be.
pub fn little_memory(control: &Control) -> usize {
    let of_each = [
        with_little_memory::<f32>,
        with_little_memory::<f64>,
        with_little_memory::<Complex32>,
        with_little_memory::<Complex64>,
    ];
    of_each.map(|runs| runs(control)).iter().sum()
}

/// A job: the sides of C, and the inner dimension of each update with its factor.
pub(super) struct Shape {
    rows: usize,
    cols: usize,
    updates: &'static [(usize, f64)],
}

/// Narrow updates in between, and a factor that changes in mid-visit.
pub(super) const MANY: Shape = Shape {
    rows: 160,
    cols: 150,
    updates: &[
        (5, 2.0),
        (5, 2.0),
        (5, 2.0),
        (3, 2.0),
        (5, -1.0),
        (5, -1.0),
        (1, 3.0),
        (5, 3.0),
        (5, 3.0),
    ],
};

/// The panels of an update are larger than C; one has nothing in it, and one (of real numbers) no factor.
pub(super) const DEEP: Shape = Shape {
    rows: 50,
    cols: 70,
    updates: &[
        (90, 1.0),
        (0, 1.0),
        (90, 1.0),
        (40, -2.0),
        (90, 0.0),
        (7, 1.0),
    ],
};

impl Shape {
    /// The inner dimensions of all updates.
    fn depth(&self) -> Depth {
        let all = self.updates.iter().map(|update| update.0);
        Depth {
            k_max: all.clone().max().unwrap_or(0),
            k_total: all.sum(),
        }
    }
}

/// A number, with an imaginary part where it can have one.
fn number<T: Element>(real: f64) -> T {
    T::of(Complex64::new(real, 1.0 - real))
}

/// The operands, and what comes of them.
pub(super) struct Matrices<T> {
    shape: &'static Shape,
    a: Vec<T>,
    b: Vec<T>,
    c: Vec<T>,
    expected: Vec<T>,
}

impl<T: Element> Matrices<T> {
    pub(super) fn new(shape: &'static Shape) -> Self {
        let matrix =
            |count, seed| -> Vec<T> { integers(count, seed).into_iter().map(number).collect() };
        let (rows, cols, all) = (shape.rows, shape.cols, shape.depth().k_total);
        let (a, b, c) = (
            matrix(rows * all, 4),
            matrix(all * cols, 5),
            matrix(rows * cols, 6),
        );
        let factors = shape.updates.iter().flat_map(|&(k, alpha)| vec![alpha; k]);
        let mut expected = c.clone();
        for (p, alpha) in factors.enumerate() {
            for j in 0..cols {
                for i in 0..rows {
                    let c = &mut expected[j * rows + i];
                    *c = *c + number::<T>(alpha) * (a[p * rows + i] * b[j * all + p]);
                }
            }
        }
        Self {
            shape,
            a,
            b,
            c,
            expected,
        }
    }

    /// The panels of an update.
    fn panels(&self, update: usize) -> (View<'_, T>, View<'_, T>) {
        let Shape {
            rows,
            cols,
            updates,
        } = *self.shape;
        let before = |n: usize| updates[..n].iter().map(|update| update.0).sum::<usize>();
        let (k, all) = (before(update)..before(update + 1), before(updates.len()));
        let (a, b) = (
            View::new(&self.a, rows, all, rows),
            View::new(&self.b, all, cols, all),
        );
        (a.columns(k.clone()), b.block(k, 0..cols))
    }

    /// How the job is laid out.
    pub(super) fn plan(&self, worker: &CudaWorker) -> TilePlan {
        let size = (self.shape.rows, self.shape.cols);
        let plan = worker.plan(&JobShape::of::<T>(size, self.shape.depth()));
        plan.expect("a plan")
    }

    /// The whole job, which is exact. Some panels come ahead of their update, and some do not.
    pub(super) fn multiply(&self, worker: &mut CudaWorker, what: &str) {
        let c = self
            .try_multiply(worker)
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(c == self.expected, "{}: {what}", T::TYPE);
    }

    pub(super) fn try_multiply(&self, worker: &mut CudaWorker) -> Result<Vec<T>, DeviceError> {
        let Shape {
            rows,
            cols,
            updates,
        } = *self.shape;
        let worker = T::updates(worker);
        let mut c = self.c.clone();
        worker.begin(ViewMut::new(&mut c, rows, cols, rows), self.shape.depth())?;
        for (update, &(_, alpha)) in updates.iter().enumerate() {
            let is_announced = update % 4 != 1 && update + 1 < updates.len();
            let c = ViewMut::new(&mut c, rows, cols, rows);
            let (alpha, (a, b)) = (number(alpha), self.panels(update));
            if is_announced {
                worker.update_ahead(alpha, (a, b), self.panels(update + 1), c)?;
            } else {
                worker.update(alpha, a, b, c)?;
            }
        }
        worker.finish(ViewMut::new(&mut c, rows, cols, rows))?;
        Ok(c)
    }
}

/// A worker that may use so much GPU memory and pin so much host memory.
pub(super) fn limited_worker(device_bytes: Option<u64>, host_bytes: Option<u64>) -> CudaWorker {
    let config = CudaConfig {
        memory_limit_bytes: device_bytes,
        host_limit_bytes: host_bytes,
        // So slow a link that as much as possible is gathered, whatever the GPU.
        link_bytes_per_s: Some(1e6),
    };
    worker_with(&config).expect("a GPU")
}

fn element<T: Element>(worker: &mut CudaWorker, streams: bool) {
    let matrices = Matrices::<T>::new(&MANY);
    let plan = matrices.plan(worker);
    let gathers = plan.placement != Placement::Resident && plan.updates_per_visit > 1;
    assert_eq!(gathers, streams, "{plan:?}");
    matrices.multiply(worker, &format!("{plan:?}"));
}

/// Elements of GPU memory, too few for C down to the least, and of pinned memory, from more than enough down to the least:
/// an update of [`DEEP`] has panels of 10800, one of [`MANY`] panels of 1550.
const LIMITS: [(u64, u64); 8] = [
    (9000, 1 << 20),
    (576, 1 << 20),
    (2000, 22_000),
    (2000, 18_000),
    (2000, 14_000),
    (9000, 4000),
    (2000, 400),
    (576, 128),
];

fn with_little_memory<T: Element>(control: &Control) -> usize {
    let (deep, many) = (Matrices::<T>::new(&DEEP), Matrices::<T>::new(&MANY));
    let deep = LIMITS.map(|limits| limited(control, &deep, limits));
    let many = LIMITS.map(|limits| limited(control, &many, limits));
    // The panels of several updates, where they are small enough, of one, of none.
    assert_eq!(deep, [90, 90, 90, 0, 0, 0, 0, 0]);
    assert!(many[0] > 5 && many.contains(&5), "{many:?}");
    assert!(many.is_sorted_by(|more, less| more >= less) && many.ends_with(&[0, 0]));
    deep.len() + many.len()
}

/// A job with so many elements of GPU memory and of pinned memory at most; what it gathers.
fn limited<T: Element>(
    control: &Control,
    matrices: &Matrices<T>,
    (device, host): (u64, u64),
) -> usize {
    let what = format!("{device} elements of GPU memory, {host} of pinned memory");
    let (device, host) = (device * size_of::<T>() as u64, host * size_of::<T>() as u64);
    let mut worker = limited_worker(Some(device), Some(host));
    control.reset();
    matrices.multiply(&mut worker, &what);
    let plan = matrices.plan(&worker);
    assert_eq!(control.device_peak_bytes(), plan.device_bytes, "{what}");
    assert_eq!(control.pinned_peak_bytes(), plan.host_bytes, "{what}");
    assert!(
        plan.device_bytes <= device && plan.host_bytes <= host,
        "{plan:?}"
    );
    drop(worker);
    assert_clean(Some(control), &what);
    match plan.placement {
        Placement::Streamed { gather_k, .. } => gather_k,
        Placement::Resident => panic!("{what}: {plan:?}"),
    }
}
