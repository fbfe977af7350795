//! Updates of a C that stays on the GPU, with panels that travel ahead, beside cuBLAS with everything in the GPU's memory.

use anyhow::Context as _;
use isochron_devices::{CudaWorker, Depth, Element, ElementType, Updates, View, ViewMut};
use serde_json::{Value, json};

use super::clock::Clock;
use super::host::matrix;
use super::link::Link;
use super::record::{figures, whats};
use super::rows::Row;
use super::{Campaign, Part};
use crate::direct::Shape;
use crate::results::{list, number};
use crate::statistics::Spread;

/// What an update is to reach of cuBLAS's speed, at least.
const GOAL: f64 = 0.95;

/// All shapes, each for its part of the time.
pub fn measure(campaign: &mut Campaign, clock: Clock) -> anyhow::Result<()> {
    let mut worker = campaign.card.worker(None)?;
    let shapes = campaign.scale.resident();
    for (index, &(element, shape)) in shapes.iter().enumerate() {
        let clock = clock.part(1.0 / (shapes.len() - index) as f64);
        match element {
            ElementType::F32 => one_shape::<f32>(campaign, &mut worker, shape, clock)?,
            _ => one_shape::<f64>(campaign, &mut worker, shape, clock)?,
        }
    }
    Ok(())
}

/// Ours and cuBLAS in turn.
fn one_shape<T: Element>(
    campaign: &mut Campaign,
    worker: &mut CudaWorker,
    shape: Shape,
    clock: Clock,
) -> anyhow::Result<()>
where
    CudaWorker: Updates<T>,
{
    let Shape { m, n, k } = shape;
    let updates = campaign.scale.updates;
    let record = &mut campaign.record;
    let what = format!("{m}×{n}, k = {k}, {}", T::TYPE);
    let about = |mut sample: Value| {
        for (key, value) in [("m", m), ("n", n), ("k", k)] {
            sample[key] = json!(value);
        }
        sample["element"] = json!(T::TYPE);
        sample
    };
    let mut job = match Job::<T>::new(shape) {
        Ok(job) => job,
        Err(error) => {
            record.fail(format!("{}: {what}: {error:#}", Part::Resident.name()));
            return Ok(());
        }
    };
    for round in clock.rounds(campaign.rounds) {
        for turn in 0..2 {
            // Every other round begins with ours.
            let is_ours = (round + turn) % 2 == 0;
            let who = if is_ours { "ours" } else { "cublas" };
            record.sample((Part::Resident, round), (&what, who), || {
                // The first ones find slow clocks and kernels that are not loaded, and count for neither.
                let turns = if round == 0 { 2 } else { 1 };
                let mut found = json!({});
                for _ in 0..turns {
                    found = if is_ours {
                        job.run(worker, updates)?
                    } else {
                        json!({ "seconds": cublas::<T>(worker, shape, updates)? })
                    };
                }
                Ok(about(found))
            })?;
        }
    }
    Ok(())
}

/// Seconds of one product of cuBLAS alone, as a mean over as many as ours has updates.
pub fn cublas<T: Element>(
    worker: &mut CudaWorker,
    Shape { m, n, k }: Shape,
    count: usize,
) -> anyhow::Result<f64> {
    let timed = worker.time_products::<T>((m, n, k), count as u32)?;
    timed.with_context(|| format!("{m}×{n}, k = {k} does not fit the memory"))
}

/// C, and two A's and B's that take turns, as the panels of a multiplication do.
struct Job<T> {
    shape: Shape,
    a: [Vec<T>; 2],
    b: [Vec<T>; 2],
    c: Vec<T>,
}

impl<T: Element> Job<T> {
    fn new(shape: Shape) -> anyhow::Result<Self> {
        let Shape { m, n, k } = shape;
        Ok(Self {
            shape,
            a: [matrix(m, k)?, matrix(m, k)?],
            b: [matrix(k, n)?, matrix(k, n)?],
            c: matrix(m, n)?,
        })
    }

    /// Seconds of the job's beginning, of the first update, which nobody has announced, of those after it, of the last one,
    /// which announces nobody and so has nothing to copy, and of the job's end.
    fn run(&mut self, worker: &mut CudaWorker, updates: usize) -> anyhow::Result<Value>
    where
        CudaWorker: Updates<T>,
    {
        let Shape { m, n, k } = self.shape;
        let (a, b) = (&self.a, &self.b);
        let panels = |update: usize| {
            let turn = update % 2;
            (View::new(&a[turn], m, k, m), View::new(&b[turn], k, n, k))
        };
        let mut c = ViewMut::new(&mut self.c, m, n, m);
        let worker: &mut dyn Updates<T> = worker;
        let last = updates + 1;
        let begin = worker.begin(c.reborrow(), Depth::of(k, last + 1))?;
        let mut times_s = Vec::with_capacity(last + 1);
        for update in 0..=last {
            let (now, next) = (panels(update), panels(update + 1));
            let c = c.reborrow();
            let took = if update < last {
                worker.update_ahead(T::ONE, now, next, c)?
            } else {
                worker.update(T::ONE, now.0, now.1, c)?
            };
            times_s.push(took.busy_s);
        }
        let finish = worker.finish(c)?;
        Ok(json!({
            "begin_s": begin.busy_s, "first_s": times_s[0], "times_s": times_s[1..last], "last_s": times_s[last],
            "finish_s": finish.busy_s,
        }))
    }
}

/// A row for each shape.
pub fn rows(results: &Value) -> Vec<Row> {
    let whats = whats(results, Part::Resident);
    whats.iter().map(|what| row(results, what)).collect()
}

/// Seconds of an update of ours, while the panels of the next one travel.
fn update_s(sample: &Value) -> f64 {
    let times: Vec<f64> = list(sample, "times_s").filter_map(Value::as_f64).collect();
    times.iter().sum::<f64>() / times.len() as f64
}

fn row(results: &Value, what: &str) -> Row {
    let is_it =
        |sample: &&Value| sample["what"] == what && sample["part"] == *Part::Resident.name();
    let first = list(results, "samples")
        .find(is_it)
        .cloned()
        .unwrap_or_default();
    let [m, n, k] = ["/m", "/n", "/k"].map(|key| number(&first, key));
    let bytes = if first["element"] == "f32" { 4.0 } else { 8.0 };
    let flop = 2.0 * m * n * k;
    let ours = figures(results, Part::Resident, (what, "ours"), update_s);
    let cublas = figures(results, Part::Resident, (what, "cublas"), |s| {
        number(s, "/seconds")
    });
    let ratio = Spread::of_ratios(&cublas, &ours);
    let speed = |times: &[f64]| Spread::of(times.iter().map(|t_s| flop / t_s));
    let link = Link::of(results);
    // Both panels of an update cross the link.
    let allows = |bytes_per_s: f64| flop * bytes_per_s / ((m + n) * k * bytes);
    let (allows, staged) = (allows(link.up), allows(link.staged_up));
    let alone = speed(&cublas).median;
    let bound = bound_by(alone, allows, staged);
    let row = Row::new(what)
        .speed("cuBLAS alone, GFLOP/s", speed(&cublas))
        .speed("the link allows", Spread::of([allows]))
        .speed("copies of ours allow", Spread::of([staged]))
        .words("bound by", bound)
        .speed("ours", speed(&ours))
        .spread("ours / cuBLAS", ratio, 3);
    if allows < alone {
        let most = 100.0 * allows / alone;
        return row.no_goal(format!(
            "the link allows no more than {most:.0} % of cuBLAS's speed"
        ));
    }
    row.goal(format!("≥ {GOAL}"), ratio.median, ratio.median >= GOAL)
}

/// What keeps an update from being faster.
fn bound_by(cublas: f64, link: f64, staged: f64) -> &'static str {
    match () {
        () if !(link.is_finite() && staged.is_finite()) => "",
        () if link < cublas => "the link",
        () if staged < cublas => "the host's copies",
        () => "arithmetic",
    }
}

/// What the table shows.
pub fn words(_results: &Value) -> String {
    "**C on the GPU.** Updates `C += A·B` of the shape in SUMMA: C stays there, the panels A and B travel while the update \
     before is computed. cuBLAS alone has everything in the GPU's memory, one product queued behind the other. What the link \
     allows is the work over the time that the panels take to cross it; what copies of ours allow is the same with the copy \
     from ordinary into pinned memory."
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_what_it_is_bound_by() {
        let part = Part::Resident.name();
        let sample = |who: &str, more: Value| {
            let mut sample = more;
            sample["part"] = json!(part);
            sample["round"] = json!(0);
            sample["who"] = json!(who);
            sample["what"] = json!("x");
            sample["m"] = json!(1000);
            sample["n"] = json!(1000);
            sample["k"] = json!(100);
            sample["element"] = json!("f64");
            sample
        };
        // An update moves 1.6 MB.
        let copies = |bytes_per_s: f64| {
            let t_s = 1e6 / bytes_per_s;
            json!({
                "part": "link", "round": 0, "who": "copies", "what": "1",
                "copies": { "bytes": 1e6, "up_s": t_s, "down_s": t_s, "both_s": t_s, "staged_up_s": 2.0 * t_s, "staged_down_s": t_s },
            })
        };
        let results = |bytes_per_s: f64| {
            json!({ "host_cores": 1, "samples": [
                sample("ours", json!({ "times_s": [0.011, 0.009] })),
                sample("cublas", json!({ "seconds": 0.0096 })),
                copies(bytes_per_s),
            ] })
        };
        let text = |bytes_per_s: f64| format!("{:?}", rows(&results(bytes_per_s)));
        let fast = text(1e9);
        assert!(
            fast.contains("arithmetic") && fast.contains("met: Some(true)"),
            "{fast}"
        );
        assert!(text(2e8).contains("the host's copies"));
        let slow = text(1e8);
        assert!(
            slow.contains("the link allows no more than 60 %") && slow.contains("met: None"),
            "{slow}"
        );
    }
}
