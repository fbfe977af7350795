//! The MPI libraries: recognising one, and running ranks under it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::machine;

/// An MPI library that we build and test with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Library {
    /// Open MPI.
    #[value(name = "openmpi")]
    OpenMpi,
    /// MPICH, or one that says it is (Intel MPI).
    Mpich,
    /// Any library with the standard ABI of MPI 5.
    Abi,
}

/// An MPI library as found on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MpiInstallation {
    /// Which library it is.
    pub kind: Library,
    /// Its C compiler wrapper, a path or a name on `PATH`.
    pub compiler: String,
    /// Its launcher, from the same installation.
    pub launcher: String,
}

impl Library {
    /// Returns the name that people know.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenMpi => "Open MPI",
            Self::Mpich => "MPICH",
            Self::Abi => "the standard ABI of MPI",
        }
    }

    /// Returns the ending of the environment variables about this library.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::OpenMpi => "OPENMPI",
            Self::Mpich => "MPICH",
            Self::Abi => "ABI",
        }
    }

    /// Returns a macro that only this library's `mpi.h` defines.
    fn macro_name(self) -> &'static str {
        match self {
            Self::OpenMpi => "OPEN_MPI",
            Self::Mpich => "MPICH_NAME",
            Self::Abi => "MPI_ABI_VERSION",
        }
    }

    /// Returns the names that `mpirun --version` may print.
    fn launcher_names(self) -> &'static [&'static str] {
        match self {
            Self::OpenMpi => &["Open MPI", "OpenRTE"],
            Self::Mpich => &["HYDRA", "Intel(R) MPI"],
            Self::Abi => &["HYDRA", "Intel(R) MPI", "Open MPI"],
        }
    }

    /// Returns pairs of compiler and launcher, so that both come from one installation.
    fn candidates(self) -> Vec<(String, String)> {
        let suffix = self.suffix();
        let chosen = machine::read_variable(&format!("ISOCHRON_MPICC_{suffix}"))
            .zip(machine::read_variable(&format!("ISOCHRON_MPIRUN_{suffix}")));
        let usual = match self {
            Self::OpenMpi => vec![
                pair_of_programs("", ".openmpi"),
                pair_of_programs("", ""),
                pair_of_programs("/usr/lib64/openmpi/bin/", ""),
                pair_of_programs("/opt/homebrew/opt/open-mpi/bin/", ""),
            ],
            Self::Mpich => vec![
                pair_of_programs("", ".mpich"),
                pair_of_programs("", ""),
                pair_of_programs("/usr/lib64/mpich/bin/", ""),
                pair_of_programs("/opt/homebrew/opt/mpich/bin/", ""),
            ],
            // Its compiler and launcher may come from two installations if they are found one by one.
            Self::Abi => Vec::new(),
        };
        chosen.into_iter().chain(usual).collect()
    }

    /// Finds the first installation with this library's header and launcher.
    pub fn find(self) -> Option<MpiInstallation> {
        let (compiler, launcher) = self.candidates().into_iter().find(|(compiler, launcher)| {
            self.compiles_with(compiler) && self.launches_with(launcher)
        })?;
        Some(MpiInstallation { kind: self, compiler, launcher })
    }

    /// A wrapper may be installed without its headers, so the preprocessor decides.
    fn compiles_with(self, compiler: &str) -> bool {
        let arguments = ["-dM", "-E", "-include", "mpi.h", "-x", "c", "/dev/null"];
        machine::read_output(compiler, &arguments).is_some_and(|macros| {
            macros
                .lines()
                .filter_map(|l| l.split_whitespace().nth(1))
                .into_iter()
                .any(|name| name == self.macro_name())
        })
    }

    fn launches_with(self, launcher: &str) -> bool {
        machine::read_output(launcher, &["--version"]).is_some_and(|text| {
            let mut names = self.launcher_names().iter();
            names.any(|name| text.contains(name))
        })
    }
}

/// Returns the compiler and the launcher with these parts around their names.
fn pair_of_programs(prefix: &str, ending: &str) -> (String, String) {
    (format!("{prefix}mpicc{ending}"), format!("{prefix}mpirun{ending}"))
}

impl MpiInstallation {
    /// Prepares a command that builds or runs against this library.
    ///
    /// Containers and CI machines run as root, which Open MPI refuses unless told twice.
    pub fn apply(&self, command: &mut Command) {
        command.env("MPICC", &self.compiler);
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1");
        command.env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        self.lead_loader(command);
    }

    /// Puts the folder of a library outside the system's folders on the loader's path.
    pub fn lead_loader(&self, command: &mut Command) {
        if let Some(folder) = library_folder(&self.compiler) {
            machine::put_first(command, "LD_LIBRARY_PATH", &folder);
        }
    }

    /// Returns the command that runs `binary` on `n_ranks` ranks of this machine, however few its cores.
    ///
    /// Unbound, because a rank pins its own threads and must see every core.
    pub fn launch(&self, n_ranks: usize, binary: &Path) -> Command {
        let mut command = Command::new(&self.launcher);
        if self.kind == Library::OpenMpi {
            command.args(["--oversubscribe", "--bind-to", "none"]);
        }
        command.arg("-n").arg(n_ranks.to_string()).arg(binary);
        self.apply(&mut command);
        command
    }
}

/// Returns `<prefix>/lib` of a compiler named by its path, outside `/usr/bin`.
fn library_folder(compiler: &str) -> Option<PathBuf> {
    let folder = Path::new(compiler).parent()?;
    let is_elsewhere = folder.is_absolute() && folder != Path::new("/usr/bin");
    is_elsewhere.then(|| folder.with_file_name("lib"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_installation_elsewhere_needs_the_loader_told() {
        assert_eq!(library_folder("mpicc"), None);
        assert_eq!(library_folder("/usr/bin/mpicc"), None);
        assert_eq!(
            library_folder("/usr/lib64/mpich/bin/mpicc").unwrap(),
            Path::new("/usr/lib64/mpich/lib")
        );
    }
}
