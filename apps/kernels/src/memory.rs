//! The memory of a kernel's data, counted before it is taken.

use isochron_kernel::KernelError;

/// Bytes that a kernel may still take.
pub struct MemoryCount(u64);

impl MemoryCount {
    /// Starts with `bytes`.
    pub fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Makes `rows · cols` elements by their index.
    ///
    /// # Errors
    /// Returns [`KernelError::NoMemory`] if they do not fit.
    pub fn fill<T>(
        &mut self,
        rows: usize,
        cols: usize,
        element: impl FnMut(usize) -> T,
    ) -> Result<Vec<T>, KernelError> {
        let count = rows.checked_mul(cols).ok_or(KernelError::NoMemory)?;
        let bytes = (count as u64).checked_mul(size_of::<T>() as u64);
        let left = bytes.and_then(|bytes| self.0.checked_sub(bytes));
        self.0 = left.ok_or(KernelError::NoMemory)?;
        let mut elements = Vec::new();
        elements.try_reserve_exact(count).map_err(|_| KernelError::NoMemory)?;
        elements.extend((0..count).map(element));
        Ok(elements)
    }
}

/// Returns a number of units as an index.
///
/// # Errors
/// Returns [`KernelError::NoMemory`] if no memory could hold them.
pub fn count_units(d: u64) -> Result<usize, KernelError> {
    usize::try_from(d).map_err(|_| KernelError::NoMemory)
}

/// Returns element `index` of the kernels' data: numbers between 0 and 1 that repeat late.
pub fn make_element(index: usize) -> f64 {
    (index % 1021) as f64 / 1021.0
}
