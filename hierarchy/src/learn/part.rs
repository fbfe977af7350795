//! One part of the work: its limits, its measured points and its model.

use serde::{Deserialize, Serialize};

use super::Tuning;
use super::curve::{Expected, TimeCurve};
use crate::model::{Point, SpeedModel};
use crate::times::{
    Deviation, LogTime, Noise, Sample, Shift, SizeLevel, Watch, drop_outrun, merge_sizes,
};

/// A node, or a device of a node, which gets a part of the units.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct AdaptivePart {
    /// Node of the part: the rank of the device.
    pub node: usize,
    /// Parts of one kind are expected to be alike, and share what is learnt as far as they are.
    pub kind: usize,
    /// Most units that it may get; `None` without a limit.
    pub capacity: Option<u64>,
    /// Units up to which its speed is not expected to fall, such as those that its memory holds, if it starts at
    /// once; 0 if nothing is known of it.
    pub safe: u64,
    /// Speed that it is likely to have, in a unit that all parts share, such as cores at full speed. It sizes the
    /// first look. `None` if unknown.
    pub likely_speed: Option<f64>,
    /// Points that were measured earlier, with intervals that count how far they may be off here. A part that has
    /// some needs no first look. Lower bounds (`reps` 0) hold for sizes beyond all measured ones, and alone tell
    /// nothing.
    pub prior: Vec<Point>,
    /// `true` if a measurement before the run scales these points: they are of other conditions, or of another device
    /// of its kind.
    pub needs_probe: bool,
}

impl AdaptivePart {
    /// Returns the likely speed, if it is one.
    pub(super) fn usable_likely_speed(&self) -> Option<f64> {
        self.likely_speed.filter(|v| v.is_finite() && *v > 0.0)
    }
}

impl SizeLevel {
    /// Takes the point of an earlier run; one without an interval has the relative variance `doubt`.
    fn from_prior(point: &Point, doubt: f64) -> Self {
        let time = LogTime::of_point(point, doubt);
        Self::of_mean(point.d, time.log_s, f64::from(point.reps), time.variance)
    }

    /// Scales the time to another speed. Small factors may be noise, which takes nothing back.
    fn shift(&mut self, log_factor: f64, tuning: &Tuning) {
        self.mean += log_factor;
        if log_factor.abs() > tuning.drift.reversible.ln() {
            self.shifted += log_factor;
        } else {
            self.doubt += (tuning.drift.doubt * log_factor).powi(2);
        }
    }

    /// Learns the noise between bursts from the times of two nearly equal sizes.
    fn compare_with(&self, other: &Self, curve: &TimeCurve, nearby: f64, noise: &mut Noise) {
        let [d, other_d] = [self.d, other.d].map(|d| d as f64);
        let is_certain = [self, other].iter().all(|it| it.doubt == 0.0 && it.shifted == 0.0);
        if !is_certain || d.max(other_d) > nearby * d.min(other_d) || d.max(other_d) > curve.seen {
            return;
        }
        let expected = (curve.line.time_s(d) / curve.line.time_s(other_d)).ln();
        let distance = self.mean - other.mean - expected;
        let within = noise.within() * (1.0 / self.count + 1.0 / other.count);
        noise.learn_between(distance, within, 1.0 / self.bursts + 1.0 / other.bursts);
    }

    fn to_log_time(self, noise: &Noise, tuning: &Tuning) -> LogTime {
        let variance = noise.of_mean(self.count, self.bursts)
            + self.doubt
            + (tuning.drift.doubt * self.shifted).powi(2);
        LogTime::measured(self.d as f64, self.mean, variance)
    }
}

/// The origin of a part's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimeOrigin {
    /// The parts were only measured.
    Measurement,
    /// The first step with a division, which finds cold caches and new pages: such steps took 1.0 to 1.3 times as long as later ones.
    FirstStep,
    /// A later step.
    Step,
}

/// A part and all that is known of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct PartState {
    pub part: AdaptivePart,
    points: Vec<SizeLevel>,
    /// Lower bounds of the times of sizes that were given up earlier, ascending.
    #[serde(default)]
    floors: Vec<LogTime>,
    level: Option<SizeLevel>,
    watch: Watch,
    /// Disturbed times beyond the undisturbed ones, up to the number from which they count.
    #[serde(default)]
    disturbed: f64,
    /// `true` while the current size is only measured, before the run.
    is_measurement: bool,
    /// `true` while the only time of the current size may be one of cold caches, which a shorter one replaces.
    #[serde(default)]
    is_cold: bool,
    /// `true` until a measurement has scaled the earlier points.
    awaits_probe: bool,
    /// Smallest size that was measured since the part's speed last changed; `None` before the first.
    #[serde(default)]
    least_valid: Option<u64>,
    /// The times of the points as the model takes them.
    samples: Vec<LogTime>,
    /// The model of the points; `None` before the first.
    pub curve: Option<TimeCurve>,
    #[serde(skip)]
    tuning: Tuning,
}

impl PartState {
    pub fn new(part: AdaptivePart, tuning: Tuning) -> Self {
        let (measured, given_up): (Vec<&Point>, Vec<&Point>) =
            part.prior.iter().partition(|point| point.reps > 0);
        let points: Vec<SizeLevel> = measured
            .into_iter()
            .map(|point| SizeLevel::from_prior(point, tuning.doubt.prior))
            .collect();
        Self {
            awaits_probe: part.needs_probe && !points.is_empty(),
            least_valid: points.iter().map(|point| point.d).min(),
            floors: list_floors(&given_up, tuning.doubt.prior),
            part,
            points,
            level: None,
            watch: Watch::new(tuning.drift.rule),
            disturbed: 0.0,
            is_measurement: false,
            is_cold: false,
            samples: Vec::new(),
            curve: None,
            tuning,
        }
    }

    /// Returns the most units that the part may get.
    pub fn capacity(&self) -> u64 {
        self.part.capacity.unwrap_or(u64::MAX)
    }

    /// Returns `true` if the part can work and no time of it is known.
    pub fn is_unknown(&self) -> bool {
        self.level.is_none() && self.points.is_empty() && self.capacity() > 0
    }

    /// Returns `true` if the part can work and nothing was known of it before the run.
    pub fn is_fresh(&self) -> bool {
        self.part.prior.iter().all(|point| point.reps == 0) && self.capacity() > 0
    }

    /// Returns `true` if the part's earlier points are still to be scaled.
    pub fn awaits_probe(&self) -> bool {
        self.awaits_probe && self.capacity() > 0
    }

    /// Returns the units of the last time, and the seconds that they take by the model; `None` before the first.
    pub fn last_time(&self) -> Option<(f64, f64)> {
        let (level, curve) = self.level.as_ref().zip(self.curve.as_ref())?;
        let units = level.d as f64;
        Some((units, curve.line.time_s(units)))
    }

    /// Takes a time in a burst, of a measurement, of a step or of the first one with a division. Returns a shift if the part's
    /// speed has changed.
    pub fn observe(
        &mut self,
        sample: Sample,
        burst: u64,
        origin: TimeOrigin,
        noise: &mut Noise,
    ) -> Option<Shift> {
        if !self.counts(sample) {
            return None;
        }
        let (d, t_s) = (sample.units, sample.seconds);
        if self.awaits_probe {
            self.scale_prior(d, t_s, noise);
        }
        let is_measurement = origin == TimeOrigin::Measurement;
        let is_new = self.is_measurement != is_measurement
            || self.level.as_ref().is_none_or(|level| level.d != d);
        if is_new {
            self.finish_level(noise);
            self.is_measurement = is_measurement;
        }
        let is_warmer = |level: &SizeLevel| self.is_cold && t_s.ln() < level.mean;
        if is_new || self.level.as_ref().is_some_and(is_warmer) {
            self.level = Some(self.start_level(d, burst, noise));
        }
        self.is_cold = is_new && origin == TimeOrigin::FirstStep;
        self.least_valid = Some(self.least_valid.map_or(d, |least| least.min(d)));
        let cut = self.tuning.drift.rule.cut;
        let deviation = self.level.as_mut()?.observe(t_s.ln(), burst, noise, cut);
        let shift =
            self.watch.observe(deviation).or_else(|| self.find_outlived(deviation, noise))?;
        self.shift_points(&shift, burst, noise);
        self.outdate_sizes(d, shift.log_factor);
        Some(shift)
    }

    /// Returns `true` if a time says how fast the part is. A disturbed one does not, unless nothing else is known, or disturbances
    /// last: then they are a condition of the run.
    fn counts(&mut self, sample: Sample) -> bool {
        let lasting = self.tuning.drift.disturbed;
        self.disturbed = if sample.is_disturbed() {
            (self.disturbed + 1.0).min(lasting)
        } else {
            (self.disturbed - 1.0).max(0.0)
        };
        !sample.is_disturbed() || self.disturbed >= lasting || self.is_unknown()
    }

    /// Counts only sizes from now on as valid if the speed has changed by a factor that matters. The time that the part needs
    /// to start may have changed by another one.
    fn outdate_sizes(&mut self, d: u64, log_factor: f64) {
        if log_factor.abs() > self.tuning.drift.reported.ln() {
            self.least_valid = Some(d);
        }
    }

    /// Returns the smallest size with a valid time if none is small enough to tell what the part needs to start. Returns `None`
    /// for a part that may be left out, and for one without units.
    pub fn find_unsupported(&self, units: u64, granule: u64) -> Option<u64> {
        let supported = (units / self.tuning.doubt.support).max(granule);
        self.least_valid.filter(|&least| units > 0 && least > supported)
    }

    /// Lets the next time scale all points: the part may be faster or slower by now.
    pub fn try_again(&mut self, noise: &mut Noise) {
        self.finish_level(noise);
        self.awaits_probe = !self.points.is_empty();
    }

    /// Scales the earlier points to a first time of this run: their ratios hold under other conditions, their times may
    /// not.
    fn scale_prior(&mut self, d: u64, t_s: f64, noise: &Noise) {
        self.awaits_probe = false;
        self.fit_curve(noise);
        let Some(curve) = &self.curve else {
            return;
        };
        let log_factor = (t_s / curve.line.time_s(d as f64)).ln();
        self.outdate_sizes(d, log_factor);
        for point in &mut self.points {
            point.doubt = point.doubt.min(self.tuning.doubt.prior);
            point.shift(log_factor, &self.tuning);
        }
        self.scale_floors(log_factor);
        self.fit_curve(noise);
    }

    /// Ends the current size, whose mean becomes a point.
    fn finish_level(&mut self, noise: &mut Noise) {
        let point = self.current_point();
        if let (Some(point), Some(last), Some(curve)) = (point, self.points.last(), &self.curve) {
            point.compare_with(last, curve, self.tuning.doubt.nearby, noise);
        }
        self.points.extend(point);
        self.level = None;
        if self.points.len() > self.tuning.doubt.points {
            self.points.remove(0);
        }
    }

    fn current_point(&self) -> Option<SizeLevel> {
        let mut level = self.level.filter(|level| level.count > 0.0)?;
        if self.is_measurement {
            level.doubt = self.tuning.doubt.measurement;
        }
        Some(level)
    }

    /// Starts a size: at the time that the model expects if the size was seen and lies well before any fall,
    /// else at any.
    fn start_level(&self, d: u64, burst: u64, noise: &Noise) -> SizeLevel {
        let size = d as f64;
        match self.curve.as_ref().filter(|curve| size <= curve.find_known()) {
            Some(curve) => {
                let variance =
                    curve.variance(size) + noise.between() + self.tuning.doubt.measurement;
                SizeLevel::new(d, curve.line.time_s(size).ln(), variance, burst)
            }
            None => SizeLevel::unknown(d, burst),
        }
    }

    /// Returns the shift that explains why the current size takes clearly longer than a larger one did, several times:
    /// the part was faster then. A size of unknown time has nothing that [`Watch`] could compare it with.
    fn find_outlived(&self, last: Deviation, noise: &Noise) -> Option<Shift> {
        let point = self.current_point()?;
        if self.is_measurement || point.count < self.tuning.drift.lasting {
            return None;
        }
        let clearly = self.tuning.doubt.clearly;
        let sample = point.to_log_time(noise, &self.tuning);
        let earlier = self.points.iter().map(|point| point.to_log_time(noise, &self.tuning));
        let is_outlived = earlier.clone().any(|earlier| {
            let doubt = (earlier.variance + sample.variance).sqrt();
            earlier.d > sample.d && earlier.log_s < sample.log_s - clearly * doubt
        });
        if !is_outlived {
            return None;
        }
        let mut samples: Vec<LogTime> = earlier.collect();
        samples.sort_by(|a, b| a.d.total_cmp(&b.d));
        merge_sizes(&mut samples);
        drop_outrun(&mut samples, clearly);
        let before = TimeCurve::fit(&samples, sample.d, self.expect(point.d), self.tuning.fit);
        let log_factor = point.mean - before.line.time_s(sample.d).ln();
        let doubt = (before.variance(sample.d) + sample.variance).sqrt();
        if log_factor <= clearly * doubt {
            return None;
        }
        let deviation = Deviation { log_s: point.mean, residual: log_factor, ..last };
        Some(Shift { log_factor, deviations: vec![deviation; self.tuning.drift.lasting as usize] })
    }

    /// Scales the points before a shift to the times after it.
    fn shift_points(&mut self, shift: &Shift, burst: u64, noise: &mut Noise) {
        for point in &mut self.points {
            point.shift(shift.log_factor, &self.tuning);
        }
        self.scale_floors(shift.log_factor);
        if let Some(level) = &mut self.level {
            let d = level.d;
            *level = SizeLevel::unknown(d, burst);
            for deviation in shift.deviations.iter().filter(|x| x.d == d) {
                level.observe(deviation.log_s, burst, noise, self.tuning.drift.rule.cut);
            }
        }
    }

    fn scale_floors(&mut self, log_factor: f64) {
        for floor in &mut self.floors {
            floor.log_s += log_factor;
        }
    }

    /// Returns `true` if the only time of the current size lies behind a fall too steep to be believed at once.
    pub fn is_doubtful(&self) -> bool {
        let is_first = self.current_point().is_some_and(|point| point.count < 2.0);
        let fall = self.curve.as_ref().and_then(|curve| curve.fall.map(|fall| (fall, curve.seen)));
        is_first && fall.is_some_and(|(fall, seen)| fall.to <= seen)
    }

    /// Fits the model around the current size, or the largest one before a fall.
    pub fn fit_curve(&mut self, noise: &Noise) {
        let points: Vec<SizeLevel> =
            self.points.iter().copied().chain(self.current_point()).collect();
        let Some(last) = points.last() else {
            return;
        };
        let mut samples: Vec<LogTime> =
            points.iter().map(|point| point.to_log_time(noise, &self.tuning)).collect();
        samples.sort_by(|a, b| a.d.total_cmp(&b.d));
        merge_sizes(&mut samples);
        drop_outrun(&mut samples, self.tuning.doubt.clearly);
        let expected = self.expect(last.d);
        let mut curve = TimeCurve::fit(&samples, last.d as f64, expected, self.tuning.fit);
        if curve.seen < curve.center {
            curve = TimeCurve::fit(&samples, curve.seen, expected, self.tuning.fit);
        }
        self.samples = samples;
        self.take_curve(curve);
    }

    /// Takes a model of the samples, and lifts it to the bounds of sizes beyond them.
    fn take_curve(&mut self, mut curve: TimeCurve) {
        let largest = self.samples.last().map_or(0.0, |sample| sample.d);
        let beyond = self.floors.partition_point(|floor| floor.d <= largest);
        curve.hold_floors(&self.floors[beyond..]);
        self.curve = Some(curve);
    }

    /// Returns what is expected of `d` units.
    fn expect(&self, d: u64) -> Expected {
        if d <= self.part.safe { Expected::Steady } else { Expected::Anything }
    }

    /// Returns `true` if the model clearly contradicts a time.
    pub fn is_unlike(&self, time: &LogTime) -> bool {
        self.curve.as_ref().is_some_and(|own| {
            let off = own.line.time_s(time.d).ln() - time.log_s;
            off.abs() > self.tuning.doubt.clearly * own.variance(time.d).sqrt()
        })
    }

    /// Fits the model with one more point, of what parts of its kind have in common.
    pub fn count_in(&mut self, common: LogTime) {
        let Some(own) = self.curve.as_ref().filter(|curve| curve.fall.is_none()) else {
            return;
        };
        if own.center.max(common.d) > self.tuning.doubt.alike * own.center.min(common.d) {
            return;
        }
        let (seen, center) = (own.seen, own.center);
        self.samples.push(common);
        self.samples.sort_by(|a, b| a.d.total_cmp(&b.d));
        merge_sizes(&mut self.samples);
        let mut curve =
            TimeCurve::fit_line(&self.samples, center, self.expect(center as u64), self.tuning.fit);
        curve.seen = seen;
        self.take_curve(curve);
    }
}

/// Returns the lower bounds of sizes that were given up, ascending; those without an interval have the relative variance
/// `doubt`.
fn list_floors(given_up: &[&Point], doubt: f64) -> Vec<LogTime> {
    let mut floors: Vec<LogTime> =
        given_up.iter().map(|point| LogTime::of_point(point, doubt)).collect();
    floors.sort_by(|a, b| a.d.total_cmp(&b.d));
    floors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::times::NoiseRule;

    #[test]
    fn a_size_tells_the_start_of_sizes_up_to_four_times_as_large() {
        let mut part = PartState::new(AdaptivePart::default(), Tuning::default());
        let mut noise = Noise::new(NoiseRule::default());
        part.observe(Sample::measured(10, 1.0, 1, 0.0), 0, TimeOrigin::Step, &mut noise);
        assert_eq!(part.find_unsupported(43, 1), None);
        assert_eq!(part.find_unsupported(39, 1), Some(10));
    }

    #[test]
    fn a_shorter_time_replaces_a_first_step_of_cold_caches() {
        let learn = |times_s: &[f64]| {
            let mut part = PartState::new(AdaptivePart::default(), Tuning::default());
            let mut noise = Noise::new(NoiseRule::default());
            for (step, &t_s) in times_s.iter().enumerate() {
                let origin = if step == 0 { TimeOrigin::FirstStep } else { TimeOrigin::Step };
                part.observe(Sample::measured(10, t_s, 1, 0.0), 0, origin, &mut noise);
            }
            part.fit_curve(&noise);
            part.curve.expect("a model").line.time_s(10.0)
        };
        assert!((learn(&[1.06, 1.0]) - 1.0).abs() < 1e-9);
        assert!((learn(&[1.0, 1.06]) - 1.03).abs() < 1e-3);
        assert!((learn(&[1.06, 1.0, 1.02]) - 1.01).abs() < 1e-3);
    }

    #[test]
    fn an_earlier_time_without_an_interval_may_be_off_by_five_percent() {
        let prior = vec![Point { d: 10, t_s: 1.0, reps: 1000, ci_s: 0.0 }];
        let part = AdaptivePart { prior, ..AdaptivePart::default() };
        let mut part = PartState::new(part, Tuning::default());
        part.fit_curve(&Noise::new(NoiseRule::default()));
        let error = part.curve.expect("a model").variance(10.0).sqrt();
        assert!((error - 0.051).abs() < 0.002, "{error}");
    }
}
