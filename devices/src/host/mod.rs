//! The host of a process: its hardware, its limits, its memory and its threads. Nothing here knows devices.

pub mod topology;

mod cgroup;
pub(crate) mod cpu_quota;
pub(crate) mod cpu_time;
pub(crate) mod file_kind;
pub(crate) mod fork;
pub(crate) mod heap;
pub(crate) mod huge_pages;
pub(crate) mod loader;
pub(crate) mod memory;
pub(crate) mod operation;
pub(crate) mod process;
pub(crate) mod threads;
