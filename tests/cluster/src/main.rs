//! The command behind `cargo xtask cluster`: brings clusters up, runs programs on their hosts, takes them down.
//!
//! Exit status: 0 success, 1 something failed, 2 bad usage, or a machine that cannot emulate hosts; that of the
//! program where one was run.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool talks to its user"
)]

#[cfg(target_os = "linux")]
mod command;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    command::main()
}

#[cfg(not(target_os = "linux"))]
fn main() -> std::process::ExitCode {
    eprintln!("error: hosts cannot be emulated here: namespaces are Linux's");
    std::process::ExitCode::from(2)
}
