//! The iterations of all threads, gathered into the points of models.

use std::collections::{BTreeMap, VecDeque};

use isochron_hierarchy::model::Point;
use isochron_hierarchy::times::RunningMean;
use serde::{Deserialize, Serialize};

use super::pairs;

/// Iterations that a model keeps at most while some of its threads have not ended them. It bounds the memory.
const MOST_PENDING: usize = 1 << 16;

/// The part of the traced job that has a model of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
pub enum ModelLevel {
    /// Each thread.
    Thread,
    /// Each process: the units of its threads together, and the time of the slowest.
    Process,
    /// Each host: the units of its threads together, and the time of the slowest.
    Host,
}

/// The place of a thread.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TracedThread {
    /// Its process, as `rank0`.
    pub process: String,
    /// The number of the thread in its process.
    pub thread: String,
    /// Its host; `None` if the trace does not tell.
    pub host: Option<String>,
}

impl TracedThread {
    /// Returns the name of the model of this thread; `None` for a host that the trace does not tell.
    fn name_model(&self, level: ModelLevel) -> Option<String> {
        match level {
            ModelLevel::Thread => Some(format!("{}-thread{}", self.process, self.thread)),
            ModelLevel::Process => Some(self.process.clone()),
            ModelLevel::Host => self.host.clone(),
        }
    }
}

/// The iterations of a trace, or of several, by model.
#[derive(Serialize, Deserialize)]
pub struct Iterations {
    level: ModelLevel,
    models: BTreeMap<String, ModelTimes>,
    /// Iterations of threads that were added.
    pub added: u64,
    /// Iterations that not all threads of a model have ended.
    pub incomplete: u64,
}

/// The iterations of one model.
#[derive(Default, Serialize, Deserialize)]
struct ModelTimes {
    host: Option<String>,
    /// The number of iterations that each thread has ended.
    #[serde(with = "pairs")]
    ended: BTreeMap<TracedThread, u64>,
    /// Iterations that some threads have not ended.
    pending: VecDeque<Together>,
    /// Number of iterations before them.
    closed: u64,
    times: BTreeMap<u64, RunningMean>,
}

/// An iteration of several threads.
#[derive(Default, Serialize, Deserialize)]
struct Together {
    units: u64,
    t_s: f64,
    threads: usize,
}

/// A model with its points.
pub struct TracedModel {
    /// The name of the thread, process or host.
    pub name: String,
    /// The host; `None` if the trace does not tell.
    pub host: Option<String>,
    /// The points, by size.
    pub points: Vec<Point>,
}

impl Iterations {
    /// Makes models of nothing.
    pub fn new(level: ModelLevel) -> Self {
        Self { level, models: BTreeMap::new(), added: 0, incomplete: 0 }
    }

    /// Adds an iteration of a thread: its units, and the seconds in which it computed.
    ///
    /// # Errors
    /// If the trace does not tell the host of a thread whose host has a model, or a thread begins long after the
    /// others.
    pub fn add(&mut self, place: &TracedThread, units: u64, t_s: f64) -> Result<(), String> {
        let name = place.name_model(self.level);
        let name = name.ok_or("the trace does not tell hosts: use --per process")?;
        let model = self
            .models
            .entry(name)
            .or_insert_with(|| ModelTimes { host: place.host.clone(), ..ModelTimes::default() });
        self.incomplete += model.add(place, units, t_s)?;
        self.added += 1;
        Ok(())
    }

    /// Ends the trace: no thread goes on with the iterations that others have ended.
    pub fn end_trace(&mut self) {
        for model in self.models.values_mut() {
            while !model.pending.is_empty() {
                self.incomplete += model.close_first();
            }
            model.ended.clear();
            model.closed = 0;
        }
    }

    /// Adds those of another trace that has ended.
    pub fn merge(&mut self, other: &Self) {
        for (name, added) in &other.models {
            let model = self.models.entry(name.clone());
            let model = model.or_insert_with(|| ModelTimes {
                host: added.host.clone(),
                ..ModelTimes::default()
            });
            for (units, times) in &added.times {
                model.times.entry(*units).or_default().merge(times);
            }
        }
        self.added += other.added;
        self.incomplete += other.incomplete;
    }

    /// Returns the models that have points. The half-widths are those of intervals of this confidence, and 0 of a
    /// single repetition.
    pub fn make_models(&self, confidence: f64) -> Vec<TracedModel> {
        self.models
            .iter()
            .filter(|(_, model)| !model.times.is_empty())
            .map(|(name, model)| TracedModel {
                name: name.clone(),
                host: model.host.clone(),
                points: (model.times.iter())
                    .map(|(&d, times)| make_point(d, times, confidence))
                    .collect(),
            })
            .collect()
    }
}

fn make_point(d: u64, times: &RunningMean, confidence: f64) -> Point {
    let ci_s = times.half_width(confidence);
    Point {
        d,
        t_s: times.mean,
        reps: u32::try_from(times.count()).unwrap_or(u32::MAX),
        ci_s: if ci_s.is_finite() { ci_s } else { 0.0 },
    }
}

impl ModelTimes {
    /// Adds an iteration of a thread; returns the number of iterations that were given up.
    fn add(&mut self, place: &TracedThread, units: u64, t_s: f64) -> Result<u64, String> {
        let index = match self.ended.get_mut(place) {
            Some(ended) => ended,
            None => self.ended.entry(place.clone()).or_default(),
        };
        *index += 1;
        let Some(offset) = (*index).checked_sub(self.closed + 1) else {
            let TracedThread { process, thread, .. } = place;
            return Err(format!(
                "{process}, thread {thread}: its first iteration ends after {MOST_PENDING} of other threads: use --per thread"
            ));
        };
        let offset = offset as usize;
        if self.pending.len() <= offset {
            self.pending.resize_with(offset + 1, Together::default);
        }
        let together = &mut self.pending[offset];
        together.units += units;
        together.t_s = together.t_s.max(t_s);
        together.threads += 1;
        Ok(if self.pending.len() > MOST_PENDING { self.close_first() } else { 0 })
    }

    /// Takes the first pending iteration as a repetition; returns 1 if not all threads have ended it.
    fn close_first(&mut self) -> u64 {
        let Some(together) = self.pending.pop_front() else {
            return 0;
        };
        self.closed += 1;
        if together.threads < self.ended.len() {
            return 1;
        }
        self.times.entry(together.units).or_default().add(together.t_s);
        0
    }
}

/// Remarks at the end of a trace.
#[derive(Serialize, Deserialize)]
pub struct TraceEnd {
    /// Iterations that have begun and not ended.
    pub unfinished: u64,
    pub notices: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(process: &str, thread: &str) -> TracedThread {
        TracedThread {
            process: process.to_owned(),
            thread: thread.to_owned(),
            host: Some("a".to_owned()),
        }
    }

    /// Size, time and repetitions of each point of a model.
    type NamedPoints = (String, Vec<(u64, f64, u32)>);

    fn list_points(iterations: &Iterations) -> Vec<NamedPoints> {
        iterations
            .make_models(0.95)
            .into_iter()
            .map(|model| {
                let points = model.points.iter();
                (model.name, points.map(|p| (p.d, p.t_s, p.reps)).collect())
            })
            .collect()
    }

    #[test]
    fn threads_of_a_host_work_together_in_each_iteration() {
        let cases = [
            // max(1, 3) and max(2, 2): 2.5 on average.
            (ModelLevel::Host, vec![("a".to_owned(), vec![(30, 2.5, 2)])]),
            (
                ModelLevel::Process,
                vec![
                    ("rank0".to_owned(), vec![(10, 2.0, 3)]),
                    ("rank1".to_owned(), vec![(20, 2.5, 2)]),
                ],
            ),
        ];
        for (level, expected) in cases {
            let mut iterations = Iterations::new(level);
            // The first process is ahead, and the other one never ends its third iteration.
            for (process, units, times) in
                [("rank0", 10, &[1.0, 2.0, 3.0][..]), ("rank1", 20, &[3.0, 2.0])]
            {
                for &t_s in times {
                    iterations.add(&place(process, "1"), units, t_s).expect("a host");
                }
            }
            iterations.end_trace();
            assert_eq!(list_points(&iterations), expected);
            assert_eq!(iterations.incomplete, u64::from(level == ModelLevel::Host));
        }
    }

    #[test]
    fn memory_is_bounded_however_long_the_trace() {
        let mut iterations = Iterations::new(ModelLevel::Process);
        for _ in 0..3 * MOST_PENDING {
            iterations.add(&place("rank0", "1"), 1, 1.0).expect("a host");
            assert!(iterations.models["rank0"].pending.len() <= MOST_PENDING);
        }
        let late = iterations.add(&place("rank0", "2"), 1, 1.0).expect_err("too late");
        assert!(late.contains("rank0, thread 2") && late.contains("--per thread"), "{late}");
        iterations.end_trace();
        let reps = list_points(&iterations)[0].1[0].2 as usize;
        assert!(reps >= 2 * MOST_PENDING, "{reps}");
    }
}
