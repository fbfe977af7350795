//! The deaths of ranks of this host, and the processes that the system kills for lack of memory.
//!
//! A launcher ends a job within milliseconds of a rank's death, and tells no more than its signal. So a watcher is woken by
//! the death itself, and says at once if memory ran out.

use std::fs;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::channel::Peer;

/// The ranks of this host that this one looks after.
#[derive(Debug)]
pub struct Deaths {
    /// Each living rank with a descriptor of its process.
    living: Vec<(usize, OwnedFd)>,
    /// Number of processes that had been killed for lack of memory at the start.
    killed: u64,
}

impl Deaths {
    /// Looks after the other ranks of this host if rank `me` is its first one, or after the first one if `me` is the second.
    pub fn watch(peers: &[Peer], me: usize) -> Self {
        let mut here = (0..peers.len()).filter(|&rank| peers[rank].has_processes_of(&peers[me]));
        let first = here.next();
        let others: Vec<usize> = if first == Some(me) {
            here.collect()
        } else if here.next() == Some(me) {
            first.into_iter().collect()
        } else {
            Vec::new()
        };
        let open = |rank: usize| {
            let process = Pid::from_raw(peers[rank].process.cast_signed())?;
            // Older systems have no such descriptors.
            Some((rank, pidfd_open(process, PidfdFlags::empty()).ok()?))
        };
        Self { living: others.into_iter().filter_map(open).collect(), killed: count_killed() }
    }

    /// Lists descriptors that can be read once a rank is dead.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.living.iter().map(|(_, process)| process.as_fd())
    }

    /// Returns the ranks that have died since the last time.
    pub fn take_dead(&mut self) -> Vec<usize> {
        self.living
            .extract_if(.., |(_, process)| {
                let mut process = [PollFd::new(process, PollFlags::IN)];
                poll(&mut process, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
            })
            .map(|(rank, _)| rank)
            .collect()
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
    fn the_first_ranks_of_a_host_look_after_the_others() {
        let mut children = [(); 3].map(|()| {
            let mut cat = Command::new("cat");
            cat.stdin(Stdio::piped()).spawn().unwrap()
        });
        let [a, b] = ["a", "b"].map(|host| Endpoint::open(true).describe(host));
        let mut peers = [b, a.clone(), a.clone(), a];
        for (peer, child) in peers[1..].iter_mut().zip(&children) {
            peer.process = child.id();
        }
        let mut deaths = [0, 1, 2, 3].map(|me| Deaths::watch(&peers, me));
        let counts = deaths.each_ref().map(|of| of.descriptors().count());
        assert_eq!(counts, [0, 2, 1, 0]);
        assert_eq!(deaths[1].take_dead(), [0; 0]);
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert_eq!(deaths[1].take_dead(), [2, 3]);
        assert_eq!(deaths[1].take_dead(), [0; 0]);
        assert_eq!(deaths[2].take_dead(), [1]);
    }
}
