//! Which sizes to measure.

use clap::Args;

use crate::failure::Failure;

/// Sizes that are asked for without any word about them: from one block on.
const TO: usize = 4096;
const POINTS: usize = 8;

/// Sizes, one by one or as a range.
#[derive(Args)]
pub struct Sizes {
    /// Sizes n of the update C (n×n) += A (n×b) · B (b×n), multiples of b
    #[arg(long, value_delimiter = ',', num_args = 1.., value_name = "N",
        conflicts_with_all = ["from", "to", "points"])]
    sizes: Vec<usize>,
    /// Smallest size [default: the block size]
    #[arg(long, value_name = "N")]
    from: Option<usize>,
    /// Largest size [default: 4096]
    #[arg(long, value_name = "N")]
    to: Option<usize>,
    /// How many sizes from the smallest to the largest, evenly, each rounded to whole blocks [default: 8]
    #[arg(long, value_name = "N")]
    points: Option<usize>,
}

impl Sizes {
    /// The sizes, ascending, once each.
    ///
    /// # Errors
    /// When there are none, or one is not a positive multiple of `block`.
    pub fn list(&self, block: usize) -> Result<Vec<usize>, Failure> {
        if block == 0 {
            return Err(Failure::input("--block 0: a block has at least one row"));
        }
        let mut sizes = if self.sizes.is_empty() {
            self.range(block)?
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

    fn range(&self, block: usize) -> Result<Vec<usize>, Failure> {
        let from = self.from.unwrap_or(block);
        let to = self.to.unwrap_or(TO.max(from));
        let points = self.points.unwrap_or(POINTS);
        if from == 0 || to < from || points == 0 {
            let message = format!("--from {from} --to {to} --points {points}: no sizes");
            return Err(Failure::input(message));
        }
        let gaps = (points - 1).max(1);
        let size = |i: usize| from + (to - from) * i / gaps;
        // To the nearest block, and never to none.
        let whole = |n: usize| ((n + block / 2) / block).max(1) * block;
        Ok((0..points).map(size).map(whole).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(
        list: &[usize],
        from: Option<usize>,
        to: Option<usize>,
        points: Option<usize>,
    ) -> Sizes {
        Sizes {
            sizes: list.to_vec(),
            from,
            to,
            points,
        }
    }

    #[test]
    fn ranges_are_even_and_in_blocks() {
        let range = |from, to, points| {
            sizes(&[], Some(from), Some(to), Some(points))
                .list(64)
                .unwrap()
        };
        assert_eq!(range(64, 1024, 4), [64, 384, 704, 1024]);
        assert_eq!(range(1, 100, 2), [64, 128]);
        assert_eq!(range(640, 700, 5), [640, 704]);
        assert_eq!(range(640, 6400, 1), [640]);
        let default = sizes(&[], None, None, None).list(128).unwrap();
        assert_eq!((default.len(), default[0], default[7]), (8, 128, 4096));
    }

    #[test]
    fn listed_sizes_are_sorted_and_checked() {
        let list = |list: &[usize]| sizes(list, None, None, None).list(32);
        assert_eq!(list(&[96, 32, 96]).unwrap(), [32, 96]);
        assert!(list(&[96, 33]).unwrap_err().message.contains("33"));
        assert!(list(&[0]).is_err());
        assert!(sizes(&[], Some(9), Some(8), None).list(4).is_err());
        assert!(sizes(&[], None, None, Some(0)).list(4).is_err());
        assert!(sizes(&[], None, None, None).list(0).is_err());
    }
}
