//! The choice of a BLAS: finds the installed libraries, and checks their results.

use super::{BlasCandidates, CblasLibrary, EmbeddedBlas};
use crate::contract::{Blas, DeviceError, ElementType, Scalar, View, ViewMut};
use num_complex::{Complex32, Complex64};
use std::str::FromStr;
use std::sync::Arc;
use strum::Display;

/// Environment variable that replaces [`BlasChoice::Auto`]; it takes the same words.
const BLAS_VARIABLE: &str = "ISOCHRON_BLAS";

const MKL: &[&str] = &["libmkl_rt.so.3", "libmkl_rt.so.2", "libmkl_rt.so.1", "libmkl_rt.so"];
const OPENBLAS: &[&str] = &["libopenblas.so.0", "libscipy_openblas.so"];
const BLIS: &[&str] = &["libblis.so.4"];

/// The BLAS that a device should use.
#[derive(Debug, Clone, PartialEq, Eq, Default, Display)]
#[strum(serialize_all = "lowercase")]
pub enum BlasChoice {
    /// The fastest of all installed ones, measured at once.
    #[default]
    Auto,
    /// [`EmbeddedBlas`], which is compiled in.
    Embedded,
    /// OpenBLAS.
    OpenBlas,
    /// Intel MKL.
    Mkl,
    /// BLIS.
    Blis,
    /// A CBLAS library by its path.
    #[strum(to_string = "{0}")]
    Path(String),
    /// The installed library with this [name](Blas::name) if it is here, else as [`Auto`](Self::Auto).
    #[strum(to_string = "auto, as {0}")]
    AutoAs(String),
}

impl BlasChoice {
    /// The words that name a choice; a path names another one.
    pub const NAMES: [&str; 5] = ["auto", "embedded", "openblas", "mkl", "blis"];
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
            _ => Err(DeviceError::UnknownBlas(text.to_owned())),
        }
    }
}

/// The libraries that a [`BlasChoice`] leaves.
#[derive(Debug)]
pub enum FoundBlas {
    /// The one that is named, by the choice or by the environment variable `ISOCHRON_BLAS`.
    Named(Arc<dyn Blas>),
    /// All that can be used: times decide.
    Candidates(BlasCandidates),
}

/// Opens the BLAS for `choice`.
///
/// `Auto` opens every installed library, leaves out those that fail a small exact check, and measures the rest briefly,
/// once in a process, with elements of type `f64`. It takes the first that is about as fast as the fastest. The
/// embedded BLAS is always among them, so `Auto` by itself cannot fail. `AutoAs` takes the library of that name if it
/// passes the check, without measuring. The environment variable `ISOCHRON_BLAS` replaces both; it takes the words of
/// [`BlasChoice`].
///
/// # Errors
/// Returns [`DeviceError::Blas`] with the library if a named one is missing or computes wrongly;
/// [`DeviceError::BlasMemory`] if the system refuses the memory that it needs; [`DeviceError::UnknownBlas`] if the
/// variable does not name a BLAS.
pub fn choose_blas(choice: &BlasChoice) -> Result<Arc<dyn Blas>, DeviceError> {
    let found = find_blas(choice, 1)?;
    if let FoundBlas::Candidates(candidates) = &found {
        for notice in candidates.notices() {
            tracing::warn!("{notice}");
        }
    }
    Ok(choose_found(found))
}

/// Opens the libraries for `choice` as [`choose_blas`] does, and measures none of them. A library that lacks memory for
/// products of `threads` threads at once is no candidate.
///
/// # Errors
/// Returns [`DeviceError::Blas`] with the library if a named one is missing or computes wrongly,
/// [`DeviceError::BlasMemory`] if the system refuses the memory that it needs; [`DeviceError::UnknownBlas`] if the
/// variable does not name a BLAS.
pub fn find_blas(choice: &BlasChoice, threads: usize) -> Result<FoundBlas, DeviceError> {
    let variable = std::env::var(BLAS_VARIABLE).ok();
    // The check of a library is a product as well.
    find_with(choice, variable.as_deref(), threads.max(1))
}

fn choose_found(found: FoundBlas) -> Arc<dyn Blas> {
    match found {
        FoundBlas::Named(blas) => blas,
        FoundBlas::Candidates(candidates) => {
            let times = candidates.measure(ElementType::F64);
            candidates.take_fastest(&times)
        }
    }
}

/// Does the work of [`find_blas`], with the variable's value as an argument.
fn find_with(
    choice: &BlasChoice,
    variable: Option<&str>,
    threads: usize,
) -> Result<FoundBlas, DeviceError> {
    let choice = match (choice, variable) {
        (BlasChoice::Auto | BlasChoice::AutoAs(_), Some(text)) if !text.is_empty() => {
            text.parse().map_err(|_| DeviceError::UnknownBlas(format!("{BLAS_VARIABLE}={text}")))?
        }
        _ => choice.clone(),
    };
    let named = match &choice {
        BlasChoice::Auto => None,
        BlasChoice::AutoAs(name) => find_by_name(name, threads),
        BlasChoice::Embedded => Some(Arc::new(EmbeddedBlas) as Arc<dyn Blas>),
        BlasChoice::OpenBlas => Some(open_first(OPENBLAS, threads)?),
        BlasChoice::Mkl => Some(open_first(MKL, threads)?),
        BlasChoice::Blis => Some(open_first(BLIS, threads)?),
        BlasChoice::Path(path) => Some(open_checked(path, threads)?),
    };
    let named = named.inspect(|blas| tracing::debug!(%choice, blas = blas.name(), "chose a BLAS"));
    Ok(match named {
        Some(blas) => FoundBlas::Named(blas),
        None => FoundBlas::Candidates(open_installed(threads)),
    })
}

/// Opens the installed BLAS with this name; `None` if it is not here.
fn find_by_name(name: &str, threads: usize) -> Option<Arc<dyn Blas>> {
    if name == EmbeddedBlas.name() {
        return Some(Arc::new(EmbeddedBlas));
    }
    let mut libraries = [MKL, OPENBLAS, BLIS]
        .concat()
        .into_iter()
        .filter_map(|file| open_checked(file, threads).ok());
    libraries.find(|blas| blas.name() == name)
}

/// Opens every BLAS that can be used here, the embedded one last.
pub fn available_blas() -> Vec<Arc<dyn Blas>> {
    open_installed(1).into_libraries()
}

/// Opens every BLAS that can be used here by `threads` threads at once, the embedded one last.
fn open_installed(threads: usize) -> BlasCandidates {
    let mut found: Vec<Arc<dyn Blas>> = Vec::new();
    let mut notices = Vec::new();
    for names in [MKL, OPENBLAS, BLIS] {
        match open_first(names, threads) {
            Ok(blas) => found.push(blas),
            Err(
                error @ (DeviceError::BlasMemory { .. }
                | DeviceError::BlasThreads { .. }
                | DeviceError::Threads { .. }),
            ) => {
                notices.push(error.to_string());
            }
            Err(error) => tracing::debug!(%error, "BLAS left out"),
        }
    }
    found.push(Arc::new(EmbeddedBlas));
    BlasCandidates::new(found, notices)
}

/// Opens the first of these libraries that can be used; the error names them all. A reason that all share is given
/// once. Memory that one of them lacks is the error.
fn open_first(names: &[&str], threads: usize) -> Result<Arc<dyn Blas>, DeviceError> {
    let mut reasons = Vec::new();
    for name in names {
        match open_checked(name, threads) {
            Err(DeviceError::Blas { reason, .. }) => reasons.push(reason),
            opened => return opened,
        }
    }
    if reasons.windows(2).all(|pair| pair[0] == pair[1]) {
        reasons.truncate(1);
    } else {
        for (reason, name) in reasons.iter_mut().zip(names) {
            *reason = format!("{name}: {reason}");
        }
    }
    Err(DeviceError::Blas { library: names.join(", "), reason: reasons.join("; ") })
}

fn open_checked(file: &str, threads: usize) -> Result<Arc<dyn Blas>, DeviceError> {
    let blas = CblasLibrary::open_for(file, 1, threads)?;
    let _room = blas.reserve(threads)?;
    if !computes_exactly(&blas) {
        return Err(DeviceError::Blas {
            library: file.to_owned(),
            reason: "it computes a small product of integers wrongly".to_owned(),
        });
    }
    Ok(Arc::new(blas))
}

/// Returns `true` if small products of integers are right in every element type. They are exact in any order of
/// summation.
fn computes_exactly(blas: &dyn Blas) -> bool {
    is_exact::<f32>(blas)
        && is_exact::<f64>(blas)
        && is_exact::<Complex32>(blas)
        && is_exact::<Complex64>(blas)
}

fn is_exact<T: Scalar>(blas: &dyn Blas) -> bool {
    const M: usize = 37;
    const N: usize = 19;
    const K: usize = 65;
    let (a, b, mut c) = (trial_matrix::<T>(M, K), trial_matrix(K, N), trial_matrix(M, N));
    let alpha = T::of(Complex64::new(2.0, 1.0));
    T::select_gemm(blas).gemm(
        alpha,
        View::new(&a, M, K, M),
        View::new(&b, K, N, K),
        ViewMut::new(&mut c, M, N, M),
    );
    (0..M * N).all(|at| {
        let (i, j) = (at % M, at / M);
        let product =
            (0..K).fold(T::ZERO, |sum, p| sum + trial_element::<T>(i, p) * trial_element(p, j));
        c[at] == trial_element::<T>(i, j) + alpha * product
    })
}

/// Makes the `rows × cols` matrix of small integers that [`is_exact`] multiplies.
fn trial_matrix<T: Scalar>(rows: usize, cols: usize) -> Vec<T> {
    (0..rows * cols).map(|at| trial_element(at % rows, at / rows)).collect()
}

fn trial_element<T: Scalar>(i: usize, j: usize) -> T {
    let real = ((i * 7 + j * 3) % 11) as f64 - 5.0;
    T::of(Complex64::new(real, ((i + j) % 3) as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::BlasGemm;

    /// Chooses with a value of the variable.
    fn choose_with(
        choice: &BlasChoice,
        variable: Option<&str>,
    ) -> Result<Arc<dyn Blas>, DeviceError> {
        find_with(choice, variable, 1).map(choose_found)
    }

    #[test]
    fn words_are_read_and_written_back() {
        for word in ["auto", "embedded", "openblas", "mkl", "blis", "/lib/x.so"] {
            assert_eq!(word.parse::<BlasChoice>().unwrap().to_string(), word);
        }
        let error = "atlas".parse::<BlasChoice>().unwrap_err().to_string();
        assert!(error.contains("`atlas`") && error.contains("auto"), "{error}");
    }

    #[test]
    fn an_unknown_path_is_an_error_that_names_it() {
        let choice = BlasChoice::Path("/nowhere/libnothing.so".to_owned());
        let error = choose_with(&choice, None).unwrap_err().to_string();
        assert!(error.contains("/nowhere/libnothing.so"), "{error}");
    }

    #[test]
    fn a_missing_library_is_reported_once_with_the_loaders_reason() {
        let refused = open_first(&["libnowhere.so.3", "libnowhere.so"], 1).err();
        assert_eq!(
            refused.map(|error| error.to_string()).as_deref(),
            Some(
                "the BLAS library libnowhere.so.3, libnowhere.so cannot be used: \
                 cannot open shared object file: No such file or directory"
            )
        );
        let message = open_first(&["libnowhere.so", "libm.so.6"], 1)
            .err()
            .map_or_else(String::new, |error| error.to_string());
        for part in ["libnowhere.so: cannot open", "; libm.so.6: it", "cblas_dgemm"] {
            assert!(message.contains(part), "{part}: {message}");
        }
    }

    #[test]
    fn the_variable_replaces_auto_alone() {
        let embedded = EmbeddedBlas.name();
        let auto = choose_with(&BlasChoice::Auto, Some("embedded")).unwrap();
        assert_eq!(auto.name(), embedded);
        assert!(choose_with(&BlasChoice::Auto, Some("/nowhere/x.so")).is_err());
        let unknown = choose_with(&BlasChoice::Auto, Some("quick")).unwrap_err();
        assert!(unknown.to_string().starts_with("`ISOCHRON_BLAS=quick` is not a BLAS"));
        let named = choose_with(&BlasChoice::Embedded, Some("/nowhere/x.so")).unwrap();
        assert_eq!(named.name(), embedded);
    }

    #[test]
    fn a_library_is_found_again_by_its_name() {
        let choose =
            |name: &str, variable| choose_with(&BlasChoice::AutoAs(name.to_owned()), variable);
        for blas in available_blas() {
            assert_eq!(choose(blas.name(), None).unwrap().name(), blas.name());
        }
        let fastest = choose_with(&BlasChoice::Auto, None).unwrap();
        assert_eq!(choose("gone 1.0", None).unwrap().name(), fastest.name());
        let replaced = choose(fastest.name(), Some("embedded")).unwrap();
        assert_eq!(replaced.name(), EmbeddedBlas.name());
    }

    /// A broken library, which adds nothing if numbers are complex in double precision.
    struct IdleBlas;

    impl Blas for IdleBlas {
        fn name(&self) -> &'static str {
            "idle"
        }
    }

    impl<T: Scalar> BlasGemm<T> for IdleBlas {
        fn gemm(&self, alpha: T, a: View<'_, T>, b: View<'_, T>, c: ViewMut<'_, T>) {
            if T::TYPE != ElementType::C64 {
                EmbeddedBlas.gemm(alpha, a, b, c);
            }
        }
    }

    #[test]
    fn the_check_tells_right_from_wrong() {
        assert!(computes_exactly(&EmbeddedBlas));
        assert!(!computes_exactly(&IdleBlas));
    }

    #[test]
    fn auto_finds_the_same_again_and_lists_the_embedded_one() {
        let [first, again] = [(); 2].map(|()| choose_with(&BlasChoice::Auto, None).unwrap());
        assert_eq!(first.name(), again.name());
        let names: Vec<String> = available_blas().iter().map(ToString::to_string).collect();
        assert_eq!(names.last().map(String::as_str), Some(EmbeddedBlas.name()));
    }

    #[test]
    fn every_blas_agrees_with_the_embedded_one() {
        assert_agreement::<f32>();
        assert_agreement::<f64>();
        assert_agreement::<Complex32>();
        assert_agreement::<Complex64>();
    }

    fn pseudo_random(at: usize) -> f64 {
        ((at * 2_654_435_761) % 1000) as f64 / 1000.0 - 0.5
    }

    /// Multiplies 61 × 300 by 300 × 43 pseudo-random numbers.
    fn product<T: Scalar>(blas: &dyn Blas) -> Vec<T> {
        let (m, n, k) = (61, 43, 300);
        let values: Vec<T> = (0..m * k + 77)
            .map(|at| T::of(Complex64::new(pseudo_random(at), pseudo_random(at + 13))))
            .collect();
        let mut c = vec![T::ZERO; m * n];
        T::select_gemm(blas).gemm(
            T::of(Complex64::new(1.5, 0.0)),
            View::new(&values[..m * k], m, k, m),
            View::new(&values[77..77 + k * n], k, n, k),
            ViewMut::new(&mut c, m, n, m),
        );
        c
    }

    fn assert_agreement<T: Scalar>() {
        let k = 300;
        // Each result is within gamma_k·|alpha|·|A||B| of the exact one (Higham), so two differ by twice that; every
        // factor is at most 1/√2, and complex arithmetic is less exact by a factor of √8 at most.
        let bound = 2.0 * 2.9 * (k + 2) as f64 * T::EPSILON * 1.5 * k as f64 * 0.5;
        let reference = product::<T>(&EmbeddedBlas);
        for blas in available_blas() {
            for (x, y) in product::<T>(blas.as_ref()).iter().zip(&reference) {
                let error = (x.value() - y.value()).norm();
                assert!(error <= bound, "{} {}: {x:?} and {y:?}", blas.name(), T::TYPE);
            }
        }
    }
}
