//! The processes of a host that have the same cores.

/// Returns the index of process `index` of `count` among those that have the same cores, and their number. Each process has
/// `granted` of the `host` cores, the first of them after `before` others.
///
/// Processes with neighbouring numbers have the same cores, or else numbers go round the groups of cores. The first core
/// tells which.
pub(super) fn place_among(
    index: usize,
    count: usize,
    [host, granted, before]: [usize; 3],
) -> (usize, usize) {
    let groups = host / granted.max(1);
    if groups < 2 {
        return (index, count);
    }
    let sharers = count.div_ceil(groups);
    let group = before / granted;
    if index / sharers != group && index % groups == group {
        return (index / groups, sharers);
    }
    (index % sharers, sharers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_of_a_launcher_know_which_others_have_their_cores() {
        // None is bound.
        assert_eq!(place_among(2, 4, [8, 8, 0]), (2, 4));
        // Each has cores of its own.
        assert_eq!(place_among(2, 4, [8, 2, 4]), (0, 1));
        // Two have each half, by neighbouring numbers and in turn.
        for (firsts, indices) in [([0, 0, 4, 4], [0, 1, 0, 1]), ([0, 4, 0, 4], [0, 0, 1, 1])] {
            for (number, (first, index)) in firsts.into_iter().zip(indices).enumerate() {
                assert_eq!(place_among(number, 4, [8, 4, first]), (index, 2));
            }
        }
    }
}
