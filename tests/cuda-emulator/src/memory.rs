//! Device memory and pinned host memory.

use crate::codes::{ILLEGAL_ADDRESS, INVALID_VALUE, OUT_OF_MEMORY};
use crate::state::Emulator;
use std::sync::Arc;

/// The first device address: no processor lets a program dereference such an address.
const DEVICE_SPACE: u64 = 0x0DE0_0000_0000_0000;
/// The end of the device addresses.
const DEVICE_SPACE_END: u64 = DEVICE_SPACE << 1;
/// Unused addresses behind every allocation.
const GAP: u64 = 4096;
/// The value of bytes that were never written: as `f32` or `f64` they read as NaN.
pub const POISON: u8 = 0xFF;

/// Memory that queued work writes through raw pointers, as on a GPU.
#[derive(Debug)]
pub struct Storage {
    words: *mut u64,
    count: usize,
}

// SAFETY: the storage is plain memory that is freed once, by the last owner. The emulated program must order the work
// that uses it, as on a GPU.
unsafe impl Send for Storage {}
// SAFETY: as above.
unsafe impl Sync for Storage {}

impl Storage {
    fn poisoned(bytes: u64) -> Self {
        let count = usize::try_from(bytes.div_ceil(8)).unwrap_or(usize::MAX);
        let words = vec![u64::from_ne_bytes([POISON; 8]); count].into_boxed_slice();
        Self { words: Box::into_raw(words).cast(), count }
    }

    pub fn start(&self) -> *mut u8 {
        self.words.cast()
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        let slice = std::ptr::slice_from_raw_parts_mut(self.words, self.count);
        // SAFETY: these are the pointer and the length that `Box::into_raw` gave, and this is the last owner.
        drop(unsafe { Box::from_raw(slice) });
    }
}

/// One allocation in device memory.
#[derive(Debug)]
pub struct DeviceAllocation {
    pub device: usize,
    pub bytes: u64,
    pub storage: Arc<Storage>,
}

/// One allocation of pinned host memory.
#[derive(Debug)]
pub struct PinnedAllocation {
    /// The device in whose context it was allocated; every context may use it.
    pub device: usize,
    pub bytes: u64,
    /// Freed with this entry.
    pub _storage: Storage,
}

impl Emulator {
    /// Allocates device memory. Returns its address.
    pub fn allocate(&mut self, device: usize, bytes: u64) -> Result<u64, u32> {
        if bytes == 0 {
            return Err(INVALID_VALUE);
        }
        let memory = self.settings.visible[device].memory;
        let used = self.devices[device].used;
        if bytes > memory - used {
            return Err(OUT_OF_MEMORY);
        }
        let last = self.blocks.range(..DEVICE_SPACE + ((device as u64 + 1) << 44));
        let base = DEVICE_SPACE + ((device as u64) << 44);
        // Freed addresses are not used again while an allocation behind them lives; the counter ensures that they are
        // never used again.
        let behind = last.last().map_or(base, |(start, block)| (start + block.bytes).max(base));
        let start = (behind + GAP + (self.fresh_id() << 20)).next_multiple_of(256);
        let storage = Arc::new(Storage::poisoned(bytes));
        self.blocks.insert(start, DeviceAllocation { device, bytes, storage });
        let device = &mut self.devices[device];
        device.used += bytes;
        device.peak = device.peak.max(device.used);
        Ok(start)
    }

    /// Returns the storage at a device address, and the place in it; `bytes` bytes of that device must lie there.
    pub fn device_memory(
        &self,
        device: usize,
        address: u64,
        bytes: u64,
    ) -> Result<(Arc<Storage>, *mut u8), u32> {
        let (start, block) = self.blocks.range(..=address).next_back().ok_or(ILLEGAL_ADDRESS)?;
        let offset = address - start;
        if block.device != device || offset + bytes > block.bytes {
            return Err(ILLEGAL_ADDRESS);
        }
        let at = block.storage.start().wrapping_add(offset as usize);
        Ok((Arc::clone(&block.storage), at))
    }

    /// Returns `true` if all these bytes of host memory are pinned.
    pub fn is_pinned(&self, address: usize, bytes: u64) -> bool {
        self.pinned
            .range(..=address)
            .next_back()
            .is_some_and(|(start, pinned)| (address - start) as u64 + bytes <= pinned.bytes)
    }

    /// Returns `true` if this can be an address of host memory: none lies among the device addresses.
    pub fn can_be_host(address: usize) -> bool {
        !(DEVICE_SPACE..DEVICE_SPACE_END).contains(&(address as u64))
    }

    /// Allocates pinned host memory. Returns its address.
    pub fn pin(&mut self, device: usize, bytes: u64) -> Result<usize, u32> {
        if bytes == 0 {
            return Err(INVALID_VALUE);
        }
        let storage = Storage::poisoned(bytes);
        let start = storage.start() as usize;
        let pinned = PinnedAllocation { device, bytes, _storage: storage };
        self.pinned.insert(start, pinned);
        self.pinned_bytes += bytes;
        self.pinned_peak = self.pinned_peak.max(self.pinned_bytes);
        Ok(start)
    }
}
