//! The travel of panels: with relays or without, few or many steps ahead, and after a device has failed. Functions are
//! as in [`cases`](crate::cases).

use std::sync::Arc;

use isochron::comm::Comm;
use isochron::plan::{Plan, Problem};
use isochron::product::Scalars;
use isochron::session::Session;
use isochron_hierarchy::layout::slice_cols;
use isochron_hierarchy::network::{MessageCurve, Network, Traffic, Uplink};
use isochron_hierarchy::predict::panel_traffic;

use crate::cases::{Case, assert_counted, integers, open, plan_on, plan_on_nth, scale};
use crate::covering::{Coverage, LIBRARIES};
use crate::disturbed::{DeviceCall, failing_team};

const SCALARS: Scalars = scale(2.0, -1.0);

/// Number of [networks](make_network).
const NETWORKS: usize = 3;

/// Makes a network without latency, which favours relays to more than two ranks; one of nothing but latency, which never does; or
/// that in two groups, so that one rank of a group passes on what others of it need.
fn make_network(number: usize, ranks: usize) -> Network {
    match number {
        0 => Network::flat(0.0, 1e9),
        2 if ranks > 1 => {
            let [even, odd]: [Vec<usize>; 2] =
                [0, 1].map(|first| (first..ranks).step_by(2).collect());
            let uplinks = [even, odd].map(|ranks| Uplink { ranks, bytes_per_s: 1e6 });
            Network::grouped(vec![MessageCurve::line(1.0, 1e30); 2], uplinks.to_vec())
        }
        _ => Network::flat(1.0, 1e30),
    }
}

/// The steps of [`in_slices`].
const STEPS: usize = 12;

/// Plans a slice of columns of C for each rank, so that all need the same panels of A. Each rank holds the same number
/// of panels.
fn in_slices(comm: &dyn Comm) -> Plan {
    let n = comm.size();
    let problem = Problem::new(40, 24 * n, 8 * STEPS, 4).unwrap();
    let problem = problem.with_panel(8).unwrap();
    let (rows, cols) = problem.c_blocks();
    let layout = slice_cols(rows, &vec![cols / n as u64; n]).unwrap();
    plan_on(problem, layout)
}

/// Numbers the ranks of a step: from the one that holds the panel on, and from the first one again.
fn member_in_step(plan: &Plan, step: usize, rank: usize) -> usize {
    let a = plan.a();
    let mut ranks = 0..a.n_ranks();
    let holder = ranks.find(|&other| a.part(other).col_range().contains(&(8 * step)));
    (rank + a.n_ranks() - holder.unwrap()) % a.n_ranks()
}

/// Counts the members that a member of a binomial tree of `n` passes a piece on to.
fn count_passed_on(member: usize, n: usize) -> usize {
    (0..usize::BITS)
        .map(|round| 1_usize << round)
        .filter(|&round| round > member && member + round < n)
        .count()
}

/// Counts the messages of each rank. If the links favour relays, each piece is passed on in a binomial tree, and each
/// rank receives it once.
pub fn relays(shared: &Arc<dyn Comm>) -> usize {
    let comm = shared.as_ref();
    let (n, rank) = (comm.size(), comm.rank());
    for (network, is_passed_on) in [true, false].into_iter().enumerate() {
        let plan = in_slices(comm).with_network(make_network(network, n));
        let sent = (0..STEPS).map(|step| member_in_step(&plan, step, rank)).map(|member| {
            match (is_passed_on && n > 3, member) {
                (true, member) => count_passed_on(member, n),
                (false, 0) => n - 1,
                (false, _) => 0,
            }
        });
        let expected: usize = sent.sum();
        let problem = *plan.problem();
        let mut case: Case = Case::new(comm, plan, integers);
        let execution = case.multiply(&mut open(shared), SCALARS);
        case.assert_reference(SCALARS, comm);
        assert_eq!(execution.messages as usize, expected, "rank {rank} of {n}");
        let mut sent = [execution.bytes];
        comm.sum_u64(&mut sent).unwrap();
        assert_eq!(sent[0] as usize, 8 * problem.m() * problem.k() * (n - 1));
    }
    2
}

/// Multiplies with few and many steps ahead, more than there are, with pieces passed on and not. Every element is
/// right, and the traffic is that predicted where pieces are whole.
pub fn steps_ahead(shared: &Arc<dyn Comm>, coverage: Coverage) -> usize {
    let comm = shared.as_ref();
    let mut session = open(shared);
    let all = coverage.rows_of_library(comm, [NETWORKS, 7, 5, LIBRARIES.len()]);
    for &[network, ahead, layout, _] in &all {
        let ahead = ahead + 2;
        let plan = match layout {
            4 => in_slices(comm),
            given => {
                let problem = Problem::new(61, 59, 67, 4).unwrap().with_panel(5).unwrap();
                plan_on_nth(comm, problem, given)
            }
        };
        let plan = plan.with_network(make_network(network, comm.size())).with_lookahead(ahead);
        assert_eq!(plan.lookahead(), ahead);
        let problem = plan.problem();
        let whole = problem.k() == 8 * STEPS;
        let received = panel_traffic(plan.layout(), problem.block(), problem.k(), plan.panel());
        let predicted = 8.0 * Traffic::total(&received).elements;
        let mut case: Case = Case::new(comm, plan, integers);
        let execution = case.multiply(&mut session, SCALARS);
        case.assert_reference(SCALARS, comm);
        assert_counted(comm, &case.plan, &execution);
        let mut sent = [execution.bytes];
        comm.sum_u64(&mut sent).unwrap();
        assert!(!whole || (sent[0] as f64 - predicted).abs() < 1.0);
    }
    all.len()
}

/// Lets a device of one rank fail at the beginning, in the middle or at the end. All ranks leave with its name, none
/// waits, and the next multiplication is right.
pub fn failing_devices(shared: &Arc<dyn Comm>) -> usize {
    let comm = shared.as_ref();
    let all = [
        DeviceCall::Begin,
        DeviceCall::Update(0),
        DeviceCall::Update(STEPS / 2),
        DeviceCall::Finish,
    ];
    for (network, at) in (0..NETWORKS).flat_map(|network| all.map(|at| (network, at))) {
        let team = failing_team(comm, at);
        let mut session = Session::of_team(Arc::clone(shared), team);
        let plan =
            in_slices(comm).with_network(make_network(network, comm.size())).with_lookahead(4);
        let mut case: Case = Case::new(comm, plan, integers);
        let error = case.run(&mut session, SCALARS).unwrap_err().to_string();
        assert!(error.contains("second") && error.contains("made to fail"), "{error}");
        let mut again: Case = Case::new(comm, case.plan, integers);
        again.multiply(&mut open(shared), SCALARS);
        again.assert_reference(SCALARS, comm);
    }
    NETWORKS * all.len()
}
