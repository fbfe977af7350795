//! Finding the peers' best parameters before the rounds.

use anyhow::Context as _;
use serde_json::{Value, json};

use super::programs::{Blas, Programs, Shape, Start};
use crate::results::{list, number, word};

/// Block sizes of ScaLAPACK that are tried.
const BLOCKS: [usize; 3] = [128, 256, 512];
/// Heights and widths of StarPU's tiles, and inner dimensions of its tasks.
const TILES: [usize; 3] = [256, 512, 1024];
const DEPTHS: [usize; 3] = [256, 512, 2048];
/// Repetitions of each.
const REPETITIONS: usize = 2;

/// What was found, for the record and for the next one who asks the same.
#[derive(Default)]
pub struct Searches(Vec<Value>);

impl Searches {
    /// The parameters of `pdgemm` that are fastest on a shape there: `BLOCK:ROWSxCOLS`. `on` names the place.
    pub fn pdgemm(
        &mut self,
        programs: &Programs,
        (start, on): (&Start<'_>, &str),
        blas: Blas,
        shape: Shape,
    ) -> anyhow::Result<String> {
        let who = format!("pdgemm, {}, {on}", blas.name());
        self.find(&who, shape, pdgemm_words, |shape| {
            let mut candidates = Vec::new();
            for block in BLOCKS {
                for (rows, cols) in grids(start.ranks()) {
                    candidates.push(format!("{block}:{rows}x{cols}"));
                }
            }
            programs.pdgemm(start, blas, shape, REPETITIONS, &candidates)
        })
    }

    /// The parameters of the tiled multiplication on StarPU that are fastest on a shape: `TILExDEPTH`.
    pub fn starpu(&mut self, programs: &Programs, shape: Shape) -> anyhow::Result<String> {
        self.find("StarPU", shape, starpu_words, |shape| {
            let tiles = TILES
                .iter()
                .flat_map(|tile| DEPTHS.iter().map(move |depth| format!("{tile}x{depth}")));
            programs.starpu(shape, REPETITIONS, &tiles.collect::<Vec<_>>())
        })
    }

    fn find(
        &mut self,
        who: &str,
        shape: Shape,
        words: fn(&Value) -> String,
        try_all: impl FnOnce(Shape) -> anyhow::Result<Vec<Value>>,
    ) -> anyhow::Result<String> {
        let shape = stand_in(shape);
        let Shape { m, n, k } = shape;
        let is_same = |found: &&Value| {
            found["who"] == who && found["m"] == m && found["n"] == n && found["k"] == k
        };
        if let Some(found) = self.0.iter().find(is_same) {
            return Ok(word(found, "/best").to_owned());
        }
        let tried = try_all(shape)?;
        let best = fastest(&tried)
            .map(words)
            .context("a search without answers")?;
        eprintln!("search {}: {who}: {best}", shape.text());
        self.0.push(json!({
            "m": m, "n": n, "k": k, "who": who, "best": best, "tried": tried,
        }));
        Ok(best)
    }

    /// The time that the best of the parameters took in the search for a shape, in seconds.
    pub fn best_s(&self, who: &str, shape: Shape) -> f64 {
        let Shape { m, n, k } = stand_in(shape);
        let is = |found: &&Value| {
            found["who"] == who && found["m"] == m && found["n"] == n && found["k"] == k
        };
        let tried = self
            .0
            .iter()
            .filter(is)
            .flat_map(|found| list(found, "tried"));
        tried.map(best_s).fold(f64::INFINITY, f64::min)
    }

    /// Everything that was tried.
    pub fn record(&self) -> Value {
        Value::Array(self.0.clone())
    }
}

/// What is multiplied in the search for a shape: with a shorter k, which the time is proportional to, and of no square
/// larger than 4096, whose parameters the larger ones take.
fn stand_in(shape: Shape) -> Shape {
    let Shape { m, n, k } = shape;
    if m == n && n == k {
        let side = m.min(4096);
        let k = k.min(1024);
        return Shape {
            m: side,
            n: side,
            k,
        };
    }
    let k = k.min(16_384);
    Shape { m, n, k }
}

/// All grids of so many ranks.
fn grids(ranks: usize) -> impl Iterator<Item = (usize, usize)> {
    (1..=ranks)
        .filter(move |rows| ranks.is_multiple_of(*rows))
        .map(move |rows| (rows, ranks / rows))
}

/// The best repetition of an answer, in seconds.
fn best_s(answer: &Value) -> f64 {
    let seconds = list(answer, "seconds").filter_map(Value::as_f64);
    seconds.fold(f64::INFINITY, f64::min)
}

fn fastest(tried: &[Value]) -> Option<&Value> {
    tried.iter().min_by(|a, b| best_s(a).total_cmp(&best_s(b)))
}

/// The parameters of an answer as the program takes them.
fn pdgemm_words(answer: &Value) -> String {
    let [block, rows, cols] = ["/block", "/rows", "/cols"].map(|key| number(answer, key));
    format!("{block}:{rows}x{cols}")
}

fn starpu_words(answer: &Value) -> String {
    format!("{}x{}", answer["tile"], answer["depth"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_grids_and_the_fastest_of_what_was_tried() {
        assert_eq!(
            grids(6).collect::<Vec<_>>(),
            [(1, 6), (2, 3), (3, 2), (6, 1)]
        );
        let answer = |block: usize, seconds: [f64; 2]| json!({ "block": block, "rows": 1, "cols": 2, "seconds": seconds });
        let tried = [
            answer(64, [2.0, 0.9]),
            answer(128, [1.0, 0.8]),
            answer(256, [1.0, 1.0]),
        ];
        let best = fastest(&tried).map(pdgemm_words);
        assert_eq!(best.as_deref(), Some("128:1x2"));
    }

    #[test]
    fn a_search_is_shorter_and_of_the_same_form() {
        let shape = |m, n, k| Shape { m, n, k };
        assert_eq!(stand_in(shape(8192, 8192, 8192)), shape(4096, 4096, 1024));
        assert_eq!(
            stand_in(shape(1024, 1024, 65_536)),
            shape(1024, 1024, 16_384)
        );
        assert_eq!(stand_in(shape(65_536, 512, 512)), shape(65_536, 512, 512));
    }
}
