//! The memory of hosts, which is counted before it is used.

use std::collections::BTreeMap;

use isochron_devices::internal::{MemoryBound, MemoryScope, memory_bounds};
use isochron_devices::measure::UpdateOperands;
use isochron_devices::{DeviceTeam, JobShape, Scalar};
use serde::{Deserialize, Serialize};

use super::Plan;
use crate::comm::{Comm, agree};
use crate::error::Error;

/// A rank's need of host memory.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct MemoryNeed {
    /// Bytes that it cannot do without.
    pub bytes: u64,
    /// Bytes that its devices hold already, and use again or give back first.
    pub held: u64,
    /// Number of devices that gather panels in whatever memory they may use.
    pub gathering: usize,
}

#[derive(Serialize, Deserialize)]
struct RankDemand {
    host: String,
    need: MemoryNeed,
    bounds: Vec<MemoryBound>,
}

/// The ranks that share a memory: a host, the part of it that a bound covers, and the rank if the bound is its own.
type PoolKey = (String, MemoryScope, Option<usize>);

/// The bytes available in each memory of a job.
pub(crate) type AvailableMemory = BTreeMap<PoolKey, u64>;

/// A memory, and the demand of all ranks that share it.
#[derive(Debug, Clone, Copy, Default)]
struct MemoryPool {
    needed: u64,
    free: u64,
    held: u64,
    gathering: usize,
    /// The largest need of a rank in bytes, and that rank.
    most: (u64, usize),
}

impl MemoryPool {
    /// Returns the free memory, and what devices hold of it already, which comes back.
    fn available(&self) -> u64 {
        self.free.saturating_add(self.held)
    }

    fn lacking_bytes(&self) -> u64 {
        self.needed.saturating_sub(self.available())
    }
}

/// Refuses a need that does not fit one of these bounds together with the needs of the other ranks that share it. Returns the
/// bytes that each gathering device of this rank may use of the memory left.
///
/// # Errors
/// Returns [`Error::Memory`] on every rank, for the memory that lacks most.
///
/// # Collective
/// All ranks.
pub(crate) fn share_memory(
    comm: &dyn Comm,
    need: MemoryNeed,
    bounds: &[MemoryBound],
) -> Result<u64, Error> {
    let pools = sum_by_pool(gather_demands(comm, need, bounds)?);
    refuse_excess(&pools, &AvailableMemory::new())?;
    Ok(find_rest(comm, bounds, &pools))
}

/// Returns the bytes left for each gathering device of this rank.
fn find_rest(
    comm: &dyn Comm,
    bounds: &[MemoryBound],
    pools: &BTreeMap<PoolKey, MemoryPool>,
) -> u64 {
    bounds
        .iter()
        .map(|bound| &pools[&pool_key(comm.host(), bound, comm.rank())])
        .map(|pool| (pool.available() - pool.needed) / pool.gathering.max(1) as u64)
        .min()
        .unwrap_or(u64::MAX)
}

/// Returns the key of the memory that a rank's bound covers.
fn pool_key(host: &str, bound: &MemoryBound, rank: usize) -> PoolKey {
    let own = (bound.scope == MemoryScope::Process).then_some(rank);
    (host.to_owned(), bound.scope.clone(), own)
}

/// Checks that the host has room for `bytes` of this rank and for its devices' needs on these slices, before any of it is
/// taken. Devices that gather in host memory are limited to the memory left after the matrices, whatever they had before.
/// Returns the memory that is available, which an error compares with what was `planned`.
///
/// # Errors
/// Returns [`Error::Memory`] on every rank, if not even the devices' least need is left.
///
/// # Collective
/// All ranks, with the same `planned`.
pub(crate) fn make_room(
    comm: &dyn Comm,
    team: &mut DeviceTeam,
    bytes: u64,
    job: &JobShape,
    slices: &[usize],
    planned: &AvailableMemory,
) -> Result<AvailableMemory, Error> {
    let gpus = team.infos().iter().filter(|device| device.kind.has_own_memory());
    let need = MemoryNeed { bytes, held: team.memory_held(), gathering: gpus.count() };
    // Read once: memory granted now must not be refused below because another program took a little in between.
    let bounds = memory_bounds();
    let pools = sum_by_pool(gather_demands(comm, need, &bounds)?);
    refuse_excess(&pools, planned)?;
    team.limit_memory(find_rest(comm, &bounds, &pools));
    let of_devices = team.memory_needed(job, slices).map_err(Error::from);
    let bytes = bytes.saturating_add(agree(comm, of_devices)?);
    let pools = sum_by_pool(gather_demands(comm, MemoryNeed { bytes, ..need }, &bounds)?);
    refuse_excess(&pools, planned)?;
    Ok(pools.into_iter().map(|(key, pool)| (key, pool.available())).collect())
}

/// Checks that each rank's host has room for another `bytes`.
///
/// # Errors
/// Returns [`Error::Memory`] on every rank, for the memory that lacks most.
///
/// # Collective
/// All ranks.
pub(crate) fn check_room(comm: &dyn Comm, bytes: u64) -> Result<(), Error> {
    let need = MemoryNeed { bytes, ..MemoryNeed::default() };
    share_memory(comm, need, &memory_bounds()).map(drop)
}

/// Looks at the memory again just before the matrices of a plan are made: other programs may have taken some since it was
/// [planned](fit_to_memory).
///
/// # Errors
/// Returns [`Error::Memory`] on every rank, with the memory that was available then.
///
/// # Collective
/// All ranks, with the same plan.
pub(crate) fn look_again(comm: &dyn Comm, team: &mut DeviceTeam, plan: &Plan) -> Result<(), Error> {
    let rank = comm.rank();
    let (job, slices) = (plan.job_shape(rank), plan.slices(rank));
    let none = AvailableMemory::new();
    let planned = plan.available().unwrap_or(&none);
    make_room(comm, team, plan.memory_bytes(rank), &job, &slices, planned).map(drop)
}

/// Makes room for updates of this job on every rank, then writes their operands: writing matrices would disturb ranks that
/// measure already.
///
/// # Collective
/// All ranks.
pub(crate) fn prepare_operands<T: Scalar>(
    comm: &dyn Comm,
    team: &mut DeviceTeam,
    operands: &mut UpdateOperands<T>,
    job: &JobShape,
    slices: &[usize],
) -> Result<(), Error> {
    let (rows, cols, width) = (job.rows, job.cols, job.depth.k_max);
    let missing = operands.missing_bytes(rows, cols, width);
    make_room(comm, team, missing, job, slices, &AvailableMemory::new())?;
    let prepared = operands.prepare(team, job, slices);
    agree(comm, prepared.map_err(Error::from))
}

/// Returns the plan, or the first [leaner](Plan::make_leaner) one with the same shares for which [`make_room`] finds
/// memory, with the memory that was available. `count_lent` counts the bytes of matrices that this rank holds already.
///
/// # Errors
/// Returns [`Error::Memory`] on every rank, for the leanest.
///
/// # Collective
/// All ranks.
pub(crate) fn fit_to_memory(
    comm: &dyn Comm,
    team: &mut DeviceTeam,
    mut plan: Plan,
    count_lent: &dyn Fn(&Plan) -> u64,
) -> Result<Plan, Error> {
    let (rank, planned) = (comm.rank(), AvailableMemory::new());
    loop {
        let (job, slices) = (plan.job_shape(rank), plan.slices(rank));
        let bytes = plan.memory_bytes(rank).saturating_sub(count_lent(&plan));
        let refused = match make_room(comm, team, bytes, &job, &slices, &planned) {
            Err(error @ Error::Memory { .. }) => error,
            done => return done.map(|available| plan.with_available(available)),
        };
        plan = plan.make_leaner().ok_or(refused)?;
        tracing::info!(
            panel = plan.panel(),
            lookahead = plan.lookahead(),
            "memory is short: planning with less"
        );
    }
}

/// Returns every rank's demand, by rank.
fn gather_demands(
    comm: &dyn Comm,
    need: MemoryNeed,
    bounds: &[MemoryBound],
) -> Result<Vec<RankDemand>, Error> {
    comm.gather(&RankDemand { host: comm.host().to_string(), need, bounds: bounds.to_vec() })
}

/// Sums the demands up for each memory.
fn sum_by_pool(demands: Vec<RankDemand>) -> BTreeMap<PoolKey, MemoryPool> {
    let mut pools: BTreeMap<PoolKey, MemoryPool> = BTreeMap::new();
    for (rank, RankDemand { host, need, bounds }) in demands.into_iter().enumerate() {
        for bound in bounds {
            let pool = pools.entry(pool_key(&host, &bound, rank));
            let pool = pool.or_insert(MemoryPool { free: u64::MAX, ..MemoryPool::default() });
            pool.needed = pool.needed.saturating_add(need.bytes);
            pool.free = pool.free.min(bound.bytes);
            pool.held += need.held;
            pool.gathering += need.gathering;
            pool.most = pool.most.max((need.bytes, rank));
        }
    }
    pools
}

fn refuse_excess(
    pools: &BTreeMap<PoolKey, MemoryPool>,
    planned: &AvailableMemory,
) -> Result<(), Error> {
    match pools
        .iter()
        .max_by_key(|(_, pool)| pool.lacking_bytes())
        .filter(|(_, pool)| pool.lacking_bytes() > 0)
    {
        Some((key, pool)) => Err(Error::Memory {
            host: key.0.clone(),
            rank: Some(pool.most.1),
            needed_bytes: pool.needed,
            available_bytes: pool.available(),
            bound: key.1.clone(),
            planned_bytes: planned.get(key).copied(),
        }),
        None => Ok(()),
    }
}

/// Returns the bytes that the ranks of each host can use together: at most those of the host, and at most the sum of the
/// tightest bounds of its ranks. Each bound counts once.
fn sum_available(demands: &[RankDemand]) -> BTreeMap<&str, u64> {
    let mut hosts: BTreeMap<&str, (u64, BTreeMap<PoolKey, u64>)> = BTreeMap::new();
    for (rank, demand) in demands.iter().enumerate() {
        let (whole, tightest) = hosts.entry(&demand.host).or_insert((u64::MAX, BTreeMap::new()));
        let of_host = demand.bounds.iter().find(|bound| bound.scope == MemoryScope::Host);
        *whole = of_host.map_or(*whole, |bound| bound.bytes.min(*whole));
        match demand.bounds.iter().min_by_key(|bound| bound.bytes) {
            Some(bound) => tightest.insert(pool_key(&demand.host, bound, rank), bound.bytes),
            None => tightest.insert((String::new(), MemoryScope::Host, None), u64::MAX),
        };
    }
    hosts
        .into_iter()
        .map(|(host, (whole, tightest))| {
            let sum = tightest.into_values().fold(0, u64::saturating_add);
            (host, sum.min(whole))
        })
        .collect()
}

/// Refuses a problem whose matrices are larger than the memory of all hosts together.
///
/// # Errors
/// Returns [`Error::Memory`] on every rank.
///
/// # Collective
/// All ranks.
pub(crate) fn check_total(comm: &dyn Comm, needed: u64) -> Result<(), Error> {
    let all = gather_demands(comm, MemoryNeed::default(), &memory_bounds())?;
    let hosts = sum_available(&all);
    let available = hosts.values().copied().fold(0, u64::saturating_add);
    if needed <= available {
        return Ok(());
    }
    Err(Error::Memory {
        host: match hosts.len() {
            1 => hosts.into_keys().collect(),
            n => format!("group ({n} hosts together)"),
        },
        rank: None,
        needed_bytes: needed,
        available_bytes: available,
        bound: MemoryScope::Host,
        planned_bytes: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(host: &str, need: MemoryNeed, available: u64) -> RankDemand {
        limited(host, need, &[(MemoryScope::Host, available)])
    }

    fn limited(host: &str, need: MemoryNeed, bounds: &[(MemoryScope, u64)]) -> RankDemand {
        let bounds = bounds.iter().cloned();
        RankDemand {
            host: host.to_string(),
            need,
            bounds: bounds.map(|(scope, bytes)| MemoryBound { scope, bytes }).collect(),
        }
    }

    fn bytes(bytes: u64) -> MemoryNeed {
        MemoryNeed { bytes, ..MemoryNeed::default() }
    }

    fn refused(demands: Vec<RankDemand>) -> Option<(String, Option<usize>, u64, u64)> {
        match refuse_excess(&sum_by_pool(demands), &AvailableMemory::new()) {
            Ok(()) => None,
            Err(Error::Memory { host, rank, needed_bytes, available_bytes, .. }) => {
                Some((host, rank, needed_bytes, available_bytes))
            }
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn a_change_that_no_host_has_memory_for_is_refused() {
        let comm = crate::comm::LocalComm::new();
        assert!(check_room(&comm, 1).is_ok());
        let refused = check_room(&comm, u64::MAX / 2);
        assert!(
            memory_bounds().is_empty() || matches!(refused, Err(Error::Memory { .. })),
            "{refused:?}"
        );
    }

    #[test]
    fn ranks_of_one_host_share_its_memory() {
        let apart = vec![demand("a", bytes(60), 100), demand("b", bytes(60), 100)];
        assert_eq!(refused(apart), None);
        let together = vec![
            demand("b", bytes(60), 100),
            demand("a", bytes(50), 100),
            demand("a", bytes(70), 99),
        ];
        assert_eq!(refused(together), Some(("a".to_string(), Some(2), 120, 99)));
    }

    #[test]
    fn memory_that_others_took_since_the_plan_is_said() {
        let planned = sum_by_pool(vec![demand("a", bytes(0), 900 << 20)]);
        let planned: AvailableMemory =
            planned.into_iter().map(|(key, pool)| (key, pool.available())).collect();
        let now = sum_by_pool(vec![demand("a", bytes(500 << 20), 300 << 20)]);
        let error = refuse_excess(&now, &planned).unwrap_err().to_string();
        assert_eq!(
            error,
            "host a lacks 200 MiB: the plan needs 500 MiB there, most of it by rank 0, and 300 MiB are available; 900 MiB \
             were when it was planned, so other programs have taken memory since"
        );
        let own = limited("a", bytes(2 << 20), &[(MemoryScope::Process, 1 << 20)]);
        let error = refuse_excess(&sum_by_pool(vec![own]), &planned).unwrap_err();
        let error = error.to_string();
        assert!(error.ends_with("under the limit on the address space (`ulimit -v`)"), "{error}");
    }

    /// Limits the address space of this process to `bytes` more than it has.
    #[cfg(target_os = "linux")]
    fn limit_growth(bytes: u64) {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let kib = status
            .lines()
            .find_map(|line| line.strip_prefix("VmSize:"))
            .unwrap()
            .split_whitespace()
            .next()
            .unwrap();
        let limit = Rlimit {
            current: Some(1024 * kib.parse::<u64>().unwrap() + bytes),
            ..getrlimit(Resource::As)
        };
        setrlimit(Resource::As, limit).unwrap();
    }

    /// Makes a plan, loses the memory for it, looks again and tells the error, if the environment names a file for it.
    #[cfg(target_os = "linux")]
    #[test]
    fn losing_memory() {
        use crate::prelude::*;
        let Some(told) = std::env::var_os("MEMORY_TEST_TELLS") else {
            return;
        };
        limit_growth(1 << 30);
        let mut session =
            Session::builder().blas(BlasChoice::Embedded).build(LocalComm::new()).unwrap();
        let balance = BalanceConfig { strategy: Strategy::Homogeneous, ..BalanceConfig::default() };
        // Threads that have computed have started, which takes memory too.
        let plan = session.plan(Problem::new(64, 64, 64, 32).unwrap(), &balance).unwrap();
        let a: Matrix = Matrix::zeros(plan.a(), 0).unwrap();
        let b = Matrix::zeros(plan.b(), 0).unwrap();
        let mut product = session.prepare(plan, RunConfig::default()).unwrap();
        let mut c = product.zeros(&mut session).unwrap();
        let factors = Factors::of(&a, &b);
        product.run(&mut session, Scalars::PRODUCT, factors, &mut c).unwrap();
        let problem = Problem::new(2048, 2048, 2048, 32).unwrap();
        let plan = session.plan(problem, &balance).unwrap();
        session.check_memory(&plan).unwrap();
        limit_growth(64 << 20);
        let error = session.check_memory(&plan).unwrap_err();
        std::fs::write(told, error.to_string()).unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_plan_that_no_longer_fits_is_refused_with_both_numbers() {
        let told = tempfile::NamedTempFile::new().unwrap();
        let own = std::env::current_exe().unwrap();
        let mut child = std::process::Command::new(own);
        child.args(["--exact", "plan::host_memory::tests::losing_memory"]);
        let output = child.env("MEMORY_TEST_TELLS", told.path()).output().unwrap();
        let text = std::fs::read_to_string(told.path()).unwrap();
        for part in [
            "lacks ",
            "are available under the limit on the address space (`ulimit -v`); ",
            "were when it was planned, so other programs have taken memory since",
        ] {
            assert!(text.contains(part), "{text}: {output:?}");
        }
    }

    #[test]
    fn a_rank_with_a_limit_of_its_own_is_compared_with_that() {
        let host = (MemoryScope::Host, 100);
        let bounds = [host, (MemoryScope::Process, 50)];
        // The limits of the ranks are not the host's: 40 + 40 bytes fit it, though not the limit of one rank.
        for (second, refusal) in [(40, None), (51, Some(("a".to_string(), Some(1), 51, 50)))] {
            let both = [40, second].map(|need| limited("a", bytes(need), &bounds));
            assert_eq!(sum_available(&both), BTreeMap::from([("a", 100)]));
            assert_eq!(refused(both.into()), refusal);
        }
    }

    #[test]
    fn ranks_of_a_control_group_share_its_limit() {
        let host = (MemoryScope::Host, 1000);
        let [together, apart] = [7, 8].map(|second| {
            let [one, other] = [7, second].map(|inode| (MemoryScope::Group(1, inode), 100));
            vec![
                limited("a", bytes(500), std::slice::from_ref(&host)),
                limited("a", bytes(60), &[host.clone(), one]),
                limited("a", bytes(50), &[host.clone(), other]),
            ]
        });
        assert_eq!(refused(apart), None);
        assert_eq!(sum_available(&together[1..]), BTreeMap::from([("a", 100)]));
        let refusal = Some(("a".to_string(), Some(1), 110, 100));
        assert_eq!(refused(together), refusal);
    }

    #[test]
    fn what_devices_hold_is_not_needed_again() {
        let lacking = Some(("a".to_string(), Some(0), 80, 79));
        for (held, refusal) in [(30, None), (29, lacking)] {
            let need = MemoryNeed { held, ..bytes(80) };
            let demands = vec![demand("a", need, 50), demand("a", bytes(0), 50)];
            assert_eq!(refused(demands), refusal);
        }
    }

    #[test]
    fn what_is_left_is_shared_by_the_devices_that_gather() {
        let comm = crate::comm::LocalComm::new();
        let need = MemoryNeed { bytes: 1 << 20, held: 0, gathering: 2 };
        let bounds = memory_bounds();
        let before = isochron_devices::memory_available_bytes().unwrap_or(u64::MAX);
        let each = share_memory(&comm, need, &bounds).unwrap();
        // Other programs take memory and give it back meanwhile.
        if before < u64::MAX {
            assert!(each < before && each > before / 8, "{each} of {before}");
        }
        let too_much = MemoryNeed { bytes: u64::MAX / 2, ..need };
        if before < u64::MAX {
            let text = share_memory(&comm, too_much, &bounds).unwrap_err().to_string();
            assert!(text.contains("most of it by rank 0"), "{text}");
        }
    }
}
