//! Runs of made-up parts that are learnt from.

use isochron_hierarchy::learn::{
    Adaptive, AdaptiveError, AdaptivePart, LaidOut, Observed, Request, Tuning,
};

use isochron_hierarchy::times::Sample;
use isochron_support::simulated::SplitMix;

/// Units of an even share.
pub const SHARE: u64 = 8000;

/// Seconds that it takes to move an even share of results. An even share at a mean speed takes one.
pub const MOVING_S: f64 = 9.0;

/// Seconds that any change takes.
pub const LATENCY_S: f64 = 0.01;

/// A part that takes `fixed_s + (d + steeper · max(0, d - capacity)) / speed` seconds for `d` units, and
/// `slower` times as long from the step `slow_from` on.
#[derive(Debug, Clone, Copy)]
pub struct SimulatedPart {
    pub speed: f64,
    pub fixed_s: f64,
    pub capacity: f64,
    pub steeper: f64,
    pub slow_from: u64,
    pub slower: f64,
}

impl SimulatedPart {
    /// A part of constant speed, in even shares a second.
    pub fn constant(speed: f64) -> Self {
        Self {
            speed: speed * SHARE as f64,
            fixed_s: 0.0,
            capacity: f64::INFINITY,
            steeper: 0.0,
            slow_from: u64::MAX,
            slower: 1.0,
        }
    }

    pub fn time_s(&self, d: u64, step: u64) -> f64 {
        if d == 0 {
            return 0.0;
        }
        let d = d as f64;
        let beyond = self.steeper * (d - self.capacity).max(0.0);
        let slower = if step >= self.slow_from { self.slower } else { 1.0 };
        slower * (self.fixed_s + (d + beyond) / self.speed)
    }

    pub fn units_within(&self, t_s: f64, step: u64) -> f64 {
        let (mut low, mut high) = (0_u64, 1_u64 << 40);
        while low < high {
            let middle = (low + high).div_ceil(2);
            if self.time_s(middle, step) <= t_s { low = middle } else { high = middle - 1 }
        }
        low as f64
    }
}

pub fn draw_unlike(n: usize, random: &mut SplitMix) -> Vec<SimulatedPart> {
    (0..n).map(|_| SimulatedPart::constant(random.log_uniform(0.4, 3.2))).collect()
}

/// A run on made-up parts, and its bill.
pub struct Simulation {
    pub parts: Vec<SimulatedPart>,
    pub steps: u64,
    pub noise: f64,
    pub random: SplitMix,
    /// The part and step of a single time that is 1000 times as long; without a step, the first measurement.
    pub outlier: Option<(usize, Option<u64>)>,
    /// Chance that another program takes the cores of a part for 1.4 to 3 times as long as it computes, and says so.
    pub disturbed: f64,
    /// The slow steps of a part are disturbed ones.
    pub is_slow_disturbed: bool,
    pub spent_s: f64,
    /// True seconds of each step.
    pub steps_s: Vec<f64>,
    pub divisions: Vec<Vec<u64>>,
}

impl Simulation {
    pub fn new(parts: Vec<SimulatedPart>, steps: u64, seed: u64) -> Self {
        Self {
            parts,
            steps,
            noise: 0.02,
            random: SplitMix::new(seed),
            outlier: None,
            disturbed: 0.0,
            is_slow_disturbed: false,
            spent_s: 0.0,
            steps_s: Vec::new(),
            divisions: Vec::new(),
        }
    }

    pub fn total(&self) -> u64 {
        SHARE * self.parts.len() as u64
    }

    /// Returns the seconds of a step that no division undercuts.
    pub fn ideal_s(&self, step: u64) -> f64 {
        let (mut low, mut high) = (0.0, 1e3);
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            let done: f64 = self.parts.iter().map(|part| part.units_within(middle, step)).sum();
            if done < self.total() as f64 { low = middle } else { high = middle }
        }
        high
    }

    pub fn ideal_total_s(&self) -> f64 {
        let (first, last) = (self.ideal_s(0), self.ideal_s(u64::MAX - 1));
        let before =
            self.parts.iter().map(|part| part.slow_from).min().unwrap_or(u64::MAX).min(self.steps);
        before as f64 * first + (self.steps - before) as f64 * last
    }

    /// Returns the times as a clock shows them. Before the first step, `step` is `None`.
    pub fn measure(&mut self, units: &[u64], step: Option<u64>) -> Vec<Sample> {
        let mut times = Vec::new();
        for (index, (part, &d)) in self.parts.iter().zip(units).enumerate() {
            let sum: f64 = (0..12).map(|_| self.random.uniform(-0.5, 0.5)).sum();
            let is_outlier = self.outlier.take_if(|outlier| *outlier == (index, step)).is_some();
            let outlier = if is_outlier { 1000.0 } else { 1.0 };
            let t_s = outlier * part.time_s(d, step.unwrap_or(0)) * (1.0 + self.noise * sum);
            let is_disturbed = self.disturbed > 0.0
                && step.is_some()
                && self.random.uniform(0.0, 1.0) < self.disturbed;
            let longer = if is_disturbed { self.random.uniform(1.4, 3.0) } else { 1.0 };
            let is_slow = self.is_slow_disturbed && step.is_some_and(|step| step >= part.slow_from);
            let sample = Sample::measured(d, longer * t_s, 1, 0.0);
            times.push(sample.disturbed_if(is_disturbed || is_slow));
        }
        times
    }

    pub fn find_longest(&self, units: &[u64], step: u64) -> f64 {
        self.parts.iter().zip(units).map(|(part, &d)| part.time_s(d, step)).fold(0.0, f64::max)
    }

    pub fn place(&self, units: &[u64]) -> LaidOut {
        let now = self.divisions.last();
        let moved = now.map_or(0, |now| {
            now.iter().zip(units).map(|(&a, &b)| a.abs_diff(b)).max().unwrap_or(0)
        });
        LaidOut {
            units: units.to_vec(),
            cost_s: if moved > 0 {
                LATENCY_S + MOVING_S * moved as f64 / SHARE as f64
            } else {
                0.0
            },
        }
    }

    pub fn run(&mut self, learner: &mut Adaptive) -> Result<(), AdaptiveError> {
        loop {
            match learner.request_next(|units| self.place(units))? {
                Request::Done => return Ok(()),
                Request::Measure(units) => self.measure_once(learner, units)?,
                Request::Steps { units, count } => self.step(learner, units, count)?,
            }
        }
    }

    pub fn measure_once(
        &mut self,
        learner: &mut Adaptive,
        units: Vec<u64>,
    ) -> Result<(), AdaptiveError> {
        self.spent_s += self.find_longest(&units, 0);
        learner.observe(&Observed {
            is_measurement: true,
            burst: u64::MAX,
            samples: self.measure(&units, None),
        })
    }

    pub fn step(
        &mut self,
        learner: &mut Adaptive,
        units: Vec<u64>,
        count: u64,
    ) -> Result<(), AdaptiveError> {
        if learner.is_changed() {
            self.spent_s += self.place(&units).cost_s;
        }
        self.divisions.push(units.clone());
        for _ in 0..count {
            let step = self.steps_s.len() as u64;
            let step_s = self.find_longest(&units, step);
            self.spent_s += step_s;
            self.steps_s.push(step_s);
            learner.observe(&Observed {
                is_measurement: false,
                burst: self.divisions.len() as u64,
                samples: self.measure(&units, Some(step)),
            })?;
        }
        Ok(())
    }

    pub fn over_ideal(&self) -> f64 {
        self.spent_s / self.ideal_total_s()
    }
}

pub fn describe_parts(n: usize) -> Vec<AdaptivePart> {
    (0..n).map(|node| AdaptivePart { node, ..AdaptivePart::default() }).collect()
}

/// Runs a simulation with one part a node, and returns the learner at its end.
pub fn learn(simulation: &mut Simulation) -> Adaptive {
    let parts = describe_parts(simulation.parts.len());
    let (total, steps) = (simulation.total(), simulation.steps);
    let mut learner = Adaptive::new(Tuning::default(), total, steps, parts).unwrap();
    simulation.run(&mut learner).unwrap();
    assert_eq!(simulation.steps_s.len() as u64, steps);
    learner
}

/// Returns the mean and the worst of runs with these parts.
pub fn bill(steps: u64, draw: fn(&mut SplitMix) -> Vec<SimulatedPart>) -> (f64, f64) {
    let mut ratios = Vec::new();
    for seed in 0..20 {
        let mut simulation = Simulation::new(draw(&mut SplitMix::new(seed)), steps, seed);
        learn(&mut simulation);
        ratios.push(simulation.over_ideal());
    }
    let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
    (mean, ratios.iter().copied().fold(0.0, f64::max))
}
