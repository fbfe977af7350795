//! The director that learns, fed with made-up times of steps.

use isochron::Error;
use isochron::matrix::Spread;
use isochron::plan::{Assignment, Plan, Problem};
use isochron::product::{Learnt, SeenStep};
use isochron_core::internal::{Director, LearningDirector, RunConditions, StepTimes};
use isochron_hierarchy::layout::slice_cols;
use isochron_hierarchy::learn::Observed;
use isochron_hierarchy::times::Sample;

use crate::learning::{leave_to_run, name_devices};

/// The seconds that an element of C takes a device in a step: (step, rank, device).
type ElementTime = fn(usize, usize, usize) -> f64;

/// Seconds of every change.
const CHANGE_S: f64 = 3e-3;

/// A run of made-up times.
struct MadeUpRun {
    /// The assignment of each step.
    assignments: Vec<Assignment>,
    learnt: Learnt,
}

/// A plan of this number of steps for `ranks` ranks with two devices each, all alike, whose division is left to the
/// run. Nothing is known of them.
fn plan(ranks: usize, steps: usize) -> Plan {
    let problem = Problem::new(640, 640, 16 * steps, 16).unwrap();
    let problem = problem.with_panel(16).unwrap();
    let layout = slice_cols(40, &vec![40 / ranks as u64; ranks]).unwrap();
    let slices = vec![vec![320 / ranks; 2]; ranks];
    let plan = Plan::with_layout(problem, layout, &slices).unwrap();
    name_devices(&leave_to_run(plan, 0))
}

/// Looks at a sixteenth and a quarter of each device's part before the run.
fn look(plan: Plan, time: ElementTime) -> Plan {
    let mut look = plan.look().unwrap().clone();
    // The width of a measurement over that of a step.
    let factor = plan.decision().kernel_width as f64 / plan.panel() as f64;
    for (burst, fraction) in [(0, 16), (1, 4)] {
        let places = (0..plan.n_ranks()).flat_map(|rank| [(rank, 0), (rank, 1)]);
        let units = 640 * 640 / (2 * plan.n_ranks() as u64) / fraction;
        let samples = places.map(|(rank, device)| {
            Sample::measured(units, factor * units as f64 * time(0, rank, device), 1, 0.0)
        });
        look.measurements.push(Observed {
            is_measurement: true,
            burst,
            samples: samples.collect(),
        });
    }
    plan.with_look(Some(look))
}

fn part_of(plan: &Plan, assignment: &Assignment, rank: usize) -> isochron::matrix::Region {
    let problem = plan.problem();
    match plan.division().shares() {
        Some(_) => plan.computed(rank),
        None => Spread::on_layout(problem.m(), problem.n(), problem.block(), &assignment.layout)
            .part(rank),
    }
}

/// Makes up a step of a rank: the times are right to 1 %.
fn make_step(
    plan: &Plan,
    assignment: &Assignment,
    step: usize,
    rank: usize,
    time: ElementTime,
) -> SeenStep {
    let rows = part_of(plan, assignment, rank).rows;
    let samples = assignment.slices[rank].iter().enumerate().map(|(device, &cols)| {
        let noise = [0.99, 1.01, 1.0, 1.005, 0.995][(3 * step + 2 * rank + device) % 5];
        let seconds = (rows * cols) as f64 * time(step, rank, device) * noise;
        Sample::measured(cols as u64, seconds, 1, 0.0)
    });
    SeenStep { k: plan.panel(), rows, samples: samples.collect() }
}

/// Runs all steps as a multiplication does: a decision is taken the lookahead before its step, and knows the steps
/// before. No change finds memory from the `refused` one on, if that is given.
fn run(plan: &Plan, time: ElementTime, refused: Option<usize>) -> Result<MadeUpRun, Error> {
    let mut director = LearningDirector::new(plan, RunConditions::default())?;
    let (steps, lookahead) = (plan.steps(0), plan.lookahead());
    let mut now = plan.assignment();
    let mut assignments: Vec<Assignment> = Vec::new();
    let mut undecided = director.count_first_steps() + lookahead;
    let (mut seen, mut changes, mut changing_s) = (0, 0, 0.0);
    while undecided < steps {
        assignments.resize(undecided, now.clone());
        let done = seen..undecided - lookahead;
        let ranks = (0..plan.n_ranks()).map(|rank| {
            done.clone().map(|step| make_step(plan, &assignments[step], step, rank, time)).collect()
        });
        let directive = director.decide(&StepTimes {
            step: undecided,
            steps,
            assignment: &now,
            ranks: ranks.collect(),
            changing_s,
        })?;
        (seen, changing_s) = (done.end, 0.0);
        undecided = undecided.saturating_add(directive.steps);
        let Some(next) = directive.change else {
            continue;
        };
        if refused.is_some_and(|refused| changes >= refused) && next.layout != now.layout {
            director.note_refusal(&Error::Shape("no memory is left".to_owned()));
            continue;
        }
        (now, changing_s) = (next, CHANGE_S);
        changes += 1;
        undecided = undecided.saturating_add(lookahead);
    }
    assignments.resize(steps, now);
    Ok(MadeUpRun { assignments, learnt: director.finish(changes as f64 * CHANGE_S) })
}

fn learn(plan: &Plan, time: ElementTime) -> MadeUpRun {
    run(plan, time, None).unwrap()
}

impl MadeUpRun {
    /// Returns each rank's part of C in a step, as a fraction of it.
    fn fractions(&self, plan: &Plan, step: usize) -> Vec<f64> {
        let all = (plan.problem().m() * plan.problem().n()) as f64;
        let ranks = 0..plan.n_ranks();
        ranks.map(|rank| part_of(plan, &self.assignments[step], rank).len() as f64 / all).collect()
    }

    /// Returns the fraction of its rank's columns that each rank's first device has at the end.
    fn first_slices(&self) -> Vec<f64> {
        let slices = self.assignments.last().unwrap().slices.iter();
        slices.map(|slices| slices[0] as f64 / slices.iter().sum::<usize>() as f64).collect()
    }

    fn count_layouts(&self) -> usize {
        self.assignments.windows(2).filter(|pair| pair[0].layout != pair[1].layout).count()
    }
}

fn assert_near(found: &[f64], wanted: &[f64], tolerance: f64) {
    assert_eq!(found.len(), wanted.len());
    let mut pairs = found.iter().zip(wanted);
    assert!(
        pairs.all(|(found, wanted)| (found - wanted).abs() <= tolerance),
        "{found:?}, wanted {wanted:?}"
    );
}

/// Nanoseconds of an element: a step of C takes a millisecond or so.
const NS: f64 = 1e-9;

#[test]
fn columns_move_to_the_faster_device_of_a_rank() {
    let plan = plan(1, 100);
    let run = learn(&plan, |_, _, device| [6.0, 2.0][device] * NS);
    assert_near(&run.first_slices(), &[0.25], 0.02);
    assert!(run.learnt.changes.iter().all(|change| !change.moves_c));
}

#[test]
fn parts_move_to_the_faster_node_where_the_steps_left_pay_for_it() {
    let time: ElementTime = |_, rank, _| [12.0, 4.0][rank] * NS;
    let long = plan(2, 400);
    let run = learn(&long, time);
    assert_near(&run.fractions(&long, 399), &[0.25, 0.75], 0.03);
    assert!(run.learnt.changes.iter().any(|change| change.moves_c));
    let short = plan(2, 8);
    assert_eq!(learn(&short, time).count_layouts(), 0);
}

#[test]
fn a_node_that_becomes_slow_is_named_and_gets_less() {
    fn time(step: usize, rank: usize, _: usize) -> f64 {
        let slow = if rank == 2 && step >= 200 { 4.0 } else { 1.0 };
        8.0 * NS * slow
    }
    let plan = look(plan(4, 600), time);
    let run = learn(&plan, time);
    let drifts = &run.learnt.drifts;
    assert_eq!(drifts.len(), 2, "both devices of the node: {drifts:?}");
    for (drift, name) in drifts.iter().zip(["first", "second"]) {
        assert_eq!((drift.rank, &*drift.device, &*drift.host), (2, name, "host2"));
        assert!((200..=202).contains(&drift.step), "{drift:?}");
        assert!((drift.factor / 4.0 - 1.0).abs() < 0.2, "{drift:?}");
    }
    let shares = [4.0, 4.0, 1.0, 4.0].map(|part| part / 13.0);
    assert_near(&run.fractions(&plan, 220), &shares, 0.04);
}

#[test]
fn without_memory_parts_stay_and_columns_still_move() {
    let plan = plan(2, 400);
    let time: ElementTime = |_, rank, device| [[12.0, 4.0], [3.0, 3.0]][rank][device] * NS;
    let run = run(&plan, time, Some(0)).unwrap();
    assert_eq!(run.count_layouts(), 0);
    assert_near(&run.first_slices(), &[0.25, 0.5], 0.03);
    assert_eq!(run.learnt.notices.len(), 1, "{:?}", run.learnt.notices);
    let notice = &run.learnt.notices[0];
    assert!(notice.contains("stay where they are") && notice.contains("no memory is left"));
    assert!(run.learnt.changes.iter().all(|change| !change.moves_c));
}

#[test]
fn along_k_the_columns_of_each_rank_move_alone() {
    let problem = Problem::new(640, 640, 16 * 300, 16).unwrap();
    let slices = vec![vec![320; 2]; 3];
    let plan = Plan::along_k(problem.with_panel(16).unwrap(), vec![100; 3], &slices).unwrap();
    let plan = leave_to_run(plan, 0);
    let run =
        learn(&plan, |_, rank, device| [[9.0, 3.0], [2.0, 2.0], [1.0, 4.0]][rank][device] * NS);
    assert_eq!(run.count_layouts(), 0);
    assert_near(&run.first_slices(), &[0.25, 0.5, 0.8], 0.03);
    let of_ranks = run.learnt.changes.iter().map(|change| change.rank);
    assert!(of_ranks.clone().all(|rank| rank == Some(0) || rank == Some(2)), "{of_ranks:?}");
}

#[test]
fn a_narrower_step_is_no_measurement() {
    let plan = plan(2, 100);
    let mut director = LearningDirector::new(&plan, RunConditions::default()).unwrap();
    let now = plan.assignment();
    let ranks = (0..2).map(|rank| {
        let step = make_step(&plan, &now, 0, rank, |_, rank, _| (1 + rank) as f64 * NS);
        vec![SeenStep { k: plan.panel() - 1, ..step }]
    });
    let at = StepTimes {
        step: 3,
        steps: 100,
        assignment: &now,
        ranks: ranks.collect(),
        changing_s: 0.0,
    };
    let directive = director.decide(&at).unwrap();
    assert_eq!((directive.change, directive.steps), (None, 1));
    let learnt = director.finish(0.0);
    assert!(learnt.devices.iter().all(|device| device.model.is_none()));
}
