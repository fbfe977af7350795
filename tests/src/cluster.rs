//! Emulated hosts, and ranks on them.

use std::process::Command;

use isochron_cluster::{EmulatedCluster, MpiFamily, MpiLauncher, Spec};

use crate::launch::{Mpi, cluster_program, open_mpi};

/// Bandwidth and latency of usual links.
pub const LINKS: Option<[&str; 2]> = Some(["1gbit", "100us"]);

/// Brings up hosts with these links and quotas; `None` where they cannot be had.
pub fn bring_up(
    test: &str,
    hosts: usize,
    links: Option<[&str; 2]>,
    quotas: &[&str],
) -> Option<EmulatedCluster> {
    bring_up_with(test, hosts, links, |spec| {
        spec.quotas = quotas.iter().map(|text| text.parse().expect("a quota")).collect();
    })
}

/// Brings up hosts with these links and what else is set.
pub fn bring_up_with(
    test: &str,
    hosts: usize,
    links: Option<[&str; 2]>,
    set: impl FnOnce(&mut Spec),
) -> Option<EmulatedCluster> {
    let name = format!("{test}-{}", std::process::id());
    let mut spec = Spec::new(&name, hosts).expect("a specification");
    if let Some([bandwidth, latency]) = links {
        spec.bandwidth = Some(bandwidth.parse().expect("a bandwidth"));
        spec.latency = latency.parse().expect("a latency");
    }
    set(&mut spec);
    EmulatedCluster::bring_up_for_test(&cluster_program(), &spec)
}

/// The command that starts ranks on the hosts of a cluster.
pub fn command(cluster: &EmulatedCluster, mpi: &Mpi, ranks: &[usize]) -> Command {
    let family = match mpi.name {
        "mpich" => MpiFamily::Mpich,
        _ => MpiFamily::OpenMpi,
    };
    let launcher = MpiLauncher { mpi: family, mpirun: mpi.mpirun().to_owned() };
    cluster.mpirun_command(&launcher, ranks).expect("ranks for each host")
}

/// The command that starts ranks of `isochron` with the words of a line.
pub fn line_command(cluster: &EmulatedCluster, ranks: &[usize], line: &str) -> Command {
    let mpi = open_mpi();
    let mut command = command(cluster, &mpi, ranks);
    command.arg(&mpi.isochron).args(line.split(' '));
    command
}
