//! `isochron topology`: what the hosts of a job have, and the devices that its ranks would make of them.

mod boxes;
mod host;
mod job;
mod picture;
mod tree;

use std::path::PathBuf;

use clap::Args;
use isochron::comm::{Comm, LocalComm};
use isochron_devices::{Grouping, Topology};
use serde::Serialize;

use crate::failure::Failure;
use crate::output;
use host::Host;
pub use host::ranges;

/// Which host to show, and how.
#[derive(Args)]
pub struct Arguments {
    /// Cores that form one device: auto (by NUMA domain and kind), package, numa, kind or node
    #[arg(long, default_value_t = Grouping::default())]
    group: Grouping,
    /// Show this host as so many ranks would share it; without it, all hosts as the ranks of the job do
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    ranks_per_host: Option<u16>,
    /// Show the host that was saved in this file (hwloc's XML, as of `lstopo host.xml`)
    #[arg(long, value_name = "FILE", conflicts_with = "synthetic")]
    file: Option<PathBuf>,
    /// Show a made-up host, in hwloc's notation: "pack:2 numa:2 l3:1 core:8 pu:2"
    #[arg(long, value_name = "TEXT")]
    synthetic: Option<String>,
    /// Draw the host into this file (SVG)
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Version of the JSON document.
const SCHEMA: u32 = 2;

/// The document for scripts.
#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    nodes: &'a [Host],
}

impl Arguments {
    /// Whether what is wanted are the hosts of the job, as its ranks share them, and not a host that is planned with.
    pub fn is_of_job(&self) -> bool {
        self.file.is_none() && self.synthetic.is_none() && self.ranks_per_host.is_none()
    }
}

/// Shows the hosts of the job: under a launcher those of all ranks, otherwise this one. The head rank prints.
///
/// # Collective
/// All ranks.
pub fn run_on_ranks(comm: &dyn Comm, arguments: &Arguments) -> Result<(), Failure> {
    let hosts = job::hosts(comm, arguments.group)?;
    match comm.rank() {
        0 => output::write(&shown(&hosts, arguments)?),
        _ => Ok(()),
    }
}

/// Shows a host that is planned with.
pub fn run(arguments: &Arguments) -> Result<String, Failure> {
    let topology = topology(arguments)?;
    let ranks = usize::from(arguments.ranks_per_host.unwrap_or(1));
    let mut host = job::planned(&topology, arguments.group, ranks);
    if topology.is_this_system() {
        host.host = Some(LocalComm::new().host().to_owned());
        host.look_for_blas();
    }
    shown(&[host], arguments)
}

fn shown(hosts: &[Host], arguments: &Arguments) -> Result<String, Failure> {
    if let Some(path) = &arguments.svg {
        output::file(path, &picture::svg(hosts))?;
    }
    if arguments.json {
        return output::json(&Document {
            schema: SCHEMA,
            nodes: hosts,
        });
    }
    Ok(tree::text(hosts))
}

fn topology(arguments: &Arguments) -> Result<Topology, Failure> {
    if let Some(path) = &arguments.file {
        let at =
            |error: &dyn std::fmt::Display| Failure::input(format!("{}: {error}", path.display()));
        let xml = std::fs::read_to_string(path).map_err(|error| at(&error))?;
        return Topology::from_xml(&xml).map_err(|error| at(&error));
    }
    match &arguments.synthetic {
        Some(text) => Topology::from_synthetic(text).map_err(Failure::input),
        None => Topology::discover().map_err(Failure::run),
    }
}
