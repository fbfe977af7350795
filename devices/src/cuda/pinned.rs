//! Matrices in pinned host memory, for comparisons: those of users are in ordinary memory.

use super::engine::Engine;
use super::memory::PinnedMemory;
use crate::{DeviceError, Element};
use std::marker::PhantomData;

/// Elements in pinned host memory, which a GPU reads and writes without a copy in between.
#[derive(Debug)]
pub struct PinnedVec<T> {
    memory: Option<PinnedMemory>,
    len: usize,
    elements: PhantomData<T>,
}

impl<T: Element> PinnedVec<T> {
    /// A copy of `values` in memory that is pinned for the GPU of `engine`, and for all others.
    ///
    /// # Errors
    /// [`DeviceError::Cuda`] when there is no such memory.
    pub fn copy_of(engine: &Engine, values: &[T]) -> Result<Self, DeviceError> {
        let bytes = size_of_val(values) as u64;
        let pin = || {
            let _bound = engine.context.bind()?;
            PinnedMemory::new(&engine.context, bytes)
        };
        let memory = (bytes > 0).then(pin).transpose();
        let memory = memory.map_err(|error| error.on(&engine.name))?;
        if let Some(memory) = &memory {
            let start = memory.start().as_ptr().cast::<T>();
            // SAFETY: the memory is as large as `values`, aligned for every element type, and nobody else's.
            unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), start, values.len()) };
        }
        Ok(Self {
            memory,
            len: values.len(),
            elements: PhantomData,
        })
    }

    fn start(&self) -> *mut T {
        let start = self.memory.as_ref().map(|memory| memory.start().as_ptr());
        start.map_or(std::ptr::NonNull::dangling().as_ptr(), <*mut u8>::cast)
    }

    /// The elements.
    #[must_use]
    pub fn as_slice(&self) -> &[T] {
        // SAFETY: `copy_of` has written so many elements there, which live as long as this value.
        unsafe { std::slice::from_raw_parts(self.start(), self.len) }
    }

    /// The elements, to be changed.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        // SAFETY: as above, and the borrow keeps others away.
        unsafe { std::slice::from_raw_parts_mut(self.start(), self.len) }
    }
}
