//! The grouping of cores into devices.

use crate::contract::DeviceError;
use crate::host::topology::CoreInfo;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use strum::{Display, EnumString, VariantArray};

/// The common property of the cores of one device.
///
/// A device is measured and balanced as a unit, so its cores are alike and contend for the same memory. A core measured
/// alone, or with cores of another memory, shows a speed that it does not have in a run. A slice of C lies in one
/// memory only if the device that updates it does.
///
/// # References
/// Clarke's thesis, section 3.1.4 (cores that contend for memory are grouped to be measured) and 5.2.3 (the
/// devices of a node).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[derive(Display, EnumString, VariantArray, strum::VariantNames)]
#[strum(serialize_all = "kebab-case", parse_err_ty = DeviceError, parse_err_fn = unknown_grouping)]
pub enum Grouping {
    /// The NUMA domain and the kind of core: all cores of a device have one speed, and its matrices lie in its own
    /// memory. With one domain and one kind, as on most small machines, there is one device.
    #[default]
    Auto,
    /// The package (socket), with all its kinds and NUMA domains.
    Package,
    /// The NUMA domain, with all its kinds of cores.
    Numa,
    /// The kind of core, across packages: fast cores and frugal ones are separate devices.
    Kind,
    /// The node: one device of all cores.
    Node,
}

impl Grouping {
    /// Groups cores into devices: by package or NUMA domain, ascending, and the fastest kind first. A core keeps its
    /// hardware threads together, so its SMT siblings are used once.
    pub(crate) fn group_cores(self, cores: &[CoreInfo]) -> Vec<Vec<CoreInfo>> {
        let mut groups: BTreeMap<(u32, Reverse<Option<u32>>), Vec<CoreInfo>> = BTreeMap::new();
        for core in cores {
            let place = match self {
                Self::Auto | Self::Numa => core.numa,
                Self::Package => core.package,
                Self::Kind | Self::Node => 0,
            };
            let kind = match self {
                Self::Auto | Self::Kind => core.kind,
                Self::Package | Self::Numa | Self::Node => None,
            };
            groups.entry((place, Reverse(kind))).or_default().push(core.clone());
        }
        groups.into_values().collect()
    }
}

fn unknown_grouping(text: &str) -> DeviceError {
    DeviceError::UnknownGrouping(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::share::arbitrary_cores;
    use proptest::prelude::*;

    #[test]
    fn words_are_read_and_written_back() {
        for &grouping in Grouping::VARIANTS {
            assert_eq!(grouping.to_string().parse::<Grouping>().unwrap(), grouping);
        }
        let error = "socket".parse::<Grouping>().unwrap_err().to_string();
        assert!(error.contains("socket") && error.contains("numa"), "{error}");
    }

    proptest! {
        #[test]
        fn every_core_is_in_one_group_of_its_like(cores in arbitrary_cores()) {
            for &grouping in Grouping::VARIANTS {
                let groups = grouping.group_cores(&cores);
                let mut all: Vec<u32> = groups.iter().flatten().map(|c| c.core).collect();
                all.sort_unstable();
                prop_assert_eq!(all, (0..cores.len() as u32).collect::<Vec<_>>());
                for group in &groups {
                    prop_assert!(!group.is_empty());
                    let first = &group[0];
                    for core in group {
                        match grouping {
                            Grouping::Auto => {
                                prop_assert_eq!((core.numa, core.kind), (first.numa, first.kind));
                            }
                            Grouping::Package => prop_assert_eq!(core.package, first.package),
                            Grouping::Numa => prop_assert_eq!(core.numa, first.numa),
                            Grouping::Kind => prop_assert_eq!(core.kind, first.kind),
                            Grouping::Node => prop_assert_eq!(groups.len(), 1),
                        }
                    }
                }
            }
        }
    }
}
