//! The memory of a matrix: its own, or the program's.

/// The elements of a rank's part.
#[derive(Debug)]
pub(super) enum MatrixMemory<'m, T> {
    /// The matrix's own.
    Own(Vec<T>),
    /// The program's.
    Lent(&'m mut [T]),
    /// The program's, to be read alone.
    Shown(&'m [T]),
}

impl<'m, T> MatrixMemory<'m, T> {
    /// Returns the elements.
    pub(super) fn as_slice(&self) -> &[T] {
        match self {
            Self::Own(data) => data,
            Self::Lent(data) => data,
            Self::Shown(data) => data,
        }
    }

    /// Returns the elements, to be written.
    ///
    /// # Panics
    /// If they may only be read.
    pub(super) fn as_mut_slice(&mut self) -> &mut [T] {
        match self {
            Self::Own(data) => data,
            Self::Lent(data) => data,
            // Only A and B of a product are shown, and no product writes them.
            Self::Shown(_) => panic!("memory that is shown is not written"),
        }
    }

    /// Returns the memory that the program has lent to be written.
    pub(super) fn into_lent(self) -> Option<&'m mut [T]> {
        match self {
            Self::Lent(data) => Some(data),
            Self::Own(_) | Self::Shown(_) => None,
        }
    }
}
