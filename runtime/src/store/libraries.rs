//! The BLAS of each rank's devices: named, recalled from the store, or the fastest by a measurement.

use std::sync::Arc;

use isochron_devices::Blas;
use isochron_devices::internal::{
    BlasCandidates, FoundBlas, SharedHost, TRIAL_UNITS, TrialTimes, find_blas,
};
use isochron_devices::{BlasChoice, ElementType};
use isochron_hierarchy::times::Series;
use serde::{Deserialize, Serialize};

use super::known::KnownFrom;
use crate::comm::{Comm, agree};
use crate::error::Error;
use crate::store::{LibrarySource, ModelStore, StoreKey};
use crate::watch::{RankPhase, enter_within};

/// The BLAS of this rank.
pub(crate) struct ChosenLibrary {
    pub blas: Arc<dyn Blas>,
    /// The origin of the choice; `None` if the library is named.
    pub known: Option<KnownFrom>,
    /// The reasons for a new choice, and for leaving libraries out, one line each.
    pub words: Vec<String>,
    /// The times behind new choices of all ranks, the same on each of them.
    pub measured: Vec<(StoreKey, Series)>,
}

/// A rank that chooses.
pub(crate) struct ChoosingRank {
    /// The processor's model.
    pub class: String,
    /// Number of its cores.
    pub cores: usize,
    /// Number of threads that multiply at once.
    pub threads: usize,
    /// Type of the elements.
    pub element: ElementType,
}

impl ChoosingRank {
    /// Describes the rank with this part of its host.
    pub fn new(host: &SharedHost, element: ElementType) -> Self {
        let (cores, threads) = host.count_cores();
        Self { class: host.topology().describe_class(), cores, threads, element }
    }
}

/// Chooses a BLAS on every rank. `store` is the one that was read, on the head rank.
///
/// Ranks with equal processors, numbers of cores and libraries take the same: the one that the store knows, or else the
/// fastest on the lowest of these ranks.
///
/// # Errors
/// On every rank, returns [`Error::Device`] if a library that is named on some rank cannot be used there.
///
/// # Collective
/// All ranks, with the same element.
pub(crate) fn choose_library(
    comm: &dyn Comm,
    choice: &BlasChoice,
    rank: ChoosingRank,
    store: Option<&ModelStore>,
) -> Result<ChosenLibrary, Error> {
    let _trying = enter_within(RankPhase::Libraries);
    let found = agree(comm, find_blas(choice, rank.threads).map_err(Error::from))?;
    let element = rank.element;
    let candidates = match &found {
        FoundBlas::Candidates(candidates) => Some(candidates),
        FoundBlas::Named(_) => None,
    };
    let lacking = candidates.map_or(Vec::new(), |candidates| candidates.notices().to_vec());
    let source = candidates.map(|candidates| LibrarySource {
        class: rank.class,
        host: comm.host_name().to_owned(),
        cores: rank.cores,
        element,
        libraries: candidates.names(),
    });
    let job = JobChoice::recall(comm, &source, store)?.measure_rest(comm, candidates)?;
    let (blas, known) = match found {
        FoundBlas::Named(blas) => (blas, None),
        FoundBlas::Candidates(candidates) => {
            let (blas, known) = job.take_from(&candidates, comm.rank(), element);
            (blas, Some(known))
        }
    };
    Ok(ChosenLibrary {
        blas,
        known,
        words: [lacking, job.list_words(comm.rank())].concat(),
        measured: job.list_measured(),
    })
}

/// The store's answer to a rank.
#[derive(Clone, Serialize, Deserialize)]
enum Recalled {
    /// The library that earlier runs chose.
    Library(String),
    /// Nothing is known of these libraries. If others were here before, the difference.
    Nothing(Option<String>),
}

impl Recalled {
    /// Asks the store.
    fn find(store: Option<&ModelStore>, source: &LibrarySource) -> Self {
        let Some(models) = store.map(ModelStore::models) else {
            return Self::Nothing(None);
        };
        match models.find_library(source) {
            Some(library) => Self::Library(library.to_owned()),
            None => {
                let others = models.find_other_libraries(source);
                Self::Nothing(others.map(|before| describe_change(before, &source.libraries)))
            }
        }
    }
}

/// Describes how the libraries differ from those before.
fn describe_change(before: &[String], now: &[String]) -> String {
    let gone = before.iter().filter(|library| !now.contains(library));
    let new = now.iter().filter(|library| !before.contains(library));
    let changes: Vec<String> = gone
        .map(|library| format!("{library} is gone"))
        .chain(new.map(|library| format!("{library} is new")))
        .collect();
    if changes.is_empty() {
        "the order of the libraries is another".to_owned()
    } else {
        changes.join(", ")
    }
}

/// The choices of all ranks, the same on each of them.
struct JobChoice {
    /// The ranks that choose.
    sources: Vec<Option<LibrarySource>>,
    /// Knowledge of the store.
    recalled: Vec<Option<Recalled>>,
    /// The times of ranks that measured.
    times: Vec<Option<TrialTimes>>,
}

impl JobChoice {
    /// Asks the store of the head rank.
    ///
    /// # Collective
    /// All ranks.
    fn recall(
        comm: &dyn Comm,
        mine: &Option<LibrarySource>,
        store: Option<&ModelStore>,
    ) -> Result<Self, Error> {
        let sources = comm.gather(mine)?;
        let recalled = (comm.rank() == 0).then(|| {
            sources
                .iter()
                .map(|source| {
                    let source = source.as_ref()?;
                    Some(Recalled::find(store, source))
                })
                .collect()
        });
        Ok(Self { recalled: comm.share(0, recalled)?, sources, times: Vec::new() })
    }

    /// Measures the libraries that are unknown to the store. The lowest rank with a set of libraries measures it.
    ///
    /// # Collective
    /// All ranks.
    fn measure_rest(
        self,
        comm: &dyn Comm,
        candidates: Option<&BlasCandidates>,
    ) -> Result<Self, Error> {
        if !(0..self.sources.len()).any(|rank| self.is_to_measure(rank)) {
            return Ok(self);
        }
        let source = self.sources[comm.rank()].as_ref();
        let mine = source
            .filter(|_| self.is_to_measure(comm.rank()))
            .zip(candidates)
            .map(|(source, candidates)| candidates.measure(source.element));
        Ok(Self { times: comm.gather(&mine)?, ..self })
    }

    /// Returns `true` if this rank has to measure.
    fn is_to_measure(&self, rank: usize) -> bool {
        let is_unknown = matches!(self.recalled[rank], Some(Recalled::Nothing(_)));
        is_unknown && self.find_first_like(rank) == Some(rank)
    }

    /// Returns the lowest rank whose choice is that of this one.
    fn find_first_like(&self, rank: usize) -> Option<usize> {
        let source = self.sources.get(rank)?.as_ref()?;
        let mut others = self.sources.iter();
        others.position(|other| other.as_ref().is_some_and(|other| other.is_like(source)))
    }

    /// Takes the library of a rank, and tells the origin of the choice.
    fn take_from(
        &self,
        candidates: &BlasCandidates,
        rank: usize,
        element: ElementType,
    ) -> (Arc<dyn Blas>, KnownFrom) {
        if let Some(Some(Recalled::Library(name))) = self.recalled.get(rank)
            && let Some(blas) = candidates.take(name)
        {
            return (blas, KnownFrom::Store);
        }
        let first = self.find_first_like(rank);
        let times = first.and_then(|first| self.times.get(first)?.clone());
        let times = times.unwrap_or_else(|| candidates.measure(element));
        (candidates.take_fastest(&times), KnownFrom::Fresh)
    }

    /// Returns the reason why this rank has measured, if the libraries are others than before.
    fn list_words(&self, rank: usize) -> Vec<String> {
        let Some(Some(Recalled::Nothing(Some(change)))) = self.recalled.get(rank) else {
            return Vec::new();
        };
        if self.find_first_like(rank) == Some(rank) {
            vec![format!("the BLAS is chosen anew: {change}")]
        } else {
            Vec::new()
        }
    }

    /// Lists the times that were measured, one entry for each library of a rank that measured.
    fn list_measured(&self) -> Vec<(StoreKey, Series)> {
        self.sources
            .iter()
            .zip(&self.times)
            .filter_map(|(source, times)| source.as_ref().zip(times.as_ref()))
            .flat_map(|(source, times)| {
                source.list_keys().into_iter().zip(times.iter().map(|seconds| Series {
                    units: TRIAL_UNITS,
                    seconds: seconds.clone(),
                    at_least: false,
                }))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(host: &str, cores: usize) -> Option<LibrarySource> {
        Some(LibrarySource {
            class: "Some CPU".to_owned(),
            host: host.to_owned(),
            cores,
            element: ElementType::F64,
            libraries: vec!["gemm (embedded)".to_owned()],
        })
    }

    #[test]
    fn each_set_of_libraries_is_measured_on_the_lowest_rank_that_has_it() {
        let job = JobChoice {
            sources: vec![None, source("a", 2), source("b", 2), source("b", 4), source("c", 8)],
            recalled: vec![
                None,
                Some(Recalled::Nothing(Some("x is gone".to_owned()))),
                Some(Recalled::Nothing(Some("x is gone".to_owned()))),
                Some(Recalled::Nothing(None)),
                Some(Recalled::Library("gemm (embedded)".to_owned())),
            ],
            times: Vec::new(),
        };
        let measuring: Vec<usize> = (0..5).filter(|&rank| job.is_to_measure(rank)).collect();
        assert_eq!(measuring, [1, 3]);
        assert_eq!(job.find_first_like(2), Some(1));
        assert_eq!(job.list_words(1), ["the BLAS is chosen anew: x is gone"]);
        for rank in [0, 2, 3, 4] {
            assert!(job.list_words(rank).is_empty(), "{rank}");
        }
        assert!(job.list_measured().is_empty());
    }

    #[test]
    fn a_change_of_the_libraries_is_described() {
        let [one, two, three] = ["one 1", "two 2", "three 3"].map(str::to_owned);
        let before = [one.clone(), two.clone()];
        let told = describe_change(&before, &[two.clone(), three]);
        assert_eq!(told, "one 1 is gone, three 3 is new");
        assert!(describe_change(&before, &[two, one]).contains("order"));
    }
}
