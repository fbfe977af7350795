//! What a launcher says about the processes that it has started.

use isochron_devices::topology::HostPlace;

/// Environment variables in which launchers give the number of processes.
const SIZE_VARIABLES: [&str; 4] =
    ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PALS_SIZE", "SLURM_STEP_NUM_TASKS"];
/// Environment variables in which launchers give a process's index among those of its host, and their number.
const PLACE_VARIABLES: [[&str; 2]; 4] = [
    ["OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"],
    ["MPI_LOCALRANKID", "MPI_LOCALNRANKS"],
    ["PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE"],
    ["SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"],
];
/// Further variables that only a launcher sets.
const LAUNCH_VARIABLES: [&str; 4] =
    ["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "PALS_RANKID"];

/// Returns this process's rank as its launcher numbers it, before any communicator exists; 0 without a launcher.
pub fn launched_rank() -> usize {
    find_rank(&|name| std::env::var(name).ok()).unwrap_or(0)
}

/// Returns the rank that a launcher has put into the environment of a process.
fn find_rank(var: &dyn Fn(&str) -> Option<String>) -> Option<usize> {
    let mut names = LAUNCH_VARIABLES.iter().chain(&["SLURM_PROCID"]);
    names.find_map(|name| var(name)?.parse().ok())
}

/// Returns the rank that a launcher has given to a process with this environment, `NAME=VALUE` with zero bytes between them.
pub(crate) fn find_rank_in(environ: &[u8]) -> Option<usize> {
    let text = String::from_utf8_lossy(environ);
    find_rank(&|name| {
        text.split('\0')
            .filter_map(|variable| variable.split_once('='))
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value.to_owned())
    })
}

/// Returns this process's place among those that its launcher has started on this host, as the launcher says.
pub(crate) fn launched_place() -> Option<HostPlace> {
    find_place(&|name| std::env::var(name).ok())
}

fn find_place(var: &dyn Fn(&str) -> Option<String>) -> Option<HostPlace> {
    PLACE_VARIABLES.iter().find_map(|[index, count]| {
        let index: usize = var(index)?.parse().ok()?;
        // Slurm writes "2(x3)" for three hosts with two tasks each; hosts with other numbers follow after a comma.
        let count = var(count)?;
        let count = count
            .split(|c: char| !c.is_ascii_digit())
            .next()?
            .parse()
            .ok()
            .filter(|_| !count.contains(','))?;
        (index < count).then_some(HostPlace { index, count })
    })
}

/// Returns the number of processes that the launcher says it started; 0 if it does not say, `None` without a launcher.
pub fn launched_size() -> Option<usize> {
    find_size(&|name| std::env::var(name).ok())
}

fn find_size(var: &dyn Fn(&str) -> Option<String>) -> Option<usize> {
    let size = SIZE_VARIABLES.iter().find_map(|name| var(name)?.parse().ok());
    let launched = LAUNCH_VARIABLES.iter().any(|name| var(name).is_some());
    // A batch script of Slurm is itself a step of one task.
    size.filter(|&size| size > 1 || launched).or(launched.then_some(0))
}

#[cfg(test)]
mod tests {
    use super::{HostPlace, find_place, find_size};

    fn with<'a>(set: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
        |name| set.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_string())
    }

    #[test]
    fn the_place_on_a_host_is_what_the_launcher_says() {
        assert_eq!(find_place(&with(&[])), None);
        let open_mpi = [("OMPI_COMM_WORLD_LOCAL_RANK", "1"), ("OMPI_COMM_WORLD_LOCAL_SIZE", "4")];
        assert_eq!(find_place(&with(&open_mpi)), Some(HostPlace { index: 1, count: 4 }));
        let third = HostPlace { index: 2, count: 3 };
        for (tasks, place) in [("3(x2)", Some(third)), ("3(x2),1", None), ("2", None)] {
            let slurm = [("SLURM_LOCALID", "2"), ("SLURM_STEP_TASKS_PER_NODE", tasks)];
            assert_eq!(find_place(&with(&slurm)), place);
        }
    }

    #[test]
    fn launchers_are_recognised_by_what_they_set() {
        assert_eq!(find_size(&with(&[])), None);
        assert_eq!(find_size(&with(&[("OMPI_COMM_WORLD_SIZE", "4")])), Some(4));
        assert_eq!(find_size(&with(&[("PMI_SIZE", "2"), ("PMI_RANK", "1")])), Some(2));
        assert_eq!(find_size(&with(&[("PMIX_RANK", "0")])), Some(0));
        // Slurm without a process manager for MPI, and a batch script.
        assert_eq!(find_size(&with(&[("SLURM_STEP_NUM_TASKS", "8")])), Some(8));
        assert_eq!(find_size(&with(&[("SLURM_STEP_NUM_TASKS", "1")])), None);
    }
}
