//! The communicator of a process, from what its launcher says.

use std::sync::Arc;

use super::contract::Comm;
use super::local::LocalComm;
#[cfg(feature = "mpi")]
use super::mpi::MpiComm;
#[cfg(feature = "mpi")]
use super::settings::agree_on_settings;
use crate::error::Error;

/// Environment variables in which launchers give the number of processes.
const SIZE_VARIABLES: [&str; 4] = [
    "OMPI_COMM_WORLD_SIZE",
    "PMI_SIZE",
    "PALS_SIZE",
    "SLURM_STEP_NUM_TASKS",
];
/// Environment variables in which launchers give a process's index among those of its host, and their number.
const PLACE_VARIABLES: [[&str; 2]; 4] = [
    ["OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"],
    ["MPI_LOCALRANKID", "MPI_LOCALNRANKS"],
    ["PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE"],
    ["SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"],
];
/// Further variables that only a launcher sets.
const LAUNCH_VARIABLES: [&str; 4] = [
    "OMPI_COMM_WORLD_RANK",
    "PMIX_RANK",
    "PMI_RANK",
    "PALS_RANKID",
];

/// Returns this process's rank as its launcher numbers it, before any communicator exists; 0 without a launcher.
pub fn launched_rank() -> usize {
    LAUNCH_VARIABLES
        .iter()
        .chain(&["SLURM_PROCID"])
        .find_map(|name| std::env::var(name).ok()?.parse().ok())
        .unwrap_or(0)
}

/// Returns this process's index among those that its launcher has started on this host, and their number, as the launcher says.
pub(crate) fn launched_place() -> Option<(usize, usize)> {
    find_place(&|name| std::env::var(name).ok())
}

fn find_place(var: &dyn Fn(&str) -> Option<String>) -> Option<(usize, usize)> {
    PLACE_VARIABLES.iter().find_map(|[index, count]| {
        let index: usize = var(index)?.parse().ok()?;
        // Slurm writes "2(x3)" for three hosts with two tasks each; hosts with other numbers follow after a comma.
        let count = var(count)?;
        let digits = count.split(|c: char| !c.is_ascii_digit()).next()?;
        let count = digits.parse().ok().filter(|_| !count.contains(','))?;
        (index < count).then_some((index, count))
    })
}

/// Returns the number of processes that the launcher says it started; 0 if it does not say, `None` without a launcher.
fn launched_size(var: &dyn Fn(&str) -> Option<String>) -> Option<usize> {
    let size = SIZE_VARIABLES
        .iter()
        .find_map(|name| var(name)?.parse().ok());
    let launched = LAUNCH_VARIABLES.iter().any(|name| var(name).is_some());
    // A batch script of Slurm is itself a step of one task.
    size.filter(|&size| size > 1 || launched)
        .or(launched.then_some(0))
}

/// The environment variable that decides between MPI and one local rank.
const COMM_VARIABLE: &str = "ISOCHRON_COMM";

/// Returns the communicator that this process was launched with: MPI under a launcher (`mpirun`, `srun`), otherwise one
/// local rank. The environment variable `ISOCHRON_COMM` (`mpi` or `local`), if set, decides; processes of one launcher
/// that it makes local are jobs of their own.
///
/// # Errors
/// [`Error::Launcher`] when the launcher belongs to another MPI library than the program;
/// [`Error::Parameter`] when `ISOCHRON_COMM` is neither value, or asks for MPI in a build without it;
/// [`Error::Settings`] when it is not the same for all processes of a launcher.
///
/// # Collective
/// All processes of the job.
pub fn connect() -> Result<Arc<dyn Comm>, Error> {
    let launched = launched_size(&|name| std::env::var(name).ok());
    let choice = std::env::var(COMM_VARIABLE).ok();
    let choice = choice.as_deref().filter(|choice| !choice.is_empty());
    if launched.is_none() && choice != Some("mpi") {
        is_for_mpi(choice)?;
        return Ok(Arc::new(LocalComm::new()));
    }
    connect_launched(launched.unwrap_or(0), choice)
}

/// Makes a panic in any thread of this process end the whole job, for programs in which a rank that panics cannot be done without.
///
/// It installs a panic hook, which holds for the whole process. Without it, the other ranks get [`Error::Rank`] from their next
/// call that waits for the rank that panicked.
pub fn abort_on_panic() {
    #[cfg(feature = "mpi")]
    super::mpi::abort_on_panic();
}

/// Reads the value of the variable. Returns `true` for MPI, and if there is none.
fn is_for_mpi(choice: Option<&str>) -> Result<bool, Error> {
    match choice {
        None | Some("mpi") => Ok(true),
        Some("local") => Ok(false),
        Some(other) => Err(Error::Parameter {
            name: COMM_VARIABLE,
            value: other.to_string(),
            reason: "use mpi or local".to_string(),
        }),
    }
}

/// Connects to the other processes. A process with another choice than they have would never answer them, so the
/// choices are compared by MPI even if they are all for local ranks.
#[cfg(feature = "mpi")]
fn connect_launched(launched: usize, choice: Option<&str>) -> Result<Arc<dyn Comm>, Error> {
    let comm = MpiComm::initialize()?;
    let settings = choice.map(|choice| (COMM_VARIABLE.to_owned(), choice.to_owned()));
    agree_on_settings(&comm, &settings.into_iter().collect())?;
    if !is_for_mpi(choice)? {
        return Ok(Arc::new(LocalComm::new()));
    }
    if comm.size() == 1 && launched > 1 {
        return Err(Error::Launcher {
            launched,
            library: comm.implementation().to_string(),
        });
    }
    Ok(comm.into())
}

#[cfg(not(feature = "mpi"))]
fn connect_launched(_launched: usize, choice: Option<&str>) -> Result<Arc<dyn Comm>, Error> {
    if !is_for_mpi(choice)? {
        return Ok(Arc::new(LocalComm::new()));
    }
    Err(Error::Parameter {
        name: COMM_VARIABLE,
        value: "mpi".to_string(),
        reason: "this build has no MPI (feature mpi)".to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::{find_place, launched_size};

    fn with<'a>(set: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
        |name| {
            set.iter()
                .find(|(n, _)| *n == name)
                .map(|(_, v)| (*v).to_string())
        }
    }

    #[test]
    fn the_place_on_a_host_is_what_the_launcher_says() {
        assert_eq!(find_place(&with(&[])), None);
        let open_mpi = [
            ("OMPI_COMM_WORLD_LOCAL_RANK", "1"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "4"),
        ];
        assert_eq!(find_place(&with(&open_mpi)), Some((1, 4)));
        for (tasks, place) in [("3(x2)", Some((2, 3))), ("3(x2),1", None), ("2", None)] {
            let slurm = [("SLURM_LOCALID", "2"), ("SLURM_STEP_TASKS_PER_NODE", tasks)];
            assert_eq!(find_place(&with(&slurm)), place);
        }
    }

    #[test]
    fn launchers_are_recognised_by_what_they_set() {
        assert_eq!(launched_size(&with(&[])), None);
        assert_eq!(
            launched_size(&with(&[("OMPI_COMM_WORLD_SIZE", "4")])),
            Some(4)
        );
        assert_eq!(
            launched_size(&with(&[("PMI_SIZE", "2"), ("PMI_RANK", "1")])),
            Some(2)
        );
        assert_eq!(launched_size(&with(&[("PMIX_RANK", "0")])), Some(0));
        // Slurm without a process manager for MPI, and a batch script.
        assert_eq!(
            launched_size(&with(&[("SLURM_STEP_NUM_TASKS", "8")])),
            Some(8)
        );
        assert_eq!(launched_size(&with(&[("SLURM_STEP_NUM_TASKS", "1")])), None);
    }
}
