//! Jobs whose C stays on the GPU: the panels of each update are copied there.

use super::blas::GemmProduct;
use super::check::CallResult;
use super::gpu::OpenGpu;
use super::plan::SLOTS;
use super::stream::DevicePlace;
use crate::contract::{Depth, JobShape, PanelPair, Scalar, View};
use std::ops::Range;

/// The places of C and of the panels on the GPU, and the panels that are there.
#[derive(Debug)]
pub struct Resident {
    device: u64,
    shape: JobShape,
    /// The room for panels, one of two, that the last update used.
    room: usize,
    /// The panels that were copied to the other room ahead of their update.
    ahead: Option<HostPanels>,
}

/// Addresses and sizes of panels in host memory. An update that has the same ones uses the panels that were announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct HostPanels([(usize, usize, usize, usize); 2]);

impl HostPanels {
    fn of<T>((a, b): PanelPair<'_, T>) -> Self {
        Self([a, b].map(|v| (v.as_ptr().addr(), v.rows(), v.cols(), v.ld())))
    }
}

/// The smallest stripe of a panel, in rows of A or columns of B: smaller products use only a part of a GPU.
const MIN_STRIPE: usize = 1024;
/// The most stripes: the first one, which no arithmetic hides, is then a sixteenth of the traffic.
const MAX_STRIPES: usize = 8;

impl Resident {
    /// Makes a job without panels; C, and room for two panels of A and of B behind it, lie at `device`.
    pub fn new(device: u64, shape: JobShape) -> Self {
        Self { device, shape, room: 0, ahead: None }
    }

    /// Returns the place of C.
    pub fn place_of_c(&self) -> DevicePlace {
        DevicePlace { address: self.device, ld: self.shape.rows }
    }

    /// Returns the places of the panels of A and of B in one of the rooms.
    fn panel_places(&self, room: usize) -> (DevicePlace, DevicePlace) {
        let JobShape { rows, cols, depth: Depth { k_max, .. }, element } = self.shape;
        let first = rows * cols + room * k_max * (rows + cols);
        let [a, b] = [(first, rows), (first + rows * k_max, k_max)].map(|(offset, ld)| {
            DevicePlace { address: self.device + (offset * element.bytes()) as u64, ld }
        });
        (a, b)
    }

    /// Forgets the panels that came ahead: their update did not follow.
    pub fn forget_ahead(&mut self) {
        self.ahead = None;
    }

    /// Computes `C += alpha·A·B`. When it returns, the arithmetic is done, and `next` has been read.
    ///
    /// The arithmetic is queued first, and the panels of the next update are copied while it runs. If the panels of
    /// this update did not come ahead, they are computed with while they arrive. The call waits for its arithmetic at
    /// the end, so its time is that of this update, and an error is reported by the update in which it happened.
    pub fn update<T: Scalar>(
        &mut self,
        gpu: &mut OpenGpu,
        alpha: T,
        panels: PanelPair<'_, T>,
        next: Option<PanelPair<'_, T>>,
    ) -> CallResult<()> {
        let is_ahead = self.ahead.take() == Some(HostPanels::of(panels));
        tracing::trace!(name: "update_begins", k = panels.0.cols(), is_ahead, "an update begins");
        if is_ahead {
            self.room = (self.room + 1) % SLOTS;
            let (a, b) = panels;
            self.multiply(gpu, alpha, 0..a.rows(), 0..b.cols(), a.cols())?;
        } else {
            self.multiply_in_stripes(gpu, alpha, panels)?;
        }
        gpu.lanes.computed[0].record(&gpu.lanes.compute)?;
        tracing::trace!(name: "arithmetic_queued", "its arithmetic is queued");
        if let Some(next) = next.filter(|next| self.has_room_for(next)) {
            let (a, b) = self.panel_places((self.room + 1) % SLOTS);
            copy_panel(gpu, next.0, a)?;
            copy_panel(gpu, next.1, b)?;
            self.ahead = Some(HostPanels::of(next));
        }
        tracing::trace!(name: "panels_copied", "nothing is left to copy");
        gpu.lanes.computed[0].synchronize()?;
        tracing::trace!(name: "update_done", "an update is done");
        Ok(())
    }

    fn has_room_for<T>(&self, (a, b): &PanelPair<'_, T>) -> bool {
        let shape = &self.shape;
        let k = a.cols();
        (a.rows(), b.rows(), b.cols()) == (shape.rows, k, shape.cols) && k <= shape.depth.k_max
    }

    /// Copies panels in stripes, of A and of B in turn, and computes with each stripe while the next one is copied.
    /// After `i` stripes of A and `j` of B, `i·j` parts of C are computed. Work grows with the product and traffic with
    /// the sum, so the GPU soon has enough to do.
    fn multiply_in_stripes<T: Scalar>(
        &self,
        gpu: &mut OpenGpu,
        alpha: T,
        (a, b): PanelPair<'_, T>,
    ) -> CallResult<()> {
        let k = a.cols();
        let (to_a, to_b) = self.panel_places(self.room);
        let (stripes_of_a, stripes_of_b) = (cut_into_stripes(a.rows()), cut_into_stripes(b.cols()));
        let (mut rows, mut cols) = (0, 0);
        for i in 0..stripes_of_a.len().max(stripes_of_b.len()) {
            if let Some(stripe) = stripes_of_a.get(i) {
                let to = to_a.at::<T>(stripe.start, 0);
                copy_panel(gpu, a.block(stripe.clone(), 0..k), to)?;
                self.multiply(gpu, alpha, stripe.clone(), 0..cols, k)?;
                rows = stripe.end;
            }
            if let Some(stripe) = stripes_of_b.get(i) {
                let to = to_b.at::<T>(0, stripe.start);
                copy_panel(gpu, b.columns(stripe.clone()), to)?;
                self.multiply(gpu, alpha, 0..rows, stripe.clone(), k)?;
                cols = stripe.end;
            }
        }
        Ok(())
    }

    /// Queues the product of these rows of A and columns of B.
    fn multiply<T: Scalar>(
        &self,
        gpu: &mut OpenGpu,
        alpha: T,
        rows: Range<usize>,
        cols: Range<usize>,
        k: usize,
    ) -> CallResult<()> {
        if rows.is_empty() || cols.is_empty() {
            return Ok(());
        }
        let (a, b) = self.panel_places(self.room);
        let product = GemmProduct {
            m: rows.len(),
            n: cols.len(),
            k,
            a: a.at::<T>(rows.start, 0),
            b: b.at::<T>(0, cols.start),
            c: self.place_of_c().at::<T>(rows.start, cols.start),
        };
        // SAFETY: the three lie in the memory of the job, as the plan says, which is kept until the work is done; their
        // dimensions are below the limits that the plan keeps.
        unsafe { gpu.multiply(alpha, &product) }
    }
}

/// Copies a panel or a stripe of one. Arithmetic that is queued afterwards begins when it has arrived.
fn copy_panel<T: Scalar>(gpu: &mut OpenGpu, from: View<'_, T>, to: DevicePlace) -> CallResult<()> {
    let OpenGpu { staging, lanes, .. } = gpu;
    staging.upload(&lanes.upload, from, to)?;
    lanes.copied.record(&lanes.upload)?;
    lanes.compute.wait(&lanes.copied)
}

/// Cuts `n` rows or columns into stripes of nearly equal size.
fn cut_into_stripes(n: usize) -> Vec<Range<usize>> {
    let count = (n / MIN_STRIPE).clamp(1, MAX_STRIPES);
    let mut first = 0;
    crate::contract::even_widths(n, count)
        .map(|width| {
            let stripe = first..first + width;
            first = stripe.end;
            stripe
        })
        .collect()
}
