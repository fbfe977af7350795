//! Jobs whose C stays on the GPU: the panels of each update travel there.

use super::blas::Product;
use super::check::Outcome;
use super::engine::Engine;
use super::plan::SLOTS;
use super::staging::Place;
use crate::worker::{Depth, JobShape};
use crate::{Element, View};
use std::ops::Range;

/// Where C and the panels lie on the GPU, and which panels are there.
#[derive(Debug)]
pub struct Resident {
    device: u64,
    shape: JobShape,
    /// Which of the two rooms for panels the update before has used.
    room: usize,
    /// The panels that were copied to the other room ahead of their update.
    ahead: Option<Source>,
}

/// Where panels lie in host memory: the next update has those that were announced for it, at the same place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Source([(usize, usize, usize, usize); 2]);

impl Source {
    fn of<T>((a, b): (View<'_, T>, View<'_, T>)) -> Self {
        Self([a, b].map(|v| (v.data().as_ptr().addr(), v.rows(), v.cols(), v.ld())))
    }
}

/// The smallest stripe of a panel, in rows of A or columns of B: smaller products leave a GPU half empty.
const MIN_STRIPE: usize = 1024;
/// The most stripes: from there on, what the first one costs is a sixteenth of the traffic.
const MAX_STRIPES: usize = 8;

impl Resident {
    /// No panels yet; C, and room for two panels of A and of B behind it, lie at `device`.
    pub fn new(device: u64, shape: JobShape) -> Self {
        Self {
            device,
            shape,
            room: 0,
            ahead: None,
        }
    }

    /// Where C lies.
    pub fn c(&self) -> Place {
        Place {
            address: self.device,
            ld: self.shape.rows,
        }
    }

    /// Where the panels of A and of B lie in one of the rooms.
    fn panels(&self, room: usize) -> (Place, Place) {
        let JobShape {
            rows,
            cols,
            depth: Depth { k_max, .. },
            element,
        } = self.shape;
        let place = |offset: usize, ld: usize| Place {
            address: self.device + (offset * element.bytes()) as u64,
            ld,
        };
        let first = rows * cols + room * k_max * (rows + cols);
        (place(first, rows), place(first + rows * k_max, k_max))
    }

    /// Forgets what came ahead: its update did not follow.
    pub fn forget(&mut self) {
        self.ahead = None;
    }

    /// `C += alpha·A·B`; when it returns, that is done, and `next` has been read.
    ///
    /// The arithmetic is queued first. While it runs, the panels of the next update travel. Panels that did not come
    /// ahead are computed with while they arrive. The call waits for the arithmetic at its end: its time is then that of
    /// this update, and an error is reported by the update that it happened in.
    pub fn update<T: Element>(
        &mut self,
        engine: &mut Engine,
        alpha: T,
        panels: (View<'_, T>, View<'_, T>),
        next: Option<(View<'_, T>, View<'_, T>)>,
    ) -> Outcome<()> {
        let is_ahead = self.ahead.take() == Some(Source::of(panels));
        tracing::trace!(k = panels.0.cols(), is_ahead, "an update begins");
        if is_ahead {
            self.room = (self.room + 1) % SLOTS;
            let (a, b) = panels;
            self.multiply(engine, alpha, (0..a.rows(), 0..b.cols()), a.cols())?;
        } else {
            self.in_stripes(engine, alpha, panels)?;
        }
        engine.lanes.computed[0].record(&engine.lanes.compute)?;
        tracing::trace!("its arithmetic is queued");
        if let Some(next) = next.filter(|next| self.has_room_for(next)) {
            let (a, b) = self.panels((self.room + 1) % SLOTS);
            bring(engine, next.0, a)?;
            bring(engine, next.1, b)?;
            self.ahead = Some(Source::of(next));
        }
        tracing::trace!("nothing is left to copy");
        engine.lanes.computed[0].synchronize()?;
        tracing::trace!("an update is done");
        Ok(())
    }

    fn has_room_for<T>(&self, (a, b): &(View<'_, T>, View<'_, T>)) -> bool {
        let shape = &self.shape;
        let k = a.cols();
        (a.rows(), b.rows(), b.cols()) == (shape.rows, k, shape.cols) && k <= shape.depth.k_max
    }

    /// Panels that arrive in stripes, of A and of B in turn; whatever a new stripe makes possible is computed while the
    /// next one travels: after `i` stripes of A and `j` of B, the product of the first `i·j` parts of C. Work grows with
    /// the product and traffic with the sum, so that the GPU soon has enough to do.
    fn in_stripes<T: Element>(
        &self,
        engine: &mut Engine,
        alpha: T,
        (a, b): (View<'_, T>, View<'_, T>),
    ) -> Outcome<()> {
        let k = a.cols();
        let (to_a, to_b) = self.panels(self.room);
        let (stripes_of_a, stripes_of_b) = (stripes(a.rows()), stripes(b.cols()));
        let (mut rows, mut cols) = (0, 0);
        for i in 0..stripes_of_a.len().max(stripes_of_b.len()) {
            if let Some(stripe) = stripes_of_a.get(i) {
                let to = to_a.at::<T>(stripe.start, 0);
                bring(engine, a.block(stripe.clone(), 0..k), to)?;
                self.multiply(engine, alpha, (stripe.clone(), 0..cols), k)?;
                rows = stripe.end;
            }
            if let Some(stripe) = stripes_of_b.get(i) {
                let to = to_b.at::<T>(0, stripe.start);
                bring(engine, b.columns(stripe.clone()), to)?;
                self.multiply(engine, alpha, (0..rows, stripe.clone()), k)?;
                cols = stripe.end;
            }
        }
        Ok(())
    }

    /// Queues the product of these rows of A and columns of B.
    fn multiply<T: Element>(
        &self,
        engine: &mut Engine,
        alpha: T,
        (rows, cols): (Range<usize>, Range<usize>),
        k: usize,
    ) -> Outcome<()> {
        if rows.is_empty() || cols.is_empty() {
            return Ok(());
        }
        let (a, b) = self.panels(self.room);
        let product = Product {
            m: rows.len(),
            n: cols.len(),
            k,
            a: a.at::<T>(rows.start, 0),
            b: b.at::<T>(0, cols.start),
            c: self.c().at::<T>(rows.start, cols.start),
        };
        // SAFETY: the three lie in the memory of the job, as the plan says, which is kept until the work is done; their
        // dimensions are below the limits that the plan keeps.
        unsafe { engine.multiply(alpha, &product) }
    }
}

/// Copies a panel, or a stripe of one; arithmetic that is queued from now on begins when it is there.
fn bring<T: Element>(engine: &mut Engine, from: View<'_, T>, to: Place) -> Outcome<()> {
    let Engine { staging, lanes, .. } = engine;
    staging.upload(&lanes.upload, from, to)?;
    lanes.copied.record(&lanes.upload)?;
    lanes.compute.wait(&lanes.copied)
}

/// Cuts `n` rows or columns into stripes of nearly equal size.
fn stripes(n: usize) -> Vec<Range<usize>> {
    let count = (n / MIN_STRIPE).clamp(1, MAX_STRIPES);
    let mut first = 0;
    crate::view::even_widths(n, count)
        .map(|width| {
            let stripe = first..first + width;
            first = stripe.end;
            stripe
        })
        .collect()
}
