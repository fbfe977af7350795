//! What the runtime and the engine of campaigns both need: names as they are printed, and the control groups of a process with
//! their CPU quota.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod cgroup;
mod cpu_quota;
pub mod printable;

pub use cpu_quota::cpu_quota_cores;
