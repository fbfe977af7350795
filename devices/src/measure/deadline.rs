//! Sizes that would take far too long: predicted from parts of them, before they run.

use crate::contract::DeviceError;

/// An update expected to take less than this part of the deadline is not examined. No step in a device's speed is that
/// high as long as its operands are in memory.
pub(super) const CAREFREE: f64 = 1.0 / 16.0;

/// From one part to the next the columns grow by this factor, so that all parts together cost a third of an update.
const GROWTH: usize = 4;

/// A size is hopeless if it is expected to take this multiple of the deadline. Wide updates may be somewhat faster for
/// each column than their parts, but never twice as fast once the columns have grown.
pub(super) const HOPELESS: f64 = 2.0;

/// An update of the given columns of each device; returns their times in seconds.
pub(super) type PartialUpdate<'a> = dyn FnMut(&[usize]) -> Result<Vec<f64>, DeviceError> + 'a;

/// The part of a device's slice that can be measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Reach {
    /// Columns that it can update in time: all of its slice, or the last part that was run.
    pub columns: usize,
    /// A lower bound in seconds of the time of the whole slice; `None` if the whole slice can be measured.
    pub bound_s: Option<f64>,
}

/// Finds out how far the slices can be measured: widens an update, part by part, until it is whole or hopeless.
///
/// The first part, of `widths` columns, warms the devices up. If the whole slices at its rate stay far below the deadline,
/// nothing else is run. Else the part is repeated, and widened by 4 again and again. Let `t₁ < t₂` be the times of the last
/// two parts `w₁ < w₂` of a slice `n`. The whole then takes at least `t₂ + (n - w₂)·(t₂ - t₁)/(w₂ - w₁)`, if later columns
/// are not faster than these.
///
/// A slice is hopeless if this is more than twice `deadline_s`, twice in a row. Its part stays as a load for the other
/// devices, whose slices go on growing. The bound is the deadline, or the time of the last part if that was longer.
///
/// # Deviations
/// * **Sizes that take too long**: the thesis kills a benchmark below 0.5 GFLOPS, and enters 0.1 GFLOPS (section
///   4.3.1); the supplement of the HPOPTA paper repeats until the time is over (section 1). Here a size that would take
///   over twice the time is not measured, and its record is a lower bound, because a running update cannot be
///   interrupted and no speed was seen. The time is predicted from ever wider parts of the size, if its first columns
///   raise doubts.
///
/// # Errors
/// Returns the errors of `update`.
pub(super) fn find_reaches(
    slices: &[usize],
    mut widths: Vec<usize>,
    deadline_s: f64,
    update: &mut PartialUpdate<'_>,
) -> Result<Vec<Reach>, DeviceError> {
    let mut parts: Vec<SlicePart> = slices.iter().map(|&whole| SlicePart::new(whole)).collect();
    let mut times_s = update(&widths)?;
    if is_worrying(slices, &times_s, &widths, deadline_s) {
        times_s = keep_fastest(&times_s, &update(&widths)?);
    }
    if !is_worrying(slices, &times_s, &widths, deadline_s) {
        return Ok(parts.iter().map(|part| part.reach(deadline_s)).collect());
    }
    loop {
        let before = parts.clone();
        advance_parts(&mut parts, &widths, &times_s, deadline_s);
        if parts.iter().zip(&before).any(|(part, before)| part.hopeless && !before.hopeless) {
            // One disturbance must not condemn a size.
            times_s = keep_fastest(&times_s, &update(&widths)?);
            parts = before;
            advance_parts(&mut parts, &widths, &times_s, deadline_s);
        }
        let next: Vec<usize> = parts.iter().map(SlicePart::next_width).collect();
        if next == widths {
            return Ok(parts.iter().map(|part| part.reach(deadline_s)).collect());
        }
        times_s = update(&next)?;
        widths = next;
    }
}

/// Returns `true` if a whole slice, at the rate of its part, would come near the deadline.
fn is_worrying(slices: &[usize], times_s: &[f64], widths: &[usize], deadline_s: f64) -> bool {
    slices
        .iter()
        .zip(times_s)
        .zip(widths)
        .map(|((&whole, t_s), &width)| t_s * whole as f64 / width.max(1) as f64)
        .any(|t_s| t_s > CAREFREE * deadline_s)
}

fn advance_parts(parts: &mut [SlicePart], widths: &[usize], times_s: &[f64], deadline_s: f64) {
    for ((part, &width), &t_s) in parts.iter_mut().zip(widths).zip(times_s) {
        part.advance(width, t_s, deadline_s);
    }
}

fn keep_fastest(times_s: &[f64], again_s: &[f64]) -> Vec<f64> {
    times_s.iter().zip(again_s).map(|(a, b)| a.min(*b)).collect()
}

/// The last part of one slice that was run, and the one before.
#[derive(Debug, Clone, Copy)]
struct SlicePart {
    whole: usize,
    width: usize,
    t_s: f64,
    before: Option<(usize, f64)>,
    hopeless: bool,
}

impl SlicePart {
    fn new(whole: usize) -> Self {
        Self { whole, width: 0, t_s: 0.0, before: None, hopeless: false }
    }

    /// Takes in that `width` columns took `t_s` seconds.
    fn advance(&mut self, width: usize, t_s: f64, deadline_s: f64) {
        if self.hopeless || width <= self.width {
            return;
        }
        self.before = (self.width > 0).then_some((self.width, self.t_s));
        (self.width, self.t_s) = (width, t_s);
        self.hopeless = width < self.whole && self.least_s() > HOPELESS * deadline_s;
    }

    /// Returns the least time of the whole slice in seconds, if columns do not become faster.
    fn least_s(&self) -> f64 {
        let Some((width, t_s)) = self.before else {
            return self.t_s;
        };
        let column_s = (self.t_s - t_s).max(0.0) / (self.width - width) as f64;
        self.t_s + column_s * (self.whole - self.width) as f64
    }

    /// Returns the columns of the next part: those of this one if nothing more is to be found out.
    fn next_width(&self) -> usize {
        let wider = self.width.saturating_mul(GROWTH);
        if self.hopeless || wider >= self.whole { self.width } else { wider }
    }

    fn reach(&self, deadline_s: f64) -> Reach {
        if self.hopeless {
            Reach { columns: self.width, bound_s: Some(self.t_s.max(deadline_s)) }
        } else {
            Reach { columns: self.whole, bound_s: None }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finds the reaches of slices with made-up times, and the widths that were asked for after a first part of 32 columns
    /// each.
    fn found(
        slices: &[usize],
        deadline_s: f64,
        time_s: impl Fn(usize, usize) -> f64,
    ) -> (Vec<Reach>, Vec<Vec<usize>>) {
        let mut asked = Vec::new();
        let first: Vec<usize> = slices.iter().map(|&columns| columns.min(32)).collect();
        let found = find_reaches(slices, first, deadline_s, &mut |widths| {
            asked.push(widths.to_vec());
            Ok(widths.iter().enumerate().map(|(i, &width)| time_s(i, width)).collect())
        });
        asked.remove(0);
        (found.unwrap(), asked)
    }

    fn whole(columns: usize) -> Reach {
        Reach { columns, bound_s: None }
    }

    #[test]
    fn ordinary_sizes_are_not_examined() {
        let (reaches, asked) = found(&[4096, 0, 16], 10.0, |_, width| 1e-4 * width as f64);
        assert_eq!(reaches, [whole(4096), whole(0), whole(16)]);
        assert!(asked.is_empty(), "{asked:?}");
    }

    #[test]
    fn a_hopeless_size_is_cut_off_and_bounded_by_the_deadline() {
        // 4096 columns would take 41 s.
        let (reaches, asked) = found(&[4096], 10.0, |_, width| 1e-2 * width as f64);
        assert_eq!(reaches, [Reach { columns: 128, bound_s: Some(10.0) }]);
        assert_eq!(asked, [[32], [128], [128]], "seen again before it is believed");
    }

    #[test]
    fn a_part_beyond_the_deadline_is_the_bound_itself() {
        let (reaches, _) = found(&[4096], 10.0, |_, width| width as f64);
        assert_eq!(reaches, [Reach { columns: 32, bound_s: Some(32.0) }]);
    }

    #[test]
    fn fixed_costs_condemn_nothing() {
        // The first columns cost 0.5 s whatever their number: 4096 of them would take 64 s at that rate.
        let (reaches, asked) = found(&[4096], 10.0, |_, width| 0.5 + 1e-4 * width as f64);
        assert_eq!(reaches, [whole(4096)]);
        assert_eq!(asked, [[32], [128], [512], [2048]].map(Vec::from)[..]);
    }

    #[test]
    fn a_slow_device_stays_behind_as_a_load_while_the_others_grow() {
        let (reaches, asked) =
            found(&[4096, 4096], 10.0, |device, width| [1e-2, 5e-4][device] * width as f64);
        assert_eq!(reaches[0].bound_s, Some(10.0));
        assert_eq!(reaches[1], whole(4096));
        assert_eq!(asked.last().unwrap(), &[128, 2048]);
    }

    #[test]
    fn a_cliff_on_the_way_is_seen_before_the_whole_falls_off_it() {
        // Paging from the 400th column on: 50 ms each, 185 s for all.
        let (reaches, _) = found(&[4096], 10.0, |_, width| {
            1e-3 * width as f64 + 0.05 * width.saturating_sub(400) as f64
        });
        assert_eq!(reaches[0].columns, 512);
        assert_eq!(reaches[0].bound_s, Some(10.0));
    }

    #[test]
    fn a_spike_on_a_part_condemns_nothing() {
        use std::cell::Cell;
        let calls = Cell::new(0);
        let (reaches, asked) = found(&[4096], 10.0, |_, width| {
            calls.set(calls.get() + 1);
            // The call for 128 columns is disturbed once.
            let spike_s = if width == 128 && calls.get() == 3 { 5.0 } else { 0.0 };
            1e-3 * width as f64 + spike_s
        });
        assert_eq!(reaches, [whole(4096)]);
        assert_eq!(asked.iter().filter(|widths| widths[0] == 128).count(), 2);
    }
}
