//! Sizes that would take far too long: found out by parts of them, before they run.

use crate::DeviceError;

/// An update that is expected to take less than this part of the deadline is not looked at: no step in a device's speed
/// is that high, as long as its operands are in memory.
const CAREFREE: f64 = 1.0 / 16.0;

/// From one part to the next the columns grow by this factor, so that all parts together cost a third of an update.
const GROWTH: usize = 4;

/// A size is hopeless when it is expected to take this many times the deadline. Wide updates may be somewhat faster for
/// each column than their parts, never twice as fast once the columns have grown.
const HOPELESS: f64 = 2.0;

/// An update of these columns of each device; returns their times in seconds.
pub(super) type PartialUpdate<'a> = dyn FnMut(&[usize]) -> Result<Vec<f64>, DeviceError> + 'a;

/// How much of a device's slice can be measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Reach {
    /// Columns that it can update in time: all of its slice, or the last part that was measured.
    pub columns: usize,
    /// Where that is not all of its slice: seconds that the whole slice takes at least.
    pub bound_s: Option<f64>,
}

/// How far the slices can be measured: widens an update, part by part, until it is whole or hopeless.
///
/// A running update cannot be interrupted, so what a slice takes has to be known before. The first part, whose times are
/// `times_s`, has warmed the devices up. If each column of the whole slices takes as long as the first ones did, and
/// nothing comes near the deadline, that is all; this costs nothing. Else the part is repeated, and widened by 4 again
/// and again. With the times `t₁ < t₂` of the last two parts `w₁ < w₂` of a slice `n`, the whole takes
/// `t₂ + (n - w₂)·(t₂ - t₁)/(w₂ - w₁)` or more, if a column further out does not take less than one among these: fixed
/// costs do not count, and caches and memory that end only make it more. Where this is more than twice `deadline_s`,
/// twice in a row, the slice is hopeless. Its part stays as it is, as a load for the other devices, whose slices go on
/// growing.
///
/// The bound is the deadline, or the time of the last part if that was longer still: less than what was predicted, and
/// so rather certain.
///
/// # Errors
/// Those of `update`.
pub(super) fn find_reaches(
    slices: &[usize],
    mut times_s: Vec<f64>,
    mut widths: Vec<usize>,
    deadline_s: f64,
    update: &mut PartialUpdate<'_>,
) -> Result<Vec<Reach>, DeviceError> {
    let mut parts: Vec<SlicePart> = slices.iter().map(|&whole| SlicePart::new(whole)).collect();
    let worrying = |times_s: &[f64], widths: &[usize]| {
        let each = slices.iter().zip(times_s).zip(widths);
        let linear = |((&whole, t_s), &width): ((&usize, &f64), &usize)| {
            t_s * whole as f64 / width.max(1) as f64
        };
        each.map(linear).any(|t_s| t_s > CAREFREE * deadline_s)
    };
    if worrying(&times_s, &widths) {
        times_s = keep_fastest(&times_s, &update(&widths)?);
    }
    if !worrying(&times_s, &widths) {
        return Ok(parts.iter().map(|part| part.reach(deadline_s)).collect());
    }
    loop {
        let before = parts.clone();
        advance_parts(&mut parts, &widths, &times_s, deadline_s);
        if parts
            .iter()
            .zip(&before)
            .any(|(part, before)| part.hopeless && !before.hopeless)
        {
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

fn advance_parts(parts: &mut [SlicePart], widths: &[usize], times_s: &[f64], deadline_s: f64) {
    for ((part, &width), &t_s) in parts.iter_mut().zip(widths).zip(times_s) {
        part.advance(width, t_s, deadline_s);
    }
}

fn keep_fastest(times_s: &[f64], again_s: &[f64]) -> Vec<f64> {
    times_s
        .iter()
        .zip(again_s)
        .map(|(a, b)| a.min(*b))
        .collect()
}

/// The part of one slice that was measured last, and the one before.
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
        Self {
            whole,
            width: 0,
            t_s: 0.0,
            before: None,
            hopeless: false,
        }
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

    /// What the whole slice takes at least, if columns do not become faster.
    fn least_s(&self) -> f64 {
        let Some((width, t_s)) = self.before else {
            return self.t_s;
        };
        let column_s = (self.t_s - t_s).max(0.0) / (self.width - width) as f64;
        self.t_s + column_s * (self.whole - self.width) as f64
    }

    /// Columns of the next part: those of this one when there is nothing more to find out.
    fn next_width(&self) -> usize {
        let wider = self.width.saturating_mul(GROWTH);
        if self.hopeless || wider >= self.whole {
            self.width
        } else {
            wider
        }
    }

    fn reach(&self, deadline_s: f64) -> Reach {
        if self.hopeless {
            Reach {
                columns: self.width,
                bound_s: Some(self.t_s.max(deadline_s)),
            }
        } else {
            Reach {
                columns: self.whole,
                bound_s: None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reaches of slices whose times are made up, and the widths that were asked for, after a first part of 32
    /// columns each.
    fn found(
        slices: &[usize],
        deadline_s: f64,
        time_s: impl Fn(usize, usize) -> f64,
    ) -> (Vec<Reach>, Vec<Vec<usize>>) {
        let mut asked = Vec::new();
        let times = |widths: &[usize]| -> Vec<f64> {
            let each = widths.iter().enumerate();
            each.map(|(device, &width)| time_s(device, width)).collect()
        };
        let first: Vec<usize> = slices.iter().map(|&columns| columns.min(32)).collect();
        let mut update = |widths: &[usize]| {
            asked.push(widths.to_vec());
            Ok(times(widths))
        };
        let found = find_reaches(
            slices,
            times(&first),
            first.clone(),
            deadline_s,
            &mut update,
        );
        (found.unwrap(), asked)
    }

    fn whole(columns: usize) -> Reach {
        Reach {
            columns,
            bound_s: None,
        }
    }

    #[test]
    fn ordinary_sizes_are_not_looked_at() {
        let (reaches, asked) = found(&[4096, 0, 16], 10.0, |_, width| 1e-4 * width as f64);
        assert_eq!(reaches, [whole(4096), whole(0), whole(16)]);
        assert!(asked.is_empty(), "{asked:?}");
    }

    #[test]
    fn a_hopeless_size_is_cut_off_and_bounded_by_the_deadline() {
        // 4096 columns would take 41 s.
        let (reaches, asked) = found(&[4096], 10.0, |_, width| 1e-2 * width as f64);
        assert_eq!(
            reaches,
            [Reach {
                columns: 128,
                bound_s: Some(10.0)
            }]
        );
        assert_eq!(
            asked,
            [[32], [128], [128]],
            "seen again before it is believed"
        );
    }

    #[test]
    fn a_part_beyond_the_deadline_is_the_bound_itself() {
        let (reaches, _) = found(&[4096], 10.0, |_, width| width as f64);
        assert_eq!(
            reaches,
            [Reach {
                columns: 32,
                bound_s: Some(32.0)
            }]
        );
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
        let times = |device: usize, width: usize| [1e-2, 5e-4][device] * width as f64;
        let (reaches, asked) = found(&[4096, 4096], 10.0, times);
        assert_eq!(reaches[0].bound_s, Some(10.0));
        assert_eq!(reaches[1], whole(4096));
        assert_eq!(asked.last().unwrap(), &[128, 2048]);
    }

    #[test]
    fn a_cliff_on_the_way_is_seen_before_the_whole_falls_off_it() {
        // Paging from the 400th column on: 50 ms each, 185 s for all.
        let times =
            |_: usize, width: usize| 1e-3 * width as f64 + 0.05 * width.saturating_sub(400) as f64;
        let (reaches, _) = found(&[4096], 10.0, times);
        assert_eq!(reaches[0].columns, 512);
        assert_eq!(reaches[0].bound_s, Some(10.0));
    }

    #[test]
    fn a_spike_on_a_part_condemns_nothing() {
        use std::cell::Cell;
        let calls = Cell::new(0);
        let times = |_: usize, width: usize| {
            calls.set(calls.get() + 1);
            // The call for 128 columns is disturbed once.
            let spike_s = if width == 128 && calls.get() == 3 {
                5.0
            } else {
                0.0
            };
            1e-3 * width as f64 + spike_s
        };
        let (reaches, asked) = found(&[4096], 10.0, times);
        assert_eq!(reaches, [whole(4096)]);
        assert_eq!(asked.iter().filter(|widths| widths[0] == 128).count(), 2);
    }
}
