//! An emulated host: a process that holds its namespaces, and entering them.

use std::fs::{self, File};
use std::io::{BufRead, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind, mount_change};
use rustix::thread::{CpuSet, LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

use crate::error::{ClusterError, During};
use crate::groups::Groups;
use crate::launch;
use crate::link;
use crate::spec::Spec;
use crate::state::{ClusterState, cluster_folder, network_of};
use crate::system;

/// The namespaces of a host, by their names under `/proc/PID/ns`, in the order of entry. That of the files comes last,
/// so that the others are found.
const NAMESPACES: [(&str, LinkNameSpaceType); 4] = [
    ("net", LinkNameSpaceType::Network),
    ("uts", LinkNameSpaceType::HostNameAndNISDomainName),
    ("ipc", LinkNameSpaceType::InterProcessCommunication),
    ("mnt", LinkNameSpaceType::Mount),
];

/// Becomes host `idx` (from 0) of the cluster. Its namespaces live as long as this process, which ends with its
/// standard input.
///
/// Says `made` when they exist, waits for a line, which means that its network card exists too, and then says `ready`.
///
/// # Errors
/// Returns [`ClusterError::Missing`] if the system refuses.
pub fn hold_host(spec: &Spec, idx: usize, mut say: impl FnMut(&str)) -> Result<(), ClusterError> {
    let name = host_name(idx);
    Groups::of_cluster(&spec.name)?.join(&name)?;
    make_namespaces(&name, &cluster_folder(&spec.name).join("hosts"))
        .map_err(|error| ClusterError::Missing(format!("namespaces cannot be made ({error})")))?;
    say("made");
    let mut input = std::io::stdin().lock();
    let mut line = String::new();
    if input.read_line(&mut line).during("standard input")? > 0 {
        link::set_up_card(&host_address(idx), spec)?;
        say("ready");
    }
    let _ = input.read_to_end(&mut Vec::new());
    Ok(())
}

fn make_namespaces(name: &str, hosts: &Path) -> Result<(), std::io::Error> {
    let all =
        [UnshareFlags::NEWNET, UnshareFlags::NEWUTS, UnshareFlags::NEWIPC, UnshareFlags::NEWNS];
    system::leave_namespaces(all.into_iter().collect())?;
    rustix::system::sethostname(name.as_bytes())?;
    // Mounts from here on are visible on this host only.
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    mount_bind(hosts, "/etc/hosts")?;
    // MPI libraries keep the shared memory of a host's ranks here, under names that do not tell hosts apart.
    if Path::new("/dev/shm").is_dir() {
        mount("tmpfs", "/dev/shm", "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, None)?;
    }
    Ok(())
}

/// Replaces this process by `program`, run on host `name` of the cluster in the folder of this process.
///
/// # Errors
/// Returns [`ClusterError::NotUp`] if the cluster is not up; others if the host cannot be entered or `program` not be
/// started.
pub fn enter_host(
    state: &ClusterState,
    name: &str,
    program: &str,
    args: &[String],
) -> ClusterError {
    match move_to_host(state, name) {
        Ok(()) => {
            let mut command = Command::new(program);
            command.args(args).envs(launch::host_environment(&state.spec.name));
            ClusterError::System { what: program.to_owned(), source: command.exec() }
        }
        Err(error) => error,
    }
}

/// Moves this process to the host.
fn move_to_host(state: &ClusterState, name: &str) -> Result<(), ClusterError> {
    let host = state.host(name)?;
    let cluster = &state.spec.name;
    // Another process may have got the number of a dead one.
    if network_of(host.pid).ok().as_ref() != Some(&host.network) {
        return Err(ClusterError::NotUp(cluster.clone()));
    }
    let here = std::env::current_dir().during("the current folder")?;
    Groups::of_cluster(cluster)?.join(name)?;
    let idx = state.hosts.iter().position(|other| other == host);
    if let Some(cpu) = idx.and_then(|idx| state.spec.cpu(idx)) {
        let mut set = CpuSet::new();
        set.set(cpu);
        rustix::thread::sched_setaffinity(None, &set).during(format_args!("CPU {cpu}"))?;
    }
    let spaces: Vec<_> = NAMESPACES
        .into_iter()
        .map(|(space, kind)| {
            let path = format!("/proc/{}/ns/{space}", host.pid);
            let file = File::open(&path).during(&path)?;
            Ok((path, file, kind))
        })
        .collect::<Result<_, ClusterError>>()?;
    for (path, file, kind) in spaces {
        move_into_link_name_space(file.as_fd(), Some(kind)).during(path)?;
    }
    // Entering another view of the files leads to its root.
    std::env::set_current_dir(&here).during(here.display())
}

/// Cuts the link of host `name` at the bridge, to whose network this process moves.
///
/// # Errors
/// Returns [`ClusterError::NotUp`] if the cluster is not up; others if the bridge cannot be entered or the link not be
/// cut.
pub fn cut_link(state: &ClusterState, name: &str) -> Result<(), ClusterError> {
    let idx = state.find_host(name)?;
    let cluster = &state.spec.name;
    let keeper = Groups::of_cluster(cluster)?.find_keeper();
    let keeper = keeper.ok_or_else(|| ClusterError::NotUp(cluster.clone()))?;
    let path = format!("/proc/{keeper}/ns/net");
    let network = File::open(&path).during(&path)?;
    move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network)).during(path)?;
    link::cut_port(idx)
}

/// Returns the hostname of host `idx`, from 0.
pub(crate) fn host_name(idx: usize) -> String {
    format!("iso-{}", idx + 1)
}

/// Returns the address of host `idx`, from 0, in a network that is visible inside the cluster only.
pub(crate) fn host_address(idx: usize) -> String {
    format!("10.77.0.{}", idx + 1)
}

/// Writes the file that is `/etc/hosts` on every host.
pub(crate) fn write_hosts(n_hosts: usize, file: &Path) -> Result<(), ClusterError> {
    let lines = (0..n_hosts).map(|idx| format!("{} {}\n", host_address(idx), host_name(idx)));
    let text: String = std::iter::once("127.0.0.1 localhost\n".to_owned()).chain(lines).collect();
    fs::write(file, text).during(file.display())
}
