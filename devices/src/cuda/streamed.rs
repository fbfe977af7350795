//! Jobs whose C does not fit on the GPU: panels are gathered on the host, and tiles of C visit the GPU.

use super::blas::Product;
use super::check::Outcome;
use super::engine::Engine;
use super::plan::{Placement, SLOTS, Shape, TilePlan};
use super::staging::{Place, block_mut, copy_columns};
use super::stream::MatrixCopy;
use super::tiles::{Tile, tiles};
use crate::{Element, View, ViewMut};
use num_complex::Complex64;
use std::ops::Range;
use std::ptr::NonNull;

/// The panels of several updates in pinned memory, and how tiles of C are updated with them.
#[derive(Debug)]
pub struct Gathered {
    /// `rows × gather_k` elements, and behind it `gather_k × cols`.
    a: NonNull<u8>,
    b: NonNull<u8>,
    rows: usize,
    cols: usize,
    k_max: usize,
    k_total: usize,
    tile: (usize, usize),
    gather_k: usize,
    step_k: usize,
    /// Where the tiles and the panels lie on the GPU.
    device: u64,
    /// Inner dimension that is gathered so far, and its factor.
    filled: usize,
    alpha: Option<Complex64>,
    /// Inner dimension that is still to come.
    left: usize,
    /// Panels on the GPU that were used so far, which says whose turn it is.
    panels: usize,
}

// SAFETY: the memory belongs to the engine that owns this value, and one thread at a time uses both.
unsafe impl Send for Gathered {}

impl Gathered {
    /// No panels yet.
    ///
    /// # Panics
    /// When the plan is not one of a streamed job.
    ///
    /// # Safety
    /// `start` is pinned memory and `device` device memory, as large as the plan says; they stay allocated and nobody
    /// else uses them while this value does.
    pub unsafe fn new(start: NonNull<u8>, shape: Shape, plan: &TilePlan, device: u64) -> Self {
        let Placement::Streamed {
            tile_rows,
            tile_cols,
            gather_k,
            step_k,
        } = plan.placement
        else {
            panic!("only streamed jobs gather panels");
        };
        Self {
            a: start,
            // SAFETY: the plan has room for both.
            b: unsafe { start.add(shape.rows * gather_k * shape.element_bytes) },
            rows: shape.rows,
            cols: shape.cols,
            k_max: shape.k_max,
            k_total: shape.k_total,
            tile: (tile_rows, tile_cols),
            gather_k,
            step_k,
            device,
            filled: 0,
            alpha: None,
            left: shape.k_total,
            panels: 0,
        }
    }

    /// Takes the panels of an update; when there is no room for another update's, or none is to come, all tiles of C are
    /// visited.
    pub fn add<T: Element>(
        &mut self,
        engine: &mut Engine,
        alpha: T,
        panels: (View<'_, T>, View<'_, T>),
        mut c: ViewMut<'_, T>,
    ) -> Outcome<()> {
        let k = panels.0.cols();
        if k > 0 && alpha != T::ZERO {
            // What is gathered is multiplied at once, so it has one factor.
            let other_factor = self.alpha.is_some_and(|factor| factor != alpha.value());
            // Updates narrower than k_max may leave less room than one that comes after the announced ones needs.
            if other_factor || self.filled + k > self.gather_k {
                self.visit(engine, c.reborrow())?;
            }
            self.gather(panels);
            self.alpha = Some(alpha.value());
        }
        self.left = self.left.saturating_sub(k);
        if self.left == 0 || self.filled + self.k_max.min(self.left) > self.gather_k {
            self.visit(engine, c)?;
        }
        if self.left == 0 {
            // More may come, as if the job began again.
            self.left = self.k_total;
        }
        Ok(())
    }

    /// Copies panels behind those that are gathered.
    fn gather<T: Element>(&mut self, (a, b): (View<'_, T>, View<'_, T>)) {
        let k = self.filled..self.filled + a.cols();
        // SAFETY: the memory is as large as these views, nobody else uses it, and no copy from it is under way: a visit
        // returns when all tiles are back.
        let (all_a, all_b) = unsafe {
            (
                std::slice::from_raw_parts_mut(self.a.cast().as_ptr(), self.rows * self.gather_k),
                std::slice::from_raw_parts_mut(self.b.cast().as_ptr(), self.gather_k * self.cols),
            )
        };
        let mut all_a = ViewMut::new(all_a, self.rows, self.gather_k, self.rows);
        copy_columns(a, block_mut(&mut all_a, 0..self.rows, k.clone()));
        let mut all_b = ViewMut::new(all_b, self.gather_k, self.cols, self.gather_k);
        copy_columns(b, block_mut(&mut all_b, k.clone(), 0..self.cols));
        self.filled = k.end;
    }

    /// Updates every tile of C with what is gathered. When it returns, `c` holds the result.
    ///
    /// While the GPU computes a tile, the one before goes back to the host and the next one comes.
    pub fn visit<T: Element>(&mut self, engine: &mut Engine, mut c: ViewMut<'_, T>) -> Outcome<()> {
        let Some(alpha) = self.alpha.take() else {
            return Ok(());
        };
        let mut before: Option<(usize, Tile)> = None;
        for (i, tile) in tiles(self.rows, self.cols, self.tile).enumerate() {
            let slot = i % SLOTS;
            // The slot is free: its tile before last is back on the host.
            let part = c.rb().block(tile.0.clone(), tile.1.clone());
            let place = self.tile_place::<T>(slot, &tile);
            engine.staging.upload(&engine.lanes.upload, part, place)?;
            engine.lanes.copied.record(&engine.lanes.upload)?;
            engine.lanes.compute.wait(&engine.lanes.copied)?;
            self.compute(engine, T::of(alpha), &tile, place)?;
            engine.lanes.computed[slot].record(&engine.lanes.compute)?;
            if let Some((slot, tile)) = before.replace((slot, tile)) {
                self.fetch(engine, slot, tile, &mut c)?;
            }
        }
        if let Some((slot, tile)) = before {
            self.fetch(engine, slot, tile, &mut c)?;
        }
        self.filled = 0;
        Ok(())
    }

    /// Brings a tile back once it is computed.
    fn fetch<T: Element>(
        &self,
        engine: &mut Engine,
        slot: usize,
        tile: Tile,
        c: &mut ViewMut<'_, T>,
    ) -> Outcome<()> {
        let place = self.tile_place::<T>(slot, &tile);
        engine.lanes.download.wait(&engine.lanes.computed[slot])?;
        let part = block_mut(c, tile.0, tile.1);
        engine.staging.download(&engine.lanes.download, place, part)
    }

    /// Queues the arithmetic of a tile, panel after panel.
    fn compute<T: Element>(
        &mut self,
        engine: &Engine,
        alpha: T,
        tile: &Tile,
        c: Place,
    ) -> Outcome<()> {
        let mut first = 0;
        while first < self.filled {
            let k = first..(first + self.step_k).min(self.filled);
            first = k.end;
            let slot = self.panels % SLOTS;
            self.panels += 1;
            let lanes = &engine.lanes;
            lanes.panels.wait(&lanes.panel_free[slot])?;
            let (a, b) = self.panel_places::<T>(slot);
            self.copy_panels::<T>(engine, tile, &k, (a, b))?;
            // Another event than the tiles' would be clearer and no better: a stream that waits keeps what was recorded
            // last when it was told to.
            lanes.copied.record(&lanes.panels)?;
            lanes.compute.wait(&lanes.copied)?;
            let product = Product {
                m: tile.0.len(),
                n: tile.1.len(),
                k: k.len(),
                a: (a.address, a.ld),
                b: (b.address, b.ld),
                c: (c.address, c.ld),
            };
            // SAFETY: tile and panels lie in the memory of the job, which is kept until the work is done.
            unsafe { engine.blas.multiply(alpha, &product) }?;
            lanes.panel_free[slot].record(&lanes.compute)?;
        }
        Ok(())
    }

    /// Queues copies of the parts of A and B that a tile needs.
    fn copy_panels<T: Element>(
        &self,
        engine: &Engine,
        tile: &Tile,
        k: &Range<usize>,
        (a, b): (Place, Place),
    ) -> Outcome<()> {
        let size = size_of::<T>();
        let copy =
            |start: NonNull<u8>, at: usize, ld: usize, place: Place, height, width| MatrixCopy {
                host: start.as_ptr().wrapping_add(at * size).cast(),
                host_pitch: ld * size,
                device: place.address,
                device_pitch: place.ld * size,
                width: width * size,
                height,
                to_host: false,
            };
        let (rows, cols) = tile;
        let at = k.start * self.rows + rows.start;
        let of_a = copy(self.a, at, self.rows, a, k.len(), rows.len());
        let at = cols.start * self.gather_k + k.start;
        let of_b = copy(self.b, at, self.gather_k, b, cols.len(), k.len());
        // SAFETY: both parts lie inside what is gathered, in pinned memory that nobody writes before the visit is over; the
        // panels on the GPU have room for a whole tile's.
        unsafe {
            engine.lanes.panels.copy(&of_a)?;
            engine.lanes.panels.copy(&of_b)
        }
    }

    fn tile_place<T>(&self, slot: usize, tile: &Tile) -> Place {
        self.place::<T>(slot * self.tile.0 * self.tile.1, tile.0.len())
    }

    /// Where the panels of A and B of that slot lie: behind the tiles.
    fn panel_places<T>(&self, slot: usize) -> (Place, Place) {
        let (p, q) = self.tile;
        let panels = SLOTS * p * q;
        let behind_a = panels + SLOTS * p * self.step_k;
        (
            self.place::<T>(panels + slot * p * self.step_k, p),
            self.place::<T>(behind_a + slot * q * self.step_k, self.step_k),
        )
    }

    fn place<T>(&self, element: usize, ld: usize) -> Place {
        Place {
            address: self.device + (element * size_of::<T>()) as u64,
            ld,
        }
    }
}
