//! The death of another rank of this host for lack of memory.
//!
//! A launcher ends a job within milliseconds of a rank's death, and tells no more than its signal. So a watcher is woken by
//! the death itself, and says at once if the system has killed a process since the start.

use std::fs;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::channel::Peer;

/// The rank of this host that this one looks after.
#[derive(Debug)]
pub struct Deaths {
    /// The rank with a descriptor of its process; `None` after its death, or without such a rank.
    living: Option<(usize, OwnedFd)>,
    /// Number of processes that had been killed for lack of memory at the start.
    killed: u64,
}

impl Deaths {
    /// Looks after the next rank of the host of rank `me`; the last rank looks after the first one.
    pub fn watch(peers: &[Peer], me: usize) -> Self {
        let mut others = (me + 1..peers.len()).chain(0..me);
        let next = others.find(|&rank| peers[rank].has_processes_of(&peers[me]));
        let living = next.and_then(|rank| {
            let process = Pid::from_raw(peers[rank].process.cast_signed())?;
            // Older systems have no such descriptors.
            Some((rank, pidfd_open(process, PidfdFlags::empty()).ok()?))
        });
        Self { living, killed: count_killed() }
    }

    /// Returns a descriptor that can be read once the rank is dead.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.living.as_ref().map(|(_, process)| process.as_fd())
    }

    /// Returns the rank once it has died.
    pub fn take_dead(&mut self) -> Option<usize> {
        let dead = self.living.take_if(|(_, process)| {
            let mut process = [PollFd::new(process, PollFlags::IN)];
            poll(&mut process, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
        });
        dead.map(|(rank, _)| rank)
    }

    /// Returns `true` if the system has killed a process of this host for lack of memory since the start.
    pub fn has_killed(&self) -> bool {
        count_killed() > self.killed
    }
}

/// Counts the processes that this system has killed for lack of memory: its own, or that of a control group.
fn count_killed() -> u64 {
    let text = fs::read_to_string("/proc/vmstat").unwrap_or_default();
    let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
    count.and_then(|count| count.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::super::channel::Endpoint;
    use super::*;

    #[test]
    fn each_rank_of_a_host_looks_after_the_next() {
        let mut children = [(); 2].map(|()| {
            let mut cat = Command::new("cat");
            cat.stdin(Stdio::piped()).spawn().unwrap()
        });
        let [a, b] = ["a", "b"].map(|host| Endpoint::open(true).describe(host));
        let mut peers = [a.clone(), b, a];
        for (rank, child) in [0, 2].into_iter().zip(&children) {
            peers[rank].process = child.id();
        }
        let mut deaths = [0, 1, 2].map(|me| Deaths::watch(&peers, me));
        assert_eq!(deaths.each_ref().map(|it| it.descriptor().is_some()), [true, false, true]);
        assert_eq!(deaths[0].take_dead(), None);
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert_eq!(deaths.each_mut().map(Deaths::take_dead), [Some(2), None, Some(0)]);
        assert_eq!(deaths[0].take_dead(), None);
    }
}
