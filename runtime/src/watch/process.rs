//! Facts of the system about processes: their state, their work, and the ranks of this host.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::process::parent_id;

use rustix::time::{ClockId, clock_gettime};

use super::cause::ProcessState;
use crate::comm::launched::find_rank_in;

/// Returns `true` if a debugger traces this process. It takes no memory, since it is asked every second.
pub fn is_traced() -> bool {
    let mut bytes = [0; 2048];
    let read = File::open("/proc/self/status").and_then(|mut file| file.read(&mut bytes));
    std::str::from_utf8(&bytes[..read.unwrap_or(0)])
        .unwrap_or_default()
        .lines()
        .find_map(|line| line.strip_prefix("TracerPid:"))
        .is_some_and(|number| number.trim() != "0")
}

/// Returns the state of a process of this host.
pub fn read_state(process: u32) -> ProcessState {
    let Ok(text) = fs::read_to_string(format!("/proc/{process}/stat")) else {
        return ProcessState::Gone;
    };
    // The name before it may hold brackets.
    match text.rsplit(") ").next().and_then(|rest| rest.chars().next()) {
        Some('T') => ProcessState::Stopped,
        Some('t') => ProcessState::Traced,
        Some('Z' | 'X') => ProcessState::Gone,
        _ => ProcessState::Unknown,
    }
}

/// Returns the identity of the numbers that processes have here: containers of one host may have numbers of their own.
pub fn read_numbering() -> String {
    fs::read_link("/proc/self/ns/pid").unwrap_or_default().to_string_lossy().into_owned()
}

/// Measures the CPU time of this process and of its children so far.
pub fn measure_cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let own_s = time.tv_sec as f64 + time.tv_nsec as f64 / 1e9;
    own_s + list_children(std::process::id()).into_iter().map(read_cpu_s).sum::<f64>()
}

/// Returns the CPU time of another process; 0 if it has ended.
fn read_cpu_s(process: u32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let rest = text.rsplit(") ").next().unwrap_or_default();
    // The 14th and 15th field, of which two lie before the rest.
    rest.split(' ').skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum::<f64>()
        / rustix::param::clock_ticks_per_second() as f64
}

/// Lists the children of a process.
fn list_children(process: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{process}/task"));
    let lists = tasks
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let lists: Vec<String> = lists.collect();
    lists
        .iter()
        .flat_map(|list| list.split_whitespace())
        .filter_map(|number| number.parse().ok())
        .collect()
}

/// Another rank of this host, as far as its launcher and the system tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sibling {
    pub rank: usize,
    pub state: ProcessState,
}

/// Lists the other ranks that the launcher of this process has started here: its children with the same program.
pub fn list_siblings() -> Vec<Sibling> {
    let me = std::process::id();
    let program = fs::read_link("/proc/self/exe").ok();
    let others = list_children(parent_id()).into_iter().filter(|&process| process != me);
    others
        .filter(|process| {
            let its = fs::read_link(format!("/proc/{process}/exe")).ok();
            program.is_some() && its == program
        })
        .filter_map(|process| {
            let rank = read_launched_rank(process)?;
            Some(Sibling { rank, state: read_state(process) })
        })
        .collect()
}

/// Returns the rank that a launcher has given to a process.
fn read_launched_rank(process: u32) -> Option<usize> {
    find_rank_in(&fs::read(format!("/proc/{process}/environ")).ok()?)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use rustix::process::{Pid, Signal, kill_process};

    use super::*;

    #[test]
    fn the_state_of_a_process_is_what_the_system_says() {
        assert!(!is_traced());
        assert_eq!(read_state(std::process::id()), ProcessState::Unknown);
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        assert!(list_children(std::process::id()).contains(&child.id()));
        let pid = Pid::from_child(&child);
        kill_process(pid, Signal::STOP).unwrap();
        while read_state(child.id()) != ProcessState::Stopped {
            std::thread::yield_now();
        }
        kill_process(pid, Signal::KILL).unwrap();
        child.wait().unwrap();
        assert_eq!(read_state(child.id()), ProcessState::Gone);
    }
}
