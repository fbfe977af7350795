//! Zones that may be L-shaped.

use serde::{Deserialize, Serialize};

use super::{Layout, LayoutError, Rect, picture, square_bound, tiling};

/// A tiling of a matrix of `rows × cols` blocks by one zone per node, in node order. A zone is at most
/// two rectangles: none for a node without work, two for an L. That they cover every block exactly once
/// is checked wherever zones come into being, deserialisation included.
///
/// # Example
/// ```
/// use isochron_hierarchy::layout::{Rect, Zones};
///
/// let rect = |row, col, rows, cols| Rect { row, col, rows, cols };
/// let around = vec![rect(0, 0, 3, 10), rect(3, 0, 7, 3)];
/// let zones = Zones::new(10, 10, vec![around, vec![rect(3, 3, 7, 7)]])?;
/// assert_eq!(zones.areas(), [51, 49]);
/// assert_eq!(zones.cost(), 10 + 10 + 7 + 7);
/// # Ok::<(), isochron_hierarchy::layout::LayoutError>(())
/// ```
///
/// # References
/// Becker and Lastovetsky, "Matrix multiplication on two interconnected processors", HeteroPar 2006
/// (zones that are not rectangles).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct Zones {
    rows: u64,
    cols: u64,
    zones: Vec<Vec<Rect>>,
}

/// What serialised zones hold before their tiling is checked.
#[derive(Deserialize)]
struct Unchecked {
    rows: u64,
    cols: u64,
    zones: Vec<Vec<Rect>>,
}

impl TryFrom<Unchecked> for Zones {
    type Error = LayoutError;

    fn try_from(raw: Unchecked) -> Result<Self, LayoutError> {
        Self::new(raw.rows, raw.cols, raw.zones)
    }
}

/// The cells between all lines on which zones begin or end, each wholly one node's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grid {
    /// Heights of the cells' rows in blocks, from top to bottom.
    pub heights: Vec<u64>,
    /// Widths of the cells' columns in blocks, from left to right.
    pub widths: Vec<u64>,
    /// Index of the node that each cell belongs to: `owners[r][c]`.
    pub owners: Vec<Vec<usize>>,
}

impl Zones {
    /// Zones of `rows × cols` blocks. Empty rectangles are left out, and two that together are one
    /// rectangle become one.
    ///
    /// # Errors
    /// [`LayoutError::TooManyRects`] for a zone of more than two rectangles; [`LayoutError::NoNodes`],
    /// [`LayoutError::TooLarge`], [`LayoutError::OutOfBounds`], [`LayoutError::Overlap`] (of a node
    /// with itself too) or [`LayoutError::Gap`] unless the zones tile the matrix exactly.
    pub fn new(rows: u64, cols: u64, zones: Vec<Vec<Rect>>) -> Result<Self, LayoutError> {
        if let Some(index) = zones.iter().position(|zone| zone.len() > 2) {
            let rects = zones[index].len();
            return Err(LayoutError::TooManyRects { index, rects });
        }
        check(rows, cols, &zones)?;
        let zones = zones.into_iter().map(simplified).collect();
        Ok(Self { rows, cols, zones })
    }

    /// Height of the matrix in blocks.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Width of the matrix in blocks.
    #[must_use]
    pub fn cols(&self) -> u64 {
        self.cols
    }

    /// The rectangles of each node's zone, in node order: none, one or two, none of them empty.
    #[must_use]
    pub fn zones(&self) -> &[Vec<Rect>] {
        &self.zones
    }

    /// The nodes' areas in blocks, in node order.
    #[must_use]
    pub fn areas(&self) -> Vec<u64> {
        let area = |zone: &Vec<Rect>| zone.iter().map(Rect::area).sum();
        self.zones.iter().map(area).collect()
    }

    /// The sum over the zones of the rows plus the columns that they have blocks in. In every step of a
    /// multiplication a node needs one block of A for each of its rows and one block of B for each of
    /// its columns, so that this is the volume of a step in blocks. For rectangles it is the
    /// [sum of half-perimeters](Layout::half_perimeter_sum).
    #[must_use]
    pub fn cost(&self) -> u64 {
        let zone = |zone: &Vec<Rect>| {
            let rows = union(zone.iter().map(|rect| (rect.row, rect.rows)));
            let cols = union(zone.iter().map(|rect| (rect.col, rect.cols)));
            rows + cols
        };
        self.zones.iter().map(zone).sum()
    }

    /// What no zones of these areas can go below in their [cost](Self::cost): `Σ 2 √area_i`, every zone
    /// a square.
    ///
    /// # References
    /// Beaumont, Boudet, Rastello and Robert 2001.
    #[must_use]
    pub fn lower_bound(&self) -> f64 {
        square_bound(self.areas().into_iter())
    }

    /// The cells that remain when every line on which a zone begins or ends is drawn through the whole
    /// matrix: along a row of cells and along a column of cells the same nodes take part in every step.
    /// `R · C` cells, of which there can be as many as the square of the number of nodes.
    #[must_use]
    pub fn grid(&self) -> Grid {
        let rects = || self.zones.iter().flatten();
        let rows = lines(self.rows, rects().flat_map(|r| [r.row, r.row + r.rows]));
        let cols = lines(self.cols, rects().flat_map(|r| [r.col, r.col + r.cols]));
        let sizes = |lines: &[u64]| lines.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let (heights, widths): (Vec<u64>, Vec<u64>) = (sizes(&rows), sizes(&cols));
        let cells = |lines: &[u64], start: u64, len: u64| {
            let cell = |at: u64| lines.partition_point(|&line| line < at);
            cell(start)..cell(start + len)
        };
        let mut owners = vec![vec![0; widths.len()]; heights.len()];
        for (node, zone) in self.zones.iter().enumerate() {
            for rect in zone {
                for row in cells(&rows, rect.row, rect.rows) {
                    owners[row][cells(&cols, rect.col, rect.cols)].fill(node);
                }
            }
        }
        Grid {
            heights,
            widths,
            owners,
        }
    }

    /// The tiling drawn with lines, as [`Layout::picture`]; two rectangles of a zone have no line
    /// between them.
    #[must_use]
    pub fn picture(&self, max_width: usize) -> String {
        let zones: Vec<&[Rect]> = self.zones.iter().map(Vec::as_slice).collect();
        picture::draw(self.rows, self.cols, &zones, max_width)
    }
}

impl From<Layout> for Zones {
    fn from(layout: Layout) -> Self {
        let zone = |rect: &Rect| if rect.is_empty() { vec![] } else { vec![*rect] };
        Self {
            rows: layout.rows,
            cols: layout.cols,
            zones: layout.rects.iter().map(zone).collect(),
        }
    }
}

impl TryFrom<Zones> for Layout {
    type Error = LayoutError;

    /// The layout of the same rectangles.
    ///
    /// # Errors
    /// [`LayoutError::NotOneRect`] for a zone of two.
    fn try_from(zones: Zones) -> Result<Self, LayoutError> {
        let rect = |(index, zone): (usize, &Vec<Rect>)| match zone[..] {
            [] => Ok(Rect::default()),
            [rect] => Ok(rect),
            _ => Err(LayoutError::NotOneRect { index }),
        };
        let rects: Result<Vec<Rect>, LayoutError> =
            zones.zones.iter().enumerate().map(rect).collect();
        Self::new(zones.rows, zones.cols, rects?)
    }
}

/// Checks that the zones' rectangles tile the matrix; errors name nodes.
fn check(rows: u64, cols: u64, zones: &[Vec<Rect>]) -> Result<(), LayoutError> {
    let mut rects = Vec::with_capacity(2 * zones.len());
    let mut nodes = Vec::with_capacity(2 * zones.len());
    for (node, zone) in zones.iter().enumerate() {
        // A node without rectangles is a node nevertheless.
        let empty = zone.is_empty().then(Rect::default);
        for rect in zone.iter().copied().chain(empty) {
            rects.push(rect);
            nodes.push(node);
        }
    }
    tiling::check(rows, cols, &rects).map_err(|error| match error {
        LayoutError::OutOfBounds {
            index,
            rect,
            rows,
            cols,
        } => LayoutError::OutOfBounds {
            index: nodes[index],
            rect,
            rows,
            cols,
        },
        LayoutError::Overlap { first, second } => LayoutError::Overlap {
            first: nodes[first],
            second: nodes[second],
        },
        error => error,
    })
}

/// A zone without its empty rectangles, and as one rectangle if it is one.
fn simplified(mut zone: Vec<Rect>) -> Vec<Rect> {
    zone.retain(|rect| !rect.is_empty());
    zone.sort_by_key(|rect| (rect.row, rect.col));
    if let [a, b] = zone[..] {
        let whole = Rect {
            row: a.row.min(b.row),
            col: a.col.min(b.col),
            rows: union([(a.row, a.rows), (b.row, b.rows)].into_iter()),
            cols: union([(a.col, a.cols), (b.col, b.cols)].into_iter()),
        };
        // Two that do not touch have a smaller area than their projections span.
        if whole.area() == a.area() + b.area() {
            return vec![whole];
        }
    }
    zone
}

/// How much of a line at most two intervals `(start, length)` cover.
fn union(intervals: impl Iterator<Item = (u64, u64)>) -> u64 {
    let (mut covered, mut end) = (0, 0);
    let mut sorted: Vec<(u64, u64)> = intervals.collect();
    sorted.sort_unstable();
    for (start, len) in sorted {
        let stop = (start + len).max(end);
        covered += stop - start.max(end);
        end = stop;
    }
    covered
}

/// `at` and the edges of the matrix, ascending and once each.
fn lines(end: u64, at: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut lines: Vec<u64> = at.chain([0, end]).collect();
    lines.sort_unstable();
    lines.dedup();
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::br;

    fn rect(row: u64, col: u64, rows: u64, cols: u64) -> Rect {
        Rect {
            row,
            col,
            rows,
            cols,
        }
    }

    /// An L around an L around a square.
    fn nested() -> Zones {
        let outer = vec![rect(0, 0, 12, 4), rect(0, 4, 4, 8)];
        let inner = vec![rect(4, 4, 3, 8), rect(7, 4, 5, 3)];
        let zones = vec![outer, vec![rect(7, 7, 5, 5)], vec![], inner];
        Zones::new(12, 12, zones).expect("tiles")
    }

    #[test]
    fn nested_zones_are_counted_by_their_projections() {
        let zones = nested();
        assert_eq!(zones.areas(), [80, 25, 0, 39]);
        assert_eq!(zones.cost(), 24 + 10 + 16);
        let bound = 2.0 * (80.0_f64.sqrt() + 5.0 + 39.0_f64.sqrt());
        assert!((zones.lower_bound() - bound).abs() < 1e-12);
        assert_eq!(
            Layout::try_from(zones),
            Err(LayoutError::NotOneRect { index: 0 })
        );
    }

    #[test]
    fn the_grid_holds_every_zone_in_whole_cells() {
        let grid = nested().grid();
        assert_eq!(grid.heights, [4, 3, 5]);
        assert_eq!(grid.widths, [4, 3, 5]);
        assert_eq!(grid.owners, [[0, 0, 0], [0, 3, 3], [0, 3, 1]]);
        let none = Zones::new(0, 3, vec![vec![]]).expect("no blocks").grid();
        assert_eq!((none.heights, none.widths), (vec![], vec![3]));
    }

    #[test]
    fn the_picture_has_no_line_inside_a_zone() {
        let expected = "\
┌───────────────────────┐
│                       │
│                       │
│                       │
│       ┌───────────────┤
│   0   │       3       │
│       │    3×8+5×3    │
│       │     ┌─────────┤
│       │     │         │
│       │     │    1    │
│       │     │   5×5   │
│       │     │         │
└───────┴─────┴─────────┘
";
        assert_eq!(nested().picture(25), expected);
    }

    #[test]
    fn layouts_are_zones_of_one_rectangle() {
        let layout = br(&[4.0, 0.0, 1.0, 1.0], 6, 6).expect("areas");
        let zones = Zones::from(layout.clone());
        assert_eq!(zones.cost(), layout.half_perimeter_sum());
        assert_eq!(zones.lower_bound(), layout.lower_bound());
        assert_eq!(zones.areas(), layout.areas());
        assert_eq!(zones.picture(30), layout.picture(30));
        assert_eq!(Layout::try_from(zones), Ok(layout));
        let halves = vec![
            vec![rect(2, 0, 1, 2), rect(0, 0, 2, 2)],
            vec![rect(0, 2, 3, 1)],
        ];
        let merged = Zones::new(3, 3, halves).expect("tiles");
        assert_eq!(merged.zones()[0], [rect(0, 0, 3, 2)]);
    }

    #[test]
    fn what_does_not_tile_is_refused_by_node() {
        let new = |zones: &[Vec<Rect>]| Zones::new(2, 2, zones.to_vec()).expect_err("refused");
        assert_eq!(new(&[]), LayoutError::NoNodes { rows: 2, cols: 2 });
        assert_eq!(
            new(&[vec![]]),
            LayoutError::Gap {
                covered: 0,
                total: 4
            }
        );
        let quarters = vec![rect(0, 0, 1, 1), rect(0, 1, 1, 1), rect(1, 0, 1, 1)];
        assert_eq!(
            new(&[vec![], quarters]),
            LayoutError::TooManyRects { index: 1, rects: 3 }
        );
        let whole = vec![rect(0, 0, 2, 2)];
        assert_eq!(
            new(&[vec![], vec![rect(0, 0, 1, 2); 2]]),
            LayoutError::Overlap {
                first: 1,
                second: 1
            }
        );
        assert!(matches!(
            new(&[whole, vec![rect(0, 0, 0, 0), rect(1, 1, 2, 1)]]),
            LayoutError::OutOfBounds { index: 1, .. }
        ));
    }

    #[test]
    fn deserialisation_checks_the_tiling() {
        let zones = nested();
        let json = serde_json::to_string(&zones).expect("serialises");
        assert_eq!(
            serde_json::from_str::<Zones>(&json).expect("reads back"),
            zones
        );
        let hole = json.replace(r#""rows":5"#, r#""rows":4"#);
        assert!(serde_json::from_str::<Zones>(&hole).is_err());
    }
}
