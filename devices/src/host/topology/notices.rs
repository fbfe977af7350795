//! Notices about an unusual host.

use super::Topology;
use std::path::Path;

/// The folder in which the kernel describes processors.
const SYS: &str = "sys/devices/system/cpu";

impl Topology {
    /// Returns the unusual properties of the host and their consequences, one line each: a CPU quota, an unreadable
    /// `/sys`, cores that this process may not use.
    pub fn notices(&self) -> Vec<String> {
        let mut notices = Vec::new();
        if !self.is_this_system() {
            notices.push(
                "another machine's topology: nothing of it can be bound to or measured".to_owned(),
            );
        } else {
            notices.extend(unreadable_sys(Path::new("/")));
        }
        let cores = self.cores().len();
        notices.extend(self.quota.and_then(|quota| quota_notice(quota, cores)));
        let all = self.all_cores();
        if cores < all {
            notices.push(format!(
                "{cores} of {all} cores: a control group or a mask (taskset, the launcher) keeps this process from the \
                 others"
            ));
        }
        notices
    }
}

fn quota_notice(quota: f64, cores: usize) -> Option<String> {
    let used = (quota as usize).max(1);
    if quota >= cores as f64 {
        return None;
    }
    let s = if used == 1 { "" } else { "s" };
    Some(format!(
        "CPU quota of {quota:.2} cores on {cores}: {used} core{s} will be used, without pinning; for steady speed give \
         the container its own cores (a cpuset)"
    ))
}

fn unreadable_sys(root: &Path) -> Option<String> {
    let reason = std::fs::read_dir(root.join(SYS)).err()?;
    Some(format!(
        "cannot read /{SYS} ({reason}): cores and caches are those that the processor reports; NUMA domains and the \
         places of GPUs are unknown"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::make_tree;

    #[test]
    fn a_quota_is_one_line_that_says_what_follows() {
        let line = quota_notice(2.5, 8).unwrap();
        assert!(line.contains("2.50 cores on 8") && line.contains("2 cores will"), "{line}");
        assert!(quota_notice(0.3, 8).unwrap().contains("1 core will"));
        assert_eq!(quota_notice(8.0, 8), None);
        assert!(!line.contains('\n'));
    }

    #[test]
    fn an_unreadable_sys_is_one_line() {
        let line = unreadable_sys(make_tree(&[]).path()).unwrap();
        assert!(line.contains("/sys/devices/system/cpu") && !line.contains('\n'), "{line}");
        assert_eq!(unreadable_sys(make_tree(&[(&format!("{SYS}/online"), "0\n")]).path()), None);
    }

    #[test]
    fn a_quota_limits_what_is_used_and_keeps_threads_unbound() {
        let mut topology = Topology::from_synthetic("core:4 pu:1").unwrap();
        assert_eq!(topology.affordable_cores().len(), 4);
        topology.quota = Some(2.9);
        assert_eq!(topology.affordable_cores().len(), 2);
        assert!(!topology.should_pin());
        topology.quota = Some(0.1);
        assert_eq!(topology.affordable_cores().len(), 1);
        assert_eq!(topology.notices().len(), 2);
    }
}
