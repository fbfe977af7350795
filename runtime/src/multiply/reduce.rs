//! The sum of what ranks have computed of the same C.
//!
//! Every rank that holds a rectangle of C receives it from each rank that computed, straight, so that each element travels
//! once from every rank but its holder. It adds them up in the order of the ranks, whatever order they arrive in: the
//! result is the same in every run. Rectangles travel in stripes of columns, so that what is under way stays small.

use std::ops::Range;

use isochron_devices::{Element, View};

use super::panels::Volume;
use super::plan::{Plan, Split};
use crate::comm::{Comm, Message, Transfer};
use crate::matrix::{Matrix, Part};

/// Elements that a rank sends or receives in a stripe, at least one column of each rectangle.
const STRIPE: usize = 4 << 20;

/// The stripes of a rectangle of C: the same for everybody who sends and receives them.
#[derive(Debug, Clone, Copy)]
struct Stripes {
    part: Part,
    width: usize,
}

impl Stripes {
    fn new(part: Part, ranks: usize) -> Self {
        let column = part.rows.max(1) * ranks.max(1);
        Self {
            part,
            width: (STRIPE / column).max(1),
        }
    }

    fn count(&self) -> usize {
        if self.part.is_empty() {
            0
        } else {
            self.part.cols.div_ceil(self.width)
        }
    }

    /// The columns of a stripe, in the rectangle; none after the last one.
    fn columns(&self, stripe: usize) -> Range<usize> {
        let start = (stripe * self.width).min(self.part.cols);
        start..(start + self.width).min(self.part.cols)
    }

    fn len(&self, stripe: usize) -> usize {
        if self.part.is_empty() {
            0
        } else {
            self.part.rows * self.columns(stripe).len()
        }
    }
}

/// The ranks that computed anything, and the stripes of every rank's rectangle.
fn sides(plan: &Plan) -> (Vec<usize>, Vec<Stripes>) {
    let Split::K(shares) = plan.split() else {
        return (Vec::new(), Vec::new());
    };
    let computed: Vec<usize> = (0..shares.len()).filter(|&rank| shares[rank] > 0).collect();
    let c = plan.c();
    let stripes = (0..shares.len()).map(|rank| Stripes::new(c.part(rank), shares.len()));
    let stripes = stripes.collect();
    (computed, stripes)
}

/// Elements that a rank packs and receives at a time.
pub(super) fn elements_under_way(plan: &Plan, rank: usize) -> usize {
    let (computed, stripes) = sides(plan);
    let others = |ranks: &mut dyn Iterator<Item = usize>| ranks.filter(|&r| r != rank).count();
    let received = stripes[rank].len(0) * others(&mut computed.iter().copied());
    let sent = (0..stripes.len()).filter(|&other| other != rank);
    let sent: usize = sent.map(|other| stripes[other].len(0)).sum();
    received + if computed.contains(&rank) { sent } else { 0 }
}

/// Adds what all ranks computed of C, this one `partial` (all of C; empty where it computed nothing), to what `c` holds.
///
/// # Collective
/// All ranks, with the same plan, which splits k.
pub(super) fn reduce<T: Element>(
    comm: &dyn Comm,
    plan: &Plan,
    partial: View<'_, T>,
    c: &mut Matrix<T>,
) -> Volume {
    let me = comm.rank();
    let (computed, stripes) = sides(plan);
    let rounds = stripes.iter().map(Stripes::count).max().unwrap_or(0);
    let mut buffers: Vec<Vec<T>> = vec![Vec::new(); 2 * stripes.len()];
    let mut volume = Volume::default();
    for round in 0..rounds {
        let (mut sends, mut recvs) = (Vec::new(), Vec::new());
        for (rank, of_rank) in stripes.iter().enumerate() {
            let len = of_rank.len(round);
            if rank != me && len > 0 && computed.contains(&me) {
                pack(partial, of_rank, round, &mut buffers[rank]);
                sends.push(Message::plain(rank, rank, 0..len));
            }
            let mine = stripes[me].len(round);
            if rank != me && mine > 0 && computed.contains(&rank) {
                let buffer = stripes.len() + rank;
                buffers[buffer].resize(mine, T::ZERO);
                recvs.push(Message::plain(rank, buffer, 0..mine));
            }
        }
        volume.add(Volume {
            messages: sends.len() as u64,
            elements: sends.iter().map(|send| send.range.len() as u64).sum(),
        });
        buffers = Transfer::start(comm, buffers, &sends, &recvs).finish();
        let columns = stripes[me].columns(round);
        for &rank in computed.iter().filter(|_| stripes[me].len(round) > 0) {
            let (rows, cols) = (stripes[me].part.rows, columns.len());
            let part = if rank == me {
                own(partial, &stripes[me], round)
            } else {
                View::new(&buffers[stripes.len() + rank], rows, cols, rows)
            };
            add(part, &columns, c);
        }
    }
    volume
}

/// The stripe of a rectangle in all of C.
fn own<'p, T>(partial: View<'p, T>, stripes: &Stripes, round: usize) -> View<'p, T> {
    let (part, columns) = (stripes.part, stripes.columns(round));
    partial.block(
        part.row_range(),
        part.col + columns.start..part.col + columns.end,
    )
}

fn pack<T: Element>(partial: View<'_, T>, stripes: &Stripes, round: usize, out: &mut Vec<T>) {
    let stripe = own(partial, stripes, round);
    out.clear();
    for j in 0..stripe.cols() {
        out.extend_from_slice(stripe.col(j));
    }
}

/// Adds to the local columns of C.
fn add<T: Element>(part: View<'_, T>, columns: &Range<usize>, c: &mut Matrix<T>) {
    let mut c = c.local_mut();
    for (j, column) in columns.clone().enumerate() {
        for (sum, &value) in c.col_mut(column).iter_mut().zip(part.col(j)) {
            *sum = *sum + value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn stripes_are_the_rectangle(rows in 0usize..5000, cols in 0usize..5000, ranks in 1usize..2000) {
            let part = Part { row: 3, col: 5, rows, cols };
            let stripes = Stripes::new(part, ranks);
            let all: usize = (0..stripes.count()).map(|stripe| stripes.len(stripe)).sum();
            prop_assert_eq!(all, part.len());
            prop_assert_eq!(stripes.len(stripes.count()), 0);
            let most = (0..stripes.count()).map(|stripe| stripes.len(stripe)).max().unwrap_or(0);
            prop_assert!(most <= (STRIPE / ranks).max(rows));
        }
    }
}
