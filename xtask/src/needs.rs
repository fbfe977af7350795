//! What the machine must have, and how each is recognised.

use crate::mpi::Library;
use crate::probe::Probe;

/// One thing that the build or the tests take from the system.
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
    /// Python with numpy, which checks the files that we write.
    Numpy,
    /// `ip` and `tc`, which join the hosts of an emulated cluster; Linux has them alone.
    Iproute2,
    /// ScaLAPACK over Open MPI, with which the campaign `peers` compares.
    Scalapack,
    /// StarPU with headers, likewise.
    StarPu,
    /// valgrind, under which the tests run the whole path; on Linux.
    Valgrind,
}

/// What the machine is prepared for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Build and run with Open MPI.
    Run,
    /// Build with both MPI libraries and run every test.
    Test,
    /// Emulate several hosts.
    Cluster,
    /// Build and run with Open MPI beside other people's programs, on emulated hosts too.
    Peers,
}

impl Need {
    /// Every need, in the order in which we name them.
    pub const ALL: [Self; 13] = [
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
        Self::Scalapack,
        Self::StarPu,
    ];

    /// What to call it before a user.
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
            Self::Numpy => "Python 3 with numpy",
            Self::Iproute2 => "iproute2: ip and tc",
            Self::Scalapack => "ScaLAPACK over Open MPI",
            Self::StarPu => "StarPU 1.3 with headers",
            Self::Valgrind => "valgrind",
        }
    }

    /// Whether the goal cannot be reached without it.
    ///
    /// A run falls back on the built-in BLAS, and says so in its report; the tests skip emulated hosts where they
    /// cannot have them, and say so too. So does the campaign without a peer that it cannot have; those that it can have
    /// call OpenBLAS.
    pub fn is_required(self, goal: Goal) -> bool {
        match goal {
            Goal::Run => self != Self::OpenBlas,
            Goal::Test => self != Self::Iproute2,
            Goal::Cluster => true,
            Goal::Peers => !self.is_for_peers() && self != Self::Iproute2,
        }
    }

    fn is_for_peers(self) -> bool {
        matches!(self, Self::Scalapack | Self::StarPu)
    }

    fn is_wanted(self, goal: Goal) -> bool {
        match goal {
            Goal::Run => {
                let is_more = matches!(
                    self,
                    Self::Mpich | Self::Numpy | Self::Iproute2 | Self::Valgrind
                );
                !is_more && !self.is_for_peers()
            }
            Goal::Test => !self.is_for_peers(),
            Goal::Cluster => matches!(self, Self::CCompiler | Self::Iproute2),
            Goal::Peers => !matches!(self, Self::Mpich | Self::Numpy | Self::Valgrind),
        }
    }

    fn is_met(self, probe: &dyn Probe) -> bool {
        match self {
            Self::CCompiler => probe.runs("cc", &["--version"]),
            Self::PkgConfig => probe.runs("pkg-config", &["--version"]),
            Self::OpenMpi => Library::OpenMpi.find(probe).is_some(),
            Self::Mpich => Library::Mpich.find(probe).is_some(),
            // The compiler brings the headers of the language, without which libclang parses
            // nothing.
            Self::Libclang => probe.has_library("libclang") && probe.runs("clang", &["--version"]),
            Self::Hwloc => has_package(probe, "hwloc >= 2.8.0 hwloc < 3.0.0"),
            Self::Udev => !links_udev(probe) || has_package(probe, "libudev"),
            Self::OpenBlas => probe.has_library("libopenblas"),
            Self::Numpy => python(probe).is_some(),
            Self::Iproute2 => {
                let has = |program| probe.runs(program, &["-Version"]);
                !cfg!(target_os = "linux") || (has("ip") && has("tc"))
            }
            Self::Scalapack => SCALAPACK.iter().any(|stem| probe.has_library(stem)),
            Self::StarPu => has_package(probe, STARPU),
            Self::Valgrind => !cfg!(target_os = "linux") || probe.runs("valgrind", &["--version"]),
        }
    }
}

/// What ScaLAPACK's library is called: Debian tells those of the MPI libraries apart.
pub const SCALAPACK: [&str; 2] = ["libscalapack-openmpi", "libscalapack"];

/// What pkg-config calls StarPU.
pub const STARPU: &str = "starpu-1.3";

/// Everything that `goal` wants and the machine lacks, in a fixed order.
pub fn missing(goal: Goal, probe: &dyn Probe) -> Vec<Need> {
    let wanted = Need::ALL.into_iter().filter(|need| need.is_wanted(goal));
    wanted.filter(|need| !need.is_met(probe)).collect()
}

/// The first Python that imports numpy: named by `ISOCHRON_PYTHON`, first on `PATH`, the system's.
///
/// The one on `PATH` may be an interpreter of its own, which does not see the system's packages.
pub fn python(probe: &dyn Probe) -> Option<String> {
    let chosen = probe.variable("ISOCHRON_PYTHON");
    let usual = ["python3", "/usr/bin/python3"].map(str::to_owned);
    let mut candidates = chosen.into_iter().chain(usual);
    candidates.find(|python| probe.runs(python, &["-c", "import numpy"]))
}

fn has_package(probe: &dyn Probe, condition: &str) -> bool {
    probe.runs("pkg-config", &["--exists", condition])
}

/// Without hwloc to ask, the answer is that of the hwloc which the system would install.
fn links_udev(probe: &dyn Probe) -> bool {
    let flags = probe.output("pkg-config", &["--static", "--libs", "hwloc"]);
    flags.is_none_or(|flags| flags.split_whitespace().any(|flag| flag == "-ludev"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::Fake;

    /// A Debian machine with everything, whose own Python lacks numpy.
    fn complete() -> Fake {
        Fake {
            outputs: vec![
                ("cc --version", "cc"),
                ("pkg-config --version", "1.8"),
                (
                    "mpicc.openmpi -dM -E -include mpi.h -x c /dev/null",
                    "#define OPEN_MPI 1",
                ),
                ("mpirun.openmpi --version", "(OpenRTE) 4.1.4"),
                (
                    "mpicc.mpich -dM -E -include mpi.h -x c /dev/null",
                    "#define MPICH_NAME 4",
                ),
                ("mpirun.mpich --version", "HYDRA build details:"),
                ("clang --version", "clang"),
                ("pkg-config --exists hwloc >= 2.8.0 hwloc < 3.0.0", ""),
                ("pkg-config --static --libs hwloc", "-lhwloc -lm -ludev"),
                ("pkg-config --exists libudev", ""),
                ("/usr/bin/python3 -c import numpy", ""),
                ("ip -Version", "ip utility"),
                ("tc -Version", "tc utility"),
                ("valgrind --version", "valgrind-3.19.0"),
            ],
            libraries: vec!["libclang", "libopenblas"],
            variables: vec![],
        }
    }

    fn without(command: &str) -> Fake {
        let mut machine = complete();
        let before = machine.outputs.len();
        machine.outputs.retain(|(line, _)| *line != command);
        assert_eq!(machine.outputs.len(), before - 1, "{command}");
        machine
    }

    #[test]
    fn complete_machine_misses_nothing() {
        assert_eq!(missing(Goal::Test, &complete()), []);
        assert_eq!(
            python(&complete()).as_deref(),
            Some("/usr/bin/python3"),
            "the interpreter that has numpy"
        );
    }

    #[test]
    fn bare_machine_misses_everything_the_goal_wants() {
        let bare = Fake::default();
        let for_test = missing(Goal::Test, &bare);
        assert_eq!(for_test, Need::ALL[..for_test.len()]);
        assert_eq!(for_test.len(), Need::ALL.len() - 2);
        let for_run = missing(Goal::Run, &bare);
        assert_eq!(for_run.len(), for_test.len() - 4);
        assert!(!for_run.contains(&Need::Mpich) && !for_run.contains(&Need::Numpy));
        assert_eq!(
            missing(Goal::Cluster, &bare),
            [Need::CCompiler, Need::Iproute2]
        );
    }

    #[test]
    fn each_absence_is_seen_alone() {
        for (command, need) in [
            ("cc --version", Need::CCompiler),
            ("mpirun.openmpi --version", Need::OpenMpi),
            ("mpirun.mpich --version", Need::Mpich),
            ("clang --version", Need::Libclang),
            (
                "pkg-config --exists hwloc >= 2.8.0 hwloc < 3.0.0",
                Need::Hwloc,
            ),
            ("pkg-config --exists libudev", Need::Udev),
            ("/usr/bin/python3 -c import numpy", Need::Numpy),
            ("tc -Version", Need::Iproute2),
            ("valgrind --version", Need::Valgrind),
        ] {
            assert_eq!(missing(Goal::Test, &without(command)), [need], "{command}");
        }
    }

    #[test]
    fn udev_is_needed_only_where_hwloc_links_it() {
        let mut machine = without("pkg-config --exists libudev");
        for (line, text) in &mut machine.outputs {
            if *line == "pkg-config --static --libs hwloc" {
                *text = "-lhwloc -lm";
            }
        }
        assert_eq!(missing(Goal::Test, &machine), []);
    }

    #[test]
    fn a_run_does_without_openblas_and_the_tests_do_not() {
        assert!(!Need::OpenBlas.is_required(Goal::Run));
        assert!(Need::OpenBlas.is_required(Goal::Test));
        assert!(Need::Hwloc.is_required(Goal::Run));
    }

    #[test]
    fn the_campaign_wants_peers_and_does_without_them() {
        let peers = [Need::Scalapack, Need::StarPu];
        assert_eq!(missing(Goal::Peers, &complete()), peers);
        assert!(peers.iter().all(|need| !need.is_required(Goal::Peers)));
        let mut machine = complete();
        machine.libraries.push("libscalapack-openmpi");
        machine.outputs.push(("pkg-config --exists starpu-1.3", ""));
        assert_eq!(missing(Goal::Peers, &machine), []);
    }

    #[test]
    fn tests_do_without_iproute2_and_emulated_hosts_do_not() {
        assert!(!Need::Iproute2.is_required(Goal::Test));
        assert!(Need::Iproute2.is_required(Goal::Cluster));
    }
}
