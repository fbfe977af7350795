//! The C ABI of kernels in shared libraries, and its implementation for kernels in Rust.

use crate::{Interrupt, Kernel, KernelError};
use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::AtomicI32;

/// Version of the interface. A library made for another one is refused.
pub const ISOCHRON_KERNEL_ABI: u32 = 1;

/// A function of the kernel succeeded.
pub const ISOCHRON_KERNEL_OK: i32 = 0;

/// The run stopped because it was interrupted.
pub const ISOCHRON_KERNEL_INTERRUPTED: i32 = -1;

/// There is not enough memory for the size.
pub const ISOCHRON_KERNEL_NO_MEMORY: i32 = -2;

/// A kernel: the work of one iteration of an application's main loop, without its communication.
///
/// A shared library exports its kernel as `isochron_kernel`, or each of several as `isochron_kernel_NAME`. The functions
/// are called from one thread at a time, in the order initialize, execute (any number of times), finalize. They return
/// ISOCHRON_KERNEL_OK, one of the other results above, or a positive number of the kernel's own that names its failure.
#[repr(C)]
pub struct KernelTable {
    /// ISOCHRON_KERNEL_ABI. It comes first in every version.
    pub abi: u32,
    /// Name of the kernel for reports, ended by a zero.
    pub name: *const c_char,
    /// Returns the useful work of d units: floating-point operations, or d itself if they cannot be counted.
    pub complexity: Option<unsafe extern "C" fn(d: u64) -> f64>,
    /// Allocates and fills the data of d units, and stores their address in *context.
    pub initialize: Option<unsafe extern "C" fn(d: u64, context: *mut *mut c_void) -> i32>,
    /// Computes one iteration. A kernel that may run for long reads *interrupted now and then. If it is not 0, the kernel
    /// returns ISOCHRON_KERNEL_INTERRUPTED.
    pub execute:
        Option<unsafe extern "C" fn(context: *mut c_void, interrupted: *const AtomicI32) -> i32>,
    /// Gives the data back.
    pub finalize: Option<unsafe extern "C" fn(context: *mut c_void) -> i32>,
}

// SAFETY: the table is constant, its functions may be called from any thread, and its name is a constant string.
unsafe impl Sync for KernelTable {}

impl KernelTable {
    /// Returns the table of a kernel in Rust. Each `initialize` makes a kernel by [`Default`].
    ///
    /// A panic of the kernel ends the process, as a crash does in C.
    #[must_use]
    pub const fn of<K: Kernel + Default>(name: &'static CStr) -> Self {
        Self {
            abi: ISOCHRON_KERNEL_ABI,
            name: name.as_ptr(),
            complexity: Some(complexity::<K>),
            initialize: Some(initialize::<K>),
            execute: Some(execute::<K>),
            finalize: Some(finalize::<K>),
        }
    }
}

impl KernelError {
    /// Returns the number that stands for the error in the C ABI.
    #[must_use]
    pub fn code(self) -> i32 {
        match self {
            Self::Interrupted => ISOCHRON_KERNEL_INTERRUPTED,
            Self::NoMemory => ISOCHRON_KERNEL_NO_MEMORY,
            Self::Code(code) => code,
        }
    }

    /// Reads the number that a function of the C ABI returned.
    ///
    /// # Errors
    /// Returns the error that the number stands for.
    pub fn check_code(code: i32) -> Result<(), Self> {
        match code {
            ISOCHRON_KERNEL_OK => Ok(()),
            ISOCHRON_KERNEL_INTERRUPTED => Err(Self::Interrupted),
            ISOCHRON_KERNEL_NO_MEMORY => Err(Self::NoMemory),
            code => Err(Self::Code(code)),
        }
    }
}

fn get_code(result: Result<(), KernelError>) -> i32 {
    result.map_or_else(KernelError::code, |()| ISOCHRON_KERNEL_OK)
}

unsafe extern "C" fn complexity<K: Kernel + Default>(d: u64) -> f64 {
    K::default().complexity(d)
}

/// # Safety
/// `context` must be valid for a write.
unsafe extern "C" fn initialize<K: Kernel + Default>(d: u64, context: *mut *mut c_void) -> i32 {
    let mut kernel = Box::new(K::default());
    let result = kernel.initialize(d);
    if result.is_ok() {
        // SAFETY: the caller's obligation.
        unsafe { context.write(Box::into_raw(kernel).cast()) };
    }
    get_code(result)
}

/// # Safety
/// `context` must come from `initialize::<K>`, no other call may use it, and `interrupted` must be valid.
unsafe extern "C" fn execute<K: Kernel>(
    context: *mut c_void,
    interrupted: *const AtomicI32,
) -> i32 {
    // SAFETY: the caller's obligation; an `Interrupt` has the layout of its only field.
    let (kernel, interrupt) =
        unsafe { (&mut *context.cast::<K>(), &*interrupted.cast::<Interrupt>()) };
    get_code(kernel.execute(interrupt))
}

/// # Safety
/// `context` must come from `initialize::<K>`, and is not valid afterwards.
unsafe extern "C" fn finalize<K: Kernel>(context: *mut c_void) -> i32 {
    // SAFETY: the caller's obligation.
    let mut kernel = unsafe { Box::from_raw(context.cast::<K>()) };
    get_code(kernel.finalize())
}

/// Exports a type that is a [`Kernel`] and [`Default`] as the kernel of this shared library, under a name for reports. One of
/// several kernels has a symbol of its own, `isochron_kernel_NAME`.
#[macro_export]
macro_rules! export_kernel {
    ($kernel:ty, $name:literal) => {
        $crate::export_kernel!($kernel, $name, isochron_kernel);
    };
    ($kernel:ty, $name:literal, $symbol:ident) => {
        // SAFETY: a library's kernels have names of their own, so no other symbol has this one.
        #[allow(non_upper_case_globals, missing_docs)]
        #[unsafe(no_mangle)]
        pub static $symbol: $crate::KernelTable = $crate::KernelTable::of::<$kernel>($name);
    };
}
