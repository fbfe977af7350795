//! The sums that the first few devices can make, in three representations.
//!
//! [`Bits`] knows which sums there are, [`Counts`] how few devices make each, [`Sparse`] the same as a
//! list, for sums too far apart to have a cell each.

use super::PartitionError;
use super::choices::{Choice, MAX_BYTES};

/// The sums worth keeping, ends included: those from which the target can still be met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    pub lo: u64,
    pub hi: u64,
}

/// What the first devices can make.
pub(super) trait Sums: Sized {
    /// Bits that a sum of the window takes; 0 if it is sums that are stored, not the window.
    const BITS: u128;

    /// The sums of no device: 0 only.
    fn empty() -> Self;

    /// The sums within `window` with one device more, which may stay idle.
    fn with(&self, choices: &[Choice], window: Window) -> Result<Self, PartitionError>;

    /// The fewest active devices that make `sum`, or none if it cannot be made. [`Bits`] does not know
    /// and answers 0.
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
        Self {
            lo: 0,
            words: vec![1],
        }
    }

    fn with(&self, choices: &[Choice], window: Window) -> Result<Self, PartitionError> {
        let len = window.hi - window.lo + 1;
        let mut words = vec![0; len.div_ceil(64) as usize];
        let shifts = choices.iter().map(|choice| choice.size);
        for size in std::iter::once(0).chain(shifts) {
            let to = i128::from(self.lo) + i128::from(size) - i128::from(window.lo);
            or_shifted(&mut words, &self.words, to);
        }
        if let Some(last) = words.last_mut() {
            *last &= u64::MAX >> ((64 - len % 64) % 64);
        }
        Ok(Self {
            lo: window.lo,
            words,
        })
    }

    fn fewest(&self, sum: u64) -> Option<u32> {
        let bit = sum.checked_sub(self.lo)?;
        let word = self.words.get(usize::try_from(bit / 64).ok()?)?;
        (word >> (bit % 64) & 1 == 1).then_some(0)
    }
}

/// `to |= from`, moved up by `shift` bits; what falls outside is lost.
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

/// `to[i + by] |= f(from[i])` wherever both exist.
fn or_words(to: &mut [u64], from: &[u64], by: i128, f: impl Fn(u64) -> u64) {
    let (to, from) = overlap(to, from, by);
    for (to, &from) in to.iter_mut().zip(from) {
        *to |= f(from);
    }
}

/// The parts of `to` and `from` that meet when `from` is moved up by `by`; one may be the longer.
fn overlap<'a, T>(to: &'a mut [T], from: &'a [T], by: i128) -> (&'a mut [T], &'a [T]) {
    let skip = |n: i128, len: usize| n.clamp(0, len as i128) as usize;
    let (to_len, from_len) = (to.len(), from.len());
    (&mut to[skip(by, to_len)..], &from[skip(-by, from_len)..])
}

/// The fewest active devices for each sum.
#[derive(Debug)]
pub(super) struct Counts {
    lo: u64,
    fewest: Vec<u32>,
}

/// The count of a sum that cannot be made. One more than it is no overflow, so that the innermost loop
/// need not ask.
const NEVER: u32 = u32::MAX / 2;

impl Sums for Counts {
    const BITS: u128 = 32;

    fn empty() -> Self {
        Self {
            lo: 0,
            fewest: vec![0],
        }
    }

    fn with(&self, choices: &[Choice], window: Window) -> Result<Self, PartitionError> {
        let mut fewest = vec![NEVER; (window.hi - window.lo + 1) as usize];
        let by = |size| i128::from(self.lo) + i128::from(size) - i128::from(window.lo);
        let (to, from) = overlap(&mut fewest, &self.fewest, by(0));
        for (to, &from) in to.iter_mut().zip(from) {
            *to = from;
        }
        for choice in choices {
            let (to, from) = overlap(&mut fewest, &self.fewest, by(choice.size));
            for (to, &from) in to.iter_mut().zip(from) {
                *to = (*to).min(from + 1);
            }
        }
        Ok(Self {
            lo: window.lo,
            fewest,
        })
    }

    fn fewest(&self, sum: u64) -> Option<u32> {
        let at = usize::try_from(sum.checked_sub(self.lo)?).ok()?;
        self.fewest.get(at).copied().filter(|&n| n < NEVER)
    }
}

/// The sums themselves, ascending, each with the fewest active devices that make it: half a million at
/// most, as the tables of several stages are kept at once.
#[derive(Debug)]
pub(super) struct Sparse(Vec<(u64, u32)>);

impl Sparse {
    /// The largest sum.
    pub fn largest(&self) -> u64 {
        self.0.last().map_or(0, |&(sum, _)| sum)
    }
}

impl Sums for Sparse {
    const BITS: u128 = 0;

    fn empty() -> Self {
        Self(vec![(0, 0)])
    }

    fn with(&self, choices: &[Choice], window: Window) -> Result<Self, PartitionError> {
        let bytes = |sums: usize, each: usize| {
            let bytes = (sums as u128) * (each as u128) * size_of::<(u64, u32)>() as u128;
            let copies = None;
            (bytes, PartitionError::TooLarge { bytes, copies })
        };
        // All sums are made before equal ones are dropped.
        let (needed, too_large) = bytes(self.0.len(), choices.len() + 1);
        if needed > MAX_BYTES / 2 {
            return Err(too_large);
        }
        let mut sums = self.0.clone();
        for choice in choices {
            let moved = self.0.iter();
            sums.extend(moved.filter_map(|&(sum, n)| Some((sum.checked_add(choice.size)?, n + 1))));
        }
        sums.retain(|(sum, _)| (window.lo..=window.hi).contains(sum));
        sums.sort_unstable();
        sums.dedup_by_key(|&mut (sum, _)| sum);
        sums.shrink_to_fit();
        match bytes(sums.len(), 1) {
            (kept, too_large) if kept > MAX_BYTES / 64 => Err(too_large),
            _ => Ok(Self(sums)),
        }
    }

    fn fewest(&self, sum: u64) -> Option<u32> {
        let at = self.0.binary_search_by_key(&sum, |&(sum, _)| sum).ok()?;
        Some(self.0[at].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choices(sizes: &[u64]) -> Vec<Choice> {
        let choice = |&size| Choice { size, time_s: 1.0 };
        sizes.iter().map(choice).collect()
    }

    fn add<S: Sums>(devices: &[(&[u64], Window)]) -> Vec<Option<u32>> {
        let add = |sums: S, &(sizes, window): &(&[u64], Window)| sums.with(&choices(sizes), window);
        let sums = devices.iter().try_fold(S::empty(), add).expect("small");
        (0..400).map(|sum| sums.fewest(sum)).collect()
    }

    #[test]
    fn all_representations_agree() {
        let window = |lo, hi| Window { lo, hi };
        let devices: [(&[u64], Window); 4] = [
            (&[1, 64, 65, 130], window(0, 300)),
            (&[63, 64, 7], window(1, 190)),
            (&[128, 3], window(60, 260)),
            (&[100, 101, 37], window(63, 331)),
        ];
        for n in 0..=4 {
            let sparse = add::<Sparse>(&devices[..n]);
            assert_eq!(add::<Counts>(&devices[..n]), sparse);
            let known: Vec<bool> = sparse.iter().map(Option::is_some).collect();
            let bits = add::<Bits>(&devices[..n]);
            assert_eq!(bits.iter().map(Option::is_some).collect::<Vec<_>>(), known);
        }
    }
}
