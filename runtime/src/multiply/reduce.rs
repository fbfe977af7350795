//! The sum of the ranks' contributions to the same C.
//!
//! Every rank that holds a rectangle of C receives it directly from each rank that computed, so each element travels once
//! from every rank but its holder. The holder adds the contributions in the order of the ranks, not of arrival, so every
//! run gives the same result. Rectangles travel in stripes of columns, which bounds the memory under way.

use std::ops::Range;

use isochron_devices::{Element, View};

use super::panels::Volume;
use super::plan::{Plan, Split};
use crate::comm::{Comm, Message, Transfer};
use crate::matrix::{Matrix, Region};

/// Elements that a rank sends or receives in a stripe; at least one column of each rectangle goes.
const STRIPE: usize = 4 << 20;

/// The stripes of a rectangle of C, the same for all ranks that send and receive them.
#[derive(Debug, Clone, Copy)]
struct Stripes {
    part: Region,
    width: usize,
}

impl Stripes {
    fn new(part: Region, ranks: usize) -> Self {
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

    /// Returns the columns of a stripe within the rectangle; none after the last stripe.
    fn stripe_columns(&self, stripe: usize) -> Range<usize> {
        let start = (stripe * self.width).min(self.part.cols);
        start..(start + self.width).min(self.part.cols)
    }

    fn len(&self, stripe: usize) -> usize {
        if self.part.is_empty() {
            0
        } else {
            self.part.rows * self.stripe_columns(stripe).len()
        }
    }
}

/// Returns the ranks that computed anything, and the stripes of every rank's rectangle.
fn senders_and_stripes(plan: &Plan) -> (Vec<usize>, Vec<Stripes>) {
    let Split::K(shares) = plan.split() else {
        return (Vec::new(), Vec::new());
    };
    let computed: Vec<usize> = (0..shares.len()).filter(|&rank| shares[rank] > 0).collect();
    let c = plan.c();
    let stripes = (0..shares.len())
        .map(|rank| Stripes::new(c.part(rank), shares.len()))
        .collect();
    (computed, stripes)
}

/// Returns the elements that a rank packs and receives at a time.
pub(super) fn elements_under_way(plan: &Plan, rank: usize) -> usize {
    let (computed, stripes) = senders_and_stripes(plan);
    let senders = computed.iter().filter(|&&other| other != rank).count();
    let received = stripes[rank].len(0) * senders;
    let sent: usize = (0..stripes.len())
        .filter(|&other| other != rank)
        .map(|other| stripes[other].len(0))
        .sum();
    received + if computed.contains(&rank) { sent } else { 0 }
}

/// Adds all ranks' contributions to C to the rectangles in `c`. `partial` is this rank's contribution: all of C, or empty
/// if it computed nothing.
///
/// # Collective
/// All ranks, with the same plan, which splits k.
pub(super) fn sum_c<T: Element>(
    comm: &dyn Comm,
    plan: &Plan,
    partial: View<'_, T>,
    c: &mut Matrix<T>,
) -> Volume {
    let me = comm.rank();
    let (computed, stripes) = senders_and_stripes(plan);
    let rounds = stripes.iter().map(Stripes::count).max().unwrap_or(0);
    let mut buffers: Vec<Vec<T>> = vec![Vec::new(); 2 * stripes.len()];
    let mut volume = Volume::default();
    for round in 0..rounds {
        let (mut sends, mut recvs) = (Vec::new(), Vec::new());
        for (rank, of_rank) in stripes.iter().enumerate() {
            let len = of_rank.len(round);
            if rank != me && len > 0 && computed.contains(&me) {
                pack_stripe(partial, of_rank, round, &mut buffers[rank]);
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
        let columns = stripes[me].stripe_columns(round);
        for &rank in computed.iter().filter(|_| stripes[me].len(round) > 0) {
            let (rows, cols) = (stripes[me].part.rows, columns.len());
            let part = if rank == me {
                view_stripe(partial, &stripes[me], round)
            } else {
                View::new(&buffers[stripes.len() + rank], rows, cols, rows)
            };
            add_columns(part, &columns, c);
        }
    }
    volume
}

/// Returns the stripe of a rectangle as a view of all of C.
fn view_stripe<'p, T>(partial: View<'p, T>, stripes: &Stripes, round: usize) -> View<'p, T> {
    let (part, columns) = (stripes.part, stripes.stripe_columns(round));
    partial.block(
        part.row_range(),
        part.col + columns.start..part.col + columns.end,
    )
}

fn pack_stripe<T: Element>(
    partial: View<'_, T>,
    stripes: &Stripes,
    round: usize,
    out: &mut Vec<T>,
) {
    let stripe = view_stripe(partial, stripes, round);
    out.clear();
    for j in 0..stripe.cols() {
        out.extend_from_slice(stripe.col(j));
    }
}

/// Adds a contribution to these local columns of C.
fn add_columns<T: Element>(part: View<'_, T>, columns: &Range<usize>, c: &mut Matrix<T>) {
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
            let part = Region { row: 3, col: 5, rows, cols };
            let stripes = Stripes::new(part, ranks);
            let all: usize = (0..stripes.count()).map(|stripe| stripes.len(stripe)).sum();
            prop_assert_eq!(all, part.len());
            prop_assert_eq!(stripes.len(stripes.count()), 0);
            let most = (0..stripes.count()).map(|stripe| stripes.len(stripe)).max().unwrap_or(0);
            prop_assert!(most <= (STRIPE / ranks).max(rows));
        }
    }
}
