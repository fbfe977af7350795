//! `isochron topology`: what a host has, and the devices that would be made of it.

mod boxes;
mod host;
mod picture;
mod tree;

use std::path::{Path, PathBuf};

use clap::Args;
use isochron_devices::{Grouping, Topology, blas};

use crate::failure::Failure;
use host::Host;
pub use host::ranges;

/// Which host to show, and how.
#[derive(Args)]
pub struct Arguments {
    /// Cores that form one device: auto (by NUMA domain and kind), package, numa, kind or node
    #[arg(long, default_value_t = Grouping::default())]
    group: Grouping,
    /// Ranks among which the host is shared
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u16).range(1..))]
    ranks_per_host: u16,
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

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let topology = topology(arguments)?;
    let ranks = usize::from(arguments.ranks_per_host);
    let mut host = Host::new(&topology, arguments.group, ranks);
    if topology.is_this_system() {
        let libraries = blas::available();
        host.blas = libraries
            .iter()
            .map(|blas| blas.name().to_owned())
            .collect();
    }
    if let Some(path) = &arguments.svg {
        write(path, &picture::svg(&host))?;
    }
    if arguments.json {
        let json = serde_json::to_string_pretty(&host).map_err(Failure::run)?;
        println!("{json}");
        return Ok(());
    }
    print!("{}", tree::text(&host));
    Ok(())
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

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error| Failure::run(format!("cannot write {}: {error}", path.display()));
    std::fs::write(path, text).map_err(failed)
}
