//! Memory that two matrices share.

use std::mem::size_of;

use isochron::matrix::MemoryLines;

use crate::matrix::MemoryPiece;
use crate::status::CallFailure;

/// Returns the number of lines of a piece, and the elements of each. There are none without memory that could be used.
pub(crate) fn find_shape<T>(piece: &MemoryPiece<T>) -> (usize, usize) {
    let bytes = piece.length.checked_mul(size_of::<T>());
    let is_memory = bytes.is_some_and(|bytes| isize::try_from(bytes).is_ok());
    if piece.length == 0 || piece.data.is_null() || !is_memory {
        return (0, 0);
    }
    let ld = piece.ld.max(1);
    let count = piece.length.div_ceil(ld);
    (count, piece.length - (count - 1) * ld)
}

/// Returns the lines of a piece; `None` if it has no elements, or no memory that could be used.
pub(crate) fn find_lines<T>(piece: &MemoryPiece<T>) -> Option<MemoryLines> {
    let (count, length) = find_shape(piece);
    let distance = piece.ld.max(1).saturating_mul(size_of::<T>());
    MemoryLines::new(
        piece.data.addr(),
        (count, length * size_of::<T>()),
        distance,
    )
}

/// Refuses a result whose elements are those of a factor too, or two of whose pieces have an element in common.
pub(crate) fn check_result<T>(
    factors: [(&str, &[MemoryPiece<T>]); 2],
    result: &[MemoryPiece<T>],
) -> Result<(), CallFailure> {
    let mut taken = Vec::new();
    for (name, pieces) in factors {
        let lines = pieces.iter().filter_map(find_lines);
        taken.extend(lines.map(|lines| (name, lines)));
    }
    for piece in result {
        let Some(lines) = find_lines(piece) else {
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
    fn pieces_of_one_result_are_compared() {
        let mut array = [0.0; 100];
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
