//! `cargo xtask bench`: a campaign, in release.
//!
//! A campaign is a file in `bench/campaigns`, which the engine of `isochron campaign` measures. Its commands name programs
//! without folders: they are built here and found by name.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::build::{self, TEST_HOOKS, WITH_TESTS};
use crate::install;
use crate::mpi::{Library, MpiInstallation};
use crate::needs::Goal;
use crate::peers;
use crate::prefix;
use crate::stencils;
use crate::steps::{Steps, execute};
use crate::test::name_programs;
use crate::workspace::Workspace;

/// The programs of every campaign.
const PROGRAMS: &str = "--bin isochron --bin isochron-bench --bin isochron-cluster --bin jacobi --bin fft2d --bin dgemv";

/// An example of the library that is a contender.
const PREPARED: &str = "prepared";

/// Drivers of other programs.
const PEERS: [&str; 4] = ["pdgemm", "dgemm", "starpu", "speed"];

/// Builds the programs that campaign `name` runs, measures what its folder lacks, and makes its report and figures.
///
/// # Errors
/// Fails if there is no such campaign, or a step fails.
pub fn run(workspace: &Workspace, steps: &mut Steps, name: &str, args: &[String]) -> Result<()> {
    let file = &find_campaign(workspace, name)?;
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let needs = CampaignNeeds::of(&text);
    let mpi = needs.install(workspace, steps)?;
    let folders = needs.build(workspace, steps, &mpi)?;
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
    steps.run(&format!("campaign {name}: figures"), || {
        let program = workspace.binary(Library::OpenMpi, "isochron-bench");
        let mut command = Command::new(program);
        mpi.apply(&mut command);
        execute(command.arg("figures").arg(&folder))
    })
}

/// Returns the file of a campaign.
fn find_campaign(workspace: &Workspace, name: &str) -> Result<PathBuf> {
    let folder = workspace.root().join("bench/campaigns");
    let file = folder.join(name).with_extension("toml");
    if file.is_file() {
        return Ok(file);
    }
    let mut names = Vec::new();
    for file in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        let file = file?.path();
        names.extend(file.file_stem().map(|stem| stem.display().to_string()));
    }
    names.sort();
    bail!("there is no campaign `{name}`: name one of {}", names.join(", "))
}

/// What a campaign runs besides `isochron` and `isochron-bench`.
struct CampaignNeeds {
    has_peers: bool,
    has_prepared: bool,
    /// Programs of both MPI libraries, as `isochron-mpich`.
    has_both: bool,
    /// Emulated hosts.
    has_hosts: bool,
    has_stencils: bool,
    /// Programs that do what the environment of a test says.
    has_hooks: bool,
}

impl CampaignNeeds {
    /// Reads the programs in the text of a campaign file.
    fn of(text: &str) -> Self {
        let commands = || text.lines().filter(|line| line.starts_with("command"));
        let names = |program: &str| {
            commands().any(|line| line.split([' ', '"']).any(|word| word == program))
        };
        Self {
            has_peers: PEERS.iter().any(|peer| names(peer)),
            has_prepared: names(PREPARED),
            has_both: text.contains("-{mpi}"),
            has_hosts: text.contains("isochron-cluster"),
            has_stencils: text.contains(stencils::PREFIX),
            has_hooks: text.contains("ISOCHRON_TEST_"),
        }
    }

    /// Installs the packages; returns the MPI library of the campaign.
    fn install(&self, workspace: &Workspace, steps: &mut Steps) -> Result<MpiInstallation> {
        let goal = if self.has_peers {
            Goal::Peers
        } else if self.has_both {
            Goal::Test
        } else {
            Goal::Run
        };
        install::ensure(goal, steps)?;
        if self.has_hosts {
            install::ensure(Goal::Cluster, steps)?;
        }
        build::prepare(workspace, Library::OpenMpi)
    }

    /// Builds all programs, and makes the folders in which they are found.
    fn build(
        &self,
        workspace: &Workspace,
        steps: &mut Steps,
        mpi: &MpiInstallation,
    ) -> Result<ProgramFolders> {
        let example = if self.has_prepared { "--example prepared" } else { "" };
        let hooks = if self.has_hooks { TEST_HOOKS } else { "" };
        build::release(
            workspace,
            steps,
            mpi,
            &format!("{WITH_TESTS} {PROGRAMS} {example} {hooks}"),
        )?;
        let launchers = workspace.target(Library::OpenMpi).join("campaigns");
        fs::create_dir_all(&launchers)?;
        write_launcher(&launchers.join("mpirun"), mpi)?;
        if self.has_both {
            let mpich = build::prepare(workspace, Library::Mpich)?;
            let programs = format!("{WITH_TESTS} --bin isochron {hooks}");
            build::release(workspace, steps, &mpich, &programs)?;
            for mpi in [mpi, &mpich] {
                let name = mpi.kind.suffix().to_lowercase();
                write_launcher(&launchers.join(format!("mpirun-{name}")), mpi)?;
                let program = workspace.binary(mpi.kind, "isochron");
                prefix::link(&program, &launchers.join(format!("isochron-{name}")))?;
            }
            if self.has_stencils {
                stencils::build(workspace, steps, [mpi, &mpich], &launchers)?;
            }
        }
        let peers = self.has_peers.then(|| peers::build(workspace, steps, mpi)).transpose()?;
        Ok(ProgramFolders { launchers, peers })
    }
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
        let all = own.into_iter().chain(self.peers.clone()).chain(env::split_paths(&path));
        command.env("PATH", env::join_paths(all)?);
        if let Some(mkl) = self.peers.as_deref().and_then(peers::find_mkl) {
            let rest = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
            let all = [mkl].into_iter().chain(env::split_paths(&rest));
            command.env("LD_LIBRARY_PATH", env::join_paths(all)?);
        }
        Ok(())
    }
}

/// Returns the folder that `--dir DIR` or `--dir=DIR` names.
fn find_dir(args: &[String]) -> Option<PathBuf> {
    let place = args.iter().position(|arg| arg == "--dir");
    let after = place.and_then(|place| args.get(place + 1));
    let joined = args.iter().find_map(|arg| arg.strip_prefix("--dir="));
    after.map(String::as_str).or(joined).map(PathBuf::from)
}

/// Writes a program that is the launcher of an MPI library, whatever the system calls it.
fn write_launcher(file: &Path, mpi: &MpiInstallation) -> Result<()> {
    fs::write(file, format!("#!/bin/sh\nexec {} \"$@\"\n", mpi.launcher))?;
    fs::set_permissions(file, fs::Permissions::from_mode(0o755))?;
    Ok(())
}
