//! The CPU time that the control groups of this process grant it: the quota of a container.

use std::fs;
use std::path::Path;

use crate::cgroup::find_groups;

/// Returns the CPU quota of this process in cores, such as 2.5 (two and a half seconds of CPU time a second); `None`
/// without a quota. It is the least over all control groups of the process (versions 1 and 2, every level up to the
/// root).
///
/// A quota is no set of cores: the threads may run on every allowed core. Once they have used up their common time, the
/// kernel stops them all until the next period.
pub fn cpu_quota_cores() -> Option<f64> {
    quota_below(Path::new("/"))
}

/// Returns the quota on a file system with this root.
fn quota_below(root: &Path) -> Option<f64> {
    find_groups(root, "cpu")
        .into_iter()
        .filter_map(|(folder, version)| folder_quota(&folder, version))
        .reduce(f64::min)
}

/// Returns the quota of the group in a folder.
fn folder_quota(folder: &Path, version: u32) -> Option<f64> {
    if version == 2 {
        // `max 100000` without a quota.
        let text = fs::read_to_string(folder.join("cpu.max")).ok()?;
        let (quota, period) = text.trim().split_once(' ')?;
        return parse_ratio(quota, period);
    }
    // -1 without a quota.
    let quota = fs::read_to_string(folder.join("cpu.cfs_quota_us")).ok()?;
    let period = fs::read_to_string(folder.join("cpu.cfs_period_us")).ok()?;
    parse_ratio(&quota, &period)
}

fn parse_ratio(quota_us: &str, period_us: &str) -> Option<f64> {
    let quota_us: f64 = quota_us.trim().parse().ok()?;
    let period_us: f64 = period_us.trim().parse().ok()?;
    (quota_us > 0.0 && period_us > 0.0).then(|| quota_us / period_us)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::make_tree;

    #[test]
    fn version_2_counts_every_level() {
        let mounts = "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
        let root = make_tree(&[
            ("proc/self/cgroup", "0::/pod/box\n"),
            ("proc/self/mountinfo", mounts),
            ("sys/fs/cgroup/pod/box/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/pod/cpu.max", "250000 100000\n"),
        ]);
        assert_eq!(quota_below(root.path()), Some(2.5));
    }

    #[test]
    fn version_1_has_two_files() {
        let mounts = "35 31 0:32 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
        for (quota, cores) in [("50000\n", Some(0.5)), ("-1\n", None)] {
            let root = make_tree(&[
                ("proc/self/cgroup", "5:cpu:/job\n4:memory:/job\n"),
                ("proc/self/mountinfo", mounts),
                ("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", quota),
                ("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n"),
            ]);
            assert_eq!(quota_below(root.path()), cores);
        }
    }

    #[test]
    fn no_control_groups_no_quota() {
        assert_eq!(quota_below(make_tree(&[]).path()), None);
        let garbage = make_tree(&[
            ("proc/self/cgroup", "0::/\n"),
            ("proc/self/mountinfo", "1 2 3 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
            ("sys/fs/cgroup/cpu.max", "?"),
        ]);
        assert_eq!(quota_below(garbage.path()), None);
    }
}
