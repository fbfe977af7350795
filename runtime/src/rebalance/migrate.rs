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
    match start < end {
        true => (start - mine.start) as usize..(end - mine.start) as usize,
        false => 0..0,
    }
}

/// Moves the data of units that change their rank from one division of a loop to another, for programs that decide on
/// divisions by themselves. Each unit is `unit_len` elements, in the order of the units. `from` and `to` are the units of
/// each rank.
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
    data: Vec<T>,
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
    data: Vec<T>,
) -> Result<Vec<T>, Error> {
    let settings = [
        ("unit_len", unit_len),
        ("bytes of an element", size_of::<T>()),
    ];
    let settings: Settings = (settings.into_iter())
        .map(|(name, value)| (name.to_owned(), value.to_string()))
        .collect();
    agree_on_settings(comm, &settings)?;
    let [from, to] = [change.from, change.to].map(|units| units[comm.rank()] as usize);
    agree(comm, check_length(&data, from, unit_len))?;
    let [old, new] = [from, to].map(|units| {
        (0..=units)
            .map(|unit| unit.saturating_mul(unit_len))
            .collect()
    });
    move_elements(comm, change, [old, new], data)
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
    blocks: &[Vec<T>],
) -> Result<Vec<Vec<T>>, Error> {
    let lengths: Vec<u64> = blocks.iter().map(|block| block.len() as u64).collect();
    let new_lengths = move_units(comm, change, 1, lengths.clone())?;
    let offsets = [&lengths, &new_lengths].map(|lengths| sum_lengths(lengths));
    let moved = move_elements(comm, change, offsets.clone(), blocks.concat())?;
    let ends = offsets[1].windows(2);
    Ok(ends.map(|ends| moved[ends[0]..ends[1]].to_vec()).collect())
}

/// Returns the first element of each block, and the end of the last.
fn sum_lengths(lengths: &[u64]) -> Vec<usize> {
    let mut offsets = vec![0];
    let mut end = 0;
    for &length in lengths {
        end += length as usize;
        offsets.push(end);
    }
    offsets
}

/// Moves elements, given the first element of each unit of this rank, before and after, and the ends of the last.
fn move_elements<T: bytemuck::Pod>(
    comm: &dyn Comm,
    change: Change<'_>,
    [old, new]: [Vec<usize>; 2],
    data: Vec<T>,
) -> Result<Vec<T>, Error> {
    if change.from == change.to {
        return Ok(data);
    }
    let len = new.last().copied().unwrap_or(0);
    let mut moved = agree(comm, allocate_elements(len))?;
    let rank = comm.rank();
    let (sends, recvs) = change.list_moves(rank);
    let (kept_from, kept_to) = (&sends[rank].1, &recvs[rank].1);
    moved[new[kept_to.start]..new[kept_to.end]]
        .copy_from_slice(&data[old[kept_from.start]..old[kept_from.end]]);
    let sends = list_messages(rank, 0, &old, sends);
    let recvs = list_messages(rank, 1, &new, recvs);
    let mut buffers = Transfer::start(comm, vec![data, moved], &sends, &recvs)?.finish()?;
    Ok(buffers.swap_remove(1))
}

fn list_messages(rank: usize, buffer: usize, offsets: &[usize], moves: UnitMoves) -> Vec<Message> {
    let others = moves.into_iter().filter(|&(other, _)| other != rank);
    others
        .map(|(other, units)| {
            Message::plain(other, buffer, offsets[units.start]..offsets[units.end])
        })
        .collect()
}

fn allocate_elements<T: bytemuck::Pod>(len: usize) -> Result<Vec<T>, Error> {
    let mut elements = Vec::new();
    let reserved = elements.try_reserve_exact(len);
    reserved.map_err(|_| Error::Allocation {
        what: "units that move",
        bytes: len.saturating_mul(size_of::<T>()) as u64,
    })?;
    elements.resize(len, T::zeroed());
    Ok(elements)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divisions_that_lose_units_are_refused() {
        let comm = crate::comm::LocalComm::new();
        for (from, to) in [(&[3][..], &[4][..]), (&[3], &[3, 0]), (&[1, 2], &[3])] {
            let text = migrate_units(&comm, (from, to), 1, vec![0_u8; 3])
                .unwrap_err()
                .to_string();
            assert!(text.contains("all units remain"), "{text}");
        }
        let kept = migrate_units(&comm, (&[3], &[3]), 2, vec![1, 2, 3, 4, 5, 6]).unwrap();
        assert_eq!(kept, [1, 2, 3, 4, 5, 6]);
        let text = migrate_units(&comm, (&[3], &[3]), 2, vec![1, 2])
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
