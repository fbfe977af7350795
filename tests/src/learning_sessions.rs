//! Sessions whose multiplications learn: plans that are kept, and records that are repeated or refused. Functions are
//! as in [`cases`](crate::cases).

use std::path::Path;
use std::sync::Arc;

use isochron::Error;
use isochron::comm::{Comm, agree};
use isochron::matrix::Op;
use isochron::plan::{PartOfK, Plan, Problem};
use isochron::product::{Execution, RunRecord, Scalars};
use isochron::product::{Factors, ProductOf, RunConfig};
use isochron::session::Session;
use isochron_devices::BlasChoice;
use isochron_hierarchy::balance::{BalanceConfig, Strategy};
use isochron_hierarchy::learn::Tuning;
use isochron_hierarchy::problem::Split;
use serde_json::{Value, json};

use crate::cases::{Case, SEEDS, integers, scale};
use crate::covering::Coverage;
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

/// Multiplies whole numbers as planned.
fn multiply_exactly(session: &mut Session, plan: &Plan) -> Execution {
    run_exactly(session, plan.into(), RunConfig::default())
}

/// Multiplies whole numbers, with A and B in their parts of k, and compares every element with a reference.
fn run_exactly(session: &mut Session, of: ProductOf<'_>, runs: RunConfig) -> Execution {
    let shared = Arc::clone(session.comm());
    let comm = shared.as_ref();
    let mut product = session.prepare(of, runs).unwrap();
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

/// Sessions that plan with the default strategy learn; their plans and records can be kept and used again. MPI
/// libraries take turns at replays and refusals.
pub fn sessions_that_learn(comm: &Arc<dyn Comm>, coverage: Coverage, folder: &Path) -> usize {
    let mut session = start_session(comm, folder);
    let plans = CASES.map(|case| plan_and_learn(&mut session, case));
    CASES.len()
        + kept_plans(&mut session, &plans[1], folder)
        + replays(&mut session, coverage, &plans, folder)
        + refused_records(&mut session, coverage, &plans[0], folder)
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
        assert!(!learnt.replayed);
        assert!(learnt.notices.is_empty(), "{:?}", learnt.notices);
        assert!(learnt.devices.iter().any(|device| device.model.is_some()));
    }
    assert!(may_stay(comm, &plan) || !execution.changes.is_empty(), "{split}");
    assert!(execution.record.is_none());
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

/// Returns the record of a run on the head rank, as a document.
fn record_run(session: &mut Session, of: ProductOf<'_>) -> (Option<Value>, Execution) {
    let runs = RunConfig { keeps_record: true, ..RunConfig::default() };
    let execution = run_exactly(session, of, runs);
    let record = execution.record.as_ref();
    let document = record.map(|record| serde_json::to_value(record).unwrap());
    (document, execution)
}

/// The decisions of a record, without the times that led to them.
fn list_directives(record: &Value) -> Vec<&Value> {
    record["decisions"].as_array().unwrap().iter().map(|decision| &decision["directive"]).collect()
}

/// A record repeats its run: the same changes at the same steps, whatever the times.
fn replays(session: &mut Session, coverage: Coverage, plans: &[Plan], folder: &Path) -> usize {
    let shared = Arc::clone(session.comm());
    let comm = shared.as_ref();
    let path = folder.join("record.json");
    let dealt = plans
        .iter()
        .enumerate()
        .filter(|(number, _)| coverage.has_turn(comm, number + comm.size()));
    let mut count = 0;
    for (_, plan) in dealt {
        let (document, first) = record_run(session, plan.into());
        write(comm, &path, document.as_ref().map(Value::to_string));
        let record = RunRecord::load(comm, &path).unwrap();
        let (repeated, again) = record_run(session, record.into());
        let [steps, steps_again] = [&first, &again].map(|execution| {
            execution.changes.iter().map(|change| (change.step, change.bytes)).collect::<Vec<_>>()
        });
        assert!(may_stay(comm, plan) || !steps.is_empty());
        assert_eq!(steps, steps_again);
        if let (Some(document), Some(repeated)) = (document, repeated) {
            assert_eq!(list_directives(&document), list_directives(&repeated));
            assert!(again.learnt.is_some_and(|learnt| learnt.replayed));
        }
        count += 1;
    }
    // The next run is its own.
    let own = multiply_exactly(session, &plans[0]);
    assert!(own.learnt.is_none_or(|learnt| !learnt.replayed));
    count
}

/// A change of a record's document.
type Tamper = fn(&mut Value);

fn first_decision(record: &mut Value) -> &mut Value {
    &mut record["decisions"][0]
}

/// Changes that are refused when a record is read or taken over, with a part of the refusal.
const REFUSED: [(Tamper, &str); 7] = [
    (|record| record["schema"] = json!(9), "it is of version 9, not 1"),
    (|record| *record = json!({"schema": 1}), "no record of a run"),
    (|record| record["plan"]["look"] = Value::Null, "leaves nothing to the run"),
    (
        |record| first_decision(record)["ranks"] = json!([]),
        "times of its decision 0 are not those of its devices",
    ),
    (
        |record| record["plan"]["nodes"][0]["host"] = json!("elsewhere"),
        "rank 0 is for host elsewhere",
    ),
    (
        |record| record["plan"]["nodes"][0]["devices"][0]["name"] = json!("abacus"),
        "it is for the devices abacus",
    ),
    (
        |record| record["plan"]["look"]["parts"] = json!([]),
        "what was seen of its devices makes no sense",
    ),
];

/// Changes that are refused in the run, with a part of the refusal.
const DIFFERENT: [(Tamper, &str); 4] = [
    (|record| record["decisions"] = json!([]), "it has no decision on step"),
    (|record| first_decision(record)["step"] = json!(1), "it has no decision on step"),
    (
        |record| first_decision(record)["directive"]["steps"] = json!(77),
        "its times lead to another decision on step",
    ),
    (
        |record| {
            for rank in first_decision(record)["ranks"].as_array_mut().unwrap() {
                rank[0]["rows"] = json!(1_000_000);
            }
        },
        "units where it has 3599",
    ),
];

/// Records that are truncated, of another job, or not as they were are refused on all ranks, with the reason.
fn refused_records(session: &mut Session, coverage: Coverage, plan: &Plan, folder: &Path) -> usize {
    let shared = Arc::clone(session.comm());
    let comm = shared.as_ref();
    let path = folder.join("refused-record.json");
    let (document, _) = record_run(session, plan.into());
    for (tamper, reason) in REFUSED {
        let mut changed = document.clone();
        changed.iter_mut().for_each(tamper);
        write(comm, &path, changed.map(|changed| changed.to_string()));
        let refusal = RunRecord::load(comm, &path)
            .and_then(|record| session.prepare::<f64>(record, RunConfig::default()))
            .unwrap_err()
            .to_string();
        assert!(refusal.contains(reason), "{reason:?} in {refusal:?}");
    }
    let dealt = DIFFERENT
        .into_iter()
        .enumerate()
        .filter(|(number, _)| coverage.has_turn(comm, number + comm.size() / 2));
    for (_, (tamper, reason)) in dealt {
        let mut changed = document.clone();
        changed.iter_mut().for_each(tamper);
        write(comm, &path, changed.map(|changed| changed.to_string()));
        let refusal = refuse_run(session, &path);
        assert!(refusal.contains(reason), "{reason:?} in {refusal:?}");
    }
    let text = document.map(|document| document.to_string());
    let half = text.map(|text| text[..text.len() / 2].to_owned());
    write(comm, &path, half);
    let refusal = RunRecord::load(comm, &path).unwrap_err().to_string();
    assert!(refusal.contains("no record of a run: "), "{refusal}");
    // The session multiplies as before.
    multiply_exactly(session, plan);
    REFUSED.len() + DIFFERENT.len() + 1
}

/// Returns the refusal of a run that repeats a record.
fn refuse_run(session: &mut Session, path: &Path) -> String {
    let shared = Arc::clone(session.comm());
    let comm = shared.as_ref();
    let record = RunRecord::load(comm, path).unwrap();
    let mut product = session.prepare(record, RunConfig::default()).unwrap();
    let mut case: Case = Case::new(comm, product.plan().clone(), integers);
    let factors = Factors::of(&case.a, &case.b);
    product.run(session, SCALARS, factors, &mut case.c).unwrap_err().to_string()
}
