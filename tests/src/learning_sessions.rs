//! Sessions whose multiplications learn, and plans of them that are kept. Functions are as in [`cases`](crate::cases).

use std::path::Path;
use std::sync::Arc;

use isochron::Error;
use isochron::comm::{Comm, agree};
use isochron::matrix::Op;
use isochron::plan::{PartOfK, Plan, Problem};
use isochron::product::{Execution, Factors, RunConfig, Scalars};
use isochron::session::Session;
use isochron_devices::BlasChoice;
use isochron_hierarchy::balance::{BalanceConfig, Strategy};
use isochron_hierarchy::learn::Tuning;
use isochron_hierarchy::problem::Split;

use crate::cases::{Case, SEEDS, integers, scale};
use crate::parts::make;

const SCALARS: Scalars = scale(-2.0, 3.0);

/// Makes a session with two unlike devices on each rank. They have the times of models, which are far longer than what the
/// arithmetic takes, so that no decision depends on how busy the machine is.
pub(crate) fn start_session(shared: &Arc<dyn Comm>, folder: &Path) -> Session {
    let comm = shared.as_ref();
    let path = folder.join("unlike.toml");
    let devices = [("first", 1e-5), ("second", 2e-5)].map(|(name, block_s)| {
        let points = format!("# block: 4\n1 {block_s} 1 0\n1000 {} 1 0\n", 1e3 * block_s);
        let file = format!("{name}.points");
        write(comm, &folder.join(&file), (comm.rank() == 0).then_some(points));
        format!("[[node.device]]\nname = \"{name}\"\ncores = 1\npoints = \"{file}\"\n")
    });
    let devices = devices.concat();
    let nodes = format!("[[node]]\n{devices}").repeat(comm.size());
    write(comm, &path, (comm.rank() == 0).then(|| format!("schema = 1\n{nodes}")));
    Session::builder()
        .platform_file(path)
        .blas(BlasChoice::Embedded)
        .build(Arc::clone(shared))
        .unwrap()
}

/// The default settings, with a change every few steps.
fn config() -> BalanceConfig {
    let default = BalanceConfig::default();
    assert_eq!(default.strategy, Strategy::Adaptive);
    BalanceConfig { adaptive: Tuning { force_every: 2, ..default.adaptive }, ..default }
}

fn problem(split: Split) -> Problem {
    Problem::new(61, 59, 167, 4).unwrap().with_panel(5).unwrap().with_split(split)
}

/// Multiplies whole numbers as planned, with A and B in their parts of k, and compares every element with a reference.
fn multiply_exactly(session: &mut Session, plan: &Plan) -> Execution {
    let shared = Arc::clone(session.comm());
    let comm = shared.as_ref();
    let mut product = session.prepare(plan, RunConfig::default()).unwrap();
    let mut case: Case = Case::new(comm, product.plan().clone(), integers);
    case.c = product.zeros(session).unwrap();
    case.c.fill(|row, col| integers(SEEDS[2]).element(row, col));
    let mut parts = |part: &PartOfK| {
        let a = make(comm, part.a(), Op::N, SEEDS[0])?;
        Ok((a, make(comm, part.b(), Op::N, SEEDS[1])?))
    };
    let factors = match case.plan.k_parts() {
        1 => Factors::of(&case.a, &case.b),
        _ => Factors::made(&mut parts),
    };
    let run = product.run(session, SCALARS, factors, &mut case.c).unwrap();
    case.assert_reference(SCALARS, comm);
    run.execution
}

/// Sessions that plan with the default strategy learn; their plans can be kept and used again.
pub fn sessions_that_learn(comm: &Arc<dyn Comm>, folder: &Path) -> usize {
    let mut session = start_session(comm, folder);
    let plans = CASES.map(|case| plan_and_learn(&mut session, case));
    CASES.len() + kept_plans(&mut session, &plans[1], folder)
}

/// C and k divided, and the parts of k in which A and B are made.
const CASES: [(Split, usize); 3] = [(Split::C, 1), (Split::C, 4), (Split::K, 1)];

/// Plans with the default strategy: the run learns, and every element is right.
fn plan_and_learn(session: &mut Session, (split, k_parts): (Split, usize)) -> Plan {
    let shared = Arc::clone(session.comm());
    let comm = shared.as_ref();
    let plan = session.plan(problem(split), &config()).unwrap();
    let plan = plan.with_k_parts(k_parts).unwrap();
    assert!(plan.look().is_some(), "{split} in {k_parts} parts");
    let execution = multiply_exactly(session, &plan);
    assert_eq!(execution.learnt.is_some(), comm.rank() == 0);
    if let Some(learnt) = execution.learnt {
        assert!(learnt.notices.is_empty(), "{:?}", learnt.notices);
        assert!(learnt.devices.iter().any(|device| device.model.is_some()));
    }
    assert!(may_stay(comm, &plan) || !execution.changes.is_empty(), "{split}");
    plan
}

/// Returns `true` if a run may make no change: shares of k on many ranks have too few steps for one.
fn may_stay(comm: &dyn Comm, plan: &Plan) -> bool {
    plan.division().shares().is_some() && comm.size() > 2
}

/// Writes a file on the head rank, which alone has its text.
fn write(comm: &dyn Comm, path: &Path, text: Option<String>) {
    let written = text.map(|text| std::fs::write(path, text)).transpose();
    agree(comm, written.map_err(|error| Error::file(path, error))).unwrap();
}

/// A plan that was kept and read again is the same plan, and its run learns.
fn kept_plans(session: &mut Session, plan: &Plan, folder: &Path) -> usize {
    let shared = Arc::clone(session.comm());
    let comm = shared.as_ref();
    let path = folder.join("plan-that-learns.json");
    let text = (comm.rank() == 0).then(|| serde_json::to_string(plan).unwrap());
    write(comm, &path, text);
    let read = Plan::load(comm, &path).unwrap();
    assert!(read.look().is_some() && read.look() == plan.look());
    let adopted = session.adopt(read).unwrap();
    assert_eq!(adopted.look(), plan.look());
    let execution = multiply_exactly(session, &adopted);
    assert!(execution.learnt.is_none_or(|learnt| learnt.decisions > 0));
    1
}
