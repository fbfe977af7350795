//! The operands of measured updates.

use crate::memory::memory_available_bytes;
use crate::team::DeviceTeam;
use crate::worker::JobShape;
use crate::{DeviceError, Element, ViewMut, leading_dimension, try_reserve_matrix};
use num_complex::Complex64;

/// The operands of a measured update, kept from one measurement to the next: most measurements find their memory in place.
#[derive(Debug, Default)]
pub struct UpdateOperands<T = f64> {
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) k: usize,
    pub(super) a: Vec<T>,
    pub(super) b: Vec<T>,
    pub(super) c: Vec<T>,
}

impl<T: Element> UpdateOperands<T> {
    /// Returns the bytes that updates of `rows × cols` with inner dimension `k` need in addition to the allocated ones;
    /// `u64::MAX` if they are too many to count.
    pub fn missing_bytes(&self, rows: usize, cols: usize, k: usize) -> u64 {
        let held = [&self.a, &self.b, &self.c].map(Vec::capacity);
        let lengths = operand_lengths::<T>(rows, cols, k).into_iter();
        let elements = lengths
            .zip(held)
            .map(|(needed, held)| needed.saturating_sub(held as u128))
            .fold(0, u128::saturating_add);
        let bytes = elements.saturating_mul(size_of::<T>() as u128);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// Allocates and writes the operands for updates of `rows × cols` with inner dimension `k`.
    ///
    /// [`measure_team`](crate::measure_team) does so itself. Nodes that measure at the same time do it before they start
    /// together, since writing matrices disturbs the others' measurements.
    ///
    /// # Errors
    /// [`DeviceError::Memory`] if they do not fit into the free memory.
    pub fn prepare(&mut self, rows: usize, cols: usize, k: usize) -> Result<(), DeviceError> {
        self.prepare_leaving((rows, cols, k), 0)
    }

    /// Prepares for `job`, and bounds the memory of devices that gather panels if they need more than there is.
    pub(super) fn prepare_with_devices(
        &mut self,
        team: &mut DeviceTeam,
        job: &JobShape,
        slices: &[usize],
    ) -> Result<(), DeviceError> {
        let (rows, cols, k) = (job.rows, job.cols, job.depth.k_max);
        let held = team.memory_held();
        let mut needed = team.memory_needed(job, slices)?;
        let left = free_bytes()
            .saturating_sub(self.missing_bytes(rows, cols, k))
            .saturating_add(held);
        if needed > left {
            team.limit_memory(left / slices.len().max(1) as u64);
            needed = team.memory_needed(job, slices)?;
        }
        self.prepare_leaving((rows, cols, k), needed.saturating_sub(held))
    }

    /// Prepares, and leaves `devices` bytes of the free memory.
    fn prepare_leaving(
        &mut self,
        (rows, cols, k): (usize, usize, usize),
        devices: u64,
    ) -> Result<(), DeviceError> {
        let needed = self.missing_bytes(rows, cols, k).saturating_add(devices);
        // Asking the allocator is not enough: Linux promises memory that it does not have.
        let available = free_bytes();
        if needed > available {
            return Err(memory_error(needed, needed - available));
        }
        let operands = [&mut self.a, &mut self.b, &mut self.c];
        for (values, count) in operands
            .into_iter()
            .zip(operand_lengths::<T>(rows, cols, k))
        {
            // A length that does not fit exceeds the memory, which was refused above.
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            fill_operand(values, count).ok_or_else(|| memory_error(needed, needed))?;
        }
        (self.rows, self.cols, self.k) = (rows, cols, k);
        Ok(())
    }

    /// Returns a view of the first columns of C, as many as the slices have together.
    pub(super) fn first_columns(&mut self, slices: &[usize]) -> ViewMut<'_, T> {
        let ld = leading_dimension::<T>(self.rows);
        ViewMut::new(&mut self.c, self.rows, slices.iter().sum(), ld)
    }
}

/// Returns the free memory of the host in bytes; a number that no operand reaches if the system does not tell.
fn free_bytes() -> u64 {
    memory_available_bytes().unwrap_or(isize::MAX as u64)
}

/// Returns the numbers of elements of A, B and C.
fn operand_lengths<T>(rows: usize, cols: usize, k: usize) -> [u128; 3] {
    let ld = leading_dimension::<T>(rows) as u128;
    let [rows, cols, k] = [rows as u128, cols as u128, k as u128];
    [rows * k, k * cols, ld * cols]
}

fn memory_error(needed_bytes: u64, missing_bytes: u64) -> DeviceError {
    DeviceError::Memory {
        needed_bytes,
        missing_bytes,
    }
}

/// Returns the value of element `at`: an ordinary number between 1/32 and 1/2.
///
/// Sums of products of such numbers stay far from overflow, and none is denormal. Some processors compute denormal numbers a
/// hundred times slower.
fn element_at<T: Element>(at: usize) -> T {
    T::of(Complex64::new((at % 16 + 1) as f64 / 32.0, 0.0))
}

/// Lengthens an operand to `count` elements. Present elements stay, so a smaller update costs nothing. `None` if there is no
/// memory.
fn fill_operand<T: Element>(values: &mut Vec<T>, count: usize) -> Option<()> {
    let Some(more) = count.checked_sub(values.len()).filter(|&more| more > 0) else {
        return Some(());
    };
    try_reserve_matrix(values, more).ok()?;
    values.extend((values.len()..count).map(element_at::<T>));
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_beyond_counting_saturate() {
        let most = usize::MAX;
        assert_eq!(
            UpdateOperands::<f64>::default().missing_bytes(most, most, most),
            u64::MAX
        );
    }

    #[test]
    fn what_is_held_is_not_missing() {
        let mut operands = UpdateOperands::<f64>::default();
        operands.prepare(100, 50, 10).unwrap();
        assert_eq!(operands.missing_bytes(100, 50, 10), 0);
        // A large C is of no use to A.
        assert_eq!(
            operands.missing_bytes(200, 25, 10),
            8 * (200 * 10 - 100 * 10)
        );
        operands.prepare(100, 20, 10).unwrap();
        assert_eq!(
            operands.c.len(),
            100 * 50,
            "a smaller update keeps what there is"
        );
    }

    #[test]
    fn fill_is_neither_zero_nor_denormal() {
        let mut values: Vec<f64> = Vec::new();
        fill_operand(&mut values, 100).unwrap();
        assert!(values.iter().all(|v| v.is_normal()));
        assert!(fill_operand::<f64>(&mut Vec::new(), usize::MAX / 4).is_none());
    }
}
