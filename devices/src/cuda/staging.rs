//! Copies between ordinary host memory and the GPU: through slots of pinned memory, of which one is filled or emptied
//! while the other one is copied.

use super::check::CallResult;
use super::context::Context;
use super::plan::SLOTS;
use super::stream::{DevicePlace, Event, Stream};
use super::tiles::{Tile, cut_into_tiles};
use crate::contract::{Scalar, View, ViewMut};
use rayon::prelude::*;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Instant;

/// The pinned slots.
#[derive(Debug)]
pub struct Staging {
    start: NonNull<u8>,
    /// Bytes of a slot.
    bytes: usize,
    /// Events that are reached when the copy from or to the slot is done.
    done: [Event; SLOTS],
    next: usize,
}

// SAFETY: the memory belongs to the `OpenGpu` that owns this value, and one thread at a time uses both.
unsafe impl Send for Staging {}

impl Staging {
    /// Makes slots, in a bound context; [`Staging::place`] puts them into memory later.
    pub fn new(context: &Arc<Context>) -> CallResult<Self> {
        Ok(Self {
            start: NonNull::dangling(),
            bytes: 0,
            done: [Event::new(context)?, Event::new(context)?],
            next: 0,
        })
    }

    /// Uses `SLOTS` times `bytes` bytes of pinned memory at `start`, which is aligned for every type of elements.
    ///
    /// # Safety
    /// The memory stays allocated, and has no other user, until the next call or the end of all work. No copy to or
    /// from the slots used before is under way.
    pub unsafe fn place(&mut self, start: NonNull<u8>, bytes: usize) {
        self.start = start;
        self.bytes = bytes;
    }

    /// Queues copies of `from` to device memory; returns when all of it has been read.
    pub fn upload<T: Scalar>(
        &mut self,
        stream: &Stream,
        from: View<'_, T>,
        to: DevicePlace,
    ) -> CallResult<()> {
        for (rows, cols) in cut_into_pieces(from.rows(), from.cols(), self.slot_elements::<T>()) {
            let slot = self.next_slot();
            let begin = Instant::now();
            // The last copy from or to this slot must be done before the host writes it.
            self.done[slot].synchronize()?;
            let free = Instant::now();
            let piece = from.block(rows.clone(), cols.clone());
            copy_columns(piece, self.view_slot(slot, rows.len(), cols.len()));
            // A piece takes a good part of a millisecond; reading the clock twice costs far less.
            tracing::trace!(
                name: "piece_copied",
                waited_s = (free - begin).as_secs_f64(),
                copied_s = free.elapsed().as_secs_f64(),
                "a piece is in pinned memory"
            );
            // SAFETY: the slot is pinned and holds the piece; it is not touched again before `done` is reached. `to`
            // holds the whole of `from`.
            unsafe { self.copy_piece::<T>(stream, slot, &(rows, cols), to, false) }?;
        }
        Ok(())
    }

    /// Copies device memory to `to`; returns when all of it has been written.
    pub fn download<T: Scalar>(
        &mut self,
        stream: &Stream,
        from: DevicePlace,
        mut to: ViewMut<'_, T>,
    ) -> CallResult<()> {
        let mut waiting: Option<(usize, Tile)> = None;
        for tile in cut_into_pieces(to.rows(), to.cols(), self.slot_elements::<T>()) {
            let slot = self.next_slot();
            self.done[slot].synchronize()?;
            // SAFETY: the slot is pinned and large enough; it is not touched before `done` is reached. `from` holds the
            // whole of `to`.
            unsafe { self.copy_piece::<T>(stream, slot, &tile, from, true) }?;
            // The previous piece is unpacked while this one is copied.
            if let Some((slot, tile)) = waiting.replace((slot, tile)) {
                self.unpack(slot, tile, &mut to)?;
            }
        }
        match waiting {
            Some((slot, tile)) => self.unpack(slot, tile, &mut to),
            None => Ok(()),
        }
    }

    fn unpack<T: Scalar>(
        &mut self,
        slot: usize,
        (rows, cols): Tile,
        to: &mut ViewMut<'_, T>,
    ) -> CallResult<()> {
        self.done[slot].synchronize()?;
        let packed = self.view_slot(slot, rows.len(), cols.len());
        copy_columns(packed.rb(), to.reborrow().into_block(rows, cols));
        Ok(())
    }

    /// Returns the slot whose turn it is.
    fn next_slot(&mut self) -> usize {
        self.next = (self.next + 1) % SLOTS;
        self.next
    }

    /// Returns the number of elements that a slot holds.
    fn slot_elements<T>(&self) -> usize {
        self.bytes / size_of::<T>()
    }

    fn slot_start<T>(&self, slot: usize) -> *mut T {
        self.start.as_ptr().cast::<T>().wrapping_add(slot * self.slot_elements::<T>())
    }

    /// Returns a slot as a packed matrix; no copy from or to it is under way.
    fn view_slot<T: Scalar>(&mut self, slot: usize, rows: usize, cols: usize) -> ViewMut<'_, T> {
        debug_assert!(rows * cols <= self.slot_elements::<T>(), "a piece is larger than a slot");
        // SAFETY: `place` was given this memory, the caller has waited for the copies of this slot, and the borrow of
        // `self` excludes other users. Every pattern of bits is a value.
        let data = unsafe { std::slice::from_raw_parts_mut(self.slot_start(slot), rows * cols) };
        ViewMut::new(data, rows, cols, rows.max(1))
    }

    /// Queues the copy of a piece between a slot and its part of the matrix at `place`, and `done` behind it.
    ///
    /// # Safety
    /// The conditions of [`Stream::copy`].
    unsafe fn copy_piece<T: Scalar>(
        &self,
        stream: &Stream,
        slot: usize,
        (rows, cols): &Tile,
        place: DevicePlace,
        to_host: bool,
    ) -> CallResult<()> {
        let host = self.slot_start::<T>(slot);
        let device = place.at::<T>(rows.start, cols.start);
        let (rows, cols) = (rows.len(), cols.len());
        // SAFETY: by this function's contract. The slot holds the piece packed: its leading dimension is `rows`.
        unsafe { stream.copy(host, rows, device, rows, cols, to_host) }?;
        self.done[slot].record(stream)
    }
}

/// Cuts a matrix into pieces of at most `most` elements: whole columns if they fit, parts of one otherwise.
fn cut_into_pieces(rows: usize, cols: usize, most: usize) -> impl Iterator<Item = Tile> {
    let height = rows.min(most).max(1);
    let width = (most / height).clamp(1, cols.max(1));
    cut_into_tiles(rows, cols, height, width)
}

/// Columns of at least this many elements are copied by several threads each.
const LONG_COLUMN: usize = 1 << 15;

/// Copies column by column, with all threads of the pool that the caller is a thread of: one core alone does not fill a
/// fast link. If there are fewer columns than threads, all threads share each column.
pub fn copy_columns<T: Scalar>(from: View<'_, T>, mut to: ViewMut<'_, T>) {
    if from.is_empty() {
        return;
    }
    let threads = rayon::current_thread_index().map_or(1, |_| rayon::current_num_threads());
    if threads > 1 && from.cols() < threads && from.rows() >= LONG_COLUMN {
        return copy_along_columns(from, to, threads);
    }
    if threads == 1 || from.cols() < threads {
        return to.copy_from(from);
    }
    rayon::scope(|scope| {
        let mut first = 0;
        for mut to in to.split_columns(crate::contract::even_widths(from.cols(), threads)) {
            let columns = first..first + to.cols();
            first = columns.end;
            scope.spawn(move |_| to.copy_from(from.columns(columns)));
        }
    });
}

/// Copies one column after the other, each with `threads` threads.
fn copy_along_columns<T: Scalar>(from: View<'_, T>, mut to: ViewMut<'_, T>, threads: usize) {
    let part = from.rows().div_ceil(threads);
    for j in 0..from.cols() {
        to.col_mut(j)
            .par_chunks_mut(part)
            .zip(from.col(j).par_chunks(part))
            .for_each(|(to, from)| to.copy_from_slice(from));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_tile_the_matrix(rows in 0usize..40, cols in 0usize..40, most in 1usize..100) {
            let mut seen = vec![0; rows * cols];
            for (r, c) in cut_into_pieces(rows, cols, most) {
                prop_assert!(r.len() * c.len() <= most && !r.is_empty() && !c.is_empty());
                for j in c {
                    for i in r.clone() {
                        seen[j * rows + i] += 1;
                    }
                }
            }
            prop_assert!(seen.iter().all(|&n| n == 1));
        }
    }

    #[test]
    fn few_long_columns_are_copied_by_all_threads() {
        let (rows, cols, ld) = (LONG_COLUMN + 5, 2, LONG_COLUMN + 9);
        let from: Vec<f64> = (0..ld * cols).map(|at| at as f64).collect();
        let mut to = vec![-1.0; ld * cols];
        rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap().install(|| {
            let to = ViewMut::new(&mut to, rows, cols, ld);
            copy_columns(View::new(&from, rows, cols, ld), to);
        });
        for (at, (to, from)) in to.iter().zip(&from).enumerate() {
            let is_inside = at % ld < rows;
            assert_eq!(*to, if is_inside { *from } else { -1.0 }, "at {at}");
        }
    }

    #[test]
    fn parts_are_copied_in_place() {
        let from: Vec<f64> = (0..6).map(f64::from).collect();
        let mut to = vec![-1.0; 5 * 4];
        let part = ViewMut::new(&mut to, 5, 4, 5).into_block(1..4, 2..4);
        copy_columns(View::new(&from, 3, 2, 3), part);
        assert_eq!(&to[10..], &[-1.0, 0.0, 1.0, 2.0, -1.0, -1.0, 3.0, 4.0, 5.0, -1.0]);
    }
}
