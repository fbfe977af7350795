//! A matrix, or a part of it, cut into pieces in file order.

use std::ops::Range;

use crate::matrix::{Order, Region};

/// Turns a rectangle so that the lines of the file are its columns: in a file by rows it is transposed. The same call turns it
/// back.
pub(super) fn orient(region: &Region, order: Order) -> Region {
    match order {
        Order::Columns => *region,
        Order::Rows => region.transposed(),
    }
}

/// Cuts a rectangle, with the lines of the file as its columns, into pieces of at most `most` elements, in file order.
///
/// Lines that are cut short by a rectangle leave gaps between their parts. If a gap is at most `max_gap` elements, a piece
/// holds several lines, and the gaps count as its elements. Otherwise a piece is a part of one line.
pub(super) fn cut_pieces(
    part: &Region,
    line_len: usize,
    most: usize,
    max_gap: usize,
) -> impl Iterator<Item = Region> + use<> {
    let (n_lines, n_along) = if line_len - part.rows <= max_gap && line_len <= most {
        (most / line_len.max(1), part.rows)
    } else {
        (1, part.rows.min(most))
    };
    let along = part.row_range();
    cut_range(part.col_range(), n_lines).flat_map(move |lines| {
        cut_range(along.clone(), n_along).map(move |along| Region::new(along, lines.clone()))
    })
}

/// Cuts a range into ranges of at most `most` indices.
fn cut_range(range: Range<usize>, most: usize) -> impl Iterator<Item = Range<usize>> {
    let end = range.end;
    range.step_by(most.max(1)).map(move |start| start..end.min(start.saturating_add(most)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pieces_cover_a_part_once_in_file_order(
            line_len in 0usize..3_000_000, from in 0.0f64..1.0, to in 0.0f64..1.0, first in 0usize..9, n in 0usize..40,
            most in prop::sample::select(vec![1usize << 19, 1 << 20, 4 << 20]),
            max_gap in prop::sample::select(vec![0usize, 2 << 10, 16 << 10]),
        ) {
            let [from, to] = [from.min(to), from.max(to)].map(|share| (share * line_len as f64) as usize);
            let part = Region::new(from..to, first..first + n);
            let gap = line_len - part.rows;
            let mut next = (first, part.row);
            for piece in cut_pieces(&part, line_len, most, max_gap) {
                prop_assert_eq!((piece.col, piece.row), next);
                prop_assert!(piece.cols == 1 || piece.row_range() == part.row_range() && gap <= max_gap);
                let elements = (piece.cols - 1) * line_len + piece.rows;
                prop_assert!(elements > 0 && elements <= most);
                next = if piece.row_range().end == part.row_range().end { (piece.col_range().end, part.row) } else { (piece.col, piece.row_range().end) };
            }
            let end = if part.rows == 0 { first } else { first + n };
            prop_assert_eq!(next.0, end);
        }
    }
}
