//! Panels that are announced before their update.

use super::operands::{GappedMatrix, a_at, b_at, c_at, updated_at, valid};
use crate::contract::{Depth, PanelPair, Scalar, Updates};

/// A panel of A and one of B.
type OwnedPanels<T> = (GappedMatrix<T>, GappedMatrix<T>);

/// Makes panels with `k` columns of A and rows of B, `scale` times those of the other tests.
fn make_panels<T: Scalar>(rows: usize, cols: usize, k: usize, scale: f64) -> OwnedPanels<T> {
    let (mut a, b) = (GappedMatrix::new(rows, k, 2, a_at), GappedMatrix::new(k, cols, 1, b_at));
    a.scale(scale);
    (a, b)
}

fn view_both<T: Scalar>((a, b): &OwnedPanels<T>) -> PanelPair<'_, T> {
    (a.view(), b.view())
}

/// Every update but the last announces the panels of the next one, of various k.
pub(super) fn announced_panels_are_used<T: Scalar>(worker: &mut dyn Updates<T>) {
    let (rows, cols) = (11, 6);
    let mut c = GappedMatrix::new(rows, cols, 3, c_at);
    let all = [(5, 1.0), (3, 2.0), (5, 4.0), (5, 8.0)]
        .map(|(k, scale)| make_panels(rows, cols, k, scale));
    valid(worker.begin(c.view_mut(), Depth::of(5, 4)));
    for pair in all.windows(2) {
        let [now, next] = [view_both(&pair[0]), view_both(&pair[1])];
        valid(worker.update_ahead(T::ONE, now, Some(next), c.view_mut()));
    }
    let (a, b) = view_both(&all[3]);
    valid(worker.update(T::ONE, a, b, c.view_mut()));
    valid(worker.finish(c.view_mut()));
    c.assert_is("announced panels", |i, j| updated_at(i, j, &[(13.0, 5), (2.0, 3)]));
}

/// Updates are narrower than `k_max`, together less than announced, and then one has `k_max`.
pub(super) fn widths_may_be_irregular<T: Scalar>(worker: &mut dyn Updates<T>) {
    let (rows, cols) = (13, 12);
    let mut c = GappedMatrix::new(rows, cols, 1, c_at);
    let narrow = make_panels(rows, cols, 9, 1.0);
    let wide = make_panels(rows, cols, 10, 2.0);
    let depth = Depth { k_max: 10, k_total: 39 };
    valid(worker.begin(c.view_mut(), depth));
    for pair in [&narrow, &narrow, &narrow, &narrow, &wide, &narrow] {
        let (a, b) = view_both(pair);
        valid(worker.update(T::ONE, a, b, c.view_mut()));
    }
    valid(worker.finish(c.view_mut()));
    c.assert_is("irregular widths", |i, j| updated_at(i, j, &[(5.0, 9), (2.0, 10)]));
}

/// Other panels than the announced ones come: different ones, the same memory with other numbers, or after announced
/// panels that do not fit.
pub(super) fn announced_panels_that_do_not_come_are_forgotten<T: Scalar>(
    worker: &mut dyn Updates<T>,
) {
    let (rows, cols) = (8, 9);
    let mut c = GappedMatrix::new(rows, cols, 1, c_at);
    let now = make_panels(rows, cols, 4, 1.0);
    let other = make_panels(rows, cols, 4, 2.0);
    let mut announced = make_panels(rows, cols, 4, 4.0);
    let too_wide = make_panels(rows, cols + 1, 4, 1.0);
    valid(worker.begin(c.view_mut(), Depth::of(4, 6)));
    for next in [&announced, &too_wide, &announced] {
        let (now, next) = (view_both(&now), view_both(next));
        valid(worker.update_ahead(T::ONE, now, Some(next), c.view_mut()));
    }
    valid(worker.update(T::ZERO, announced.0.view(), announced.1.view(), c.view_mut()));
    announced.0.scale(2.0);
    for (a, b) in [view_both(&announced), view_both(&other)] {
        valid(worker.update(T::ONE, a, b, c.view_mut()));
    }
    valid(worker.finish(c.view_mut()));
    c.assert_is("panels that were announced in vain", |i, j| {
        updated_at(i, j, &[(3.0 + 8.0 + 2.0, 4)])
    });
}
