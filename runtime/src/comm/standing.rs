//! The place of a process among others: started by a launcher, or by a program that is a rank itself.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use super::launched::{find_rank_in, launched_size};

/// The beginnings of the names of programs that start ranks: those of Open MPI, PRRTE, MPICH, Slurm, Cray, IBM, Flux and MVAPICH.
const LAUNCHERS: [&str; 13] = [
    "mpirun",
    "mpiexec",
    "orte",
    "prte",
    "prun",
    "hydra_",
    "pmi_proxy",
    "slurmstepd",
    "palsd",
    "apinit",
    "jsmd",
    "flux-shell",
    "mpispawn",
];

/// Most words of a command line among which the program that a loader runs is looked for.
const LOADER_WORDS: usize = 8;

/// The relation of this process to the launcher whose variables it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// There are no such variables.
    Free,
    /// The process is a rank, started by a launcher, perhaps through a shell or another wrapper.
    Rank,
    /// The process was started by a program with MPI, which is a rank itself.
    Within {
        /// Name of that program.
        program: String,
        /// Its process number.
        process: u32,
    },
    /// No launcher is found among the ancestors, so the variables may be left over from an earlier job.
    Unknown,
}

/// A process above this one.
#[derive(Debug, Clone)]
struct Ancestor {
    process: u32,
    name: String,
    /// `true` if a launcher has given it a rank.
    has_rank: bool,
    /// `true` if the code of an MPI library lies in its memory.
    has_mpi: bool,
}

/// Returns the place of this process. Only the first call looks for it.
pub fn find_standing() -> &'static Standing {
    static FOUND: OnceLock<Standing> = OnceLock::new();
    FOUND.get_or_init(|| match launched_size() {
        None => Standing::Free,
        Some(_) => judge(list_ancestors()),
    })
}

/// Returns `true` if a launcher that is still there has started other ranks besides this one, or may have.
pub fn has_other_ranks() -> bool {
    *find_standing() == Standing::Rank && launched_size() != Some(1)
}

/// Judges by the ancestors, the nearest first.
fn judge(ancestors: impl Iterator<Item = Ancestor>) -> Standing {
    for ancestor in ancestors {
        if is_launcher(&ancestor.name) {
            return Standing::Rank;
        }
        if ancestor.has_mpi {
            return Standing::Within { program: ancestor.name, process: ancestor.process };
        }
        // This process has set the variables itself.
        if !ancestor.has_rank {
            break;
        }
    }
    Standing::Unknown
}

fn is_launcher(name: &str) -> bool {
    LAUNCHERS.iter().any(|launcher| name.starts_with(launcher))
}

/// Lists the processes above this one, as far as the system shows them.
fn list_ancestors() -> impl Iterator<Item = Ancestor> {
    let own = std::process::id();
    std::iter::successors(find_parent(own), |&process| find_parent(process)).map(|process| {
        let folder = Path::new("/proc").join(process.to_string());
        Ancestor {
            process,
            name: read_name(&folder),
            has_rank: fs::read(folder.join("environ"))
                .is_ok_and(|bytes| find_rank_in(&bytes).is_some()),
            has_mpi: fs::read_to_string(folder.join("maps")).is_ok_and(|maps| runs_mpi(&maps)),
        }
    })
}

/// Returns the parent of a process; `None` for the first process, and where the system does not tell.
fn find_parent(process: u32) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name before the fields may hold brackets.
    let parent: u32 = text.rsplit(") ").next()?.split(' ').nth(1)?.parse().ok()?;
    (parent > 0).then_some(parent)
}

/// Returns the name of a process. That of a program which a loader runs stands in its command line.
fn read_name(folder: &Path) -> String {
    let name = fs::read_to_string(folder.join("comm")).unwrap_or_default();
    if !name.starts_with("ld-") {
        return name.trim_end().to_owned();
    }
    let words = fs::read(folder.join("cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&words)
        .split('\0')
        .take(LOADER_WORDS)
        .filter_map(|word| Path::new(word).file_name()?.to_str())
        .find(|name| is_launcher(name))
        .unwrap_or(&name)
        .trim_end()
        .to_owned()
}

/// Returns `true` if a list of mapped memory has the code of an MPI library. A debugger maps such files to read them only.
fn runs_mpi(maps: &str) -> bool {
    maps.lines().any(|line| {
        let is_code = line.split(' ').nth(1).is_some_and(|it| it.contains('x'));
        let file = line.rsplit('/').next().unwrap_or_default();
        is_code && file.starts_with("libmpi") && file.contains(".so")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ancestor(name: &str, has_rank: bool, has_mpi: bool) -> Ancestor {
        Ancestor { process: 7, name: name.to_owned(), has_rank, has_mpi }
    }

    #[test]
    fn a_rank_is_below_a_launcher_and_below_no_other_rank() {
        let within = Standing::Within { program: "solver".to_owned(), process: 7 };
        let (shell, solver) = (ancestor("sh", true, false), ancestor("solver", true, true));
        let (mpirun, login) = (ancestor("mpirun", false, false), ancestor("bash", false, false));
        for (ancestors, standing) in [
            (vec![mpirun.clone()], Standing::Rank),
            (vec![shell.clone(), mpirun.clone()], Standing::Rank),
            // A job that a rank of another job has started.
            (vec![ancestor("hydra_pmi_proxy", true, false), solver.clone()], Standing::Rank),
            (vec![solver.clone(), mpirun.clone()], within.clone()),
            (vec![shell.clone(), solver, mpirun.clone()], within),
            (vec![login.clone(), mpirun], Standing::Unknown),
            (vec![shell, login], Standing::Unknown),
            (vec![], Standing::Unknown),
        ] {
            assert_eq!(judge(ancestors.clone().into_iter()), standing, "{ancestors:?}");
        }
    }

    #[test]
    fn code_of_mpi_is_told_from_a_file_that_is_read() {
        let code = "7f00-7f10 r-xp 00000000 08:01 3 /usr/lib/x86_64-linux-gnu/libmpi.so.40.30.4";
        assert!(runs_mpi(&format!("7f-80 rw-p 0 0:0 0\n{code}\n")));
        assert!(runs_mpi(&code.replace("libmpi.so.40.30.4", "libmpich.so.12.2.1")));
        assert!(!runs_mpi(&code.replace("r-xp", "r--p")));
        assert!(!runs_mpi(&code.replace("libmpi.so", "libm.so")));
    }

    #[test]
    fn the_system_shows_the_parent() {
        let parent = std::os::unix::process::parent_id();
        assert_eq!(find_parent(std::process::id()), Some(parent));
        let first = list_ancestors().next().unwrap();
        assert!(first.process == parent && !first.name.is_empty(), "{first:?}");
    }
}
