//! Memory for matrices.
//!
//! # Deviations
//! * **Columns in memory**: the papers do not treat the storage of matrices. Here columns never lie a multiple of 4 KiB
//!   apart ([`leading_dimension`](crate::leading_dimension)), because rows of C would collide in the caches, and large
//!   matrices lie in huge pages, because an update touches every column, each on other pages.

use crate::contract::Scalar;
use std::alloc::{Layout, alloc_zeroed};
use std::collections::TryReserveError;

/// Smallest allocation that asks for huge pages: a few of them, at 2 MiB on most processors.
const WORTHWHILE_BYTES: usize = 8 << 20;

/// Makes room for `additional` more elements, as [`Vec::try_reserve_exact`], in huge pages if the system has them
/// and the room is large enough.
///
/// A blocked update touches every column of C, each on other pages; with pages of 4 KiB the processor waits for address
/// translation. Linux grants huge pages only to memory that asks for them (`madvise`, the usual setting), and only
/// before its first write. Measured and multiplied matrices must lie in memory of the same kind, or the measured times
/// would not predict those of the multiplication.
///
/// # Errors
/// Fails if there is no such memory.
pub fn try_reserve_matrix<T: Scalar>(
    values: &mut Vec<T>,
    additional: usize,
) -> Result<(), TryReserveError> {
    values.try_reserve_exact(additional)?;
    let unused = values.spare_capacity_mut();
    let room = unused.as_mut_ptr_range();
    if size_of_val(unused) >= WORTHWHILE_BYTES {
        ask_for_huge_pages(room.start as usize, room.end as usize);
    }
    Ok(())
}

/// Allocates a matrix of `len` zeros, in huge pages if the system has them and it is large enough; `None` if there is
/// no memory for it.
///
/// A large matrix is not written. The system makes each of its pages at the first write, next to the processor that
/// writes. So the devices should write it first (see [`Updates::scale`](crate::Updates::scale)). Until then the memory
/// counts as available.
pub fn try_zeroed_matrix<T: bytemuck::Pod>(len: usize) -> Option<Vec<T>> {
    let layout = Layout::array::<T>(len).ok()?;
    if layout.size() == 0 {
        // Elements without bytes need no memory.
        return Some(vec![T::zeroed(); len]);
    }
    // SAFETY: the layout is not empty.
    let start = unsafe { alloc_zeroed(layout) };
    if start.is_null() {
        return None;
    }
    if layout.size() >= WORTHWHILE_BYTES {
        let address = start as usize;
        ask_for_huge_pages(address, address + layout.size());
    }
    // SAFETY: the memory comes from the global allocator with the layout of `len` elements, all of them written (zero
    // bits are an element), and nothing else owns it.
    Some(unsafe { Vec::from_raw_parts(start.cast(), len, len) })
}

/// Gives the pages of elements that are needed no longer back to the system. Their values are lost; they can be written again.
pub fn release_elements<T: bytemuck::Pod>(elements: &mut [T]) {
    let area = elements.as_mut_ptr_range();
    release_pages(area.start as usize, area.end as usize);
}

/// Gives the whole pages between two addresses, which lie within elements that the caller has lent to be written, back.
#[cfg(target_os = "linux")]
fn release_pages(start: usize, end: usize) {
    // Afterwards they read as zeros or, in memory of a file, as what that has; any bits are elements.
    advise_pages(start, end, rustix::mm::Advice::LinuxDontNeed);
}

#[cfg(not(target_os = "linux"))]
fn release_pages(_start: usize, _end: usize) {}

/// Asks for huge pages for the whole pages between two addresses, which lie within one allocation of the caller.
#[cfg(target_os = "linux")]
fn ask_for_huge_pages(start: usize, end: usize) {
    advise_pages(start, end, rustix::mm::Advice::LinuxHugepage);
}

#[cfg(not(target_os = "linux"))]
fn ask_for_huge_pages(_start: usize, _end: usize) {}

/// Advises the system on the whole pages between two addresses, as the two functions above do.
#[cfg(target_os = "linux")]
fn advise_pages(start: usize, end: usize, advice: rustix::mm::Advice) {
    let page = rustix::param::page_size();
    let (start, end) = (start.next_multiple_of(page), end / page * page);
    if start < end {
        // The C library's function, which MPI libraries watch: a network card may know the pages.
        // SAFETY: the pages lie within memory that the callers have for themselves, which may lose its values if the advice
        // says so. A kernel that refuses has changed nothing.
        let _ = unsafe { rustix::mm::madvise(start as *mut std::ffi::c_void, end - start, advice) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_made_and_what_was_there_stays() {
        let mut values = vec![1.0, 2.0];
        try_reserve_matrix(&mut values, WORTHWHILE_BYTES / 8).unwrap();
        assert!(values.capacity() >= 2 + WORTHWHILE_BYTES / 8);
        values.resize(WORTHWHILE_BYTES / 8, 3.0);
        assert_eq!((values[0], values[1], values[2]), (1.0, 2.0, 3.0));
        assert_eq!(values.last(), Some(&3.0));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn released_pages_are_the_systems() {
        let mut values = try_zeroed_matrix::<u64>(WORTHWHILE_BYTES / 8).unwrap();
        values.fill(7);
        let len = values.len();
        release_elements(&mut values[1000..len - 1000]);
        assert_eq!((values[999], values[len - 1000]), (7, 7));
        assert_eq!(values[len / 2], 0);
        values[len / 2] = 5;
        release_elements(&mut values[..100]);
        release_elements::<u64>(&mut []);
        assert_eq!((values[50], values[len / 2]), (7, 5));
    }

    #[test]
    fn zeros_are_zeros() {
        assert!(try_zeroed_matrix::<f64>(0).unwrap().is_empty());
        for len in [1, WORTHWHILE_BYTES / 8 + 1] {
            let mut values = try_zeroed_matrix::<f64>(len).unwrap();
            assert_eq!(values.len(), len);
            assert!(values.iter().all(|value| value.to_bits() == 0));
            values.push(1.0);
        }
    }

    #[test]
    fn too_much_is_an_error() {
        assert!(try_zeroed_matrix::<f64>(usize::MAX / 16).is_none());
        assert!(try_zeroed_matrix::<f64>(usize::MAX).is_none());
        assert!(try_reserve_matrix(&mut Vec::<f64>::new(), usize::MAX / 16).is_err());
    }
}
