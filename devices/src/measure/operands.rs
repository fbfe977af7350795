//! The operands of measured updates.

use std::ops::Range;

use crate::contract::{DeviceError, JobShape, Scalar, ViewMut, even_widths, leading_dimension};
use crate::host::huge_pages::try_zeroed_matrix;
use crate::host::memory::{is_unwritten_memory_free, memory_available_bytes};
use crate::team::DeviceTeam;
use num_complex::Complex64;

/// The operands of a measured update, kept from one measurement to the next: most measurements find their memory in
/// place.
#[derive(Debug, Default)]
pub struct UpdateOperands<T = f64> {
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) k: usize,
    pub(super) a: RoomyMatrix<T>,
    pub(super) b: RoomyMatrix<T>,
    pub(super) c: RoomyMatrix<T>,
}

/// An operand in memory with room for a larger one.
///
/// Measurements grow from one to the next. The system makes the pages of new memory at their first write, which may
/// take as long as the measurement itself. In the room, only those of the growth are new.
#[derive(Debug, Default)]
pub(super) struct RoomyMatrix<T> {
    memory: Vec<T>,
    /// Number of elements that were written.
    written: usize,
}

/// Elements for which there is room for each that is needed, if memory that is never written costs nothing.
const ROOM: usize = 4;

impl<T: Scalar> RoomyMatrix<T> {
    /// Makes memory for `count` elements. Returns those that were not written yet; `None` if there is no memory.
    fn grow(&mut self, count: usize) -> Option<Range<usize>> {
        if self.memory.len() < count {
            // The old memory is freed first.
            *self = Self { memory: Vec::new(), written: 0 };
            let roomy = count
                .checked_mul(ROOM)
                .filter(|_| is_unwritten_memory_free())
                .and_then(try_zeroed_matrix);
            self.memory = match roomy {
                Some(roomy) => roomy,
                None => try_zeroed_matrix(count)?,
            };
        }
        let new = self.written.min(count)..count;
        self.written = self.written.max(count);
        Some(new)
    }

    /// Returns the elements that were written.
    pub(super) fn elements(&self) -> &[T] {
        &self.memory[..self.written]
    }

    /// Returns the elements that were written, to be written again.
    pub(super) fn elements_mut(&mut self) -> &mut [T] {
        &mut self.memory[..self.written]
    }
}

impl<T: Scalar> UpdateOperands<T> {
    /// Returns the bytes that updates of `rows × cols` with inner dimension `k` need in addition to the allocated ones;
    /// `u64::MAX` if they are too many to count.
    pub fn missing_bytes(&self, rows: usize, cols: usize, k: usize) -> u64 {
        let held = [&self.a, &self.b, &self.c].map(|operand| operand.written);
        let bytes = operand_lengths::<T>(rows, cols, k)
            .into_iter()
            .zip(held)
            .map(|(needed, held)| needed.saturating_sub(held as u128))
            .fold(0, u128::saturating_add)
            .saturating_mul(size_of::<T>() as u128);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// Allocates and writes the operands for updates of `job` by these slices of C.
    ///
    /// [`measure_team`](crate::measure_team) does so itself. Nodes that measure at the same time do it before they
    /// start together, since writing matrices disturbs the others' measurements.
    ///
    /// # Errors
    /// Returns [`DeviceError::Memory`] if they do not fit into the free memory; [`DeviceError::Slices`].
    pub fn prepare(
        &mut self,
        team: &mut DeviceTeam,
        job: &JobShape,
        slices: &[usize],
    ) -> Result<(), DeviceError> {
        self.prepare_leaving(team, job, slices, 0, free_bytes())
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
        // Read once: the devices may have all that is left, and another program may take a little in between.
        let free = free_bytes();
        let left = free.saturating_sub(self.missing_bytes(rows, cols, k)).saturating_add(held);
        if needed > left {
            team.limit_memory(left / slices.len().max(1) as u64);
            needed = team.memory_needed(job, slices)?;
        }
        self.prepare_leaving(team, job, slices, needed.saturating_sub(held), free)
    }

    /// Prepares, and leaves `devices` bytes of the `free` memory.
    fn prepare_leaving(
        &mut self,
        team: &mut DeviceTeam,
        job: &JobShape,
        slices: &[usize],
        devices: u64,
        free: u64,
    ) -> Result<(), DeviceError> {
        let (rows, cols, k) = (job.rows, job.cols, job.depth.k_max);
        let needed = self.missing_bytes(rows, cols, k).saturating_add(devices);
        // Asking the allocator is not enough: Linux promises memory that it does not have.
        if needed > free {
            return Err(memory_error(needed, needed - free));
        }
        let operands = [&mut self.a, &mut self.b, &mut self.c];
        let lengths = operand_lengths::<T>(rows, cols, k).into_iter();
        let mut new = [0..0, 0..0, 0..0];
        for ((operand, count), new) in operands.into_iter().zip(lengths).zip(&mut new) {
            // A length that does not fit exceeds the memory, which was refused above.
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            *new = operand.grow(count).ok_or_else(|| memory_error(needed, needed))?;
        }
        (self.rows, self.cols, self.k) = (rows, cols, k);
        let [new_a, new_b, new_c] = new;
        for (operand, new) in [(&mut self.a, new_a), (&mut self.b, new_b)] {
            let new = &mut operand.memory[new];
            if !new.is_empty() {
                make_pages(team, new)?;
                fill_operand(new);
            }
        }
        if !new_c.is_empty() {
            // Updates make normal numbers of these zeros.
            team.scale(T::ZERO, self.first_columns(slices), slices)?;
        }
        Ok(())
    }

    /// Returns a view of the first columns of C, as many as the slices have together.
    pub(super) fn first_columns(&mut self, slices: &[usize]) -> ViewMut<'_, T> {
        let ld = leading_dimension::<T>(self.rows);
        ViewMut::new(self.c.elements_mut(), self.rows, slices.iter().sum(), ld)
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
    DeviceError::Memory { needed_bytes, missing_bytes }
}

/// Returns the value of element `at`: an ordinary number between 1/32 and 1/2.
///
/// Sums of products of such numbers stay far from overflow, and none is denormal. Some processors compute denormal
/// numbers a hundred times slower.
fn element_at<T: Scalar>(at: usize) -> T {
    T::of(Complex64::new((at % 16 + 1) as f64 / 32.0, 0.0))
}

/// Writes to the memory with all threads of the devices: the system takes the time to make each page at its first
/// write, and one thread would take long for all of them.
fn make_pages<T: Scalar>(team: &mut DeviceTeam, values: &mut [T]) -> Result<(), DeviceError> {
    // Elements of a column; the last ones of all make no column.
    const LINES: usize = 1 << 12;
    let devices = team.len().max(1);
    let widths: Vec<usize> = even_widths(values.len() / LINES, devices).collect();
    let columns = ViewMut::new(values, LINES, widths.iter().sum(), LINES);
    team.scale(T::ZERO, columns, &widths)
}

fn fill_operand<T: Scalar>(values: &mut [T]) {
    for (at, value) in values.iter_mut().enumerate() {
        *value = element_at(at);
    }
}

#[cfg(test)]
mod tests {
    use isochron_hierarchy::model::{PiecewiseFpm, Point};

    use super::*;
    use crate::contract::{Depth, DeviceKind, Worker};
    use crate::paced::RecordedWorker;

    #[test]
    fn sizes_beyond_counting_saturate() {
        let most = usize::MAX;
        assert_eq!(UpdateOperands::<f64>::default().missing_bytes(most, most, most), u64::MAX);
    }

    /// Prepares for updates by two slices of C.
    fn prepare(operands: &mut UpdateOperands, rows: usize, cols: usize, k: usize) {
        let mut team = DeviceTeam::new(["one", "two"].map(make_device).into()).unwrap();
        let job = JobShape::of::<f64>(rows, cols, Depth::of(k, 1));
        let slices = [cols / 3, cols - cols / 3];
        operands.prepare(&mut team, &job, &slices).unwrap();
    }

    fn make_device(name: &str) -> Box<dyn Worker> {
        let point = Point { d: 1, t_s: 1.0, reps: 1, ci_s: 0.0 };
        let model = PiecewiseFpm::from_points(vec![point]).unwrap();
        Box::new(RecordedWorker::new(name, DeviceKind::Cpu, model, 4).unwrap())
    }

    /// Counts the pages of this memory that the system has not made yet.
    #[cfg(target_os = "linux")]
    fn count_absent_pages(values: &[f64]) -> usize {
        use std::os::unix::fs::FileExt as _;
        let page = rustix::param::page_size();
        let range = values.as_ptr_range();
        let pages = range.start as usize / page..(range.end as usize - 1) / page + 1;
        // One word a page; the two highest bits tell of pages in memory and in swap.
        let mut words = vec![0; 8 * pages.len()];
        std::fs::File::open("/proc/self/pagemap")
            .unwrap()
            .read_exact_at(&mut words, 8 * pages.start as u64)
            .unwrap();
        words.chunks(8).filter(|word| word[7] >> 6 == 0).count()
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn measured_updates_find_every_page_made() {
        let mut operands = UpdateOperands::<f64>::default();
        for (rows, cols, k) in [(3000, 100, 8), (70_001, 60, 33), (500, 90_000, 7)] {
            prepare(&mut operands, rows, cols, k);
            let absent = [&operands.a, &operands.b, &operands.c]
                .map(|operand| count_absent_pages(operand.elements()));
            assert_eq!(absent, [0; 3]);
        }
        let fresh = try_zeroed_matrix::<f64>(1 << 22).unwrap();
        assert!(count_absent_pages(&fresh) > 0, "pages are made at the first write");
    }

    #[test]
    fn what_is_held_is_not_missing() {
        let mut operands = UpdateOperands::<f64>::default();
        prepare(&mut operands, 100, 50, 10);
        assert_eq!(operands.missing_bytes(100, 50, 10), 0);
        // A large C is of no use to A.
        assert_eq!(operands.missing_bytes(200, 25, 10), 8 * (200 * 10 - 100 * 10));
        prepare(&mut operands, 100, 20, 10);
        let held = operands.c.elements().len();
        assert_eq!(held, 100 * 50, "a smaller update keeps what there is");
    }

    #[test]
    fn factors_are_neither_zero_nor_denormal() {
        let mut operands = UpdateOperands::<f64>::default();
        for (rows, cols, k) in [(5000, 30, 7), (5000, 31, 9), (3, 2, 40_000)] {
            prepare(&mut operands, rows, cols, k);
            let [a, b, c] = [&operands.a, &operands.b, &operands.c].map(RoomyMatrix::elements);
            assert!(a.iter().chain(b).all(|value| value.is_normal()));
            assert!(a.len() >= rows * k && c.len() >= rows * cols);
        }
        assert!(RoomyMatrix::<f64>::default().grow(usize::MAX / 4).is_none());
    }

    #[test]
    fn a_larger_measurement_writes_what_is_new() {
        let mut operand = RoomyMatrix::<f64>::default();
        assert_eq!(operand.grow(1000), Some(0..1000));
        let place = operand.memory.as_ptr();
        let from = if is_unwritten_memory_free() { 1000 } else { 0 };
        assert_eq!(operand.grow(1500), Some(from..1500));
        assert_eq!(operand.memory.as_ptr() == place, from == 1000);
        assert_eq!(operand.grow(1200), Some(1200..1200));
        assert_eq!(operand.elements().len(), 1500);
        assert_eq!(operand.grow(50_000), Some(0..50_000), "beyond the room");
    }
}
