//! GPUs on the buses of a host, and the cores near them.

use super::{PciLink, Topology, set_indices};
use crate::contract::DeviceError;
use hwlocality::object::TopologyObject;
use hwlocality::object::attributes::{ObjectAttributes, PCIDeviceAttributes};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// Distances of cores, by logical index, from a GPU: 0 for the nearest. A core that is not listed is farther than all
/// others.
pub type Distances = BTreeMap<u32, u32>;

/// The address of a device on the PCI buses of a host. It joins the knowledge of hwloc and of a driver.
///
/// ```
/// use isochron_devices::BusId;
/// // Drivers write it in several ways.
/// let bus_id: BusId = "00000000:3B:00.0".parse()?;
/// assert_eq!(bus_id, "3b:00.0".parse()?);
/// assert_eq!(bus_id.to_string(), "0000:3b:00.0");
/// # Ok::<(), isochron_devices::DeviceError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(into = "String", try_from = "String")]
pub struct BusId {
    domain: u32,
    bus: u8,
    device: u8,
    function: u8,
}

impl fmt::Display for BusId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, bus, device, function } = self;
        f.pad(&format!("{domain:04x}:{bus:02x}:{device:02x}.{function:x}"))
    }
}

impl FromStr for BusId {
    type Err = DeviceError;

    /// Reads `domain:bus:device.function` in hexadecimal digits; the domain may be missing.
    fn from_str(text: &str) -> Result<Self, DeviceError> {
        parse_bus_id(text).ok_or_else(|| DeviceError::BusId(text.to_owned()))
    }
}

fn parse_bus_id(text: &str) -> Option<BusId> {
    let (rest, function) = text.trim().rsplit_once('.')?;
    let (rest, device) = rest.rsplit_once(':')?;
    let (domain, bus) = rest.rsplit_once(':').unwrap_or(("0", rest));
    Some(BusId {
        domain: u32::from_str_radix(domain, 16).ok()?,
        bus: u8::from_str_radix(bus, 16).ok()?,
        device: u8::from_str_radix(device, 16).ok()?,
        function: u8::from_str_radix(function, 16).ok()?,
    })
}

impl From<BusId> for String {
    fn from(bus_id: BusId) -> Self {
        bus_id.to_string()
    }
}

impl TryFrom<String> for BusId {
    type Error = DeviceError;

    fn try_from(text: String) -> Result<Self, DeviceError> {
        text.parse()
    }
}

/// A GPU as the host sees it on its buses, usable by a driver or not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct PciGpu {
    /// Its address on the bus.
    pub bus_id: BusId,
    /// The maker's number.
    pub vendor_id: u16,
    /// The product's number.
    pub device_id: u16,
    /// The maker's name, if the host knows it.
    pub vendor: Option<String>,
    /// The product's name, if the host knows it.
    pub name: Option<String>,
    /// GB/s of its link in one direction as set now; an idle GPU lowers it to save power.
    pub link_gb_per_s: Option<f64>,
    /// Width and rate of its link; `None` for another machine.
    pub link: Option<PciLink>,
    /// Its memory in bytes, if hwloc asked its driver.
    pub memory_bytes: Option<u64>,
    /// NUMA domain of its bus, the system's number; `None` if unknown, or if there are several.
    pub numa: Option<u32>,
    /// The nearest cores that may be used, by logical index.
    pub near_cores: Vec<u32>,
}

impl PciGpu {
    /// Returns `true` if it is NVIDIA's, so that CUDA may drive it.
    pub fn is_nvidia(&self) -> bool {
        self.vendor_id == NVIDIA
    }
}

/// A GPU as its driver sees it. Slices of one GPU (MIG) are several, on one bus.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct DriverGpu {
    /// The driver's number.
    pub ordinal: u32,
    /// Its address, from the driver.
    pub bus_id: BusId,
    /// Its name, from the driver.
    pub name: String,
    /// Its memory in bytes, from the driver.
    pub memory_bytes: u64,
}

impl DriverGpu {
    /// Returns the default name of a device of this GPU: `cuda0`, `cuda1`, …, by the driver's number.
    pub fn device_name(&self) -> String {
        format!("cuda{}", self.ordinal)
    }
}

/// A GPU as its host and its driver see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct GpuInfo {
    /// Address on the bus.
    pub bus_id: BusId,
    /// Facts that the host shows; `None` if it does not show its buses, as in some containers.
    pub pci: Option<PciGpu>,
    /// Facts from the driver; `None` if there is none, or it does not show this GPU.
    pub driver: Option<DriverGpu>,
}

impl GpuInfo {
    /// Joins the host's view and the driver's by address: first the driver's GPUs in its order, then those
    /// that it does not show.
    pub fn join(pci: Vec<PciGpu>, driver: Vec<DriverGpu>) -> Vec<Self> {
        let driven: Vec<Self> = driver
            .into_iter()
            .map(|gpu| Self {
                bus_id: gpu.bus_id,
                pci: pci.iter().find(|seen| seen.bus_id == gpu.bus_id).cloned(),
                driver: Some(gpu),
            })
            .collect();
        let others: Vec<Self> = pci
            .iter()
            .filter(|gpu| !driven.iter().any(|d| d.bus_id == gpu.bus_id))
            .map(|gpu| Self { bus_id: gpu.bus_id, pci: Some(gpu.clone()), driver: None })
            .collect();
        driven.into_iter().chain(others).collect()
    }

    /// Returns its name: the driver's, or that of the product.
    pub fn name(&self) -> &str {
        match (&self.driver, &self.pci) {
            (Some(driver), _) => &driver.name,
            (None, Some(pci)) => pci.name.as_deref().unwrap_or("unknown GPU"),
            (None, None) => "unknown GPU",
        }
    }

    /// Returns its memory in bytes, if the driver or hwloc tells.
    pub fn memory_bytes(&self) -> Option<u64> {
        self.driver.as_ref().map(|gpu| gpu.memory_bytes).or_else(|| self.pci.as_ref()?.memory_bytes)
    }

    /// Returns `true` if CUDA drives it, or could with its driver: such a GPU gets a host core.
    pub fn is_cuda(&self) -> bool {
        self.driver.is_some() || self.pci.as_ref().is_some_and(PciGpu::is_nvidia)
    }
}

/// Numbers of makers of GPUs. Video controllers of other makers on a board only drive a screen.
const NVIDIA: u16 = 0x10de;
const GPU_MAKERS: [u16; 3] = [NVIDIA, 0x1002, 0x8086];

/// PCI classes: VGA controller, 3D controller, other display controller, processing accelerator.
const GPU_CLASSES: [u16; 4] = [0x0300, 0x0302, 0x0380, 0x1200];

impl Topology {
    /// Returns the GPUs on the buses of the host, by address; empty if it does not show its buses.
    pub fn gpus(&self) -> Vec<PciGpu> {
        let mut gpus: Vec<PciGpu> = self
            .hwloc
            .pci_devices()
            .filter_map(|object| self.describe_gpu(object, gpu_attributes(object)?))
            .collect();
        gpus.sort_by_key(|gpu| gpu.bus_id);
        gpus
    }

    /// Returns the distances of the cores that this process may use from a device; none if the host does not show it. A
    /// core in the device's part of the host (a NUMA domain, a package) has distance 0, one in the next larger part 1,
    /// and so on.
    pub fn pci_distances(&self, bus_id: &BusId) -> Distances {
        let mut devices = self.hwloc.pci_devices();
        devices
            .find(|object| pci_address(object) == Some(*bus_id))
            .map_or_else(Distances::new, |object| self.core_distances(object))
    }

    fn core_distances(&self, device: &TopologyObject) -> Distances {
        let (cores, mut found) = (self.cores(), Distances::new());
        let near = device.first_non_io_ancestor();
        let parts = near.into_iter().chain(near.into_iter().flat_map(TopologyObject::ancestors));
        let mut distance = 0;
        for part in parts {
            let Some(set) = part.cpuset() else { continue };
            let before = found.len();
            for core in &cores {
                let inside = core.pus.iter().any(|&pu| set.is_set(pu as usize));
                if inside {
                    found.entry(core.core).or_insert(distance);
                }
            }
            // If this process may use no core of a part, the next larger one is the nearest.
            distance += u32::from(found.len() > before);
        }
        found
    }

    fn describe_gpu(&self, object: &TopologyObject, pci: &PCIDeviceAttributes) -> Option<PciGpu> {
        let bus_id = pci_address(object)?;
        let distances = self.core_distances(object).into_iter();
        let speed = f64::from(pci.link_speed());
        let link = self.is_this_system().then(|| PciLink::read_from(Path::new("/"), &bus_id));
        Some(PciGpu {
            bus_id,
            vendor_id: pci.vendor_id(),
            device_id: pci.device_id(),
            vendor: object_info(object, "PCIVendor"),
            name: object_info(object, "PCIDevice"),
            link_gb_per_s: Some(speed).filter(|&speed| speed > 0.0),
            link: link.flatten(),
            memory_bytes: object.io_children().find_map(memory_bytes),
            numa: bus_numa(object),
            near_cores: distances.filter(|(_, d)| *d == 0).map(|(core, _)| core).collect(),
        })
    }
}

/// Returns hwloc's textual information about an object.
pub(super) fn object_info(object: &TopologyObject, key: &str) -> Option<String> {
    Some(object.info(key)?.to_string_lossy().trim().to_owned())
}

/// Returns the attributes of a PCI device that is a GPU.
fn gpu_attributes(object: &TopologyObject) -> Option<&PCIDeviceAttributes> {
    match object.attributes()? {
        ObjectAttributes::PCIDevice(pci) => {
            let known = GPU_MAKERS.contains(&pci.vendor_id());
            (known && GPU_CLASSES.contains(&pci.class_id())).then_some(pci)
        }
        _ => None,
    }
}

/// Returns the address of a GPU; `None` for any other object.
pub(super) fn gpu_address(object: &TopologyObject) -> Option<BusId> {
    gpu_attributes(object)?;
    pci_address(object)
}

fn pci_address(object: &TopologyObject) -> Option<BusId> {
    match object.attributes()? {
        ObjectAttributes::PCIDevice(pci) => Some(BusId {
            domain: pci.domain().into(),
            bus: pci.bus_id(),
            device: pci.bus_device(),
            function: pci.function(),
        }),
        _ => None,
    }
}

/// Returns the only NUMA node of the part to which the device's bus belongs.
fn bus_numa(device: &TopologyObject) -> Option<u32> {
    let near = device.first_non_io_ancestor()?.nodeset()?;
    match set_indices(&near)[..] {
        [node] => Some(node),
        _ => None,
    }
}

/// Returns the memory of a GPU in bytes, which hwloc's object for the driver's device may hold.
fn memory_bytes(os_device: &TopologyObject) -> Option<u64> {
    let kib: u64 = ["CUDAGlobalMemorySize", "OpenCLGlobalMemorySize", "RSMIVRAMSize"]
        .iter()
        .find_map(|key| os_device.info(key))?
        .to_str()
        .ok()?
        .trim()
        .parse()
        .ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written() {
        for (text, written) in [
            ("0000:3b:00.0", "0000:3b:00.0"),
            ("3B:1f.7", "0000:3b:1f.7"),
            ("10000:00:02.1", "10000:00:02.1"),
        ] {
            let bus_id: BusId = text.parse().unwrap();
            assert_eq!(bus_id.to_string(), written);
        }
        for text in ["", "3b", "3b:00", "0:3b:00:0.0", "0000:3b:zz.0", "0000:1ff:00.0"] {
            let error = text.parse::<BusId>().unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
    }

    fn pci_gpu(bus_id: &str) -> PciGpu {
        PciGpu {
            bus_id: bus_id.parse().unwrap(),
            vendor_id: NVIDIA,
            device_id: 1,
            vendor: None,
            name: Some("product".to_owned()),
            link_gb_per_s: None,
            link: None,
            memory_bytes: None,
            numa: None,
            near_cores: Vec::new(),
        }
    }

    #[test]
    fn drivers_and_buses_are_joined_by_address() {
        let driven = [(0, "0:2:0.0"), (1, "0:2:0.0"), (2, "0:9:0.0")];
        let driven = driven.map(|(ordinal, bus_id)| DriverGpu {
            ordinal,
            bus_id: bus_id.parse().unwrap(),
            name: format!("driver's {ordinal}"),
            memory_bytes: 5,
        });
        let seen = vec![pci_gpu("0:1:0.0"), pci_gpu("0:2:0.0")];
        let joined = GpuInfo::join(seen, driven.into());
        let names: Vec<&str> = joined.iter().map(GpuInfo::name).collect();
        assert_eq!(names, ["driver's 0", "driver's 1", "driver's 2", "product"]);
        let buses: Vec<bool> = joined.iter().map(|gpu| gpu.pci.is_some()).collect();
        assert_eq!(buses, [true, true, false, true]);
        assert_eq!(joined[3].memory_bytes(), None);
        assert!(joined.iter().all(GpuInfo::is_cuda));
    }

    #[test]
    fn without_buses_all_cores_are_equally_near() {
        let topology = Topology::from_synthetic("pack:2 core:2 pu:1").unwrap();
        assert!(topology.gpus().is_empty());
        let nowhere = "0000:3b:00.0".parse().unwrap();
        assert!(topology.pci_distances(&nowhere).is_empty());
    }
}
