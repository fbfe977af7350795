//! The communicator of a process, from what its launcher says.

use std::sync::Arc;

use isochron_core::Error;
#[cfg(feature = "mpi")]
use isochron_core::comm::agree_on_settings;
use isochron_core::comm::{Comm, LocalComm};
use isochron_core::internal::{Standing, find_standing, launched_size};

#[cfg(feature = "mpi")]
use super::mpi::{self, MpiComm};

/// The environment variable that decides between MPI and one local rank.
const COMM_VARIABLE: &str = "ISOCHRON_COMM";

/// Returns the communicator that this process was launched with: MPI under a launcher (`mpirun`, `srun`), otherwise one
/// local rank. The environment variable `ISOCHRON_COMM` (`mpi` or `local`), if set, decides; processes of one launcher
/// that it makes local are jobs of their own.
///
/// A launcher's variables may be left over from an earlier job, or come from a program that is a rank and has started this
/// one. So the processes above this one are looked at, on systems that show them.
///
/// # Errors
/// Returns [`Error::Launcher`] when the launcher belongs to another MPI library than the program; [`Error::WithinMpi`]
/// when a program that is a rank of a job has started this one; [`Error::Forked`] in a forked child of a process that
/// has met MPI; [`Error::Parameter`] when `ISOCHRON_COMM` is neither value, or asks for MPI in a build without it;
/// [`Error::Settings`] when it is not the same for all processes of a launcher.
///
/// # Collective
/// All processes of the job.
pub fn connect() -> Result<Arc<dyn Comm>, Error> {
    let choice = std::env::var(COMM_VARIABLE).ok();
    let choice = choice.as_deref().filter(|choice| !choice.is_empty());
    match find_standing() {
        // The ranks of a job compare their choices, by MPI.
        Standing::Rank => {}
        _ if choice == Some("mpi") => {}
        standing => {
            let is_local = !is_for_mpi(choice)?;
            if is_local || *standing == Standing::Free {
                return Ok(Arc::new(LocalComm::new()));
            }
            // A forked child of a rank is below a program with MPI as well.
            #[cfg(feature = "mpi")]
            mpi::check_home()?;
            if let Standing::Within { program, process } = standing {
                return Err(Error::WithinMpi { program: program.clone(), process: *process });
            }
        }
    }
    connect_launched(launched_size().unwrap_or(0), choice)
}

/// Makes a panic in any thread of this process end the whole job, for programs in which a rank that panics cannot be done without.
///
/// It installs a panic hook, which holds for the whole process. Without it, the other ranks get [`Error::Rank`] from their next
/// call that waits for the rank that panicked.
pub fn abort_on_panic() {
    #[cfg(feature = "mpi")]
    mpi::abort_on_panic();
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
        return Err(Error::Launcher { launched, library: comm.implementation().to_string() });
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
