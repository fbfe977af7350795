//! The memory that this process can still allocate.
//!
//! It is the smallest of three bounds:
//! * the memory that the kernel could grant without swapping (`MemAvailable`);
//! * the rest under the limits of the process's memory control groups (versions 1 and 2, every level up to the root);
//! * the rest under the limit on its address space.
//!
//! Without the last two, a batch system would kill a job for a plan that seemed to fit.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

use isochron_base::cgroup::find_groups;

/// The processes that a bound on memory holds for together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum MemoryScope {
    /// All of the host.
    Host,
    /// The processes of the control group whose folder has this device and inode.
    Group(u64, u64),
    /// This process alone.
    Process,
}

/// The bytes that the processes of a scope can still allocate together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryBound {
    /// Those processes.
    pub scope: MemoryScope,
    /// The bytes.
    pub bytes: u64,
}

/// Returns the bytes that this process can still allocate; `None` if the system does not tell (other than Linux).
pub fn memory_available_bytes() -> Option<u64> {
    available_below(Path::new("/"))
}

/// Returns every bound on the memory of this process; none if the system does not tell (other than Linux).
pub fn memory_bounds() -> Vec<MemoryBound> {
    bounds_below(Path::new("/"))
}

/// Returns `true` if memory that is reserved and never written counts against no limit: neither one on the address space, nor
/// that of a kernel which promises no more memory than it has (`vm.overcommit_memory` 2).
pub fn is_unwritten_memory_free() -> bool {
    is_unwritten_free_below(Path::new("/"))
}

/// Returns the memory of the host in bytes as the kernel counts it; `None` if the system does not tell.
pub(crate) fn memory_installed_bytes() -> Option<u64> {
    field_kib(&fs::read_to_string("/proc/meminfo").ok()?, "MemTotal:")
}

/// Returns the bytes available on a file system with this root.
fn available_below(root: &Path) -> Option<u64> {
    bounds_below(root).into_iter().map(|bound| bound.bytes).min()
}

/// Returns the bounds on a file system with this root.
fn bounds_below(root: &Path) -> Vec<MemoryBound> {
    let read = |path| fs::read_to_string(root.join(path)).unwrap_or_default();
    let meminfo = read("proc/meminfo");
    let address_space = free_address_space(&read("proc/self/limits"), || read("proc/self/status"));
    let host = field_kib(&meminfo, "MemAvailable:").map(|bytes| (MemoryScope::Host, bytes));
    let own = address_space.map(|bytes| (MemoryScope::Process, bytes));
    let installed = field_kib(&meminfo, "MemTotal:").unwrap_or(u64::MAX);
    let groups = find_groups(root, "memory").into_iter();
    let groups = groups.filter_map(|(folder, version)| {
        let found = fs::metadata(&folder).ok()?;
        let scope = MemoryScope::Group(found.dev(), found.ino());
        Some((scope, free_in_group(&folder, version, installed)?))
    });
    host.into_iter()
        .chain(own)
        .chain(groups)
        .map(|(scope, bytes)| MemoryBound { scope, bytes })
        .collect()
}

/// Returns [`is_unwritten_memory_free`] for a file system with this root.
fn is_unwritten_free_below(root: &Path) -> bool {
    let policy = fs::read_to_string(root.join("proc/sys/vm/overcommit_memory"));
    let is_strict = policy.is_ok_and(|policy| policy.trim() == "2");
    let mut bounds = bounds_below(root).into_iter();
    !is_strict && bounds.all(|bound| bound.scope != MemoryScope::Process)
}

/// Returns the value of a line such as `MemAvailable:   24321568 kB`, in bytes.
fn field_kib(text: &str, key: &str) -> Option<u64> {
    let kib: u64 = text
        .lines()
        .find_map(|line| line.strip_prefix(key))?
        .split_whitespace()
        .next()?
        .parse()
        .ok()?;
    kib.checked_mul(1024)
}

/// Returns the bytes left under the soft limit on the address space; `None` without a limit.
fn free_address_space(limits: &str, status: impl FnOnce() -> String) -> Option<u64> {
    let limit: u64 = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max address space"))?
        .split_whitespace()
        .next()?
        .parse()
        .ok()?;
    Some(limit.saturating_sub(field_kib(&status(), "VmSize:")?))
}

/// Returns the bytes that the control group in a folder leaves; `None` if its limit is not below the `installed` memory.
fn free_in_group(folder: &Path, version: u32, installed: u64) -> Option<u64> {
    let (limit, usage, reclaimable) = match version {
        2 => ("memory.max", "memory.current", "inactive_file "),
        _ => ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "),
    };
    let read = |name: &str| fs::read_to_string(folder.join(name)).ok()?.trim().parse::<u64>().ok();
    // Without a limit version 2 writes `max`, and version 1 a number near 2^63. The other files are slow to read: the
    // system counts when it is asked.
    let limit = read(limit).filter(|&limit| limit < installed)?;
    let usage = read(usage)?;
    // The line of the page cache that the kernel drops first.
    let reclaimable = fs::read_to_string(folder.join("memory.stat"))
        .unwrap_or_default()
        .lines()
        .find_map(|line| line.strip_prefix(reclaimable)?.trim().parse().ok())
        .unwrap_or(0);
    Some(limit.saturating_sub(usage.saturating_sub(reclaimable)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::make_tree;

    const MEMINFO: (&str, &str) =
        ("proc/meminfo", "MemTotal:       24684096 kB\nMemFree:  1 kB\nMemAvailable:   1000 kB\n");

    #[test]
    fn the_kernel_alone() {
        let root = make_tree(&[MEMINFO]);
        assert_eq!(available_below(root.path()), Some(1_024_000));
        assert_eq!(available_below(make_tree(&[]).path()), None);
    }

    #[test]
    fn a_limit_on_the_address_space_counts() {
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax address space         1000000    unlimited   bytes\n";
        let root = make_tree(&[
            MEMINFO,
            ("proc/self/limits", limits),
            ("proc/self/status", "Name:\tx\nVmSize:\t     500 kB\n"),
        ]);
        assert_eq!(available_below(root.path()), Some(1_000_000 - 512_000));
        assert_eq!(bounds_below(root.path())[1].scope, MemoryScope::Process);
        assert!(!is_unwritten_free_below(root.path()));
        assert_eq!(
            free_address_space("Max address space  unlimited unlimited bytes", String::new),
            None
        );
    }

    #[test]
    fn unwritten_memory_counts_where_the_kernel_promises_no_more_than_it_has() {
        for (policy, is_free) in [("0\n", true), ("1\n", true), ("2\n", false)] {
            let root = make_tree(&[MEMINFO, ("proc/sys/vm/overcommit_memory", policy)]);
            assert_eq!(is_unwritten_free_below(root.path()), is_free);
        }
        assert!(is_unwritten_free_below(make_tree(&[]).path()));
    }

    #[test]
    fn version_1_counts_without_the_reclaimable_cache() {
        let root = make_tree(&[
            MEMINFO,
            ("proc/self/cgroup", "5:cpu:/\n4:memory:/job/1\n0::/\n"),
            (
                "proc/self/mountinfo",
                "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n",
            ),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "0\n"),
            ("sys/fs/cgroup/memory/job/1/memory.limit_in_bytes", "5000\n"),
            ("sys/fs/cgroup/memory/job/1/memory.usage_in_bytes", "3000\n"),
            ("sys/fs/cgroup/memory/job/1/memory.stat", "cache 9\ntotal_inactive_file 700\n"),
        ]);
        assert_eq!(available_below(root.path()), Some(2700));
        // What has no limit bounds nothing.
        assert_eq!(bounds_below(root.path()).len(), 2);
    }

    #[test]
    fn version_2_counts_every_level() {
        let root = make_tree(&[
            MEMINFO,
            ("proc/self/cgroup", "0::/box/slurm/job/step\n"),
            (
                "proc/self/mountinfo",
                "41 31 0:38 /box /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n",
            ),
            ("sys/fs/cgroup/slurm/job/step/memory.max", "max\n"),
            ("sys/fs/cgroup/slurm/job/step/memory.current", "10\n"),
            ("sys/fs/cgroup/slurm/job/memory.max", "9000\n"),
            ("sys/fs/cgroup/slurm/job/memory.current", "10000\n"),
            ("sys/fs/cgroup/slurm/memory.max", "900000\n"),
            ("sys/fs/cgroup/slurm/memory.current", "0\n"),
        ]);
        assert_eq!(available_below(root.path()), Some(0));
        let bounds = bounds_below(root.path());
        assert_eq!((bounds.len(), &bounds[0].scope), (3, &MemoryScope::Host));
        assert!(bounds[1..].iter().all(|bound| matches!(bound.scope, MemoryScope::Group(..))));
        assert_ne!(bounds[1].scope, bounds[2].scope);
    }
}
