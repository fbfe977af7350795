//! A stand-in for `libcuda` and `libcublas`, for tests on machines without a GPU.
//!
//! One shared library carries the symbols of both; a test puts it on `LD_LIBRARY_PATH` under their names. It computes
//! on the host, and is stricter than a GPU, so errors that a GPU would forgive show here:
//!
//! * Device memory is separate. Its addresses cannot be dereferenced on the host, and a host pointer in their place is
//!   an error. Allocations lie apart from each other, so a run past the end is an error too. Memory that was never
//!   written is NaN.
//! * Work on a stream happens later, as the *schedule* says: on the stream's own thread, or at the last moment, when a
//!   call waits for it. The third schedule favours every stream except the one that is waited for. A missing wait shows
//!   in one of the three.
//! * A copy to pinned host memory poisons its destination until it has run. A copy from or to memory that is not pinned
//!   is counted, since it would not be asynchronous on a GPU.
//! * A mistake of the program that a GPU would not notice is a violation, counted and named. There are three: work on
//!   two streams that uses the same memory in no defined order (module `order`), memory freed in use, and a context
//!   released before its contents.
//! * Any call can be made to fail, at once or when its work runs. Some failures lose the device, and then every later
//!   call on it fails as well.
//! * cuBLASXt multiplies matrices in host memory, and has no function except that for `f64`.
//! * Products can be too large for cuBLAS, as on a GPU that has no memory left for its workspace.
//! * Live resources are counted, so a test sees a leak.
//!
//! The settings are environment variables ([`settings`]); the counters are exported functions ([`control`]). The names
//! of devices begin with `Emulated CUDA`, so no report can be mistaken for one of a GPU. The emulator says nothing
//! about speed.

#![allow(
    non_snake_case,
    reason = "the exported functions have the names of the libraries that they stand for"
)]
// The manuals of the libraries state the conditions under which the exported functions may be called.
#![allow(clippy::missing_safety_doc, missing_docs)]

mod arithmetic;
mod call;
mod codes;
pub mod control;
mod cublas;
mod driver;
mod memory;
#[cfg(test)]
mod misuse;
mod order;
mod schedule;
pub mod settings;
mod state;
mod text;
mod visible;
mod work;
mod xt;
