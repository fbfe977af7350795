//! How small an error the check finds, and how seldom it is wrong.

use std::sync::{Arc, LazyLock};

use isochron_devices::blas::{Blas, BlasChoice, choose_blas};
use isochron_devices::{Scalar, ViewMut};
use num_complex::{Complex32, Complex64};

use super::compare::{Residual, find_element_bound};
use super::*;
use crate::comm::LocalComm;
use crate::matrix::{Matrix, Spread};


/// Draws a number in [0, 1).
fn draw(seed: u64, row: usize, col: usize) -> f64 {
    (hash(seed, row, col) >> 11) as f64 * 2f64.powi(-53)
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Numbers {
    Uniform,
    Normal,
    Integers,
    MostlyZero,
    Positive,
    NearOne,
    LogNormal,
    Tenths,
    Constant,
    ConstantRows,
    ConstantCols,
    TwoValues,
    Alternating,
    Hilbert,
}

const ALL_NUMBERS: [Numbers; 14] = [
    Numbers::Uniform,
    Numbers::Normal,
    Numbers::Integers,
    Numbers::MostlyZero,
    Numbers::Positive,
    Numbers::NearOne,
    Numbers::LogNormal,
    Numbers::Tenths,
    Numbers::Constant,
    Numbers::ConstantRows,
    Numbers::ConstantCols,
    Numbers::TwoValues,
    Numbers::Alternating,
    Numbers::Hilbert,
];

impl Numbers {
    fn draw(self, seed: u64, row: usize, col: usize) -> f64 {
        let u = draw(seed, row, col);
        let constant = |row, col| 0.1 + 1.9 * draw(seed, row, col);
        let normal = || (-2.0 * (1.0 - u).ln()).sqrt() * (6.3 * draw(!seed, row, col)).cos();
        match self {
            Numbers::Uniform => 2.0 * u - 1.0,
            Numbers::Normal => normal(),
            Numbers::Integers => (17.0 * u).floor() - 8.0,
            Numbers::MostlyZero if draw(!seed, row, col) < 0.95 => 0.0,
            Numbers::MostlyZero => 2.0 * u - 1.0,
            Numbers::Positive => u,
            Numbers::NearOne => 1.0 + 1e-3 * u,
            Numbers::LogNormal => (3.0 * normal()).exp(),
            Numbers::Tenths => ((19.0 * u).floor() - 9.0) / 10.0,
            Numbers::Constant => constant(0, 0),
            Numbers::ConstantRows => constant(row, 0),
            Numbers::ConstantCols => constant(0, col),
            Numbers::TwoValues => constant(0, usize::from(u < 0.5)),
            Numbers::Alternating if (row + col) % 2 == 0 => constant(0, 0),
            Numbers::Alternating => -constant(0, 0) * (1.0 + 1e-4 * u),
            Numbers::Hilbert => 1.0 / (1 + row + col) as f64,
        }
    }
}

/// The elements that are scaled.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Scaled {
    Nothing,
    RowOfA,
    ColOfA,
    RowOfB,
    ColOfB,
    All,
}

const ALL_SCALED: [Scaled; 6] = [
    Scaled::Nothing,
    Scaled::RowOfA,
    Scaled::ColOfA,
    Scaled::RowOfB,
    Scaled::ColOfB,
    Scaled::All,
];

/// A product with its factors.
struct Case<T: Scalar> {
    a: Matrix<T>,
    b: Matrix<T>,
    c: Matrix<T>,
}

fn make<T: Scalar>(
    (rows, cols): (usize, usize),
    numbers: Numbers,
    seed: u64,
    scale: impl Fn(usize, usize) -> f64,
) -> Matrix<T> {
    let mut matrix = Matrix::zeros(Spread::whole(rows, cols), 0).unwrap();
    matrix.fill(|row, col| {
        let [re, im] = [seed, seed ^ 0x55].map(|seed| numbers.draw(seed, row, col));
        T::of(Complex64::new(re, im) * scale(row, col))
    });
    matrix
}

static LIBRARIES: LazyLock<Vec<Arc<dyn Blas>>> = LazyLock::new(|| {
    let choices = [BlasChoice::Embedded, BlasChoice::OpenBlas];
    choices
        .iter()
        .filter_map(|choice| choose_blas(choice).ok())
        .collect()
});

/// Adds `A·B`, by panels as a multiplication does.
fn multiply<T: Scalar>(a: &Matrix<T>, b: &Matrix<T>, panel: usize, blas: usize) -> Matrix<T> {
    let (m, k, n) = (a.local().rows(), a.local().cols(), b.local().cols());
    let mut product = vec![T::ZERO; m * n];
    let blas = LIBRARIES[blas % LIBRARIES.len()].as_ref();
    for first in (0..k).step_by(panel) {
        let end = k.min(first + panel);
        let (a, b) = (a.local().columns(first..end), b.local().block(first..end, 0..n));
        let c = ViewMut::new(&mut product, m, n, m.max(1));
        T::select_gemm(blas).gemm(T::ONE, a, b, c);
    }
    let mut c = Matrix::zeros(Spread::whole(m, n), 0).unwrap();
    c.fill(|row, col| product[row + col * m]);
    c
}

impl<T: Scalar> Case<T> {
    fn new(
        [m, n, k]: [usize; 3],
        numbers: [Numbers; 2],
        (scaled, scale): (Scaled, f64),
        seed: u64,
    ) -> Self {
        let lines = [m, k, k, n].map(|len| (draw(seed, len, 1) * len as f64) as usize);
        let of_a = |row, col| match scaled {
            Scaled::RowOfA if row == lines[0] => scale,
            Scaled::ColOfA if col == lines[1] => scale,
            Scaled::All => scale,
            _ => 1.0,
        };
        let of_b = |row, col| match scaled {
            Scaled::RowOfB if row == lines[2] => scale,
            Scaled::ColOfB if col == lines[3] => scale,
            _ => 1.0,
        };
        let a = make((m, k), numbers[0], seed, of_a);
        let b = make((k, n), numbers[1], seed + 1, of_b);
        let c = multiply(&a, &b, 256, seed as usize);
        Self { a, b, c }
    }

    fn factors(&self) -> [Operand<'_, T>; 2] {
        [Operand::from(&self.a), Operand::from(&self.b)]
    }

    fn probe(&self, seed: u64) -> Probe<T> {
        let comm = LocalComm::new();
        let mut probe = Probe::begin(&comm, Scalars::PRODUCT, &self.c, None, seed).unwrap();
        probe.add(&comm, self.factors()).unwrap();
        probe
    }

    fn verify(&self, seed: u64) -> Verdict {
        let comm = LocalComm::new();
        let factors = Some(self.factors());
        self.probe(seed).finish(&comm, &self.c, factors).unwrap()
    }
}

/// Returns the Euclidean norms of the rows, or of the columns.
fn find_norms<T: Scalar>(matrix: &Matrix<T>, of_rows: bool) -> Vec<f64> {
    let view = matrix.local();
    let mut squares = vec![0.0; if of_rows { view.rows() } else { view.cols() }];
    for col in 0..view.cols() {
        for (row, element) in view.col(col).iter().enumerate() {
            squares[if of_rows { row } else { col }] += element.value().norm_sqr();
        }
    }
    squares.into_iter().map(f64::sqrt).collect()
}

/// Returns the sizes of terms of each element, `(|A|·|B|)_ij`.
fn multiply_sizes<T: Scalar>(case: &Case<T>) -> Matrix<f64> {
    let size = |matrix: &Matrix<T>| {
        let view = matrix.local();
        let mut sizes = Matrix::zeros(Spread::whole(view.rows(), view.cols()), 0).unwrap();
        sizes.fill(|row, col| view.col(col)[row].value().l1_norm());
        sizes
    };
    multiply(&size(&case.a), &size(&case.b), 256, 0)
}

/// Returns the smallest error that is found in 999 of 1000 elements, in units of `u·√t·‖a_i‖·‖b_j‖`; the same in units of `u·√t·g`; and
/// the first of a bound by the worst case of a whole row.
fn find_smallest<T: Scalar>(n: usize, numbers: Numbers, scaled: (Scaled, f64)) -> [f64; 3] {
    const ROWS: usize = 40;
    let case = Case::<T>::new([ROWS, n, n], [numbers; 2], scaled, n as u64);
    let probe = case.probe(3);
    let residuals = probe.find_residuals(&LocalComm::new(), &case.c).unwrap();
    let vector = probe.vector.as_ref().unwrap();
    let (sizes, row_norms, col_norms) = (
        multiply_sizes(&case),
        find_norms(&case.a, true),
        find_norms(&case.b, false),
    );
    let unit = T::EPSILON / 2.0;
    let terms = (n * count_parts::<T>()) as f64;
    let complex = if T::TYPE.is_complex() { 32f64.sqrt() } else { 1.0 };
    let mut row_sums = [0.0; ROWS];
    for col in 0..n {
        for (sum, size) in row_sums.iter_mut().zip(sizes.local().col(col)) {
            *sum += size;
        }
    }
    let row_terms: Vec<f64> = (probe.terms.chunks_exact(count_parts::<T>()))
        .map(|parts| parts.iter().sum())
        .collect();
    let mut found = [const { Vec::new() }; 3];
    for Residual { row, group, size, bound, .. } in residuals {
        for col in probe.groups.cols(group) {
            let g = sizes.local().col(col)[row];
            let element = (find_element_bound::<T>(row_terms[row]) + unit) * g;
            let error = ((size + bound) / vector[col].abs()).max(element);
            let before = 4.0 * complex * (2 * n + 4) as f64 * unit * row_sums[row];
            let rounding = unit * terms.sqrt() * row_norms[row] * col_norms[col];
            if rounding > 0.0 {
                found[0].push(error / rounding);
                found[2].push(before / rounding);
            }
            if g > 0.0 {
                found[1].push(error / (unit * terms.sqrt() * g));
            }
        }
    }
    found.map(|mut found| {
        found.sort_by(f64::total_cmp);
        found[(found.len() * 999) / 1000]
    })
}

#[test]
fn small_errors_are_found() {
    let sizes: &[usize] = if std::env::var("ISOCHRON_TEST_ALL").is_ok_and(|all| all == "1") {
        &[64, 500, 1500, 4000]
    } else {
        &[64, 500]
    };
    for &n in sizes {
        for numbers in &ALL_NUMBERS[..4] {
            for scaled in ALL_SCALED {
                for scale in [1e6, 1e14] {
                    if scaled == Scaled::Nothing && scale > 1e6 { continue; }
                    let of = (scaled, scale);
                    let found = [
                        find_smallest::<f32>(n, *numbers, of),
                        find_smallest::<f64>(n, *numbers, of),
                        find_smallest::<Complex32>(n, *numbers, of),
                        find_smallest::<Complex64>(n, *numbers, of),
                    ];
                    let text = found.map(|[norms, sizes, before]| format!("{before:9.1e} {norms:6.1} {sizes:8.1}"));
                    println!("{n:5} {numbers:?} {scaled:?} {scale:e}: {}", text.join(" | "));
                }
            }
        }
    }
}

fn verify_clean<T: Scalar>(seed: u64, largest: f64) -> (Verdict, String) {
    let number = |what| draw(seed, what, 0);
    let dims = [1, 2, 3].map(|what| largest.powf(number(what)).round() as usize);
    let pick = |what| ALL_NUMBERS[(number(what) * 14.0) as usize];
    let numbers = if number(6) < 0.5 { [pick(4), pick(5)] } else { [pick(4); 2] };
    let scaled = (ALL_SCALED[(number(7) * 6.0) as usize], [1e6, 1e14][usize::from(number(8) < 0.5)]);
    let case = Case::<T>::new(dims, numbers, scaled, seed);
    let label = format!("{} {dims:?} {numbers:?} {scaled:?} seed {seed}", T::TYPE);
    let verdict = case.verify(seed);
    (verdict, label)
}

#[test]
fn clean_products_pass() {
    let largest: f64 = std::env::var("LARGEST").map_or(100.0, |x| x.parse().unwrap());
    let count: u64 = std::env::var("COUNT").map_or(2500, |x| x.parse().unwrap());
    let mut worst: f64 = 0.0;
    for seed in 0..count {
        for (verdict, label) in [
            verify_clean::<f32>(4 * seed, largest),
            verify_clean::<f64>(4 * seed + 1, largest),
            verify_clean::<Complex32>(4 * seed + 2, largest),
            verify_clean::<Complex64>(4 * seed + 3, largest),
        ] {
            if verdict.residual > worst {
                worst = verdict.residual;
                println!("{worst:.3} {label}");
            }
            assert!(verdict.passed, "{verdict:?} {label}");
        }
    }
}
