//! Jobs whose C does not fit on the GPU: its tiles visit the GPU. They are updated there with panels gathered on the
//! host, or with the panels of a single update.

use super::blas::GemmProduct;
use super::check::CallResult;
use super::gathered::Gathered;
use super::gpu::OpenGpu;
use super::lanes::Lanes;
use super::plan::{Placement, SLOTS, TilePlan};
use super::stream::DevicePlace;
use super::tiles::{Tile, cut_into_tiles};
use crate::contract::{JobShape, PanelPair, Scalar, ViewMut};
use num_complex::Complex64;
use std::ops::Range;
use std::ptr::NonNull;

/// A streamed job: it decides when the tiles of C visit the GPU.
#[derive(Debug)]
pub struct Streamed {
    shape: JobShape,
    /// The panels that wait for a visit; `None` if each update is a visit.
    gathered: Option<Gathered>,
    /// The factor of the gathered panels; `None` if there are none.
    alpha: Option<Complex64>,
    /// The inner dimension of the updates to come.
    left: usize,
    rooms: Rooms,
}

impl Streamed {
    /// Makes a job without panels.
    ///
    /// # Panics
    /// If the plan is not one of a streamed job.
    ///
    /// # Safety
    /// `start` is pinned memory and `device` device memory, as large as the plan says (the slots come before `start`).
    /// They stay allocated and have no other user while this value lives.
    pub unsafe fn new(start: NonNull<u8>, shape: JobShape, plan: &TilePlan, device: u64) -> Self {
        let Placement::Streamed(tiles) = plan.placement else {
            panic!("only streamed jobs have tiles");
        };
        Self {
            shape,
            gathered: (tiles.gather_k > 0).then(|| {
                // SAFETY: by this function's contract; the plan has room for panels of this inner dimension.
                unsafe { Gathered::new(start, &shape, tiles.gather_k) }
            }),
            alpha: None,
            left: shape.depth.k_total,
            rooms: Rooms {
                device,
                element_bytes: shape.element.bytes(),
                tile_rows: tiles.rows,
                tile_cols: tiles.cols,
                step_k: tiles.step_k,
                panels: 0,
            },
        }
    }

    /// Takes the panels of an update. If panels are gathered, all tiles of C visit the GPU once there is no room for
    /// another update, or no update is to come; otherwise they visit it now.
    pub fn update<T: Scalar>(
        &mut self,
        gpu: &mut OpenGpu,
        alpha: T,
        panels: PanelPair<'_, T>,
        mut c: ViewMut<'_, T>,
    ) -> CallResult<()> {
        let k = panels.0.cols();
        if k > 0 && alpha != T::ZERO {
            // Gathered panels are multiplied at once, so they have one factor.
            let other_factor = self.alpha.is_some_and(|factor| factor != alpha.value());
            // Updates narrower than k_max may leave too little room for an update beyond the announced ones.
            if other_factor || !self.has_room_for(k) {
                self.visit(gpu, c.reborrow())?;
            }
            let Some(gathered) = &mut self.gathered else {
                return self.rooms.visit(gpu, alpha, VisitPanels::Update(panels), c);
            };
            gathered.add(panels);
            self.alpha = Some(alpha.value());
        }
        self.left = self.left.saturating_sub(k);
        if self.left == 0 || !self.has_room_for(self.shape.depth.k_max.min(self.left)) {
            self.visit(gpu, c)?;
        }
        if self.left == 0 {
            // More updates may come, as if the job began again.
            self.left = self.shape.depth.k_total;
        }
        Ok(())
    }

    fn has_room_for(&self, k: usize) -> bool {
        let gathered = self.gathered.as_ref();
        gathered.is_some_and(|gathered| gathered.has_room_for(k))
    }

    /// Updates every tile of C with the gathered panels. When it returns, `c` holds the result.
    pub fn visit<T: Scalar>(&mut self, gpu: &mut OpenGpu, c: ViewMut<'_, T>) -> CallResult<()> {
        let (Some(gathered), Some(alpha)) = (&mut self.gathered, self.alpha.take()) else {
            return Ok(());
        };
        self.rooms.visit(gpu, T::of(alpha), VisitPanels::Gathered(gathered), c)?;
        gathered.clear();
        Ok(())
    }
}

/// The panels that a visit multiplies with.
#[derive(Debug)]
enum VisitPanels<'p, T> {
    /// All gathered panels: the GPU reads them in their pinned memory.
    Gathered(&'p Gathered),
    /// The panels of one update, which go through the staging slots.
    Update(PanelPair<'p, T>),
}

impl<T: Scalar> VisitPanels<'_, T> {
    /// Returns their inner dimension.
    fn k(&self) -> usize {
        match self {
            Self::Gathered(gathered) => gathered.filled(),
            Self::Update((a, _)) => a.cols(),
        }
    }

    /// Queues copies of the parts that a tile needs to `a` and `b`, which have room for them.
    fn copy_parts(
        &self,
        gpu: &mut OpenGpu,
        tile: &Tile,
        k: &Range<usize>,
        a: DevicePlace,
        b: DevicePlace,
    ) -> CallResult<()> {
        let OpenGpu { staging, lanes, .. } = gpu;
        match self {
            Self::Gathered(gathered) => {
                // SAFETY: the panels are not written before the visit is over; `a` and `b` have room for a whole
                // tile's.
                unsafe { gathered.copy_to::<T>(&lanes.panels, tile, k, a, b) }
            }
            Self::Update((all_a, all_b)) => {
                let (rows, cols) = tile.clone();
                staging.upload(&lanes.panels, all_a.block(rows, k.clone()), a)?;
                staging.upload(&lanes.panels, all_b.block(k.clone(), cols), b)
            }
        }
    }
}

/// The memory of the GPU for tiles and for panels.
#[derive(Debug)]
struct Rooms {
    /// Its first address.
    device: u64,
    element_bytes: usize,
    tile_rows: usize,
    tile_cols: usize,
    /// Inner dimension of a panel.
    step_k: usize,
    /// Number of panels used so far; it tells whose turn it is.
    panels: usize,
}

impl Rooms {
    /// Updates every tile of C. When it returns, `c` holds the result, and no panel is read any more.
    ///
    /// While the GPU computes a tile, the previous one returns to the host and the next one arrives.
    fn visit<T: Scalar>(
        &mut self,
        gpu: &mut OpenGpu,
        alpha: T,
        source: VisitPanels<'_, T>,
        mut c: ViewMut<'_, T>,
    ) -> CallResult<()> {
        let mut before: Option<(usize, Tile)> = None;
        let tiles = cut_into_tiles(c.rows(), c.cols(), self.tile_rows, self.tile_cols);
        for (i, tile) in tiles.enumerate() {
            let slot = i % SLOTS;
            // The slot is free: its previous tile is back on the host.
            let part = c.rb().block(tile.0.clone(), tile.1.clone());
            let place = self.tile_place(slot, &tile);
            gpu.staging.upload(&gpu.lanes.upload, part, place)?;
            gpu.lanes.copied.record(&gpu.lanes.upload)?;
            gpu.lanes.compute.wait(&gpu.lanes.copied)?;
            self.compute_tile(gpu, alpha, &source, &tile, place)?;
            gpu.lanes.computed[slot].record(&gpu.lanes.compute)?;
            if let Some((slot, tile)) = before.replace((slot, tile)) {
                self.fetch_tile(gpu, slot, tile, &mut c)?;
            }
        }
        match before {
            Some((slot, tile)) => self.fetch_tile(gpu, slot, tile, &mut c),
            None => Ok(()),
        }
    }

    /// Copies a tile back once it is computed.
    fn fetch_tile<T: Scalar>(
        &self,
        gpu: &mut OpenGpu,
        slot: usize,
        tile: Tile,
        c: &mut ViewMut<'_, T>,
    ) -> CallResult<()> {
        let place = self.tile_place(slot, &tile);
        gpu.lanes.download.wait(&gpu.lanes.computed[slot])?;
        let part = c.reborrow().into_block(tile.0, tile.1);
        gpu.staging.download(&gpu.lanes.download, place, part)
    }

    /// Queues the arithmetic of a tile, panel after panel.
    fn compute_tile<T: Scalar>(
        &mut self,
        gpu: &mut OpenGpu,
        alpha: T,
        source: &VisitPanels<'_, T>,
        tile: &Tile,
        c: DevicePlace,
    ) -> CallResult<()> {
        for first in (0..source.k()).step_by(self.step_k) {
            let k = first..(first + self.step_k).min(source.k());
            let slot = self.panels % SLOTS;
            self.panels += 1;
            let Lanes { panels, panel_free, .. } = &gpu.lanes;
            panels.wait(&panel_free[slot])?;
            let (a, b) = self.panel_places(slot);
            source.copy_parts(gpu, tile, &k, a, b)?;
            let lanes = &gpu.lanes;
            // The event of the tiles serves panels too: a waiting stream keeps the record that was the last one when
            // the wait was queued.
            lanes.copied.record(&lanes.panels)?;
            lanes.compute.wait(&lanes.copied)?;
            let product = GemmProduct { m: tile.0.len(), n: tile.1.len(), k: k.len(), a, b, c };
            // SAFETY: tile and panels lie in the memory of the job, which is kept until the work is done.
            unsafe { gpu.multiply(alpha, &product) }?;
            let lanes = &gpu.lanes;
            lanes.panel_free[slot].record(&lanes.compute)?;
        }
        Ok(())
    }

    fn tile_place(&self, slot: usize, tile: &Tile) -> DevicePlace {
        self.place_at(slot * self.tile_rows * self.tile_cols, tile.0.len())
    }

    /// Returns the places of the panels of A and B in a slot: behind the tiles.
    fn panel_places(&self, slot: usize) -> (DevicePlace, DevicePlace) {
        let (p, q) = (self.tile_rows, self.tile_cols);
        let panels = SLOTS * p * q;
        let behind_a = panels + SLOTS * p * self.step_k;
        (
            self.place_at(panels + slot * p * self.step_k, p),
            self.place_at(behind_a + slot * q * self.step_k, self.step_k),
        )
    }

    fn place_at(&self, element: usize, ld: usize) -> DevicePlace {
        DevicePlace { address: self.device + (element * self.element_bytes) as u64, ld }
    }
}
