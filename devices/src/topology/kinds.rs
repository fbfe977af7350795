//! Kinds of cores: performance and efficiency cores of hybrid processors.

use super::{Topology, index_u32, set_indices};
use hwlocality::cpu::cpuset::CpuSet;
use hwlocality::info::TextualInfo;
use serde::{Deserialize, Serialize};

/// A kind of core.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KindInfo {
    /// Its number, that of [`CoreInfo::kind`](super::CoreInfo::kind).
    pub kind: u32,
    /// What the maker calls it, such as `IntelAtom`; `None` where the system does not tell.
    pub name: Option<String>,
    /// The highest clock rate, in MHz; `None` where the system does not tell.
    pub max_mhz: Option<u32>,
    /// The processing units of this kind that this process may use.
    pub pus: Vec<u32>,
}

impl Topology {
    /// The kinds of cores, from the most frugal to the fastest where the system ranks them; empty when all are of one
    /// kind, as far as the system tells.
    pub fn kinds(&self) -> Vec<KindInfo> {
        let Ok(kinds) = self.hwloc.cpu_kinds() else {
            return Vec::new();
        };
        if kinds.len() < 2 {
            return Vec::new();
        }
        let info = |(i, kind): (usize, hwlocality::cpu::kind::CpuKind<'_>)| KindInfo {
            kind: index_u32(i),
            name: info_text(kind.infos, "CoreType"),
            max_mhz: info_text(kind.infos, "FrequencyMaxMHz").and_then(|mhz| mhz.parse().ok()),
            pus: set_indices(&(&self.allowed & &kind.cpuset)),
        };
        kinds.enumerate().map(info).collect()
    }

    /// The kind of the cores in `set`; `None` where there are no two.
    ///
    /// hwloc knows kinds of which it cannot say which is the faster: they are kinds all the same.
    pub(super) fn kind_of(&self, set: &CpuSet) -> Option<u32> {
        let mut kinds = self.hwloc.cpu_kinds().ok()?;
        if kinds.len() < 2 {
            return None;
        }
        kinds
            .position(|kind| kind.cpuset.includes(set))
            .map(index_u32)
    }
}

/// The value of `key` among what hwloc tells.
fn info_text(infos: &[TextualInfo], key: &str) -> Option<String> {
    let info = infos
        .iter()
        .find(|info| info.name().to_bytes() == key.as_bytes())?;
    Some(info.value().to_string_lossy().into_owned())
}
