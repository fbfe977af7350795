//! Moving the data of units to the ranks that now have them.

use std::ops::Range;

use isochron_hierarchy::rebalance::list_ranges;

use crate::comm::{Comm, Message, Settings, Transfer, agree, agree_on_settings};
use crate::error::Error;

/// Two divisions of the same units.
#[derive(Clone, Copy)]
pub(super) struct Change<'a> {
    pub from: &'a [u64],
    pub to: &'a [u64],
}

impl Change<'_> {
    /// Lists the units that `rank` sends to each other rank and receives from it, counted from the first unit of its
    /// part before and after the change.
    fn list_moves(&self, rank: usize) -> (UnitMoves, UnitMoves) {
        let (from, to) = (list_ranges(self.from), list_ranges(self.to));
        let (mut sends, mut recvs) = (Vec::new(), Vec::new());
        for other in 0..from.len() {
            sends.push((other, intersect_ranges(&from[rank], &to[other])));
            recvs.push((other, intersect_ranges(&to[rank], &from[other])));
        }
        (sends, recvs)
    }
}

/// Ranks and ranges of units.
type UnitMoves = Vec<(usize, Range<usize>)>;

/// Returns the units of `mine` that `others` has too, counted from the first of `mine`.
fn intersect_ranges(mine: &Range<u64>, others: &Range<u64>) -> Range<usize> {
    let start = mine.start.max(others.start);
    let end = mine.end.min(others.end);
    if start < end {
        (start - mine.start) as usize..(end - mine.start) as usize
    } else {
        0..0
    }
}

/// The elements of a part's units, in the memory of the program.
#[derive(Clone, Copy)]
enum UnitData<'a, T> {
    /// Units of this length, one after the other.
    Rows(&'a [T], usize),
    Blocks(&'a [&'a [T]]),
}

impl<T: bytemuck::Pod> UnitData<'_, T> {
    /// Appends units to elements that have room for them.
    fn append(self, units: Range<usize>, elements: &mut Vec<T>) {
        match self {
            Self::Rows(rows, len) => {
                elements.extend_from_slice(&rows[units.start * len..units.end * len]);
            }
            Self::Blocks(blocks) => {
                for block in &blocks[units] {
                    elements.extend_from_slice(block);
                }
            }
        }
    }
}

/// The first element of each unit of a part, and the end of the last.
#[derive(Clone, Copy)]
enum UnitOffsets<'a> {
    /// Units of this length.
    Rows(usize),
    Blocks(&'a [usize]),
}

impl UnitOffsets<'_> {
    /// Returns the elements of units. Those of no units are none, wherever they would begin.
    fn find(self, units: &Range<usize>) -> Range<usize> {
        match self {
            _ if units.is_empty() => 0..0,
            Self::Rows(len) => units.start.saturating_mul(len)..units.end.saturating_mul(len),
            Self::Blocks(offsets) => offsets[units.start]..offsets[units.end],
        }
    }
}

/// Moves the data of units that change their rank from one division of a loop to another, for programs that decide on
/// divisions by themselves. Each unit is `unit_len` elements, in the order of the units. `from` and `to` are the units of
/// each rank. Returns the data of this rank's units in `to`.
///
/// # Errors
/// On every rank: [`Error::Settings`] for ranks with different divisions or lengths; [`Error::Parameter`] for divisions
/// of other totals or numbers of ranks, and for data that are not those of the part; [`Error::Allocation`].
///
/// # Collective
/// All ranks, with the same divisions, `unit_len` and type.
pub fn migrate_units<T: bytemuck::Pod>(
    comm: &dyn Comm,
    (from, to): (&[u64], &[u64]),
    unit_len: usize,
    data: &[T],
) -> Result<Vec<T>, Error> {
    let settings = [("from", from), ("to", to)];
    let settings = settings.map(|(name, units)| (name.to_owned(), format!("{units:?}")));
    agree_on_settings(comm, &settings.into())?;
    check_divisions(comm, from, to)?;
    move_units(comm, Change { from, to }, unit_len, data)
}

/// Checks divisions that are the same on all ranks.
fn check_divisions(comm: &dyn Comm, from: &[u64], to: &[u64]) -> Result<(), Error> {
    let ranks = comm.size();
    let totals = [from, to].map(|units| units.iter().map(|&units| u128::from(units)).sum::<u128>());
    if from.len() != ranks || to.len() != ranks || totals[0] != totals[1] {
        let found = format!("{from:?} to {to:?}");
        let reason = format!("each of {ranks} ranks has a part, and all units remain");
        return Err(Error::parameter("division", found, reason));
    }
    Ok(())
}

/// Moves units of `unit_len` elements each.
pub(super) fn move_units<T: bytemuck::Pod>(
    comm: &dyn Comm,
    change: Change<'_>,
    unit_len: usize,
    data: &[T],
) -> Result<Vec<T>, Error> {
    let settings = [
        ("unit_len", unit_len),
        ("bytes of an element", size_of::<T>()),
    ];
    let settings: Settings = (settings.into_iter())
        .map(|(name, value)| (name.to_owned(), value.to_string()))
        .collect();
    agree_on_settings(comm, &settings)?;
    let before = change.from[comm.rank()] as usize;
    agree(comm, check_length(data, before, unit_len))?;
    let offsets = UnitOffsets::Rows(unit_len);
    move_elements(comm, change, UnitData::Rows(data, unit_len), [offsets; 2])
}

fn check_length<T>(data: &[T], units: usize, unit_len: usize) -> Result<(), Error> {
    match units.checked_mul(unit_len) {
        Some(wanted) if wanted == data.len() => Ok(()),
        _ => Err(Error::parameter(
            "data",
            format!("{} elements", data.len()),
            format!("the {units} units of this rank have {unit_len} elements each"),
        )),
    }
}

/// Moves one block for each unit, of any length.
pub(super) fn move_blocks<T: bytemuck::Pod>(
    comm: &dyn Comm,
    change: Change<'_>,
    blocks: &[&[T]],
) -> Result<Vec<Vec<T>>, Error> {
    let lengths: Vec<u64> = blocks.iter().map(|block| block.len() as u64).collect();
    let new_lengths = move_units(comm, change, 1, &lengths)?;
    let [old, new] = [&lengths, &new_lengths].map(|lengths| sum_lengths(lengths));
    let offsets = [&old, &new].map(|offsets| UnitOffsets::Blocks(offsets));
    let moved = move_elements(comm, change, UnitData::Blocks(blocks), offsets)?;
    let ends = new.windows(2);
    let blocks = ends.map(|ends| copy_elements(&moved[ends[0]..ends[1]]));
    agree(comm, blocks.collect())
}

/// Returns the first element of each block, and the end of the last.
fn sum_lengths(lengths: &[u64]) -> Vec<usize> {
    let mut offsets = vec![0];
    let mut end = 0_usize;
    for &length in lengths {
        end = end.saturating_add(length as usize);
        offsets.push(end);
    }
    offsets
}

/// Moves elements, given the places of each unit of this rank before and after. The data stay as they are: what leaves this
/// rank is copied first.
fn move_elements<T: bytemuck::Pod>(
    comm: &dyn Comm,
    change: Change<'_>,
    data: UnitData<'_, T>,
    [old, new]: [UnitOffsets<'_>; 2],
) -> Result<Vec<T>, Error> {
    let rank = comm.rank();
    let (sends, recvs) = change.list_moves(rank);
    let n_sent = count_others(rank, old, &sends);
    let n_moved = new.find(&(0..change.to[rank] as usize)).end;
    let rooms = reserve_elements(n_sent).and_then(|sent| Ok((sent, reserve_elements(n_moved)?)));
    let (mut sent, mut moved) = agree(comm, rooms)?;
    let mut messages = Vec::new();
    for (other, units) in sends.iter().filter(|(other, _)| *other != rank) {
        let start = sent.len();
        data.append(units.clone(), &mut sent);
        messages.push(Message::plain(*other, 0, start..sent.len()));
    }
    let kept = new.find(&recvs[rank].1);
    moved.resize(kept.start, T::zeroed());
    data.append(sends[rank].1.clone(), &mut moved);
    moved.resize(n_moved, T::zeroed());
    let recvs: Vec<Message> = recvs
        .iter()
        .filter(|(other, _)| *other != rank)
        .map(|(other, units)| Message::plain(*other, 1, new.find(units)))
        .collect();
    let mut buffers = Transfer::start(comm, vec![sent, moved], &messages, &recvs)?.finish()?;
    Ok(buffers.swap_remove(1))
}

/// Counts the elements that leave this rank.
fn count_others(rank: usize, offsets: UnitOffsets<'_>, moves: &UnitMoves) -> usize {
    moves
        .iter()
        .filter(|(other, _)| *other != rank)
        .map(|(_, units)| offsets.find(units).len())
        .sum()
}

fn copy_elements<T: bytemuck::Pod>(elements: &[T]) -> Result<Vec<T>, Error> {
    let mut copy = reserve_elements(elements.len())?;
    copy.extend_from_slice(elements);
    Ok(copy)
}

fn reserve_elements<T>(len: usize) -> Result<Vec<T>, Error> {
    let mut elements = Vec::new();
    elements
        .try_reserve_exact(len)
        .map_err(|_| Error::Allocation {
            what: "units that move",
            bytes: len.saturating_mul(size_of::<T>()) as u64,
        })?;
    Ok(elements)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divisions_that_lose_units_are_refused() {
        let comm = crate::comm::LocalComm::new();
        for (from, to) in [(&[3][..], &[4][..]), (&[3], &[3, 0]), (&[1, 2], &[3])] {
            let text = migrate_units(&comm, (from, to), 1, &[0_u8; 3])
                .unwrap_err()
                .to_string();
            assert!(text.contains("all units remain"), "{text}");
        }
        let kept = migrate_units(&comm, (&[3], &[3]), 2, &[1, 2, 3, 4, 5, 6]).unwrap();
        assert_eq!(kept, [1, 2, 3, 4, 5, 6]);
        let text = migrate_units(&comm, (&[3], &[3]), 2, &[1, 2])
            .unwrap_err()
            .to_string();
        assert!(text.contains("the 3 units of this rank"), "{text}");
    }

    #[test]
    fn every_unit_is_sent_once_and_received_once() {
        let change = Change {
            from: &[4, 6, 0, 2],
            to: &[5, 1, 4, 2],
        };
        let mut received = vec![0; 12];
        for (rank, range) in list_ranges(change.to).into_iter().enumerate() {
            let (_, recvs) = change.list_moves(rank);
            for (other, units) in recvs {
                let (sends, _) = change.list_moves(other);
                assert_eq!(sends[rank].1.len(), units.len());
                let places = (sends[rank].1.end as u64, units.end as u64);
                assert!(places.0 <= change.from[other] && places.1 <= change.to[rank]);
                for unit in units {
                    received[range.start as usize + unit] += 1;
                }
            }
        }
        assert_eq!(received, [1; 12]);
    }
}
