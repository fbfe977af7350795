//! Noise of measured times, and the mean that a measurement makes of it.

use isochron_hierarchy::times::Sample;
use isochron_support::simulated::SplitMix;

/// Standard deviation of a repetition or step, as a part of its time.
const OF_REPETITION: f64 = 0.02;

/// Standard deviation of a burst: repetitions or steps in sequence share it.
const OF_BURST: f64 = 0.01;

/// Factor of a disturbed time, from the least to the most.
const LONGER: [f64; 2] = [1.4, 3.0];

/// The noise of each node's times.
pub struct NodeNoise {
    random: SplitMix,
    /// The factor of each node's times in this burst.
    drifts: Vec<f64>,
}

impl NodeNoise {
    /// Starts the noise of `n_nodes` nodes, the same one for a seed.
    pub fn new(n_nodes: usize, seed: u64) -> Self {
        let mut noise = Self { random: SplitMix::new(seed), drifts: vec![1.0; n_nodes] };
        noise.begin_burst();
        noise
    }

    /// Begins another burst.
    pub fn begin_burst(&mut self) {
        for drift in &mut self.drifts {
            *drift = 1.0 + OF_BURST * draw_normal(&mut self.random);
        }
    }

    /// Draws a number of this range.
    pub fn draw(&mut self, [low, high]: [f64; 2]) -> f64 {
        self.random.uniform(low, high)
    }

    /// Returns the times that a clock would show for these true ones.
    pub fn blur(&mut self, times_s: &[f64]) -> Vec<f64> {
        let mut blurred = Vec::with_capacity(times_s.len());
        for (t_s, drift) in times_s.iter().zip(&self.drifts) {
            blurred.push(t_s * drift * (1.0 + OF_REPETITION * draw_normal(&mut self.random)));
        }
        blurred
    }

    /// Returns a sample of each node's units. With the probability `disturbed` another program has a node's cores for a part of
    /// the time, and the sample says so.
    pub fn sample(&mut self, units: &[u64], times_s: &[f64], disturbed: f64) -> Vec<Sample> {
        let mut samples = Vec::with_capacity(times_s.len());
        for (&d, t_s) in units.iter().zip(self.blur(times_s)) {
            let is_disturbed = disturbed > 0.0 && self.random.uniform(0.0, 1.0) < disturbed;
            let longer = if is_disturbed { self.draw(LONGER) } else { 1.0 };
            samples.push(Sample::measured(d, longer * t_s, 1, 0.0).disturbed_if(is_disturbed));
        }
        samples
    }
}

/// Draws a number of the standard normal distribution, within four deviations.
fn draw_normal(random: &mut SplitMix) -> f64 {
    let radius = (-2.0 * random.uniform(f64::MIN_POSITIVE, 1.0).ln()).sqrt();
    let normal = radius * (std::f64::consts::TAU * random.uniform(0.0, 1.0)).cos();
    normal.clamp(-4.0, 4.0)
}

/// Repetitions of one update.
#[derive(Debug, Clone, Copy, Default)]
pub struct RepeatedTimes {
    reps: u32,
    sum_s: f64,
    squares: f64,
}

impl RepeatedTimes {
    /// Adds the time of a repetition.
    pub fn add(&mut self, t_s: f64) {
        self.reps += 1;
        self.sum_s += t_s;
        self.squares += t_s * t_s;
    }

    /// Returns the mean of these units with its standard error.
    pub fn summarize(&self, units: u64) -> Sample {
        let n = f64::from(self.reps);
        let mean_s = self.sum_s / n.max(1.0);
        let variance = (self.squares - n * mean_s * mean_s) / (n - 1.0).max(1.0);
        let error_s = (variance.max(0.0) / n.max(1.0)).sqrt();
        Sample::measured(units, mean_s, self.reps, error_s)
    }
}

/// Returns Student's t for a mean of `reps` repetitions at 95 % confidence, the default of measurements.
pub fn student_t(reps: u32) -> f64 {
    const BY_FREEDOM: [f64; 20] = [
        f64::INFINITY,
        12.706,
        4.303,
        3.182,
        2.776,
        2.571,
        2.447,
        2.365,
        2.306,
        2.262,
        2.228,
        2.201,
        2.179,
        2.160,
        2.145,
        2.131,
        2.120,
        2.110,
        2.101,
        2.093,
    ];
    let freedom = reps.saturating_sub(1) as usize;
    BY_FREEDOM[freedom.min(BY_FREEDOM.len() - 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_has_its_two_deviations() {
        let (bursts, reps) = (4000, 5);
        let mut noise = NodeNoise::new(1, 1);
        let mut means = RepeatedTimes::default();
        let mut within = 0.0;
        for _ in 0..bursts {
            noise.begin_burst();
            let times: Vec<f64> = (0..reps).map(|_| noise.blur(&[1.0])[0]).collect();
            let mean = times.iter().sum::<f64>() / f64::from(reps);
            within += times.iter().map(|t| (t - mean).powi(2)).sum::<f64>();
            means.add(mean);
        }
        let of_repetition = (within / f64::from(bursts * (reps - 1))).sqrt();
        assert!((of_repetition / OF_REPETITION - 1.0).abs() < 0.05, "{of_repetition}");
        let spread = means.squares / f64::from(bursts) - (means.sum_s / f64::from(bursts)).powi(2);
        let expected = OF_BURST.powi(2) + OF_REPETITION.powi(2) / f64::from(reps);
        assert!((spread / expected - 1.0).abs() < 0.1, "{spread} {expected}");
    }

    #[test]
    fn means_have_their_standard_error() {
        let mut times = RepeatedTimes::default();
        for t_s in [1.0, 2.0, 3.0] {
            times.add(t_s);
        }
        let found = times.summarize(7);
        assert_eq!((found.seconds, found.reps), (2.0, 3));
        assert!((found.error_s - 1.0 / 3.0_f64.sqrt()).abs() < 1e-12);
    }
}
