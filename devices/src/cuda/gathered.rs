//! Panels of several updates that wait in pinned memory for a visit.

use super::check::CallResult;
use super::staging::copy_columns;
use super::stream::{DevicePlace, Stream};
use super::tiles::Tile;
use crate::contract::{JobShape, PanelPair, Scalar, ViewMut};
use std::ops::Range;
use std::ptr::NonNull;

/// Panels next to each other, all of one type: of A in a `rows × room` matrix, of B in a `room × cols` matrix.
#[derive(Debug)]
pub struct Gathered {
    a: NonNull<u8>,
    b: NonNull<u8>,
    rows: usize,
    cols: usize,
    /// The inner dimension that there is room for.
    room: usize,
    /// The inner dimension that is gathered so far.
    filled: usize,
}

// SAFETY: the memory belongs to the engine that owns this value, and one thread at a time uses both.
unsafe impl Send for Gathered {}

impl Gathered {
    /// Makes room for panels of the inner dimension `room`, for a C of this shape.
    ///
    /// # Safety
    /// `start` is pinned memory for `room·(rows + cols)` elements of the shape's size, aligned for every type; it stays
    /// allocated and has no other user while this value lives.
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

    /// Returns `true` if panels of inner dimension `k` fit behind the gathered ones.
    pub fn has_room_for(&self, k: usize) -> bool {
        self.filled + k <= self.room
    }

    /// Returns the inner dimension that is gathered so far.
    pub fn filled(&self) -> usize {
        self.filled
    }

    /// Forgets the gathered panels; no copy of them is under way.
    pub fn clear(&mut self) {
        self.filled = 0;
    }

    /// Copies panels behind the gathered ones, of which no copy is under way.
    pub fn add<T: Scalar>(&mut self, (a, b): PanelPair<'_, T>) {
        let k = self.filled..self.filled + a.cols();
        // SAFETY: the memory is as large as these views, has no other user, and no copy from it is under way. Every
        // pattern of bits is a value.
        let (all_a, all_b) = unsafe {
            (
                std::slice::from_raw_parts_mut(self.a.cast().as_ptr(), self.rows * self.room),
                std::slice::from_raw_parts_mut(self.b.cast().as_ptr(), self.room * self.cols),
            )
        };
        let all_a = ViewMut::new(all_a, self.rows, self.room, self.rows);
        copy_columns(a, all_a.into_block(0..self.rows, k.clone()));
        let all_b = ViewMut::new(all_b, self.room, self.cols, self.room);
        copy_columns(b, all_b.into_block(k.clone(), 0..self.cols));
        self.filled = k.end;
    }

    /// Queues copies of the parts of A and B that a tile needs to `a` and `b`.
    ///
    /// # Safety
    /// There is room for the parts. No panels are added before the copies are done.
    pub unsafe fn copy_to<T: Scalar>(
        &self,
        stream: &Stream,
        (rows, cols): &Tile,
        k: &Range<usize>,
        a: DevicePlace,
        b: DevicePlace,
    ) -> CallResult<()> {
        let from_a = host_address::<T>(self.a, k.start * self.rows + rows.start);
        let from_b = host_address::<T>(self.b, cols.start * self.room + k.start);
        // SAFETY: the host ends lie inside the gathered panels, in pinned memory; the rest is this function's contract.
        unsafe {
            stream.copy(from_a, self.rows, a, rows.len(), k.len(), false)?;
            stream.copy(from_b, self.room, b, k.len(), cols.len(), false)
        }
    }
}

/// Returns the address of element `at` of the panels that begin at `start`.
fn host_address<T>(start: NonNull<u8>, at: usize) -> *mut T {
    start.as_ptr().cast::<T>().wrapping_add(at)
}
