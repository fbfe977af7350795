//! Changes of the parts of ranks and devices in mid-run, forced every few steps. Functions are as in
//! [`cases`](crate::cases).

use isochron_devices::with_element;
use std::path::Path;
use std::sync::Arc;

use isochron::Error;
use isochron::comm::{Comm, agree};
use isochron::matrix::{Matrix, Op, Spread, volume};
use isochron::plan::{Assignment, PartOfK, Plan, Problem};
use isochron::product::{Directive, Element, Execution, Scalars};
use isochron::product::{Factors, RunConfig};
use isochron::session::Session;
use isochron_core::internal::{Director, StepTimes, run_directed};
use isochron_devices::internal::is_unwritten_memory_free;
use isochron_devices::{DeviceTeam, ElementType, cuda};
use isochron_hierarchy::layout::{Layout, slice_cols};
use num_complex::Complex64;

use crate::cases::{Case, SEEDS, cpu, integers, layouts, open, plan_on, plan_on_nth, scale};
use crate::covering::{Coverage, LIBRARIES};
use crate::disturbed::{DeviceCall, failing_team};
use crate::gpu;
use crate::learning::leave_to_run;
use crate::learning_sessions::start_session;
use crate::parts::make;

/// A director that changes to given assignments in turn.
pub(crate) struct Forced {
    assignments: Vec<Assignment>,
    /// Steps between two changes.
    every: usize,
    /// Changes that were decided on.
    decided: usize,
    /// Refusals that this rank was told of.
    refused: usize,
    /// The last rank has no memory for a change.
    lacks_memory: bool,
}

impl Forced {
    /// Changes all ranks' parts to other [`layouts`], and their devices' columns; if k is split, the columns alone.
    pub(crate) fn new(comm: &dyn Comm, plan: &Plan, every: usize) -> Self {
        let (rows, cols) = plan.problem().c_blocks();
        let assignments =
            layouts(comm.size(), rows, cols).into_iter().enumerate().map(|(turn, layout)| {
                let layout = match plan.division().shares() {
                    None => layout,
                    Some(_) => plan.layout().clone(),
                };
                assign(plan, layout, turn)
            });
        Self {
            assignments: assignments.collect(),
            every,
            decided: 0,
            refused: 0,
            lacks_memory: false,
        }
    }

    /// Changes the columns of devices alone.
    fn of_slices(comm: &dyn Comm, plan: &Plan, every: usize) -> Self {
        let turns = 0..4;
        let assignments = turns.map(|turn| assign(plan, plan.layout().clone(), turn));
        Self { assignments: assignments.collect(), ..Self::new(comm, plan, every) }
    }

    /// Changes nothing.
    fn still(comm: &dyn Comm, plan: &Plan) -> Self {
        Self { assignments: Vec::new(), ..Self::new(comm, plan, 1) }
    }
}

/// Gives each rank its part of a layout, and its devices columns that depend on the `turn`.
fn assign(plan: &Plan, layout: Layout, turn: usize) -> Assignment {
    let problem = plan.problem();
    let spread = Spread::on_layout(problem.m(), problem.n(), problem.block(), &layout);
    let slices = (0..plan.n_ranks()).map(|rank| {
        let cols = match plan.division().shares() {
            None => spread.part(rank).cols,
            Some(_) => plan.computed(rank).cols,
        };
        deal_columns(cols, plan.slices(rank).len(), turn)
    });
    Assignment { slices: slices.collect(), layout }
}

/// Gives devices none, half or all of the columns that are left, and the last one the rest.
fn deal_columns(mut cols: usize, devices: usize, turn: usize) -> Vec<usize> {
    let mut slices = Vec::new();
    for device in 0..devices {
        let share = if device + 1 == devices { cols } else { cols * ((turn + device + 1) % 3) / 2 };
        slices.push(share);
        cols -= share;
    }
    slices
}

impl Director for Forced {
    fn count_first_steps(&mut self) -> usize {
        self.every
    }

    fn decide(&mut self, at: &StepTimes<'_>) -> Result<Directive, Error> {
        assert!(at.step < at.steps && at.changing_s >= 0.0);
        assert_eq!(at.ranks.len(), at.assignment.slices.len());
        for (steps, slices) in at.ranks.iter().zip(&at.assignment.slices) {
            for step in steps {
                assert_eq!(step.samples.len(), slices.len());
                assert!(step.samples.iter().all(|sample| sample.seconds >= 0.0));
            }
        }
        let next = self.decided;
        self.decided += 1;
        Ok(Directive {
            change: match self.assignments.len() {
                0 => None,
                all => Some(self.assignments[(next + 1) % all].clone()),
            },
            steps: self.every,
        })
    }

    fn check_memory(&mut self, comm: &dyn Comm, _bytes: u64) -> Result<(), Error> {
        let lacks = self.lacks_memory && comm.rank() + 1 == comm.size();
        let outcome =
            if lacks { Err(Error::Shape("no memory is left".to_owned())) } else { Ok(()) };
        agree(comm, outcome)
    }

    fn note_refusal(&mut self, reason: &Error) {
        assert!(reason.to_string().contains("no memory is left"), "{reason}");
        self.refused += 1;
    }
}

impl<T: Element> Case<T> {
    /// Multiplies with a director, with A and B made in their parts of k.
    pub(crate) fn multiply_directed(
        &mut self,
        session: &mut Session,
        scalars: Scalars<T>,
        director: &mut dyn Director,
    ) -> Result<Execution, Error> {
        let comm = Arc::clone(session.comm());
        let mut product = session.prepare(&self.plan, RunConfig::default())?;
        let [op_a, op_b] = self.plan.problem().ops();
        let mut parts = |part: &PartOfK| {
            let a = make(comm.as_ref(), part.a(), op_a, SEEDS[0])?;
            Ok((a, make(comm.as_ref(), part.b(), op_b, SEEDS[1])?))
        };
        let factors = match self.plan.k_parts() {
            1 => Factors::of(&self.a, &self.b),
            _ => Factors::made(&mut parts),
        };
        let c = &mut self.c;
        run_directed(&mut product, session, scalars, factors, c, director)
    }

    /// Multiplies whole numbers with forced changes, and compares every element with a reference.
    fn change_exactly(
        &mut self,
        session: &mut Session,
        scalars: Scalars<T>,
        director: &mut Forced,
    ) -> Execution {
        let shared = Arc::clone(session.comm());
        let comm = shared.as_ref();
        self.spoil_unread(scalars);
        let execution = self.multiply_directed(session, scalars, director).unwrap();
        self.assert_reference(scalars, comm);
        assert_eq!(self.c.part(), self.plan.c().part(comm.rank()));
        self.assert_all_products(comm, scalars, &execution);
        execution
    }

    /// Checks that the devices of all ranks together computed every product once.
    fn assert_all_products(&self, comm: &dyn Comm, scalars: Scalars<T>, execution: &Execution) {
        let mut products = [execution.products.iter().sum::<f64>()];
        comm.sum_f64(&mut products).unwrap();
        let problem = self.plan.problem();
        let all = (problem.m() * problem.n() * problem.k()) as f64;
        let expected = if scalars.alpha == T::ZERO { 0.0 } else { all };
        assert_eq!(products[0], expected, "{}", self.label(comm));
        let units = execution.count_units(&self.plan, comm.rank());
        let mut units = [units.iter().sum::<f64>()];
        comm.sum_f64(&mut units).unwrap();
        let planned: f64 = (0..comm.size()).map(|rank| self.plan.units(rank)).sum();
        assert!((units[0] - planned).abs() < 1e-9 * planned, "{units:?}");
    }
}

pub(crate) const SHAPES: [(usize, usize, usize); 5] =
    [(37, 41, 93), (64, 3, 50), (5, 90, 34), (9, 8, 300), (1, 1, 17)];

pub(crate) const OPS: [[Op; 2]; 4] =
    [[Op::N, Op::N], [Op::T, Op::C], [Op::C, Op::N], [Op::N, Op::T]];

/// Steps between two changes.
pub(crate) const EVERY: [usize; 4] = [1, 2, 3, 7];

pub(crate) const LOOKAHEADS: [usize; 3] = [2, 3, 8];

/// Numbers of [`scalars`].
pub(crate) const SCALARS: usize = 3;

pub(crate) fn scalars<T: Element>(number: usize) -> Scalars<T> {
    let of = |re, im| T::of(Complex64::new(re, im));
    [
        scale(of(1.0, 0.0), of(0.0, 0.0)),
        scale(of(-2.0, 1.0), of(3.0, -1.0)),
        scale(of(0.0, 0.0), of(2.0, 0.0)),
    ][number % SCALARS]
}

/// Changes the parts of C every few steps, from layout to layout and back, and from no part to the whole: every element
/// is right, and C is where the plan has it.
pub fn changed_parts(shared: &Arc<dyn Comm>, coverage: Coverage) -> usize {
    let comm = shared.as_ref();
    let levels = [
        ElementType::ALL.len(),
        SHAPES.len(),
        OPS.len(),
        4,
        EVERY.len(),
        LOOKAHEADS.len(),
        2,
        SCALARS,
        LIBRARIES.len(),
    ];
    let rows = coverage.rows_of_ranks(comm, levels);
    let mut session = open(shared);
    for &[element, levels @ .., _] in &rows {
        with_element!(ElementType::ALL[element], T => change_row::<T>(&mut session, levels))
    }
    rows.len()
}

fn change_row<T: Element>(session: &mut Session, levels: [usize; 7]) {
    let shared = Arc::clone(session.comm());
    let comm = shared.as_ref();
    let [shape, ops, layout, every, ahead, slices, number] = levels;
    let (m, n, k) = SHAPES[shape];
    let problem = Problem::new(m, n, k, 4).unwrap().with_panel(3).unwrap();
    let problem = problem.with_element(T::TYPE).with_ops(OPS[ops]);
    let plan = plan_on_nth(comm, problem, layout).with_lookahead(LOOKAHEADS[ahead]);
    let mut director = match slices {
        0 => Forced::new(comm, &plan, EVERY[every]),
        _ => Forced::of_slices(comm, &plan, EVERY[every]),
    };
    let scalars = scalars::<T>(number);
    let steps = plan.steps(comm.rank());
    let mut case: Case<T> = Case::new(comm, plan, integers);
    let execution = case.change_exactly(session, scalars, &mut director);
    // A question goes on its way a step before the answer is due.
    let decides = steps > EVERY[every] + LOOKAHEADS[ahead] + 1 && scalars.alpha != T::ZERO;
    if comm.rank() == 0 {
        assert_eq!(director.decided > 0, decides);
    }
    if decides && slices == 0 && comm.size() > 1 && shape + layout == 0 {
        assert_eq!(execution.changes.last().unwrap().step, steps);
    }
    assert!(slices == 0 || execution.changes.iter().all(|change| change.bytes == 0));
}

/// Ranks whose borders shift by a block keep the other columns where they are in memory. Only columns that change their
/// rank travel.
pub fn changes_within_room(comm: &Arc<dyn Comm>, folder: &Path) -> usize {
    let mut session = start_session(comm, folder);
    let comm = comm.as_ref();
    let (rank, blocks) = (comm.rank(), 6 * comm.size());
    let shifts = [(0, 1), (1, 0), (0, 2), (2, 1)];
    for (number, (before, after)) in shifts.into_iter().enumerate() {
        let problem = Problem::new(37, 4 * blocks, 120, 4).unwrap();
        let [before, after] = [before, after].map(|shift| slice_by(comm.size(), shift));
        let plan = plan_on(problem.with_panel(4).unwrap(), before);
        let plan = leave_to_run(plan, 0);
        let mut director = Forced {
            assignments: vec![
                assign(&plan, plan.layout().clone(), 0),
                assign(&plan, after.clone(), 1),
            ],
            ..Forced::new(comm, &plan, 20)
        };
        let to = Spread::on_layout(37, 4 * blocks, 4, &after);
        let travel = 8 * volume(&plan.c(), &to)[rank];
        let mut case: Case = Case::new(comm, plan, integers);
        let runs = RunConfig { leaves_c: true };
        let mut product = session.prepare(&case.plan, runs).unwrap();
        case.c = product.zeros(&mut session).unwrap();
        case.c.fill(|row, col| integers(SEEDS[2]).element(row, col));
        let middle = 4 * (6 * rank + 3);
        let place = find_column(&case.c, middle);
        let scalars = scalars(number % 2);
        case.spoil_unread(scalars);
        let (factors, c) = (Factors::of(&case.a, &case.b), &mut case.c);
        let run = run_directed(&mut product, &mut session, scalars, factors, c, &mut director);
        let changes = run.unwrap().changes;
        case.assert_reference(scalars, comm);
        assert_eq!(case.c.part(), to.part(rank));
        assert!(
            find_column(&case.c, middle) == place || !is_unwritten_memory_free(),
            "{number} on rank {rank}"
        );
        let found: Vec<u64> = changes.iter().map(|change| change.bytes).collect();
        assert_eq!(found, [travel]);
    }
    shifts.len()
}

/// Gives each of `n` ranks six columns of blocks, with every other border shifted to the right, and all others to the
/// left.
fn slice_by(n: usize, shift: u64) -> Layout {
    let borders: Vec<u64> = (0..=n as u64)
        .map(|border| match border {
            0 => 0,
            last if last == n as u64 => 6 * last,
            odd if odd % 2 == 1 => 6 * odd + shift,
            even => 6 * even - shift,
        })
        .collect();
    let widths: Vec<u64> = borders.windows(2).map(|ends| ends[1] - ends[0]).collect();
    slice_cols(10, &widths).unwrap()
}

/// Returns the address of a column that this rank holds.
fn find_column(matrix: &Matrix, col: usize) -> *const f64 {
    matrix.local().col(col - matrix.part().col).as_ptr()
}

/// A plan of many steps on one of the layouts.
fn long_plan(comm: &dyn Comm, layout: usize) -> Plan {
    let problem = Problem::new(37, 41, 120, 4).unwrap();
    plan_on_nth(comm, problem.with_panel(4).unwrap(), layout)
}

/// A director that changes nothing costs no message of the panels.
pub fn no_change_sends_nothing_more(shared: &Arc<dyn Comm>) -> usize {
    let comm = shared.as_ref();
    for layout in 0..4 {
        let plan = long_plan(comm, layout);
        let mut case: Case = Case::new(comm, plan.clone(), integers);
        let alone = case.multiply(&mut open(shared), scalars(0));
        let mut case: Case = Case::new(comm, plan.clone(), integers);
        let mut director = Forced::still(comm, &plan);
        let still = case.change_exactly(&mut open(shared), scalars(0), &mut director);
        assert_eq!((still.messages, still.bytes), (alone.messages, alone.bytes));
        assert!(still.changes.is_empty() && still.changing_s == 0.0);
    }
    4
}

/// A change without memory on one rank is refused on all, and the multiplication goes on as before.
pub fn refused_changes(shared: &Arc<dyn Comm>) -> usize {
    let comm = shared.as_ref();
    let plan = long_plan(comm, 0);
    let mut director = Forced { lacks_memory: true, ..Forced::new(comm, &plan, 4) };
    // The slices alone need no memory.
    director.assignments.rotate_left(1);
    let mut case: Case = Case::new(comm, plan, integers);
    case.change_exactly(&mut open(shared), scalars(1), &mut director);
    assert_eq!(director.refused > 0, comm.size() > 1);
    1
}

/// A director that fails, and one that decides on what does not fit: all ranks leave with that error.
pub fn failing_directors(shared: &Arc<dyn Comm>) -> usize {
    let comm = shared.as_ref();
    struct Failing(Option<Assignment>);
    impl Director for Failing {
        fn count_first_steps(&mut self) -> usize {
            0
        }

        fn decide(&mut self, _at: &StepTimes<'_>) -> Result<Directive, Error> {
            match self.0.take() {
                None => Err(Error::Shape("nothing was learnt".to_owned())),
                change => Ok(Directive { change, steps: 0 }),
            }
        }
    }
    let plan = long_plan(comm, 0);
    let fitting = Forced::new(comm, &plan, 1).assignments.swap_remove(0);
    let mut narrow = fitting.clone();
    narrow.slices[comm.size() - 1][0] += 1;
    let mut few = fitting.clone();
    few.slices.pop();
    let mut small = fitting;
    small.layout = layouts(comm.size(), 1, 1)[0].clone();
    let all = [
        (None, "nothing was learnt"),
        (Some(narrow), "columns, the part has"),
        (Some(few), "other devices"),
        (Some(small), "not one of this C"),
    ];
    let count = all.len();
    for (change, expected) in all {
        let mut case: Case = Case::new(comm, plan.clone(), integers);
        let error = case
            .multiply_directed(&mut open(shared), scalars(0), &mut Failing(change))
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{error}");
    }
    count
}

/// A device of one rank fails between two changes, or in one: all ranks leave with its name.
pub fn devices_that_fail_between_changes(shared: &Arc<dyn Comm>) -> usize {
    let comm = shared.as_ref();
    let all = [DeviceCall::Update(0), DeviceCall::Update(7), DeviceCall::Finish];
    for at in all {
        let plan = long_plan(comm, 0);
        let mut director = Forced::new(comm, &plan, 3);
        let mut case: Case = Case::new(comm, plan, integers);
        let mut session = Session::of_team(Arc::clone(shared), failing_team(comm, at));
        let error = case
            .multiply_directed(&mut session, scalars(0), &mut director)
            .unwrap_err()
            .to_string();
        assert!(error.contains("second") && error.contains("made to fail"), "{error}");
        assert_eq!(case.c.part(), case.plan.c().part(comm.rank()));
    }
    all.len()
}

/// One rank cannot make its second part of A and B, with a question on its way or not: all ranks leave with its error, and the next
/// multiplication is right.
pub fn parts_that_fail_between_changes(shared: &Arc<dyn Comm>) -> usize {
    let comm = shared.as_ref();
    let last = comm.size() - 1;
    let mut session = open(shared);
    for every in EVERY {
        for ahead in LOOKAHEADS {
            let plan = long_plan(comm, 0).with_lookahead(ahead).with_k_parts(3).unwrap();
            let mut director = Forced::new(comm, &plan, every);
            let mut case: Case = Case::new(comm, plan, integers);
            let mut made = 0;
            let mut parts = |part: &PartOfK| {
                made += 1;
                let a = make(comm, part.a(), Op::N, SEEDS[0])?;
                if made == 2 && comm.rank() == last {
                    return Err(Error::output("a part", "the part is lost"));
                }
                Ok((a, make(comm, part.b(), Op::N, SEEDS[1])?))
            };
            let mut product = session.prepare(&case.plan, RunConfig::default()).unwrap();
            let (factors, c) = (Factors::made(&mut parts), &mut case.c);
            let run =
                run_directed(&mut product, &mut session, scalars(0), factors, c, &mut director);
            let error = run.unwrap_err().to_string();
            assert!(error.contains("the part is lost"), "{error}");
            let mut case: Case = Case::new(comm, long_plan(comm, 0), integers);
            let mut director = Forced::new(comm, &case.plan, every);
            case.change_exactly(&mut session, scalars(1), &mut director);
        }
    }
    EVERY.len() * LOOKAHEADS.len()
}

/// Changes the columns of GPUs and of the ranks that drive them, with C on the GPU and streaming through it. Without a
/// GPU there is no case.
pub fn changes_of_gpus(shared: &Arc<dyn Comm>) -> usize {
    let comm = shared.as_ref();
    if cuda::survey().devices.is_empty() {
        return 0;
    }
    let limits = [None, Some(12_000)];
    for (turn, limit) in limits.into_iter().enumerate() {
        for every in EVERY {
            let plan = long_plan(comm, turn);
            let mut director = match every % 2 {
                0 => Forced::of_slices(comm, &plan, every),
                _ => Forced::new(comm, &plan, every),
            };
            let gpu = gpu::worker(limit).unwrap();
            let team = DeviceTeam::new(vec![cpu("first"), gpu.into()]).unwrap();
            let mut session = Session::of_team(Arc::clone(shared), team);
            let mut case: Case = Case::new(comm, plan, integers);
            case.change_exactly(&mut session, scalars(1), &mut director);
        }
    }
    limits.len() * EVERY.len()
}
