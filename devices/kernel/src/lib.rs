//! The interface of computational kernels: the piece of an application whose speed a model describes.
//!
//! A kernel does the work of one iteration of an application's main loop, for `d` computational units, without its
//! communication. [`Kernel`] is the contract in Rust. [`KernelTable`] is the same for shared libraries in any language:
//! a library exports the symbol `isochron_kernel`, or one for each of several kernels. [`export_kernel!`] defines it in Rust,
//! and `devices/kernel/include/isochron_kernel.h` declares it for C and C++.
//!
//! This crate depends on no system library, so that a kernel's library need not either.
//!
//! # Example
//! ```
//! use isochron_kernel::{Interrupt, Kernel, KernelError};
//!
//! /// A unit is the sum of 1000 numbers.
//! #[derive(Default)]
//! struct Sums(Vec<f64>, f64);
//!
//! impl Kernel for Sums {
//!     fn complexity(&self, d: u64) -> f64 {
//!         1000.0 * d as f64
//!     }
//!
//!     fn initialize(&mut self, d: u64) -> Result<(), KernelError> {
//!         self.0 = vec![1.0; 1000 * d as usize];
//!         Ok(())
//!     }
//!
//!     fn execute(&mut self, interrupt: &Interrupt) -> Result<(), KernelError> {
//!         for unit in self.0.chunks(1000) {
//!             interrupt.check()?;
//!             self.1 += unit.iter().sum::<f64>();
//!         }
//!         Ok(())
//!     }
//!
//!     fn finalize(&mut self) -> Result<(), KernelError> {
//!         self.0 = Vec::new();
//!         Ok(())
//!     }
//! }
//!
//! // In a crate of type cdylib:
//! isochron_kernel::export_kernel!(Sums, c"sums");
//! ```
//!
//! # When to use which
//! | a kernel | uses |
//! |---|---|
//! | in Rust, which its own program measures | [`Kernel`], and `Session::benchmark` or `Session::partition` of the crate `isochron` |
//! | in Rust, for `isochron measure` and `isochron balance` | [`Kernel`] and [`export_kernel!`] in a crate of type `cdylib` |
//! | in C, C++ or another language | `isochron_kernel.h`, or a [`KernelTable`] by other means |
//!
//! The crate `isochron-kernels` has examples in Rust and in C.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod abi;

pub use abi::{ISOCHRON_KERNEL_ABI, KernelTable};

use std::sync::atomic::{AtomicI32, Ordering};

/// A computational kernel.
///
/// The order of calls is `initialize`, any number of `execute`, `finalize`, and then again with another size.
/// `complexity` may be called at any time.
///
/// # References
/// Clarke's thesis, section 3.1.4 and appendix A.2.
pub trait Kernel {
    /// Returns the kernel's name, for errors.
    fn name(&self) -> &str {
        "of the program"
    }

    /// Returns the useful work of `d` units, in floating-point operations, or `d` itself if they cannot be counted.
    fn complexity(&self, d: u64) -> f64;

    /// Allocates and fills the data of `d` units, as the application does before its main loop.
    ///
    /// # Errors
    /// Returns [`KernelError::NoMemory`], or an error of the kernel's own.
    fn initialize(&mut self, d: u64) -> Result<(), KernelError>;

    /// Computes one iteration. Messages are replaced by copies in memory. A kernel that may run for long reads
    /// `interrupt` now and then.
    ///
    /// # Errors
    /// Returns [`KernelError::Interrupted`] if it stopped because it was asked to, or an error of the kernel's own.
    fn execute(&mut self, interrupt: &Interrupt) -> Result<(), KernelError>;

    /// Gives the data back.
    ///
    /// # Errors
    /// Returns an error of the kernel's own.
    fn finalize(&mut self) -> Result<(), KernelError>;

    /// Returns words for the failure that was returned last, if the kernel has more to say of it than a number.
    fn explain_failure(&mut self) -> Option<String> {
        None
    }
}

impl<K: Kernel + ?Sized> Kernel for &mut K {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn complexity(&self, d: u64) -> f64 {
        (**self).complexity(d)
    }

    fn initialize(&mut self, d: u64) -> Result<(), KernelError> {
        (**self).initialize(d)
    }

    fn execute(&mut self, interrupt: &Interrupt) -> Result<(), KernelError> {
        (**self).execute(interrupt)
    }

    fn finalize(&mut self) -> Result<(), KernelError> {
        (**self).finalize()
    }

    fn explain_failure(&mut self) -> Option<String> {
        (**self).explain_failure()
    }
}

/// The failure of a kernel's function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KernelError {
    /// The run was interrupted.
    #[error("was interrupted")]
    Interrupted,
    /// There is not enough memory for the size.
    #[error("found no memory for this size")]
    NoMemory,
    /// Any other failure, by the kernel's own number.
    #[error("returned error {0}")]
    Code(i32),
}

/// A flag that asks a kernel's run to stop, because it takes too long.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Interrupt(AtomicI32);

impl Interrupt {
    /// Asks the run to stop, or takes that back.
    pub fn set(&self, stop: bool) {
        self.0.store(i32::from(stop), Ordering::Relaxed);
    }

    /// Returns `true` if the run should stop.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Checks the flag.
    ///
    /// # Errors
    /// Returns [`KernelError::Interrupted`] if the run should stop.
    pub fn check(&self) -> Result<(), KernelError> {
        if self.is_set() { Err(KernelError::Interrupted) } else { Ok(()) }
    }

    /// Returns the address of the flag, for a foreign function: 0 means go on.
    #[must_use]
    pub fn as_ptr(&self) -> *const AtomicI32 {
        &raw const self.0
    }
}
