//! The `Comm` contract: how ranks talk to each other.
//!
//! Two implementations: [`LocalComm`], one rank and no MPI, and [`MpiComm`](mpi::MpiComm). Everything above
//! this module is written against `&dyn Comm` and runs the same on both.
//!
//! Waiting never spins for long: a rank's calling thread shares its cores with the devices, so an
//! implementation polls with growing pauses instead of burning the core that should compute.

mod agree;
mod links;
mod local;
#[cfg(feature = "mpi")]
#[allow(
    unsafe_code,
    reason = "the one place of this crate that calls a system library"
)]
pub mod mpi;
mod pause;
#[allow(
    unsafe_code,
    reason = "messages in flight refer to memory that a value keeps from everybody else"
)]
mod transfer;

pub use agree::agree;
pub(crate) use agree::largest;
pub use links::{core_s_per_byte, measure_links};
pub use local::LocalComm;
pub(crate) use pause::Pause;
pub use transfer::{InFlight, Incoming, MAX_TAG, Message, Outgoing, Span, Transfer, exchange};

use crate::error::Error;

/// How the ranks of a session talk to each other.
///
/// An MPI error ends the whole job (the library's default handler): no method reports one. Every method but
/// [`rank`](Comm::rank), [`size`](Comm::size), [`host`](Comm::host), [`implementation`](Comm::implementation),
/// [`start`](Comm::start) and [`abort`](Comm::abort) is collective: all ranks call it, in the same order.
pub trait Comm {
    /// This rank, `0 <= rank < size`.
    fn rank(&self) -> usize;

    /// Number of ranks, at least 1.
    fn size(&self) -> usize;

    /// Name of the host this rank runs on.
    fn host(&self) -> &str;

    /// Name and version of the message-passing library.
    fn implementation(&self) -> &str;

    /// Returns when every rank has called it.
    ///
    /// # Collective
    /// All ranks.
    fn barrier(&self);

    /// Replaces `data` on every rank by `root`'s.
    ///
    /// # Collective
    /// All ranks, with the same `root`.
    fn broadcast(&self, root: usize, data: &mut Vec<u8>);

    /// Every rank's `data`, by rank.
    ///
    /// # Collective
    /// All ranks; lengths may differ.
    fn all_gather(&self, data: &[u8]) -> Vec<Vec<u8>>;

    /// Replaces `values` by their sums over all ranks.
    ///
    /// # Collective
    /// All ranks, with the same length.
    fn sum_f64(&self, values: &mut [f64]);

    /// Replaces `values` by their sums over all ranks, modulo 2⁶⁴.
    ///
    /// # Collective
    /// All ranks, with the same length.
    fn sum_u64(&self, values: &mut [u64]);

    /// Starts to receive and to send; returns at once. Messages with one tag between one pair of ranks arrive in the order in
    /// which both list them, call after call. What is received is sent on where that is asked for. Not collective. [`Transfer`] and [`exchange`] are the safe ways to it.
    ///
    /// # Safety
    /// The memory of the messages stays allocated until they are done, which they are when the returned value says so or
    /// has been dropped. Until then nobody writes what is sent, or touches what is received, and what is received
    /// overlaps no other message.
    #[allow(
        unsafe_code,
        reason = "memory that is lent until an event has no safe signature"
    )]
    unsafe fn start(&self, sends: &[Span], recvs: &[Span]) -> Box<dyn InFlight + '_>;

    /// Ends every rank of the job at once.
    fn abort(&self, status: i32) -> !;
}

/// Environment variables by which launchers tell a process how many of them there are.
const SIZE_VARIABLES: [&str; 4] = [
    "OMPI_COMM_WORLD_SIZE",
    "PMI_SIZE",
    "PALS_SIZE",
    "SLURM_STEP_NUM_TASKS",
];
/// Further variables that only a launcher sets.
const LAUNCH_VARIABLES: [&str; 4] = [
    "OMPI_COMM_WORLD_RANK",
    "PMIX_RANK",
    "PMI_RANK",
    "PALS_RANKID",
];

/// This process's rank as its launcher numbers it, before any communicator exists; 0 without a launcher.
pub fn launched_rank() -> usize {
    let names = LAUNCH_VARIABLES.iter().chain(&["SLURM_PROCID"]);
    let rank = |name: &&str| std::env::var(name).ok()?.parse().ok();
    names.into_iter().find_map(rank).unwrap_or(0)
}

/// How many processes the launcher says it started; `None` without a launcher.
fn launched_size(var: &dyn Fn(&str) -> Option<String>) -> Option<usize> {
    let size = SIZE_VARIABLES
        .iter()
        .find_map(|name| var(name)?.parse().ok());
    let launched = LAUNCH_VARIABLES.iter().any(|name| var(name).is_some());
    // A batch script of Slurm is a step of one task by itself.
    size.filter(|&size| size > 1 || launched)
        .or(launched.then_some(0))
}

/// The communicator this process was launched with: MPI under a launcher (`mpirun`, `srun`), otherwise one
/// local rank. The environment variable `ISOCHRON_COMM` (`mpi` or `local`) decides where it is set.
///
/// # Errors
/// [`Error::Launcher`] when the launcher belongs to another MPI library than the program;
/// [`Error::Parameter`] when `ISOCHRON_COMM` is neither value, or asks for MPI in a build without it.
///
/// # Collective
/// All processes of the job.
pub fn connect() -> Result<Box<dyn Comm>, Error> {
    let launched = launched_size(&|name| std::env::var(name).ok());
    let choice = std::env::var("ISOCHRON_COMM").ok();
    let use_mpi = match choice.as_deref() {
        None | Some("") => launched.is_some(),
        Some("mpi") => true,
        Some("local") => false,
        Some(other) => {
            return Err(Error::Parameter {
                name: "ISOCHRON_COMM",
                value: other.to_string(),
                reason: "use mpi or local".to_string(),
            });
        }
    };
    if !use_mpi {
        return Ok(Box::new(LocalComm::new()));
    }
    connect_mpi(launched.unwrap_or(0))
}

#[cfg(feature = "mpi")]
fn connect_mpi(launched: usize) -> Result<Box<dyn Comm>, Error> {
    let comm = mpi::MpiComm::initialize()?;
    if comm.size() == 1 && launched > 1 {
        return Err(Error::Launcher {
            launched,
            library: comm.implementation().to_string(),
        });
    }
    Ok(Box::new(comm))
}

#[cfg(not(feature = "mpi"))]
fn connect_mpi(_launched: usize) -> Result<Box<dyn Comm>, Error> {
    Err(Error::Parameter {
        name: "ISOCHRON_COMM",
        value: "mpi".to_string(),
        reason: "this build has no MPI (feature mpi)".to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::launched_size;

    fn with<'a>(set: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
        |name| {
            set.iter()
                .find(|(n, _)| *n == name)
                .map(|(_, v)| (*v).to_string())
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
