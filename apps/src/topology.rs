//! `isochron topology`: what this host has.

use clap::Args;
use isochron_devices::{Topology, TopologySummary, blas, memory_available_bytes};
use serde::Serialize;

use crate::failure::Failure;

/// How to show it.
#[derive(Args)]
pub struct Arguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Host {
    #[serde(flatten)]
    topology: TopologySummary,
    /// What this process can still allocate; `null` where the system does not tell.
    memory_available_bytes: Option<u64>,
    /// The libraries that can be called, the preferred one first.
    blas: Vec<String>,
}

/// Runs the command; what it prints.
pub fn run(arguments: &Arguments) -> Result<String, Failure> {
    let topology = Topology::discover().map_err(Failure::run)?;
    let host = Host {
        topology: topology.summary(),
        memory_available_bytes: memory_available_bytes(),
        blas: blas::available()
            .iter()
            .map(|blas| blas.name().to_owned())
            .collect(),
    };
    if arguments.json {
        let json = serde_json::to_string_pretty(&host).map_err(Failure::run)?;
        return Ok(json + "\n");
    }
    let mut text = host.topology.to_string();
    if let Some(bytes) = host.memory_available_bytes {
        let gib = bytes as f64 / f64::from(1 << 30);
        text += &format!("available   {gib:.1} GiB\n");
    }
    text += "BLAS\n";
    for name in host.blas {
        text += &format!("  {name}\n");
    }
    Ok(text)
}
