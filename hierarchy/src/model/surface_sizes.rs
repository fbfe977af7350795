//! The sizes at which a surface is measured.

use super::sizes::list_even;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// The sizes at which surfaces of several devices are measured: a step machine, which is told the outcomes and names
/// the next size. It takes every height with every width, from the smallest area to the largest, so that it seldom
/// tries a size that is hopeless.
///
/// # Example
/// ```
/// use isochron_hierarchy::model::SurfaceSizes;
///
/// let mut sizes = SurfaceSizes::new(1..=9, 2);
/// let mut measured = Vec::new();
/// while let Some(size) = sizes.next_size() {
///     measured.push(size);
///     sizes.observe(size, &[true]);
/// }
/// assert_eq!(measured, [(1, 1), (1, 9), (9, 1), (9, 9)]);
/// ```
#[derive(Debug, Clone)]
pub struct SurfaceSizes {
    sides: Vec<u64>,
    /// Which devices found each size possible.
    found: BTreeMap<(u64, u64), Vec<bool>>,
}

impl SurfaceSizes {
    /// Starts with nothing measured: `count` heights, evenly from the first to the last of `range`, with as many
    /// widths.
    ///
    /// # Panics
    /// If the range is empty or begins at 0, or the count is 0.
    #[must_use]
    pub fn new(range: RangeInclusive<u64>, count: usize) -> Self {
        assert!(0 < *range.start() && !range.is_empty(), "sides of {range:?}");
        assert!(count > 0, "no sides");
        let mut sides: Vec<u64> = list_even(range, count).collect();
        sides.dedup();
        Self { sides, found: BTreeMap::new() }
    }

    /// Takes in a size: `true` for each device to which it is possible, `false` if it is hopeless.
    pub fn observe(&mut self, size: (u64, u64), possible: &[bool]) {
        self.found.insert(size, possible.to_vec());
    }

    /// Returns the size to measure next; `None` if all are measured, or the rest is hopeless to every device.
    #[must_use]
    pub fn next_size(&self) -> Option<(u64, u64)> {
        self.iter_left().min_by_key(|&(m, n)| (u128::from(m) * u128::from(n), m))
    }

    /// Returns the sizes that are still to come, in no order, unless more are found to be hopeless.
    #[must_use]
    pub fn list_left(&self) -> Vec<(u64, u64)> {
        self.iter_left().collect()
    }

    fn iter_left(&self) -> impl Iterator<Item = (u64, u64)> {
        self.sides
            .iter()
            .flat_map(|&m| self.sides.iter().map(move |&n| (m, n)))
            .filter(|size| !self.found.contains_key(size))
            .filter(|&(m, n)| !self.is_hopeless(m, n))
    }

    /// Returns `true` if every device is hopelessly slow at a size that is neither higher than `m` nor wider than `n`.
    fn is_hopeless(&self, m: u64, n: u64) -> bool {
        let within = self.found.iter();
        let within: Vec<&Vec<bool>> = within
            .filter(|((height, width), _)| *height <= m && *width <= n)
            .map(|(_, possible)| possible)
            .collect();
        let devices = within.first().map_or(0, |possible| possible.len());
        devices > 0 && (0..devices).all(|device| within.iter().any(|possible| !possible[device]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hopeless_to_all_devices_is_not_tried() {
        let mut sizes = SurfaceSizes::new(10..=30, 3);
        let mut tried = Vec::new();
        while let Some((m, n)) = sizes.next_size() {
            assert_eq!(sizes.list_left().is_empty(), sizes.next_size().is_none());
            tried.push((m, n));
            // The one cannot be high, and the other has no large area.
            sizes.observe((m, n), &[m < 20, m * n < 500]);
        }
        let expected =
            [(10, 10), (10, 20), (20, 10), (10, 30), (30, 10), (20, 20), (20, 30), (30, 20)];
        assert_eq!(tried, expected);
        assert!(sizes.list_left().is_empty());
    }

    #[test]
    fn a_campaign_of_a_surface_goes_on_where_it_stopped() {
        let mut sizes = SurfaceSizes::new(1..=3, 3);
        sizes.observe((2, 3), &[true]);
        sizes.observe((1, 1), &[true]);
        assert_eq!((sizes.next_size(), sizes.list_left().len()), (Some((1, 2)), 7));
        assert_eq!(SurfaceSizes::new(4..=5, 9).list_left().len(), 4);
    }
}
