//! The link between a PCI device and the host, as Linux describes it.

use super::BusId;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;
use std::str::FromStr;

/// Width and rate of a PCI Express link.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct PciLink {
    /// Lanes in use.
    pub width: u32,
    /// Transfers per second and lane in use, in 10⁹; an idle GPU lowers them to save power.
    pub gt_per_s: f64,
    /// Most lanes of the device.
    pub max_width: u32,
    /// Most transfers per second and lane, in 10⁹.
    pub max_gt_per_s: f64,
}

impl PciLink {
    /// Reads the link of a device on a file system with this root; `None` if the system does not tell.
    pub(super) fn read_from(root: &Path, bus_id: &BusId) -> Option<Self> {
        let folder = root.join("sys/bus/pci/devices").join(bus_id.to_string());
        Some(Self {
            width: read_number(&folder, "current_link_width")?,
            gt_per_s: read_number(&folder, "current_link_speed")?,
            max_width: read_number(&folder, "max_link_width")?,
            max_gt_per_s: read_number(&folder, "max_link_speed")?,
        })
    }
}

/// Reads the number at the start of a file such as `16.0 GT/s PCIe`; `None` for `Unknown`.
fn read_number<T: FromStr>(folder: &Path, file: &str) -> Option<T> {
    fs::read_to_string(folder.join(file)).ok()?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::make_tree;

    #[test]
    fn the_kernels_files_are_read() {
        let folder = "sys/bus/pci/devices/0000:3b:00.0/";
        let files = [
            ("current_link_width", "8\n"),
            ("current_link_speed", "2.5 GT/s PCIe\n"),
            ("max_link_width", "16\n"),
            ("max_link_speed", "16.0 GT/s PCIe\n"),
        ];
        let files = files.map(|(name, text)| (format!("{folder}{name}"), text));
        let files: Vec<_> = files.iter().map(|(name, text)| (name.as_str(), *text)).collect();
        let root = make_tree(&files);
        let bus_id: BusId = "3b:00.0".parse().unwrap();
        let link = PciLink::read_from(root.path(), &bus_id).unwrap();
        assert_eq!((link.width, link.max_width), (8, 16));
        assert_eq!((link.gt_per_s, link.max_gt_per_s), (2.5, 16.0));
        assert_eq!(PciLink::read_from(make_tree(&files[..3]).path(), &bus_id), None);
        let unknown = [&files[..3], &[(files[3].0, "Unknown\n")]].concat();
        assert_eq!(PciLink::read_from(make_tree(&unknown).path(), &bus_id), None);
    }
}
