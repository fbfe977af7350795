//! The launch of ranks: `mpirun` and the way in which it finds the hosts.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::error::{ClusterError, During};
use crate::link::CARD;
use crate::state::cluster_folder;

/// MPI libraries whose launchers have the same options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MpiFamily {
    /// Open MPI.
    OpenMpi,
    /// MPICH, and libraries with its launcher.
    Mpich,
}

/// The launcher of an MPI library.
#[derive(Clone, Debug)]
pub struct MpiLauncher {
    /// The library.
    pub mpi: MpiFamily,
    /// Its `mpirun`.
    pub mpirun: PathBuf,
}

impl MpiLauncher {
    /// Returns the words of a command that starts `ranks[idx]` ranks on each of the hosts, host by host.
    pub(crate) fn command_words(&self, hosts: &[String], ranks: &[usize]) -> Vec<String> {
        let list: Vec<_> = hosts
            .iter()
            .zip(ranks)
            .filter(|(_, ranks)| **ranks > 0)
            .map(|(host, ranks)| format!("{host}:{ranks}"))
            .collect();
        let option = match self.mpi {
            MpiFamily::OpenMpi => "--host",
            MpiFamily::Mpich => "-hosts",
        };
        let n_ranks: usize = ranks.iter().sum();
        [
            self.mpirun.to_string_lossy().into_owned(),
            "-n".to_owned(),
            n_ranks.to_string(),
            option.to_owned(),
            list.join(","),
        ]
        .into()
    }
}

/// Returns the environment of every process on a host, in which a plain `mpirun --host iso-1,iso-2` works.
///
/// Ranks are unbound, because each pins its own threads. They may outnumber the cores, and then yield while they
/// wait. Between hosts they use TCP on the card of the cluster.
pub(crate) fn host_environment(name: &str) -> Vec<(&'static str, String)> {
    let agent = agent_file(name).display().to_string();
    let constant = [
        ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
        ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
        ("OMPI_MCA_plm_rsh_no_tree_spawn", "1"),
        ("OMPI_MCA_oob_tcp_if_include", CARD),
        ("OMPI_MCA_hwloc_base_binding_policy", "none"),
        ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
        ("OMPI_MCA_mpi_yield_when_idle", "1"),
        ("OMPI_MCA_pml", "ob1"),
        ("OMPI_MCA_btl", "self,vader,tcp"),
        ("OMPI_MCA_btl_tcp_if_include", CARD),
        // Open MPI 5 starts its daemons by PRRTE, with other names.
        ("PRTE_MCA_plm_ssh_no_tree_spawn", "1"),
        ("PRTE_MCA_prte_if_include", CARD),
        ("PRTE_MCA_hwloc_default_binding_policy", "none"),
        ("PRTE_MCA_rmaps_default_mapping_policy", "slot:oversubscribe"),
        ("HYDRA_LAUNCHER", "ssh"),
        ("HYDRA_IFACE", CARD),
    ];
    let constant = constant.map(|(variable, value)| (variable, value.to_owned()));
    let mut variables = Vec::from(constant);
    variables.extend([
        ("ISOCHRON_CLUSTER_NAME", name.to_owned()),
        ("OMPI_MCA_plm_rsh_agent", agent.clone()),
        ("PRTE_MCA_plm_ssh_agent", agent.clone()),
        ("HYDRA_LAUNCHER_EXEC", agent),
    ]);
    variables
}

/// Returns the path of the script that stands for ssh in cluster `name`.
fn agent_file(name: &str) -> PathBuf {
    cluster_folder(name).join("rsh")
}

/// Writes the script that stands for ssh: `rsh HOST COMMAND...`.
pub(crate) fn write_agent(name: &str, program: &Path) -> Result<(), ClusterError> {
    let file = agent_file(name);
    let program = program.display().to_string().replace('\'', r"'\''");
    let text = format!("#!/bin/sh\nexec '{program}' rsh --name '{name}' -- \"$@\"\n");
    fs::write(&file, text).during(file.display())?;
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(&file, mode).during(file.display())
}

/// Splits the words that a launcher gives to ssh, `[-x ...] HOST WORD...`, into the host and the command. As with ssh,
/// the words are joined and a shell reads them.
///
/// # Errors
/// Returns [`ClusterError::Value`] if there is no host.
pub fn split_remote(words: &[String]) -> Result<(&str, String), ClusterError> {
    let start = words.iter().position(|word| !word.starts_with('-'));
    match start.and_then(|start| words[start..].split_first()) {
        Some((host, command)) => Ok((host, command.join(" "))),
        None => Err(ClusterError::value("command", words.join(" "), "names no host")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn hosts_without_ranks_are_left_out() {
        let [open_mpi, mpich] = [MpiFamily::OpenMpi, MpiFamily::Mpich]
            .map(|mpi| MpiLauncher { mpi, mpirun: "mpirun".into() });
        let hosts = owned(&["iso-1", "iso-2", "iso-3"]);
        let words = open_mpi.command_words(&hosts, &[2, 0, 1]);
        assert_eq!(words, ["mpirun", "-n", "3", "--host", "iso-1:2,iso-3:1"]);
        let words = mpich.command_words(&hosts, &[1, 1, 1]);
        assert_eq!(words[3..], ["-hosts", "iso-1:1,iso-2:1,iso-3:1"]);
    }

    #[test]
    fn words_for_ssh_are_host_and_command() {
        let words = owned(&["-x", "iso-2", "PATH=/bin ;", "orted", "-mca", "x"]);
        let (host, command) = split_remote(&words).unwrap();
        assert_eq!((host, &*command), ("iso-2", "PATH=/bin ; orted -mca x"));
        assert!(split_remote(&owned(&["-x"])).is_err());
    }
}
