//! The CPU clocks of a thread and of its process.

use rustix::time::{ClockId, clock_gettime};

/// Returns the CPU time that the calling thread has used so far, in seconds.
///
/// Unlike wall time it does not grow while other programs have the core. Pacing and the comparison of libraries need
/// that on a busy machine.
pub fn thread_cpu_time_s() -> f64 {
    read_clock_s(ClockId::ThreadCPUTime)
}

/// Returns the CPU time that all threads of this process have used so far, in seconds.
pub fn process_cpu_time_s() -> f64 {
    read_clock_s(ClockId::ProcessCPUTime)
}

fn read_clock_s(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
