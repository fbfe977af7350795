//! The table of element types, operations, shapes and layouts, and every strategy: random numbers, each element compared
//! with what the local BLAS makes of the whole matrices.
//!
//! The bound is that of the testers of PBLAS: an element may err by 16 roundings of its gauge,
//! `|alpha|·Σ|a||b| + |beta||c|`.

use isochron::comm::Comm;
use isochron::matrix::{Generator, Op};
use isochron::multiply::{Plan, Problem, Scalars};
use isochron::session::{Session, SessionConfig};
use isochron_devices::blas::{self, BlasChoice};
use isochron_devices::{Element, View, ViewMut};
use isochron_hierarchy::balance::{BalanceConfig, Strategy};
use num_complex::{Complex32, Complex64};

use crate::cases::{Case, SEEDS, layouts, plan_along_k, plan_on, team, uniform};

/// Square, long in each dimension, smaller than a block, and nothing to sum.
const SHAPES: [(usize, usize, usize); 7] = [
    (61, 59, 67),
    (300, 7, 9),
    (5, 200, 17),
    (9, 8, 500),
    (3, 2, 1),
    (1, 1, 40),
    (6, 7, 0),
];

const OPS: [Op; 3] = [Op::N, Op::T, Op::C];

const STRATEGIES: [Strategy; 4] = [
    Strategy::Homogeneous,
    Strategy::SingleCpm,
    Strategy::MultiCpm,
    Strategy::Fpm,
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
    fn new((m, n, k): (usize, usize, usize), scalars: Scalars<T>) -> Self {
        let whole = |seed: u64, rows: usize, cols: usize| -> Vec<T> {
            let generator: Generator = uniform(seed);
            let at = |place: usize| generator.element(place % rows, place / rows);
            (0..rows * cols).map(at).collect()
        };
        let (a, b) = (whole(SEEDS[0], m, k), whole(SEEDS[1], k, n));
        let mut c = whole(SEEDS[2], m, n);
        let size = |value: T| value.value().norm();
        let gauge = |place: usize| {
            let (i, j) = (place % m, place / m);
            let sum: f64 = (0..k)
                .map(|l| size(a[i + l * m]) * size(b[l + j * k]))
                .sum();
            size(scalars.alpha) * sum + size(scalars.beta) * size(c[place])
        };
        let gauge = (0..m * n).map(gauge).collect();
        let library = blas::choose_blas(&BlasChoice::default()).unwrap();
        let mut view = ViewMut::new(&mut c, m, n, m);
        view.scale(scalars.beta);
        let (a, b) = (View::new(&a, m, k, m), View::new(&b, k, n, k.max(1)));
        T::gemm(library.as_ref(), scalars.alpha, a, b, view);
        Self { rows: m, c, gauge }
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
                // Not `max`, which would forget what is no number.
                let ratio = if off == 0.0 { 0.0 } else { off / bound };
                most = if ratio <= most { most } else { ratio };
            }
        }
        most
    }
}

fn scalars<T: Element>(number: usize) -> Scalars<T> {
    let of = |re, im| T::of(Complex64::new(re, im));
    let (alpha, beta) = [
        (of(1.0, 0.0), of(0.0, 0.0)),
        (of(-0.7, 0.4), of(1.3, -0.2)),
        (of(2.5, 0.0), of(1.0, 0.0)),
    ][number % 3];
    Scalars { alpha, beta }
}

/// Every type, operation and shape on every kind of layout, and with k divided.
pub fn layouts_of_every_type(comm: &dyn Comm) -> usize {
    on_layouts::<f32>(comm)
        + on_layouts::<f64>(comm)
        + on_layouts::<Complex32>(comm)
        + on_layouts::<Complex64>(comm)
}

fn on_layouts<T: Element>(comm: &dyn Comm) -> usize {
    let mut team = team();
    let mut count = 0;
    for (number, shape) in SHAPES.into_iter().enumerate() {
        let scalars = scalars::<T>(number);
        let expected = Expected::new(shape, scalars);
        for ops in OPS.iter().flat_map(|&a| OPS.map(|b| [a, b])) {
            let problem = problem::<T>(shape, ops);
            let (rows, cols) = problem.c_blocks();
            let divided = layouts(comm.size(), rows, cols).into_iter();
            let divided = divided.map(|layout| plan_on(comm, problem, layout));
            for plan in divided.chain([plan_along_k(comm, problem)]) {
                let mut case = case(comm, plan, scalars);
                case.multiply(comm, &mut team, scalars);
                assert_within(&expected, &case, comm);
                count += 1;
            }
        }
    }
    count
}

/// Every type and shape with every strategy, the devices of this machine really measured.
pub fn strategies_of_every_type(comm: &dyn Comm) -> usize {
    let mut session = Session::new(comm, &SessionConfig::default()).unwrap();
    with_strategies::<f32>(comm, &mut session)
        + with_strategies::<f64>(comm, &mut session)
        + with_strategies::<Complex32>(comm, &mut session)
        + with_strategies::<Complex64>(comm, &mut session)
}

fn with_strategies<T: Element>(comm: &dyn Comm, session: &mut Session<'_>) -> usize {
    let mut count = 0;
    for (number, shape) in SHAPES.into_iter().enumerate() {
        let scalars = scalars::<T>(number);
        let expected = Expected::new(shape, scalars);
        for strategy in STRATEGIES {
            let ops = [OPS[count % 3], OPS[count / 3 % 3]];
            let config = BalanceConfig {
                strategy,
                max_iterations: 3,
                ..Default::default()
            };
            let plan = session.plan(problem::<T>(shape, ops), &config).unwrap();
            let mut case = case(comm, plan, scalars);
            let operands = (&case.a, &case.b);
            let done = session.multiply(&case.plan, scalars, operands, &mut case.c);
            done.unwrap();
            assert_within(&expected, &case, comm);
            count += 1;
        }
    }
    count
}

fn problem<T: Element>((m, n, k): (usize, usize, usize), ops: [Op; 2]) -> Problem {
    let problem = Problem::new(m, n, k, 8).unwrap();
    problem.with_element(T::TYPE).with_ops(ops)
}

/// The plan with its matrices; a C that is not to be read is no number anywhere.
fn case<T: Element>(comm: &dyn Comm, plan: Plan, scalars: Scalars<T>) -> Case<T> {
    let mut case = Case::new(comm, plan, uniform);
    if scalars.beta == T::ZERO {
        case.c
            .fill(|_, _| T::of(Complex64::new(f64::NAN, f64::NAN)));
    }
    case
}

fn assert_within<T: Element>(expected: &Expected<T>, case: &Case<T>, comm: &dyn Comm) {
    let ratio = expected.ratio(case);
    assert!(
        ratio < ROUNDINGS,
        "{ratio} roundings off, {}",
        case.label(comm)
    );
}
