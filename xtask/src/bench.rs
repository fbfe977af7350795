//! `cargo xtask bench`: one campaign of isochron-bench, in release.

use std::process::Command;

use anyhow::Result;

use crate::build::{self, TEST_HOOKS, WITH_TESTS};
use crate::cluster;
use crate::install;
use crate::mpi::Library;
use crate::needs::Goal;
use crate::peers;
use crate::stencils;
use crate::steps::{Steps, execute};
use crate::test::name_programs;
use crate::workspace::Workspace;

/// The programs of every campaign.
const PROGRAMS: &str = "--bin isochron --bin isochron-bench --bin isochron-cluster";

/// The campaign that runs an example of the library.
const PREPARED: &str = "prepared";

/// The campaign that runs jobs under both MPI libraries.
const SILENCE: &str = "silence";

/// Builds the programs and runs campaign `name` with `args`.
///
/// # Errors
/// When a step fails.
pub fn run(workspace: &Workspace, steps: &mut Steps, name: &str, args: &[String]) -> Result<()> {
    // Tables are made without the programs that a campaign measures.
    let measures = !args.iter().any(|arg| arg == "--table-only");
    let has_peers = measures && name == peers::CAMPAIGN;
    let has_stencils = measures && name == stencils::CAMPAIGN;
    let has_both = has_stencils || (measures && name == SILENCE);
    let goal = match (has_peers, has_both) {
        (true, _) => Goal::Peers,
        (_, true) => Goal::Test,
        _ => Goal::Run,
    };
    install::ensure(goal, steps)?;
    let mpi = build::prepare(workspace, Library::OpenMpi)?;
    let chosen = match name {
        PREPARED if measures => "--example prepared",
        _ if has_stencils => stencils::PROGRAMS,
        _ => "",
    };
    let hooks = if name == SILENCE { TEST_HOOKS } else { "" };
    let programs = format!("{WITH_TESTS} {PROGRAMS} {chosen} {hooks}");
    build::release(workspace, steps, &mpi, &programs)?;
    let peers = has_peers.then(|| peers::build(workspace, steps, &mpi));
    let peers = peers.transpose()?;
    let stencils = has_stencils.then(|| {
        let mpich = build::prepare(workspace, Library::Mpich)?;
        let folder = stencils::build(workspace, steps, &[&mpi, &mpich])?;
        anyhow::Ok((folder, mpich))
    });
    let stencils = stencils.transpose()?;
    let mpich = (measures && name == SILENCE).then(|| {
        let mpich = build::prepare(workspace, Library::Mpich)?;
        build::release(
            workspace,
            steps,
            &mpich,
            &format!("{WITH_TESTS} --bin isochron {TEST_HOOKS}"),
        )?;
        anyhow::Ok(mpich)
    });
    let mpich = mpich.transpose()?;
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
        if let Some(mpich) = &mpich {
            name_programs(&mut command, workspace, mpich, &[("BIN", "isochron")]);
        }
        if let Some((folder, mpich)) = &stencils {
            name_programs(&mut command, workspace, mpich, &[]);
            command.env(stencils::VARIABLE, folder);
        }
        execute(&mut command)
    })
}
