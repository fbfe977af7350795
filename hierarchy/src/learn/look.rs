//! The short look at the parts before the first step.

use super::AdaptiveError;
use super::division::{BoundedPart, divide, longest_mean};
use super::learner::Adaptive;
use super::part::PartState;
use crate::model::SpeedModel;
use crate::partition::apportion;

impl Adaptive {
    /// Returns, for a measurement of these units, the seconds from which a part's speed has fallen for certain. `None`
    /// for a part that has done as many units, or is not expected to fall.
    pub fn limit_measurement(&self, units: &[u64]) -> Vec<Option<f64>> {
        self.parts
            .iter()
            .zip(units)
            .map(|(part, &units)| {
                let curve = part.curve.as_ref()?;
                let is_new = units as f64 > curve.seen && units > part.part.safe;
                is_new.then(|| self.config.look.fallen * curve.line.time_s(units as f64))
            })
            .collect()
    }

    /// Returns the units of the next measurement; `None` if the look is over.
    pub(super) fn plan_look(&self) -> Result<Option<Vec<u64>>, AdaptiveError> {
        let look = &self.config.look;
        if self.parts.len() < 2 || self.total == 0 || self.looks >= look.most {
            return Ok(None);
        }
        let unknown: Vec<bool> = self.parts.iter().map(PartState::is_unknown).collect();
        let is_probe_due = self.parts.iter().any(PartState::awaits_probe);
        if unknown.contains(&true) || is_probe_due {
            if let Some(likely) = self.size_likely_look() {
                return Ok(Some(likely));
            }
            let looks = self.size_look(self.config.look.fractions[0], &unknown);
            return self.add_probes(looks).map(Some);
        }
        let fresh: Vec<bool> = self.parts.iter().map(PartState::is_fresh).collect();
        if !fresh.contains(&true) {
            return self.plan_growth();
        }
        let speeds = self.list_speeds();
        let fastest = speeds.iter().copied().fold(0.0, f64::max);
        let slowest = speeds.iter().copied().fold(f64::INFINITY, f64::min);
        if fastest < look.similar * slowest {
            return Ok(None);
        }
        let slow: Vec<bool> = (fresh.iter().zip(&speeds))
            .map(|(&fresh, v)| fresh && look.unlike * v < fastest)
            .collect();
        let doubtful: Vec<bool> = speeds.iter().map(|v| look.implausible * v < fastest).collect();
        match self.looks {
            1 | 2 if self.is_safe() => {
                if self.is_balanced() {
                    return Ok(None);
                }
                let look = self.size_balanced_look(&fresh, &speeds)?;
                Ok(self.is_worthwhile(&look, &speeds)?.then_some(look))
            }
            1 if !slow.contains(&true) => Ok(Some(self.size_second_look(&fresh))),
            1 if doubtful.contains(&true) => {
                Ok(Some(self.size_look(self.config.look.fractions[0], &doubtful)))
            }
            _ => self.plan_growth(),
        }
    }

    /// Returns `true` if no part's speed is expected to fall.
    fn is_safe(&self) -> bool {
        self.parts.iter().all(|part| part.part.safe >= self.total)
    }

    /// Returns `true` if all parts took about as long in the last look, which had a good part of the units of a
    /// balanced one.
    fn is_balanced(&self) -> bool {
        let (mut seen, mut shortest_s, mut longest_s) = (0.0, f64::INFINITY, 0.0f64);
        for (units, time_s) in self.parts.iter().filter_map(PartState::last_time) {
            seen += units;
            shortest_s = time_s.min(shortest_s);
            longest_s = time_s.max(longest_s);
        }
        let wanted = self.config.look.enough * self.count_likely_look() as f64;
        seen >= wanted && longest_s < self.config.look.balanced * shortest_s
    }

    /// Returns `true` if another look at safe parts of these speeds costs less than it may save, or if that is unknown.
    ///
    /// Parts that seem slower than likely may only have been disturbed. Then a step divided by the speeds seen takes
    /// longer than one divided by the likely speeds, until the times of the first steps show it.
    fn is_worthwhile(&self, look: &[u64], speeds: &[f64]) -> Result<bool, AdaptiveError> {
        let likely: Option<Vec<f64>> =
            (self.parts.iter()).map(|part| part.part.usable_likely_speed()).collect();
        let Some(likely) = likely else {
            return Ok(true);
        };
        // A disturbance only makes times longer.
        let scale =
            speeds.iter().zip(&likely).map(|(speed, likely)| speed / likely).fold(0.0, f64::max);
        let longest_s = divide(&self.list_candidates(), self.total, self.config.granule)?
            .iter()
            .zip(&likely)
            .map(|(&units, likely)| units as f64 / (scale * likely))
            .fold(0.0, f64::max);
        let best_s = self.total as f64 / (scale * likely.iter().sum::<f64>());
        let measured_s = longest_mean(&self.list_curves(), look);
        Ok(measured_s < self.config.look.first_steps * (longest_s - best_s))
    }

    /// Returns the units of all parts in a first look at parts of likely speeds.
    fn count_likely_look(&self) -> u64 {
        let affordable = self.total.saturating_mul(self.steps) / self.config.look.run_fraction;
        affordable.min(self.total / self.config.look.likely_fraction)
    }

    /// Returns the units of a first look that is likely to take all parts about as long; `None` if their speeds are
    /// unknown, or may fall.
    fn size_likely_look(&self) -> Option<Vec<u64>> {
        let is_first = self.looks == 0 && self.parts.iter().all(PartState::is_fresh);
        if !(is_first && self.is_safe()) {
            return None;
        }
        let likely: Option<Vec<f64>> =
            (self.parts.iter()).map(|part| part.part.usable_likely_speed()).collect();
        let granule = self.config.granule;
        Some(
            apportion(self.count_likely_look(), &likely?)
                .into_iter()
                .zip(&self.parts)
                .map(|(units, part)| (units / granule * granule).max(granule).min(part.capacity()))
                .collect(),
        )
    }

    /// Returns the units of a look at this fraction of an even share, for the parts chosen.
    fn size_look(&self, fraction: u64, chosen: &[bool]) -> Vec<u64> {
        let granule = self.config.granule;
        let even = self.total / self.parts.len() as u64;
        let units = (even / fraction / granule * granule).max(granule).min(self.total);
        let mut looks = Vec::with_capacity(self.parts.len());
        for (part, &chosen) in self.parts.iter().zip(chosen) {
            looks.push(if chosen { units.min(part.capacity()) } else { 0 });
        }
        looks
    }

    /// Returns the units of a second look for the parts chosen. Slow ones have less than their part of an even share:
    /// the others would wait for them, and will do more in the run.
    fn size_second_look(&self, chosen: &[bool]) -> Vec<u64> {
        let mut looks = self.size_look(self.config.look.fractions[1], chosen);
        let curves = self.list_curves();
        let shortest_s = curves
            .iter()
            .zip(&looks)
            .filter(|(_, units)| **units > 0)
            .filter_map(|(curve, &units)| Some(curve.as_ref()?.line.time_s(units as f64)))
            .fold(f64::INFINITY, f64::min);
        let granule = self.config.granule;
        for (units, curve) in looks.iter_mut().zip(curves) {
            let Some(curve) = curve else { continue };
            let within = curve.line.units_within(self.config.look.slower * shortest_s) as u64;
            let more = (self.config.look.notably * curve.seen) as u64;
            let enough = within.max(more).next_multiple_of(granule);
            *units = enough.min(*units);
        }
        looks
    }

    /// Adds the probes of parts with points of other conditions: a quarter of what their points suggest, so that all of
    /// them take about as long.
    fn add_probes(&self, mut looks: Vec<u64>) -> Result<Vec<u64>, AdaptiveError> {
        if !self.parts.iter().any(PartState::awaits_probe) {
            return Ok(looks);
        }
        let granule = self.config.granule;
        let wanted = divide(&self.list_candidates(), self.total, granule)?;
        for ((units, part), wanted) in looks.iter_mut().zip(&self.parts).zip(wanted) {
            if part.awaits_probe() {
                let probe =
                    (wanted / self.config.look.fractions[1] / granule * granule).max(granule);
                *units = probe.min(part.capacity());
            }
        }
        Ok(looks)
    }

    /// Returns the units of a second look for the parts chosen, which takes all of them about as long. A part that
    /// seemed far too slow is looked at with more than before: that shows whether it was disturbed.
    fn size_balanced_look(
        &self,
        chosen: &[bool],
        speeds: &[f64],
    ) -> Result<Vec<u64>, AdaptiveError> {
        let granule = self.config.granule;
        let wanted = divide(&self.list_candidates(), self.total, granule)?;
        let fastest = speeds.iter().copied().fold(0.0, f64::max);
        let mut looks = Vec::with_capacity(wanted.len());
        for (index, curve) in self.list_curves().into_iter().enumerate() {
            let balanced = wanted[index] / self.config.look.fractions[1] / granule * granule;
            let seen = curve
                .filter(|_| self.config.look.suspicious * speeds[index] < fastest)
                .map_or(0, |curve| curve.seen as u64);
            let units = balanced.max(seen.next_multiple_of(granule) + granule);
            looks.push(if chosen[index] { units } else { 0 });
        }
        Ok(looks)
    }

    /// Returns the speed of each part at the size looked at; NaN for a part that cannot work.
    fn list_speeds(&self) -> Vec<f64> {
        self.list_curves()
            .into_iter()
            .map(|curve| curve.map(|curve| curve.line.speed(curve.center)))
            .map(|speed| speed.unwrap_or(f64::NAN))
            .collect()
    }

    /// Returns a measurement of larger sizes for the parts that are fast enough for more than they may grow to,
    /// unless it takes much longer than a first step loses without it. Nothing has to be moved yet. After
    /// the first step, each growth moves results, which takes as long as many steps.
    fn plan_growth(&self) -> Result<Option<Vec<u64>>, AdaptiveError> {
        let granule = self.config.granule;
        let candidates = self.list_candidates();
        let careful = divide(&candidates, self.total, granule)?;
        let mut free = candidates.clone();
        for candidate in free.iter_mut().flatten() {
            candidate.bounds.reach = f64::INFINITY;
        }
        let wanted = divide(&free, self.total, granule)?;
        let wider: Vec<u64> = (candidates.iter().zip(&wanted))
            .map(|(&candidate, &units)| self.size_growth(candidate, units))
            .collect();
        let curves = self.list_curves();
        let lost_s = longest_mean(&curves, &careful) - longest_mean(&curves, &wanted);
        let measured_s = longest_mean(&curves, &wider);
        if measured_s >= self.config.look.patience * lost_s {
            return Ok(None);
        }
        let otherwise = self.divide_if_slow(&candidates, &wider)?;
        Ok(Some(self.measure_meanwhile(wider, &otherwise, measured_s)))
    }

    /// Returns the division if the parts that are measured turn out not to be worth more than they may have now.
    fn divide_if_slow(
        &self,
        candidates: &[Option<BoundedPart>],
        wider: &[u64],
    ) -> Result<Vec<u64>, AdaptiveError> {
        let mut others = candidates.to_vec();
        for candidate in others
            .iter_mut()
            .zip(wider)
            .filter(|&(_, &units)| units == 0)
            .filter_map(|(other, _)| other.as_mut())
        {
            candidate.bounds.reach = f64::INFINITY;
        }
        Ok(divide(&others, self.total, self.config.granule)?)
    }

    /// Lets other parts do more in a measurement that takes `measured_s` anyway: those that were too slow for the
    /// second look, which tells a long start from a low speed, and those that will get more if the measured parts turn
    /// out slow.
    fn measure_meanwhile(
        &self,
        mut wider: Vec<u64>,
        otherwise: &[u64],
        measured_s: f64,
    ) -> Vec<u64> {
        let granule = self.config.granule;
        let second = self.total / self.parts.len() as u64 / self.config.look.fractions[1];
        for ((units, part), &otherwise) in wider.iter_mut().zip(&self.parts).zip(otherwise) {
            let Some(curve) = part.curve.as_ref().filter(|_| *units == 0 && part.is_fresh()) else {
                continue;
            };
            let more =
                curve.line.units_within(measured_s).min(self.config.growth * curve.seen) as u64;
            let more = if curve.seen < second as f64 { more } else { more.min(otherwise) };
            if more as f64 > self.config.look.worthwhile * curve.seen {
                *units = (more / granule * granule).min(part.capacity());
            }
        }
        wider
    }

    /// Returns the units of a measurement on the way to the wanted ones; 0 for a part that needs none.
    fn size_growth(&self, candidate: Option<BoundedPart>, wanted: u64) -> u64 {
        let Some(BoundedPart { curve, bounds, .. }) = candidate else {
            return 0;
        };
        if wanted as f64 <= bounds.reach {
            return 0;
        }
        let grown = (self.config.growth * curve.seen).min(wanted as f64);
        let granule = self.config.granule;
        (grown as u64 / granule * granule).max(granule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learn::{AdaptivePart, Observed, Tuning};

    /// Returns a run of 100 steps of 1600 units by two parts, of which these units were seen to take these seconds.
    fn look(part: AdaptivePart, seen: Option<([u64; 2], [f64; 2])>) -> Adaptive {
        let mut learner = Adaptive::new(Tuning::default(), 1600, 100, vec![part; 2]).unwrap();
        if let Some((units, times_s)) = seen {
            let observed = Observed::undisturbed(true, 0, &units, &times_s);
            learner.observe(&observed).unwrap();
        }
        learner
    }

    fn safe_part(likely_speed: Option<f64>) -> AdaptivePart {
        AdaptivePart { safe: 1600, likely_speed, ..AdaptivePart::default() }
    }

    #[test]
    fn a_look_ends_after_eight_measurements() {
        let mut learner = look(AdaptivePart::default(), None);
        learner.looks = 7;
        assert!(learner.request_measurement().unwrap().is_some());
        learner.looks = 8;
        assert_eq!(learner.request_measurement(), Ok(None));
    }

    #[test]
    fn a_part_that_seems_500_times_slower_is_looked_at_again() {
        let mut learner = look(AdaptivePart::default(), Some(([50; 2], [0.1, 50.0])));
        assert_eq!(learner.request_measurement(), Ok(Some(vec![0, 50])));
    }

    #[test]
    fn a_part_that_seems_far_too_slow_does_more_than_before() {
        let mut learner = look(safe_part(None), Some(([50; 2], [1.0, 7.5])));
        let units = learner.request_measurement().unwrap().unwrap();
        assert_eq!(units[1], 51, "{units:?}");
    }

    #[test]
    fn a_balanced_look_at_half_of_its_units_is_enough() {
        let seen = ([30, 30], [1.0, 1.1]);
        let mut learner = look(safe_part(Some(1.0)), Some(seen));
        assert_eq!(learner.request_measurement(), Ok(None));
        let fewer = ([20, 20], [1.0, 1.1]);
        let mut learner = look(safe_part(None), Some(fewer));
        assert!(learner.request_measurement().unwrap().is_some());
    }
}
