//! The sizes of updates at which devices are compared.

/// Sizes of a class of devices.
pub const SIZES: usize = 7;

/// Binary logarithm of the ratio of the sides of neighbouring sizes: all sizes span a factor of 512.
const STEP: f64 = 0.75;

/// The smallest and the largest side that may become the largest one of a class. Sides are powers of two, so that most runs
/// measure the same sizes and the model store has them.
const LEAST_SIDE: usize = 64;
const MOST_SIDE: usize = 16_384;

/// Longest update that is asked for. A quota that no rank sees shows only in updates longer than its period, 100 ms by default.
const LONGEST_S: f64 = 1.0;

/// Part of the seconds that updates may take. The rest is for operands and messages.
const UPDATES: f64 = 0.6;

/// Returns the repetitions of a size in one round: small sizes have more, because they are noisier.
pub fn count_repetitions(size: usize) -> usize {
    3 + 2 * (SIZES - 1 - size)
}

/// Returns `true` if devices are measured alone, and copies are timed, at this size.
pub fn is_sampled(size: usize) -> bool {
    size % 2 == (SIZES - 1) % 2
}

/// Returns the seconds that the largest update may take, so that two looks of `rounds` rounds take `seconds`. Hosts measure
/// their devices alone in `turns` turns.
pub fn limit_update_s(seconds: f64, rounds: usize, turns: usize) -> f64 {
    let cost = |size: usize| {
        count_repetitions(size) as f64 * 4.0_f64.powf(-STEP * (SIZES - 1 - size) as f64)
    };
    let together: f64 = (0..SIZES).map(cost).sum();
    let sampled: f64 = (0..SIZES).filter(|&size| is_sampled(size)).map(cost).sum();
    // The first look needs no device alone; copies are timed as often as devices alone.
    let updates = rounds as f64 * (2.0 * (together + sampled) + turns as f64 * sampled);
    (UPDATES * seconds / updates).min(LONGEST_S)
}

/// Ratio of a device's time to that of its class up to which the sizes are those of its class. The budget has room for it.
pub const SLOWER: f64 = 2.0;

/// Returns the time of a class by which its largest side is chosen: the usual one, or that of a device so slow that a check
/// at the usual sizes would take too long.
pub fn judge_class_s(usual_s: f64, longest_s: f64) -> f64 {
    usual_s.max(longest_s / SLOWER)
}

/// The largest side of each class of devices, as long as it is being found.
#[derive(Debug, Clone)]
pub struct LargestSides {
    limit_s: f64,
    pub sides: Vec<usize>,
    is_found: Vec<bool>,
}

impl LargestSides {
    /// Begins with the smallest side, for classes whose updates may take these seconds.
    pub fn new(classes: usize, limit_s: f64) -> Self {
        Self { limit_s, sides: vec![LEAST_SIDE; classes], is_found: vec![false; classes] }
    }

    /// Takes in the seconds of an update of each class; `None` for a class without a time. Returns `true` if there are larger
    /// sides to try.
    pub fn observe(&mut self, times_s: &[Option<f64>]) -> bool {
        for (class, time_s) in times_s.iter().enumerate() {
            let doubled = 2 * self.sides[class];
            let fits = time_s.is_some_and(|time_s| 4.0 * time_s <= self.limit_s);
            self.is_found[class] |= !fits || doubled > MOST_SIDE;
            if !self.is_found[class] {
                self.sides[class] = doubled;
            }
        }
        self.is_found.contains(&false)
    }

    /// Ends the search with sides half as long, because there is no memory for these. Returns `false` if they cannot be.
    pub fn halve(&mut self) -> bool {
        let can_halve = self.sides.iter().any(|&side| side > LEAST_SIDE);
        for side in &mut self.sides {
            *side = (*side / 2).max(LEAST_SIDE);
        }
        self.is_found.fill(true);
        can_halve
    }
}

/// The updates of one size on the devices of a rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpdateShape {
    /// Rows of C.
    pub rows: usize,
    /// Columns of each device.
    pub columns: Vec<usize>,
}

/// Returns the side of the square of elements that a class with this largest side has at a size.
pub fn find_side(largest: usize, size: usize) -> f64 {
    largest as f64 * 2.0_f64.powf(-STEP * (SIZES - 1 - size) as f64)
}

/// Shapes the updates of devices whose C is as large as a square of these sides. `all` are the sides of all devices of the
/// job, whose geometric mean is the rows of each: C is as high for devices of a class on any rank.
pub fn shape_updates(all: &[f64], own: &[f64]) -> UpdateShape {
    let logs: f64 = all.iter().map(|side| side.ln()).sum();
    let rows = (logs / all.len().max(1) as f64).exp().round().max(1.0);
    let columns = own.iter().map(|side| (side * side / rows).round().max(1.0) as usize);
    UpdateShape { rows: rows as usize, columns: columns.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_side_of_a_class_takes_no_longer_than_the_limit() {
        let mut sides = LargestSides::new(3, 0.1);
        let speeds = [1e8, 1e6];
        let time_s =
            |class: usize, side: usize| speeds.get(class).map(|speed| (side * side) as f64 / speed);
        let mut rounds = 0;
        loop {
            let times_s = sides.sides.iter().enumerate();
            let times_s: Vec<_> = times_s.map(|(class, &side)| time_s(class, side)).collect();
            rounds += 1;
            if !sides.observe(&times_s) {
                break;
            }
        }
        // The third class has failed.
        assert_eq!((sides.sides.clone(), rounds), (vec![2048, 256, 64], 6));
        assert!(sides.halve());
        assert_eq!(sides.sides, [1024, 128, 64]);
        let mut least = LargestSides::new(1, 0.1);
        assert!(!least.halve());
        let mut fast = LargestSides::new(1, 0.1);
        while fast.observe(&[Some(1e-9)]) {}
        assert_eq!(fast.sides, [MOST_SIDE]);
    }

    #[test]
    fn a_device_that_is_far_slower_than_its_class_makes_the_sizes_smaller() {
        for (slower, side) in [(1.0, 2048), (2.0, 2048), (30.0, 512), (1000.0, 128)] {
            let mut sides = LargestSides::new(1, 0.1);
            let usual_s = |side: usize| (side * side) as f64 / 1e8;
            while sides.observe(&[Some(judge_class_s(
                usual_s(sides.sides[0]),
                slower * usual_s(sides.sides[0]),
            ))]) {}
            assert_eq!(sides.sides, [side], "{slower}");
        }
    }

    #[test]
    fn updates_become_shorter_with_less_time_and_more_turns() {
        assert_eq!(limit_update_s(300.0, 5, 1), LONGEST_S);
        let limit_s = limit_update_s(45.0, 5, 1);
        let [eight, many] = [8, 64].map(|turns| limit_update_s(45.0, 5, turns));
        assert!(eight < limit_s && many < eight / 4.0, "{eight} {many}");
        assert!((limit_update_s(22.5, 5, 64) / many - 0.5).abs() < 1e-9);
    }

    #[test]
    fn devices_of_a_class_have_one_shape_on_any_rank() {
        let sides = [512.0, 8192.0, 512.0, 8192.0];
        let shape = shape_updates(&sides, &sides[..2]);
        assert_eq!(shape, shape_updates(&sides, &sides[2..]));
        assert_eq!((shape.rows, shape.columns), (2048, vec![128, 32_768]));
        let square = shape_updates(&[362.04, 362.04], &[362.04]);
        assert_eq!((square.rows, square.columns), (362, vec![362]));
        assert_eq!(find_side(2048, SIZES - 1), 2048.0);
        assert_eq!(find_side(2048, SIZES - 5), 256.0);
    }
}
