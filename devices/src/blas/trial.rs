//! Short measurements of libraries, by which the fastest is chosen.

use super::EmbeddedBlas;
use crate::contract::{Blas, ElementType, Scalar, View, ViewMut};
use crate::host::cpu_time::thread_cpu_time_s;
use crate::host::operation::Operation;
use crate::with_element;
use num_complex::Complex64;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Version of the measurement: times of another one say nothing about it.
pub const TRIAL_VERSION: u32 = 1;

/// Up to this ratio two libraries count as equally fast.
const CLEARLY_SLOWER: f64 = 1.25;

/// Least time in seconds: a clock too coarse to see an update must not make a library infinitely fast.
const LEAST_S: f64 = 1e-9;

/// The repetitions of each candidate in seconds.
pub type TrialTimes = Vec<Vec<f64>>;

/// The times that were measured in this process, by the type of the elements and the libraries' names.
static MEASURED: Mutex<BTreeMap<(ElementType, Vec<String>), TrialTimes>> =
    Mutex::new(BTreeMap::new());

/// The libraries from which the fastest is chosen, in a fixed order; there is at least one.
#[derive(Debug)]
pub struct BlasCandidates {
    libraries: Vec<Arc<dyn Blas>>,
    /// The reasons why installed libraries are not among them, for lack of memory.
    notices: Vec<String>,
}

impl BlasCandidates {
    /// Takes libraries, without any [`EmbeddedBlas`], and the reasons for leaving others out.
    pub(super) fn new(mut libraries: Vec<Arc<dyn Blas>>, notices: Vec<String>) -> Self {
        if libraries.is_empty() {
            libraries.push(Arc::new(EmbeddedBlas));
        }
        Self { libraries, notices }
    }

    /// Returns one line for each installed library that lacks memory and is not among them.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Returns the libraries.
    pub(super) fn into_libraries(self) -> Vec<Arc<dyn Blas>> {
        self.libraries
    }

    /// Returns their names.
    pub fn names(&self) -> Vec<String> {
        self.libraries.iter().map(ToString::to_string).collect()
    }

    /// Measures each of them with elements of this type, once in a process.
    pub fn measure(&self, element: ElementType) -> TrialTimes {
        let mut measured = MEASURED.lock().unwrap_or_else(PoisonError::into_inner);
        measured
            .entry((element, self.names()))
            .or_insert_with(|| with_element!(element, T => self.time_all::<T>()))
            .clone()
    }

    fn time_all<T: Scalar>(&self) -> TrialTimes {
        let mut trial = BlasTrial::<T>::new();
        let mut times = vec![Vec::new(); self.libraries.len()];
        // Every library runs once a round: the clock of the processor wanders, and should favour none.
        for _ in 0..ROUNDS {
            for (times_s, blas) in times.iter_mut().zip(&self.libraries) {
                times_s.push(trial.time_s(blas.as_ref()).max(LEAST_S));
            }
        }
        for (times_s, blas) in times.iter().zip(&self.libraries) {
            let speed_flops_per_s = BlasTrial::<T>::flop() / find_best(times_s);
            tracing::debug!(blas = blas.name(), element = %T::TYPE, speed_flops_per_s, "tried");
        }
        times
    }

    /// Takes the fastest by these times, one entry for each candidate.
    pub fn take_fastest(&self, times: &[Vec<f64>]) -> Arc<dyn Blas> {
        let blas = pick_fastest(times)
            .and_then(|index| self.libraries.get(index))
            .unwrap_or(&self.libraries[0]);
        tracing::debug!(blas = blas.name(), "chose a BLAS by its times");
        Arc::clone(blas)
    }

    /// Takes the one of this name.
    pub fn take(&self, name: &str) -> Option<Arc<dyn Blas>> {
        self.libraries.iter().find(|blas| blas.name() == name).cloned()
    }
}

/// Returns the index of the fastest library, or of the first that is about as fast; `None` without times.
///
/// Differences within the noise of a busy machine must not decide, or alike nodes would choose unlike libraries.
pub fn pick_fastest(times: &[Vec<f64>]) -> Option<usize> {
    let fastest_s = times.iter().map(|times_s| find_best(times_s)).fold(f64::INFINITY, f64::min);
    times
        .iter()
        .position(|times_s| !times_s.is_empty() && find_best(times_s) <= CLEARLY_SLOWER * fastest_s)
}

/// Returns the least of these times: the first repetition also allocates the library's buffers.
fn find_best(times_s: &[f64]) -> f64 {
    times_s.iter().copied().fold(f64::INFINITY, f64::min)
}

/// The operands of an update that ranks libraries as multiplications do; small products rank them otherwise.
struct BlasTrial<T> {
    a: Vec<T>,
    b: Vec<T>,
    c: Vec<T>,
}

/// The sizes of that update.
const M: usize = 1024;
const N: usize = 512;
const K: usize = 128;

/// Elements of C in that update.
pub const TRIAL_UNITS: u64 = (M * N) as u64;

/// Number of rounds. The best one counts.
const ROUNDS: usize = 5;

impl<T: Scalar> BlasTrial<T> {
    fn new() -> Self {
        let [a, b, c] = [0.5, 0.25, 1.0].map(|value| T::of(Complex64::new(value, 0.0)));
        Self { a: vec![a; M * K], b: vec![b; K * N], c: vec![c; M * N] }
    }

    fn flop() -> f64 {
        T::TYPE.flop() * (M * N * K) as f64
    }

    /// Runs one update, and returns its CPU time in seconds: other work on the machine disturbs it little.
    fn time_s(&mut self, blas: &dyn Blas) -> f64 {
        let _running = Operation::begin(Self::flop());
        let start_s = thread_cpu_time_s();
        T::select_gemm(blas).gemm(
            T::ONE,
            View::new(&self.a, M, K, M),
            View::new(&self.b, K, N, K),
            ViewMut::new(&mut self.c, M, N, M),
        );
        thread_cpu_time_s() - start_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pick(times: [&[f64]; 3]) -> Option<usize> {
        pick_fastest(&times.map(<[f64]>::to_vec))
    }

    #[test]
    fn the_first_library_that_is_about_as_fast_is_taken() {
        assert_eq!(pick([&[9.0, 1.2], &[1.0], &[3.0]]), Some(0));
        assert_eq!(pick([&[9.0, 1.3], &[1.0], &[1.0]]), Some(1));
        assert_eq!(pick([&[9.0], &[], &[1.0]]), Some(2));
        assert_eq!(pick([&[], &[], &[]]), None);
        assert_eq!(pick_fastest(&[]), None);
    }

    #[test]
    fn libraries_are_measured_once_for_each_type() {
        let candidates = BlasCandidates::new(Vec::new(), Vec::new());
        assert_eq!(candidates.names(), [EmbeddedBlas.name()]);
        for element in [ElementType::F32, ElementType::C64] {
            let times = candidates.measure(element);
            assert!(times.len() == 1 && times[0].len() == ROUNDS);
            assert!(times[0].iter().all(|&time_s| time_s >= LEAST_S));
            assert_eq!(candidates.measure(element), times);
        }
        let taken = candidates.take(EmbeddedBlas.name()).unwrap();
        assert_eq!(taken.name(), EmbeddedBlas.name());
        assert!(candidates.take("gone 1.0").is_none());
    }
}
