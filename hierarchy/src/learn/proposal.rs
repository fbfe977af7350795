//! The divisions that a run could change to.

use std::collections::BTreeMap;

use super::curve::TimeCurve;
use super::division::{
    BoundedPart, Bounds, Place, Proposal, divide, expect_step, predict_times, sum_units,
};
use super::learner::Adaptive;
use super::{AdaptiveError, LaidOut};
use crate::model::SpeedModel;
use crate::partition::{apportion, even};
use crate::times::{Sample, expect_longest};

impl Adaptive {
    /// Returns the divisions to choose from: over all parts, over all but those with the largest fixed
    /// costs, and inside the nodes as they are.
    pub(super) fn propose_divisions(&self) -> Result<Vec<Vec<u64>>, AdaptiveError> {
        let mut candidates = self.list_candidates();
        if candidates.iter().all(Option::is_none) {
            // One part alone is not looked at.
            return Ok(vec![even(self.parts.len(), self.total)]);
        }
        let all = divide(&candidates, self.total, self.config.granule)?;
        let mut proposals = vec![all];
        for idle in self.list_drops(&proposals[0]) {
            for part in idle {
                candidates[part] = None;
            }
            if candidates.iter().any(Option::is_some) {
                proposals.push(divide(&candidates, self.total, self.config.granule)?);
            }
        }
        proposals.extend(self.divide_inside()?);
        Ok(proposals)
    }

    /// Returns groups of parts to leave out one after the other. Each group is three times as large as all
    /// before it, and the first has the part that a step is expected to wait for longest.
    ///
    /// A part is left out on trial if its time is uncertain, and if the step waits for it longer than the
    /// others need for its units. A part that works is kept until the times of smaller sizes tell what it needs to start.
    fn list_drops(&self, units: &[u64]) -> Vec<Vec<usize>> {
        let doubtful = self.config.change.doubtful;
        let (doubtful, sure): (Vec<_>, Vec<_>) =
            predict_times(&self.list_candidates(), units).into_iter().partition(|&(part, time)| {
                time.error_s > doubtful * time.seconds && self.may_drop(part)
            });
        let sure: Vec<Sample> = sure.into_iter().map(|(_, time)| time).collect();
        let sure_s = expect_longest(&sure);
        let speed = self.sum_speeds(units);
        let mut late: Vec<(f64, usize)> = (doubtful.into_iter())
            .map(|(part, time)| (time.expect_beyond(sure_s) - units[part] as f64 / speed, part))
            .filter(|&(net_s, _)| net_s > 0.0)
            .collect();
        late.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut drops = Vec::new();
        let mut rest = late.as_slice();
        while !rest.is_empty() {
            let size = (3 * (late.len() - rest.len())).clamp(1, rest.len());
            let (group, later) = rest.split_at(size);
            drops.push(group.iter().map(|&(_, part)| part).collect());
            rest = later;
        }
        drops
    }

    fn may_drop(&self, part: usize) -> bool {
        self.find_unsupported(part).is_none()
    }

    /// Returns the smallest size with a valid time of a part that works, if that time says nothing about much smaller sizes.
    fn find_unsupported(&self, part: usize) -> Option<u64> {
        let &units = self.now.get(part)?;
        self.parts[part].find_unsupported(units, self.config.granule)
    }

    /// Returns the units that all busy parts do in a second beyond these.
    fn sum_speeds(&self, units: &[u64]) -> f64 {
        self.list_curves()
            .into_iter()
            .zip(units)
            .filter(|&(_, &d)| d > 0)
            .filter_map(|(curve, _)| curve.map(|curve| 1.0 / curve.slope))
            .sum()
    }

    /// Returns the division inside the nodes whose units stay as they are, if some node has several parts.
    fn divide_inside(&self) -> Result<Option<Vec<u64>>, AdaptiveError> {
        let mut nodes: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (index, part) in self.parts.iter().enumerate() {
            nodes.entry(part.part.node).or_default().push(index);
        }
        if self.now.is_empty() || nodes.len() == self.parts.len() || nodes.len() == 1 {
            return Ok(None);
        }
        let candidates = self.list_candidates();
        let mut units = self.now.clone();
        for members in nodes.values().filter(|members| members.len() > 1) {
            let inside: Vec<Option<BoundedPart>> =
                members.iter().map(|&part| candidates[part]).collect();
            let total = members.iter().map(|&part| self.now[part]).sum();
            if inside.iter().any(Option::is_some) {
                let divided = divide(&inside, total, self.config.granule)?;
                for (&part, &d) in members.iter().zip(&divided) {
                    units[part] = d;
                }
            }
        }
        Ok(Some(units))
    }

    pub(super) fn list_curves(&self) -> Vec<Option<&TimeCurve>> {
        self.parts.iter().map(|part| part.curve.as_ref()).collect()
    }

    pub(super) fn list_candidates(&self) -> Vec<Option<BoundedPart<'_>>> {
        (self.parts.iter().enumerate())
            .map(|(index, part)| {
                let curve = part.curve.as_ref()?;
                let capacity = part.part.capacity.map_or(f64::INFINITY, |units| units as f64);
                let reach = match &curve.fall {
                    Some(fall) => self.config.growth_before_fall * fall.last,
                    None => (part.part.safe as f64).max(self.limit_growth(curve)),
                };
                Some(BoundedPart {
                    curve,
                    bounds: Bounds { reach, capacity },
                    kept_from: self.find_unsupported(index).map(|least| least as f64),
                    trial: self.trials.get(index).copied().flatten(),
                })
            })
            .collect()
    }

    /// Returns the largest size to which a part may grow in one change.
    fn limit_growth(&self, curve: &TimeCurve) -> f64 {
        let usual = self.config.growth_in_step * curve.seen;
        let endurable = self.endurable_s.map(|limit_s| curve.find_endurable(limit_s));
        endurable.map_or(usual, |endurable| endurable.min(usual))
    }

    /// Rates a division as it can be laid out; `None` if its step takes no less than `limit_s` even as asked.
    pub(super) fn rate_below(
        &self,
        limit_s: f64,
        asked: Vec<u64>,
        place: Place,
    ) -> Result<Option<Proposal>, AdaptiveError> {
        if expect_step(&self.list_candidates(), &asked) >= limit_s {
            return Ok(None);
        }
        self.rate(asked, place).map(Some)
    }

    /// Rates a division as it can be laid out. Where whole blocks make a part late, less is asked for it.
    pub(super) fn rate(&self, asked: Vec<u64>, place: Place) -> Result<Proposal, AdaptiveError> {
        let wanted_s = expect_step(&self.list_candidates(), &asked);
        let mut best = self.rate_once(asked, place)?;
        let late_s = self.config.change.late * wanted_s;
        for _ in 0..self.config.change.placements {
            if best.step_s <= late_s {
                break;
            }
            let next = self.rate_once(self.ask_less(&best, late_s), place)?;
            if next.step_s >= best.step_s {
                break;
            }
            best = next;
        }
        Ok(best)
    }

    /// Returns the units asked for, less for each part that takes longer than `late_s` by as much as it has
    /// too many, in whole granules. The others take them in proportion to their units.
    fn ask_less(&self, proposal: &Proposal, late_s: f64) -> Vec<u64> {
        let mut asked = proposal.asked.clone();
        let mut weights: Vec<f64> = asked.iter().map(|&d| d as f64).collect();
        let granule = self.config.granule;
        let mut spare = 0;
        for (index, curve) in self.list_curves().into_iter().enumerate() {
            let placed = proposal.units[index];
            let is_late = curve.is_some_and(|curve| curve.line.time_s(placed as f64) > late_s);
            if is_late || placed > self.parts[index].capacity() {
                let less = placed.saturating_sub(asked[index]).div_ceil(granule);
                let less = less.min(asked[index] / granule);
                asked[index] -= less * granule;
                spare += less;
                weights[index] = 0.0;
            }
        }
        for (d, more) in asked.iter_mut().zip(apportion(spare, &weights)) {
            *d += more * granule;
        }
        asked
    }

    fn rate_once(&self, asked: Vec<u64>, place: Place) -> Result<Proposal, AdaptiveError> {
        let LaidOut { units, cost_s } = place(&asked);
        let (wanted, got) = (self.parts.len(), units.len());
        if got != wanted {
            return Err(AdaptiveError::WrongLength { wanted, got });
        }
        let got = sum_units(&units);
        if got != self.total {
            return Err(AdaptiveError::WrongTotal { wanted: self.total, got });
        }
        if !(cost_s >= 0.0 && cost_s.is_finite()) {
            return Err(AdaptiveError::InvalidCost { cost_s });
        }
        let fits = units.iter().zip(&self.parts).all(|(&d, part)| d <= part.capacity());
        let step_s =
            if fits { expect_step(&self.list_candidates(), &units) } else { f64::INFINITY };
        Ok(Proposal { asked, units, step_s, cost_s })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learn::{AdaptivePart, Observed, Tuning};

    #[test]
    fn what_is_asked_for_again_is_in_whole_granules() {
        let settings = Tuning { granule: 10, ..Tuning::default() };
        let parts = vec![AdaptivePart::default(); 3];
        let mut learner = Adaptive::for_own_loop(settings, 300, parts).unwrap();
        let observed = Observed::undisturbed(false, 0, &[100; 3], &[1.0; 3]);
        learner.observe(&observed).unwrap();
        learner.fit_models();
        let mut all_asked = Vec::new();
        // The first part is late by an odd number of granules, which two parts share.
        let place = &mut |asked: &[u64]| {
            all_asked.push(asked.to_vec());
            LaidOut { units: vec![150, 80, 70], cost_s: 0.0 }
        };
        learner.rate(vec![100; 3], place).unwrap();
        assert_eq!(all_asked[1], [50, 130, 120]);
    }

    #[test]
    fn a_late_division_is_laid_out_three_times_again() {
        let parts = vec![AdaptivePart::default(); 2];
        let mut learner = Adaptive::for_own_loop(Tuning::default(), 200, parts).unwrap();
        let observed = Observed::undisturbed(false, 0, &[100; 2], &[1.0; 2]);
        learner.observe(&observed).unwrap();
        learner.fit_models();
        let mut placed = 0;
        // Each division is a little less late than the one before.
        let place = &mut |_: &[u64]| {
            placed += 1;
            LaidOut { units: vec![160 - placed, 40 + placed], cost_s: 0.0 }
        };
        learner.rate(vec![100; 2], place).unwrap();
        assert_eq!(placed, 4);
    }
}
