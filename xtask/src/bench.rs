//! `cargo xtask bench`: one campaign of isochron-bench, in release.

use std::process::Command;

use anyhow::Result;

use crate::build;
use crate::cluster;
use crate::install;
use crate::mpi::Library;
use crate::needs::Goal;
use crate::peers;
use crate::steps::{Steps, execute};
use crate::test::name_programs;
use crate::workspace::Workspace;

/// The campaign that runs an example of the library.
const PREPARED: &str = "prepared";

/// Builds the programs and runs campaign `name` with `args`.
///
/// # Errors
/// When a step fails.
pub fn run(workspace: &Workspace, steps: &mut Steps, name: &str, args: &[String]) -> Result<()> {
    let has_peers = name == peers::CAMPAIGN;
    let goal = if has_peers { Goal::Peers } else { Goal::Run };
    install::ensure(goal, steps)?;
    let mpi = build::prepare(workspace, Library::OpenMpi)?;
    let mut packages = "-p isochron-cli -p isochron-bench -p isochron-cluster".to_owned();
    if name == PREPARED {
        packages += " -p isochron --bins --example prepared";
    }
    build::release(workspace, steps, &mpi, &packages)?;
    let peers = has_peers.then(|| peers::build(workspace, steps, &mpi));
    let peers = peers.transpose()?;
    steps.run(&format!("campaign {name}"), || {
        let program = workspace.binary(Library::OpenMpi, "isochron-bench");
        let mut command = Command::new(program);
        command.arg(name).args(args).current_dir(workspace.root());
        mpi.apply(&mut command);
        name_programs(&mut command, workspace, &mpi, &[("BIN", "isochron")]);
        command.env(cluster::VARIABLE, cluster::program_path(workspace));
        if let Some(folder) = &peers {
            command.env(peers::VARIABLE, folder);
        }
        execute(&mut command)
    })
}
