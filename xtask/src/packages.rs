//! The names of our needs in each package manager, and the commands that install them.

use crate::needs::Need;

/// A way to install software.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manager {
    /// Debian and Ubuntu.
    Apt,
    /// Fedora and its relatives.
    Dnf,
    /// Homebrew.
    Brew,
    /// Spack, without root.
    Spack,
    /// Environment modules of a cluster; the names are each site's own.
    Modules,
}

impl Manager {
    /// All of them, in the order in which we print.
    pub const ALL: [Self; 5] = [Self::Apt, Self::Dnf, Self::Brew, Self::Spack, Self::Modules];

    /// Returns the name that people know.
    pub fn name(self) -> &'static str {
        match self {
            Self::Apt => "apt",
            Self::Dnf => "dnf",
            Self::Brew => "brew",
            Self::Spack => "Spack",
            Self::Modules => "modules",
        }
    }

    /// The command for a shell that provides `needs`; `None` when this manager has none of them.
    pub fn command(self, needs: &[Need]) -> Option<String> {
        let names = self.packages(needs);
        if names.is_empty() {
            return None;
        }
        let list = names.join(" ");
        if needs.contains(&Need::Mpich) {
            return Some(self.command_for_both(&list, &self.packages(&without_mpich(needs))));
        }
        Some(match self {
            Self::Apt => apt(&list),
            Self::Dnf => dnf(&list),
            Self::Brew => format!("brew install {list}"),
            Self::Spack => spack(&names, ""),
            Self::Modules => format!("module load {list}"),
        })
    }

    /// The system's managers install both MPI libraries side by side under names of their own. The
    /// others offer one at a time, so MPICH comes first and is remembered by its path.
    fn command_for_both(self, list: &str, others: &[&str]) -> String {
        let rest = others.join(" ");
        match self {
            Self::Apt => apt(list),
            Self::Dnf => dnf(list),
            Self::Brew => format!(
                "brew unlink open-mpi; brew install mpich && brew unlink mpich && \
                 brew install {rest} && brew link open-mpi"
            ),
            Self::Spack => format!(
                "{} && {}",
                spack(others, "mpich "),
                export(
                    "$(spack location -i mpich)/bin/mpicc",
                    "$(spack location -i mpich)/bin/mpirun"
                )
            ),
            Self::Modules => format!(
                "module load mpich && {} && module unload mpich && module load {rest}",
                export("$(command -v mpicc)", "$(command -v mpirun)")
            ),
        }
    }

    /// The packages for `needs`, each once.
    pub fn packages(self, needs: &[Need]) -> Vec<&'static str> {
        let mut names = Vec::new();
        for name in needs.iter().flat_map(|&need| self.packages_for(need)) {
            if !names.contains(name) {
                names.push(*name);
            }
        }
        names
    }

    #[rustfmt::skip] // A table reads best as one.
    fn packages_for(self, need: Need) -> &'static [&'static str] {
        let by_manager: [&[&str]; 5] = match need {
            // Homebrew itself stands on the system's compiler; network namespaces are Linux's, and so are valgrind and Slurm here.
            Need::CCompiler => [&["build-essential"], &["gcc"], &[], &["gcc"], &["gcc"]],
            Need::PkgConfig => [&["pkg-config"], &["pkgconf-pkg-config"], &["pkgconf"], &["pkgconf"], &["pkgconf"]],
            Need::OpenMpi => [&["libopenmpi-dev", "openmpi-bin"], &["openmpi-devel"], &["open-mpi"], &["openmpi"], &["openmpi"]],
            Need::Mpich => [&["libmpich-dev", "mpich"], &["mpich-devel"], &["mpich"], &["mpich"], &["mpich"]],
            Need::Libclang => [&["libclang-dev", "clang"], &["clang-devel"], &["llvm"], &["llvm+clang"], &["llvm"]],
            Need::Hwloc => [&["libhwloc-dev"], &["hwloc-devel"], &["hwloc"], &["hwloc@2.8:2"], &["hwloc"]],
            // Elsewhere hwloc comes without udev, so hwloc itself is what to install.
            Need::Udev => [&["libudev-dev"], &["systemd-devel"], &["hwloc"], &["hwloc@2.8:2"], &["hwloc"]],
            Need::OpenBlas => [&["libopenblas0-pthread"], &["'libopenblas.so.0()(64bit)'"], &["openblas"], &["openblas"], &["openblas"]],
            Need::Iproute2 => [&["iproute2"], &["iproute", "iproute-tc"], &[], &["iproute2"], &["iproute2"]],
            Need::Scalapack => [&["libscalapack-openmpi-dev"], &["scalapack-openmpi-devel"], &["scalapack"], &["netlib-scalapack"], &["scalapack"]],
            Need::StarPu => [&["libstarpu-dev"], &[], &[], &["starpu@1.3"], &["starpu"]],
            Need::Valgrind => [&["valgrind"], &["valgrind"], &[], &["valgrind"], &["valgrind"]],
            // On clusters and on macOS they come from elsewhere.
            Need::Chromium => [&["chromium"], &["chromium"], &[], &[], &[]],
            Need::Umoci => [&["umoci", "busybox-static"], &[], &[], &[], &[]],
            Need::Fortran => [&["gfortran"], &["gcc-gfortran"], &["gcc"], &["gcc"], &["gcc"]],
            Need::Slurm => [&["slurmctld", "slurmd", "slurm-client", "munge"], &["slurm", "slurm-slurmctld", "slurm-slurmd", "munge"], &[], &["slurm", "munge"], &["slurm"]],
            Need::Jube => [&["jube"], &[], &[], &["jube"], &["jube"]],
            Need::SimGrid => [&["libsimgrid-dev"], &[], &["simgrid"], &["simgrid"], &["simgrid"]],
            Need::Numpy => [&["python3-numpy", "python3-venv"], &["python3-numpy"], &["numpy"], &["py-numpy"], &["py-numpy"]],
        };
        by_manager[self as usize]
    }
}

fn apt(list: &str) -> String {
    format!("sudo apt-get update && sudo apt-get install -y --no-install-recommends {list}")
}

fn dnf(list: &str) -> String {
    format!("sudo dnf install -y {list}")
}

/// `also` is installed and not loaded. Loading sets no path to shared libraries, which a program
/// that Spack did not build needs.
fn spack(names: &[&str], also: &str) -> String {
    let list = names.join(" ");
    let folders: String = ["openmpi", "hwloc", "openblas"]
        .iter()
        .filter(|library| names.iter().any(|name| name.starts_with(**library)))
        .map(|library| format!("$(spack location -i {library})/lib:"))
        .collect();
    let load = format!("spack install {also}{list} && spack load {list}");
    if folders.is_empty() {
        return load;
    }
    format!("{load} && export LD_LIBRARY_PATH=\"{folders}$LD_LIBRARY_PATH\"")
}

fn export(compiler: &str, launcher: &str) -> String {
    format!("export ISOCHRON_MPICC_MPICH=\"{compiler}\" ISOCHRON_MPIRUN_MPICH=\"{launcher}\"")
}

/// The needs without MPICH, and with Open MPI, which must be found first afterwards.
fn without_mpich(needs: &[Need]) -> Vec<Need> {
    let mut others = needs.to_vec();
    others.retain(|need| *need != Need::Mpich);
    if !others.contains(&Need::OpenMpi) {
        others.push(Need::OpenMpi);
    }
    others
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apt_installs_exactly_what_is_missing() {
        let needs = [Need::OpenMpi, Need::Hwloc];
        assert_eq!(
            Manager::Apt.command(&needs).unwrap(),
            "sudo apt-get update && sudo apt-get install -y --no-install-recommends \
             libopenmpi-dev openmpi-bin libhwloc-dev"
        );
    }

    #[test]
    fn every_manager_has_a_command_for_every_need() {
        for manager in Manager::ALL {
            for need in Need::ALL {
                let has_none = match manager {
                    Manager::Brew => matches!(
                        need,
                        Need::CCompiler
                            | Need::Iproute2
                            | Need::Valgrind
                            | Need::StarPu
                            | Need::Chromium
                            | Need::Slurm
                            | Need::Jube
                            | Need::Umoci
                    ),
                    Manager::Dnf => {
                        matches!(need, Need::StarPu | Need::Jube | Need::SimGrid | Need::Umoci)
                    }
                    Manager::Spack | Manager::Modules => {
                        matches!(need, Need::Chromium | Need::Umoci)
                    }
                    _ => false,
                };
                if has_none {
                    continue;
                }
                let command = manager.command(&[need]).unwrap();
                for package in manager.packages(&[need]) {
                    assert!(command.contains(package), "{manager:?} {need:?}: {command}");
                }
            }
        }
    }

    #[test]
    fn a_package_is_named_once() {
        let both = [Need::Hwloc, Need::Udev];
        assert_eq!(Manager::Brew.packages(&both), ["hwloc"]);
        assert_eq!(Manager::Apt.packages(&both), ["libhwloc-dev", "libudev-dev"]);
    }

    #[test]
    fn nothing_missing_needs_no_command() {
        assert_eq!(Manager::Apt.command(&[]), None);
    }

    #[test]
    fn spack_loads_one_mpi_and_its_shared_libraries() {
        assert_eq!(
            Manager::Spack.command(&[Need::OpenBlas]).unwrap(),
            "spack install openblas && spack load openblas && \
             export LD_LIBRARY_PATH=\"$(spack location -i openblas)/lib:$LD_LIBRARY_PATH\""
        );
        let both = Manager::Spack.command(&[Need::Mpich]).unwrap();
        assert!(both.starts_with("spack install mpich openmpi && spack load openmpi && "));
        assert!(both.contains("ISOCHRON_MPICC_MPICH=\"$(spack location -i mpich)/bin/mpicc\""));
    }

    #[test]
    fn modules_leave_open_mpi_loaded_and_mpich_remembered() {
        assert_eq!(
            Manager::Modules.command(&[Need::Mpich, Need::Hwloc]).unwrap(),
            "module load mpich && export ISOCHRON_MPICC_MPICH=\"$(command -v mpicc)\" \
             ISOCHRON_MPIRUN_MPICH=\"$(command -v mpirun)\" && module unload mpich && \
             module load hwloc openmpi"
        );
    }
}
