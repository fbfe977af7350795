//! Decisions of sessions on four ranks whose devices and links have made-up times, compared with those that are kept in
//! `tests/golden`. A change of the code that is no change of behaviour leaves every line as it is.
//!
//! `ISOCHRON_WRITE_GOLDEN=1` writes the file.

use std::path::Path;
use std::sync::Arc;

use isochron::Error;
use isochron::comm::Comm;
use isochron::plan::{Plan, Problem};
use isochron::product::{Directive, Scalars};
use isochron::session::Session;
use isochron_core::internal::{
    Director, LearningDirector, RunConditions, StepTimes, make_up_times,
};
use isochron_devices::internal::RecordedWorker;
use isochron_devices::{DeviceKind, DeviceTeam, Worker};
use isochron_hierarchy::balance::{BalanceConfig, Strategy};
use isochron_hierarchy::model::{PiecewiseFpm, Point};
use isochron_hierarchy::problem::Split;
use serde_json::{Value, json};
use strum::VariantArray as _;

use crate::cases::{Case, integers};
use crate::learning::leave_to_run;

/// Number of ranks of the sessions.
const RANKS: usize = 4;

/// Block size of the problem and of the devices' models.
const BLOCK: usize = 8;

/// Steps of the multiplications.
const STEPS: usize = 150;

/// Seconds of every change.
const CHANGE_S: f64 = 3e-3;

/// The lines that are kept.
const KEPT: &str = include_str!("../golden/sessions.jsonl");

/// Seconds of a device for an update of this many blocks of C.
type DeviceTime = fn(f64) -> f64;

/// The two devices of each rank: unlike cores, a memory that is soon full, and a GPU that starts slowly.
const DEVICES: [[(DeviceKind, DeviceTime); 2]; RANKS] = [
    [(DeviceKind::Cpu, |d| 2e-6 * d), (DeviceKind::Cpu, |d| 6e-6 * d)],
    [
        (DeviceKind::Cpu, |d| 3e-6 * (d + 9.0 * (d - 150.0).max(0.0))),
        (DeviceKind::Cpu, |d| 3e-6 * d),
    ],
    [(DeviceKind::Cuda, |d| 4e-4 + 5e-7 * d), (DeviceKind::Cpu, |d| 8e-6 * d)],
    [(DeviceKind::Cpu, |d| 4e-6 * d), (DeviceKind::Cpu, |d| 2.4e-5 * d)],
];

/// The ends of the pieces of the devices' models.
const SIZES: [u64; 6] = [1, 50, 150, 400, 1000, 1500];

/// Opens a session whose devices and links have made-up times.
fn open(shared: &Arc<dyn Comm>) -> Session {
    let workers = DEVICES[shared.rank()].into_iter().zip(["first", "second"]).map(
        |((kind, time), name)| -> Box<dyn Worker> {
            let points = SIZES.map(|d| Point { d, t_s: time(d as f64), reps: 3, ci_s: 0.0 });
            let model = PiecewiseFpm::from_points(points.into()).unwrap();
            RecordedWorker::new(name, kind, model, BLOCK as u64).unwrap().into()
        },
    );
    let team = DeviceTeam::new(workers.collect()).unwrap();
    let mut session = Session::of_team(Arc::clone(shared), team);
    let messages =
        [1, 512, 4 << 10, 32 << 10, 256 << 10].map(|bytes| (bytes, 1e-5 + bytes as f64 / 1e9));
    make_up_times(&mut session, &messages);
    session
}

/// The director that learns, which is told made-up seconds of changes, and what it has decided.
struct MadeUpChanges<'p>(LearningDirector<'p>, Vec<Decision>);

/// The step that a decision is for, the decision, and whether a change found no memory.
type Decision = (usize, Directive, bool);

impl Director for MadeUpChanges<'_> {
    fn count_first_steps(&mut self) -> usize {
        self.0.count_first_steps()
    }

    fn decide(&mut self, at: &StepTimes<'_>) -> Result<Directive, Error> {
        let changing_s = if at.changing_s > 0.0 { CHANGE_S } else { 0.0 };
        let directive = self.0.decide(&StepTimes { changing_s, ..at.clone() })?;
        self.1.push((at.step, directive.clone(), false));
        Ok(directive)
    }

    fn note_refusal(&mut self, reason: &Error) {
        self.0.note_refusal(reason);
        if let Some((.., is_refused)) = self.1.last_mut() {
            *is_refused = true;
        }
    }
}

/// Multiplies as planned. Returns the decisions of the head rank.
fn decide(session: &mut Session, plan: Plan) -> Vec<Decision> {
    let comm = Arc::clone(session.comm());
    let mut case: Case = Case::new(comm.as_ref(), plan.clone(), integers);
    let director = LearningDirector::new(&plan, RunConditions::default()).unwrap();
    let mut director = MadeUpChanges(director, Vec::new());
    case.multiply_directed(session, Scalars::UPDATE, &mut director).unwrap();
    director.1
}

/// Returns the document of a plan without what depends on the host and on passing time: the circumstances of its making, and
/// its tally of repetitions.
fn describe(mut plan: Value) -> Value {
    plan.as_object_mut().unwrap().remove("made");
    for node in plan["nodes"].as_array_mut().unwrap() {
        let node = node.as_object_mut().unwrap();
        node.remove("host");
        node.remove("measured");
    }
    plan
}

fn plan(session: &mut Session, k: usize, strategy: Strategy, split: Split) -> Plan {
    let problem =
        Problem::new(320, 288, k, BLOCK).and_then(|problem| problem.with_panel(BLOCK)).unwrap();
    let config = BalanceConfig { strategy, ..BalanceConfig::default() };
    session.plan(problem.with_split(split), &config).unwrap()
}

/// Leaves changes to a run, which forces one every few steps after the plan's own look.
fn force(plan: &Plan, every: u64) -> Plan {
    let mut look = plan.look().unwrap().clone();
    look.config.force_every = every;
    plan.clone().with_look(Some(look))
}

/// Runs plans. Returns a line for the decisions of each run, without the times that led to them.
fn list_decisions(session: &mut Session) -> Vec<Value> {
    let [of_c, of_k] =
        [Split::C, Split::K].map(|split| plan(session, STEPS * BLOCK, Strategy::Adaptive, split));
    let even = plan(session, STEPS * BLOCK, Strategy::Homogeneous, Split::C);
    let in_parts = force(&of_c, 5).with_k_parts(4).unwrap();
    [
        ("after a look", of_c.clone()),
        ("without knowledge", leave_to_run(even, 0)),
        ("forced", force(&of_c, 7)),
        ("forced along k", force(&of_k, 5)),
        ("forced in parts of k", in_parts),
    ]
    .into_iter()
    .map(|(name, plan)| json!({"run": name, "decisions": decide(session, plan)}))
    .collect()
}

/// Plans with all strategies, and learns: plans and decisions are those that are kept.
pub fn kept_decisions(shared: &Arc<dyn Comm>) -> usize {
    if shared.size() != RANKS {
        return 0;
    }
    let session = &mut open(shared);
    let mut lines = Vec::new();
    for split in [Split::Auto, Split::C, Split::K] {
        for &strategy in Strategy::VARIANTS {
            let plan = plan(session, STEPS * BLOCK, strategy, split);
            let plan = describe(serde_json::to_value(plan).unwrap());
            lines.push(json!({"strategy": strategy, "split": split, "plan": plan}));
        }
    }
    lines.extend(list_decisions(session));
    if shared.rank() == 0 {
        check(&lines);
    }
    lines.len()
}

/// Compares lines with those that are kept.
fn check(lines: &[Value]) {
    let found: Vec<String> = lines.iter().map(Value::to_string).collect();
    if std::env::var_os("ISOCHRON_WRITE_GOLDEN").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/sessions.jsonl");
        std::fs::write(path, found.join("\n") + "\n").unwrap();
        return;
    }
    for (found, kept) in found.iter().zip(KEPT.lines()) {
        assert_eq!(found, kept);
    }
    assert_eq!(found.len(), KEPT.lines().count());
}
