//! Arrays of the units of a part, in memory with room.

use std::fmt;
use std::ops::{Deref, DerefMut, Range};

use isochron_devices::internal::{is_unwritten_memory_free, release_elements, try_zeroed_matrix};
use isochron_hierarchy::rebalance::list_ranges;

use super::migrate::{Change, UnitMemory, count_elements, move_units};
use crate::comm::{CollectiveCall, Comm, agree};
use crate::error::Error;

/// An array with some elements for each unit of this rank's part, in the order of the units. It is used as a slice.
///
/// Its memory has room for as many units again before the part and behind it, so that the units which stay in a move are
/// not touched. The system makes the pages of the room when units come, and gets those of units that leave back. There is
/// no room where memory that is never written counts: under a limit on the address space, and with `vm.overcommit_memory`
/// 2. Beyond the room a move makes new memory, and copies the part once.
///
/// # Example
/// ```
/// use isochron::comm::connect;
/// use isochron::rebalance::{UnitArray, migrate_units};
///
/// let comm = connect()?;
/// let even = vec![12; comm.size()];
/// let mut rows: UnitArray<f64> = UnitArray::zeros(comm.as_ref(), &even, 100)?;
/// rows.fill(1.0);
/// let mut last = vec![0; comm.size()];
/// last[comm.size() - 1] = 12 * comm.size() as u64;
/// migrate_units(comm.as_ref(), &last, &mut rows)?;
/// assert_eq!(rows.len() as u64, 100 * last[comm.rank()]);
/// # Ok::<(), isochron::Error>(())
/// ```
pub struct UnitArray<T> {
    /// Units of each rank.
    units: Vec<u64>,
    part: Range<u64>,
    unit_len: usize,
    memory: Vec<T>,
    /// The unit at the beginning of the memory.
    first: u64,
}

impl<T> fmt::Debug for UnitArray<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnitArray")
            .field("part", &self.part)
            .field("unit_len", &self.unit_len)
            .finish_non_exhaustive()
    }
}

impl<T: bytemuck::Pod> UnitArray<T> {
    /// Makes an array of zeros, with `unit_len` elements for each unit. `units` are those of each rank.
    ///
    /// # Errors
    /// On every rank, returns [`Error::Settings`] for ranks with different units or lengths; [`Error::Parameter`] for
    /// units of another number of ranks; [`Error::Allocation`].
    ///
    /// # Collective
    /// All ranks, with the same `units`, `unit_len` and type.
    pub fn zeros(comm: &dyn Comm, units: &[u64], unit_len: usize) -> Result<Self, Error> {
        let _call = CollectiveCall::new(comm, "UnitArray::zeros")
            .with("units", &units)
            .with("unit_len", &unit_len)
            .enter()?;
        let change = Change { from: units, to: units };
        change.check(comm)?;
        let part = list_ranges(units).swap_remove(comm.rank());
        let (first, memory) = agree(comm, make_room(&part, units, unit_len))?;
        Ok(Self { units: units.to_vec(), part, unit_len, memory, first })
    }

    /// Returns the units of each rank.
    pub fn units(&self) -> &[u64] {
        &self.units
    }

    /// Returns the units of this rank.
    pub fn part(&self) -> Range<u64> {
        self.part.clone()
    }

    /// Returns the number of elements of a unit.
    pub fn unit_len(&self) -> usize {
        self.unit_len
    }

    /// Moves the array to another division of the same units, which is the same on all ranks.
    pub(super) fn move_to(&mut self, comm: &dyn Comm, units: &[u64]) -> Result<(), Error> {
        let change = Change { from: &self.units, to: units };
        change.check(comm)?;
        let [before, now] = change.parts(comm.rank());
        let made = if self.has_room(&now) {
            Ok(None)
        } else {
            make_room(&now, units, self.unit_len).map(Some)
        };
        if let Some((first, mut memory)) = agree(comm, made)? {
            let place = find_place(&now, first, self.unit_len);
            let memory_apart = UnitMemory::Apart { from: &self[..], to: &mut memory[place] };
            move_units(comm, change, self.unit_len, memory_apart)?;
            (self.first, self.memory) = (first, memory);
        } else {
            let memory = UnitMemory::Within { memory: &mut self.memory, first: self.first };
            move_units(comm, change, self.unit_len, memory)?;
            for left in list_left(&before, &now) {
                let place = find_place(&left, self.first, self.unit_len);
                release_elements(&mut self.memory[place]);
            }
        }
        (self.units, self.part) = (units.to_vec(), now);
        Ok(())
    }

    /// Returns `true` if the memory has places for all units of a part.
    fn has_room(&self, part: &Range<u64>) -> bool {
        let place = find_place(part, self.first, self.unit_len);
        part.is_empty() || (part.start >= self.first && place.end <= self.memory.len())
    }
}

/// Makes memory for a part, with room if that costs nothing. Returns the unit at its beginning, and zeros.
fn make_room<T: bytemuck::Pod>(
    part: &Range<u64>,
    units: &[u64],
    unit_len: usize,
) -> Result<(u64, Vec<T>), Error> {
    let make_zeros = |units: &Range<u64>| {
        count_elements(units.end - units.start, unit_len).and_then(try_zeroed_matrix)
    };
    if is_unwritten_memory_free() {
        let count = part.end - part.start;
        let total: u64 = units.iter().sum();
        let wide = part.start.saturating_sub(count)..part.end.saturating_add(count).min(total);
        if let Some(memory) = make_zeros(&wide) {
            return Ok((wide.start, memory));
        }
    }
    let memory = make_zeros(part).ok_or_else(|| Error::Allocation {
        what: "the units of this rank",
        bytes: (part.end - part.start)
            .saturating_mul(unit_len as u64)
            .saturating_mul(size_of::<T>() as u64),
    })?;
    Ok((part.start, memory))
}

/// Returns the elements of units in memory that begins with unit `first`. An empty part has none, wherever it begins.
fn find_place(units: &Range<u64>, first: u64, unit_len: usize) -> Range<usize> {
    if units.is_empty() {
        return 0..0;
    }
    let [start, end] = [units.start, units.end]
        .map(|unit| (unit.saturating_sub(first) as usize).saturating_mul(unit_len));
    start..end
}

/// Returns the units of a part that are not in the next one: some at its beginning, and some at its end.
fn list_left(before: &Range<u64>, now: &Range<u64>) -> [Range<u64>; 2] {
    if now.is_empty() || now.start >= before.end || now.end <= before.start {
        return [before.clone(), 0..0];
    }
    [before.start..now.start.max(before.start), now.end.min(before.end)..before.end]
}

impl<T> Deref for UnitArray<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.memory[find_place(&self.part, self.first, self.unit_len)]
    }
}

impl<T> DerefMut for UnitArray<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.memory[find_place(&self.part, self.first, self.unit_len)]
    }
}

/// Moves an array to another division of its units, for programs that decide on divisions by themselves. `units` are those
/// of each rank. Units that stay are not touched, as long as the memory has [room](UnitArray).
///
/// # Errors
/// On every rank, which keeps the array as it was, returns [`Error::Settings`] for ranks with different divisions or lengths;
/// [`Error::Parameter`] for divisions of other totals or numbers of ranks; [`Error::Allocation`].
///
/// # Collective
/// All ranks, with the same units and type, and with arrays of the same division and `unit_len`.
pub fn migrate_units<T: bytemuck::Pod>(
    comm: &dyn Comm,
    units: &[u64],
    array: &mut UnitArray<T>,
) -> Result<(), Error> {
    let _call = CollectiveCall::new(comm, "migrate")
        .with("from", &array.units())
        .with("to", &units)
        .enter()?;
    array.move_to(comm, units)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::LocalComm;

    #[test]
    fn divisions_that_lose_units_are_refused() {
        let comm = LocalComm::new();
        let mut array: UnitArray<u8> = UnitArray::zeros(&comm, &[3], 2).unwrap();
        array.copy_from_slice(&[1, 2, 3, 4, 5, 6]);
        for units in [&[4][..], &[3, 0], &[]] {
            let text = migrate_units(&comm, units, &mut array).unwrap_err().to_string();
            assert!(text.contains("all units remain"), "{text}");
        }
        migrate_units(&comm, &[3], &mut array).unwrap();
        assert_eq!(array[..], [1, 2, 3, 4, 5, 6]);
        assert!(UnitArray::<u8>::zeros(&comm, &[1, 2], 2).is_err());
    }

    #[test]
    fn units_beyond_all_memory_are_an_error() {
        let text = UnitArray::<u64>::zeros(&LocalComm::new(), &[1 << 45], 1 << 20)
            .unwrap_err()
            .to_string();
        assert!(text.contains("the units of this rank"), "{text}");
    }

    #[test]
    fn what_leaves_a_part_is_at_its_ends() {
        assert_eq!(list_left(&(3..9), &(4..12)), [3..4, 9..9]);
        assert_eq!(list_left(&(3..9), &(0..7)), [3..3, 7..9]);
        assert_eq!(list_left(&(3..9), &(4..8)), [3..4, 8..9]);
        assert_eq!(list_left(&(3..9), &(9..12)), [3..9, 0..0]);
        assert_eq!(list_left(&(3..9), &(5..5)), [3..9, 0..0]);
    }
}
