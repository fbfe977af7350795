//! Updates of a C that stays on the GPU, with panels that are sent ahead, against cuBLAS with everything in the GPU's
//! memory.

use anyhow::Context as _;
use isochron_devices::{CudaWorker, Depth, ElementType, Scalar, View, ViewMut};

use super::budget::TimeBudget;
use super::host::make_matrix;
use super::link::LinkSpeeds;
use super::record::{GpuFigures, GpuResults};
use super::rows::{PartTable, TableRow};
use super::{GpuCampaign, GpuPart};
use crate::shape::ProductShape;
use crate::statistics::MedianRange;

/// The goal of our speed over cuBLAS's.
const GOAL: f64 = 0.95;

/// The contestants.
pub const OURS: &str = "ours";
pub const CUBLAS: &str = "cublas";

/// Measures all shapes, each for its share of the time.
pub fn measure(campaign: &mut GpuCampaign, budget: TimeBudget) -> anyhow::Result<()> {
    let mut worker = campaign.card.make_worker(campaign.card.host_cores, None)?;
    let shapes = campaign.scale.resident_shapes();
    for (index, &(element, shape)) in shapes.iter().enumerate() {
        let share = budget.take_share(1.0 / (shapes.len() - index) as f64);
        match element {
            ElementType::F32 => measure_shape::<f32>(campaign, &mut worker, shape, share)?,
            _ => measure_shape::<f64>(campaign, &mut worker, shape, share)?,
        }
    }
    Ok(())
}

/// Measures ours and cuBLAS in turn.
fn measure_shape<T: Scalar>(
    campaign: &mut GpuCampaign,
    worker: &mut CudaWorker,
    shape: ProductShape,
    budget: TimeBudget,
) -> anyhow::Result<()> {
    let what = name_update(T::TYPE, shape);
    let updates = campaign.scale.updates;
    let record = &mut campaign.record;
    let mut job = match ResidentJob::<T>::new(shape) {
        Ok(job) => job,
        Err(error) => {
            record.add_error(format!("{}: {what}: {error:#}", GpuPart::Resident));
            return Ok(());
        }
    };
    let contestants = [(&*what, OURS), (&*what, CUBLAS)];
    let rounds = budget.rounds(campaign.rounds);
    record.sample_in_turn(GpuPart::Resident, rounds, &contestants, |at, round| {
        // The first run finds slow clocks and kernels that are not loaded, and is not counted.
        let runs = if round == 0 { 2 } else { 1 };
        let mut times_s = Vec::new();
        for _ in 0..runs {
            times_s = match at {
                0 => job.run(worker, updates)?,
                _ => vec![time_cublas::<T>(worker, shape, updates)?],
            };
        }
        Ok(GpuFigures::Times { times_s })
    })
}

fn name_update(element: ElementType, ProductShape { m, n, k }: ProductShape) -> String {
    format!("{m}×{n}, k = {k}, {element}")
}

/// Runs `count` products of cuBLAS alone; returns the mean seconds of one.
///
/// # Errors
/// If the shape does not fit the GPU's memory, or a call fails.
pub fn time_cublas<T: Scalar>(
    worker: &mut CudaWorker,
    ProductShape { m, n, k }: ProductShape,
    count: usize,
) -> anyhow::Result<f64> {
    worker
        .time_products::<T>(m, n, k, count as u32)?
        .with_context(|| format!("{m}×{n}, k = {k} does not fit the memory"))
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

    /// Runs a job with `updates` updates between the first, whose panels were not sent ahead, and the last, which sends
    /// none. Returns their seconds.
    fn run(&mut self, worker: &mut CudaWorker, updates: usize) -> anyhow::Result<Vec<f64>> {
        let ProductShape { m, n, k } = self.shape;
        let [first, second] = [0, 1].map(|turn: usize| {
            let (a, b) = (&self.a[turn], &self.b[turn]);
            (View::new(a, m, k, m), View::new(b, k, n, k))
        });
        let mut c = ViewMut::new(&mut self.c, m, n, m);
        let worker = T::updates(worker);
        let last = updates + 1;
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

/// Makes a row for each shape.
pub fn make_table(results: &GpuResults) -> PartTable {
    let shapes = results.scale.resident_shapes().into_iter();
    PartTable::new(
        "**C on the GPU.** Updates `C += A·B` of the shape in SUMMA: C stays there, and the panels A and B are sent during the \
         update before. cuBLAS alone has everything in the GPU's memory, one product queued behind the other. The bound of the \
         link is the work over the time to send the panels; the bound of our copies includes the copy from ordinary into pinned \
         memory.",
        shapes
            .map(|(element, shape)| make_row(results, element, shape))
            .collect(),
    )
}

fn make_row(results: &GpuResults, element: ElementType, shape: ProductShape) -> TableRow {
    let what = name_update(element, shape);
    let flop = shape.flop();
    let [ours, cublas] =
        [OURS, CUBLAS].map(|who| results.speeds(GpuPart::Resident, (&what, who), flop));
    let ratio = MedianRange::of_ratios(&ours, &cublas);
    let [ours, cublas] = [ours, cublas].map(MedianRange::of);
    // Both panels of an update are sent.
    let bytes = ((shape.m + shape.n) * shape.k * element.bytes()) as f64;
    let speeds = LinkSpeeds::of(results);
    let [link, staged] =
        [speeds.up, speeds.staged_up].map(|bytes_per_s| flop * bytes_per_s / bytes);
    let alone = cublas.median;
    let row = TableRow::new(what)
        .with_speed("cuBLAS alone, GFLOP/s", cublas)
        .with_speed("the link allows", MedianRange::of([link]))
        .with_speed("copies of ours allow", MedianRange::of([staged]))
        .with_text("bound by", find_bound(alone, link, staged))
        .with_speed("ours", ours)
        .with_range("ours / cuBLAS", ratio, 3);
    if link < alone {
        let most = 100.0 * link / alone;
        return row.without_goal(format!(
            "the link allows no more than {most:.0} % of cuBLAS's speed"
        ));
    }
    row.with_goal(format!("≥ {GOAL}"), ratio.median, ratio.median >= GOAL)
}

/// Names the limit of an update's speed.
fn find_bound(cublas: f64, link: f64, staged: f64) -> &'static str {
    if !(link.is_finite() && staged.is_finite()) {
        ""
    } else if link < cublas {
        "the link"
    } else if staged < cublas {
        "the host's copies"
    } else {
        "arithmetic"
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::{GpuSample, make_test_results};
    use super::*;

    const SHAPE: ProductShape = ProductShape {
        m: 1000,
        n: 1000,
        k: 100,
    };

    fn sample(part: GpuPart, what: &str, who: &str, figures: GpuFigures) -> GpuSample {
        GpuSample {
            part,
            round: 0,
            what: what.to_owned(),
            who: who.to_owned(),
            figures,
        }
    }

    /// Makes the row of an update that moves 1.6 MB over a link of this speed.
    fn row_text(bytes_per_s: f64) -> String {
        let staged = bytes_per_s / 2.0;
        let copies = GpuFigures::Copies {
            bytes_per_s: [bytes_per_s, bytes_per_s, 0.0, staged, bytes_per_s],
        };
        let [ours, cublas] =
            [vec![0.011, 0.009], vec![0.0096]].map(|times_s| GpuFigures::Times { times_s });
        let what = name_update(ElementType::F64, SHAPE);
        let results = make_test_results(vec![
            sample(GpuPart::Resident, &what, OURS, ours),
            sample(GpuPart::Resident, &what, CUBLAS, cublas),
            sample(GpuPart::Link, "1", "copies", copies),
        ]);
        format!("{:?}", make_row(&results, ElementType::F64, SHAPE))
    }

    #[test]
    fn a_row_names_the_bound() {
        let fast = row_text(1e9);
        assert!(
            fast.contains("arithmetic") && fast.contains("met: Some(true)"),
            "{fast}"
        );
        assert!(row_text(2e8).contains("the host's copies"));
        let slow = row_text(1e8);
        assert!(
            slow.contains("the link allows no more than 60 %") && slow.contains("met: None"),
            "{slow}"
        );
    }
}
