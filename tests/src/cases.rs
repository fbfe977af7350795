//! Cases that hold on any number of ranks. Every function is collective and returns the number of cases that it ran. It
//! panics if something does not hold, which ends the job.

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use isochron::comm::{Comm, agree, share_outcome};
use isochron::matrix::{Generator, Matrix, Op, Operand, Spread, file};
use isochron::plan::{Plan, Problem};
use isochron::product::{Element, Execution, Scalars};
use isochron::product::{Factors, RunConfig};
use isochron::session::Session;
use isochron::verify::{Exact, Probe};
use isochron::{Error, ErrorClass};
use isochron_devices::CpuWorker;
use isochron_devices::Worker;
use isochron_devices::blas::EmbeddedBlas;
use isochron_devices::topology::Topology;
use isochron_devices::{DeviceTeam, ElementType};
use isochron_hierarchy::layout::{Layout, Rect, columns};
use num_complex::{Complex, Complex64};

use crate::covering::{Coverage, LIBRARIES};

/// Shapes m, n, k: powers of two and primes, thin ones, fewer rows or columns than ranks, and nothing at all.
const SHAPES: [(usize, usize, usize); 16] = [
    (1, 1, 1),
    (7, 13, 31),
    (1000, 1, 999),
    (97, 106, 283),
    (64, 64, 64),
    (2, 200, 33),
    (200, 3, 33),
    (1, 257, 64),
    (128, 96, 1),
    (33, 31, 32),
    (5, 5, 0),
    (0, 5, 5),
    (5, 0, 5),
    (0, 0, 0),
    (1, 1, 500),
    (61, 59, 67),
];

const BLOCKS: [usize; 4] = [1, 8, 32, 100];

pub(crate) const fn scale<T: Copy>(alpha: T, beta: T) -> Scalars<T> {
    Scalars { alpha, beta }
}

/// `beta = 0` over NaN: C must not be read.
const OVERWRITE: Scalars = scale(1.0, 0.0);

/// Returns this machine's topology, which takes longer to find than most cases to run: hwloc loads its plugins each
/// time.
fn share_topology() -> Arc<Topology> {
    static TOPOLOGY: LazyLock<Arc<Topology>> =
        LazyLock::new(|| Arc::new(Topology::discover().unwrap()));
    Arc::clone(&TOPOLOGY)
}

/// A device of one thread.
pub(crate) fn cpu(name: &str) -> Box<dyn Worker> {
    let topology = share_topology();
    let core = topology.cores()[0].clone();
    let blas = Arc::new(EmbeddedBlas);
    CpuWorker::new(topology, name, vec![core], false, blas).unwrap().into()
}

/// A team of two devices with a thread each, so that slices matter.
pub(crate) fn team() -> DeviceTeam {
    DeviceTeam::new(vec![cpu("first"), cpu("second")]).unwrap()
}

/// A session with such a team on each rank.
pub(crate) fn open(comm: &Arc<dyn Comm>) -> Session {
    Session::of_team(Arc::clone(comm), team())
}

/// Layouts of `rows×cols` blocks for `n` ranks: balanced, lopsided, one rank has all, and one that is not made
/// of columns.
pub(crate) fn layouts(n: usize, rows: u64, cols: u64) -> [Layout; 4] {
    let lopsided: Vec<f64> =
        (0..n).map(|rank| [1.0, 1000.0, 0.0, 30.0, 7.0, 2.0][rank % 6]).collect();
    let mut all = vec![0.0; n];
    all[n - 1] = 1.0;
    let [even, lopsided, all] =
        [vec![1.0; n], lopsided, all].map(|areas| columns::br(&areas, rows, cols).unwrap());
    [even, lopsided, all, spiral(n, rows, cols)]
}

/// Cuts a row, then a column, then a row, ... off the rest.
fn spiral(n: usize, rows: u64, cols: u64) -> Layout {
    let mut rest = Rect { row: 0, col: 0, rows, cols };
    let mut rects = Vec::new();
    for rank in 0..n {
        let last = rank + 1 == n;
        let mut part = rest;
        if rank % 2 == 0 {
            part.rows = if last { rest.rows } else { rest.rows / 2 };
            rest = Rect { row: rest.row + part.rows, rows: rest.rows - part.rows, ..rest };
        } else {
            part.cols = if last { rest.cols } else { rest.cols / 3 };
            rest = Rect { col: rest.col + part.cols, cols: rest.cols - part.cols, ..rest };
        }
        rects.push(part);
    }
    Layout::new(rows, cols, rects).unwrap()
}

/// Plans on all of [`layouts`].
pub(crate) fn plans_on_all(comm: &dyn Comm, problem: Problem) -> [Plan; 4] {
    let (rows, cols) = problem.c_blocks();
    layouts(comm.size(), rows, cols).map(|layout| plan_on(problem, layout))
}

/// A plan on one of [`layouts`], by its number.
pub(crate) fn plan_on_nth(comm: &dyn Comm, problem: Problem, number: usize) -> Plan {
    let (rows, cols) = problem.c_blocks();
    plan_on(problem, layouts(comm.size(), rows, cols)[number].clone())
}

/// A plan on a layout of ours, every rank's columns split 2 : 1 over its two devices.
pub(crate) fn plan_on(problem: Problem, layout: Layout) -> Plan {
    let spread = Spread::on_layout(problem.m(), problem.n(), problem.block(), &layout);
    let slices = (0..layout.rects().len()).map(|rank| {
        let cols = spread.part(rank).cols;
        vec![cols * 2 / 3, cols - cols * 2 / 3]
    });
    Plan::with_layout(problem, layout, &slices.collect::<Vec<_>>()).unwrap()
}

/// A plan with these shares of k, every rank's columns of C split over its two devices, the first of which gets one of
/// `parts` parts.
pub(crate) fn plan_shares(problem: Problem, shares: Vec<u64>, parts: usize) -> Plan {
    let slices = shares.iter().map(|&share| {
        let cols = if share == 0 { 0 } else { problem.n() };
        vec![cols / parts, cols - cols / parts]
    });
    let slices: Vec<_> = slices.collect();
    Plan::along_k(problem, shares, &slices).unwrap()
}

/// A plan that deals the blocks of k out to the ranks, every rank's columns of C split evenly over its two devices.
pub(crate) fn plan_along_k(comm: &dyn Comm, problem: Problem) -> Plan {
    let mut shares = vec![0; comm.size()];
    for block in 0..problem.k_blocks() as usize {
        shares[block % comm.size()] += 1;
    }
    plan_shares(problem, shares, 2)
}

/// A multiplication that is planned, and its matrices.
pub(crate) struct Case<T: 'static = f64> {
    pub plan: Plan,
    pub a: Matrix<T>,
    pub b: Matrix<T>,
    pub c: Matrix<T>,
}

pub(crate) const SEEDS: [u64; 3] = [11, 12, 13];

impl<T: Element> Case<T> {
    /// The plan with generated matrices: `op(A)`, `op(B)` and C are the generators' elements, whatever the operations.
    pub(crate) fn new(comm: &dyn Comm, plan: Plan, generator: fn(u64) -> Generator) -> Self {
        let spreads = [(plan.a(), SEEDS[0]), (plan.b(), SEEDS[1]), (plan.c(), SEEDS[2])];
        let [mut a, mut b, c] = spreads
            .map(|(spread, seed)| Matrix::generate(spread, comm.rank(), generator(seed)).unwrap());
        for ((matrix, op), seed) in
            [&mut a, &mut b].into_iter().zip(plan.problem().ops()).zip(SEEDS)
        {
            let generator = generator(seed);
            match op {
                Op::N => {}
                Op::T => matrix.fill(|row, col| generator.element(col, row)),
                Op::C => matrix.fill(|row, col| generator.element::<T>(col, row).conj()),
            }
        }
        Self { plan, a, b, c }
    }

    pub(crate) fn operands(&self) -> [Operand<'_, T>; 2] {
        self.plan.operands(&self.a, &self.b)
    }

    /// An exact check that is begun, and has seen A and B.
    pub(crate) fn exact_check(&self, comm: &dyn Comm, scalars: Scalars<T>, seed: u64) -> Exact<T> {
        let mut check = Exact::begin(comm, scalars, &self.c, seed).unwrap();
        check.add(comm, self.operands()).unwrap();
        check
    }

    /// Multiplies as planned.
    pub(crate) fn run(
        &mut self,
        session: &mut Session,
        scalars: Scalars<T>,
    ) -> Result<Execution, Error> {
        let mut product = session.prepare(&self.plan, RunConfig::default())?;
        let factors = Factors::of(&self.a, &self.b);
        let run = product.run(session, scalars, factors, &mut self.c)?;
        Ok(run.execution)
    }

    pub(crate) fn multiply(&mut self, session: &mut Session, scalars: Scalars<T>) -> Execution {
        self.run(session, scalars).unwrap()
    }

    /// Fills the matrices that must not be read with what would show.
    pub(crate) fn spoil_unread(&mut self, scalars: Scalars<T>) {
        if scalars.beta == T::ZERO {
            fill_with(&mut self.c, f64::NAN);
        }
        if scalars.alpha == T::ZERO {
            fill_with(&mut self.a, f64::NAN);
            fill_with(&mut self.b, f64::INFINITY);
        }
    }

    /// Multiplies whole numbers, compares every element with a reference, and lets the exact check agree.
    pub(crate) fn multiply_exactly(
        &mut self,
        session: &mut Session,
        scalars: Scalars<T>,
    ) -> Execution {
        self.spoil_unread(scalars);
        let shared = Arc::clone(session.comm());
        let comm = shared.as_ref();
        let check = self.exact_check(comm, scalars, 5);
        let execution = self.multiply(session, scalars);
        self.assert_reference(scalars, comm);
        let passed = check.finish(comm, &self.c).unwrap().passed;
        assert_eq!(passed, Some(true), "{}", self.label(comm));
        execution
    }

    /// Compares every element of C, of whole numbers, with what it is in exact arithmetic.
    pub(crate) fn assert_reference(&self, scalars: Scalars<T>, comm: &dyn Comm) {
        let part = self.c.part();
        let reference =
            Reference::new(self.plan.problem(), scalars, part.row..part.row + part.rows);
        for j in 0..part.cols {
            let expected = reference.column(part.col + j);
            for (i, found) in self.c.local().col(j).iter().enumerate() {
                let place = (part.row + i, part.col + j);
                assert_eq!(found, &expected[i], "element {place:?}, {}", self.label(comm));
            }
        }
    }

    pub(crate) fn label(&self, comm: &dyn Comm) -> String {
        format!("{:?} on rank {} with {:?}", self.plan.problem(), comm.rank(), self.plan.layout())
    }
}

fn fill_with<T: Element>(matrix: &mut Matrix<T>, value: f64) {
    matrix.fill(|_, _| T::of(Complex64::new(value, value)));
}

pub(crate) fn integers(seed: u64) -> Generator {
    Generator::Integers { seed }
}

pub(crate) fn uniform(seed: u64) -> Generator {
    Generator::Uniform { seed }
}

/// Some rows of `alpha·op(A)·op(B) + beta·C` in whole numbers, from the generators alone. A factor of 0 hides its matrix.
struct Reference<T> {
    rows: Range<usize>,
    scalars: Scalars<T>,
    /// These rows of op(A), of k elements each.
    a: Vec<Vec<Complex<i64>>>,
    k: usize,
}

impl<T: Element> Reference<T> {
    fn new(problem: &Problem, scalars: Scalars<T>, rows: Range<usize>) -> Self {
        let (k, a) = (problem.k(), integers(SEEDS[0]));
        let mut factors = Vec::new();
        for row in rows.clone() {
            factors.push((0..k).map(|l| to_whole::<T>(a.element(row, l))).collect());
        }
        Self { a: factors, rows, scalars, k }
    }

    /// Computes the elements of these rows in a column.
    fn column(&self, col: usize) -> Vec<T> {
        let [b, c] = [SEEDS[1], SEEDS[2]].map(integers);
        let factors: Vec<Complex<i64>> =
            (0..self.k).map(|l| to_whole::<T>(b.element(l, col))).collect();
        let [alpha, beta] = [self.scalars.alpha, self.scalars.beta].map(to_whole);
        self.rows
            .clone()
            .zip(&self.a)
            .map(|(row, a)| {
                let before = beta * to_whole::<T>(c.element(row, col));
                let sum = alpha * dot(a, &factors) + before;
                T::of(Complex64::new(sum.re as f64, sum.im as f64))
            })
            .collect()
    }
}

/// Multiplies a row with a column. Without iterators and operators, which nothing optimises here.
fn dot(row: &[Complex<i64>], col: &[Complex<i64>]) -> Complex<i64> {
    let (mut re, mut im, mut l) = (0, 0, 0);
    while l < row.len() {
        let (a, b) = (row[l], col[l]);
        re += a.re * b.re - a.im * b.im;
        im += a.re * b.im + a.im * b.re;
        l += 1;
    }
    Complex::new(re, im)
}

fn to_whole<T: Element>(value: T) -> Complex<i64> {
    let Complex64 { re, im } = value.value();
    Complex::new(re as i64, im as i64)
}

/// Multiplies whole numbers of all shapes, blocks and layouts, with beta = 0 over NaN: every element is compared with a
/// reference, and the exact check agrees.
pub fn exact(shared: &Arc<dyn Comm>, coverage: Coverage) -> usize {
    let comm = shared.as_ref();
    let mut session = open(shared);
    let levels = [SHAPES.len(), BLOCKS.len(), 4, LIBRARIES.len()];
    let all = coverage.rows_of_library(comm, levels);
    for &[shape, block, layout, _] in &all {
        let (m, n, k) = SHAPES[shape];
        let problem = Problem::new(m, n, k, BLOCKS[block]).unwrap();
        let mut case = Case::new(comm, plan_on_nth(comm, problem, layout), integers);
        case.multiply_exactly(&mut session, OVERWRITE);
    }
    all.len()
}

/// Random numbers: the probe's residual stays below its bound.
pub fn probe(shared: &Arc<dyn Comm>) -> usize {
    let comm = shared.as_ref();
    let mut session = open(shared);
    let mut count = 0;
    for (m, n, k) in SHAPES {
        for (scalars, layout) in [(OVERWRITE, 0), (scale(-0.7, 1.3), 1)] {
            let problem = Problem::new(m, n, k, 16).unwrap();
            let mut case = Case::new(comm, plan_on_nth(comm, problem, layout), uniform);
            let factors = Some(case.operands());
            let mut check = Probe::begin(comm, scalars, &case.c, factors, 7).unwrap();
            check.add(comm, case.operands()).unwrap();
            case.multiply(&mut session, scalars);
            let mut again = case.operands();
            let verdict = check.finish(comm, &case.c, Some(&mut again)).unwrap();
            assert_eq!(
                verdict.passed,
                Some(true),
                "residual {} in {}",
                verdict.residual,
                case.label(comm)
            );
            count += 1;
        }
    }
    count
}

/// Results that are wrong in one place do not pass: an element that is off, two that changed places, one NaN.
pub fn wrong_results(shared: &Arc<dyn Comm>) -> usize {
    let comm = shared.as_ref();
    let mut session = open(shared);
    let damages: [fn(&mut [f64]); 3] = [
        |c| c[0] += 1.0,
        |c| {
            let other = c.iter().position(|value| *value != c[0]).unwrap();
            c.swap(0, other);
        },
        |c| c[0] = f64::NAN,
    ];
    let problem = Problem::new(40, 44, 52, 4).unwrap();
    for damage in damages {
        for generator in [integers as fn(u64) -> Generator, uniform] {
            let mut case = Case::new(comm, plan_on_nth(comm, problem, 0), generator);
            let scalars = scale(1.0, 1.0);
            let mut probe = Probe::begin(comm, scalars, &case.c, None, 9).unwrap();
            probe.add(comm, case.operands()).unwrap();
            let is_whole = generator(0) == integers(0);
            let exact = is_whole.then(|| case.exact_check(comm, scalars, 9));
            case.multiply(&mut session, scalars);
            if comm.rank() == comm.size() - 1 {
                let part = case.c.part();
                let mut elements: Vec<f64> =
                    (0..part.cols).flat_map(|j| case.c.local().col(j).to_vec()).collect();
                damage(&mut elements);
                case.c.fill(|row, col| elements[row - part.row + (col - part.col) * part.rows]);
            }
            let passed = probe.finish(comm, &case.c, None).unwrap().passed;
            assert_eq!(passed, Some(false), "the probe missed the damage");
            let passed = exact.and_then(|check| check.finish(comm, &case.c).unwrap().passed);
            assert_ne!(passed, Some(true), "the exact check missed the damage");
        }
    }
    2 * damages.len()
}

/// A bit of A, B or C flips after the check has read it, before the devices use it or in the result. No result passes in which an
/// element is wrong by 64 roundings.
pub fn flips(shared: &Arc<dyn Comm>) -> usize {
    by_type!(flips_of(shared))
}

/// Flips of each type on each number of ranks, equally many of A, of B, of C before the multiplication and of C after it.
const FLIPS: usize = 52;

fn flips_of<T: Element>(shared: &Arc<dyn Comm>) -> usize {
    let comm = shared.as_ref();
    let mut session = open(shared);
    let (m, n, k) = (31, 43, 37);
    let problem = Problem::new(m, n, k, 4).unwrap().with_element(T::TYPE);
    let parts = if T::TYPE.is_complex() { 2.0 } else { 1.0 };
    // The norms of rows and columns of uniform numbers are less.
    let terms = parts * k as f64;
    let limit = 64.0 * T::EPSILON / 2.0 * (terms.sqrt() + 4.0) * (terms + parts);
    let scalars = [scale(T::ONE, T::ZERO), scale(T::ONE, T::ONE)];
    let make = |layout| Case::<T>::new(comm, plan_on_nth(comm, problem, layout), uniform);
    let mut clean = Vec::new();
    for (layout, scalars) in (0..8).map(|which| (which / 2, scalars[which % 2])) {
        let mut case = make(layout);
        case.multiply(&mut session, scalars);
        clean.push(case.c);
    }
    let mut found = 0;
    for seed in 0.. {
        let (of, layout) = (found % 4, found / 4 % 4);
        let (clean, scalars) = (&clean[2 * layout + of / 2], scalars[of / 2]);
        let mut case = make(layout);
        let factors = Some(case.operands());
        let mut probe = Probe::begin(comm, scalars, &case.c, factors, seed as u64).unwrap();
        probe.add(comm, case.operands()).unwrap();
        match of {
            0 => flip(&mut case.a, seed),
            1 => flip(&mut case.b, seed),
            2 => flip(&mut case.c, seed),
            _ => {}
        }
        case.multiply(&mut session, scalars);
        if of == 3 {
            flip(&mut case.c, seed);
        }
        let (found_c, right_c) = (case.c.local(), clean.local());
        let pairs = (0..found_c.cols()).flat_map(|j| found_c.col(j).iter().zip(right_c.col(j)));
        let mut errors = pairs.map(|(found, right)| (found.value() - right.value()).norm());
        let is_wrong = !errors.all(|error| error <= limit);
        let is_wrong = comm.largest(f64::from(u8::from(is_wrong))).unwrap() > 0.0;
        let mut again = case.operands();
        let verdict = probe.finish(comm, &case.c, Some(&mut again)).unwrap();
        if is_wrong {
            let label = format!("{verdict:?} of {of}, seed {seed}, {}", case.label(comm));
            assert_ne!(verdict.passed, Some(true), "{label}");
            found += 1;
        }
        if found == FLIPS {
            break;
        }
    }
    found
}

/// Flips a bit of some element on the rank that holds it: a sign, a bit of an exponent or a high one of a fraction.
fn flip<T: Element>(matrix: &mut Matrix<T>, seed: usize) {
    let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    let [row, col] = [matrix.spread().rows(), matrix.spread().cols()].map(|len| random % len);
    let part = matrix.part();
    if !part.row_range().contains(&row) || !part.col_range().contains(&col) {
        return;
    }
    let mut local = matrix.local_mut();
    let element = &mut local.col_mut(col - part.col)[row - part.row];
    let mut value = element.value();
    let number =
        if T::TYPE.is_complex() && seed.is_multiple_of(2) { &mut value.im } else { &mut value.re };
    *number = match T::TYPE {
        ElementType::F32 | ElementType::C32 => {
            f64::from(f32::from_bits((*number as f32).to_bits() ^ (1 << (31 - seed % 16))))
        }
        _ => f64::from_bits(number.to_bits() ^ (1 << (63 - seed % 30))),
    };
    *element = T::of(value);
}

/// The bytes on the way are those that the layout predicts: what each part of C needs less what its rank holds.
pub fn volume(shared: &Arc<dyn Comm>) -> usize {
    let comm = shared.as_ref();
    let mut session = open(shared);
    let problem = Problem::new(61, 59, 67, 4).unwrap();
    let plans = plans_on_all(comm, problem);
    let count = plans.len();
    for plan in plans {
        let mut case = Case::new(comm, plan, integers);
        let execution = case.multiply(&mut session, OVERWRITE);
        let mut sent = [execution.bytes];
        comm.sum_u64(&mut sent).unwrap();
        let ranks = 0..comm.size();
        let predicted: usize = ranks.map(|rank| count_needed(&case.plan, rank)).sum();
        assert_eq!(sent[0], 8 * predicted as u64, "{}", case.label(comm));
    }
    count
}

/// Counts the elements of A and B that a rank's part of C needs and the rank does not hold.
fn count_needed(plan: &Plan, rank: usize) -> usize {
    let [a, b, c] = [plan.a(), plan.b(), plan.c()].map(|spread| spread.part(rank));
    if c.is_empty() {
        return 0;
    }
    let own_a = count_common(&a.row_range(), &c.row_range()) * a.cols;
    let own_b = count_common(&b.col_range(), &c.col_range()) * b.rows;
    (c.rows + c.cols) * plan.problem().k() - own_a - own_b
}

fn count_common(x: &Range<usize>, y: &Range<usize>) -> usize {
    x.end.min(y.end).saturating_sub(x.start.max(y.start))
}

/// A matrix that goes to a file and comes back on another layout is the same.
pub fn files(comm: &dyn Comm, folder: &Path) -> usize {
    by_type!(files_of(comm, folder))
}

fn files_of<T: Element>(comm: &dyn Comm, folder: &Path) -> usize {
    let mut count = 0;
    for ending in ["npy", "mtx"] {
        for (rows, cols) in [(1, 1), (37, 23), (1, 300), (300, 1), (0, 4), (1100, 1000)] {
            if ending == "mtx" && rows * cols > 100_000 {
                continue; // Text of this size takes long and shows nothing new.
            }
            let block = 8;
            let [down, across] = [rows, cols].map(|size: usize| size.div_ceil(block) as u64);
            let [even, lopsided, ..] = layouts(comm.size(), down, across)
                .map(|layout| Spread::on_layout(rows, cols, block, &layout));
            let written: Matrix<T> = Matrix::generate(even, comm.rank(), uniform(3)).unwrap();
            let path = folder.join(format!("{}-{rows}x{cols}.{ending}", T::TYPE));
            file::write(comm, &path, &written).unwrap();
            let shape = file::open(comm, &path).unwrap().shape();
            assert_eq!((shape.rows, shape.cols), (rows, cols));
            // Text does not say how precise it is.
            let is_held = shape.element == shape.element.and(T::TYPE);
            assert!(is_held && shape.element.is_complex() == T::TYPE.is_complex());
            let (read, _) = file::read::<T>(comm, &path, lopsided.clone()).unwrap();
            let expected: Matrix<T> = Matrix::generate(lopsided, comm.rank(), uniform(3)).unwrap();
            for j in 0..read.part().cols {
                assert_eq!(read.local().col(j), expected.local().col(j), "{ending} {rows}×{cols}");
            }
            count += 1;
        }
    }
    count
}

/// The failure of one rank is the failure of all, with its name and whose fault it was.
pub fn failures(comm: &dyn Comm) -> usize {
    let failing = comm.size() - 1;
    let outcome =
        if comm.rank() == failing { Err(Error::Shape("made up".to_string())) } else { Ok(()) };
    let error = agree(comm, outcome).unwrap_err();
    assert!(error.to_string().contains("made up"), "{error}");
    assert_eq!(error.class(), ErrorClass::Input);
    if comm.size() > 1 {
        assert!(matches!(error, Error::Rank { rank, .. } if rank == failing), "{error}");
    }
    let shared = |outcome: fn() -> Result<usize, Error>| {
        share_outcome(comm, failing, (comm.rank() == failing).then(outcome))
    };
    assert_eq!(shared(|| Ok(7)).unwrap(), 7);
    let refused = shared(|| Err(Error::Shape("made up".to_string()))).unwrap_err();
    assert_eq!(refused.to_string(), error.to_string());
    assert_eq!(refused.class(), ErrorClass::Input);
    let missing = file::open(comm, Path::new("no-such-file.npy")).unwrap_err();
    assert!(missing.to_string().contains("no-such-file.npy"), "{missing}");
    4
}

/// Asserts that the ranks have sent as many messages and bytes as the plan says that they receive.
pub(crate) fn assert_counted(comm: &dyn Comm, plan: &Plan, execution: &Execution) {
    let planned = plan.count_received(comm.rank());
    let mut sums = [planned.messages, planned.bytes, execution.messages, execution.bytes];
    comm.sum_u64(&mut sums).unwrap();
    assert_eq!(sums[..2], sums[2..], "{:?}", plan.problem());
}
