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
