//! The sizes to measure.

use clap::Args;

use crate::failure::Failure;
use crate::numbers::parse_whole;

/// The largest size and the number of sizes by default; the smallest is one block.
const TO: usize = 4096;
const POINTS: usize = 8;

/// Sizes, one by one or as a range.
#[derive(Args)]
pub struct SizeArguments {
    /// Sizes n of the update C (n×n) += A (n×b) · B (b×n), multiples of b
    #[arg(long, value_delimiter = ',', num_args = 1.., value_name = "N", value_parser = parse_whole::<usize, 0>,
        conflicts_with_all = ["from", "to", "points"])]
    sizes: Vec<usize>,
    /// Smallest size [default: the block size]
    #[arg(long, value_name = "N", value_parser = parse_whole::<usize, 0>)]
    from: Option<usize>,
    /// Largest size [default: 4096]
    #[arg(long, value_name = "N", value_parser = parse_whole::<usize, 0>)]
    to: Option<usize>,
    /// Number of sizes, evenly from the smallest to the largest, each rounded to whole blocks [default: 8]
    #[arg(long, value_name = "N", value_parser = parse_whole::<usize, 0>)]
    points: Option<usize>,
}

impl SizeArguments {
    /// Returns the sizes, ascending, once each.
    ///
    /// # Errors
    /// If there are none, or one is not a positive multiple of `block`.
    pub fn list(&self, block: usize) -> Result<Vec<usize>, Failure> {
        if block == 0 {
            return Err(Failure::input("--block 0: a block has at least one row"));
        }
        let mut sizes = if self.sizes.is_empty() {
            self.make_range(block)?
        } else {
            self.sizes.clone()
        };
        if let Some(size) = sizes.iter().find(|&&n| n == 0 || n % block != 0) {
            let message =
                format!("--sizes {size}: sizes are whole multiples of the block size {block}");
            return Err(Failure::input(message));
        }
        sizes.sort_unstable();
        sizes.dedup();
        Ok(sizes)
    }

    fn make_range(&self, block: usize) -> Result<Vec<usize>, Failure> {
        let from = self.from.unwrap_or(block);
        let to = self.to.unwrap_or(TO.max(from));
        let points = self.points.unwrap_or(POINTS);
        if from == 0 || to < from || points == 0 {
            let message = format!("--from {from} --to {to} --points {points}: no sizes");
            return Err(Failure::input(message));
        }
        let gaps = (points - 1).max(1);
        let sizes = (0..points).map(|i| from + (to - from) * i / gaps);
        // To the nearest block, but at least one.
        Ok(sizes
            .map(|n| ((n + block / 2) / block).max(1) * block)
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the sizes of a list or of `[from, to, points]`, as far as they are given.
    fn sizes(
        list: &[usize],
        range: [Option<usize>; 3],
        block: usize,
    ) -> Result<Vec<usize>, Failure> {
        let [from, to, points] = range;
        let given = SizeArguments {
            sizes: list.to_vec(),
            from,
            to,
            points,
        };
        given.list(block)
    }

    #[test]
    fn ranges_are_even_and_in_blocks() {
        for (range, expected) in [
            ([64, 1024, 4], &[64, 384, 704, 1024][..]),
            ([1, 100, 2], &[64, 128]),
            ([640, 700, 5], &[640, 704]),
            ([640, 6400, 1], &[640]),
        ] {
            assert_eq!(sizes(&[], range.map(Some), 64).unwrap(), expected);
        }
        let default = sizes(&[], [None; 3], 128).unwrap();
        assert_eq!((default.len(), default[0], default[7]), (8, 128, 4096));
    }

    #[test]
    fn listed_sizes_are_sorted_and_checked() {
        assert_eq!(sizes(&[96, 32, 96], [None; 3], 32).unwrap(), [32, 96]);
        let refused = sizes(&[96, 33], [None; 3], 32).unwrap_err();
        assert!(refused.message.contains("33"));
        assert!(sizes(&[0], [None; 3], 32).is_err());
        assert!(sizes(&[], [Some(9), Some(8), None], 4).is_err());
        assert!(sizes(&[], [None, None, Some(0)], 4).is_err());
        assert!(sizes(&[], [None; 3], 0).is_err());
    }
}
