//! CPU devices: a group of cores, pinned, with a sequential BLAS on each.

mod clock;
mod place;
mod worker;

pub(crate) use clock::process_cpu_time_s;
pub use clock::thread_cpu_time_s;
pub(crate) use place::Seen;
pub use place::ThreadPlace;
pub use worker::CpuWorker;
