//! The CPU clock of a thread.

/// Returns the CPU time that the calling thread has used so far, in seconds.
///
/// Unlike wall time it does not grow while other programs have the core. Pacing and the comparison of libraries need
/// that on a busy machine.
pub fn thread_cpu_time_s() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
