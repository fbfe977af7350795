//! The travel of panels: with relays or without, few or many steps ahead, and after a device has failed. Functions are as in
//! [`cases`](crate::cases).

use std::cmp::Ordering;

use isochron::comm::Comm;
use isochron::multiply::{Plan, Problem, Scalars, multiply};
use isochron_devices::{
    Depth, DeviceError, DeviceInfo, DeviceTeam, Element, JobNeeds, JobShape, PanelPair, UpdateTime,
    Updates, ViewMut, Worker,
};
use isochron_hierarchy::layout::slice_cols;
use isochron_hierarchy::predict::{Links, Traffic};

use crate::cases::{Case, assert_counted, cpu, integers, plan_on, plan_on_nth, scale, team};
use crate::covering::{Coverage, LIBRARIES};

const SCALARS: Scalars = scale(2.0, -1.0);

/// Links without latency, which favour relays to more than two ranks, and links of nothing but latency, which never do.
const LINKS: [Links; 2] = [
    Links {
        latency_s: 0.0,
        bytes_per_s: 1e9,
    },
    Links {
        latency_s: 1.0,
        bytes_per_s: 1e30,
    },
];

/// The steps of [`in_slices`].
const STEPS: usize = 12;

/// Plans a slice of columns of C for each rank, so that all need the same panels of A. Each rank holds the same number of
/// panels.
fn in_slices(comm: &dyn Comm) -> Plan {
    let n = comm.size();
    let problem = Problem::new(40, 24 * n, 8 * STEPS, 4).unwrap();
    let problem = problem.with_panel(8).unwrap();
    let (rows, cols) = problem.c_blocks();
    let layout = slice_cols(rows, &vec![cols / n as u64; n]).unwrap();
    plan_on(problem, layout)
}

/// Numbers the ranks of a step: from the one that holds the panel on, the others by rank.
fn member_in_step(plan: &Plan, step: usize, rank: usize) -> usize {
    let a = plan.a();
    let mut ranks = 0..a.n_ranks();
    let holder = ranks.find(|&other| a.part(other).col_range().contains(&(8 * step)));
    match rank.cmp(&holder.unwrap()) {
        Ordering::Less => rank + 1,
        Ordering::Equal => 0,
        Ordering::Greater => rank,
    }
}

/// Counts the members that a member of a binomial tree of `n` passes a piece on to.
fn count_passed_on(member: usize, n: usize) -> usize {
    let rounds = (0..usize::BITS).map(|round| 1_usize << round);
    rounds
        .filter(|&round| round > member && member + round < n)
        .count()
}

/// Counts the messages of each rank. If the links favour relays, each piece is passed on in a binomial tree, and each rank
/// receives it once.
pub fn relays(comm: &dyn Comm) -> usize {
    let (n, rank) = (comm.size(), comm.rank());
    for (links, is_passed_on) in LINKS.into_iter().zip([true, false]) {
        let plan = in_slices(comm).with_links(links);
        let members = (0..STEPS).map(|step| member_in_step(&plan, step, rank));
        let sent = members.map(|member| match (is_passed_on && n > 3, member) {
            (true, member) => count_passed_on(member, n),
            (false, 0) => n - 1,
            (false, _) => 0,
        });
        let expected: usize = sent.sum();
        let problem = *plan.problem();
        let mut case: Case = Case::new(comm, plan, integers);
        let execution = case.multiply(comm, &mut team(), SCALARS);
        case.assert_reference(SCALARS, comm);
        assert_eq!(execution.messages as usize, expected, "rank {rank} of {n}");
        let mut sent = [execution.bytes];
        comm.sum_u64(&mut sent);
        assert_eq!(sent[0] as usize, 8 * problem.m() * problem.k() * (n - 1));
    }
    LINKS.len()
}

/// Multiplies with few and many steps ahead, more than there are, with pieces passed on and not. Every element is right,
/// and the traffic is that predicted where pieces are whole.
pub fn steps_ahead(comm: &dyn Comm, coverage: Coverage) -> usize {
    let mut team = team();
    let all = coverage.rows_of_library(comm, [LINKS.len(), 7, 5, LIBRARIES.len()]);
    for &[links, ahead, layout, _] in &all {
        let ahead = ahead + 2;
        let plan = match layout {
            4 => in_slices(comm),
            given => {
                let problem = Problem::new(61, 59, 67, 4).unwrap().with_panel(5).unwrap();
                plan_on_nth(comm, problem, given)
            }
        };
        let plan = plan.with_links(LINKS[links]).with_lookahead(ahead);
        assert_eq!(plan.lookahead(), ahead);
        let whole = plan.problem().k() == 8 * STEPS;
        let predicted = 8.0 * Traffic::total(&plan.traffic()).elements;
        let mut case: Case = Case::new(comm, plan, integers);
        let execution = case.multiply(comm, &mut team, SCALARS);
        case.assert_reference(SCALARS, comm);
        assert_counted(comm, &case.plan, &execution);
        let mut sent = [execution.bytes];
        comm.sum_u64(&mut sent);
        assert!(!whole || (sent[0] as f64 - predicted).abs() < 1.0);
    }
    all.len()
}

/// The call in which a device fails.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Fails {
    Begin,
    Update(usize),
    Finish,
}

/// A device that fails at one call.
struct Failing {
    inner: Box<dyn Worker>,
    at: Fails,
    updates: usize,
}

impl Failing {
    fn fail(&self, now: Fails) -> Result<(), DeviceError> {
        if self.at != now {
            return Ok(());
        }
        Err(DeviceError::Panic("made to fail".to_owned()))
    }
}

impl Worker for Failing {
    fn info(&self) -> &DeviceInfo {
        self.inner.info()
    }

    fn job_needs(&self, job: &JobShape) -> JobNeeds {
        self.inner.job_needs(job)
    }
}

impl<T: Element> Updates<T> for Failing {
    fn begin(&mut self, c: ViewMut<'_, T>, depth: Depth) -> Result<UpdateTime, DeviceError> {
        self.fail(Fails::Begin)?;
        T::updates(self.inner.as_mut()).begin(c, depth)
    }

    fn update_ahead(
        &mut self,
        alpha: T,
        panels: PanelPair<'_, T>,
        next: Option<PanelPair<'_, T>>,
        c: ViewMut<'_, T>,
    ) -> Result<UpdateTime, DeviceError> {
        self.fail(Fails::Update(self.updates))?;
        self.updates += 1;
        T::updates(self.inner.as_mut()).update_ahead(alpha, panels, next, c)
    }

    fn finish(&mut self, c: ViewMut<'_, T>) -> Result<UpdateTime, DeviceError> {
        self.fail(Fails::Finish)?;
        T::updates(self.inner.as_mut()).finish(c)
    }
}

/// Makes two devices; the second one fails on one rank.
pub(crate) fn failing_team(comm: &dyn Comm, at: Fails) -> DeviceTeam {
    let mut workers = [cpu("first"), cpu("second")];
    if comm.rank() == comm.size() / 2 {
        let [first, second] = workers;
        let second = Failing {
            inner: second,
            at,
            updates: 0,
        };
        workers = [first, Box::new(second)];
    }
    DeviceTeam::new(workers.into()).unwrap()
}

/// Lets a device of one rank fail at the beginning, in the middle or at the end. All ranks leave with its name, none waits,
/// and the next multiplication is right.
pub fn failing_devices(comm: &dyn Comm) -> usize {
    let all = [
        Fails::Begin,
        Fails::Update(0),
        Fails::Update(STEPS / 2),
        Fails::Finish,
    ];
    for (links, at) in LINKS.iter().flat_map(|links| all.map(|at| (links, at))) {
        let mut failing_team = failing_team(comm, at);
        let plan = in_slices(comm).with_links(*links).with_lookahead(4);
        let mut case: Case = Case::new(comm, plan, integers);
        let operands = (&case.a, &case.b);
        let outcome = multiply(
            comm,
            &mut failing_team,
            &case.plan,
            SCALARS,
            operands,
            &mut case.c,
        );
        let error = outcome.unwrap_err().to_string();
        assert!(
            error.contains("second") && error.contains("made to fail"),
            "{error}"
        );
        let mut again: Case = Case::new(comm, case.plan, integers);
        again.multiply(comm, &mut team(), SCALARS);
        again.assert_reference(SCALARS, comm);
    }
    LINKS.len() * all.len()
}
