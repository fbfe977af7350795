//! Multiplications that learn from their steps, with changes forced every few steps. Functions are as in
//! [`cases`](crate::cases).

use isochron_devices::with_element;
use std::sync::Arc;

use isochron::comm::Comm;
use isochron::plan::{PartOfK, Plan, Problem};
use isochron::product::{Element, Learnt, Scalars};
use isochron::product::{Factors, RunConfig};
use isochron::session::Session;
use isochron_devices::{DeviceTeam, ElementType, Pace, PacedWorker, Worker, cuda};
use isochron_hierarchy::learn::{AdaptivePart, FirstLook, Tuning};
use isochron_hierarchy::model::{PiecewiseFpm, Point};

use crate::cases::{Case, SEEDS, cpu, integers, plan_along_k, plan_on_nth, team};
use crate::changes::{EVERY, LOOKAHEADS, OPS, SCALARS, SHAPES, scalars};
use crate::covering::{Coverage, LIBRARIES};
use crate::disturbed::made_up_team;
use crate::gpu;
use crate::parts::make;

/// Leaves changes of a plan's division to the run, which forces one every few steps. Nothing is known of the devices.
pub(crate) fn leave_to_run(plan: Plan, force_every: u64) -> Plan {
    let mut parts = Vec::new();
    for node in 0..plan.n_ranks() {
        let part = AdaptivePart { node, ..AdaptivePart::default() };
        parts.resize(parts.len() + plan.slices(node).len(), part);
    }
    let config = Tuning { force_every, ..Tuning::default() };
    plan.with_look(Some(FirstLook { config, parts, ..FirstLook::default() }))
}

/// Names the devices of each rank, and its host.
pub(crate) fn name_devices(plan: &Plan) -> Plan {
    let mut document = serde_json::to_value(plan).unwrap();
    for (rank, node) in document["nodes"].as_array_mut().unwrap().iter_mut().enumerate() {
        node["host"] = format!("host{rank}").into();
        node["devices"][0]["name"] = "first".into();
        node["devices"][1]["name"] = "second".into();
    }
    serde_json::from_value(document).unwrap()
}

impl<T: Element> Case<T> {
    /// Multiplies, and learns meanwhile. A and B are made in their parts of k. Returns what was learnt, on the head rank, and
    /// the number of changes.
    pub(crate) fn learn(
        &mut self,
        session: &mut Session,
        scalars: Scalars<T>,
    ) -> (Option<Learnt>, usize) {
        let shared = Arc::clone(session.comm());
        let comm = shared.as_ref();
        let mut product = session.prepare(&self.plan, RunConfig::default()).unwrap();
        let [op_a, op_b] = self.plan.problem().ops();
        let mut parts = |part: &PartOfK| {
            let a = make(comm, part.a(), op_a, SEEDS[0])?;
            Ok((a, make(comm, part.b(), op_b, SEEDS[1])?))
        };
        let factors = match self.plan.k_parts() {
            1 => Factors::of(&self.a, &self.b),
            _ => Factors::made(&mut parts),
        };
        let run = product.run(session, scalars, factors, &mut self.c).unwrap();
        (run.execution.learnt, run.execution.changes.len())
    }

    /// Multiplies whole numbers while learning, and compares every element with a reference.
    pub(crate) fn learn_exactly(
        &mut self,
        session: &mut Session,
        scalars: Scalars<T>,
    ) -> (Option<Learnt>, usize) {
        self.spoil_unread(scalars);
        let done = self.learn(session, scalars);
        let shared = Arc::clone(session.comm());
        let comm = shared.as_ref();
        self.assert_reference(scalars, comm);
        assert_eq!(self.c.part(), self.plan.c().part(comm.rank()));
        done
    }
}

/// Parts of k in which A and B are made; one for each step at most.
const K_PARTS: [usize; 3] = [1, 3, 1000];

/// Layouts, and k divided.
const DIVISIONS: usize = 5;

/// Devices as they are, two and four times as slow, with the times of models, and with made-up times.
const WORKERS: usize = 4;
const MADE_UP: usize = 3;

/// Learns on all layouts and along k, for every element type, operation and pace of the devices, with A and B whole and in
/// parts: every element is right, and C is where the plan has it.
pub fn learning(shared: &Arc<dyn Comm>, coverage: Coverage) -> usize {
    let comm = shared.as_ref();
    let levels = [
        ElementType::ALL.len(),
        WORKERS,
        SHAPES.len(),
        OPS.len(),
        DIVISIONS,
        K_PARTS.len(),
        EVERY.len(),
        LOOKAHEADS.len(),
        SCALARS,
        LIBRARIES.len(),
    ];
    let rows = coverage.rows_of_ranks(comm, levels);
    let mut sessions =
        [0, 1, 2, MADE_UP].map(|kind| Session::of_team(Arc::clone(shared), team_of(kind)));
    for &[element, workers, levels @ .., _] in &rows {
        let (session, is_made_up) = (&mut sessions[workers], workers == MADE_UP);
        with_element!(ElementType::ALL[element], T => learn_row::<T>(session, levels, is_made_up))
    }
    rows.len()
}

fn learn_row<T: Element>(session: &mut Session, levels: [usize; 7], is_made_up: bool) {
    let shared = Arc::clone(session.comm());
    let comm = shared.as_ref();
    let [shape, ops, division, k_parts, every, ahead, number] = levels;
    let (m, n, k) = SHAPES[shape];
    let problem = Problem::new(m, n, k, 4).unwrap().with_panel(5).unwrap();
    let problem = problem.with_element(T::TYPE).with_ops(OPS[ops]);
    let plan = match division {
        4 => plan_along_k(comm, problem),
        layout => plan_on_nth(comm, problem, layout).with_k_parts(K_PARTS[k_parts]).unwrap(),
    };
    let plan = leave_to_run(plan.with_lookahead(LOOKAHEADS[ahead]), EVERY[every] as u64);
    let after_decision = plan
        .steps(comm.rank())
        .checked_sub(LOOKAHEADS[ahead] + 1 + EVERY[every])
        .filter(|steps| *steps > 0);
    let scalars = scalars::<T>(number);
    let mut case: Case<T> = Case::new(comm, plan, integers);
    let (learnt, changes) = case.learn_exactly(session, scalars);
    let learnt = learnt.filter(|_| scalars.alpha != T::ZERO);
    if let (Some(learnt), Some(steps)) = (learnt, after_decision) {
        assert!(learnt.decisions > 0, "{}", case.label(comm));
        // Two devices of a column or more always have another division, which real times may rate as the one at hand. Few steps
        // do not repay a move, whose time is real.
        let is_divisible = is_made_up && m * n > 4 && division < 2 && steps > 3;
        assert!(!is_divisible || changes > 0, "{}", case.label(comm));
    }
}

/// A model by which each unit takes `unit_s` seconds.
fn model(unit_s: f64) -> PiecewiseFpm {
    let points = [1, 1000].map(|d| Point { d, t_s: d as f64 * unit_s, reps: 3, ci_s: 0.0 });
    PiecewiseFpm::from_points(points.into()).unwrap()
}

fn team_of(workers: usize) -> DeviceTeam {
    let points =
        |unit_s| Pace::Points { name: "linear.points".to_owned(), model: model(unit_s), block: 4 };
    let paces = match workers {
        0 => return team(),
        MADE_UP => return made_up_team(),
        1 => [Pace::Slowdown(2.0), Pace::Slowdown(4.0)],
        _ => [points(1e-8), points(3e-8)],
    };
    let paced = ["first", "second"].into_iter().zip(paces).map(|(name, pace)| {
        let worker: Box<dyn Worker> = PacedWorker::new(cpu(name), pace).unwrap().into();
        worker
    });
    DeviceTeam::new(paced.collect()).unwrap()
}

/// Learns with GPUs that keep C, and with GPUs that C streams through. Without a GPU there is no case.
pub fn learning_on_gpus(shared: &Arc<dyn Comm>) -> usize {
    let comm = shared.as_ref();
    if cuda::survey().devices.is_empty() {
        return 0;
    }
    let mut count = 0;
    for limit in [None, Some(12_000)] {
        for (number, every) in EVERY.into_iter().enumerate() {
            let problem = Problem::new(37, 41, 120, 4).unwrap().with_panel(4).unwrap();
            let plan = match number {
                3 => plan_along_k(comm, problem),
                layout => plan_on_nth(comm, problem, layout),
            };
            let mut case: Case = Case::new(comm, leave_to_run(plan, every as u64), integers);
            let gpu = gpu::worker(limit).unwrap();
            let team = DeviceTeam::new(vec![cpu("first"), gpu.into()]).unwrap();
            let mut session = Session::of_team(Arc::clone(shared), team);
            case.learn_exactly(&mut session, scalars(number));
            count += 1;
        }
    }
    count
}
