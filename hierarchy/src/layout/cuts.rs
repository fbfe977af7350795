//! The recursion that [`recursive()`](super::recursive()) and [`corner()`](super::corner()) share: what
//! way a part is divided is chosen for exact areas first, and then done in whole blocks.

use std::collections::HashMap;
use std::ops::Range;

use super::arrangement::place;
use super::columns::{ascending, best_columns, check_areas, shares};
use super::{LayoutError, Rect};
use crate::partition::apportion;

/// The zones of all nodes, none for those without blocks.
pub(super) fn zones(
    areas: &[f64],
    rows: u64,
    cols: u64,
    corners: bool,
) -> Result<Vec<Vec<Rect>>, LayoutError> {
    let mut zones = vec![Vec::new(); areas.len()];
    if let Some(nodes) = Descending::new(areas, rows, cols)? {
        let part = Part {
            start: 0,
            end: nodes.order.len(),
            height: rows as f64,
            width: cols as f64,
        };
        let whole = Rect {
            rows,
            cols,
            ..Rect::default()
        };
        let planner = Planner {
            nodes,
            corners,
            known: HashMap::new(),
        };
        let zones = &mut zones;
        Builder { planner, zones }.build(part, whole);
    }
    Ok(zones)
}

/// Nodes of positive area, the largest first.
struct Descending {
    order: Vec<usize>,
    /// Areas in blocks, in this order.
    areas: Vec<f64>,
    /// Sums of the areas from each one on.
    from: Vec<f64>,
}

impl Descending {
    /// The nodes of positive area, scaled to sum to `rows · cols`; `None` if there are no blocks, or no
    /// nodes to lay out.
    fn new(areas: &[f64], rows: u64, cols: u64) -> Result<Option<Self>, LayoutError> {
        check_areas(areas)?;
        if rows == 0 || cols == 0 || areas.is_empty() {
            return Ok(None);
        }
        let mut order = ascending(areas);
        if order.is_empty() {
            return Err(LayoutError::NoArea { rows, cols });
        }
        // Stable: equal areas stay in node order.
        order.sort_by(|&a, &b| areas[b].total_cmp(&areas[a]));
        let matrix = rows as f64 * cols as f64;
        let mut scaled = shares(order.iter().map(|&node| areas[node]));
        scaled.iter_mut().for_each(|area| *area *= matrix);
        let mut from = vec![0.0];
        // From the smallest up, a sum is exact relative to the areas in it.
        for area in scaled.iter().rev() {
            from.push(from[from.len() - 1] + area);
        }
        from.reverse();
        Ok(Some(Self {
            order,
            areas: scaled,
            from,
        }))
    }

    /// The area of a run of nodes, in blocks.
    fn sum(&self, run: Range<usize>) -> f64 {
        self.from[run.start] - self.from[run.end]
    }

    /// Where the second group of a run of at least two nodes begins.
    fn third(&self, run: Range<usize>) -> usize {
        let third = self.sum(run.clone()) / 3.0;
        let candidates = &self.from[run.start + 1..run.end];
        let fewer = candidates.partition_point(|rest| self.from[run.start] - rest < third);
        (run.start + 1 + fewer).min(run.end - 1)
    }

    /// The best columns for a run on `height × width` and their sum of half-perimeters; the runs of
    /// each column count from the end of this one.
    fn columns(&self, run: Range<usize>, height: f64, width: f64) -> (f64, Vec<Range<usize>>) {
        let shares = shares(self.areas[run].iter().rev().copied());
        best_columns(&shares, height, width)
    }
}

/// A run of nodes, and the sides of its part of the matrix before rounding to whole blocks.
#[derive(Clone, Copy)]
struct Part {
    start: usize,
    end: usize,
    height: f64,
    width: f64,
}

impl Part {
    fn len(&self) -> usize {
        self.end - self.start
    }

    /// Whether a cut puts its parts beside each other.
    fn beside(&self) -> bool {
        self.width >= self.height
    }

    /// The parts of a cut across the longer side, which gives the nodes up to `middle` this share.
    fn cut(self, middle: usize, share: f64) -> (Self, Self) {
        let (mut near, mut far) = (self, self);
        (near.end, far.start) = (middle, middle);
        if self.beside() {
            near.width = self.width * share;
            far.width = self.width - near.width;
        } else {
            near.height = self.height * share;
            far.height = self.height - near.height;
        }
        (near, far)
    }
}

/// How a part is divided.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    /// Into two groups by a straight line.
    Cut,
    /// Into columns of nodes.
    Columns,
    /// Into rows of nodes.
    Rows,
    /// Into the first node and a corner for the others.
    Corner,
}

/// Chooses the cheapest way for every part, in exact areas.
struct Planner {
    nodes: Descending,
    /// Whether zones may be L-shaped.
    corners: bool,
    /// By run and shape: what is chosen, and the sum of the zones' projections then. A corner's shape
    /// does not depend on the cuts before it, so that ways which branch meet again.
    known: HashMap<(usize, usize, u64, u64), (f64, Way)>,
}

impl Planner {
    fn cost(&mut self, part: Part) -> f64 {
        if part.len() == 1 {
            return part.height + part.width;
        }
        self.choose(part).0
    }

    fn choose(&mut self, part: Part) -> (f64, Way) {
        // What is less than one block together hardly gets one; and so the recursion ends.
        let area = self.nodes.sum(part.start..part.end);
        if area < 1.0 {
            return (2.0 * area.sqrt(), Way::Cut);
        }
        let Part {
            start,
            end,
            height,
            width,
        } = part;
        let key = (start, end, height.to_bits(), width.to_bits());
        if let Some(&known) = self.known.get(&key) {
            return known;
        }
        let (near, far) = self.halves(part);
        let mut best = (self.cost(near) + self.cost(far), Way::Cut);
        // Two nodes are best divided across the longer side.
        if part.len() > 2 {
            let (columns, _) = self.nodes.columns(start..end, height, width);
            let (rows, _) = self.nodes.columns(start..end, width, height);
            best = cheaper(best, (columns, Way::Columns));
            best = cheaper(best, (rows, Way::Rows));
        }
        if let Some(corner) = self.corner(part) {
            best = cheaper(best, (height + width + self.cost(corner), Way::Corner));
        }
        self.known.insert(key, best);
        best
    }

    /// The two groups' parts.
    fn halves(&self, part: Part) -> (Part, Part) {
        let middle = self.nodes.third(part.start..part.end);
        let share = self.nodes.sum(part.start..middle) / self.nodes.sum(part.start..part.end);
        part.cut(middle, share)
    }

    /// The square that all but the first node need, if that one is the first group and the square fits.
    fn corner(&self, part: Part) -> Option<Part> {
        let start = part.start + 1;
        if !self.corners || self.nodes.third(part.start..part.end) > start {
            return None;
        }
        let side = self.nodes.sum(start..part.end).sqrt();
        (side < part.height.min(part.width)).then_some(Part {
            start,
            end: part.end,
            height: side,
            width: side,
        })
    }
}

/// The cheaper way, the first one if they are equal.
fn cheaper(first: (f64, Way), second: (f64, Way)) -> (f64, Way) {
    if second.0 < first.0 { second } else { first }
}

/// Does what the planner chooses, in whole blocks.
struct Builder<'a> {
    planner: Planner,
    zones: &'a mut [Vec<Rect>],
}

impl Builder<'_> {
    /// Lays out a part's nodes in `rect`.
    fn build(&mut self, part: Part, rect: Rect) {
        if rect.is_empty() {
            return;
        }
        let first = self.planner.nodes.order[part.start];
        if part.len() == 1 {
            self.zones[first] = vec![rect];
            return;
        }
        let (_, way) = self.planner.choose(part);
        match (way, self.planner.corner(part)) {
            (Way::Corner, Some(corner)) => {
                let nodes = &self.planner.nodes;
                let inside = nodes.sum(corner.start..corner.end);
                let (zone, square) = cut_corner(rect, nodes.areas[part.start], inside);
                self.zones[first] = zone;
                self.build(corner, square);
            }
            (Way::Columns, _) => self.build_columns(part, rect),
            (Way::Rows, _) => self.build_rows(part, rect),
            _ => self.build_halves(part, rect),
        }
    }

    fn build_halves(&mut self, part: Part, rect: Rect) {
        let nodes = &self.planner.nodes;
        let (near, far) = self.planner.halves(part);
        let weights = [near, far].map(|part| nodes.sum(part.start..part.end));
        let (mut first, mut second) = (rect, rect);
        if part.beside() {
            first.cols = apportion(rect.cols, &weights)[0];
            second.cols -= first.cols;
            second.col += first.cols;
        } else {
            first.rows = apportion(rect.rows, &weights)[0];
            second.rows -= first.rows;
            second.row += first.rows;
        }
        self.build(near, first);
        self.build(far, second);
    }

    fn build_columns(&mut self, part: Part, rect: Rect) {
        for (node, found) in self.columns(part, (part.height, part.width), (rect.rows, rect.cols)) {
            self.zones[node] = vec![Rect {
                row: rect.row + found.row,
                col: rect.col + found.col,
                ..found
            }];
        }
    }

    /// Columns of the transposed part.
    fn build_rows(&mut self, part: Part, rect: Rect) {
        for (node, found) in self.columns(part, (part.width, part.height), (rect.cols, rect.rows)) {
            self.zones[node] = vec![Rect {
                row: rect.row + found.col,
                col: rect.col + found.row,
                rows: found.cols,
                cols: found.rows,
            }];
        }
    }

    /// The rectangles of a part in columns over `rows × cols` blocks.
    fn columns(
        &self,
        part: Part,
        (height, width): (f64, f64),
        (rows, cols): (u64, u64),
    ) -> Vec<(usize, Rect)> {
        let nodes = &self.planner.nodes;
        let (_, columns) = nodes.columns(part.start..part.end, height, width);
        // Back from the end, the smallest node, to places in the order.
        let columns: Vec<Vec<usize>> = columns
            .into_iter()
            .map(|column| column.map(|i| part.len() - 1 - i).collect())
            .collect();
        let areas = &nodes.areas[part.start..part.end];
        let column_areas = |column: &Vec<usize>| column.iter().map(|&i| areas[i]).collect();
        let areas: Vec<Vec<f64>> = columns.iter().map(column_areas).collect();
        let sums: Vec<f64> = areas.iter().map(|areas| areas.iter().sum()).collect();
        let heights: Vec<Vec<u64>> = areas.iter().map(|areas| apportion(rows, areas)).collect();
        let mut rects = vec![Rect::default(); part.len()];
        place(&columns, &apportion(cols, &sums), &heights, &mut rects);
        let order = &nodes.order[part.start..part.end];
        order.iter().copied().zip(rects).collect()
    }
}

/// Cuts a corner out of `rect`, at the bottom right, so that the L and the corner have areas in
/// proportion to `around` and `inside`.
fn cut_corner(rect: Rect, around: f64, inside: f64) -> (Vec<Rect>, Rect) {
    let share = inside / (around + inside);
    let target = rect.area() as f64 * share;
    let side = target.sqrt().min(rect.rows as f64);
    let excess = |&(rows, cols): &(u64, u64)| {
        let area = (rows * cols) as f64;
        (area / share).max((rect.area() as f64 - area) / (1.0 - share))
    };
    let sizes = [side.floor() as u64, side.ceil() as u64]
        .into_iter()
        .flat_map(|rows| {
            let exact = target / (rows.max(1)) as f64;
            [exact.floor(), exact.ceil()].map(|cols| (rows, (cols as u64).min(rect.cols)))
        });
    let (rows, cols) = sizes
        .min_by(|a, b| excess(a).total_cmp(&excess(b)))
        .unwrap_or_default();
    let corner = Rect {
        row: rect.row + rect.rows - rows,
        col: rect.col + rect.cols - cols,
        rows,
        cols,
    };
    (around_corner(rect, corner), corner)
}

/// `rect` without its bottom right `corner`, as two rectangles of which one is as large as possible.
fn around_corner(rect: Rect, corner: Rect) -> Vec<Rect> {
    let (rows, cols) = (rect.rows - corner.rows, rect.cols - corner.cols);
    if rows * rect.cols >= cols * rect.rows {
        let top = Rect { rows, ..rect };
        let left = Rect {
            row: corner.row,
            rows: corner.rows,
            cols,
            ..rect
        };
        vec![top, left]
    } else {
        let left = Rect { cols, ..rect };
        let top = Rect {
            col: corner.col,
            cols: corner.cols,
            rows,
            ..rect
        };
        vec![left, top]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_group_is_a_third() {
        let third = |areas: &[f64]| {
            let nodes = Descending::new(areas, 10, 10)
                .expect("areas")
                .expect("blocks");
            nodes.third(0..areas.len())
        };
        assert_eq!(third(&[1.0, 1.0]), 1);
        assert_eq!(third(&[1.0, 1.1, 1.0]), 1);
        assert_eq!(third(&[1.0; 8]), 3);
        assert_eq!(third(&[1.0, 7.0, 1.0]), 1);
    }
}
