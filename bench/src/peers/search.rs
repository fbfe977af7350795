//! The search for the peers' best parameters, before the rounds.

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::programs::{PeerAnswer, PeerPrograms, RankStart};
use crate::shape::ProductShape;

/// Tried block sizes of ScaLAPACK.
const BLOCKS: [usize; 3] = [128, 256, 512];
/// Tried sides of StarPU's tiles, and inner dimensions of its tasks.
const TILES: [usize; 3] = [256, 512, 1024];
const DEPTHS: [usize; 3] = [256, 512, 2048];
/// Repetitions of each.
const REPETITIONS: usize = 2;

/// All searches so far. A search is run once for each shape and contestant.
#[derive(Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ParameterSearches(Vec<SearchRecord>);

/// A search.
#[derive(Serialize, Deserialize)]
pub struct SearchRecord {
    /// The shape multiplied in the search.
    #[serde(flatten)]
    shape: ProductShape,
    /// The contestant with its library and place.
    who: String,
    /// The fastest parameters.
    pub best: String,
    tried: Vec<PeerAnswer>,
}

impl SearchRecord {
    /// Returns the seconds with the fastest parameters.
    pub fn best_s(&self) -> f64 {
        find_fastest(&self.tried).map_or(f64::INFINITY, |at| self.tried[at].best_s())
    }
}

impl ParameterSearches {
    /// Finds the fastest parameters of `pdgemm` for a shape: `BLOCK:ROWSxCOLS`.
    ///
    /// # Errors
    /// If `pdgemm` fails.
    pub fn find_pdgemm(
        &mut self,
        programs: &PeerPrograms,
        start: &RankStart<'_>,
        shape: ProductShape,
    ) -> anyhow::Result<&SearchRecord> {
        let candidates = BLOCKS.iter().flat_map(|block| {
            all_grids(start.n_ranks()).map(move |(rows, cols)| format!("{block}:{rows}x{cols}"))
        });
        let who = format!("pdgemm, {}, {}", start.blas, start.name);
        self.find(&who, shape, candidates.collect(), |shape, candidates| {
            programs.run_pdgemm(start, shape, REPETITIONS, candidates)
        })
    }

    /// Finds the fastest parameters of the tiled multiplication on StarPU for a shape: `TILExDEPTH`.
    ///
    /// # Errors
    /// If the program fails.
    pub fn find_starpu(
        &mut self,
        programs: &PeerPrograms,
        shape: ProductShape,
    ) -> anyhow::Result<&SearchRecord> {
        let candidates = TILES
            .iter()
            .flat_map(|tile| DEPTHS.iter().map(move |depth| format!("{tile}x{depth}")));
        self.find(
            "StarPU",
            shape,
            candidates.collect(),
            |shape, candidates| programs.run_starpu(shape, REPETITIONS, candidates),
        )
    }

    fn find(
        &mut self,
        who: &str,
        shape: ProductShape,
        candidates: Vec<String>,
        try_all: impl FnOnce(ProductShape, &[String]) -> anyhow::Result<Vec<PeerAnswer>>,
    ) -> anyhow::Result<&SearchRecord> {
        let shape = shorten_shape(shape);
        let mut records = self.0.iter();
        if let Some(known) = records.position(|record| record.who == who && record.shape == shape) {
            return Ok(&self.0[known]);
        }
        let tried = try_all(shape, &candidates)?;
        let fastest = find_fastest(&tried).context("a search without answers")?;
        let best = candidates[fastest].clone();
        eprintln!("search {shape}: {who}: {best}");
        self.0.push(SearchRecord {
            shape,
            who: who.to_owned(),
            best,
            tried,
        });
        self.0.last().context("the search")
    }
}

/// Returns the shape that is multiplied in the search for another one. Its k is shorter, since the time is proportional
/// to k. Squares above 4096 take the parameters of 4096.
fn shorten_shape(shape: ProductShape) -> ProductShape {
    let ProductShape { m, n, k } = shape;
    if shape.is_square() {
        let side = m.min(4096);
        return ProductShape {
            m: side,
            n: side,
            k: k.min(1024),
        };
    }
    ProductShape {
        m,
        n,
        k: k.min(16_384),
    }
}

/// Returns all grids of this number of ranks.
fn all_grids(ranks: usize) -> impl Iterator<Item = (usize, usize)> {
    (1..=ranks)
        .filter(move |rows| ranks.is_multiple_of(*rows))
        .map(move |rows| (rows, ranks / rows))
}

/// Returns the index of the fastest answer.
fn find_fastest(tried: &[PeerAnswer]) -> Option<usize> {
    (0..tried.len()).min_by(|&a, &b| tried[a].best_s().total_cmp(&tried[b].best_s()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(seconds: [f64; 2]) -> PeerAnswer {
        PeerAnswer {
            seconds: seconds.into(),
            verified: true,
            parameters: serde_json::Map::new(),
        }
    }

    #[test]
    fn all_grids_and_the_fastest_of_the_tried() {
        assert_eq!(
            all_grids(6).collect::<Vec<_>>(),
            [(1, 6), (2, 3), (3, 2), (6, 1)]
        );
        let tried = [[2.0, 0.9], [1.0, 0.8], [1.0, 1.0]].map(answer);
        assert_eq!(find_fastest(&tried), Some(1));
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
