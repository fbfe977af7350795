//! The software that the machine must have.

use crate::machine;
use crate::mpi::Library;

/// Software that the build or the tests take from the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// A C compiler: the MPI bindings compile a shim.
    CCompiler,
    /// pkg-config, by which the hwloc bindings find their library.
    PkgConfig,
    /// Open MPI: compiler, headers and launcher.
    OpenMpi,
    /// MPICH, likewise: the tests run under both.
    Mpich,
    /// libclang with its headers: the MPI bindings are generated.
    Libclang,
    /// hwloc with its headers.
    Hwloc,
    /// libudev, which a static description of hwloc may ask for at link time.
    Udev,
    /// The OpenBLAS shared library, opened at run time.
    OpenBlas,
    /// Python with numpy and venv, which checks the files that we write and tries the Python package.
    Numpy,
    /// `ip` and `tc`, which join the hosts of an emulated cluster; Linux has them alone.
    Iproute2,
    /// ScaLAPACK over Open MPI, with which the campaigns of peers compare.
    Scalapack,
    /// StarPU with headers, likewise.
    StarPu,
    /// valgrind, under which the tests run the whole path; on Linux.
    Valgrind,
    /// A Fortran compiler, with which the tests compile the Fortran module.
    Fortran,
    /// Chromium, in which the tests open reports of campaigns.
    Chromium,
    /// Slurm with munge, whose jobs run campaigns on emulated hosts; Linux has it alone.
    Slurm,
    /// JUBE, which runs its file for the command.
    Jube,
    /// SimGrid, which replays plans.
    SimGrid,
    /// umoci, which makes container images, and busybox in one file, their shell.
    Umoci,
}

/// The purpose for which the machine is prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Build and run with Open MPI.
    Run,
    /// Likewise, and make a container image.
    Image,
    /// Build the Python package with Open MPI and pack it.
    Wheel,
    /// Build the Python package without MPI and pack it.
    WheelWithoutMpi,
    /// Build with both MPI libraries and run every test.
    Test,
    /// Likewise, and all combinations and slow tests.
    TestAll,
    /// Emulate several hosts.
    Cluster,
    /// Build and run with Open MPI and compare with other programs, on emulated hosts too.
    Peers,
}

impl Need {
    /// Every need, in the order in which we name them.
    pub const ALL: [Self; 19] = [
        Self::CCompiler,
        Self::PkgConfig,
        Self::OpenMpi,
        Self::Mpich,
        Self::Libclang,
        Self::Hwloc,
        Self::Udev,
        Self::OpenBlas,
        Self::Numpy,
        Self::Iproute2,
        Self::Valgrind,
        Self::Fortran,
        Self::Chromium,
        Self::Scalapack,
        Self::StarPu,
        Self::Slurm,
        Self::Jube,
        Self::SimGrid,
        Self::Umoci,
    ];

    /// Returns its name for users.
    pub fn name(self) -> &'static str {
        match self {
            Self::CCompiler => "a C compiler (cc)",
            Self::PkgConfig => "pkg-config",
            Self::OpenMpi => "Open MPI: mpicc, headers and mpirun",
            Self::Mpich => "MPICH: mpicc, headers and mpirun",
            Self::Libclang => "libclang and clang",
            Self::Hwloc => "hwloc 2 with headers, 2.8 or newer",
            Self::Udev => "libudev with headers",
            Self::OpenBlas => "the OpenBLAS shared library",
            Self::Numpy => "Python 3.11 or later with numpy and venv",
            Self::Iproute2 => "iproute2: ip and tc",
            Self::Scalapack => "ScaLAPACK over Open MPI",
            Self::StarPu => "StarPU 1.3 with headers",
            Self::Valgrind => "valgrind",
            Self::Fortran => "a Fortran compiler (gfortran)",
            Self::Chromium => "Chromium",
            Self::Slurm => "Slurm and munge: slurmctld, slurmd, sbatch, munged",
            Self::Jube => "JUBE 2",
            Self::SimGrid => "SimGrid: smpirun",
            Self::Umoci => "umoci, and busybox linked statically",
        }
    }

    /// Returns `true` if the goal cannot be reached without it.
    ///
    /// A run falls back on the built-in BLAS, and its report says so. The tests skip emulated hosts and reports in a
    /// browser, and the reports of campaigns have missing peers among their failures; the peers themselves call OpenBLAS.
    pub fn is_required(self, goal: Goal) -> bool {
        match goal {
            Goal::Run | Goal::Image | Goal::Wheel => self != Self::OpenBlas,
            Goal::Test | Goal::TestAll => !matches!(self, Self::Iproute2 | Self::Chromium),
            Goal::Cluster | Goal::WheelWithoutMpi => true,
            Goal::Peers => !self.is_for_peers() && !matches!(self, Self::Iproute2 | Self::Chromium),
        }
    }

    fn is_for_peers(self) -> bool {
        matches!(self, Self::Scalapack | Self::StarPu)
    }

    fn is_for_whole_tests(self) -> bool {
        matches!(self, Self::Slurm | Self::Jube | Self::Chromium | Self::SimGrid | Self::Umoci)
    }

    fn is_wanted(self, goal: Goal) -> bool {
        match goal {
            Goal::Run => {
                let is_more = matches!(
                    self,
                    Self::Mpich | Self::Numpy | Self::Iproute2 | Self::Valgrind | Self::Fortran
                );
                !is_more && !self.is_for_peers() && !self.is_for_whole_tests()
            }
            Goal::Image => self == Self::Umoci || self.is_wanted(Goal::Run),
            Goal::Wheel => self == Self::Numpy || self.is_wanted(Goal::Run),
            Goal::WheelWithoutMpi => {
                matches!(self, Self::CCompiler | Self::PkgConfig | Self::Numpy)
            }
            Goal::Test => !self.is_for_peers() && !self.is_for_whole_tests(),
            Goal::TestAll => !self.is_for_peers(),
            Goal::Cluster => matches!(self, Self::CCompiler | Self::Iproute2),
            Goal::Peers => !matches!(
                self,
                Self::Mpich
                    | Self::Numpy
                    | Self::Valgrind
                    | Self::Fortran
                    | Self::Slurm
                    | Self::Jube
                    | Self::Chromium
                    | Self::SimGrid
                    | Self::Umoci
            ),
        }
    }

    fn is_met(self) -> bool {
        match self {
            Self::CCompiler => machine::can_run("cc", &["--version"]),
            Self::PkgConfig => machine::can_run("pkg-config", &["--version"]),
            Self::OpenMpi => Library::OpenMpi.find().is_some(),
            Self::Mpich => Library::Mpich.find().is_some(),
            // The compiler brings the headers of the language, without which libclang parses
            // nothing.
            Self::Libclang => {
                machine::has_library("libclang") && machine::can_run("clang", &["--version"])
            }
            Self::Hwloc => has_package("hwloc >= 2.8.0 hwloc < 3.0.0"),
            Self::Udev => !links_udev() || has_package("libudev"),
            Self::OpenBlas => machine::has_library("libopenblas"),
            Self::Numpy => find_python().is_some(),
            Self::Iproute2 => {
                let mut programs = ["ip", "tc"].into_iter();
                !cfg!(target_os = "linux")
                    || programs.all(|program| machine::can_run(program, &["-Version"]))
            }
            Self::Scalapack => SCALAPACK.iter().any(|stem| machine::has_library(stem)),
            Self::StarPu => has_package(STARPU),
            Self::Fortran => machine::can_run("gfortran", &["--version"]),
            Self::Chromium => find_browser().is_some(),
            Self::Slurm => {
                let mut daemons = ["slurmctld", "slurmd"].into_iter();
                // sbatch does not start without the configuration of a cluster.
                !cfg!(target_os = "linux")
                    || daemons.all(|daemon| machine::can_run(daemon, &["-V"]))
                        && machine::can_run("munged", &["--version"])
                        && machine::can_run("sh", &["-c", "command -v sbatch"])
            }
            Self::Jube => machine::can_run("jube", &["--version"]),
            Self::SimGrid => machine::can_run("smpirun", &["-version"]),
            // ldd fails on a static program.
            Self::Umoci => {
                let is_static = "program=$(command -v busybox) && ! ldd \"$program\"";
                machine::can_run("umoci", &["--version"])
                    && machine::can_run("sh", &["-c", is_static])
            }
            Self::Valgrind => {
                !cfg!(target_os = "linux") || machine::can_run("valgrind", &["--version"])
            }
        }
    }
}

/// Names of ScaLAPACK's library; Debian has one for each MPI library.
pub const SCALAPACK: [&str; 2] = ["libscalapack-openmpi", "libscalapack"];

/// The name of StarPU for pkg-config.
pub const STARPU: &str = "starpu-1.3";

/// Lists the needs of `goal` that the machine lacks, in a fixed order.
pub fn list_missing(goal: Goal) -> Vec<Need> {
    Need::ALL
        .into_iter()
        .filter(|need| need.is_wanted(goal))
        .filter(|need| !need.is_met())
        .collect()
}

/// Finds the first Python of these needs: named by `ISOCHRON_PYTHON`, first on `PATH`, the system's.
///
/// The one on `PATH` may not see the system's packages.
pub fn find_python() -> Option<String> {
    let chosen = machine::read_variable("ISOCHRON_PYTHON");
    let usual = ["python3", "/usr/bin/python3"].map(str::to_owned);
    let mut candidates = chosen.into_iter().chain(usual);
    let check = "import sys, numpy, ensurepip; assert sys.version_info >= (3, 11)";
    candidates.find(|python| machine::can_run(python, &["-c", check]))
}

/// Finds Chromium.
pub fn find_browser() -> Option<&'static str> {
    let mut names = ["chromium", "chromium-browser", "google-chrome"].into_iter();
    names.find(|name| machine::can_run(name, &["--version"]))
}

fn has_package(condition: &str) -> bool {
    machine::can_run("pkg-config", &["--exists", condition])
}

/// Without hwloc to ask, the answer is that of the hwloc which the system would install.
fn links_udev() -> bool {
    let flags = machine::read_output("pkg-config", &["--static", "--libs", "hwloc"]);
    flags.is_none_or(|flags| flags.split_whitespace().any(|flag| flag == "-ludev"))
}
