//! Which BLAS to use: what is installed, whether it computes correctly, and which is fastest here.

use super::{Blas, CblasLibrary, EmbeddedBlas};
use crate::cpu::thread_cpu_time_s;
use crate::{DeviceError, Element, View, ViewMut};
use num_complex::{Complex32, Complex64};
use std::{fmt, str::FromStr, sync::Arc};

/// Environment variable that replaces [`BlasChoice::Auto`]; it takes the same words.
pub const BLAS_VARIABLE: &str = "ISOCHRON_BLAS";

const MKL: &[&str] = &[
    "libmkl_rt.so.3",
    "libmkl_rt.so.2",
    "libmkl_rt.so.1",
    "libmkl_rt.so",
];
const OPENBLAS: &[&str] = &["libopenblas.so.0", "libscipy_openblas.so"];
const BLIS: &[&str] = &["libblis.so.4"];

/// Which BLAS a device should use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum BlasChoice {
    /// The fastest of all that are found, measured here and now.
    #[default]
    Auto,
    /// The one that is compiled in.
    Embedded,
    /// OpenBLAS.
    OpenBlas,
    /// Intel MKL.
    Mkl,
    /// BLIS.
    Blis,
    /// A CBLAS library by its path.
    Path(String),
}

impl FromStr for BlasChoice {
    type Err = DeviceError;

    /// Reads `auto`, `embedded`, `openblas`, `mkl`, `blis`, or a path, which contains a `/`.
    fn from_str(text: &str) -> Result<Self, DeviceError> {
        match text {
            "auto" => Ok(Self::Auto),
            "embedded" => Ok(Self::Embedded),
            "openblas" => Ok(Self::OpenBlas),
            "mkl" => Ok(Self::Mkl),
            "blis" => Ok(Self::Blis),
            path if path.contains('/') => Ok(Self::Path(path.to_owned())),
            _ => Err(DeviceError::UnknownBlas {
                text: text.to_owned(),
            }),
        }
    }
}

impl fmt::Display for BlasChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Embedded => "embedded",
            Self::OpenBlas => "openblas",
            Self::Mkl => "mkl",
            Self::Blis => "blis",
            Self::Path(path) => path,
        })
    }
}

/// The BLAS for `choice`.
///
/// `Auto` opens every library that is found, leaves out those that fail a small exact check, measures the rest
/// briefly and takes the first that is about as fast as the fastest; with [`BLAS_VARIABLE`] set, what it names is taken instead. The embedded BLAS is
/// always among them, so `Auto` by itself cannot fail.
///
/// # Errors
/// [`DeviceError::Blas`] naming the library when one that was asked for is missing or computes wrongly;
/// [`DeviceError::UnknownBlas`] when the variable makes no sense.
pub fn choose_blas(choice: &BlasChoice) -> Result<Arc<dyn Blas>, DeviceError> {
    choose_with(choice, std::env::var(BLAS_VARIABLE).ok().as_deref())
}

/// [`choose_blas`] with the variable's value as an argument.
fn choose_with(choice: &BlasChoice, variable: Option<&str>) -> Result<Arc<dyn Blas>, DeviceError> {
    let choice = match (choice, variable) {
        (BlasChoice::Auto, Some(text)) if !text.is_empty() => text.parse()?,
        _ => choice.clone(),
    };
    let blas = match &choice {
        BlasChoice::Auto => pick_fastest(available_blas()),
        BlasChoice::Embedded => Arc::new(EmbeddedBlas),
        BlasChoice::OpenBlas => first_of(OPENBLAS)?,
        BlasChoice::Mkl => first_of(MKL)?,
        BlasChoice::Blis => first_of(BLIS)?,
        BlasChoice::Path(path) => open_checked(path)?,
    };
    tracing::debug!(%choice, blas = blas.name(), "chose a BLAS");
    Ok(blas)
}

/// Every BLAS that can be used here, the embedded one last.
pub fn available_blas() -> Vec<Arc<dyn Blas>> {
    let mut found: Vec<Arc<dyn Blas>> = Vec::new();
    for names in [MKL, OPENBLAS, BLIS] {
        match first_of(names) {
            Ok(blas) => found.push(blas),
            Err(error) => tracing::debug!(%error, "BLAS left out"),
        }
    }
    found.push(Arc::new(EmbeddedBlas));
    found
}

/// The speed of one core with this BLAS, in flop/s: the best of several updates of 1024 × 512 with k = 128, a size
/// at which the libraries rank as they do in multiplications (small products rank them otherwise).
///
/// It is measured in CPU time of the calling thread, so that other work on the machine disturbs it little. Good for
/// telling libraries apart, too brief to describe a device.
pub fn speed_flops_per_s(blas: &dyn Blas) -> f64 {
    let mut probe = BlasTrial::new();
    let best_s = (0..BlasTrial::ROUNDS).map(|_| probe.time_s(blas));
    probe_speed(best_s.fold(f64::INFINITY, f64::min))
}

/// The fastest, or the first in the list that is about as fast. The list is never empty, but the embedded BLAS would do if it were.
fn pick_fastest(mut candidates: Vec<Arc<dyn Blas>>) -> Arc<dyn Blas> {
    let mut probe = BlasTrial::new();
    let mut best_s = vec![f64::INFINITY; candidates.len()];
    // Every library once a round: the clock of the processor wanders, and should favour none.
    for _ in 0..BlasTrial::ROUNDS {
        for (best_s, blas) in best_s.iter_mut().zip(&candidates) {
            *best_s = best_s.min(probe.time_s(blas.as_ref()));
        }
    }
    for (&best_s, blas) in best_s.iter().zip(&candidates) {
        let speed_flops_per_s = probe_speed(best_s);
        tracing::debug!(blas = blas.name(), speed_flops_per_s, "tried");
    }
    // Differences within the noise of a busy machine must not decide, or alike nodes would choose unlike libraries:
    // the first in the list that is nearly as fast as the fastest is taken.
    let fastest_s = best_s.iter().copied().fold(f64::INFINITY, f64::min);
    match best_s.iter().position(|&s| s <= CLEARLY_SLOWER * fastest_s) {
        Some(i) => candidates.swap_remove(i),
        None => Arc::new(EmbeddedBlas),
    }
}

/// Up to this ratio two libraries count as equally fast.
const CLEARLY_SLOWER: f64 = 1.25;

/// The operands of a small update that tells libraries apart.
struct BlasTrial {
    a: Vec<f64>,
    b: Vec<f64>,
    c: Vec<f64>,
}

impl BlasTrial {
    const M: usize = 1024;
    const N: usize = 512;
    const K: usize = 128;
    /// The first round also pays for the library's buffers; the best one does not.
    const ROUNDS: usize = 5;

    fn new() -> Self {
        Self {
            a: vec![0.5; Self::M * Self::K],
            b: vec![0.25; Self::K * Self::N],
            c: vec![1.0; Self::M * Self::N],
        }
    }

    /// CPU time of one update, in seconds.
    fn time_s(&mut self, blas: &dyn Blas) -> f64 {
        let start_s = thread_cpu_time_s();
        blas.gemm(
            1.0,
            View::new(&self.a, Self::M, Self::K, Self::M),
            View::new(&self.b, Self::K, Self::N, Self::K),
            ViewMut::new(&mut self.c, Self::M, Self::N, Self::M),
        );
        thread_cpu_time_s() - start_s
    }
}

/// The speed of an update of the probe that took `time_s`, in flop/s.
fn probe_speed(time_s: f64) -> f64 {
    // A clock too coarse to see the update must not make a library infinitely fast.
    (2 * BlasTrial::M * BlasTrial::N * BlasTrial::K) as f64 / time_s.max(1e-9)
}

/// The first of these libraries that can be used; the error lists them all, with each reason.
fn first_of(names: &[&str]) -> Result<Arc<dyn Blas>, DeviceError> {
    let mut reasons = Vec::new();
    for name in names {
        match open_checked(name) {
            Ok(blas) => return Ok(blas),
            Err(DeviceError::Blas { reason, .. }) => reasons.push(reason),
            Err(error) => reasons.push(error.to_string()),
        }
    }
    Err(DeviceError::Blas {
        library: names.join(", "),
        reason: reasons.join("; "),
    })
}

fn open_checked(file: &str) -> Result<Arc<dyn Blas>, DeviceError> {
    let blas = CblasLibrary::open(file)?;
    if !computes_exactly(&blas) {
        return Err(DeviceError::Blas {
            library: file.to_owned(),
            reason: "it computes a small product of integers wrongly".to_owned(),
        });
    }
    Ok(Arc::new(blas))
}

/// Whether small products of integers, which are exact in any order of summation, come out right in every element type.
fn computes_exactly(blas: &dyn Blas) -> bool {
    is_exact::<f32>(blas)
        && is_exact::<f64>(blas)
        && is_exact::<Complex32>(blas)
        && is_exact::<Complex64>(blas)
}

fn is_exact<T: Element>(blas: &dyn Blas) -> bool {
    const M: usize = 37;
    const N: usize = 19;
    const K: usize = 65;
    let number = |value: f64, i: usize| T::of(Complex64::new(value, (i % 3) as f64));
    let value = |i: usize, j: usize| number(((i * 7 + j * 3) % 11) as f64 - 5.0, i + j);
    let fill = |rows: usize, cols: usize| -> Vec<T> {
        (0..rows * cols)
            .map(|at| value(at % rows, at / rows))
            .collect()
    };
    let (a, b, mut c) = (fill(M, K), fill(K, N), fill(M, N));
    let alpha = number(2.0, 1);
    blas.gemm(
        alpha,
        View::new(&a, M, K, M),
        View::new(&b, K, N, K),
        ViewMut::new(&mut c, M, N, M),
    );
    (0..M * N).all(|at| {
        let (i, j) = (at % M, at / M);
        let product = (0..K).fold(T::ZERO, |sum, p| sum + value(i, p) * value(p, j));
        c[at] == value(i, j) + alpha * product
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_and_written_back() {
        for word in ["auto", "embedded", "openblas", "mkl", "blis", "/lib/x.so"] {
            assert_eq!(word.parse::<BlasChoice>().unwrap().to_string(), word);
        }
        let error = "atlas".parse::<BlasChoice>().unwrap_err().to_string();
        assert!(
            error.contains("`atlas`") && error.contains("auto"),
            "{error}"
        );
    }

    #[test]
    fn an_unknown_path_is_an_error_that_names_it() {
        let choice = BlasChoice::Path("/nowhere/libnothing.so".to_owned());
        let error = choose_with(&choice, None).unwrap_err().to_string();
        assert!(error.contains("/nowhere/libnothing.so"), "{error}");
    }

    #[test]
    fn the_variable_replaces_auto_alone() {
        let embedded = EmbeddedBlas.name();
        let auto = choose_with(&BlasChoice::Auto, Some("embedded")).unwrap();
        assert_eq!(auto.name(), embedded);
        assert!(choose_with(&BlasChoice::Auto, Some("/nowhere/x.so")).is_err());
        let named = choose_with(&BlasChoice::Embedded, Some("/nowhere/x.so")).unwrap();
        assert_eq!(named.name(), embedded);
    }

    /// Adds nothing where numbers are complex: what a broken library looks like.
    struct Idle;

    impl Blas for Idle {
        fn name(&self) -> &'static str {
            "idle"
        }

        fn sgemm(&self, alpha: f32, a: View<'_, f32>, b: View<'_, f32>, c: ViewMut<'_, f32>) {
            EmbeddedBlas.sgemm(alpha, a, b, c);
        }

        fn dgemm(&self, alpha: f64, a: View<'_, f64>, b: View<'_, f64>, c: ViewMut<'_, f64>) {
            EmbeddedBlas.dgemm(alpha, a, b, c);
        }

        fn cgemm(
            &self,
            alpha: Complex32,
            a: View<'_, Complex32>,
            b: View<'_, Complex32>,
            c: ViewMut<'_, Complex32>,
        ) {
            EmbeddedBlas.cgemm(alpha, a, b, c);
        }

        fn zgemm(
            &self,
            _: Complex64,
            _: View<'_, Complex64>,
            _: View<'_, Complex64>,
            _: ViewMut<'_, Complex64>,
        ) {
        }
    }

    #[test]
    fn the_check_tells_right_from_wrong() {
        assert!(computes_exactly(&EmbeddedBlas));
        assert!(!computes_exactly(&Idle));
    }

    #[test]
    fn auto_finds_something_and_lists_the_embedded_one() {
        assert!(choose_with(&BlasChoice::Auto, None).is_ok());
        let names: Vec<String> = available_blas().iter().map(ToString::to_string).collect();
        assert_eq!(names.last().map(String::as_str), Some(EmbeddedBlas.name()));
    }

    #[test]
    fn every_blas_agrees_with_the_embedded_one() {
        agrees::<f32>();
        agrees::<f64>();
        agrees::<Complex32>();
        agrees::<Complex64>();
    }

    fn agrees<T: Element>() {
        let (m, n, k) = (61, 43, 300);
        let real = |at: usize| ((at * 2_654_435_761) % 1000) as f64 / 1000.0 - 0.5;
        let value = |at: usize| T::of(Complex64::new(real(at), real(at + 13)));
        let a: Vec<T> = (0..m * k).map(value).collect();
        let b: Vec<T> = (0..k * n).map(|at| value(at + 77)).collect();
        let product = |blas: &dyn Blas| {
            let mut c = vec![T::ZERO; m * n];
            blas.gemm(
                T::of(Complex64::new(1.5, 0.0)),
                View::new(&a, m, k, m),
                View::new(&b, k, n, k),
                ViewMut::new(&mut c, m, n, m),
            );
            c
        };
        // Each result is within gamma_k·|alpha|·|A||B| of the exact one (Higham), so two differ by twice that; every
        // factor is at most 1/√2, and complex arithmetic is less exact by a factor of √8 at most.
        let bound = 2.0 * 2.9 * (k + 2) as f64 * T::EPSILON * 1.5 * k as f64 * 0.5;
        let reference = product(&EmbeddedBlas);
        for blas in available_blas() {
            for (x, y) in product(blas.as_ref()).iter().zip(&reference) {
                let error = (x.value() - y.value()).norm();
                assert!(
                    error <= bound,
                    "{} {}: {x:?} and {y:?}",
                    blas.name(),
                    T::TYPE
                );
            }
        }
    }
}
