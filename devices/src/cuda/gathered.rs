//! Panels of several updates in pinned memory, where they wait for a visit.

use super::staging::{Place, block_mut, copy_columns};
use super::stream::MatrixCopy;
use super::tiles::Tile;
use crate::worker::JobShape;
use crate::{Element, View, ViewMut};
use std::ops::Range;
use std::ptr::NonNull;

/// Panels side by side, all of one type: those of A in a matrix of `rows × room`, those of B in one of `room × cols`.
#[derive(Debug)]
pub struct Gathered {
    a: NonNull<u8>,
    b: NonNull<u8>,
    rows: usize,
    cols: usize,
    /// Inner dimension that there is room for, and that is filled so far.
    room: usize,
    filled: usize,
}

// SAFETY: the memory belongs to the engine that owns this value, and one thread at a time uses both.
unsafe impl Send for Gathered {}

impl Gathered {
    /// No panels yet, and room for those of a matrix of this shape with the inner dimension `room`.
    ///
    /// # Safety
    /// `start` is pinned memory for `room·(rows + cols)` elements of the shape's size, aligned for every type; it stays
    /// allocated and nobody else uses it while this value does.
    pub unsafe fn new(start: NonNull<u8>, shape: &JobShape, room: usize) -> Self {
        let (rows, cols) = (shape.rows, shape.cols);
        Self {
            a: start,
            // SAFETY: there is room for both.
            b: unsafe { start.add(rows * room * shape.element.bytes()) },
            rows,
            cols,
            room,
            filled: 0,
        }
    }

    /// Whether another `k` fit behind what is gathered.
    pub fn has_room_for(&self, k: usize) -> bool {
        self.filled + k <= self.room
    }

    /// Inner dimension that is gathered so far.
    pub fn filled(&self) -> usize {
        self.filled
    }

    /// Forgets what is gathered; no copy from it is under way.
    pub fn clear(&mut self) {
        self.filled = 0;
    }

    /// Copies panels behind those that are gathered, of which no copy is under way.
    pub fn add<T: Element>(&mut self, (a, b): (View<'_, T>, View<'_, T>)) {
        let k = self.filled..self.filled + a.cols();
        // SAFETY: the memory is as large as these views, nobody else uses it, and no copy from it is under way. Every
        // pattern of bits is a value.
        let (all_a, all_b) = unsafe {
            (
                std::slice::from_raw_parts_mut(self.a.cast().as_ptr(), self.rows * self.room),
                std::slice::from_raw_parts_mut(self.b.cast().as_ptr(), self.room * self.cols),
            )
        };
        let mut all_a = ViewMut::new(all_a, self.rows, self.room, self.rows);
        copy_columns(a, block_mut(&mut all_a, 0..self.rows, k.clone()));
        let mut all_b = ViewMut::new(all_b, self.room, self.cols, self.room);
        copy_columns(b, block_mut(&mut all_b, k.clone(), 0..self.cols));
        self.filled = k.end;
    }

    /// The copies that bring the parts of A and B that a tile needs to `a` and `b`. The host ends lie inside what is
    /// gathered.
    pub fn copies<T: Element>(
        &self,
        (rows, cols): &Tile,
        k: &Range<usize>,
        a: Place,
        b: Place,
    ) -> [MatrixCopy; 2] {
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
        let at_a = k.start * self.rows + rows.start;
        let at_b = cols.start * self.room + k.start;
        [
            copy(self.a, at_a, self.rows, a, k.len(), rows.len()),
            copy(self.b, at_b, self.room, b, cols.len(), k.len()),
        ]
    }
}
