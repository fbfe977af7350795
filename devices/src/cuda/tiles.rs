//! Cutting a matrix into tiles.

use std::ops::Range;

/// A tile: its rows and its columns.
pub type Tile = (Range<usize>, Range<usize>);

/// Cuts a `rows × cols` matrix into tiles of `height × width`, of which the last ones are smaller: column after column
/// of tiles, each from top to bottom. `height` and `width` are at least 1.
pub fn cut_into_tiles(
    rows: usize,
    cols: usize,
    height: usize,
    width: usize,
) -> impl Iterator<Item = Tile> {
    cut_side(cols, width)
        .flat_map(move |columns| cut_side(rows, height).map(move |rows| (rows, columns.clone())))
}

fn cut_side(whole: usize, part: usize) -> impl Iterator<Item = Range<usize>> {
    (0..whole).step_by(part).map(move |first| first..(first + part).min(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_come_column_after_column() {
        let found: Vec<Tile> = cut_into_tiles(5, 3, 2, 2).collect();
        let expected =
            [(0..2, 0..2), (2..4, 0..2), (4..5, 0..2), (0..2, 2..3), (2..4, 2..3), (4..5, 2..3)];
        assert_eq!(found, expected);
        assert_eq!(cut_into_tiles(0, 3, 1, 1).count(), 0);
    }
}
