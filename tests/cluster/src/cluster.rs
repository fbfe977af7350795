//! A cluster as a value.

use std::ffi::OsStr;
use std::io::BufReader;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::Pid;

use crate::error::{ClusterError, During};
use crate::groups::Groups;
use crate::keeper::expect_line;
use crate::launch::MpiLauncher;
use crate::link::not_started;
use crate::spec::{Spec, validate_name};
use crate::state::{ClusterState, cluster_folder, list_names, remove_folder};
use crate::units::Quota;

/// A cluster that is up.
///
/// A cluster that this process has [brought up](EmulatedCluster::bring_up) is taken down when the value is dropped,
/// also by a panic, and when the process is killed.
#[derive(Debug)]
pub struct EmulatedCluster {
    program: PathBuf,
    state: ClusterState,
    keeper: Option<Child>,
}

impl EmulatedCluster {
    /// Brings a cluster up that ends with this value. `program` is the command `isochron-cluster`.
    ///
    /// If the keeper of a cluster of the same name was killed, its remains are removed first.
    ///
    /// # Errors
    /// Returns [`ClusterError::Missing`] if this machine, or this user, cannot emulate hosts;
    /// [`ClusterError::UpAlready`] if there is one of this name; [`ClusterError::Value`] if `spec` is wrong.
    pub fn bring_up(program: &Path, spec: &Spec) -> Result<Self, ClusterError> {
        Self::start(program, spec, true)
    }

    /// Brings a cluster up for a test; `None` if the machine, or the user, cannot have one. The test is then to be
    /// skipped, for the printed reason.
    ///
    /// # Panics
    /// If the cluster cannot be brought up for any other reason; with `ISOCHRON_REQUIRE_CLUSTER=1` for any reason at
    /// all.
    #[allow(clippy::print_stderr, reason = "a test that is skipped says why")]
    pub fn bring_up_for_test(program: &Path, spec: &Spec) -> Option<Self> {
        let is_required = std::env::var("ISOCHRON_REQUIRE_CLUSTER").is_ok_and(|value| value == "1");
        match Self::bring_up(program, spec) {
            Ok(cluster) => Some(cluster),
            Err(error @ ClusterError::Missing(_)) if !is_required => {
                eprintln!("skipped: {error}");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Brings a cluster up that stays until [`take_down`] removes it. `program` is the command `isochron-cluster`.
    ///
    /// # Errors
    /// Returns the errors of [`bring_up`](Self::bring_up).
    pub fn bring_up_detached(program: &Path, spec: &Spec) -> Result<Self, ClusterError> {
        let mut cluster = Self::start(program, spec, false)?;
        cluster.keeper = None;
        Ok(cluster)
    }

    /// Finds the cluster called `name`, which another process has brought up.
    ///
    /// # Errors
    /// Returns [`ClusterError::NotUp`] if there is none, or its keeper was killed.
    pub fn find(program: &Path, name: &str) -> Result<Self, ClusterError> {
        validate_name(name)?;
        let state = ClusterState::read(name)?;
        if !Groups::of_cluster(name)?.has_keeper() {
            return Err(ClusterError::NotUp(name.to_owned()));
        }
        Ok(Self { program: program.to_owned(), state, keeper: None })
    }

    fn start(program: &Path, spec: &Spec, tied: bool) -> Result<Self, ClusterError> {
        spec.validate()?;
        check_machine()?;
        let groups = Groups::of_cluster(&spec.name)?;
        if groups.has_keeper() {
            return Err(ClusterError::UpAlready(spec.name.clone()));
        }
        remove_remains(&spec.name)?;
        let text = serde_json::to_string(spec).during("the cluster")?;
        let mut command = Command::new(program);
        command.args(["keep", &text]);
        if tied {
            command.arg("--tied").stdin(Stdio::piped());
        } else {
            command.stdin(Stdio::null());
        }
        // In a separate process group an interrupt at the terminal does not reach it.
        command.stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
        let mut keeper = command.spawn().during(program.display())?;
        let outcome = match keeper.stdout.take() {
            Some(output) => expect_line("ready", &mut BufReader::new(output)),
            None => expect_line("ready", &mut std::io::empty()),
        };
        match outcome.and_then(|()| ClusterState::read(&spec.name)) {
            Ok(state) => Ok(Self { program: program.to_owned(), state, keeper: Some(keeper) }),
            Err(error) => {
                // It removes its remains and ends.
                let _ = keeper.wait();
                Err(error)
            }
        }
    }

    /// Returns the state of the cluster.
    pub fn state(&self) -> &ClusterState {
        &self.state
    }

    /// Counts the processes on each host, without the one that holds it.
    ///
    /// # Errors
    /// Returns [`ClusterError::Missing`] if there are no control groups.
    pub fn n_processes(&self) -> Result<Vec<usize>, ClusterError> {
        let groups = Groups::of_cluster(&self.state.spec.name)?;
        Ok(self
            .state
            .hosts
            .iter()
            .map(|host| groups.n_processes(&host.name).saturating_sub(1))
            .collect())
    }

    /// Changes the CPU quota of a host. Programs on it get more or less CPU time from now on.
    ///
    /// # Errors
    /// Returns [`ClusterError::Value`] if there is no such host; [`ClusterError::Missing`] if the system refuses.
    pub fn change_quota(&mut self, host: &str, quota: Quota) -> Result<(), ClusterError> {
        let idx = self.state.find_host(host)?;
        let spec = &mut self.state.spec;
        Groups::of_cluster(&spec.name)?.change_quota(host, quota.cores())?;
        spec.change_quota(idx, quota);
        self.state.write()
    }

    /// Stops every process of a host. Its network still answers, as that of a host whose processes hang.
    ///
    /// # Errors
    /// Returns [`ClusterError::Value`] if there is no such host.
    pub fn stop_host(&self, host: &str) -> Result<(), ClusterError> {
        let holder = self.state.host(host)?.pid;
        let holder = Pid::from_raw(holder.cast_signed());
        Groups::of_cluster(&self.state.spec.name)?.stop(host, holder)
    }

    /// Cuts the link of a host for good: whatever is sent to it or from it is lost, and no sender is told.
    ///
    /// # Errors
    /// Returns [`ClusterError::Value`] if there is no such host, or if the cluster has a latency: its switch has no
    /// such port.
    pub fn cut_link(&self, host: &str) -> Result<(), ClusterError> {
        self.state.host(host)?;
        let name = &self.state.spec.name;
        if self.state.spec.latency.ns() > 0 {
            let reason = "links with a latency cannot be cut";
            return Err(ClusterError::value("host", host, reason));
        }
        let mut command = Command::new(&self.program);
        command.args(["cut", "--name", name, host]);
        let output = command.output().during(self.program.display())?;
        if output.status.success() {
            return Ok(());
        }
        Err(ClusterError::Program {
            what: format!("the cut of the link of {host}"),
            message: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        })
    }

    /// Makes a command that runs `words`, a program and its arguments, on a host.
    ///
    /// # Errors
    /// Returns [`ClusterError::Value`] if there is no such host.
    pub fn command<W: AsRef<OsStr>>(
        &self,
        host: &str,
        words: impl IntoIterator<Item = W>,
    ) -> Result<Command, ClusterError> {
        self.state.host(host)?;
        let mut command = Command::new(&self.program);
        command.args(["exec", "--name", &self.state.spec.name, host, "--"]);
        command.args(words);
        Ok(command)
    }

    /// Makes a command that starts `ranks[idx]` ranks on each host, numbered host by host. The caller adds the program
    /// and its arguments.
    ///
    /// # Errors
    /// Returns [`ClusterError::Value`] if there is not one number for each host, or no rank at all.
    pub fn mpirun_command(
        &self,
        launcher: &MpiLauncher,
        ranks: &[usize],
    ) -> Result<Command, ClusterError> {
        let n_hosts = self.state.hosts.len();
        let reason = if ranks.len() != n_hosts {
            Some(format!("give one number for each of the {n_hosts} hosts"))
        } else if ranks.iter().all(|ranks| *ranks == 0) {
            Some("there must be one at least".to_owned())
        } else {
            None
        };
        if let Some(reason) = reason {
            let numbers: Vec<_> = ranks.iter().map(usize::to_string).collect();
            return Err(ClusterError::value("ranks", numbers.join(","), &reason));
        }
        let names: Vec<_> = self.state.hosts.iter().map(|host| host.name.clone()).collect();
        self.command(&names[0], launcher.command_words(&names, ranks))
    }

    /// Deals `total` ranks to the hosts, as evenly as whole numbers allow.
    pub fn deal_ranks(&self, total: usize) -> Vec<usize> {
        let n_hosts = self.state.hosts.len();
        let more = total % n_hosts;
        (0..n_hosts).map(|idx| total / n_hosts + usize::from(idx < more)).collect()
    }

    /// Kills the process that holds the hosts, as the system may if memory runs out; for tests of the consequences.
    ///
    /// # Errors
    /// Returns [`ClusterError::NotUp`] if this process has not brought the cluster up.
    pub fn kill_keeper(&mut self) -> Result<(), ClusterError> {
        let name = &self.state.spec.name;
        let keeper = self.keeper.as_mut().ok_or_else(|| ClusterError::NotUp(name.clone()))?;
        keeper.kill().and_then(|()| keeper.wait()).map(drop).during("the keeper")
    }

    /// Returns the path of the command `isochron-cluster`.
    pub(crate) fn program(&self) -> &Path {
        &self.program
    }
}

impl Drop for EmulatedCluster {
    fn drop(&mut self) {
        if let Some(keeper) = &mut self.keeper {
            let name = &self.state.spec.name;
            // If the keeper was killed, there may be another cluster of this name by now.
            if ClusterState::read(name).is_ok_and(|state| state.hosts == self.state.hosts) {
                // On failure the keeper tries again when its standard input ends with this value.
                let _ = remove_remains(name);
            }
            let _ = keeper.wait();
        }
    }
}

/// Takes the cluster called `name` down with every process on its hosts; returns `true` if there was anything of it.
///
/// # Errors
/// Returns [`ClusterError::System`] if something of it cannot be removed.
pub fn take_down(name: &str) -> Result<bool, ClusterError> {
    validate_name(name)?;
    let existed = cluster_folder(name).exists()
        || Groups::of_cluster(name).is_ok_and(|groups| groups.exist());
    if existed {
        check_root()?;
        remove_remains(name)?;
    }
    Ok(existed)
}

/// Returns the names of the clusters of this machine, also of clusters with a killed keeper.
pub fn cluster_names() -> Vec<String> {
    list_names()
}

/// Removes everything of a cluster.
pub(crate) fn remove_remains(name: &str) -> Result<(), ClusterError> {
    let groups = Groups::of_cluster(name)?;
    if groups.exist() {
        groups.remove()?;
    }
    remove_folder(name)
}

/// Checks that this user and this machine can have a cluster.
fn check_machine() -> Result<(), ClusterError> {
    check_root()?;
    for program in ["ip", "tc"] {
        let mut command = Command::new(program);
        command.arg("-Version").stdout(Stdio::null()).stderr(Stdio::null());
        command.status().map_err(|error| not_started(program, &error))?;
    }
    Ok(())
}

fn check_root() -> Result<(), ClusterError> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    Err(ClusterError::Missing(
        "namespaces, network cards and control groups are root's: run this as root".to_owned(),
    ))
}
