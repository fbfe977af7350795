//! A and B in parts of k, for memory that cannot hold them whole.

use super::Plan;
use crate::error::Error;
use crate::matrix::Spread;
use crate::plan::schedule::{A, B};

/// A part of k of a [`Plan`]: a multiplication over some columns of op(A) and rows of op(B) that is added to the same C.
#[derive(Debug, Clone)]
pub struct PartOfK {
    plan: Plan,
    first: usize,
    k: usize,
}

impl PartOfK {
    /// The multiplication of this part. Its matrices are those behind the windows [`a`](Self::a) and [`b`](Self::b).
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The first index along k.
    pub fn first(&self) -> usize {
        self.first
    }

    /// Returns the spread of the part of A to be held, as it is stored: a [window](Spread::within) on A.
    pub fn a(&self) -> Spread {
        let along_cols = !self.plan.problem.ops()[A].transposes();
        self.window(self.plan.a(), along_cols)
    }

    /// Returns the spread of the part of B to be held, as it is stored.
    pub fn b(&self) -> Spread {
        let along_cols = self.plan.problem.ops()[B].transposes();
        self.window(self.plan.b(), along_cols)
    }

    fn window(&self, part: Spread, along_cols: bool) -> Spread {
        let (first, whole) = if along_cols {
            ((0, self.first), (part.rows(), self.k))
        } else {
            ((self.first, 0), (self.k, part.cols()))
        };
        part.within(first, whole)
    }
}

impl Plan {
    /// Number of parts of k in which A and B are held, one after the other; 1 if they are held whole.
    pub fn k_parts(&self) -> usize {
        self.tuning.k_parts
    }

    /// Checks that the plan holds A and B whole.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] if it holds them in parts of k.
    pub(crate) fn check_whole(&self) -> Result<(), Error> {
        match self.k_parts() {
            1 => Ok(()),
            parts => {
                let reason = format!("the plan holds A and B in {parts} parts of k");
                Err(Error::Shape(reason))
            }
        }
    }

    /// Returns the same plan with A and B in this number of parts of k, at most one for each step.
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] when it is 0, or more than 1 while k is split among the ranks. With k split nothing
    /// is sent, and every rank holds its shares of A and B.
    pub fn with_k_parts(self, k_parts: usize) -> Result<Self, Error> {
        let reason = if k_parts == 0 {
            "A and B are at least one part"
        } else if k_parts > 1 && self.division().shares().is_some() {
            "k is split among the ranks, which hold their shares of A and B"
        } else {
            let mut plan = self.without_fit();
            if k_parts > 1 {
                // Parts of k are made where the plan has them.
                (plan.lying, plan.scattered) = ([None, None], [false; 2]);
            }
            plan.tuning.k_parts = k_parts.min(plan.steps(0).max(1));
            return Ok(plan);
        };
        Err(Error::parameter("k_parts", k_parts, reason))
    }

    /// Returns one part of k of every length that occurs, with the number of parts of this length. A rank's share of a part,
    /// and its need for panels, depend on the length alone, though a rank may hold more of a shorter part.
    pub(crate) fn unlike_parts(&self) -> Vec<(PartOfK, usize)> {
        let last = self.k_parts() - 1;
        // The first part with one step less than those before it, and the one that ends with k.
        let shorter = (self.problem.k().div_ceil(self.panel()) % self.k_parts()).min(last);
        let mut firsts = vec![0, shorter, last, self.k_parts()];
        firsts.dedup();
        firsts.windows(2).map(|range| (self.k_part(range[0]), range[1] - range[0])).collect()
    }

    /// Returns the part of this index. Parts are whole steps, as even as possible; the first is the largest.
    ///
    /// # Panics
    /// When `index` is not below [`k_parts`](Self::k_parts).
    pub fn k_part(&self, index: usize) -> PartOfK {
        assert!(index < self.k_parts(), "a plan has no part {index} of k");
        let k = self.problem.k();
        if self.k_parts() == 1 {
            return PartOfK { plan: self.clone(), first: 0, k };
        }
        let first = self.part_start(index);
        let length = self.part_start(index + 1) - first;
        let mut plan = self.clone().without_fit();
        plan.problem = self.problem.part_of_k(length);
        plan.tuning.k_parts = 1;
        PartOfK { plan, first, k }
    }

    /// Returns the first index along k of a part, or k after the last one.
    fn part_start(&self, index: usize) -> usize {
        let k = self.problem.k();
        let steps = k.div_ceil(self.panel());
        let before = index * (steps / self.k_parts()) + index.min(steps % self.k_parts());
        (before * self.panel()).min(k)
    }
}

#[cfg(test)]
mod tests {
    use isochron_hierarchy::layout::slice_rows;
    use proptest::prelude::*;

    use super::*;
    use crate::matrix::Op;
    use crate::plan::Problem;

    proptest! {
        #[test]
        fn the_parts_of_a_and_b_are_a_and_b(
            k in 0usize..200, panel in 1usize..30, k_parts in 1usize..20, a in 0usize..3, b in 0usize..3,
        ) {
            let ops = [a, b].map(|op| [Op::N, Op::T, Op::C][op]);
            let problem = Problem::new(30, 20, k, 4).unwrap().with_panel(panel).unwrap().with_ops(ops);
            let (rows, cols) = problem.c_blocks();
            let layout = slice_rows(cols, &[3, rows - 3]).unwrap();
            let plan = Plan::with_layout(problem, layout, &[vec![20], vec![20]]).unwrap();
            let plan = plan.with_k_parts(k_parts).unwrap();
            prop_assert_eq!(plan.k_parts(), k_parts.min(k.div_ceil(panel).max(1)));
            let (mut next, mut largest) = (0, usize::MAX);
            let mut held = [0, 0];
            for part in (0..plan.k_parts()).map(|part| plan.k_part(part)) {
                let length = part.plan().problem().k();
                prop_assert_eq!(part.first(), next);
                prop_assert!(length <= largest && (length > 0 || k == 0));
                let mut unlike = plan.unlike_parts().into_iter();
                prop_assert!(unlike.any(|(part, _)| part.plan().problem().k() == length));
                (next, largest) = (next + length, length);
                for (side, window) in [part.a(), part.b()].into_iter().enumerate() {
                    let whole = [plan.a(), plan.b()];
                    prop_assert_eq!((window.rows(), window.cols()), (whole[side].rows(), whole[side].cols()));
                    let across = (side == A) == ops[side].transposes();
                    for held_part in (0..2).map(|rank| window.part(rank)).filter(|part| !part.is_empty()) {
                        let range = if across { held_part.row_range() } else { held_part.col_range() };
                        prop_assert!(part.first() <= range.start && range.end <= part.first() + length);
                        held[side] += held_part.len();
                    }
                }
            }
            prop_assert_eq!((next, held), (k, [30 * k, 20 * k]));
            let lengths = plan.unlike_parts().into_iter().map(|(part, alike)| alike * part.plan().problem().k());
            prop_assert_eq!(lengths.sum::<usize>(), k);
        }
    }

    #[test]
    fn k_is_cut_once() {
        let problem = Problem::new(8, 8, 64, 4).unwrap().with_panel(8).unwrap();
        let plan = Plan::along_k(problem, vec![8, 8], &[vec![8], vec![8]]).unwrap();
        assert!(plan.clone().with_k_parts(1).is_ok());
        let refused = plan.clone().with_k_parts(2).unwrap_err().to_string();
        assert!(refused.contains("hold their shares"), "{refused}");
        assert!(plan.with_k_parts(0).is_err());
    }
}
