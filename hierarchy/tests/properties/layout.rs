//! Properties of layouts.

use isochron_hierarchy::layout::{Layout, Rect, br, lower_bound};
use proptest::prelude::*;

fn any_areas() -> impl Strategy<Value = Vec<f64>> {
    let area = prop_oneof![1 => Just(0.0), 4 => 1e-3..1e3_f64];
    prop::collection::vec(area, 1..40)
        .prop_filter("something to lay out", |areas| areas.iter().any(|&a| a > 0.0))
}

/// Finds each block's owner by counting. Fails if a block has none or several.
fn count_owners(layout: &Layout) -> Vec<usize> {
    let (rows, cols) = (layout.rows() as usize, layout.cols() as usize);
    let mut owners = vec![usize::MAX; rows * cols];
    for (node, rect) in layout.rects().iter().enumerate() {
        for row in rect.row..rect.row + rect.rows {
            for col in rect.col..rect.col + rect.cols {
                let owner = &mut owners[row as usize * cols + col as usize];
                assert_eq!(*owner, usize::MAX, "block ({row}, {col}) has two owners");
                *owner = node;
            }
        }
    }
    assert!(!owners.contains(&usize::MAX), "a block has no owner");
    owners
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn br_tiles_whatever_the_areas_and_the_matrix(
        areas in any_areas(),
        rows in 0..50_u64,
        cols in 0..50_u64,
    ) {
        let layout = br(&areas, rows, cols).unwrap();
        prop_assert_eq!((layout.rows(), layout.cols()), (rows, cols));
        prop_assert_eq!(layout.rects().len(), areas.len());
        count_owners(&layout);
        for (rect, &area) in layout.rects().iter().zip(&areas) {
            prop_assert!(area > 0.0 || rect.is_empty());
        }
    }

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
        areas in any_areas(),
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
        areas in any_areas(),
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
}

#[test]
fn ten_thousand_nodes_are_laid_out() {
    let areas: Vec<f64> = (0..10_000).map(|i| f64::from(1 + i % 7)).collect();
    let layout = br(&areas, 10_000, 10_000).unwrap();
    assert!(layout.rects().iter().all(|rect| !rect.is_empty()));
    // Many areas of the same order of magnitude fit into columns as near-squares.
    assert!(layout.half_perimeter_sum() as f64 <= 1.1 * lower_bound(&areas, 10_000, 10_000));
}
