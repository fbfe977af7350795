//! The memory of a matrix: its own, or the program's.

use isochron_devices::{View, ViewMut};

use super::Frame;

/// The elements of a rank's part, with the room around it.
#[derive(Debug)]
pub(super) enum MatrixMemory<'m, T> {
    /// The matrix's own.
    Own(Vec<T>),
    /// The program's.
    Lent(ViewMut<'m, T>),
    /// The program's, to be read alone.
    Shown(View<'m, T>),
}

impl<'m, T> MatrixMemory<'m, T> {
    /// Returns all of the memory.
    pub(super) fn view(&self, frame: &Frame) -> View<'_, T> {
        let (rows, cols, ld) = frame.memory_shape();
        match self {
            Self::Own(data) => View::new(data, rows, cols, ld),
            Self::Lent(view) => view.rb(),
            Self::Shown(view) => *view,
        }
    }

    /// Returns all of the memory, to be written.
    ///
    /// # Panics
    /// If it may only be read.
    pub(super) fn view_mut(&mut self, frame: &Frame) -> ViewMut<'_, T> {
        let (rows, cols, ld) = frame.memory_shape();
        match self {
            Self::Own(data) => ViewMut::new(data, rows, cols, ld),
            Self::Lent(view) => view.reborrow(),
            // Only A and B of a product are shown, and no product writes them.
            Self::Shown(_) => panic!("memory that is shown is not written"),
        }
    }

    /// Returns the memory that the program has lent to be written.
    pub(super) fn into_lent(self) -> Option<ViewMut<'m, T>> {
        match self {
            Self::Lent(view) => Some(view),
            Self::Own(_) | Self::Shown(_) => None,
        }
    }
}
