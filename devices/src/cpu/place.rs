//! The processing units of a device's threads, and the NUMA domains of their columns.

use crate::topology::CoreInfo;
use crate::view::even_widths;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// The place of a device's thread: its core, the units that it may run on, and those that it ran on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadPlace {
    /// Logical index of its core.
    pub core: u32,
    /// The processing units that the system lets it run on, read back from the system; empty if it does not tell.
    pub bound_to: Vec<u32>,
    /// The processing units on which its parts of the updates began and ended.
    pub ran_on: Vec<u32>,
}

/// The processing units on which one thread was seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    units: Mutex<BTreeSet<u32>>,
}

impl Seen {
    /// Notes the unit that the calling thread runs on now.
    pub(crate) fn note_unit(&self) {
        if let Some(unit) = current_unit() {
            let mut units = self.units.lock().unwrap_or_else(PoisonError::into_inner);
            units.insert(unit);
        }
    }

    /// Returns the noted units, ascending.
    pub(crate) fn units(&self) -> Vec<u32> {
        let units = self.units.lock().unwrap_or_else(PoisonError::into_inner);
        units.iter().copied().collect()
    }
}

/// Returns the processing unit that the calling thread runs on, by the operating system's index.
#[cfg(target_os = "linux")]
fn current_unit() -> Option<u32> {
    u32::try_from(rustix::thread::sched_getcpu()).ok()
}

#[cfg(not(target_os = "linux"))]
fn current_unit() -> Option<u32> {
    None
}

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
    use crate::Topology;

    #[test]
    fn columns_lie_in_the_domains_of_their_threads() {
        let cores = Topology::from_synthetic("pack:2 [numa] core:3 pu:1")
            .unwrap()
            .cores();
        assert_eq!(columns_by_domain(&cores[1..5], 10), [(0..6, 0), (6..10, 1)]);
        assert_eq!(columns_by_domain(&cores[..2], 5), [(0..5, 0)]);
        assert_eq!(columns_by_domain(&cores, 0), [(0..0, 0), (0..0, 1)]);
        let back: Vec<_> = [0, 5, 1].map(|i| cores[i].clone()).into();
        assert_eq!(
            columns_by_domain(&back, 3),
            [(0..1, 0), (1..2, 1), (2..3, 0)]
        );
    }

    #[test]
    fn a_thread_is_seen_where_it_runs() {
        let seen = Seen::default();
        seen.note_unit();
        assert_eq!(seen.units().len(), usize::from(cfg!(target_os = "linux")));
    }
}
