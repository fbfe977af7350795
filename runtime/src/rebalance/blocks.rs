//! Moving blocks of any length, one for each unit, to the ranks that now have the units.

use std::ops::Range;

use isochron_hierarchy::rebalance::list_ranges;

use super::migrate::{Change, UnitMemory, check_length, describe_units, move_units};
use crate::comm::{Comm, Message, Transfer, agree, agree_on_settings};
use crate::error::Error;

/// The blocks of a part after a move: those that have come, and those that this rank has kept.
#[derive(Debug)]
pub struct MovedBlocks<T> {
    /// Blocks that have come, for the units before those that stay.
    pub before: Vec<Vec<T>>,
    /// Blocks that stay, counted from the first one before the move.
    pub kept: Range<usize>,
    /// Blocks that have come, for the units behind those that stay.
    pub after: Vec<Vec<T>>,
}

/// Ranges of units that this rank shares with each rank, counted from the first unit of its part.
type UnitMoves = Vec<(usize, Range<usize>)>;

impl Change<'_> {
    /// Lists the units that `rank` sends to each other rank and receives from it, counted from the first unit of its
    /// part before and after the change.
    fn list_moves(&self, rank: usize) -> [UnitMoves; 2] {
        let [from, to] = [self.from, self.to].map(list_ranges);
        let others = (0..from.len()).filter(|&other| other != rank);
        [(&from, &to), (&to, &from)].map(|(mine, theirs)| {
            (others.clone())
                .map(|other| (other, intersect_ranges(&mine[rank], &theirs[other])))
                .filter(|(_, units)| !units.is_empty())
                .collect()
        })
    }
}

/// Returns the units of `mine` that `others` has too, counted from the first of `mine`.
fn intersect_ranges(mine: &Range<u64>, others: &Range<u64>) -> Range<usize> {
    let start = mine.start.max(others.start);
    let end = mine.end.min(others.end);
    if start < end { (start - mine.start) as usize..(end - mine.start) as usize } else { 0..0 }
}

/// Moves one block for each unit, of any length. What stays is not touched.
///
/// # Collective
/// All ranks, with the same change and type.
pub(super) fn move_blocks<T: bytemuck::Pod>(
    comm: &dyn Comm,
    change: Change<'_>,
    blocks: &[impl AsRef<[T]>],
) -> Result<MovedBlocks<T>, Error> {
    agree_on_settings(comm, &describe_units::<T>(1))?;
    let [before, now] = change.parts(comm.rank());
    agree(comm, check_length("data", blocks.len(), &before, 1))?;
    let lengths = blocks.iter().map(|block| block.as_ref().len() as u64);
    let lengths: Vec<u64> = lengths.collect();
    let new_lengths = reserve_elements((now.end - now.start) as usize);
    let mut new_lengths: Vec<u64> = agree(comm, new_lengths)?;
    new_lengths.resize((now.end - now.start) as usize, 0);
    let memory = UnitMemory::Apart { from: &lengths[..], to: &mut new_lengths };
    move_units(comm, change, 1, memory)?;
    let [sends, recvs] = change.list_moves(comm.rank());
    let n_sent = count_elements(&sends, &lengths);
    let n_received = count_elements(&recvs, &new_lengths);
    let rooms = reserve_elements(n_sent).and_then(|sent| Ok((sent, reserve_elements(n_received)?)));
    let (mut sent, mut received) = agree(comm, rooms)?;
    for (_, units) in &sends {
        for block in &blocks[units.clone()] {
            sent.extend_from_slice(block.as_ref());
        }
    }
    received.resize(n_received, T::zeroed());
    let messages = [list_messages(0, &sends, &lengths), list_messages(1, &recvs, &new_lengths)];
    let received = Transfer::start(comm, vec![sent, received], &messages[0], &messages[1])?
        .finish()?
        .swap_remove(1);
    let kept = intersect_ranges(&before, &now);
    let first_kept = intersect_ranges(&now, &before).start;
    let cut = cut_blocks(&received, &recvs, &new_lengths);
    let mut came = agree(comm, cut)?;
    let n_before: usize = (recvs.iter())
        .filter(|(_, units)| kept.is_empty() || units.start < first_kept)
        .map(|(_, units)| units.len())
        .sum();
    let after = came.split_off(n_before);
    Ok(MovedBlocks { before: came, kept, after })
}

/// Counts the elements of the blocks that move.
fn count_elements(moves: &UnitMoves, lengths: &[u64]) -> usize {
    moves
        .iter()
        .flat_map(|(_, units)| &lengths[units.clone()])
        .fold(0, |sum, &length| sum.saturating_add(length as usize))
}

/// Lists the messages of blocks that follow each other in a buffer.
fn list_messages(buffer: usize, moves: &UnitMoves, lengths: &[u64]) -> Vec<Message> {
    let mut end = 0;
    moves
        .iter()
        .map(|(other, units)| {
            let start = end;
            end += lengths[units.clone()].iter().sum::<u64>() as usize;
            Message::plain(*other, buffer, start..end)
        })
        .collect()
}

/// Copies each block that has come to memory of its own.
fn cut_blocks<T: bytemuck::Pod>(
    received: &[T],
    moves: &UnitMoves,
    lengths: &[u64],
) -> Result<Vec<Vec<T>>, Error> {
    let mut rest = received;
    moves
        .iter()
        .flat_map(|(_, units)| &lengths[units.clone()])
        .map(|&length| {
            let (block, others) = rest.split_at(length as usize);
            rest = others;
            let mut copy = reserve_elements(block.len())?;
            copy.extend_from_slice(block);
            Ok(copy)
        })
        .collect()
}

fn reserve_elements<T>(len: usize) -> Result<Vec<T>, Error> {
    let mut elements = Vec::new();
    elements.try_reserve_exact(len).map_err(|_| Error::Allocation {
        what: "units that move",
        bytes: len.saturating_mul(size_of::<T>()) as u64,
    })?;
    Ok(elements)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_sent_once_and_received_once() {
        let change = Change { from: &[4, 6, 0, 2], to: &[5, 1, 4, 2] };
        let mut received = vec![0; 12];
        for rank in 0..4 {
            let [before, now] = change.parts(rank);
            let kept = intersect_ranges(&now, &before);
            for unit in kept {
                received[now.start as usize + unit] += 1;
            }
            for (other, units) in &change.list_moves(rank)[1] {
                let sends = &change.list_moves(*other)[0];
                let sent = sends.iter().find(|(to, _)| *to == rank).unwrap();
                assert_eq!(sent.1.len(), units.len());
                for unit in units.clone() {
                    received[now.start as usize + unit] += 1;
                }
            }
        }
        assert_eq!(received, [1; 12]);
    }
}
