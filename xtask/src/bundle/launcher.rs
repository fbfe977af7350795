//! The launcher of a bundle's MPI library, and the parts of the library that it needs.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::machine;
use crate::mpi::{Library, MpiInstallation};

/// The kind of a launcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LauncherKind {
    /// Open MPI 4: `orterun`, and `orted` on the other hosts.
    Orte,
    /// Open MPI 5 and later: `mpirun` runs `prterun`, which runs `prted` on the other hosts.
    Prrte,
    /// MPICH: `mpiexec.hydra`, and `hydra_pmi_proxy` on every host.
    Hydra,
}

/// A program of the MPI library: its path, and its name in the bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    pub path: PathBuf,
    pub name: &'static str,
}

/// The part of an MPI installation that a bundle needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundledLauncher {
    pub kind: LauncherKind,
    /// Its own description, in one line.
    pub version: String,
    pub programs: Vec<Program>,
    /// Folders that are copied as they are, with their places in the bundle.
    pub folders: Vec<(PathBuf, &'static str)>,
}

impl LauncherKind {
    /// Reads what a launcher prints for `--version`.
    ///
    /// # Errors
    /// Fails if no bundle can be made with this launcher; the message names it and those that are supported.
    pub fn of(library: Library, told: &str) -> Result<Self> {
        let first = told.lines().next().unwrap_or_default().trim();
        let kind = match library {
            Library::Mpich if told.contains("HYDRA") => Some(Self::Hydra),
            // A program for the standard ABI is for the library of the host.
            Library::Mpich | Library::Abi => None,
            Library::OpenMpi => match parse_major(first) {
                Some(4) => Some(Self::Orte),
                Some(5..) => Some(Self::Prrte),
                _ => None,
            },
        };
        kind.with_context(|| {
            format!(
                "a bundle can be made with Open MPI 4 or 5, or with MPICH and its launcher hydra; this launcher says \
                 `{first}`: name another by {} and {}",
                format_args!("ISOCHRON_MPICC_{}", library.suffix()),
                format_args!("ISOCHRON_MPIRUN_{}", library.suffix()),
            )
        })
    }

    /// Returns the shell commands that tell the library the place of its parts; `$here` is the bundle.
    pub fn environment(self) -> &'static str {
        match self {
            Self::Orte => concat!(include_str!("open-mpi.sh"), include_str!("orte.sh")),
            Self::Prrte => concat!(include_str!("open-mpi.sh"), include_str!("prrte.sh")),
            Self::Hydra => include_str!("hydra.sh"),
        }
    }

    /// Returns the words that the launcher's script inserts before the user's arguments.
    pub fn arguments(self) -> &'static str {
        match self {
            // The place of the bundle on other hosts.
            Self::Orte | Self::Prrte => "--prefix \"$here\" ",
            Self::Hydra => "",
        }
    }

    /// Returns the programs that get a script in `bin`. Hydra looks for its proxy next to itself.
    pub fn scripts(self) -> &'static [&'static str] {
        match self {
            Self::Orte => &["mpirun", "orted"],
            Self::Prrte => &["mpirun", "prterun", "prted"],
            Self::Hydra => &["mpirun"],
        }
    }

    /// Returns the option that names the hosts.
    pub fn hosts_option(self) -> &'static str {
        match self {
            Self::Orte | Self::Prrte => "--hostfile hosts",
            Self::Hydra => "-f hosts",
        }
    }

    /// Returns the arguments that start two ranks, however few cores there are.
    pub fn two_ranks(self) -> &'static [&'static str] {
        match self {
            Self::Orte | Self::Prrte => &["--oversubscribe", "--bind-to", "none", "-n", "2"],
            Self::Hydra => &["-n", "2"],
        }
    }
}

/// Returns the major version at the end of a line such as `mpirun (Open MPI) 4.1.4`.
fn parse_major(line: &str) -> Option<u32> {
    line.split_whitespace().last()?.split('.').next()?.parse().ok()
}

impl BundledLauncher {
    /// Finds the parts of the installation that this launcher belongs to.
    ///
    /// # Errors
    /// Fails if no bundle can be made with this launcher, or a part of it is not found.
    pub fn find(mpi: &MpiInstallation) -> Result<Self> {
        let told = machine::read_output(&mpi.launcher, &["--version"]);
        let told = told.with_context(|| format!("`{} --version` fails", mpi.launcher))?;
        let kind = LauncherKind::of(mpi.kind, &told)?;
        let version = match kind {
            LauncherKind::Hydra => {
                let mut lines = told.lines().map(str::trim);
                let version = lines.find_map(|line| line.strip_prefix("Version:"));
                format!("MPICH {}", version.unwrap_or_default().trim())
            }
            LauncherKind::Orte | LauncherKind::Prrte => {
                let version = told.lines().next().unwrap_or_default();
                let version = version.split_whitespace().last().unwrap_or_default();
                format!("Open MPI {version}")
            }
        };
        let (programs, folders) = match kind {
            LauncherKind::Hydra => (hydra(&locate_program(&mpi.launcher)?)?, Vec::new()),
            LauncherKind::Orte | LauncherKind::Prrte => open_mpi(kind, &mpi.launcher)?,
        };
        Ok(Self { kind, version, programs, folders })
    }
}

/// The file of a program that is named or on `PATH`.
pub fn locate_program(program: &str) -> Result<PathBuf> {
    let found = machine::read_output("sh", &["-c", &format!("command -v '{program}'")]);
    let found = found.with_context(|| format!("{program} was not found"))?;
    let path = Path::new(found.trim());
    path.canonicalize().with_context(|| path.display().to_string())
}

fn hydra(launcher: &Path) -> Result<Vec<Program>> {
    let proxy = launcher.with_file_name("hydra_pmi_proxy");
    if !proxy.is_file() {
        bail!("{} was not found: it starts ranks", proxy.display());
    }
    Ok([(launcher.to_owned(), "mpirun"), (proxy, "hydra_pmi_proxy")]
        .map(|(path, name)| Program { path, name })
        .into())
}

/// Programs and folders of an installation.
type Parts = (Vec<Program>, Vec<(PathBuf, &'static str)>);

fn open_mpi(kind: LauncherKind, launcher: &str) -> Result<Parts> {
    let info = launcher.replace("mpirun", "ompi_info");
    let told = [info.as_str(), "ompi_info"]
        .iter()
        .find_map(|info| machine::read_output(info, &["--path", "all", "--parsable"]))
        .context("ompi_info was not found next to the launcher")?;
    let (bin, texts) = (find_folder(&told, "bindir")?, find_folder(&told, "pkgdatadir")?);
    let mut folders =
        vec![(find_folder(&told, "pkglibdir")?, "lib/openmpi"), (texts.clone(), "share/openmpi")];
    let wanted: &[(&[&str], &str)] = match kind {
        LauncherKind::Orte => &[(&["orterun"], "mpirun"), (&["orted"], "orted")],
        // Python's package has a front named mpirun that goes by its own place, and the launcher under another name.
        _ => &[
            (&["ompirun_wrapper", "mpirun"], "mpirun"),
            (&["prterun", "prte"], "prterun"),
            (&["prted"], "prted"),
        ],
    };
    if kind == LauncherKind::Prrte {
        for (name, place) in [("prte", "share/prte"), ("pmix", "share/pmix")] {
            folders.push((texts.with_file_name(name), place));
        }
    }
    let programs = wanted
        .iter()
        .map(|(names, name)| find_program(&bin, names, name))
        .collect::<Result<_>>()?;
    Ok((programs, folders))
}

/// Returns a folder from what `ompi_info` prints.
fn find_folder(told: &str, key: &str) -> Result<PathBuf> {
    let start = format!("path:{key}:");
    told.lines()
        .find_map(|line| line.strip_prefix(&start))
        .map(PathBuf::from)
        .with_context(|| format!("ompi_info does not tell {key}"))
}

/// Finds a program, which may have several names, in the folder of programs or on the path.
fn find_program(bin: &Path, names: &[&str], name: &'static str) -> Result<Program> {
    let mut paths = names.iter().map(|name| bin.join(name));
    let found = paths.find(|path| path.is_file());
    // PRRTE may be installed by itself. A launcher elsewhere on the path would belong to another installation.
    let found = found.or_else(|| match name {
        "mpirun" => None,
        _ => names.iter().find_map(|name| locate_program(name).ok()),
    });
    let path = found.with_context(|| {
        format!(
            "{} was not found in {}: it starts ranks (an Open MPI that was moved is found by OPAL_PREFIX)",
            names.join(" or "),
            bin.display()
        )
    })?;
    Ok(Program { path, name })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_are_told_apart_by_what_they_say() {
        for (library, told, kind) in [
            (Library::OpenMpi, "mpirun (Open MPI) 4.1.4\n\nReport", Some(LauncherKind::Orte)),
            (Library::OpenMpi, "mpirun.openmpi (OpenRTE) 4.1.4", Some(LauncherKind::Orte)),
            (Library::OpenMpi, "mpirun (Open MPI) 5.0.11", Some(LauncherKind::Prrte)),
            (Library::OpenMpi, "mpirun (Open MPI) 3.1.6", None),
            (
                Library::Mpich,
                "HYDRA build details:\n    Version:    4.0.2\n",
                Some(LauncherKind::Hydra),
            ),
        ] {
            assert_eq!(LauncherKind::of(library, told).ok(), kind, "{told}");
        }
        let intel = "Intel(R) MPI Library for Linux* OS, Version 2021.9\n";
        let refused = LauncherKind::of(Library::Mpich, intel).unwrap_err().to_string();
        for part in ["Open MPI 4 or 5", "hydra", "Intel(R) MPI", "ISOCHRON_MPIRUN_MPICH"] {
            assert!(refused.contains(part), "{part:?} in {refused:?}");
        }
    }
}
