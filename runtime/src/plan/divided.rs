//! Plans for matrices that lie otherwise than was decided on.

use std::ops::Range;
use std::sync::Arc;

use isochron_hierarchy::decide::Division;
use isochron_hierarchy::layout::{Layout, Rect};
use isochron_hierarchy::partition::imbalance;

use super::{Plan, PlannedNode};
use crate::matrix::{Region, intersect};
use crate::plan::schedule::A;

impl Plan {
    /// Returns the same plan with these parts of C, one for each rank. The speeds of the nodes stay, and each node's part is
    /// divided over its devices in the proportion of this plan.
    ///
    /// Returns `None` if the parts are not in whole blocks or do not tile C, if the plan divides k, or if a rank that has no
    /// work here would get some: its speed is not known, or it has no part to divide over its devices.
    pub(crate) fn divided_as(&self, parts: &[Region]) -> Option<Self> {
        let (problem, block) = (&self.problem, self.problem.block());
        let in_blocks = parts.iter().all(|part| {
            part.is_empty()
                || (is_in_blocks(part.row_range(), problem.m(), block)
                    && is_in_blocks(part.col_range(), problem.n(), block))
        });
        if self.division().shares().is_some() || parts.len() != self.n_ranks() || !in_blocks {
            return None;
        }
        let rects = parts.iter().map(|part| {
            if part.is_empty() {
                Rect::default()
            } else {
                let [row, col] = [part.row, part.col].map(|first| (first / block) as u64);
                let [rows, cols] = [part.rows, part.cols].map(|len| len.div_ceil(block) as u64);
                Rect::new(row, col, rows, cols)
            }
        });
        let (rows, cols) = problem.c_blocks();
        let layout = Layout::new(rows, cols, rects.collect()).ok()?;
        let mut plan = self.clone();
        let decision = Arc::make_mut(&mut plan.decision);
        decision.division = Division::C(layout);
        if let Some(balance) = &mut decision.balance {
            for (rank, time_s) in balance.times_s.iter_mut().enumerate() {
                *time_s *= match (self.computed(rank).len(), parts[rank].len()) {
                    (_, 0) => 0.0,
                    (0, _) => return None,
                    (before, now) => now as f64 / before as f64,
                };
            }
        }
        if let Some(balance) = &mut decision.balance {
            balance.imbalance = imbalance(&balance.times_s);
        }
        for (node, part) in Arc::make_mut(&mut plan.nodes).iter_mut().zip(parts) {
            redivide(node, if part.is_empty() { 0 } else { part.cols })?;
        }
        let look = plan.look().cloned();
        // Panels and lookahead suit the division.
        Some(plan.with_look(look))
    }

    /// Returns the most blocks of C that a rank computes.
    pub(crate) fn most_blocks(&self) -> u64 {
        self.layout().rects().iter().map(|rect| rect.rows * rect.cols).max().unwrap_or(0)
    }

    /// Returns the same plan with these rectangles of op(A), or of op(B), where the ranks have them.
    #[must_use]
    pub(crate) fn with_lying(mut self, side: usize, parts: &[Region]) -> Self {
        self.lying[side] = Some(parts.into());
        self
    }

    /// Counts the elements that each rank sends to others if the ranks have these rectangles of op(A), or of op(B): what each
    /// reader needs, once.
    pub(crate) fn count_sent(&self, side: usize, parts: &[Region]) -> Vec<u64> {
        let readers: Vec<Region> = (0..self.n_ranks()).map(|rank| self.computed(rank)).collect();
        let across = |part: &Region| match side {
            A => part.row_range(),
            _ => part.col_range(),
        };
        let sent = parts.iter().enumerate().map(|(rank, part)| {
            let others = readers.iter().enumerate();
            let lines: usize = others
                .filter(|(reader, needs)| *reader != rank && !needs.is_empty())
                .map(|(_, needs)| intersect(&across(needs), &across(part)).len())
                .sum();
            let along = if side == A { part.cols } else { part.rows };
            (lines * along) as u64
        });
        sent.collect()
    }
}

/// Returns `true` if a range of `len` indices begins and ends with blocks of `block`; the last block may be shorter.
fn is_in_blocks(range: Range<usize>, len: usize, block: usize) -> bool {
    range.start.is_multiple_of(block) && (range.end.is_multiple_of(block) || range.end == len)
}

/// Divides these columns over a node's devices in the proportion of those that they have; `None` if they have none.
fn redivide(node: &mut PlannedNode, cols: usize) -> Option<()> {
    let before: usize = node.slices().iter().sum();
    if before == 0 {
        return (cols == 0).then_some(());
    }
    let (mut passed, mut begun) = (0, 0);
    for device in &mut node.devices {
        passed += device.columns;
        let end = (passed as u128 * cols as u128 / before as u128) as usize;
        device.columns = end - begun;
        begun = end;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use isochron_hierarchy::layout::slice_rows;

    use super::*;
    use crate::plan::Problem;

    /// Returns a plan of 3 ranks for 20×18 elements in blocks of 4, in slices of 3, 2 and 0 rows of blocks. The first rank has
    /// two devices.
    fn sliced() -> Plan {
        let problem = Problem::new(20, 18, 8, 4).unwrap();
        let layout = slice_rows(5, &[3, 2, 0]).unwrap();
        Plan::with_layout(problem, layout, &[vec![12, 6], vec![18], vec![18]]).unwrap()
    }

    #[test]
    fn parts_in_whole_blocks_become_the_division() {
        let parts = [Region::new(0..20, 0..8), Region::new(0..20, 8..18), Region::default()];
        let plan = sliced().divided_as(&parts).unwrap();
        assert_eq!(plan.check_parts(), Ok(()));
        assert_eq!((plan.computed(0), plan.computed(1)), (parts[0], parts[1]));
        assert_eq!(plan.slices(0), [5, 3]);
        assert_eq!((sliced().most_blocks(), plan.most_blocks()), (15, 15));
    }

    #[test]
    fn factors_lie_where_the_ranks_have_them() {
        let plan = sliced();
        let planned: Vec<Region> = (0..3).map(|rank| plan.a().part(rank)).collect();
        // Slices of rows: every rank has the rows of A that it needs.
        assert_eq!(plan.count_sent(A, &planned), [0, 0, 0]);
        // 12 rows of the first rank and 8 of the second one, from 8 columns on the last one.
        let parts = [Region::default(), Region::default(), Region::new(0..20, 0..8)];
        assert_eq!(plan.count_sent(A, &parts), [0, 0, 160]);
        let of_b = [Region::new(0..3, 0..18), Region::new(3..8, 0..18), Region::default()];
        assert_eq!(plan.count_sent(1, &of_b), [54, 90, 0]);
        let plan = plan.with_lying(A, &parts);
        assert_eq!((plan.a().part(2), plan.b().part(2)), (parts[2], sliced().b().part(2)));
    }

    #[test]
    fn other_parts_are_refused() {
        let cut = |col| [Region::new(0..20, 0..col), Region::new(0..20, col..18)];
        let three = |[a, b]: [Region; 2]| [a, b, Region::default()];
        let plan = sliced();
        assert!(plan.divided_as(&three(cut(7))).is_none(), "no whole blocks");
        assert!(plan.divided_as(&cut(8)).is_none(), "too few ranks");
        let [a, _] = cut(8);
        assert!(plan.divided_as(&[a, a, Region::default()]).is_none(), "no tiling");
    }
}
