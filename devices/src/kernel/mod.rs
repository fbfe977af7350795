//! Kernels: the work of one iteration of an application, run here or in a process of its own.
//!
//! * A [`Kernel`] is the contract. [`LibraryKernel`] is one from a shared library, at a [`KernelPlace`].
//! * A [`KernelRun`] runs a kernel with a limit of time: [`OwnRun`] in this process, [`ChildRun`] in another one, which
//!   may crash or never return. [`serve_kernel`] is the other side of that.
//! * A [`CrashNote`] names a kernel that crashes in this process.
//! * [`measure_kernel`](crate::measure::measure_kernel) repeats a run until its time is known with confidence.

mod child;
mod crash;
mod library;
mod place;
mod run;
mod serve;
mod watch;

pub use child::ChildRun;
pub use crash::{CrashNote, describe_exit};
pub use isochron_kernel::{Interrupt, Kernel, KernelError, KernelTable};
pub use library::LibraryKernel;
pub use place::KernelPlace;
pub use run::{KernelRun, OwnRun, RunEnd, RunQuota};
pub use serve::serve_kernel;
