//! Memory that two matrices share.

use std::mem::size_of;

use crate::matrix::MemoryPiece;
use crate::status::CallFailure;

/// The lines of a piece of memory, in bytes.
struct MemoryLines {
    start: usize,
    length: usize,
    count: usize,
    /// From the beginning of a line to that of the next.
    distance: usize,
}

impl MemoryLines {
    /// Returns the lines of a piece; `None` if it has no elements, or no memory that could be used.
    fn of<T>(piece: &MemoryPiece<T>) -> Option<Self> {
        let bytes = piece.length.checked_mul(size_of::<T>())?;
        if piece.data.is_null() || isize::try_from(bytes).is_err() {
            return None;
        }
        let ld = piece.ld.max(1);
        let count = piece.length.div_ceil(ld);
        let before_last = count.checked_sub(1)?.saturating_mul(ld);
        Some(Self {
            start: piece.data.addr(),
            length: (piece.length - before_last).saturating_mul(size_of::<T>()),
            count,
            distance: ld.saturating_mul(size_of::<T>()),
        })
    }

    fn find_line(&self, index: usize) -> usize {
        self.start
            .saturating_add(index.saturating_mul(self.distance))
    }

    fn find_end(&self) -> usize {
        self.find_line(self.count - 1).saturating_add(self.length)
    }

    /// Returns `true` if an element belongs to both. Lines of one may lie between those of the other.
    fn shares_elements(&self, other: &Self) -> bool {
        if self.find_end() <= other.start || other.find_end() <= self.start {
            return false;
        }
        let (few, many) = match self.count <= other.count {
            true => (self, other),
            false => (other, self),
        };
        (0..few.count).any(|index| many.reaches_into(few.find_line(index), few.length))
    }

    /// Returns `true` if an element lies in these bytes.
    fn reaches_into(&self, start: usize, length: usize) -> bool {
        // The first line that ends behind the start.
        let line = match start.checked_sub(self.start) {
            Some(bytes) => bytes.saturating_add(self.distance - self.length) / self.distance,
            None => 0,
        };
        line < self.count && self.find_line(line) < start.saturating_add(length)
    }
}

/// Refuses a result whose elements are those of a factor too, or two of whose pieces have an element in common.
pub(crate) fn check_result<T>(
    factors: [(&str, &[MemoryPiece<T>]); 2],
    result: &[MemoryPiece<T>],
) -> Result<(), CallFailure> {
    let mut taken = Vec::new();
    for (name, pieces) in factors {
        let lines = pieces.iter().filter_map(MemoryLines::of);
        taken.extend(lines.map(|lines| (name, lines)));
    }
    for piece in result {
        let Some(lines) = MemoryLines::of(piece) else {
            continue;
        };
        let shared = taken.iter().find(|(_, other)| lines.shares_elements(other));
        if let Some((name, _)) = shared {
            let reason = format!("shares memory with {name}: the result needs memory of its own");
            return Err(CallFailure::argument("c", reason));
        }
        taken.push(("another block of c", lines));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A piece of a column-major array of 10 × 10, of which these rows and columns are given.
    fn cut(
        array: &mut [f64],
        (row, col): (usize, usize),
        (rows, cols): (usize, usize),
    ) -> MemoryPiece<f64> {
        MemoryPiece {
            data: array[row + 10 * col..].as_mut_ptr(),
            length: 10 * (cols - 1) + rows,
            ld: 10,
        }
    }

    /// Five pairs of elements, each seven elements behind the one before.
    fn cut_pairs(array: &mut [f64], first: usize) -> MemoryPiece<f64> {
        MemoryPiece {
            data: array[first..].as_mut_ptr(),
            length: 7 * 4 + 2,
            ld: 7,
        }
    }

    fn make_endless() -> MemoryPiece<f64> {
        MemoryPiece {
            data: std::ptr::NonNull::dangling().as_ptr(),
            length: usize::MAX,
            ld: 1,
        }
    }

    #[test]
    fn lines_may_lie_between_each_other_and_not_on_each_other() {
        let mut array = [0.0; 100];
        // The update of a factorization: the factors and the result are parts of one array.
        let below = cut(&mut array, (3, 0), (7, 3));
        let beside = cut(&mut array, (0, 3), (3, 7));
        let rest = cut(&mut array, (3, 3), (7, 7));
        let factors = [("a", &[below][..]), ("b", &[beside][..])];
        assert!(check_result(factors, &[rest]).is_ok());
        for (place, size) in [
            ((9, 2), (1, 2)),
            ((3, 0), (7, 3)),
            ((0, 0), (4, 1)),
            ((5, 1), (1, 1)),
        ] {
            let refused = check_result(factors, &[cut(&mut array, place, size)]);
            let text = format!("{:?}", refused.unwrap_err());
            assert!(text.contains("shares memory with a"), "{text}");
        }
    }

    #[test]
    fn lines_of_unlike_distance_and_pieces_of_one_result_are_compared() {
        let mut array = [0.0; 100];
        let column = cut(&mut array, (4, 2), (1, 3));
        // Elements 24, 34, 44; lines of two from 10, 17, 24, 31, 38, or from 11, 18, 25, 32, 39.
        let (hits, misses) = (cut_pairs(&mut array, 10), cut_pairs(&mut array, 11));
        assert!(check_result([("a", &[column][..]), ("b", &[])], &[hits]).is_err());
        let column = cut(&mut array, (4, 2), (1, 3));
        assert!(check_result([("a", &[column][..]), ("b", &[])], &[misses]).is_ok());
        let twice = [
            cut(&mut array, (0, 0), (2, 2)),
            cut(&mut array, (1, 1), (2, 2)),
        ];
        let refused = check_result([("a", &[]), ("b", &[])], &twice);
        let text = format!("{:?}", refused.unwrap_err());
        assert!(text.contains("another block of c"), "{text}");
        let empty = MemoryPiece {
            data: array.as_mut_ptr(),
            length: 0,
            ld: 1,
        };
        assert!(check_result([("a", &twice[..1]), ("b", &[])], &[empty]).is_ok());
        // Other checks refuse what is no memory at all; to compare its lines would take for ever.
        assert!(check_result([("a", &[make_endless()]), ("b", &[])], &[make_endless()]).is_ok());
    }
}
