//! The sums that the sizes of the first devices can have, in three representations.
//!
//! [`Bits`] knows which sums are possible, [`Counts`] the fewest devices for each. [`Sparse`] holds the
//! same as a list, for sums too far apart to have a cell each.

use super::PartitionError;
use super::choices::{MAX_BYTES, SizeTime};

/// The range of sums from which the target can still be reached, ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SumRange {
    pub lo: u64,
    pub hi: u64,
}

/// The possible sums of the first devices.
pub(super) trait Sums: Sized {
    /// Bits per number of the range; 0 if the sums are stored, not the range.
    const BITS: u128;

    /// Returns the sums of no device: 0 only.
    fn empty() -> Self;

    /// Returns the sums within `range` with one device more, which may stay idle.
    fn add_device(&self, choices: &[SizeTime], range: SumRange) -> Result<Self, PartitionError>;

    /// Returns the fewest active devices for `sum`, or `None` if it is impossible. [`Bits`] does not
    /// know the number and returns 0.
    fn fewest(&self, sum: u64) -> Option<u32>;
}

/// One bit for each sum.
#[derive(Debug)]
pub(super) struct Bits {
    lo: u64,
    words: Vec<u64>,
}

impl Sums for Bits {
    const BITS: u128 = 1;

    fn empty() -> Self {
        Self { lo: 0, words: vec![1] }
    }

    fn add_device(&self, choices: &[SizeTime], range: SumRange) -> Result<Self, PartitionError> {
        let len = range.hi - range.lo + 1;
        let mut words = vec![0; len.div_ceil(64) as usize];
        let shifts = choices.iter().map(|choice| choice.size);
        for size in std::iter::once(0).chain(shifts) {
            let to = i128::from(self.lo) + i128::from(size) - i128::from(range.lo);
            or_shifted(&mut words, &self.words, to);
        }
        if let Some(last) = words.last_mut() {
            *last &= u64::MAX >> ((64 - len % 64) % 64);
        }
        Ok(Self { lo: range.lo, words })
    }

    fn fewest(&self, sum: u64) -> Option<u32> {
        let bit = sum.checked_sub(self.lo)?;
        let word = self.words.get(usize::try_from(bit / 64).ok()?)?;
        (word >> (bit % 64) & 1 == 1).then_some(0)
    }
}

/// Sets `to |= from`, moved up by `shift` bits; bits outside are lost.
fn or_shifted(to: &mut [u64], from: &[u64], shift: i128) {
    let (words, bit) = (shift.div_euclid(64), shift.rem_euclid(64) as u32);
    if words >= to.len() as i128 || words + (from.len() as i128) < 0 {
        return;
    }
    or_words(to, from, words, |word| word << bit);
    if bit > 0 {
        or_words(to, from, words + 1, |word| word >> (64 - bit));
    }
}

/// Sets `to[i + by] |= f(from[i])` wherever both exist.
fn or_words(to: &mut [u64], from: &[u64], by: i128, f: impl Fn(u64) -> u64) {
    let (to, from) = overlap(to, from, by);
    for (to, &from) in to.iter_mut().zip(from) {
        *to |= f(from);
    }
}

/// Returns the parts of `to` and `from` that meet when `from` is moved up by `by`; one may be longer.
fn overlap<'a, T>(to: &'a mut [T], from: &'a [T], by: i128) -> (&'a mut [T], &'a [T]) {
    let skip_to = by.clamp(0, to.len() as i128) as usize;
    let skip_from = (-by).clamp(0, from.len() as i128) as usize;
    (&mut to[skip_to..], &from[skip_from..])
}

/// The fewest active devices for each sum.
#[derive(Debug)]
pub(super) struct Counts {
    lo: u64,
    fewest: Vec<u32>,
}

/// The count of an impossible sum. One more does not overflow, so that the innermost loop needs no test.
const NEVER: u32 = u32::MAX / 2;

impl Sums for Counts {
    const BITS: u128 = 32;

    fn empty() -> Self {
        Self { lo: 0, fewest: vec![0] }
    }

    fn add_device(&self, choices: &[SizeTime], range: SumRange) -> Result<Self, PartitionError> {
        let mut fewest = vec![NEVER; (range.hi - range.lo + 1) as usize];
        let shift = i128::from(self.lo) - i128::from(range.lo);
        let (to, from) = overlap(&mut fewest, &self.fewest, shift);
        for (to, &from) in to.iter_mut().zip(from) {
            *to = from;
        }
        for choice in choices {
            let (to, from) = overlap(&mut fewest, &self.fewest, shift + i128::from(choice.size));
            for (to, &from) in to.iter_mut().zip(from) {
                *to = (*to).min(from + 1);
            }
        }
        Ok(Self { lo: range.lo, fewest })
    }

    fn fewest(&self, sum: u64) -> Option<u32> {
        let at = usize::try_from(sum.checked_sub(self.lo)?).ok()?;
        self.fewest.get(at).copied().filter(|&n| n < NEVER)
    }
}

/// The sums themselves, ascending, each with its fewest active devices. At most half a million, because
/// the tables of several stages are kept at once.
#[derive(Debug)]
pub(super) struct Sparse(Vec<(u64, u32)>);

impl Sparse {
    /// Returns the largest sum.
    pub fn largest(&self) -> u64 {
        self.0.last().map_or(0, |&(sum, _)| sum)
    }

    /// Refuses `n` sums of more than `limit` bytes.
    fn check_bytes(n: u128, limit: u128) -> Result<(), PartitionError> {
        let bytes = n * size_of::<(u64, u32)>() as u128;
        if bytes > limit {
            return Err(PartitionError::TooLarge { bytes });
        }
        Ok(())
    }
}

impl Sums for Sparse {
    const BITS: u128 = 0;

    fn empty() -> Self {
        Self(vec![(0, 0)])
    }

    fn add_device(&self, choices: &[SizeTime], range: SumRange) -> Result<Self, PartitionError> {
        // All sums are built before equal ones are dropped.
        let built = self.0.len() as u128 * (choices.len() as u128 + 1);
        Self::check_bytes(built, MAX_BYTES / 2)?;
        let mut sums = self.0.clone();
        for choice in choices {
            let moved = self.0.iter();
            sums.extend(moved.filter_map(|&(sum, n)| Some((sum.checked_add(choice.size)?, n + 1))));
        }
        sums.retain(|(sum, _)| (range.lo..=range.hi).contains(sum));
        sums.sort_unstable();
        sums.dedup_by_key(|&mut (sum, _)| sum);
        sums.shrink_to_fit();
        Self::check_bytes(sums.len() as u128, MAX_BYTES / 64)?;
        Ok(Self(sums))
    }

    fn fewest(&self, sum: u64) -> Option<u32> {
        let at = self.0.binary_search_by_key(&sum, |&(sum, _)| sum).ok()?;
        Some(self.0[at].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add_all<S: Sums>(devices: &[(&[u64], [u64; 2])]) -> Vec<Option<u32>> {
        let mut sums = S::empty();
        for &(sizes, [lo, hi]) in devices {
            let choices: Vec<SizeTime> =
                (sizes.iter()).map(|&size| SizeTime { size, time_s: 1.0 }).collect();
            sums = (sums.add_device(&choices, SumRange { lo, hi })).expect("small");
        }
        (0..400).map(|sum| sums.fewest(sum)).collect()
    }

    #[test]
    fn all_representations_agree() {
        let devices: [(&[u64], [u64; 2]); 4] = [
            (&[1, 64, 65, 130], [0, 300]),
            (&[63, 64, 7], [1, 190]),
            (&[128, 3], [60, 260]),
            (&[100, 101, 37], [63, 331]),
        ];
        for n in 0..=4 {
            let sparse = add_all::<Sparse>(&devices[..n]);
            assert_eq!(add_all::<Counts>(&devices[..n]), sparse);
            let known: Vec<bool> = sparse.iter().map(Option::is_some).collect();
            let bits = add_all::<Bits>(&devices[..n]);
            assert_eq!(bits.iter().map(Option::is_some).collect::<Vec<_>>(), known);
        }
    }
}
