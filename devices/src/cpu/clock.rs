//! The CPU clock of a thread.

/// Returns the CPU time that the calling thread has used so far, in seconds.
///
/// Unlike wall time it does not grow while other programs have the core. Pacing and the comparison of libraries need that on a
/// busy machine.
///
/// # Panics
/// If the system has no such clock.
pub fn thread_cpu_time_s() -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid timespec to write to for the duration of the call.
    let rc = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(rc, 0, "the system has no CPU clock for threads");
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
