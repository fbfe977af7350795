//! Updates of a C that stays on the GPU: the panels of each are sent during the one before, as in a multiplication.

use isochron_devices::with_element;
use isochron_devices::{CudaWorker, Depth, ElementType, Scalar, View, ViewMut};
use serde::Serialize;

use super::card::GpuCard;
use super::copies::LinkSpeeds;
use super::course::{CourseRecorder, CourseTimes};
use super::host::make_matrix;
use crate::shape::ProductShape;

/// Updates of a job, besides the first one, whose panels were not sent ahead, and the last one, which sends none.
const UPDATES: usize = 32;

/// The updates.
#[derive(clap::Args)]
pub struct GpuUpdateArguments {
    /// Type of the elements
    element: ElementType,
    #[command(flatten)]
    shape: ProductShape,
    /// Host cores that copy panels into pinned memory
    #[arg(long, default_value_t = 1)]
    cores: usize,
}

/// The printed document.
#[derive(Serialize)]
pub struct UpdateTimes {
    gpu: String,
    /// Seconds of each update.
    times_s: Vec<f64>,
    /// Seconds in which its panels travel from pinned memory to the GPU.
    panels_s: f64,
    #[serde(flatten)]
    course: CourseTimes,
}

/// Measures a job, after one that warms up.
pub fn measure(arguments: &GpuUpdateArguments) -> anyhow::Result<UpdateTimes> {
    with_element!(arguments.element, T => measure_type::<T>(arguments))
}

fn measure_type<T: Scalar>(arguments: &GpuUpdateArguments) -> anyhow::Result<UpdateTimes> {
    let card = GpuCard::find()?;
    let mut worker = card.make_worker(arguments.cores, None)?;
    let mut job = ResidentJob::<T>::new(arguments.shape)?;
    // The first job finds slow clocks and kernels that are not loaded.
    job.run(&mut worker)?;
    let recorder = CourseRecorder::start()?;
    let times_s = job.run(&mut worker)?;
    let course = recorder.finish()?;
    let ProductShape { m, n, k } = arguments.shape;
    let bytes = (m + n) * k * size_of::<T>();
    let link = LinkSpeeds::measure(&card.info, bytes)?;
    Ok(UpdateTimes {
        gpu: card.info.name,
        times_s,
        panels_s: bytes as f64 / 1e9 / link.up_gb_per_s,
        course,
    })
}

/// C, and two A's and B's that take turns, as the panels of a multiplication do.
struct ResidentJob<T> {
    shape: ProductShape,
    a: [Vec<T>; 2],
    b: [Vec<T>; 2],
    c: Vec<T>,
}

impl<T: Scalar> ResidentJob<T> {
    fn new(shape: ProductShape) -> anyhow::Result<Self> {
        let ProductShape { m, n, k } = shape;
        Ok(Self {
            shape,
            a: [make_matrix(m, k)?, make_matrix(m, k)?],
            b: [make_matrix(k, n)?, make_matrix(k, n)?],
            c: make_matrix(m, n)?,
        })
    }

    /// Runs a job; returns the seconds of its [`UPDATES`] updates between the first and the last.
    fn run(&mut self, worker: &mut CudaWorker) -> anyhow::Result<Vec<f64>> {
        let ProductShape { m, n, k } = self.shape;
        let [first, second] = [0, 1].map(|turn: usize| {
            let (a, b) = (&self.a[turn], &self.b[turn]);
            (View::new(a, m, k, m), View::new(b, k, n, k))
        });
        let mut c = ViewMut::new(&mut self.c, m, n, m);
        let worker = T::updates(worker);
        let last = UPDATES + 1;
        worker.begin(c.reborrow(), Depth::of(k, last + 1))?;
        let mut times_s = Vec::with_capacity(last + 1);
        for update in 0..=last {
            let (now, next) = match update % 2 {
                0 => (first, second),
                _ => (second, first),
            };
            let c = c.reborrow();
            let took = worker.update_ahead(T::ONE, now, (update < last).then_some(next), c)?;
            times_s.push(took.busy_s);
        }
        worker.finish(c)?;
        Ok(times_s[1..last].to_vec())
    }
}
