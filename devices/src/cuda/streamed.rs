//! Jobs whose C does not fit on the GPU: tiles of it visit, and are updated with panels that were gathered on the host, or
//! with those of a single update.

use super::blas::Product;
use super::check::Outcome;
use super::engine::Engine;
use super::gathered::Gathered;
use super::lanes::Lanes;
use super::plan::{Placement, SLOTS, TilePlan};
use super::staging::{Place, block_mut};
use super::tiles::{Tile, tiles};
use crate::worker::JobShape;
use crate::{Element, View, ViewMut};
use num_complex::Complex64;
use std::ops::Range;
use std::ptr::NonNull;

/// A streamed job: when tiles visit the GPU, and with what.
#[derive(Debug)]
pub struct Streamed {
    shape: JobShape,
    /// The panels of updates that wait for a visit, and their factor. Without it each update is a visit.
    gathered: Option<Gathered>,
    alpha: Option<Complex64>,
    /// Inner dimension that is still to come.
    left: usize,
    rooms: Rooms,
}

impl Streamed {
    /// No panels yet.
    ///
    /// # Panics
    /// When the plan is not one of a streamed job.
    ///
    /// # Safety
    /// `start` is pinned memory and `device` device memory, as large as the plan says (the slots come before `start`);
    /// they stay allocated and nobody else uses them while this value does.
    pub unsafe fn new(start: NonNull<u8>, shape: JobShape, plan: &TilePlan, device: u64) -> Self {
        let Placement::Streamed {
            tile_rows,
            tile_cols,
            gather_k,
            step_k,
        } = plan.placement
        else {
            panic!("only streamed jobs have tiles");
        };
        // SAFETY: by this function's contract; the plan has room for so much.
        let gathered = || unsafe { Gathered::new(start, &shape, gather_k) };
        Self {
            shape,
            gathered: (gather_k > 0).then(gathered),
            alpha: None,
            left: shape.depth.k_total,
            rooms: Rooms {
                device,
                element_bytes: shape.element.bytes(),
                tile: (tile_rows, tile_cols),
                step_k,
                panels: 0,
            },
        }
    }

    /// Takes the panels of an update. Where they are gathered, and there is no room for another update's, or none is to
    /// come, all tiles of C visit the GPU; where nothing is gathered, they do so now.
    pub fn update<T: Element>(
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
            if other_factor || !self.has_room_for(k) {
                self.visit(engine, c.reborrow())?;
            }
            let Some(gathered) = &mut self.gathered else {
                return self.rooms.visit(engine, alpha, Source::Update(panels), c);
            };
            gathered.add(panels);
            self.alpha = Some(alpha.value());
        }
        self.left = self.left.saturating_sub(k);
        if self.left == 0 || !self.has_room_for(self.shape.depth.k_max.min(self.left)) {
            self.visit(engine, c)?;
        }
        if self.left == 0 {
            // More may come, as if the job began again.
            self.left = self.shape.depth.k_total;
        }
        Ok(())
    }

    fn has_room_for(&self, k: usize) -> bool {
        let gathered = self.gathered.as_ref();
        gathered.is_some_and(|gathered| gathered.has_room_for(k))
    }

    /// Updates every tile of C with what is gathered. When it returns, `c` holds the result.
    pub fn visit<T: Element>(&mut self, engine: &mut Engine, c: ViewMut<'_, T>) -> Outcome<()> {
        let (Some(gathered), Some(alpha)) = (&mut self.gathered, self.alpha.take()) else {
            return Ok(());
        };
        self.rooms
            .visit(engine, T::of(alpha), Source::Gathered(gathered), c)?;
        gathered.clear();
        Ok(())
    }
}

/// The panels that a visit multiplies with.
#[derive(Debug)]
enum Source<'p, T> {
    /// All that are gathered: the GPU reads them where they are.
    Gathered(&'p Gathered),
    /// Those of one update, which go through the staging slots.
    Update((View<'p, T>, View<'p, T>)),
}

impl<T: Element> Source<'_, T> {
    /// Their inner dimension.
    fn k(&self) -> usize {
        match self {
            Self::Gathered(gathered) => gathered.filled(),
            Self::Update((a, _)) => a.cols(),
        }
    }

    /// Queues copies of the parts that a tile needs to `a` and `b`, which have room for them.
    fn bring(
        &self,
        engine: &mut Engine,
        tile: &Tile,
        k: &Range<usize>,
        (a, b): (Place, Place),
    ) -> Outcome<()> {
        let Engine { staging, lanes, .. } = engine;
        match self {
            Self::Gathered(gathered) => {
                for copy in gathered.copies::<T>(tile, k, a, b) {
                    // SAFETY: the host end lies inside what is gathered, in pinned memory that nobody writes before the
                    // visit is over; the panels on the GPU have room for a whole tile's.
                    unsafe { lanes.panels.copy(&copy) }?;
                }
                Ok(())
            }
            Self::Update((all_a, all_b)) => {
                let (rows, cols) = tile.clone();
                staging.upload(&lanes.panels, all_a.block(rows, k.clone()), a)?;
                staging.upload(&lanes.panels, all_b.block(k.clone(), cols), b)
            }
        }
    }
}

/// The rooms on the GPU for tiles and for panels.
#[derive(Debug)]
struct Rooms {
    /// Where they begin.
    device: u64,
    element_bytes: usize,
    /// Rows and columns of a tile.
    tile: (usize, usize),
    /// Inner dimension of a panel.
    step_k: usize,
    /// Panels that were used so far, which says whose turn it is.
    panels: usize,
}

impl Rooms {
    /// Updates every tile of C. When it returns, `c` holds the result, and nothing is read any more.
    ///
    /// While the GPU computes a tile, the one before goes back to the host and the next one comes.
    fn visit<T: Element>(
        &mut self,
        engine: &mut Engine,
        alpha: T,
        source: Source<'_, T>,
        mut c: ViewMut<'_, T>,
    ) -> Outcome<()> {
        let mut before: Option<(usize, Tile)> = None;
        for (i, tile) in tiles(c.rows(), c.cols(), self.tile).enumerate() {
            let slot = i % SLOTS;
            // The slot is free: its tile before last is back on the host.
            let part = c.rb().block(tile.0.clone(), tile.1.clone());
            let place = self.tile_place(slot, &tile);
            engine.staging.upload(&engine.lanes.upload, part, place)?;
            engine.lanes.copied.record(&engine.lanes.upload)?;
            engine.lanes.compute.wait(&engine.lanes.copied)?;
            self.compute(engine, alpha, &source, &tile, place)?;
            engine.lanes.computed[slot].record(&engine.lanes.compute)?;
            if let Some((slot, tile)) = before.replace((slot, tile)) {
                self.fetch(engine, slot, tile, &mut c)?;
            }
        }
        match before {
            Some((slot, tile)) => self.fetch(engine, slot, tile, &mut c),
            None => Ok(()),
        }
    }

    /// Brings a tile back once it is computed.
    fn fetch<T: Element>(
        &self,
        engine: &mut Engine,
        slot: usize,
        tile: Tile,
        c: &mut ViewMut<'_, T>,
    ) -> Outcome<()> {
        let place = self.tile_place(slot, &tile);
        engine.lanes.download.wait(&engine.lanes.computed[slot])?;
        let part = block_mut(c, tile.0, tile.1);
        engine.staging.download(&engine.lanes.download, place, part)
    }

    /// Queues the arithmetic of a tile, panel after panel.
    fn compute<T: Element>(
        &mut self,
        engine: &mut Engine,
        alpha: T,
        source: &Source<'_, T>,
        tile: &Tile,
        c: Place,
    ) -> Outcome<()> {
        for first in (0..source.k()).step_by(self.step_k) {
            let k = first..(first + self.step_k).min(source.k());
            let slot = self.panels % SLOTS;
            self.panels += 1;
            let Lanes {
                panels, panel_free, ..
            } = &engine.lanes;
            panels.wait(&panel_free[slot])?;
            let (a, b) = self.panel_places(slot);
            source.bring(engine, tile, &k, (a, b))?;
            let lanes = &engine.lanes;
            // Another event than the tiles' would be clearer and no better: a stream that waits keeps what was recorded
            // last when it was told to.
            lanes.copied.record(&lanes.panels)?;
            lanes.compute.wait(&lanes.copied)?;
            let product = Product {
                m: tile.0.len(),
                n: tile.1.len(),
                k: k.len(),
                a,
                b,
                c,
            };
            // SAFETY: tile and panels lie in the memory of the job, which is kept until the work is done.
            unsafe { engine.multiply(alpha, &product) }?;
            let lanes = &engine.lanes;
            lanes.panel_free[slot].record(&lanes.compute)?;
        }
        Ok(())
    }

    fn tile_place(&self, slot: usize, tile: &Tile) -> Place {
        self.place(slot * self.tile.0 * self.tile.1, tile.0.len())
    }

    /// Where the panels of A and B of that slot lie: behind the tiles.
    fn panel_places(&self, slot: usize) -> (Place, Place) {
        let (p, q) = self.tile;
        let panels = SLOTS * p * q;
        let behind_a = panels + SLOTS * p * self.step_k;
        (
            self.place(panels + slot * p * self.step_k, p),
            self.place(behind_a + slot * q * self.step_k, self.step_k),
        )
    }

    fn place(&self, element: usize, ld: usize) -> Place {
        Place {
            address: self.device + (element * self.element_bytes) as u64,
            ld,
        }
    }
}
