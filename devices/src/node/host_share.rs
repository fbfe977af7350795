//! The share of a host that a session gets beside others: ranks of other communicators, and sessions of the same process.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::share::share_cores;
use crate::contract::DeviceInfo;
use crate::cuda::CudaInfo;
use crate::host::topology::{HostPlace, Topology};

/// The processes and sessions among which a session divides its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, strum::Display, strum::EnumString)]
#[strum(
    serialize_all = "kebab-case",
    parse_err_ty = String,
    parse_err_fn = unknown_scope
)]
pub enum HostScope {
    /// All processes that the launcher has started on the host, and all sessions of this process. They may compute at the
    /// same time.
    #[default]
    World,
    /// The ranks of the session alone. The other processes and sessions wait while it computes, as in a program whose
    /// communicators take turns. The session then has the cores and GPUs that its ranks may use, and no other session leaves
    /// any to it.
    Comm,
}

fn unknown_scope(text: &str) -> String {
    format!("unknown scope {text}: use world or comm")
}

/// The shares of this process's sessions.
static CLAIMS: Mutex<Vec<HostClaim>> = Mutex::new(Vec::new());

/// The cores and GPUs of a session.
#[derive(Debug, Clone, Default, PartialEq)]
struct HostClaim {
    /// Number of the claim, which no other has.
    number: u64,
    /// Logical numbers of cores.
    cores: Vec<u32>,
    /// UUIDs of GPUs.
    gpus: Vec<String>,
}

/// The cores and GPUs that a session has until this value is dropped.
#[derive(Debug)]
pub struct HostShare {
    /// The number of its claim; `None` if the session makes none.
    number: Option<u64>,
}

impl HostShare {
    /// Takes the cores of the rank at `place` that no other session of this process has. Returns the host with these cores
    /// alone, and the place on it.
    ///
    /// If the others have them all, the sessions share them, and their devices take turns. The same holds for ranks that
    /// share their cores with other ranks. A session of the scope [`HostScope::Comm`] takes the cores of its rank.
    pub fn take(
        topology: Arc<Topology>,
        place: HostPlace,
        scope: HostScope,
        notices: &mut Vec<String>,
    ) -> (Self, Arc<Topology>, HostPlace) {
        if scope == HostScope::Comm {
            return (Self { number: None }, topology, place);
        }
        let mut claims = lock_claims();
        let number = 1 + claims.iter().map(|claim| claim.number).max().unwrap_or(0);
        let cores = topology.affordable_cores();
        let mut mine = share_cores(&cores, place.count).swap_remove(place.index);
        let all = mine.len();
        mine.retain(|core| !claims.iter().any(|claim| claim.cores.contains(&core.core)));
        claims.push(HostClaim {
            number,
            cores: mine.iter().map(|core| core.core).collect(),
            gpus: Vec::new(),
        });
        let share = Self { number: Some(number) };
        if mine.len() == all {
            return (share, topology, place);
        }
        if mine.is_empty() {
            let notice = "other sessions of this process have all of its cores: they take turns";
            notices.push(notice.to_owned());
            return (share, topology, place);
        }
        let pus: Vec<u32> = mine.into_iter().flat_map(|core| core.pus).collect();
        match Arc::try_unwrap(topology) {
            Ok(topology) => {
                let topology = Arc::new(topology.with_allowed_pus(&pus));
                (share, topology, HostPlace::ALONE)
            }
            Err(topology) => (share, topology, place),
        }
    }

    /// Keeps the cores and GPUs of these devices, and gives back the others.
    pub fn keep(&self, devices: &[DeviceInfo], gpus: impl Iterator<Item = String>) {
        let cores = devices
            .iter()
            .filter(|device| !device.clock.tolerates_sharing())
            .flat_map(|device| &device.cores)
            .copied();
        let (cores, gpus) = (cores.collect(), gpus.collect());
        let Some(number) = self.number else {
            return;
        };
        let kept = HostClaim { number, cores, gpus };
        let mut claims = lock_claims();
        claims.retain(|claim| claim.number != number);
        claims.push(kept);
    }
}

impl Drop for HostShare {
    fn drop(&mut self) {
        lock_claims().retain(|claim| Some(claim.number) != self.number);
    }
}

/// Leaves out the GPUs that other sessions of this process have.
pub(super) fn leave_out_claimed(gpus: &mut Vec<CudaInfo>) {
    let claims = lock_claims();
    gpus.retain(|gpu| !claims.iter().any(|claim| claim.gpus.contains(&gpu.uuid)));
}

fn lock_claims() -> MutexGuard<'static, Vec<HostClaim>> {
    CLAIMS.lock().unwrap_or_else(PoisonError::into_inner)
}
