//! The processes of a host that have the same cores.

use serde::{Deserialize, Serialize};

/// The place of a process among others of its host: those that share its cores, or all that its launcher has started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostPlace {
    /// Index of the process among them, less than `count`.
    pub index: usize,
    /// Number of the processes, this one included.
    pub count: usize,
}

impl HostPlace {
    /// The place of a process without others.
    pub const ALONE: Self = Self { index: 0, count: 1 };

    /// Returns the place of a process among those with the same cores; `self` is its place among all of its launcher. Each
    /// process has `granted` of the `host` cores, the first of them after `before` others.
    ///
    /// Processes with neighbouring numbers have the same cores, or else numbers go round the groups of cores. The first core
    /// tells which.
    pub(super) fn among_sharers(self, host: usize, granted: usize, before: usize) -> Self {
        let groups = host / granted.max(1);
        if groups < 2 {
            return self;
        }
        let sharers = self.count.div_ceil(groups);
        let group = before / granted;
        let is_in_turn = self.index / sharers != group && self.index % groups == group;
        Self {
            index: if is_in_turn { self.index / groups } else { self.index % sharers },
            count: sharers,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(index: usize, count: usize) -> HostPlace {
        HostPlace { index, count }
    }

    #[test]
    fn processes_of_a_launcher_know_which_others_have_their_cores() {
        // None is bound.
        assert_eq!(place(2, 4).among_sharers(8, 8, 0), place(2, 4));
        // Each has cores of its own.
        assert_eq!(place(2, 4).among_sharers(8, 2, 4), HostPlace::ALONE);
        // Two have each half, by neighbouring numbers and in turn.
        for (firsts, indices) in [([0, 0, 4, 4], [0, 1, 0, 1]), ([0, 4, 0, 4], [0, 0, 1, 1])] {
            for (number, (first, index)) in firsts.into_iter().zip(indices).enumerate() {
                assert_eq!(place(number, 4).among_sharers(8, 4, first), place(index, 2));
            }
        }
    }
}
