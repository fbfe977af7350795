//! The nodes of a plan: the ranks and devices that it was made for.

use isochron_devices::internal::DeviceSpec;
use isochron_devices::{DeviceInfo, DeviceKind, MeasureTally};
use serde::{Deserialize, Serialize};

use crate::store::KnownFrom;

/// The most ranks that a refusal names.
const MOST_NAMED: usize = 4;

/// One node of a [`Plan`](super::Plan).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct PlannedNode {
    /// Its rank.
    pub rank: usize,
    /// Its host; empty in a plan without measurements.
    pub host: String,
    /// Its name in the platform file; empty without one.
    pub name: String,
    /// Tally of the measurements that the plan was made from.
    pub measured: MeasureTally,
    /// Its devices.
    pub devices: Vec<PlannedDevice>,
}

/// One device of a [`PlannedNode`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct PlannedDevice {
    /// Its name; empty in a plan without measurements.
    pub name: String,
    /// Its kind.
    pub kind: DeviceKind,
    /// The BLAS it calls.
    pub blas: String,
    /// Its emulated pace; `null` if it is not slowed down.
    pub paced: Option<String>,
    /// Number of cores of its host that it uses.
    pub cores: usize,
    /// Columns of its node's part that it computes, in elements.
    pub columns: usize,
    /// The origin of its first model: `models` (given by hand), `store` (times of earlier runs), `store+probe` (the
    /// same, scaled by a measurement), or `fresh` (measurements before this run alone); `null` if nothing was to be
    /// known of it.
    #[serde(default)]
    pub known: Option<KnownFrom>,
}

impl PlannedNode {
    /// Makes the node of a rank whose devices are not known, with these columns for each of them.
    pub(crate) fn unnamed(rank: usize, slices: &[usize]) -> Self {
        let devices =
            slices.iter().map(|&columns| PlannedDevice { columns, ..PlannedDevice::default() });
        Self { rank, devices: devices.collect(), ..Self::default() }
    }

    /// Returns the same node whose devices compute these columns.
    pub(crate) fn with_slices(&self, slices: &[usize]) -> Self {
        let mut node = self.clone();
        for (device, &columns) in node.devices.iter_mut().zip(slices) {
            device.columns = columns;
        }
        node
    }

    /// The BLAS that its CPU devices call; `None` if it has none, or they are not known.
    pub fn blas(&self) -> Option<&str> {
        let mut devices = self.devices.iter();
        let device = devices.find(|device| device.kind == DeviceKind::Cpu)?;
        Some(&*device.blas).filter(|name| !name.is_empty())
    }

    /// Counts the cores that its devices ask for; 0 if that is not known.
    pub(super) fn count_cores(&self) -> usize {
        self.devices.iter().map(|device| device.cores).sum()
    }

    /// Returns the columns that each device computes, in elements.
    pub(super) fn slices(&self) -> Vec<usize> {
        self.devices.iter().map(|device| device.columns).collect()
    }
}

impl PlannedDevice {
    /// Describes a device of a platform file that is not here.
    pub(crate) fn of_spec(spec: &DeviceSpec) -> Self {
        let cores = spec.count_cores();
        Self { name: spec.name().to_owned(), kind: spec.kind(), cores, ..Self::default() }
    }

    /// Describes a device with its columns.
    pub(crate) fn new(info: &DeviceInfo, columns: usize) -> Self {
        Self {
            known: None,
            name: info.name.clone(),
            kind: info.kind,
            blas: info.blas.clone(),
            paced: info.paced.clone(),
            cores: info.cores.len(),
            columns,
        }
    }
}

/// Names the first difference between the nodes that a plan is for and those that are here; `None` if a plan for the
/// one suits the other. Measurements and columns do not count.
pub(crate) fn find_difference(planned: &[PlannedNode], here: &[PlannedNode]) -> Option<String> {
    if planned.len() != here.len() {
        let (ranks, found) = (planned.len(), here.len());
        return Some(format!("it is for {ranks} ranks, and there are {found}"));
    }
    differ_in_hosts(planned, here).or_else(|| {
        let mut nodes = planned.iter().zip(here);
        nodes.find_map(|(planned, here)| differ_in_node(planned, here))
    })
}

/// Names the ranks that are on other hosts.
fn differ_in_hosts(planned: &[PlannedNode], here: &[PlannedNode]) -> Option<String> {
    let ranks = planned.iter().zip(here);
    let moved: Vec<_> = ranks.filter(|(was, is)| was.host != is.host).collect();
    let mut text: Vec<String> = moved
        .iter()
        .take(MOST_NAMED)
        .map(|(was, is)| {
            format!("rank {} is for host {}, and is on {}", is.rank, was.host, is.host)
        })
        .collect();
    if moved.len() > MOST_NAMED {
        text.push(format!("{} more ranks differ", moved.len() - MOST_NAMED));
    }
    let [before, after] = [planned, here].map(|nodes| {
        let mut hosts: Vec<&str> = nodes.iter().map(|node| node.host.as_str()).collect();
        hosts.sort_unstable();
        hosts
    });
    if before == after {
        text.push("they are the same hosts in another order".to_owned());
    }
    (!moved.is_empty()).then(|| text.join("; "))
}

/// Names the first difference between a node as planned and as it is.
fn differ_in_node(planned: &PlannedNode, here: &PlannedNode) -> Option<String> {
    let rank = here.rank;
    if planned.name != here.name {
        let [was, is] = [planned, here].map(|node| match node.name.as_str() {
            "" => "no node of a platform file".to_owned(),
            name => format!("node {name}"),
        });
        return Some(format!("rank {rank} is for {was}, and is {is}"));
    }
    let [was, is] = [planned, here].map(|node| {
        node.devices.iter().map(|device| device.name.as_str()).collect::<Vec<_>>().join(", ")
    });
    if was != is {
        return Some(format!("it is for the devices {was} of rank {rank}, which has {is}"));
    }
    let mut devices = planned.devices.iter().zip(&here.devices);
    devices.find_map(|(planned, here)| {
        let (what, was, is) = differ_in_device(planned, here)?;
        let name = &here.name;
        Some(format!("device {name} of rank {rank} is for {what} {was}, and has {is}"))
    })
}

/// Returns the first quality in which a device differs, as planned and as it is.
fn differ_in_device(
    planned: &PlannedDevice,
    here: &PlannedDevice,
) -> Option<(&'static str, String, String)> {
    let [was, is] = [planned, here].map(|device| {
        let pace = device.paced.clone().unwrap_or_else(|| "none".to_owned());
        [
            ("kind", device.kind.name().to_owned()),
            ("BLAS", device.blas.clone()),
            ("pace", pace),
            ("number of cores", device.cores.to_string()),
        ]
    });
    let mut qualities = was.into_iter().zip(is);
    let ((what, was), (_, is)) = qualities.find(|(was, is)| was != is)?;
    Some((what, was, is))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(rank: usize, host: &str) -> PlannedNode {
        let device = PlannedDevice {
            name: "cpu0".to_owned(),
            blas: "embedded".to_owned(),
            cores: 2,
            columns: rank,
            ..PlannedDevice::default()
        };
        PlannedNode { rank, host: host.to_owned(), devices: vec![device], ..PlannedNode::default() }
    }

    fn pair() -> Vec<PlannedNode> {
        vec![node(0, "a"), node(1, "b")]
    }

    type Change = fn(&mut PlannedNode);

    /// Returns the difference to the pair after a change of rank 1.
    fn difference(change: Change) -> Option<String> {
        let mut here = pair();
        change(&mut here[1]);
        find_difference(&pair(), &here)
    }

    #[test]
    fn every_difference_is_named_with_its_rank_and_both_values() {
        let cases: [(Change, &str); 7] = [
            (|node| node.host = "c".to_owned(), "rank 1 is for host b, and is on c"),
            (
                |node| node.name = "fast".to_owned(),
                "rank 1 is for no node of a platform file, and is node fast",
            ),
            (
                |node| node.devices.push(PlannedDevice::default()),
                "it is for the devices cpu0 of rank 1, which has cpu0, ",
            ),
            (
                |node| node.devices[0].kind = DeviceKind::Cuda,
                "device cpu0 of rank 1 is for kind cpu, and has cuda",
            ),
            (
                |node| node.devices[0].blas = "MKL".to_owned(),
                "device cpu0 of rank 1 is for BLAS embedded, and has MKL",
            ),
            (
                |node| node.devices[0].paced = Some("slowdown 4".to_owned()),
                "device cpu0 of rank 1 is for pace none, and has slowdown 4",
            ),
            (
                |node| node.devices[0].cores = 1,
                "device cpu0 of rank 1 is for number of cores 2, and has 1",
            ),
        ];
        for (change, named) in cases {
            assert_eq!(difference(change).as_deref(), Some(named));
        }
    }

    #[test]
    fn measurements_and_columns_are_no_difference() {
        let change = |node: &mut PlannedNode| {
            node.devices[0].columns = 0;
            node.measured.measurements = 3;
        };
        assert_eq!(difference(change), None);
    }

    #[test]
    fn another_number_of_ranks_is_told_first() {
        let found = find_difference(&pair(), &[node(0, "c")]);
        assert_eq!(found.as_deref(), Some("it is for 2 ranks, and there are 1"));
    }

    #[test]
    fn the_same_hosts_in_another_order_are_named_by_rank() {
        let swapped = [node(0, "b"), node(1, "a")];
        let text = find_difference(&pair(), &swapped).unwrap();
        assert_eq!(
            text,
            "rank 0 is for host a, and is on b; rank 1 is for host b, and is on a; \
             they are the same hosts in another order"
        );
        let hosts = |on: &str| (0..9).map(|rank| node(rank, on)).collect::<Vec<_>>();
        let text = find_difference(&hosts("a"), &hosts("b")).unwrap();
        assert!(text.contains("rank 3") && text.ends_with("5 more ranks differ"), "{text}");
    }
}
