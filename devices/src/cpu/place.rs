//! The NUMA domains of the columns that a device's threads update.

use crate::contract::even_widths;
use crate::host::topology::CoreInfo;
use std::ops::Range;

/// Returns the columns of each run of threads with cores in one NUMA domain, with that domain. Thread `i` has the
/// columns of share `i`.
pub(super) fn columns_by_domain(cores: &[CoreInfo], cols: usize) -> Vec<(Range<usize>, u32)> {
    let mut domains: Vec<(Range<usize>, u32)> = Vec::new();
    let mut first = 0;
    for (core, width) in cores.iter().zip(even_widths(cols, cores.len())) {
        let columns = first..first + width;
        first = columns.end;
        match domains.last_mut() {
            Some((before, numa)) if *numa == core.numa => before.end = columns.end,
            _ => domains.push((columns, core.numa)),
        }
    }
    domains
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::topology::Topology;

    #[test]
    fn columns_lie_in_the_domains_of_their_threads() {
        let cores = Topology::from_synthetic("pack:2 [numa] core:3 pu:1").unwrap().cores();
        assert_eq!(columns_by_domain(&cores[1..5], 10), [(0..6, 0), (6..10, 1)]);
        assert_eq!(columns_by_domain(&cores[..2], 5), [(0..5, 0)]);
        assert_eq!(columns_by_domain(&cores, 0), [(0..0, 0), (0..0, 1)]);
        let back: Vec<_> = [0, 5, 1].map(|i| cores[i].clone()).into();
        assert_eq!(columns_by_domain(&back, 3), [(0..1, 0), (1..2, 1), (2..3, 0)]);
    }
}
