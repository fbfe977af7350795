//! Hosts that give themselves one name.
//!
//! Ranks are of one host if it has one name and one running kernel. Names alone do not tell: containers and machines that
//! were cloned often have the same. Containers of one kernel and one name share its cores and its memory, so they are one
//! host.

use isochron_core::internal::input::read_kernel_id;
use serde::{Deserialize, Serialize};

/// A rank's host, as far as the rank can tell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OwnHost {
    /// The name that it gives itself.
    name: String,
    /// The identity of its kernel; empty if the system does not tell.
    boot: String,
}

impl OwnHost {
    /// Reads the identity of this host, which gives itself this name.
    pub(super) fn read(name: &str) -> Self {
        Self { name: name.to_owned(), boot: read_kernel_id() }
    }
}

/// Returns the name of a rank's host: its own, with a number if other hosts have the same. The numbers follow the ranks.
pub(super) fn label_host(hosts: &[OwnHost], rank: usize) -> String {
    let own = &hosts[rank];
    let mut alike: Vec<&OwnHost> = Vec::new();
    for host in hosts.iter().filter(|host| host.name == own.name) {
        if !alike.contains(&host) {
            alike.push(host);
        }
    }
    let name = &own.name;
    match alike.iter().position(|host| *host == own) {
        Some(index) if alike.len() > 1 => format!("{name} ({})", index + 1),
        _ => name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_one_name_are_told_apart_by_their_kernels() {
        let hosts = [("a", "1"), ("b", "2"), ("a", "3"), ("a", "1"), ("b", "2")]
            .map(|(name, boot)| OwnHost { name: name.to_owned(), boot: boot.to_owned() });
        let labels = [0, 1, 2, 3, 4].map(|rank| label_host(&hosts, rank));
        assert_eq!(labels, ["a (1)", "b", "a (2)", "a (1)", "b"]);
    }

    #[test]
    fn ranks_of_one_machine_are_of_one_host() {
        let own = OwnHost::read("a");
        assert_eq!(OwnHost::read("a"), own);
        assert!(own.boot.len() > 8, "{own:?}");
        assert_eq!(label_host(&[own.clone(), own], 1), "a");
    }
}
