//! The specification of a cluster.

use serde::{Deserialize, Serialize};

use crate::error::ClusterError;
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
