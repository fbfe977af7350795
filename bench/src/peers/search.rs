//! The search for the peers' best parameters, before the rounds.

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::programs::{PeerAnswer, PeerBlas, PeerPrograms, RankStart};
use crate::shape::ProductShape;

/// Tried block sizes of ScaLAPACK.
const BLOCKS: [usize; 3] = [128, 256, 512];
/// Tried sides of StarPU's tiles, and inner dimensions of its tasks.
const TILES: [usize; 3] = [256, 512, 1024];
const DEPTHS: [usize; 3] = [256, 512, 2048];
/// Repetitions of each.
const REPETITIONS: usize = 2;

/// All searches so far. A search is run once for each shape and contestant.
#[derive(Default)]
pub struct ParameterSearches(Vec<SearchRecord>);

/// A search.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SearchRecord {
    /// The shape multiplied in the search.
    #[serde(flatten)]
    shape: ProductShape,
    /// The contestant with its library and place.
    who: String,
    /// The fastest parameters.
    best: String,
    tried: Vec<PeerAnswer>,
}

impl ParameterSearches {
    /// Returns the fastest parameters of `pdgemm` for a shape: `BLOCK:ROWSxCOLS`. `place` names the ranks.
    ///
    /// # Errors
    /// If `pdgemm` fails.
    pub fn find_pdgemm(
        &mut self,
        programs: &PeerPrograms,
        (start, place): (&RankStart<'_>, &str),
        blas: PeerBlas,
        shape: ProductShape,
    ) -> anyhow::Result<String> {
        self.find(&name_pdgemm(blas, place), shape, |shape| {
            let mut candidates = Vec::new();
            for block in BLOCKS {
                for (rows, cols) in all_grids(start.n_ranks()) {
                    candidates.push(format!("{block}:{rows}x{cols}"));
                }
            }
            programs.run_pdgemm(start, blas, shape, REPETITIONS, &candidates)
        })
    }

    /// Returns the fastest parameters of the tiled multiplication on StarPU for a shape: `TILExDEPTH`.
    ///
    /// # Errors
    /// If the program fails.
    pub fn find_starpu(
        &mut self,
        programs: &PeerPrograms,
        shape: ProductShape,
    ) -> anyhow::Result<String> {
        self.find("StarPU", shape, |shape| {
            let tiles = TILES
                .iter()
                .flat_map(|tile| DEPTHS.iter().map(move |depth| format!("{tile}x{depth}")));
            programs.run_starpu(shape, REPETITIONS, &tiles.collect::<Vec<_>>())
        })
    }

    fn find(
        &mut self,
        who: &str,
        shape: ProductShape,
        try_all: impl FnOnce(ProductShape) -> anyhow::Result<Vec<PeerAnswer>>,
    ) -> anyhow::Result<String> {
        if let Some(found) = self.record(who, shape) {
            return Ok(found.best.clone());
        }
        let shape = shorten_shape(shape);
        let tried = try_all(shape)?;
        let fastest = find_fastest(&tried).context("a search without answers")?;
        let best = fastest.parameters.to_string();
        eprintln!("search {shape}: {who}: {best}");
        self.0.push(SearchRecord {
            shape,
            who: who.to_owned(),
            best: best.clone(),
            tried,
        });
        Ok(best)
    }

    fn record(&self, who: &str, shape: ProductShape) -> Option<&SearchRecord> {
        let shape = shorten_shape(shape);
        let mut records = self.0.iter();
        records.find(|record| record.who == who && record.shape == shape)
    }

    /// Returns the seconds of `pdgemm` with its best parameters in the search for a shape, infinity without a search.
    pub fn best_pdgemm_s(&self, blas: PeerBlas, place: &str, shape: ProductShape) -> f64 {
        let record = self.record(&name_pdgemm(blas, place), shape);
        let fastest = record.and_then(|record| find_fastest(&record.tried));
        fastest.map_or(f64::INFINITY, PeerAnswer::best_s)
    }

    /// Returns everything that was tried.
    pub fn records(&self) -> Vec<SearchRecord> {
        self.0.clone()
    }
}

fn name_pdgemm(blas: PeerBlas, place: &str) -> String {
    format!("pdgemm, {}, {place}", blas.name())
}

/// Returns the shape that is multiplied in the search for another one. Its k is shorter, since the time is proportional to k.
/// Squares above 4096 take the parameters of 4096.
fn shorten_shape(shape: ProductShape) -> ProductShape {
    if shape.is_square() {
        let side = shape.m.min(4096);
        return ProductShape {
            m: side,
            n: side,
            k: shape.k.min(1024),
        };
    }
    ProductShape {
        k: shape.k.min(16_384),
        ..shape
    }
}

/// Returns all grids of this number of ranks.
fn all_grids(ranks: usize) -> impl Iterator<Item = (usize, usize)> {
    (1..=ranks)
        .filter(move |rows| ranks.is_multiple_of(*rows))
        .map(move |rows| (rows, ranks / rows))
}

fn find_fastest(tried: &[PeerAnswer]) -> Option<&PeerAnswer> {
    tried
        .iter()
        .min_by(|a, b| a.best_s().total_cmp(&b.best_s()))
}

#[cfg(test)]
mod tests {
    use super::super::programs::PeerParameters;
    use super::*;

    fn answer(block: usize, seconds: [f64; 2]) -> PeerAnswer {
        PeerAnswer {
            seconds: seconds.into(),
            verified: true,
            parameters: PeerParameters::Pdgemm {
                block,
                rows: 1,
                cols: 2,
            },
        }
    }

    #[test]
    fn all_grids_and_the_fastest_of_the_tried() {
        assert_eq!(
            all_grids(6).collect::<Vec<_>>(),
            [(1, 6), (2, 3), (3, 2), (6, 1)]
        );
        let tried = [
            answer(64, [2.0, 0.9]),
            answer(128, [1.0, 0.8]),
            answer(256, [1.0, 1.0]),
        ];
        let best = find_fastest(&tried).map(|answer| answer.parameters.to_string());
        assert_eq!(best.as_deref(), Some("128:1x2"));
    }

    #[test]
    fn a_search_is_shorter_and_of_the_same_form() {
        for (asked, searched) in [
            ([8192, 8192, 8192], [4096, 4096, 1024]),
            ([1024, 1024, 65_536], [1024, 1024, 16_384]),
            ([65_536, 512, 512], [65_536, 512, 512]),
        ] {
            let [asked, searched] = [asked, searched].map(|[m, n, k]| ProductShape { m, n, k });
            assert_eq!(shorten_shape(asked), searched);
        }
    }
}
