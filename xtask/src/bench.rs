//! `cargo xtask bench`: a campaign, in release.
//!
//! A campaign is a file in `bench/campaigns`, which the engine of `isochron campaign` measures. Its commands name programs
//! without folders: they are built here and found by name. Other measurements are commands of `isochron-bench`.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::build::{self, TEST_HOOKS, WITH_TESTS};
use crate::install;
use crate::mpi::{Library, MpiInstallation};
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

/// Drivers of other programs.
const PEERS: [&str; 4] = ["pdgemm", "dgemm", "starpu", "speed"];

/// Builds the programs and runs campaign `name` with `args`.
///
/// # Errors
/// When a step fails.
pub fn run(workspace: &Workspace, steps: &mut Steps, name: &str, args: &[String]) -> Result<()> {
    let file = workspace
        .root()
        .join("bench/campaigns")
        .join(format!("{name}.toml"));
    if file.is_file() {
        return run_file(workspace, steps, name, &file, args);
    }
    run_program(workspace, steps, name, args)
}

/// Builds the programs that a campaign file names, measures what its folder lacks, and makes its report.
fn run_file(
    workspace: &Workspace,
    steps: &mut Steps,
    name: &str,
    file: &Path,
    args: &[String],
) -> Result<()> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let names = |program: &str| {
        text.lines()
            .filter(|line| line.starts_with("command"))
            .any(|line| line.split([' ', '"']).any(|word| word == program))
    };
    let has_peers = PEERS.iter().any(|peer| names(peer));
    install::ensure(if has_peers { Goal::Peers } else { Goal::Run }, steps)?;
    let mpi = build::prepare(workspace, Library::OpenMpi)?;
    let example = if names(PREPARED) {
        "--example prepared"
    } else {
        ""
    };
    build::release(
        workspace,
        steps,
        &mpi,
        &format!("{WITH_TESTS} {PROGRAMS} {example}"),
    )?;
    let folders = ProgramFolders {
        launchers: write_launcher(workspace, &mpi)?,
        peers: if has_peers {
            Some(peers::build(workspace, steps, &mpi)?)
        } else {
            None
        },
    };
    let dir = find_dir(args);
    let folder = dir.clone();
    let folder = folder.unwrap_or_else(|| workspace.root().join("bench/results").join(name));
    for task in ["run", "report"] {
        steps.run(&format!("campaign {name}: {task}"), || {
            let program = workspace.binary(Library::OpenMpi, "isochron");
            let mut command = Command::new(program);
            command.args(["campaign", task]);
            if task == "run" {
                command.arg(file);
                if dir.is_none() {
                    command.arg("--dir").arg(&folder);
                }
                command.args(args);
            } else {
                command.arg(&folder);
            }
            folders.apply(workspace, &mpi, &mut command)?;
            execute(&mut command)
        })?;
    }
    Ok(())
}

/// The folders in which a campaign finds its programs.
struct ProgramFolders {
    launchers: PathBuf,
    peers: Option<PathBuf>,
}

impl ProgramFolders {
    /// Puts the folders on the path of a command.
    fn apply(
        &self,
        workspace: &Workspace,
        mpi: &MpiInstallation,
        command: &mut Command,
    ) -> Result<()> {
        mpi.apply(command);
        name_programs(command, workspace, mpi, &[]);
        // A campaign measures what learning costs, and leaves nothing to the user.
        command.env("ISOCHRON_STORE", "");
        let release = workspace.target(Library::OpenMpi).join("release");
        let own = [self.launchers.clone(), release.join("examples"), release];
        let path = env::var_os("PATH").unwrap_or_default();
        let all = own
            .into_iter()
            .chain(self.peers.clone())
            .chain(env::split_paths(&path));
        command.env("PATH", env::join_paths(all)?);
        if let Some(mkl) = self.peers.as_deref().and_then(peers::find_mkl) {
            let rest = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
            let all = [mkl].into_iter().chain(env::split_paths(&rest));
            command.env("LD_LIBRARY_PATH", env::join_paths(all)?);
        }
        Ok(())
    }
}

/// Writes a program `mpirun` that is the launcher of an MPI library, whatever the system calls it. Returns its folder.
/// Returns the folder that `--dir DIR` or `--dir=DIR` names.
fn find_dir(args: &[String]) -> Option<PathBuf> {
    let place = args.iter().position(|arg| arg == "--dir");
    let after = place.and_then(|place| args.get(place + 1));
    let joined = args.iter().find_map(|arg| arg.strip_prefix("--dir="));
    after.map(String::as_str).or(joined).map(PathBuf::from)
}

fn write_launcher(workspace: &Workspace, mpi: &MpiInstallation) -> Result<PathBuf> {
    let folder = workspace.target(Library::OpenMpi).join("campaigns");
    fs::create_dir_all(&folder)?;
    let file = folder.join("mpirun");
    fs::write(&file, format!("#!/bin/sh\nexec {} \"$@\"\n", mpi.launcher))?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755))?;
    Ok(folder)
}

/// Builds the programs and runs a command of `isochron-bench`.
fn run_program(
    workspace: &Workspace,
    steps: &mut Steps,
    name: &str,
    args: &[String],
) -> Result<()> {
    // Tables are made without the programs that a campaign measures.
    let measures = !args.iter().any(|arg| arg == "--table-only");
    let has_stencils = measures && name == stencils::CAMPAIGN;
    let has_both = has_stencils || (measures && name == SILENCE);
    let goal = if has_both { Goal::Test } else { Goal::Run };
    install::ensure(goal, steps)?;
    let mpi = build::prepare(workspace, Library::OpenMpi)?;
    let chosen = if has_stencils { stencils::PROGRAMS } else { "" };
    let hooks = if name == SILENCE { TEST_HOOKS } else { "" };
    let programs = format!("{WITH_TESTS} {PROGRAMS} {chosen} {hooks}");
    build::release(workspace, steps, &mpi, &programs)?;
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
