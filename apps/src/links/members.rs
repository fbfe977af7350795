//! The members between which messages are timed, and the check of their links.

use std::collections::BTreeMap;

use isochron_core::Error;
use isochron_core::comm::Comm;
use isochron_core::internal::{LengthTimes, choose_long_bytes, time_lengths, time_pairs};
use isochron_hierarchy::balance::BalanceStep;
use isochron_hierarchy::network::{
    LinkCheck, LinkPass, LinkReport, LinkRequest, list_lossy, list_rounds,
};

use super::document::LinksDocument;

/// Further looks at hosts that lose more than others.
const LOOKS_AT_LOSSES: usize = 3;

/// The members of a network: the first rank of each host, or all ranks of one host.
pub struct Members {
    /// Rank of each member.
    pub ranks: Vec<usize>,
    /// Name of each member.
    pub names: Vec<String>,
    /// `true` if they are hosts.
    pub are_hosts: bool,
}

/// Does some work while the devices of this rank compute.
pub type WhileComputing<'w> = dyn FnMut(&mut dyn FnMut()) + 'w;

impl Members {
    /// Finds the members of the job.
    ///
    /// # Errors
    /// Returns the errors of [`Comm`].
    ///
    /// # Collective
    /// All ranks.
    pub fn find(comm: &dyn Comm) -> Result<Self, Error> {
        let hosts = comm.gather(&comm.host().to_owned())?;
        let mut first = BTreeMap::new();
        for (rank, host) in hosts.iter().enumerate() {
            first.entry(host).or_insert(rank);
        }
        if first.len() == 1 {
            let ranks: Vec<usize> = (0..comm.size()).collect();
            let names = ranks.iter().map(|rank| format!("rank {rank}")).collect();
            return Ok(Self { ranks, names, are_hosts: false });
        }
        // Hosts of one group usually have neighbouring names.
        let mut hosts: Vec<(&String, usize)> = first.into_iter().collect();
        hosts.sort_by_key(|(name, _)| split_digits(name));
        let (names, ranks) = hosts.into_iter().map(|(name, rank)| (name.clone(), rank)).unzip();
        Ok(Self { ranks, names, are_hosts: true })
    }

    /// Returns the ranks of pairs of members.
    fn to_ranks(&self, pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
        pairs.iter().map(|&(a, b)| (self.ranks[a], self.ranks[b])).collect()
    }

    /// Checks the links between the members, until the head rank says that the time `is_over`. If `computing` is given on all ranks,
    /// messages are timed under load too. Returns the result on the head rank; `None` if the time was over before.
    ///
    /// # Errors
    /// Returns the errors of [`Comm`].
    ///
    /// # Collective
    /// All ranks.
    pub fn check(
        &self,
        comm: &dyn Comm,
        show: &mut dyn FnMut(&LinkRequest),
        is_over: &dyn Fn() -> bool,
        mut computing: Option<&mut WhileComputing<'_>>,
    ) -> Result<Option<LinksDocument>, Error> {
        let first = list_rounds(self.ranks.len()).into_iter().next().unwrap_or_default();
        let long_bytes = choose_long_bytes(comm, &self.to_ranks(&first))?;
        let mut head =
            (comm.rank() == 0).then(|| LinkCheck::new(self.ranks.len(), computing.is_some()));
        let mut found: Option<LinkReport> = None;
        let mut lossy = self.list_lossy(comm, &mut || {
            loop {
                let request = head.as_ref().map(|check| match check.step() {
                    BalanceStep::Measure(request) => Some(request).filter(|_| !is_over()),
                    BalanceStep::Done(report) => {
                        found = Some(report);
                        None
                    }
                });
                let Some(request) = comm.share(0, request)? else {
                    return Ok(());
                };
                show(&request);
                let mut times = Ok(Vec::new());
                let mut time =
                    || times = time_pairs(comm, &self.to_ranks(&request.pairs), long_bytes);
                match &mut computing {
                    Some(computing) if request.pass == LinkPass::Computing => computing(&mut time),
                    _ => time(),
                }
                let times = times?;
                if let Some(check) = &mut head {
                    check.observe(&times);
                }
            }
        })?;
        // A host whose cores are busy loses some by chance: only one that loses again and again is at fault.
        for _ in 0..LOOKS_AT_LOSSES {
            let is_cut = found.is_none() || is_over();
            if comm.share(0, (comm.rank() == 0).then_some(is_cut))? {
                lossy.clear();
            }
            if lossy.is_empty() {
                break;
            }
            let again = self.list_lossy(comm, &mut || {
                list_rounds(self.ranks.len()).into_iter().try_for_each(|pairs| {
                    let request = LinkRequest { pass: LinkPass::Together, pairs };
                    show(&request);
                    time_pairs(comm, &self.to_ranks(&request.pairs), long_bytes).map(drop)
                })
            })?;
            lossy.retain(|(member, _)| again.iter().any(|(other, _)| other == member));
        }
        let functions = self.time_levels(comm, found.as_ref(), long_bytes)?;
        Ok(found.map(|mut found| {
            found.add_losses(&lossy);
            if !self.are_hosts {
                // Ranks of one host share its cores and caches, as their places have it: no one of them is at fault.
                found.findings.clear();
            }
            let members = self.names.iter().cloned().zip(self.ranks.iter().copied());
            LinksDocument::new(&members.collect::<Vec<_>>(), long_bytes, found, &functions)
        }))
    }

    /// Times messages of growing lengths in the middle pair of each level.
    ///
    /// # Collective
    /// All ranks.
    fn time_levels(
        &self,
        comm: &dyn Comm,
        found: Option<&LinkReport>,
        long_bytes: usize,
    ) -> Result<Vec<Vec<LengthTimes>>, Error> {
        let middle = found.map(|found| {
            let middle = found.list_levels().into_values().map(|mut pairs| {
                pairs.sort_by(|(_, a), (_, b)| a.long_s.total_cmp(&b.long_s));
                pairs[pairs.len() / 2].0
            });
            self.to_ranks(&middle.collect::<Vec<_>>())
        });
        let middle = comm.share(0, (comm.rank() == 0).then(|| middle.unwrap_or_default()))?;
        middle.into_iter().map(|pair| time_lengths(comm, pair, long_bytes)).collect()
    }

    /// Lists the members that lose clearly more than others while `exchange` sends messages.
    ///
    /// # Collective
    /// All ranks.
    fn list_lossy(
        &self,
        comm: &dyn Comm,
        exchange: &mut dyn FnMut() -> Result<(), Error>,
    ) -> Result<Vec<(usize, f64)>, Error> {
        let before = count_segments();
        exchange()?;
        let since = count_segments().zip(before);
        let since =
            since.map(|(now, before)| [0, 1].map(|place| now[place].saturating_sub(before[place])));
        let sent = comm.gather(&since)?;
        Ok(list_lossy(&self.ranks.iter().map(|&rank| sent[rank]).collect::<Vec<_>>()))
    }
}

/// Returns the segments that this host has sent by TCP since its start, and those of them that were lost: sent again, and not
/// reported as come twice by the receiver.
fn count_segments() -> Option<[u64; 2]> {
    let [plain, extended] =
        ["/proc/net/snmp", "/proc/net/netstat"].map(|path| std::fs::read_to_string(path).ok());
    let (plain, extended) = (plain?, extended?);
    let value = |text: &str, of: &str, wanted: &str| -> Option<u64> {
        let mut lines = text.lines().filter(|line| line.starts_with(of));
        let (names, values) = (lines.next()?, lines.next()?);
        let place = names.split_whitespace().position(|name| name == wanted)?;
        values.split_whitespace().nth(place)?.parse().ok()
    };
    let again = value(&plain, "Tcp:", "RetransSegs")?;
    let twice = ["TCPDSACKRecv", "TCPDSACKOfoRecv"].map(|name| value(&extended, "TcpExt:", name));
    Some([value(&plain, "Tcp:", "OutSegs")?, again.saturating_sub(twice[0]? + twice[1]?)])
}

/// Splits a name into its text and its numbers, so that `node10` comes after `node9`.
fn split_digits(name: &str) -> Vec<(String, u64)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let (text, after) =
            rest.split_at(rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len()));
        let (digits, next) =
            after.split_at(after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len()));
        parts.push((text.to_owned(), digits.parse().unwrap_or(u64::MAX)));
        rest = next;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_count() {
        let mut names = ["node10", "node9", "node1", "rack2-node3", "node", "rack10-node1"];
        names.sort_by_key(|name| split_digits(name));
        assert_eq!(names, ["node1", "node9", "node10", "node", "rack2-node3", "rack10-node1"]);
    }
}
