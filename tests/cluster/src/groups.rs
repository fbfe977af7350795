//! The control groups of a cluster: one for its keeper and one for each host.
//!
//! A host's group holds every process of the host and enforces its CPU quota. The processes are found by it when the
//! cluster goes. The groups lie at the top of the hierarchy, where every session of this machine finds them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

use crate::error::{ClusterError, During};

/// Period of a quota in microseconds. It is short, so that a host with a quarter of a core stands still for 7.5 ms at a
/// time and not for 75.
const PERIOD_US: f64 = 1e4;
/// Period of very small quotas: the kernel enforces no share of a period below 1 ms.
const LONG_PERIOD_US: f64 = 1e5;
/// The file of a group's weight in versions 1 and 2, the default weight, and the largest.
const WEIGHTS: [(&str, usize, usize); 2] =
    [("cpu.shares", 1024, 262_144), ("cpu.weight", 100, 10_000)];
/// Group of the keeper.
pub(crate) const SWITCH: &str = "switch";
/// Longest wait for the end of killed processes.
const PATIENCE: Duration = Duration::from_secs(20);

/// The control groups of one cluster.
#[derive(Debug)]
pub(crate) struct Groups {
    mount: PathBuf,
    version: u32,
    top: PathBuf,
}

impl Groups {
    /// Finds the place of the groups of cluster `name`, which need not exist.
    pub(crate) fn of_cluster(name: &str) -> Result<Self, ClusterError> {
        let path = "/proc/self/mountinfo";
        let mounts = fs::read_to_string(path).during(path)?;
        let (mount, version) = find_hierarchy(&mounts).ok_or_else(|| {
            ClusterError::Missing("no control groups are mounted that limit CPU time".to_owned())
        })?;
        Ok(Self::below_mount(mount, version, name))
    }

    fn below_mount(mount: PathBuf, version: u32, name: &str) -> Self {
        let top = mount.join(format!("isochron-cluster-{name}"));
        Self { mount, version, top }
    }

    /// Makes the group of all others: the process that succeeds owns the cluster's name.
    ///
    /// # Errors
    /// Returns [`ClusterError::Missing`] if the system refuses; [`ClusterError::UpAlready`] if the group exists.
    pub(crate) fn claim(&self, name: &str) -> Result<(), ClusterError> {
        fs::create_dir(&self.top).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => ClusterError::UpAlready(name.to_owned()),
            _ => missing_error("control groups cannot be made")(error),
        })
    }

    /// Makes the groups of the keeper and of `hosts`, with their CPU quotas in cores.
    ///
    /// # Errors
    /// Returns [`ClusterError::Missing`] if the system refuses.
    pub(crate) fn create(&self, hosts: &[(String, Option<f64>)]) -> Result<(), ClusterError> {
        if hosts.iter().any(|(_, quota)| quota.is_some()) {
            self.hand_down_controller()?;
        }
        let switch = self.make_group(SWITCH)?;
        let (file, usual, most) = WEIGHTS[usize::from(self.version == 2)];
        // Each host weighs as much as any group of the machine; the switch must not wait for the hosts that it serves.
        // Without the controller they compete as ordinary processes.
        let all = (usual * hosts.len()).min(most);
        let _ = fs::write(self.top.join(file), all.to_string());
        let _ = fs::write(switch.join(file), most.to_string());
        for (host, quota) in hosts {
            let folder = self.make_group(host)?;
            if quota.is_some() {
                self.set_quota(&folder, *quota)?;
            }
        }
        Ok(())
    }

    /// Changes the CPU quota of a host, in cores; `None` takes it away.
    ///
    /// # Errors
    /// Returns [`ClusterError::Missing`] if the system refuses.
    pub(crate) fn change_quota(&self, host: &str, quota: Option<f64>) -> Result<(), ClusterError> {
        self.hand_down_controller()?;
        self.set_quota(&self.top.join(host), quota)
    }

    /// Lets the groups of hosts limit CPU time.
    fn hand_down_controller(&self) -> Result<(), ClusterError> {
        if self.version == 1 {
            return Ok(());
        }
        for folder in [&self.mount, &self.top] {
            fs::write(folder.join("cgroup.subtree_control"), "+cpu")
                .map_err(missing_error("CPU quotas need control over CPU time"))?;
        }
        Ok(())
    }

    fn make_group(&self, name: &str) -> Result<PathBuf, ClusterError> {
        let folder = self.top.join(name);
        fs::create_dir(&folder).map_err(missing_error("control groups cannot be made"))?;
        Ok(folder)
    }

    fn set_quota(&self, folder: &Path, cores: Option<f64>) -> Result<(), ClusterError> {
        let period = match cores {
            Some(cores) if cores < 0.1 => LONG_PERIOD_US,
            _ => PERIOD_US,
        };
        let unlimited = if self.version == 2 { "max" } else { "-1" };
        let quota =
            cores.map_or(unlimited.to_owned(), |cores| (cores * period).round().to_string());
        let files = match self.version {
            2 => vec![("cpu.max", format!("{quota} {period}"))],
            _ => vec![("cpu.cfs_period_us", period.to_string()), ("cpu.cfs_quota_us", quota)],
        };
        for (file, text) in files {
            fs::write(folder.join(file), text)
                .map_err(missing_error("CPU quotas cannot be set"))?;
        }
        Ok(())
    }

    /// Moves this process into the group `which`; its children will be there too.
    pub(crate) fn join(&self, which: &str) -> Result<(), ClusterError> {
        join_group(&self.top.join(which))
    }

    /// Moves this process out of the cluster's groups.
    pub(crate) fn leave(&self) -> Result<(), ClusterError> {
        join_group(&self.mount)
    }

    /// Returns the keeper's process; `None` if it is dead.
    pub(crate) fn find_keeper(&self) -> Option<Pid> {
        list_processes(&self.top.join(SWITCH)).first().copied()
    }

    /// Returns `true` if the keeper lives.
    pub(crate) fn has_keeper(&self) -> bool {
        self.find_keeper().is_some()
    }

    /// Returns `true` if there is anything of the cluster.
    pub(crate) fn exist(&self) -> bool {
        self.top.exists()
    }

    /// Counts the processes of a host.
    pub(crate) fn n_processes(&self, host: &str) -> usize {
        list_processes(&self.top.join(host)).len()
    }

    /// Stops every process of a host, except `holder`, and waits until they stand still.
    ///
    /// # Errors
    /// Returns [`ClusterError::System`] if a process cannot be stopped.
    pub(crate) fn stop(&self, host: &str, holder: Option<Pid>) -> Result<(), ClusterError> {
        let folder = self.top.join(host);
        let mut stopped: Vec<Pid> = Vec::new();
        // One that was not stopped yet may have started another.
        loop {
            let mut left = list_processes(&folder);
            left.retain(|pid| !stopped.contains(pid) && Some(*pid) != holder);
            if left.is_empty() {
                break;
            }
            for pid in left {
                match kill_process(pid, Signal::STOP) {
                    // It has ended meanwhile.
                    Err(Errno::SRCH) => {}
                    outcome => outcome.during(format_args!("process {pid}"))?,
                }
                stopped.push(pid);
            }
        }
        // The signal works at the next moment of each process.
        while stopped.iter().any(|pid| runs(*pid)) {
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Ends every process in the groups, except this one, and removes the groups.
    ///
    /// # Errors
    /// Returns [`ClusterError::System`] if a process cannot be ended, or a group not be removed.
    pub(crate) fn remove(&self) -> Result<(), ClusterError> {
        let start = Instant::now();
        loop {
            let left: Vec<_> =
                list_folders(&self.top).iter().flat_map(|f| list_processes(f)).collect();
            for pid in &left {
                // It may have ended meanwhile.
                let _ = kill_process(*pid, Signal::KILL);
            }
            match remove_folders(&self.top) {
                Ok(()) => return Ok(()),
                Err(error) if start.elapsed() > PATIENCE => {
                    let list: Vec<_> = left.iter().map(|pid| pid.to_string()).collect();
                    let what = format!("{}, with processes {}", self.top.display(), list.join(" "));
                    return Err(error).during(what);
                }
                // A group is busy until the kernel has removed the last of its killed processes.
                Err(_) => std::thread::sleep(Duration::from_millis(2)),
            }
        }
    }
}

/// Turns a refusal of the system into the error that the machine cannot emulate hosts.
fn missing_error(what: &str) -> impl Fn(io::Error) -> ClusterError {
    move |error| ClusterError::Missing(format!("{what} ({error})"))
}

fn join_group(folder: &Path) -> Result<(), ClusterError> {
    let file = folder.join("cgroup.procs");
    fs::write(&file, std::process::id().to_string()).during(file.display())
}

/// Lists the processes directly in a group, without this one.
fn list_processes(folder: &Path) -> Vec<Pid> {
    fs::read_to_string(folder.join("cgroup.procs"))
        .unwrap_or_default()
        .lines()
        .filter_map(|line| line.parse().ok())
        .filter_map(Pid::from_raw)
        .filter(|pid| *pid != rustix::process::getpid())
        .collect()
}

/// Returns `true` unless the process is stopped or has ended.
fn runs(pid: Pid) -> bool {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name before it may hold brackets.
    let state = text.rsplit(") ").next().and_then(|rest| rest.chars().next());
    state.is_some_and(|state| !"TtZX".contains(state))
}

/// Lists a folder and all below it, the deepest first.
fn list_folders(top: &Path) -> Vec<PathBuf> {
    let mut all: Vec<_> = fs::read_dir(top)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .flat_map(|entry| list_folders(&entry.path()))
        .collect();
    all.push(top.to_owned());
    all
}

/// Removes the folders of control groups; their files go with them.
fn remove_folders(top: &Path) -> io::Result<()> {
    for folder in list_folders(top) {
        match fs::remove_dir(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Finds the mount point and the version of the control groups that limit CPU time in the contents of `mountinfo`. It
/// is version 1 if its controller is mounted, because version 2 cannot have the controller then.
fn find_hierarchy(mountinfo: &str) -> Option<(PathBuf, u32)> {
    mountinfo.lines().filter_map(read_mount).min_by_key(|(_, version)| *version)
}

/// Reads the mount point and the version of control groups that can limit CPU time from a line of `mountinfo`.
fn read_mount(line: &str) -> Option<(PathBuf, u32)> {
    // `36 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu`
    let (left, right) = line.split_once(" - ")?;
    let mut right = right.split(' ');
    let version = match (right.next()?, right.nth(1)?) {
        ("cgroup", options) if options.split(',').any(|option| option == "cpu") => 1,
        ("cgroup2", _) => 2,
        _ => return None,
    };
    let mount = left.split(' ').nth(4)?;
    Some((PathBuf::from(mount), version))
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = "\
24 1 0:22 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
25 1 0:23 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset
26 1 0:24 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct
";
    const V2: &str = "\
22 1 0:20 / /proc rw - proc proc rw
24 1 0:22 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate
";

    #[test]
    fn both_versions_are_found() {
        let cpu = PathBuf::from("/sys/fs/cgroup/cpu,cpuacct");
        assert_eq!(find_hierarchy(V1), Some((cpu, 1)));
        assert_eq!(find_hierarchy(V2), Some((PathBuf::from("/sys/fs/cgroup"), 2)));
        assert_eq!(find_hierarchy("22 1 0:20 / /proc rw - proc proc rw\n"), None);
    }

    /// Checks the contents of files below the top group; of `None` that there is no such file.
    fn check_files(groups: &Groups, files: &[(&str, Option<&str>)]) {
        for (file, text) in files {
            let found = fs::read_to_string(groups.top.join(file)).ok();
            assert_eq!(found.as_deref(), *text, "{file}");
        }
    }

    fn created(version: u32) -> (tempfile::TempDir, Groups) {
        let folder = tempfile::tempdir().unwrap();
        let groups = Groups::below_mount(folder.path().to_owned(), version, "x");
        let hosts = [("iso-1", None), ("iso-2", Some(0.25)), ("iso-3", Some(0.05))];
        let hosts = hosts.map(|(name, quota)| (name.to_owned(), quota));
        groups.claim("x").unwrap();
        groups.create(&hosts).unwrap();
        (folder, groups)
    }

    #[test]
    fn version_1_takes_quotas_as_two_files_and_version_2_as_one_line() {
        let (_folder, groups) = created(1);
        let files = [
            ("iso-2/cpu.cfs_period_us", Some("10000")),
            ("iso-2/cpu.cfs_quota_us", Some("2500")),
            ("iso-3/cpu.cfs_period_us", Some("100000")),
            ("iso-3/cpu.cfs_quota_us", Some("5000")),
            ("switch/cpu.shares", Some("262144")),
            ("cpu.shares", Some("3072")),
            ("iso-1/cpu.cfs_quota_us", None),
            ("../cgroup.subtree_control", None),
        ];
        check_files(&groups, &files);
        let (_folder, groups) = created(2);
        let files = [
            ("iso-2/cpu.max", Some("2500 10000")),
            ("cgroup.subtree_control", Some("+cpu")),
            ("../cgroup.subtree_control", Some("+cpu")),
            ("switch/cpu.weight", Some("10000")),
            ("iso-1/cpu.max", None),
        ];
        check_files(&groups, &files);
    }

    #[test]
    fn a_quota_changes_and_goes() {
        let (_folder, groups) = created(1);
        groups.change_quota("iso-3", Some(0.5)).unwrap();
        groups.change_quota("iso-2", None).unwrap();
        let files = [
            ("iso-3/cpu.cfs_period_us", Some("10000")),
            ("iso-3/cpu.cfs_quota_us", Some("5000")),
            ("iso-2/cpu.cfs_quota_us", Some("-1")),
        ];
        check_files(&groups, &files);
        let (_folder, groups) = created(2);
        groups.change_quota("iso-1", Some(0.125)).unwrap();
        groups.change_quota("iso-2", None).unwrap();
        let files = [("iso-1/cpu.max", Some("1250 10000")), ("iso-2/cpu.max", Some("max 10000"))];
        check_files(&groups, &files);
        assert!(groups.change_quota("iso-9", None).is_err());
    }

    #[test]
    fn groups_that_are_there_are_not_taken_over() {
        let (_folder, groups) = created(1);
        assert!(matches!(groups.claim("x"), Err(ClusterError::UpAlready(_))));
    }
}
