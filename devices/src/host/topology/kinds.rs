//! Kinds of cores: performance and efficiency cores of hybrid processors.

use super::{Topology, index_u32, set_indices};
use hwlocality::cpu::cpuset::CpuSet;
use hwlocality::info::TextualInfo;
use serde::{Deserialize, Serialize};

/// A kind of core.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct KindInfo {
    /// Its number, as cores have it.
    pub kind: u32,
    /// The maker's name of the kind, such as `IntelAtom`; `None` if the system does not tell.
    pub name: Option<String>,
    /// Highest clock rate in MHz; `None` if the system does not tell.
    pub max_mhz: Option<u32>,
    /// Hardware threads of this kind that may be used.
    pub pus: Vec<u32>,
}

impl Topology {
    /// Returns the kinds of cores, from the most frugal to the fastest if the system ranks them; empty if all are of
    /// one kind, as far as the system tells.
    pub fn kinds(&self) -> Vec<KindInfo> {
        let Ok(kinds) = self.hwloc.cpu_kinds() else {
            return Vec::new();
        };
        if kinds.len() < 2 {
            return Vec::new();
        }
        kinds
            .enumerate()
            .map(|(i, kind)| KindInfo {
                kind: index_u32(i),
                name: info_text(kind.infos, "CoreType"),
                max_mhz: info_text(kind.infos, "FrequencyMaxMHz").and_then(|mhz| mhz.parse().ok()),
                pus: set_indices(&(&self.allowed & &kind.cpuset)),
            })
            .collect()
    }

    /// Returns the kind of the cores in `set`; `None` if there are no two kinds.
    ///
    /// Kinds that hwloc cannot rank by speed count as well.
    pub(super) fn kind_of(&self, set: &CpuSet) -> Option<u32> {
        let mut kinds = self.hwloc.cpu_kinds().ok()?;
        if kinds.len() < 2 {
            return None;
        }
        kinds.position(|kind| kind.cpuset.includes(set)).map(index_u32)
    }
}

/// Returns the value of `key` in hwloc's textual information.
fn info_text(infos: &[TextualInfo], key: &str) -> Option<String> {
    Some(
        infos
            .iter()
            .find(|info| info.name().to_bytes() == key.as_bytes())?
            .value()
            .to_string_lossy()
            .into_owned(),
    )
}
