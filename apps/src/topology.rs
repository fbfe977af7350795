//! `isochron topology`: what this host has.

use clap::Args;
use isochron_devices::topology::Topology;
use isochron_devices::{blas, memory_available_bytes};

use crate::failure::Failure;

/// How to show it.
#[derive(Args)]
pub struct Arguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let topology = Topology::discover().map_err(Failure::run)?;
    let summary = topology.summary();
    if arguments.json {
        println!(
            "{}",
            serde_json::to_string_pretty(&summary).map_err(Failure::run)?
        );
        return Ok(());
    }
    print!("{summary}");
    if let Some(bytes) = memory_available_bytes() {
        println!("available   {:.1} GiB", bytes as f64 / f64::from(1 << 30));
    }
    println!("BLAS");
    for name in blas::available() {
        println!("  {name}");
    }
    Ok(())
}
