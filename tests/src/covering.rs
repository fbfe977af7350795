//! Covering arrays: few rows in which every pair of levels of any two factors occurs.

use std::collections::BTreeSet;

use isochron::comm::Comm;

/// The MPI libraries that all cases run with, as their names begin.
pub const LIBRARIES: [&str; 2] = ["Open MPI", "MPICH"];

/// The numbers of ranks that all cases run on.
pub const RANKS: [usize; 5] = [1, 2, 3, 4, 6];

/// Returns the place in [`LIBRARIES`] of the one that the ranks use. Without MPI, or with another library, it is that of
/// the first.
pub fn number_library(comm: &dyn Comm) -> usize {
    let name = comm.implementation();
    LIBRARIES.iter().position(|known| name.starts_with(known)).unwrap_or(0)
}

/// A large table runs one of this many combinations.
const ONE_OF: usize = 8;

/// The part of a product of factors that is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coverage {
    /// Rows that cover all pairs of levels.
    Pairs,
    /// All combinations, of [large tables](Self::rows_of_ranks) one of eight.
    Whole,
}

impl Coverage {
    /// Returns the rows to run: a level, counted from 0, for each factor. `levels` holds the number of levels by
    /// factor.
    pub fn rows<const F: usize>(self, levels: [usize; F]) -> Vec<[usize; F]> {
        match self {
            Self::Pairs => cover_pairs(levels),
            Self::Whole => combine_all(levels),
        }
    }

    /// Returns `true` if the case of this number runs with the MPI library of these ranks: the libraries take turns, unless
    /// all combinations are to run.
    pub fn has_turn(self, comm: &dyn Comm, number: usize) -> bool {
        self == Self::Whole || number % LIBRARIES.len() == number_library(comm)
    }

    /// Returns the rows for the MPI library of these ranks, which is the last factor. Each number of ranks runs all rows,
    /// each row under one of the libraries.
    pub fn rows_of_library<const F: usize>(
        self,
        comm: &dyn Comm,
        levels: [usize; F],
    ) -> Vec<[usize; F]> {
        assert_eq!(levels[F - 1], LIBRARIES.len());
        let library = number_library(comm);
        let mut rows = self.rows(levels);
        rows.retain(|row| row[F - 1] == library);
        rows
    }

    /// Returns the rows of a large table for these ranks and their MPI library. If all combinations are asked for, one of eight is run, by one
    /// of the numbers of ranks: three levels are together in dozens of rows then.
    pub fn rows_of_ranks<const F: usize>(
        self,
        comm: &dyn Comm,
        levels: [usize; F],
    ) -> Vec<[usize; F]> {
        let mut rows = self.rows_of_library(comm, levels);
        if self == Self::Whole {
            let own = RANKS.iter().position(|&ranks| ranks == comm.size()).unwrap_or(0);
            let mut number = 0_u64;
            rows.retain(|_| {
                number += 1;
                // Far apart, and no two levels always together.
                let spread = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize;
                spread % (ONE_OF * RANKS.len()) == own
            });
        }
        rows
    }
}

/// Returns all combinations, the last factor changing fastest.
fn combine_all<const F: usize>(levels: [usize; F]) -> Vec<[usize; F]> {
    (0..levels.iter().product()).map(|number| split_number(number, levels)).collect()
}

/// Returns the digits of `number`, of which each has `levels` values.
fn split_number<const F: usize>(mut number: usize, levels: [usize; F]) -> [usize; F] {
    let mut digits = [0; F];
    for factor in (0..F).rev() {
        digits[factor] = number % levels[factor];
        number /= levels[factor];
    }
    digits
}

/// Covers all pairs greedily, as AETG does (Cohen, Dalal, Fredman, Patton 1997), without its random trials. Each row
/// begins with a pair that is still missing. For each other factor it takes the level that adds most missing pairs.
fn cover_pairs<const F: usize>(levels: [usize; F]) -> Vec<[usize; F]> {
    let mut missing = MissingPairs::new(levels);
    let mut rows = Vec::new();
    while let Some([(f, level_f), (g, level_g)]) = missing.first() {
        let mut row = [None; F];
        (row[f], row[g]) = (Some(level_f), Some(level_g));
        for factor in 0..F {
            if row[factor].is_none() {
                row[factor] = Some(missing.best_level(&row, factor, rows.len()));
            }
        }
        let row = row.map(Option::unwrap_or_default);
        missing.remove(row);
        rows.push(row);
    }
    rows
}

/// The pairs of levels that no row has yet.
struct MissingPairs<const F: usize> {
    levels: [usize; F],
    /// By factor, level, factor, level; the first factor is the smaller one.
    pairs: BTreeSet<(usize, usize, usize, usize)>,
}

impl<const F: usize> MissingPairs<F> {
    fn new(levels: [usize; F]) -> Self {
        let mut pairs = BTreeSet::new();
        for f in 0..F {
            for g in f + 1..F {
                for a in 0..levels[f] {
                    pairs.extend((0..levels[g]).map(|b| (f, a, g, b)));
                }
            }
        }
        Self { levels, pairs }
    }

    fn first(&self) -> Option<[(usize, usize); 2]> {
        let &(f, a, g, b) = self.pairs.first()?;
        Some([(f, a), (g, b)])
    }

    /// Returns the level of `factor` that adds most missing pairs to `row`; among equals the first from `turn` on, so
    /// that levels without a reason are used in turn.
    fn best_level(&self, row: &[Option<usize>; F], factor: usize, turn: usize) -> usize {
        let n = self.levels[factor];
        // `max_by_key` takes the last of equals.
        (0..n)
            .rev()
            .map(|place| (place + turn) % n)
            .max_by_key(|&level| self.count_new(row, factor, level))
            .unwrap_or_default()
    }

    fn count_new(&self, row: &[Option<usize>; F], factor: usize, level: usize) -> usize {
        let chosen = row.iter().enumerate();
        chosen
            .filter_map(|(other, &chosen)| Some((other, chosen?)))
            .filter(|&other| self.pairs.contains(&ordered(other, (factor, level))))
            .count()
    }

    fn remove(&mut self, row: [usize; F]) {
        for f in 0..F {
            for g in f + 1..F {
                self.pairs.remove(&(f, row[f], g, row[g]));
            }
        }
    }
}

fn ordered(a: (usize, usize), b: (usize, usize)) -> (usize, usize, usize, usize) {
    let ((f, a), (g, b)) = if a.0 < b.0 { (a, b) } else { (b, a) };
    (f, a, g, b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_pairs_occur_in_a_fraction_of_the_product() {
        let levels = [4, 9, 7, 5, 10];
        let rows = Coverage::Pairs.rows(levels);
        for f in 0..levels.len() {
            for g in f + 1..levels.len() {
                let pairs: BTreeSet<_> = rows.iter().map(|row| (row[f], row[g])).collect();
                assert_eq!(pairs.len(), levels[f] * levels[g], "factors {f} and {g}");
            }
        }
        assert!((90..=120).contains(&rows.len()), "{} rows", rows.len());
    }
}
