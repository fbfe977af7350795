//! A stand-in for `libcuda` and `libcublas`, for tests on machines without a GPU.
//!
//! One shared library carries the symbols of both; a test puts it on `LD_LIBRARY_PATH` under their names. It computes
//! on the host, and is stricter than a GPU, so that code which runs here has few excuses there:
//!
//! * Device memory is apart: its addresses cannot be dereferenced on the host, a host pointer in their place is an
//!   error, allocations lie apart from each other so that a run past the end is one too, and what was never written
//!   is NaN.
//! * Work on a stream happens later. How much later is the *schedule*: on a thread of the stream's own, or at the
//!   last moment, when something waits for it, or in an order that favours every stream but the one that is waited
//!   for. A missing wait shows in one of the three.
//! * A copy to pinned host memory poisons its destination until it has run. A copy from or to memory that is not
//!   pinned is counted, since on a GPU it would not be asynchronous.
//! * What no correct program does and a GPU would not notice is a violation, counted and named: work on two streams that
//!   uses the same memory in an order that nothing says (module `order`), memory freed in use, a context released with something
//!   left in it.
//! * Any call can be made to fail, at once or when its work runs; some failures lose the device, and then every
//!   later call on it fails as well.
//! * cuBLASXt multiplies matrices in host memory where they are; it has no function but that of `f64`.
//! * Products can be too large for cuBLAS, as they are where nothing is left for its workspace.
//! * What lives is counted, so that a test can tell that nothing was leaked.
//!
//! The settings are environment variables ([`settings`]); the counters are exported functions ([`control`]). Devices
//! are called `Emulated CUDA …`, and so is the version of cuBLAS: no report can be mistaken for a GPU's. It says
//! nothing about speed.

#![allow(
    non_snake_case,
    reason = "the exported functions have the names of the libraries that they stand for"
)]
// What the exported functions ask of their callers is in the manuals of those libraries.
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
