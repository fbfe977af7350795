//! Layouts in which each group of nodes has a rectangle of its own, so that little passes between groups.

use super::method::rearrange_over;
use super::{Layout, LayoutError, Method, Rect, arrange};

/// Arranges areas as [`arrange()`] does: first the groups over the matrix, then each group's nodes over its rectangle. `groups` are
/// nodes in ascending order, each group before those within it; a node may be in none.
///
/// # Errors
/// Returns the errors of [`arrange()`].
///
/// # Example
/// ```
/// use isochron_hierarchy::layout::{Method, arrange_in_groups};
///
/// let layout = arrange_in_groups(Method::Br, &[&[0, 3], &[1, 2]], &[1.0; 4], 8, 8)?;
/// let cols: Vec<u64> = layout.rects().iter().map(|rect| rect.col).collect();
/// assert!(cols[0] == cols[3] && cols[1] == cols[2] && cols[0] != cols[1]);
/// # Ok::<(), isochron_hierarchy::layout::LayoutError>(())
/// ```
///
/// # References
/// Clarke et al. 2012, section 3 (the CMA over the nodes, and again over the devices of each).
pub fn arrange_in_groups(
    method: Method,
    groups: &[&[usize]],
    areas: &[f64],
    rows: u64,
    cols: u64,
) -> Result<Layout, LayoutError> {
    place(groups, areas, rows, cols, &mut |_, areas, rows, cols| arrange(method, areas, rows, cols))
}

/// Arranges other areas in a layout's place, as [`rearrange()`](super::rearrange()) does: with each group in its rectangle if the
/// groups have rectangles.
///
/// # Errors
/// Returns the errors of [`rearrange()`](super::rearrange()).
pub fn rearrange_in_groups(
    current: &Layout,
    method: Method,
    groups: &[&[usize]],
    areas: &[f64],
) -> Result<Layout, LayoutError> {
    let (rows, cols) = (current.rows(), current.cols());
    let rects = current.rects();
    if groups.is_empty() || !are_apart(groups, rects, rows, cols) {
        return rearrange_over(current, method, areas, rows, cols);
    }
    place(groups, areas, rows, cols, &mut |parts, areas, rows, cols| {
        // The rectangles of these parts, from the corner of them all.
        let boxes: Vec<Rect> = parts.iter().map(|part| enclose(part, rects)).collect();
        let all = enclose(&parts.concat(), rects);
        let shifted = boxes.iter().map(|rect| {
            if rect.is_empty() {
                Rect::default()
            } else {
                Rect::new(rect.row - all.row, rect.col - all.col, rect.rows, rect.cols)
            }
        });
        match Layout::new(all.rows, all.cols, shifted.collect()) {
            Ok(current) => rearrange_over(&current, method, areas, rows, cols),
            Err(_) => arrange(method, areas, rows, cols),
        }
    })
}

/// Lays out the areas of parts, the nodes of each.
type LayOut<'l> = dyn FnMut(&[Vec<usize>], &[f64], u64, u64) -> Result<Layout, LayoutError> + 'l;

/// Places nodes in their groups: the groups by `lay_out`, and the nodes of each in its rectangle.
fn place(
    groups: &[&[usize]],
    areas: &[f64],
    rows: u64,
    cols: u64,
    lay_out: &mut LayOut<'_>,
) -> Result<Layout, LayoutError> {
    let mut rects = vec![Rect::default(); areas.len()];
    let all: Vec<usize> = (0..areas.len()).collect();
    let whole = Rect::new(0, 0, rows, cols);
    place_within(&all, groups, areas, whole, lay_out, &mut rects)?;
    Layout::new(rows, cols, rects)
}

fn place_within(
    nodes: &[usize],
    groups: &[&[usize]],
    areas: &[f64],
    within: Rect,
    lay_out: &mut LayOut<'_>,
    rects: &mut [Rect],
) -> Result<(), LayoutError> {
    let parts = split(nodes, groups);
    let sums: Vec<f64> =
        parts.iter().map(|part| part.iter().map(|&node| areas[node]).sum()).collect();
    let layout = lay_out(&parts, &sums, within.rows, within.cols)?;
    for (part, rect) in parts.iter().zip(layout.rects()) {
        if rect.is_empty() {
            continue;
        }
        let placed = Rect::new(within.row + rect.row, within.col + rect.col, rect.rows, rect.cols);
        match part[..] {
            [node] => rects[node] = placed,
            _ => place_within(part, groups, areas, placed, lay_out, rects)?,
        }
    }
    Ok(())
}

/// Splits nodes into the outermost groups that are smaller, and single nodes.
fn split(nodes: &[usize], groups: &[&[usize]]) -> Vec<Vec<usize>> {
    let mut parts: Vec<Vec<usize>> = Vec::new();
    for &node in nodes {
        if parts.iter().any(|part| part.contains(&node)) {
            continue;
        }
        let smaller =
            |group: &&&[usize]| group.len() < nodes.len() && group.binary_search(&node).is_ok();
        parts.push(groups.iter().find(smaller).map_or_else(|| vec![node], |group| group.to_vec()));
    }
    parts
}

/// Returns `true` if the outermost groups have rectangles of their own.
fn are_apart(groups: &[&[usize]], rects: &[Rect], rows: u64, cols: u64) -> bool {
    let all: Vec<usize> = (0..rects.len()).collect();
    let boxes = split(&all, groups).iter().map(|part| enclose(part, rects)).collect();
    Layout::new(rows, cols, boxes).is_ok()
}

/// Returns the least rectangle around those of some nodes.
fn enclose(nodes: &[usize], rects: &[Rect]) -> Rect {
    let some = nodes.iter().map(|&node| &rects[node]).filter(|rect| !rect.is_empty());
    some.fold(Rect::default(), |all, rect| {
        if all.is_empty() {
            return *rect;
        }
        let (row, col) = (all.row.min(rect.row), all.col.min(rect.col));
        let end_row = (all.row + all.rows).max(rect.row + rect.rows);
        let end_col = (all.col + all.cols).max(rect.col + rect.cols);
        Rect::new(row, col, end_row - row, end_col - col)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn groups_have_rectangles_and_keep_them(
            areas in prop::collection::vec(0.5f64..9.0, 8),
            change in prop::collection::vec(0.8f64..1.25, 8),
        ) {
            let groups: [&[usize]; 4] = [&[0, 2, 4, 6], &[1, 5, 7], &[0, 6], &[2, 4]];
            let first = arrange_in_groups(Method::Br, &groups, &areas, 60, 80).unwrap();
            let changed: Vec<f64> = areas.iter().zip(change).map(|(area, by)| area * by).collect();
            let next = rearrange_in_groups(&first, Method::Br, &groups, &changed).unwrap();
            for (layout, areas) in [(&first, &areas), (&next, &changed)] {
                for group in groups {
                    let together: u64 = group.iter().map(|&node| layout.rects()[node].area()).sum();
                    prop_assert_eq!(enclose(group, layout.rects()).area(), together);
                }
                let total: f64 = areas.iter().sum();
                for (rect, area) in layout.rects().iter().zip(areas) {
                    let wanted = area / total * 4800.0;
                    prop_assert!((rect.area() as f64 - wanted).abs() < 0.25 * wanted + 80.0, "{rect:?} {wanted}");
                }
            }
        }
    }

    #[test]
    fn nodes_of_a_flat_layout_stay_where_they_are() {
        let first = arrange(Method::Br, &[1.0; 4], 8, 8).unwrap();
        // The groups lie across.
        let next = rearrange_in_groups(&first, Method::Br, &[&[0, 3], &[1, 2]], &[1.0; 4]).unwrap();
        assert_eq!(next, first);
        let lone = arrange_in_groups(Method::Br, &[&[0, 1]], &[1.0, 0.0, 3.0], 8, 8).unwrap();
        assert_eq!(lone.areas(), [16, 0, 48]);
    }
}
