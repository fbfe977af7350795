//! Properties of layouts and of the methods that make them.

use isochron_hierarchy::layout::{
    FpmKlConfig, GridRule, Layout, LayoutError, Method, Rect, SpeedSurface, arrange, br,
    br_columns, br_in, cartesian, cartesian_columns, fpm_br, fpm_kl, kl, kl_columns, lower_bound,
    recursive, repair,
};
use isochron_hierarchy::model::{Cpm, SpeedModel};
use proptest::prelude::*;
use strum::VariantArray as _;

/// Finds each block's owner by counting. Fails if a block has none or several.
fn count_owners(layout: &Layout) -> Vec<Vec<usize>> {
    let mut owners = vec![vec![usize::MAX; layout.cols() as usize]; layout.rows() as usize];
    for (node, rect) in layout.rects().iter().enumerate() {
        for row in rect.row..rect.row + rect.rows {
            for col in rect.col..rect.col + rect.cols {
                let owner = &mut owners[row as usize][col as usize];
                assert_eq!(*owner, usize::MAX, "block ({row}, {col}) has two owners");
                *owner = node;
            }
        }
    }
    for row in &owners {
        assert!(!row.contains(&usize::MAX), "a block has no owner");
    }
    owners
}

/// Counts the rows and columns that each node has blocks in.
fn count_projections(owners: &[Vec<usize>], nodes: usize) -> u64 {
    let n_cols = owners.first().map_or(0, Vec::len);
    let mut count = 0;
    for node in 0..nodes {
        count += owners.iter().filter(|row| row.contains(&node)).count();
        count += (0..n_cols).filter(|&col| owners.iter().any(|row| row[col] == node)).count();
    }
    count as u64
}

fn any_method() -> impl Strategy<Value = Method> {
    prop::sample::select(Method::VARIANTS)
}

/// Areas of ratios up to 10⁶, some of them 0, at least one positive.
fn any_areas(most: usize) -> impl Strategy<Value = Vec<f64>> {
    let area = prop_oneof![1 => Just(0.0), 2 => Just(1.0), 6 => (-3.0..3.0_f64).prop_map(|e| 10_f64.powf(e))];
    prop::collection::vec(area, 1..most)
        .prop_filter("something to lay out", |areas| areas.iter().any(|&a| a > 0.0))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn every_method_tiles_exactly(
        method in any_method(),
        areas in any_areas(40),
        rows in 0..20_u64,
        cols in 0..20_u64,
    ) {
        let layout = arrange(method, &areas, rows, cols).unwrap();
        prop_assert_eq!((layout.rows(), layout.cols()), (rows, cols));
        let sum = layout.half_perimeter_sum();
        prop_assert_eq!(sum, count_projections(&count_owners(&layout), areas.len()));
        prop_assert!(sum as f64 >= layout.lower_bound() * (1.0 - 1e-12));
        for (rect, &area) in layout.rects().iter().zip(&areas) {
            prop_assert!(area > 0.0 || rect.is_empty());
            prop_assert!(!rect.is_empty() || *rect == Rect::default());
        }
    }

    #[test]
    fn the_culprit_is_named(
        method in any_method(),
        areas in any_areas(10),
        victim in any::<prop::sample::Index>(),
        bad in prop::sample::select(vec![f64::NAN, f64::INFINITY, -1.0]),
    ) {
        let mut areas = areas;
        let index = victim.index(areas.len());
        areas[index] = bad;
        let found = match arrange(method, &areas, 5, 5) {
            Err(LayoutError::InvalidArea { index, .. }) => Some(index),
            _ => None,
        };
        prop_assert_eq!(found, Some(index));
    }
}

/// Makes a tiling that is not in columns.
fn make_pinwheel() -> Layout {
    let rects = vec![
        Rect::new(0, 0, 2, 5),
        Rect::new(0, 5, 4, 3),
        Rect::new(4, 2, 3, 6),
        Rect::new(2, 0, 5, 2),
        Rect::new(2, 2, 2, 3),
    ];
    Layout::new(7, 8, rects).unwrap()
}

/// Checks a column-based layout's rectangles against their exact heights and widths.
fn check_rounding(columns: &[Vec<usize>], layout: &Layout, areas: &[f64]) {
    let all: f64 = areas.iter().sum();
    let (rows, cols) = (layout.rows() as f64, layout.cols() as f64);
    for column in columns {
        let sum: f64 = column.iter().map(|&node| areas[node]).sum();
        let w = sum / all * cols;
        for &node in column {
            let h = areas[node] / sum * rows;
            let rect = layout.rects()[node];
            let room = 1.0 + 1e-9;
            let most_h = h * (1.0 + column.len() as f64 / rows) * room;
            let most_w = w * (1.0 + columns.len() as f64 / cols) * room;
            assert!((rect.rows as f64) > h - 1.0 - 1e-6 && rect.rows as f64 <= most_h);
            assert!((rect.cols as f64) > w - 1.0 - 1e-6 && rect.cols as f64 <= most_w);
        }
    }
}

/// Returns the largest time of a layout.
fn largest_time_s(layout: &Layout, time_s: &dyn Fn(usize, u64, u64) -> f64) -> f64 {
    layout
        .rects()
        .iter()
        .enumerate()
        .filter(|(_, r)| !r.is_empty())
        .map(|(node, r)| time_s(node, r.rows, r.cols))
        .fold(0.0, f64::max)
}

/// Returns the largest time of a layout by constant speeds.
fn largest_constant_s(layout: &Layout, speeds: &[f64]) -> f64 {
    largest_time_s(layout, &|node, rows, cols| (rows * cols) as f64 / speeds[node])
}

/// Lists all ways to put nodes `0 .. n` into columns.
fn list_columns(n: usize) -> Vec<Vec<Vec<usize>>> {
    let mut all = vec![vec![]];
    for node in 0..n {
        let mut longer = Vec::new();
        for columns in all {
            for column in 0..columns.len() {
                let mut next: Vec<Vec<usize>> = columns.clone();
                next[column].push(node);
                longer.push(next);
            }
            let mut next = columns;
            next.push(vec![node]);
            longer.push(next);
        }
        all = longer;
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn columns_round_within_their_bounds(
        areas in prop::collection::vec(1e-2..1e2_f64, 1..30),
        rows in 1..200_u64,
        cols in 1..200_u64,
    ) {
        for columns in [br_columns(&areas, rows, cols).unwrap(), kl_columns(&areas, rows, cols).unwrap()] {
            let layout = kl(&areas, &columns, rows, cols).unwrap();
            check_rounding(&columns, &layout, &areas);
        }
    }

    #[test]
    fn cuts_round_within_their_bounds(
        areas in prop::collection::vec(0.1..10.0_f64, 1..9),
        rows in 50..2000_u64,
        cols in 50..2000_u64,
    ) {
        let layout = recursive(&areas, rows, cols).unwrap();
        let all: f64 = areas.iter().sum();
        // No side is shorter before the last cut than after it, and none is divided into more parts
        // than this length goes into it.
        let shortest = layout.rects().iter().map(|rect| rect.rows.min(rect.cols)).min().unwrap() as f64;
        let cuts = areas.len() as i32 - 1;
        for (rect, area) in layout.rects().iter().zip(&areas) {
            let ratio = rect.area() as f64 * all / (area * (rows * cols) as f64);
            prop_assert!(ratio < (1.0 + 1.0 / shortest).powi(cuts) * (1.0 + 1e-9));
            prop_assert!(ratio > (1.0 + 1.0 / shortest).powi(-cuts) * (1.0 - 1e-9));
        }
    }

    #[test]
    fn what_columns_give_is_what_they_were_laid_out_in(
        areas in any_areas(20),
        rows in 1..40_u64,
        cols in 1..40_u64,
    ) {
        let columns = br_columns(&areas, rows, cols).unwrap();
        let layout = br(&areas, rows, cols).unwrap();
        prop_assert_eq!(&br_in(&columns, &areas, rows, cols).unwrap(), &layout);
        let mut nodes = layout.rects().iter().zip(&areas);
        if nodes.all(|(rect, &area)| area == 0.0 || !rect.is_empty()) {
            let seen = layout.columns().unwrap();
            prop_assert_eq!(&br_in(&seen, &areas, rows, cols).unwrap(), &layout);
            let (a, b) = (
                sum_half_perimeters(&seen, &areas, rows, cols),
                sum_half_perimeters(&columns, &areas, rows, cols),
            );
            prop_assert!((a - b).abs() <= 1e-9 * b);
        }
    }

    #[test]
    fn repair_never_makes_it_slower_and_ends(
        areas in any_areas(9),
        speeds in prop::collection::vec((0.5..20.0_f64, 1..200_u64), 9),
        rows in 1..25_u64,
        cols in 1..25_u64,
    ) {
        let time_s: &dyn Fn(usize, u64, u64) -> f64 = &|node, rows, cols| {
            let (speed, memory) = speeds[node];
            let blocks = rows * cols;
            let granule = if rows.is_multiple_of(4) { 1.0 } else { 1.3 };
            if blocks > 2 * memory { f64::INFINITY } else { blocks as f64 * granule / speed }
        };
        let layout = br(&areas, rows, cols).unwrap();
        let repaired = repair(&layout, time_s).unwrap();
        count_owners(&repaired);
        prop_assert!(largest_time_s(&repaired, time_s) <= largest_time_s(&layout, time_s));
        prop_assert_eq!(repair(&repaired, time_s).unwrap().areas(), repaired.areas());
    }

    #[test]
    fn functional_partitioners_follow_constant_speeds(
        speeds in prop::collection::vec(1.0..20.0_f64, 1..12),
        rows in 1..60_u64,
        cols in 1..60_u64,
    ) {
        let surfaces: Vec<Flat> = speeds.iter().map(|&speed| Flat(speed)).collect();
        let surfaces: Vec<&dyn SpeedSurface> = surfaces.iter().map(|s| s as _).collect();
        let columns = kl_columns(&speeds, rows, cols).unwrap();
        let config = FpmKlConfig { epsilon: 0.0, ..FpmKlConfig::default() };
        let found = fpm_kl(&surfaces, &columns, rows, cols, &config).unwrap();
        count_owners(&found.layout);
        let slowest_found = largest_constant_s(&found.layout, &speeds);
        let largest = found.times_s.iter().copied().fold(0.0, f64::max);
        prop_assert!((slowest_found - largest).abs() <= 1e-9 * largest);
        // The second iteration of constant speeds is KL, unless rounding made the first one better.
        let reference = largest_constant_s(&kl(&speeds, &columns, rows, cols).unwrap(), &speeds);
        let share = 1.0 + 1e-9 + 2.0 * speeds.len() as f64 / rows.min(cols) as f64;
        prop_assert!(slowest_found <= reference * share, "{} {}", slowest_found, reference);
        let cpms: Vec<Cpm> = speeds.iter().map(|&speed| Cpm { speed }).collect();
        let models: Vec<&dyn SpeedModel> = cpms.iter().map(|cpm| cpm as _).collect();
        count_owners(&fpm_br(&models, rows, cols).unwrap());
    }
}

/// The same speed in blocks per second at every height and width.
struct Flat(f64);

impl SpeedSurface for Flat {
    fn section(&self, width: u64) -> Box<dyn SpeedModel + '_> {
        Box::new(Cpm { speed: self.0 / width as f64 })
    }
}

/// Returns the sum of half-perimeters of `areas` in `columns`, in blocks, before rounding to whole blocks:
/// `Σ_j rows + p_j · w_j` over the columns, each with `p_j` nodes of positive area and width `w_j`.
fn sum_half_perimeters(columns: &[Vec<usize>], areas: &[f64], rows: u64, cols: u64) -> f64 {
    let all: f64 = areas.iter().sum();
    columns
        .iter()
        .map(|column| {
            let own = column.iter().map(|&node| areas[node]);
            let width = own.clone().sum::<f64>() / all * cols as f64;
            match own.filter(|&area| area > 0.0).count() {
                0 => 0.0,
                nodes => rows as f64 + nodes as f64 * width,
            }
        })
        .sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn br_comes_close_to_the_areas_and_to_the_lower_bound(
        areas in prop::collection::vec(1.0..10.0_f64, 1..20),
    ) {
        let (rows, cols) = (4000, 4000);
        let layout = br(&areas, rows, cols).unwrap();
        let sum: f64 = areas.iter().sum();
        for (rect, area) in layout.rects().iter().zip(&areas) {
            let wanted = area / sum * (rows * cols) as f64;
            prop_assert!((rect.area() as f64 / wanted - 1.0).abs() < 0.05);
        }
        // Whole blocks differ from the areas, hence the 1 %. Widths rounded up cost at most one block for
        // each node in comparison with a single column.
        let bound = lower_bound(&areas, rows, cols);
        let cost = layout.half_perimeter_sum() as f64;
        let p = areas.len() as f64;
        prop_assert!(cost >= bound * 0.99, "{} {}", cost, bound);
        prop_assert!(cost <= rows as f64 + p * (cols as f64 + 1.0));
    }

    #[test]
    fn scaled_layouts_tile(
        areas in any_areas(40),
        size in (1..30_u64, 1..30_u64),
        new in (0..60_u64, 0..60_u64),
    ) {
        for layout in [br(&areas, size.0, size.1).unwrap(), make_pinwheel()] {
            let scaled = layout.scale_cols(new.1).scale_rows(new.0);
            prop_assert_eq!((scaled.rows(), scaled.cols()), new);
            count_owners(&scaled);
            let checked = Layout::new(scaled.rows(), scaled.cols(), scaled.rects().to_vec());
            prop_assert_eq!(checked.as_ref(), Ok(&scaled));
            prop_assert_eq!(&layout.scale_cols(layout.cols()), &layout);
        }
    }

    #[test]
    fn a_moved_rectangle_is_noticed(
        areas in any_areas(40),
        size in (1..30_u64, 1..30_u64),
        victim in any::<prop::sample::Index>(),
        change in 0..4_u8,
    ) {
        let mut rects = br(&areas, size.0, size.1).unwrap().rects().to_vec();
        let full: Vec<usize> = (0..rects.len()).filter(|&i| !rects[i].is_empty()).collect();
        let rect = &mut rects[full[victim.index(full.len())]];
        match change {
            0 => rect.row += 1,
            1 => rect.col += 1,
            2 => rect.rows -= 1,
            _ => rect.cols += 1,
        }
        prop_assert!(Layout::new(size.0, size.1, rects).is_err());
    }

    #[test]
    fn no_arrangement_in_columns_is_better_than_br(
        areas in prop::collection::vec(prop_oneof![Just(1.0), 1e-2..1e2_f64], 1..=8),
        rows in 1..1000_u64,
        cols in 1..1000_u64,
    ) {
        let best = br_columns(&areas, rows, cols).unwrap();
        let found = sum_half_perimeters(&best, &areas, rows, cols);
        for columns in list_columns(areas.len()) {
            let other = sum_half_perimeters(&columns, &areas, rows, cols);
            prop_assert!(found <= other * (1.0 + 1e-12), "{} > {}", found, other);
        }
    }

    #[test]
    fn cartesian_nodes_have_one_neighbour_to_each_side(
        rule in prop::sample::select(vec![GridRule::Sums, GridRule::Balanced]),
        speeds in any_areas(40),
        rows in 40..200_u64,
        cols in 40..200_u64,
    ) {
        let columns = cartesian_columns(rule, &speeds, rows, cols).unwrap();
        let layout = cartesian(rule, &speeds, rows, cols).unwrap();
        for column in &columns {
            for (i, &node) in column.iter().enumerate() {
                let rects = layout.rects();
                let (rect, left, top) = (rects[node], rects[columns[0][i]], rects[column[0]]);
                prop_assert_eq!((rect.row, rect.rows), (left.row, left.rows));
                prop_assert_eq!((rect.col, rect.cols), (top.col, top.cols));
            }
        }
    }
}

#[test]
fn ten_thousand_nodes_are_laid_out_by_every_method() {
    // Areas from 1 to 10, spread by the golden ratio.
    let areas: Vec<f64> =
        (0..10_000).map(|i| 10_f64.powf((f64::from(i) * 0.618_033_988_75).fract())).collect();
    for &method in Method::VARIANTS {
        let layout = arrange(method, &areas, 100_000, 100_000).unwrap();
        let idle = layout.rects().iter().filter(|rect| rect.is_empty()).count();
        let is_grid = matches!(method, Method::Cartesian | Method::CartesianSums);
        assert!(is_grid || idle == 0, "{method}: {idle}");
        assert!(layout.half_perimeter_sum() as f64 >= layout.lower_bound());
    }
}

#[test]
fn one_node_gets_the_whole_matrix() {
    for &method in Method::VARIANTS {
        let layout = arrange(method, &[0.0, 5.0], 3, 7).unwrap();
        assert_eq!(layout.areas(), [0, 21], "{method}");
        assert_eq!(arrange(method, &[0.0], 3, 7), Err(LayoutError::NoArea { rows: 3, cols: 7 }));
        assert_eq!(arrange(method, &[], 3, 7), Err(LayoutError::NoNodes { rows: 3, cols: 7 }));
        assert_eq!(arrange(method, &[0.0], 0, 7).unwrap().areas(), [0]);
        let huge = 1 << 40;
        assert_eq!(
            arrange(method, &[1.0], huge, huge),
            Err(LayoutError::TooLarge { rows: huge, cols: huge })
        );
    }
}
