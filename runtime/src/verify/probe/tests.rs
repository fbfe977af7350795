//! How small an error the check finds, and how seldom it is wrong.

use std::sync::{Arc, LazyLock};
use std::thread;

use isochron_devices::blas::{BlasChoice, choose_blas};
use isochron_devices::{Blas, Scalar, ViewMut};
use num_complex::{Complex32, Complex64};
use strum::VariantArray;

use super::compare::find_element_bound;
use super::*;
use crate::comm::LocalComm;
use crate::matrix::{Matrix, Spread};

/// Draws a number in [0, 1).
fn draw(seed: u64, row: usize, col: usize) -> f64 {
    (hash(seed, row, col) >> 11) as f64 * 2f64.powi(-53)
}

#[derive(Debug, Clone, Copy, PartialEq, VariantArray)]
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
            Numbers::Alternating if (row + col).is_multiple_of(2) => constant(0, 0),
            Numbers::Alternating => -constant(0, 0) * (1.0 + 1e-4 * u),
            Numbers::Hilbert => 1.0 / (1 + row + col) as f64,
        }
    }
}

/// The elements that are scaled.
#[derive(Debug, Clone, Copy, PartialEq, VariantArray)]
enum Scaled {
    Nothing,
    RowOfA,
    ColOfA,
    RowOfB,
    ColOfB,
    All,
}

/// A product with its factors.
struct Case<T: Scalar> {
    a: Matrix<T>,
    b: Matrix<T>,
    c: Matrix<T>,
}

/// How a check gets its matrices.
#[derive(Debug, Clone, Copy, PartialEq, VariantArray)]
enum Way {
    /// A and B at once.
    Whole,
    /// In two parts of k.
    Parts,
    /// At once, and C with rows and columns as large as those of the product.
    LikeC,
    /// At once, and C whose rows and columns are alike.
    EvenC,
    /// In two parts of k, and C as in [`Way::LikeC`].
    PartsAndC,
}

impl Way {
    /// Returns the C to which the product is added.
    fn make_c<T: Scalar>(self, case: &Case<T>, numbers: Numbers) -> Option<Matrix<T>> {
        let shape = (case.a.local().rows(), case.b.local().cols());
        match self {
            Way::Whole | Way::Parts => None,
            Way::EvenC => Some(make(shape, numbers, 77, |_, _| 1.0)),
            Way::LikeC | Way::PartsAndC => {
                let (rows, cols) = (find_norms(&case.a, true), find_norms(&case.b, false));
                let per_term = (case.a.local().cols() as f64).sqrt();
                Some(make(shape, numbers, 77, |row, col| rows[row] / per_term * cols[col]))
            }
        }
    }

    /// Begins a check with C, and adds A and B.
    fn probe<T: Scalar>(self, case: &Case<T>, c0: Option<&Matrix<T>>, seed: u64) -> Probe<T> {
        let comm = LocalComm::new();
        let scalars = Scalars { alpha: T::ONE, beta: if c0.is_some() { T::ONE } else { T::ZERO } };
        let c = c0.unwrap_or(&case.c);
        if matches!(self, Way::Whole | Way::LikeC | Way::EvenC) {
            let mut probe = Probe::begin(&comm, scalars, c, Some(case.factors()), seed).unwrap();
            probe.add(&comm, case.factors()).unwrap();
            return probe;
        }
        let mut probe = Probe::begin(&comm, scalars, c, None, seed).unwrap();
        for part in case.cut() {
            probe.add(&comm, part.each_ref().map(Operand::from)).unwrap();
        }
        if !probe.vector.is_uneven() {
            return probe;
        }
        let mut kept = KeptMatrices { factors: case.factors(), c };
        probe.scale_again(&comm, &case.c, &mut kept).unwrap()
    }
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
    [BlasChoice::Embedded, BlasChoice::OpenBlas]
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

    /// Cuts A and B into two parts of k.
    fn cut(&self) -> [[Matrix<T>; 2]; 2] {
        let (m, k, n) = (self.a.local().rows(), self.a.local().cols(), self.b.local().cols());
        [0..k / 2, k / 2..k].map(|of_k| {
            let mut a = Matrix::zeros(Spread::whole(m, of_k.len()), 0).unwrap();
            a.fill(|row, col| self.a.local().col(of_k.start + col)[row]);
            let mut b = Matrix::zeros(Spread::whole(of_k.len(), n), 0).unwrap();
            b.fill(|row, col| self.b.local().col(col)[of_k.start + row]);
            [a, b]
        })
    }

    fn probe(&self, seed: u64) -> Probe<T> {
        Way::Whole.probe(self, None, seed)
    }

    fn verify(&self, seed: u64) -> Verdict {
        let comm = LocalComm::new();
        let probe = self.probe(seed);
        probe.finish(&comm, &self.c, Some(&mut self.factors())).unwrap()
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
        sizes.fill(|row, col| view.col(col)[row].value().norm());
        sizes
    };
    multiply(&size(&case.a), &size(&case.b), 256, 0)
}

/// For each way, returns the smallest error that is found in 999 of 1000 elements, in units of `u·√t·‖a_i‖·‖b_j‖` with t real
/// terms.
fn find_smallest<T: Scalar>(n: usize, numbers: Numbers, scaled: (Scaled, f64)) -> Vec<f64> {
    let mut case = Case::<T>::new([40, n, n], [numbers; 2], scaled, n as u64);
    let sizes = multiply_sizes(&case);
    let of_way = |way: &Way| {
        let c0 = way.make_c(&case, numbers);
        let probe = way.probe(&case, c0.as_ref(), 3);
        let Some(c0) = c0 else {
            return find_smallest_by(&probe, &sizes, &case, None);
        };
        let sum = add_product(&case, &c0, 256, n);
        let product = std::mem::replace(&mut case.c, sum);
        let found = find_smallest_by(&probe, &sizes, &case, Some(&c0));
        case.c = product;
        found
    };
    Way::VARIANTS.iter().map(of_way).collect()
}

fn find_smallest_by<T: Scalar>(
    probe: &Probe<T>,
    sizes: &Matrix<f64>,
    case: &Case<T>,
    c0: Option<&Matrix<T>>,
) -> f64 {
    let (rows_of_a, cols_of_b) = (find_norms(&case.a, true), find_norms(&case.b, false));
    let added =
        |row: usize, col: usize| c0.map_or(0.0, |c0| c0.local().col(col)[row].value().norm());
    let mut residuals = Vec::new();
    let take = |residual| residuals.push(residual);
    probe.pass_over_residuals(&LocalComm::new(), &case.c, take).unwrap();
    let vector = probe.vector.numbers();
    let unit = T::EPSILON / 2.0;
    let terms = (cols_of_b.len() * count_parts::<T>()) as f64;
    let row_terms: Vec<f64> = fold(&probe.terms, count_parts::<T>()).collect();
    let mut found = Vec::new();
    for residual in residuals {
        let row = residual.row;
        for col in probe.groups.cols(residual.group) {
            let g = sizes.local().col(col)[row] + added(row, col);
            let terms_with_c = row_terms[row] + if c0.is_some() { 1.0 } else { 0.0 };
            let element = (find_element_bound::<T>(terms_with_c) + unit) * g;
            let of_vector = (residual.value.norm() + residual.bound) / vector[col].abs();
            let of_element = rows_of_a[row] * cols_of_b[col] + added(row, col);
            let rounding = unit * terms.sqrt() * of_element;
            if rounding > 0.0 {
                found.push(of_vector.max(element) / rounding);
            }
        }
    }
    found.sort_by(f64::total_cmp);
    found[(found.len() * 999) / 1000]
}

/// Returns `true` if all cases are wanted, however long they take.
fn wants_all() -> bool {
    std::env::var("ISOCHRON_TEST_ALL").is_ok_and(|all| all == "1")
}

/// Prints a line of the table for each case: the smallest error for every type.
#[test]
#[allow(clippy::print_stdout, reason = "the table of the guide is made of it")]
fn errors_of_64_roundings_are_found() {
    let sizes: &[usize] = if wants_all() { &[64, 500, 1500, 4000] } else { &[64, 500] };
    let mut missed = Vec::new();
    for &n in sizes {
        for numbers in &Numbers::VARIANTS[..4] {
            for of in Scaled::VARIANTS.iter().flat_map(|scaled| [(*scaled, 1e6), (*scaled, 1e14)]) {
                let (scaled, scale) = of;
                let found = thread::scope(|scope| {
                    [
                        scope.spawn(|| find_smallest::<f32>(n, *numbers, of)),
                        scope.spawn(|| find_smallest::<f64>(n, *numbers, of)),
                        scope.spawn(|| find_smallest::<Complex32>(n, *numbers, of)),
                        scope.spawn(|| find_smallest::<Complex64>(n, *numbers, of)),
                    ]
                    .map(|of_type| of_type.join().unwrap())
                });
                for (number, way) in Way::VARIANTS.iter().enumerate() {
                    let found = found.each_ref().map(|of_type| of_type[number]);
                    let text = found.map(|found| format!("{found:.0}"));
                    let line = format!(
                        "{n} {numbers:?} {scaled:?} {scale:e} {way:?} | {}",
                        text.join(" | ")
                    );
                    println!("{line}");
                    // A C of forty rows tells the sizes of columns less well.
                    let limit = if *way == Way::PartsAndC { 80.0 } else { 64.0 };
                    if found.iter().any(|found| *found > limit) {
                        missed.push(line);
                    }
                }
            }
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}

fn pick_variant<V: VariantArray>(number: f64) -> &'static V {
    &V::VARIANTS[(number * V::VARIANTS.len() as f64) as usize]
}

/// Verifies a product of random numbers, and with C or in parts of k as many others.
fn verify_clean<T: Scalar>(seed: u64, largest: f64) {
    let number = |what| draw(seed, what, 0);
    let shape = [1, 2, 3].map(|what| largest.powf(number(what)).round() as usize);
    let pick = |what| *pick_variant::<Numbers>(number(what));
    let numbers = if number(6) < 0.5 { [pick(4), pick(5)] } else { [pick(4); 2] };
    let scaled = *pick_variant::<Scaled>(number(7));
    let scale = if number(8) < 0.5 { 1e6 } else { 1e14 };
    let mut case = Case::<T>::new(shape, numbers, (scaled, scale), seed);
    let way = if number(9) < 0.5 { Way::Whole } else { *pick_variant::<Way>(number(10)) };
    let c0 = way.make_c(&case, numbers[0]);
    let probe = way.probe(&case, c0.as_ref(), seed);
    if let Some(c0) = &c0 {
        case.c = add_product(&case, c0, 64, seed as usize);
    }
    let mut kept = KeptMatrices { factors: case.factors(), c: c0.as_ref().unwrap_or(&case.c) };
    let comm = LocalComm::new();
    let verdict = probe.finish(&comm, &case.c, Some(&mut kept)).unwrap();
    let label =
        format!("{} {shape:?} {numbers:?} {scaled:?} {scale:e} {way:?} seed {seed}", T::TYPE);
    assert_eq!(verdict.passed, Some(true), "{verdict:?} {label}");
}

#[test]
fn ten_thousand_clean_products_pass() {
    let largest = if wants_all() { 1000.0 } else { 100.0 };
    for seed in (0..10_000).step_by(4) {
        verify_clean::<f32>(seed, largest);
        verify_clean::<f64>(seed + 1, largest);
        verify_clean::<Complex32>(seed + 2, largest);
        verify_clean::<Complex64>(seed + 3, largest);
    }
}

/// Returns `true` if a C with other elements passes.
fn passes<T: Scalar>(case: &Case<T>, seed: u64, element: impl Fn(usize, usize) -> T) -> bool {
    let comm = LocalComm::new();
    let mut c = case.c.clone();
    c.fill(element);
    case.probe(seed).finish(&comm, &c, Some(&mut case.factors())).unwrap().passed == Some(true)
}

fn find_damage<T: Scalar>() {
    let case = Case::<T>::new([70, 90, 110], [Numbers::Uniform; 2], (Scaled::Nothing, 1.0), 5);
    let at = |row: usize, col: usize| case.c.local().col(col)[row];
    let swap = |at: usize, of: [usize; 2]| match of.iter().position(|&one| one == at) {
        Some(which) => of[1 - which],
        None => at,
    };
    // A panel that is missed, or used twice.
    let [[a, b], _] = case.cut();
    let panel = multiply(&a, &b, 256, 0);
    let (rows, cols) = (find_norms(&case.a, true), find_norms(&case.b, false));
    for seed in 0..50 {
        let pick = |what, len: usize| (draw(seed, what, 3) * len as f64) as usize;
        let (row, col) = (pick(1, 70), pick(2, 90));
        let other = [(row + 1 + pick(3, 69)) % 70, (col + 1 + pick(4, 89)) % 90];
        let sign = if seed % 2 == 0 { T::ONE } else { -T::ONE };
        // One element by 64 of its roundings.
        let terms = (110 * count_parts::<T>()) as f64;
        let error = 64.0 * T::EPSILON / 2.0 * terms.sqrt() * rows[row] * cols[col];
        let put = |element: T, i, j| {
            if (i, j) == (row, col) { element } else { at(i, j) }
        };
        let (wrong, infinite) =
            (T::of(at(row, col).value() + error), T::of(Complex64::new(f64::INFINITY, 0.0)));
        let judge = |what: &str, element: &dyn Fn(usize, usize) -> T| {
            let passed = passes(&case, seed, element);
            assert_eq!(passed, what == "none", "{what}, {} seed {seed}", T::TYPE);
        };
        judge("none", &at);
        judge("rows", &|i, j| at(swap(i, [row, other[0]]), j));
        judge("columns", &|i, j| at(i, swap(j, [col, other[1]])));
        judge("panel", &|i, j| at(i, j) + sign * panel.local().col(j)[i]);
        judge("element", &|i, j| put(wrong, i, j));
        judge("infinite", &|i, j| put(infinite, i, j));
    }
}

#[test]
fn damage_of_every_kind_is_found() {
    find_damage::<f32>();
    find_damage::<f64>();
    find_damage::<Complex32>();
    find_damage::<Complex64>();
}

#[test]
fn the_smallest_error_that_is_told_is_found() {
    let case = Case::<f64>::new([60, 700, 80], [Numbers::Uniform; 2], (Scaled::Nothing, 1.0), 9);
    let verdict = case.verify(4);
    let finds = verdict.finds.unwrap();
    assert!(finds > 1e-14 && finds < 1e-11, "{verdict:?}");
    let at = |row: usize, col: usize| case.c.local().col(col)[row];
    for row in 0..60 {
        let mean = (0..700).map(|col| at(row, col).abs()).sum::<f64>() / 700.0;
        // The mean is of scaled elements.
        let error = 1.3 * finds * mean;
        let col = 11 * row;
        assert!(
            !passes(&case, 4, |i, j| at(i, j) + if (i, j) == (row, col) { error } else { 0.0 }),
            "{row}"
        );
    }
}

/// A product in two parts of k, with this number in one column of the first part of B.
fn make_parts(first: f64) -> (Case<f64>, [Matrix<f64>; 4]) {
    const LARGE: usize = 17;
    let mut case =
        Case::<f64>::new([40, 200, 80], [Numbers::Uniform; 2], (Scaled::Nothing, 1.0), 3);
    let b = case.b.clone();
    let scale = |row: usize, col: usize| match (row < 40, col == LARGE) {
        (_, false) => 1.0,
        (true, true) => first,
        (false, true) => 1e14,
    };
    case.b.fill(|row, col| scale(row, col) * b.local().col(col)[row]);
    case.c = multiply(&case.a, &case.b, 256, 0);
    let mut parts = [(40, 40), (40, 40), (40, 200), (40, 200)]
        .map(|(rows, cols)| Matrix::zeros(Spread::whole(rows, cols), 0).unwrap());
    for (at, part) in parts.iter_mut().enumerate() {
        let (whole, first) = ([&case.a, &case.b][at / 2], 40 * (at % 2));
        part.fill(|row, col| match at / 2 {
            0 => whole.local().col(first + col)[row],
            _ => whole.local().col(col)[first + row],
        });
    }
    (case, parts)
}

fn verify_parts(
    parts: &[Matrix<f64>; 4],
    c: &Matrix<f64>,
    again: Option<&mut dyn Recall<f64>>,
) -> Verdict {
    let comm = LocalComm::new();
    let mut probe = Probe::begin(&comm, Scalars::PRODUCT, c, None, 3).unwrap();
    for part in 0..2 {
        let factors = [&parts[part], &parts[2 + part]].map(Operand::from);
        probe.add(&comm, factors).unwrap();
    }
    probe.finish(&comm, c, again).unwrap()
}

#[test]
fn a_column_that_is_zero_in_the_first_part_hides_nothing() {
    let (case, parts) = make_parts(0.0);
    let verdict = verify_parts(&parts, &case.c, None);
    assert!(verdict.passed == Some(true) && verdict.finds.unwrap() < 1e-10, "{verdict:?}");
    let mut c = case.c.clone();
    c.local_mut().col_mut(18)[7] += 1e-10;
    assert_eq!(verify_parts(&parts, &c, None).passed, Some(false));
}

#[test]
fn a_column_that_grows_hides_nothing_if_all_can_be_made_again() {
    let (case, parts) = make_parts(1e-3);
    let mut used = case.factors();
    for error in [0.0, 1e-10] {
        let mut c = case.c.clone();
        c.local_mut().col_mut(18)[7] += error;
        let mut anew = KeptMatrices { factors: used, c: &c };
        let verdict = verify_parts(&parts, &c, Some(&mut anew));
        assert_eq!(verdict.passed, Some(error == 0.0), "{verdict:?}");
        // The multiplication may have changed them.
        let verdict = verify_parts(&parts, &c, Some(&mut used));
        assert_doubt(&verdict, "hide errors of others");
        assert!(verdict.finds.unwrap() > 1.0, "{verdict:?}");
    }
}

/// Whole factors, and C before the multiplication, that count as read anew.
struct KeptMatrices<'a, T: Scalar> {
    factors: [Operand<'a, T>; 2],
    c: &'a Matrix<T>,
}

impl<T: Scalar> Recall<T> for KeptMatrices<'_, T> {
    fn factors(&mut self, take: &mut TakeFactors<'_, T>) -> Result<(), Error> {
        take(self.factors)
    }

    fn is_anew(&self) -> bool {
        true
    }

    fn c(&mut self, window: Spread) -> Result<Matrix<T>, Error> {
        let mut part = Matrix::zeros(window, 0)?;
        part.fill(|row, col| self.c.local().col(col)[row]);
        Ok(part)
    }
}

/// Checks `A·B + C0` with everything at hand, and without.
fn verify_added<T: Scalar>(case: &Case<T>, c0: &Matrix<T>, c: &Matrix<T>) -> [Verdict; 2] {
    let comm = LocalComm::new();
    let scalars = Scalars { alpha: T::ONE, beta: T::ONE };
    let mut kept = KeptMatrices { factors: case.factors(), c: c0 };
    let again: [Option<&mut dyn Recall<T>>; 2] = [Some(&mut kept), None];
    again.map(|again| {
        let mut probe = Probe::begin(&comm, scalars, c0, Some(case.factors()), 5).unwrap();
        probe.add(&comm, case.factors()).unwrap();
        probe.finish(&comm, c, again).unwrap()
    })
}

/// Adds `A·B` to a copy of C0, by panels of this width.
fn add_product<T: Scalar>(case: &Case<T>, c0: &Matrix<T>, panel: usize, blas: usize) -> Matrix<T> {
    let (m, n, k) = (c0.local().rows(), c0.local().cols(), case.a.local().cols());
    let mut sum: Vec<T> = (0..n).flat_map(|col| c0.local().col(col).to_vec()).collect();
    let blas = LIBRARIES[blas % LIBRARIES.len()].as_ref();
    for first in (0..k).step_by(panel) {
        let end = k.min(first + panel);
        T::select_gemm(blas).gemm(
            T::ONE,
            case.a.local().columns(first..end),
            case.b.local().block(first..end, 0..n),
            ViewMut::new(&mut sum, m, n, m),
        );
    }
    let mut c = c0.clone();
    c.fill(|row, col| sum[row + col * m]);
    c
}

fn check_equal_terms<T: Scalar>(third: f64) {
    let fill = |rows, cols, value: f64| {
        let mut matrix: Matrix<T> = Matrix::zeros(Spread::whole(rows, cols), 0).unwrap();
        matrix.fill(|_, _| T::of(Complex64::new(value, 0.0)));
        matrix
    };
    for (n, k, panel) in [
        (1, 400_000, 400_000),
        (1, 400_000, 1024),
        (4, 400_000, 400_000),
        (4, 100_000, 1),
        (700, 10_000, 3),
    ] {
        for blas in 0..LIBRARIES.len() {
            let mut case = Case { a: fill(4, k, third), b: fill(k, n, third), c: fill(4, n, 0.0) };
            case.c = add_product(&case, &case.c, panel, blas);
            let what = format!("{} {n} {k} {panel} {blas}", T::TYPE);
            let verdict = case.verify(3);
            assert_eq!(verdict.passed, Some(true), "{verdict:?} {what}");
            let c0 = fill(4, n, 1.0);
            let c = add_product(&case, &c0, panel, blas);
            let [verdict, blind] = verify_added(&case, &c0, &c);
            assert_eq!(verdict.passed, Some(true), "{verdict:?} {what}, with C");
            assert_ne!(blind.passed, Some(false), "{blind:?} {what}, with C");
        }
    }
}

#[test]
fn long_sums_of_equal_terms_are_no_errors() {
    check_equal_terms::<f32>(1.0 / 3.0);
    check_equal_terms::<f64>(1.0 / 3.0);
}

/// A product whose first 30 rows drift: all terms of an element are equal, and are added one at a time.
fn make_drifting<T: Scalar>() -> Case<T> {
    let (m, k, n) = (40, 4800, 512);
    let [rows, uniform] = [Numbers::ConstantRows, Numbers::Uniform]
        .map(|numbers| make::<T>((m, k), numbers, 3, |_, _| 1.0));
    let mut a = rows.clone();
    a.fill(|row, col| [&rows, &uniform][row / 30].local().col(col)[row]);
    let b = make((k, n), Numbers::ConstantCols, 4, |_, _| 1.0);
    let c = multiply(&a, &b, 1, 0);
    Case { a, b, c }
}

/// Among the drifting rows is one with an element that is wrong by 64 roundings.
fn find_among_suspects<T: Scalar>() {
    let mut case = make_drifting::<T>();
    assert_eq!(case.verify(1).passed, Some(true), "{}", T::TYPE);
    let (rows, cols) = (find_norms(&case.a, true), find_norms(&case.b, false));
    let unit = 64.0 * T::EPSILON / 2.0 * ((4800 * count_parts::<T>()) as f64).sqrt();
    for seed in 1..3 {
        let [row, col] =
            [(1, 10), (2, 512)].map(|(what, len)| (draw(seed, what, 9) * f64::from(len)) as usize);
        let right = case.c.local().col(col)[30 + row];
        let wrong = right.value() + unit * rows[30 + row] * cols[col];
        case.c.local_mut().col_mut(col)[30 + row] = T::of(wrong);
        let verdict = case.verify(seed);
        assert_eq!(verdict.passed, Some(false), "{} {verdict:?}", T::TYPE);
        case.c.local_mut().col_mut(col)[30 + row] = right;
    }
}

#[test]
fn no_row_is_acquitted_unseen() {
    thread::scope(|scope| {
        scope.spawn(find_among_suspects::<f32>);
        scope.spawn(find_among_suspects::<f64>);
        scope.spawn(find_among_suspects::<Complex32>);
        scope.spawn(find_among_suspects::<Complex64>);
    });
}

/// Asserts that nothing is known of a result, for a reason with this word.
fn assert_doubt(verdict: &Verdict, word: &str) {
    let doubt = verdict.doubt.as_deref().unwrap_or_default();
    assert!(verdict.passed.is_none() && doubt.contains(word), "{word}: {verdict:?}");
}

#[test]
fn a_doubt_has_its_reason() {
    let comm = LocalComm::new();
    let finish = |case: &Case<f64>, again: Option<&mut dyn Recall<f64>>| {
        case.probe(1).finish(&comm, &case.c, again).unwrap()
    };
    let mut case = make_drifting::<f64>();
    assert_doubt(&finish(&case, None), "needs A, B and C");
    assert_doubt(&finish(&case, Some(&mut Gone)), "a file is gone");
    // A bit of B flips after the check has read it.
    let probe = case.probe(1);
    case.b.local_mut().col_mut(7)[9] *= 1.0 + 1e-8;
    case.c = multiply(&case.a, &case.b, 1, 0);
    let verdict = probe.finish(&comm, &case.c, Some(&mut case.factors())).unwrap();
    assert_doubt(&verdict, "do not explain");
    // Every row of one element is wrong.
    let mut tall = Case::<f64>::new([5000, 1, 1], [Numbers::Uniform; 2], (Scaled::Nothing, 1.0), 1);
    let right = tall.c.clone();
    tall.c.fill(|row, col| right.local().col(col)[row] * (1.0 + 20.0 * f64::EPSILON / 2.0));
    assert_doubt(&tall.verify(1), "too many");
    // Numbers whose squares overflow beside a small result.
    let factors = [(40, 50, 1e-200), (50, 60, 1e200)];
    let [a, b] = factors
        .map(|(rows, cols, size)| make::<f64>((rows, cols), Numbers::Uniform, 2, |_, _| size));
    let c = multiply(&a, &b, 8, 0);
    let large = Case { a, b, c };
    let parts = Way::Parts.probe(&large, None, 1);
    assert_doubt(&parts.finish(&comm, &large.c, None).unwrap(), "overflow");
    assert_eq!(large.verify(1).passed, Some(true));
    let scalars = Scalars { alpha: 0.0, beta: 1e-200 };
    let added = Probe::begin(&comm, scalars, &large.b, None, 5).unwrap();
    let mut c = large.b.clone();
    c.fill(|row, col| 1e-200 * large.b.local().col(col)[row]);
    assert_doubt(&added.finish(&comm, &c, None).unwrap(), "overflow");
}

/// Matrices that cannot be made again.
struct Gone;

impl<T: Scalar> Recall<T> for Gone {
    fn factors(&mut self, _take: &mut TakeFactors<'_, T>) -> Result<(), Error> {
        Err(Error::Plan("a file is gone".to_owned()))
    }

    fn c(&mut self, _window: Spread) -> Result<Matrix<T>, Error> {
        Err(Error::Plan("a file is gone".to_owned()))
    }
}

/// Makes numbers of one size with random signs.
fn make_alike(shape: (usize, usize), size: f64, seed: u64) -> Matrix<f64> {
    let signs = make::<f64>(shape, Numbers::Uniform, seed, |_, _| 1.0);
    let mut matrix = signs.clone();
    matrix.fill(|row, col| size.copysign(signs.local().col(col)[row]));
    matrix
}

/// Elements near the largest number of their type: a bound of the check is the sum of thousands of them.
#[test]
fn the_largest_numbers_are_checked() {
    let comm = LocalComm::new();
    for large in [f64::MAX, f64::MAX / 1e3, 1e300] {
        let small = 1e-2 * (1e300 / large).min(1.0);
        let sizes = [(60, 500, large, 1), (500, 90, small, 2)];
        let [a, b] = sizes.map(|(rows, cols, size, seed)| make_alike((rows, cols), size, seed));
        let case = Case { c: multiply(&a, &b, 128, 0), a, b };
        assert!(case.c.find_not_finite(&comm).unwrap().is_none());
        let verdict = case.verify(3);
        assert_eq!(verdict.passed, Some(true), "{verdict:?} {large}");
        assert!(verdict.finds.unwrap() < 1e-11, "{verdict:?} {large}");
        let at = |row: usize, col: usize| case.c.local().col(col)[row];
        for (row, col) in [(0, 0), (7, 30), (59, 89)] {
            let unit = f64::EPSILON / 2.0 * (500f64.sqrt() + 2.0);
            let error = 64.0 * unit * 500.0 * large * small;
            assert!(
                !passes(&case, 3, |i, j| at(i, j) + if (i, j) == (row, col) { error } else { 0.0 }),
                "{large} {row} {col}"
            );
        }
    }
}
