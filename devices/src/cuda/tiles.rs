//! Cutting a matrix into tiles.

use std::ops::Range;

/// A tile: its rows and its columns.
pub type Tile = (Range<usize>, Range<usize>);

/// The tiles of `height × width` that a matrix of `rows × cols` is cut into, the last ones smaller: column after column of
/// them, each from top to bottom. `height` and `width` are at least 1.
pub fn tiles(
    rows: usize,
    cols: usize,
    (height, width): (usize, usize),
) -> impl Iterator<Item = Tile> {
    cuts(cols, width)
        .flat_map(move |columns| cuts(rows, height).map(move |rows| (rows, columns.clone())))
}

fn cuts(whole: usize, part: usize) -> impl Iterator<Item = Range<usize>> {
    let cut = move |first: usize| first..(first + part).min(whole);
    (0..whole).step_by(part).map(cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_come_column_after_column() {
        let found: Vec<Tile> = tiles(5, 3, (2, 2)).collect();
        let expected = [
            (0..2, 0..2),
            (2..4, 0..2),
            (4..5, 0..2),
            (0..2, 2..3),
            (2..4, 2..3),
            (4..5, 2..3),
        ];
        assert_eq!(found, expected);
        assert_eq!(tiles(0, 3, (1, 1)).count(), 0);
    }
}
