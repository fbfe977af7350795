//! The specification of a cluster.

use serde::{Deserialize, Serialize};

use crate::error::ClusterError;
use crate::flaw::Flaw;
use crate::units::{Latency, Quota, Rate};

/// Most hosts of a cluster: the addresses of one network.
const MAX_HOSTS: usize = 250;
/// Longest name of a cluster.
const MAX_NAME: usize = 40;

/// The specification of a cluster: its hosts, their network and their speed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Spec {
    /// Tells clusters of one machine apart: letters, digits and hyphens.
    pub name: String,
    /// Number of hosts, 1 to 250.
    pub n_hosts: usize,
    /// Bandwidth of each host's link, in each direction; `None` for the machine's own.
    pub bandwidth: Option<Rate>,
    /// Latency from host to host, one way.
    pub latency: Latency,
    /// CPU quota of each host, or one for all; empty for no quotas.
    pub quotas: Vec<Quota>,
    /// Cores of the hosts: host `i` (from 0) is bound to `cpus[i % cpus.len()]`; empty for unbound hosts.
    pub cpus: Vec<usize>,
    /// Numbers of hosts in each group, which have an uplink to the others; empty for one group.
    pub groups: Vec<usize>,
    /// Bandwidth of each group's uplink, in each direction; `None` for that of a host.
    pub uplink: Option<Rate>,
    /// Links that are not as the others.
    pub flaws: Vec<Flaw>,
}

impl Spec {
    /// Makes the specification of hosts without limits.
    ///
    /// # Errors
    /// Returns [`ClusterError::Value`] if `name` or `n_hosts` is not allowed.
    pub fn new(name: &str, n_hosts: usize) -> Result<Self, ClusterError> {
        let spec = Self {
            name: name.to_owned(),
            n_hosts,
            bandwidth: None,
            latency: Latency::default(),
            quotas: Vec::new(),
            cpus: Vec::new(),
            groups: Vec::new(),
            uplink: None,
            flaws: Vec::new(),
        };
        spec.validate()?;
        Ok(spec)
    }

    /// Checks the conditions that the types do not ensure.
    ///
    /// # Errors
    /// Returns [`ClusterError::Value`] with the first wrong value.
    pub fn validate(&self) -> Result<(), ClusterError> {
        validate_name(&self.name)?;
        if !(1..=MAX_HOSTS).contains(&self.n_hosts) {
            let reason = format!("there must be 1 to {MAX_HOSTS}");
            return Err(ClusterError::value("number of hosts", self.n_hosts, &reason));
        }
        if self.quotas.len() > 1 && self.quotas.len() != self.n_hosts {
            let list: Vec<_> = self.quotas.iter().map(Quota::to_string).collect();
            let reason = format!("give one for all hosts, or one for each of the {}", self.n_hosts);
            return Err(ClusterError::value("quota", list.join(","), &reason));
        }
        if !self.groups.is_empty() && self.groups.iter().sum::<usize>() != self.n_hosts {
            let list: Vec<_> = self.groups.iter().map(usize::to_string).collect();
            let reason = format!("the groups must hold the {} hosts", self.n_hosts);
            return Err(ClusterError::value("groups", list.join(","), &reason));
        }
        if let Some(flaw) =
            self.flaws.iter().find(|flaw| flaw.host.max(flaw.other.unwrap_or(0)) >= self.n_hosts)
        {
            let reason = format!("there are {} hosts", self.n_hosts);
            return Err(ClusterError::value("flaw", flaw, &reason));
        }
        let here = rustix::thread::sched_getaffinity(None).unwrap_or_default();
        let limit = rustix::thread::CpuSet::MAX_CPU;
        match self.cpus.iter().find(|cpu| **cpu >= limit || !here.is_set(**cpu)) {
            Some(cpu) => Err(ClusterError::value("CPU", cpu, "this process may not run on it")),
            None => Ok(()),
        }
    }

    /// Returns the quota of host `idx`, from 0, in cores.
    pub fn quota(&self, idx: usize) -> Option<f64> {
        self.full_quota(idx).cores()
    }

    /// Changes the quota of host `idx`, from 0.
    pub(crate) fn change_quota(&mut self, idx: usize, quota: Quota) {
        self.quotas = (0..self.n_hosts).map(|idx| self.full_quota(idx)).collect();
        self.quotas[idx] = quota;
    }

    fn full_quota(&self, idx: usize) -> Quota {
        self.quotas.get(idx).or_else(|| self.quotas.first()).copied().unwrap_or_default()
    }

    /// Returns the group of host `idx`, from 0.
    pub fn group(&self, idx: usize) -> usize {
        let ends = self.groups.iter().scan(0, |end, hosts| {
            *end += hosts;
            Some(*end)
        });
        ends.take_while(|end| *end <= idx).count()
    }

    /// Returns `true` if only the switch in user space makes such a network.
    pub(crate) fn needs_switch(&self) -> bool {
        self.latency.ns() > 0 || !self.groups.is_empty() || !self.flaws.is_empty()
    }

    /// Returns the core of host `idx`, from 0.
    pub fn cpu(&self, idx: usize) -> Option<usize> {
        let turn = idx.checked_rem(self.cpus.len())?;
        self.cpus.get(turn).copied()
    }
}

/// Checks a cluster's name, which becomes part of the names of folders and control groups.
pub(crate) fn validate_name(name: &str) -> Result<(), ClusterError> {
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    if name.is_empty() || name.len() > MAX_NAME || !is_plain {
        let reason = format!("use 1 to {MAX_NAME} letters, digits and hyphens");
        return Err(ClusterError::value("name", name, &reason));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quotas(list: &[&str]) -> Vec<Quota> {
        list.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn one_quota_is_everyones_and_cores_are_dealt_in_turn() {
        let mut spec = Spec::new("x", 3).unwrap();
        assert_eq!((spec.quota(2), spec.cpu(2)), (None, None));
        spec.quotas = quotas(&["50%"]);
        spec.cpus = vec![0, 1];
        assert_eq!((spec.quota(2), spec.cpu(2)), (Some(0.5), Some(0)));
        spec.quotas = quotas(&["none", "25%", "50%"]);
        assert_eq!((spec.quota(0), spec.quota(1)), (None, Some(0.25)));
        for (before, others) in [(quotas(&[]), None), (quotas(&["50%"]), Some(0.5))] {
            spec.quotas = before;
            spec.change_quota(1, quotas(&["25%"])[0]);
            assert_eq!([0, 1, 2].map(|idx| spec.quota(idx)), [others, Some(0.25), others]);
        }
    }
}
