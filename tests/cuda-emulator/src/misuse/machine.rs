//! A machine to misuse, and calls on it.

use crate::call::Out;
use crate::codes::SUCCESS;
use crate::cublas::{cublasCreate_v2, cublasDgemm_v2, cublasSetStream_v2};
use crate::driver::context::{cuCtxPopCurrent_v2, cuCtxPushCurrent_v2, cuDevicePrimaryCtxRetain};
use crate::driver::copy::{Copy2d, cuMemcpy2DAsync_v2};
use crate::driver::devices::cuInit;
use crate::driver::memory::{cuMemAlloc_v2, cuMemHostAlloc};
use crate::driver::streams::{cuEventCreate, cuStreamCreate};
use crate::schedule::{drain, quiesce};
use crate::settings::{Settings, WorkSchedule};
use crate::state::{Emulator, Violation, lock};
use crate::visible::Visible;
use std::mem::MaybeUninit;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The side of a square matrix; below, its bytes.
const SIDE: i32 = 8;
pub const BYTES: usize = 512;

/// A new machine of two devices, for one test at a time; the first device's context is current.
pub struct TestMachine {
    _alone: MutexGuard<'static, ()>,
}

impl TestMachine {
    pub fn new(schedule: WorkSchedule) -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let visible = [0, 1].map(|index: u8| Visible {
            name: "Emulated CUDA".to_owned(),
            uuid: [index; 16],
            pci: format!("0000:{index:02x}:00.0"),
            memory: 1 << 20,
        });
        let settings = Settings {
            visible: visible.into(),
            version: 13_000,
            schedule,
            product: u64::MAX,
            ..Settings::default()
        };
        let mut emulator = lock();
        // Threads of streams left by an earlier test must not serve streams of this one.
        let next_id = emulator.next_id;
        *emulator = Emulator::new(settings);
        emulator.next_id = next_id;
        drop(emulator);
        assert_eq!(cuInit(0), SUCCESS);
        let machine = Self { _alone: alone };
        machine.retain(0);
        assert_eq!(cuCtxPushCurrent_v2(1), SUCCESS);
        machine
    }

    pub fn retain(&self, device: i32) {
        self.make(|to| cuDevicePrimaryCtxRetain(to, device));
    }

    /// Makes a handle or an address.
    pub fn make<T>(&self, make: impl FnOnce(Out<'_, T>) -> u32) -> T {
        let mut made = MaybeUninit::uninit();
        assert_eq!(make(Some(&mut made)), SUCCESS);
        // SAFETY: a call that succeeds writes its result.
        unsafe { made.assume_init() }
    }

    pub fn memory(&self) -> u64 {
        self.make(|to| cuMemAlloc_v2(to, BYTES))
    }

    pub fn stream(&self) -> u64 {
        self.make(|to| cuStreamCreate(to, 1))
    }

    pub fn event(&self) -> u64 {
        self.make(|to| cuEventCreate(to, 2))
    }

    /// Makes a cuBLAS handle that works on the stream.
    pub fn blas(&self, stream: u64) -> u64 {
        let handle = self.make(|to| cublasCreate_v2(to));
        assert_eq!(cublasSetStream_v2(handle, stream), SUCCESS);
        handle
    }

    /// Allocates pinned memory that holds ones.
    pub fn pinned(&self) -> PinnedOnes {
        let start = self.make(|to| cuMemHostAlloc(to, BYTES, 1));
        let pinned = PinnedOnes(start.cast());
        for place in 0..BYTES / 8 {
            // SAFETY: inside the allocation.
            unsafe { pinned.0.add(place).write(1.0) };
        }
        pinned
    }

    pub fn violations(&self) -> Vec<Violation> {
        lock().violations.clone()
    }
}

impl Drop for TestMachine {
    /// Waits for work under way, since the next test drops its memory.
    fn drop(&mut self) {
        let streams: Vec<u64> = lock().streams.keys().copied().collect();
        for stream in streams {
            let _ = drain(stream);
        }
        quiesce();
        cuCtxPopCurrent_v2(ignored());
    }
}

#[derive(Clone, Copy)]
pub struct PinnedOnes(pub *mut f64);

impl PinnedOnes {
    pub fn first(self) -> f64 {
        // SAFETY: inside the allocation.
        unsafe { self.0.read() }
    }
}

/// Copies [`BYTES`] bytes.
pub fn copy(stream: u64, from: LineEnd, to: LineEnd) -> u32 {
    let [from, to] = [from, to].map(|end| match end {
        LineEnd::Host(address) => (1, address, 0),
        LineEnd::Device(address) => (2, 0, address),
    });
    cuMemcpy2DAsync_v2(Some(&Copy2d::line(from, to, BYTES)), stream)
}

#[derive(Clone, Copy)]
pub enum LineEnd {
    Host(usize),
    Device(u64),
}

impl From<PinnedOnes> for LineEnd {
    fn from(pinned: PinnedOnes) -> Self {
        Self::Host(pinned.0 as usize)
    }
}

/// Queues `C += A·B` of square matrices.
pub fn multiply(blas: u64, a: u64, b: u64, c: u64) -> u32 {
    let (one, n) = (Some(&1.0), SIDE);
    cublasDgemm_v2(blas, 0, 0, n, n, n, one, a, n, b, n, one, c, n)
}

/// A place for a result that is not looked at.
pub fn ignored<T>() -> Out<'static, T> {
    Some(Box::leak(Box::new(MaybeUninit::uninit())))
}
