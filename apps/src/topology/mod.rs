//! `isochron topology`: the hosts of a job with the devices that its ranks would make of them.

mod boxes;
mod host;
mod job;
mod tree;

use std::path::PathBuf;

use clap::Args;
use isochron_core::comm::{Comm, LocalComm};
use isochron_core::internal::input::read_text;
use isochron_devices::{Grouping, Topology};
use serde::Serialize;

use crate::documents::FormatVersion;
use crate::failure::Failure;
use crate::named_values::name_all;
use crate::numbers::parse_whole;
use crate::output::Answer;
use host::HostReport;
pub use host::ranges_text;

/// The hosts to show, and the form.
#[derive(Args)]
pub struct TopologyArguments {
    /// Cores that form one device: auto (by NUMA domain and kind), package, numa, kind or node
    #[arg(long, default_value_t = Grouping::default())]
    #[arg(value_parser = name_all::<Grouping>(), hide_possible_values = true)]
    group: Grouping,
    /// Show this host as N ranks would share it [default: all hosts, as the ranks of the job share them]
    #[arg(long, value_name = "N", value_parser = parse_whole::<u16, 1>)]
    ranks_per_host: Option<u16>,
    /// Show the host saved in this file (hwloc's XML, as `lstopo host.xml` writes it)
    #[arg(long, value_name = "FILE", conflicts_with = "synthetic")]
    file: Option<PathBuf>,
    /// Show a made-up host, in hwloc's notation: "pack:2 numa:2 l3:1 core:8 pu:2"
    #[arg(long, value_name = "TEXT")]
    synthetic: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The document for scripts.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct TopologyDocument<'a> {
    /// Version of the format.
    schema: FormatVersion<2>,
    /// The hosts, in the order of their first ranks.
    nodes: &'a [HostReport],
}

impl TopologyArguments {
    /// Returns `true` if the hosts of the job are wanted, not one host as a number of ranks would share it.
    pub fn is_of_job(&self) -> bool {
        self.file.is_none() && self.synthetic.is_none() && self.ranks_per_host.is_none()
    }
}

/// Shows the hosts of the job: under a launcher those of all ranks, otherwise this one. The head rank has
/// an answer.
///
/// # Collective
/// All ranks.
pub fn run_on_ranks(
    comm: &dyn Comm,
    arguments: &TopologyArguments,
) -> Result<Option<Answer>, Failure> {
    let hosts = job::describe_hosts(comm, arguments.group)?;
    match comm.rank() {
        0 => show_hosts(&hosts, arguments).map(Some),
        _ => Ok(None),
    }
}

/// Shows one host as a number of ranks would share it.
pub fn run(arguments: &TopologyArguments) -> Result<Answer, Failure> {
    let topology = read_topology(arguments)?;
    let ranks = usize::from(arguments.ranks_per_host.unwrap_or(1));
    let mut host = job::plan_host(&topology, arguments.group, ranks);
    if topology.is_this_system() {
        host.host = Some(LocalComm::new().host().to_owned());
        host.look_for_blas();
    }
    show_hosts(&[host], arguments)
}

fn show_hosts(hosts: &[HostReport], arguments: &TopologyArguments) -> Result<Answer, Failure> {
    let document = TopologyDocument { schema: FormatVersion, nodes: hosts };
    Answer::new(arguments.json, &document, |document| tree::draw_trees(document.nodes))
}

fn read_topology(arguments: &TopologyArguments) -> Result<Topology, Failure> {
    if let Some(path) = &arguments.file {
        let xml = read_text(path).map_err(|error| Failure::of_file(path, error))?;
        return Topology::from_xml(&xml).map_err(|error| Failure::of_file(path, error));
    }
    match &arguments.synthetic {
        Some(text) => Topology::from_synthetic(text).map_err(Failure::input),
        None => Topology::discover().map_err(Failure::run),
    }
}
