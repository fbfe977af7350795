//! Moving the data of units to the ranks that now have them.

use std::ops::Range;

use isochron_devices::{View, ViewMut};
use isochron_hierarchy::rebalance::list_ranges;

use crate::comm::{Comm, Settings, agree, agree_on_settings};
use crate::error::Error;
use crate::matrix::redistribute::{Movement, replace};
use crate::matrix::{Order, Region, Spread};

/// Bytes of messages that a rank packs or waits for at a time. More would only be fresh memory, whose pages cost more than the
/// messages.
const MESSAGE_BYTES: usize = 8 << 20;

/// The memory in which the units of a rank's part lie before and after a move, one after the other.
#[derive(Debug)]
pub enum UnitMemory<'m, T> {
    /// Two arrays.
    Apart {
        /// The units of the part before the move.
        from: &'m [T],
        /// Place for the units of the part after it.
        to: &'m mut [T],
    },
    /// One array in which every unit has a place, before and after the move. Units that stay are not touched.
    Within {
        /// The array: units that follow each other, among them those of the part before the move and of the part after it.
        memory: &'m mut [T],
        /// The unit at the beginning of the array.
        first: u64,
    },
}

impl<T> UnitMemory<'_, T> {
    /// Checks that the memory has places for the units before and after a move.
    fn check(&self, parts: &[Range<u64>; 2], unit_len: usize) -> Result<(), Error> {
        match self {
            Self::Apart { from, to } => {
                let [before, now] = parts;
                check_length("data", from.len(), before, unit_len)?;
                check_length("to", to.len(), now, unit_len)
            }
            Self::Within { memory, first } => {
                let mut parts = parts.iter().filter(|part| !part.is_empty());
                match parts.find(|part| !has_places(memory.len(), *first, part, unit_len)) {
                    None => Ok(()),
                    Some(part) => Err(Error::parameter(
                        "memory",
                        format!("{} elements from unit {first} on", memory.len()),
                        format!(
                            "units {} to {} of this rank have {unit_len} elements each",
                            part.start,
                            part.end - 1
                        ),
                    )),
                }
            }
        }
    }
}

/// Checks that this rank has all elements of its units.
pub(super) fn check_length(
    name: &'static str,
    len: usize,
    part: &Range<u64>,
    unit_len: usize,
) -> Result<(), Error> {
    let units = part.end - part.start;
    if count_elements(units, unit_len) == Some(len) {
        return Ok(());
    }
    Err(Error::parameter(
        name,
        format!("{len} elements"),
        format!("the {units} units of this rank have {unit_len} elements each"),
    ))
}

/// Returns `true` if an array of `len` elements that begins with unit `first` has all units of a part.
fn has_places(len: usize, first: u64, part: &Range<u64>, unit_len: usize) -> bool {
    let ends_at = part.end.saturating_sub(first);
    part.start >= first && count_elements(ends_at, unit_len).is_some_and(|wanted| wanted <= len)
}

/// Returns the elements of units; `None` for more than any memory has.
pub(super) fn count_elements(units: u64, unit_len: usize) -> Option<usize> {
    usize::try_from(units).ok()?.checked_mul(unit_len)
}

/// Two divisions of the same units.
#[derive(Clone, Copy)]
pub(super) struct Change<'a> {
    pub from: &'a [u64],
    pub to: &'a [u64],
}

impl Change<'_> {
    /// Returns the units of a rank before and after the change.
    pub fn parts(&self, rank: usize) -> [Range<u64>; 2] {
        [self.from, self.to].map(|units| list_ranges(units).swap_remove(rank))
    }

    /// Checks divisions that are the same on all ranks, and that these can send each other units.
    pub fn check(&self, comm: &dyn Comm) -> Result<(), Error> {
        comm.check_messages()?;
        let Self { from, to } = self;
        let ranks = comm.size();
        let totals =
            [from, to].map(|units| units.iter().map(|&units| u128::from(units)).sum::<u128>());
        if from.len() != ranks || to.len() != ranks || totals[0] != totals[1] {
            let found = format!("{from:?} to {to:?}");
            let reason = format!("each of {ranks} ranks has a part, and all units remain");
            return Err(Error::parameter("division", found, reason));
        }
        Ok(())
    }

    /// Returns the elements of each rank before and after the change, as a matrix of one column.
    fn spread_elements(&self, unit_len: usize) -> Result<[Spread; 2], Error> {
        let total: u64 = self.from.iter().sum();
        let Some(rows) = count_elements(total, unit_len) else {
            let found = format!("{unit_len} elements");
            let reason = format!("{total} units of that length are more than any memory has");
            return Err(Error::parameter("unit_len", found, reason));
        };
        Ok([self.from, self.to].map(|units| {
            let regions = list_ranges(units).into_iter().map(|part| {
                Region::new(part.start as usize * unit_len..part.end as usize * unit_len, 0..1)
            });
            Spread::with_regions(rows, 1, regions)
        }))
    }
}

/// Moves units of `unit_len` elements each. A failure before the messages leaves all memory as it was.
///
/// # Collective
/// All ranks, with the same change, `unit_len` and type; the memory may be of either kind on each.
pub(super) fn move_units<T: bytemuck::Pod>(
    comm: &dyn Comm,
    change: Change<'_>,
    unit_len: usize,
    memory: UnitMemory<'_, T>,
) -> Result<(), Error> {
    agree_on_settings(comm, &describe_units::<T>(unit_len))?;
    let parts = change.parts(comm.rank());
    agree(comm, memory.check(&parts, unit_len))?;
    let [from, to] = change.spread_elements(unit_len)?;
    let limit = MESSAGE_BYTES / size_of::<T>().max(1);
    let movement = Movement::new(comm, &from, &to, Order::Columns, limit);
    let mut movement = agree(comm, movement)?;
    match memory {
        UnitMemory::Apart { from, to } => {
            let (source, target) = (View::column(from), ViewMut::column(to));
            movement.run(comm, source, target, &replace)?;
        }
        UnitMemory::Within { memory, first } => {
            let places = parts.map(|part| {
                if part.is_empty() {
                    return Region::default();
                }
                let [start, end] = [part.start, part.end].map(|unit| (unit - first) as usize);
                Region::new(start * unit_len..end * unit_len, 0..1)
            });
            movement.run_within(comm, ViewMut::column(memory), places)?;
        }
    }
    Ok(())
}

/// Returns what all ranks must give alike.
pub(super) fn describe_units<T>(unit_len: usize) -> Settings {
    let settings = [("unit_len", unit_len), ("bytes of an element", size_of::<T>())];
    (settings.into_iter()).map(|(name, value)| (name.to_owned(), value.to_string())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::LocalComm;

    fn move_alone(unit_len: usize, memory: UnitMemory<'_, u8>) -> Result<(), Error> {
        let change = Change { from: &[3], to: &[3] };
        move_units(&LocalComm::new(), change, unit_len, memory)
    }

    #[test]
    fn memory_without_a_place_for_a_unit_is_refused() {
        let mut to = [0; 6];
        let from = &[1, 2, 3, 4, 5, 6];
        move_alone(2, UnitMemory::Apart { from, to: &mut to }).unwrap();
        assert_eq!(to, *from);
        for (len, first, unit_len) in [(5, 0, 2), (6, 1, 2), (6, 0, usize::MAX)] {
            let memory = &mut to[..len];
            let text =
                move_alone(unit_len, UnitMemory::Within { memory, first }).unwrap_err().to_string();
            assert!(
                text.contains(&format!("{len} elements from unit {first} on"))
                    && text.contains("units 0 to 2"),
                "{text}"
            );
        }
        let memory = &mut to;
        move_alone(2, UnitMemory::Within { memory, first: 0 }).unwrap();
        let text =
            move_alone(2, UnitMemory::Apart { from, to: &mut to[..4] }).unwrap_err().to_string();
        assert!(text.contains("to = 4 elements"), "{text}");
    }
}
