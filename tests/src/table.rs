//! The table of multiplications: element types, operations, shapes, layouts, strategies, numbers of ranks and MPI
//! libraries, on random numbers. Each row is multiplied as planned, with parts that change every few steps to any others,
//! and while learning, with changes forced every few steps. Each element is compared with the product of the whole matrices by the local BLAS.
//!
//! Each MPI library with each number of ranks runs rows of its own; together they hold all pairs of levels of any two
//! factors, or all combinations with [`Coverage::Whole`].
//!
//! The bound is that of the testers of PBLAS: an element may err by 16 roundings of its gauge,
//! `|alpha|·Σ|a||b| + |beta||c|`.

use isochron_devices::with_element;
use std::sync::Arc;

use isochron::comm::Comm;
use isochron::matrix::Op;
use isochron::plan::Problem;
use isochron::product::{Element, Scalars};
use isochron::session::Session;
use isochron_devices::blas::{self, BlasChoice};
use isochron_devices::{Blas, ElementType, View, ViewMut};
use isochron_hierarchy::balance::{BalanceConfig, Strategy};
use isochron_hierarchy::layout::Method;
use isochron_hierarchy::learn::Tuning;
use num_complex::Complex64;

use crate::cases::{Case, SEEDS, open, plan_along_k, plan_on_nth, scale, uniform};
use crate::changes::Forced;
use crate::covering::{Coverage, LIBRARIES, RANKS, number_library};
use crate::learning::leave_to_run;

/// Square, long in each dimension, smaller than a block, and nothing to sum.
const SHAPES: [(usize, usize, usize); 7] =
    [(61, 59, 67), (300, 7, 9), (5, 200, 17), (9, 8, 500), (3, 2, 1), (1, 1, 40), (6, 7, 0)];

const OPS: [Op; 3] = [Op::N, Op::T, Op::C];

/// Layouts that are given, and k divided.
const GIVEN: usize = 5;

const STRATEGIES: [Strategy; 5] = [
    Strategy::Adaptive,
    Strategy::Homogeneous,
    Strategy::SingleCpm,
    Strategy::MultiCpm,
    Strategy::Fpm,
];

const METHODS: [Method; 5] =
    [Method::Br, Method::Kl, Method::FpmKl, Method::Cartesian, Method::Recursive];

/// The levels of a given row: element type, operations, shape, division, number of ranks and MPI library.
const GIVEN_LEVELS: [usize; 6] = [
    ElementType::ALL.len(),
    OPS.len() * OPS.len(),
    SHAPES.len(),
    GIVEN,
    RANKS.len(),
    LIBRARIES.len(),
];

/// The levels of a planned row, with a strategy and a method in place of the division.
const PLANNED_LEVELS: [usize; 7] = [
    ElementType::ALL.len(),
    OPS.len() * OPS.len(),
    SHAPES.len(),
    STRATEGIES.len(),
    METHODS.len(),
    RANKS.len(),
    LIBRARIES.len(),
];

/// Roundings of the gauge that an element may err by.
const ROUNDINGS: f64 = 16.0;

/// The whole of what a multiplication is to give, with the size of what was summed for each element.
struct Expected<T> {
    rows: usize,
    c: Vec<T>,
    gauge: Vec<f64>,
}

impl<T: Element> Expected<T> {
    fn new((m, n, k): (usize, usize, usize), scalars: Scalars<T>, library: &dyn Blas) -> Self {
        let (a, b) = (make_whole(SEEDS[0], m, k), make_whole(SEEDS[1], k, n));
        let mut c = make_whole(SEEDS[2], m, n);
        let gauge = c
            .iter()
            .enumerate()
            .map(|(place, &c)| {
                let (i, j) = (place % m, place / m);
                let terms = (0..k).map(|l| size(a[i + l * m]) * size(b[l + j * k]));
                size(scalars.alpha) * terms.sum::<f64>() + size(scalars.beta) * size(c)
            })
            .collect();
        let mut view = ViewMut::new(&mut c, m, n, m);
        view.scale(scalars.beta);
        let (a, b) = (View::new(&a, m, k, m), View::new(&b, k, n, k.max(1)));
        T::select_gemm(library).gemm(scalars.alpha, a, b, view);
        Self { rows: m, c, gauge }
    }

    /// Checks that no element of this rank is off by too many roundings.
    fn assert_close(&self, case: &Case<T>, comm: &dyn Comm) {
        let (ratio, label) = (self.ratio(case), case.label(comm));
        assert!(ratio < ROUNDINGS, "{ratio} roundings off, {label}");
    }

    /// The most roundings of its gauge that an element of this rank is off by.
    fn ratio(&self, case: &Case<T>) -> f64 {
        let part = case.c.part();
        let mut most = 0.0_f64;
        for j in 0..part.cols {
            for (i, &found) in case.c.local().col(j).iter().enumerate() {
                let place = part.row + i + (part.col + j) * self.rows;
                let off = (found.value() - self.c[place].value()).norm();
                let bound = T::EPSILON * self.gauge[place];
                // Not `max`, which would forget a NaN.
                let ratio = if off == 0.0 { 0.0 } else { off / bound };
                most = if ratio <= most { most } else { ratio };
            }
        }
        most
    }
}

/// Makes all elements of a generated matrix.
fn make_whole<T: Element>(seed: u64, rows: usize, cols: usize) -> Vec<T> {
    let generator = uniform(seed);
    let places = 0..rows * cols;
    places.map(|place| generator.element(place % rows, place / rows)).collect()
}

fn size<T: Element>(value: T) -> f64 {
    value.value().norm()
}

fn scalars<T: Element>(number: usize) -> Scalars<T> {
    let (alpha, beta) =
        [((1.0, 0.0), (0.0, 0.0)), ((-0.7, 0.4), (1.3, -0.2)), ((2.5, 0.0), (1.0, 0.0))]
            [number % 3];
    scale(T::of(Complex64::new(alpha.0, alpha.1)), T::of(Complex64::new(beta.0, beta.1)))
}

/// The division of the work of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Division {
    /// C, on a layout of [`layouts`].
    Given(usize),
    /// k, in shares.
    AlongK,
    /// As planned by a strategy and a method of [`METHODS`], each by its number; this machine's devices are measured.
    Planned(usize, usize),
}

/// One multiplication of the table.
#[derive(Debug, Clone, Copy)]
struct TableRow {
    element: ElementType,
    ops: [Op; 2],
    shape: (usize, usize, usize),
    division: Division,
    /// Chooses alpha and beta.
    number: usize,
}

impl TableRow {
    fn new([element, ops, shape]: [usize; 3], division: Division, number: usize) -> Self {
        Self {
            element: ElementType::ALL[element],
            ops: [OPS[ops / OPS.len()], OPS[ops % OPS.len()]],
            shape: SHAPES[shape],
            division,
            number,
        }
    }
}

/// Returns the rows for one MPI library, by its place in [`LIBRARIES`], with one number of ranks, by its place in
/// [`RANKS`].
fn rows(coverage: Coverage, library: usize, ranks: usize) -> Vec<TableRow> {
    let given = coverage.rows(GIVEN_LEVELS).into_iter();
    let given = given.map(|[levels @ .., division, ranks, library]| {
        let division = match division {
            4 => Division::AlongK,
            layout => Division::Given(layout),
        };
        (levels, division, [library, ranks])
    });
    let planned = coverage.rows(PLANNED_LEVELS).into_iter();
    let planned = planned.map(|[levels @ .., strategy, method, ranks, library]| {
        let division = Division::Planned(strategy, method);
        (levels, division, [library, ranks])
    });
    given
        .chain(planned)
        .enumerate()
        .filter(|(_, (.., job))| *job == [library, ranks])
        .map(|(number, (levels, division, _))| TableRow::new(levels, division, number))
        .collect()
}

/// Multiplies the rows of the table that belong to this MPI library and this number of ranks. One process without MPI,
/// and other numbers of ranks, run those of the first library and of one rank.
pub fn multiplications(comm: &Arc<dyn Comm>, coverage: Coverage) -> usize {
    let session = Session::builder().build(Arc::clone(comm)).unwrap();
    let ranks = RANKS.iter().position(|&ranks| ranks == comm.size());
    let rows = rows(coverage, number_library(comm.as_ref()), ranks.unwrap_or(0));
    let mut devices = Devices {
        session,
        threads: open(comm),
        library: blas::choose_blas(&BlasChoice::default()).unwrap(),
    };
    for row in &rows {
        with_element!(row.element, T => devices.multiply::<T>(row))
    }
    rows.len()
}

/// The devices that multiply rows: this machine's if they are planned, and otherwise two threads.
struct Devices {
    session: Session,
    threads: Session,
    /// The BLAS of the whole matrices. Choosing one measures those that are installed, which takes longer than a row.
    library: Arc<dyn Blas>,
}

impl Devices {
    fn multiply<T: Element>(&mut self, row: &TableRow) {
        let shared = Arc::clone(self.session.comm());
        let comm = shared.as_ref();
        let scalars = scalars::<T>(row.number);
        let (m, n, k) = row.shape;
        let problem = Problem::new(m, n, k, 8).unwrap();
        let problem = problem.with_element(T::TYPE).with_ops(row.ops);
        let force_every = 1 + row.number as u64 % 4;
        let plan = match row.division {
            Division::Given(kind) => plan_on_nth(comm, problem, kind),
            Division::AlongK => plan_along_k(comm, problem),
            Division::Planned(strategy, method) => {
                let config = BalanceConfig {
                    strategy: STRATEGIES[strategy],
                    layout: METHODS[method].into(),
                    max_iterations: 3,
                    adaptive: Tuning { force_every, ..Tuning::default() },
                    ..Default::default()
                };
                self.session.plan(problem, &config).unwrap()
            }
        };
        let expected = Expected::new(row.shape, scalars, self.library.as_ref());
        let mut case = Case::new(comm, plan, uniform);
        case.spoil_unread(scalars);
        let session = match row.division {
            Division::Planned(..) => &mut self.session,
            _ => &mut self.threads,
        };
        case.multiply(session, scalars);
        expected.assert_close(&case, comm);
        let mut director = Forced::new(comm, &case.plan, 1 + row.number % 3);
        let mut changed = Case::new(comm, case.plan, uniform);
        changed.spoil_unread(scalars);
        changed.multiply_directed(session, scalars, &mut director).unwrap();
        expected.assert_close(&changed, comm);
        let plan = match changed.plan.look() {
            Some(_) => changed.plan,
            None => leave_to_run(changed.plan, force_every),
        };
        let mut learning = Case::new(comm, plan, uniform);
        learning.spoil_unread(scalars);
        learning.learn(session, scalars);
        expected.assert_close(&learning, comm);
    }
}
