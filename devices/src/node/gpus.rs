//! The assignment of a host's GPUs to its ranks.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::gpu_claims::{GpuClaims, GpuRefusal, GpuSeeker, GpuWish};
use super::host_cores::deal_by_distance;
use super::host_share::{HostScope, leave_out_claimed};
use super::rank_gpu::RankGpu;
use super::slices;
use super::spec::NodeSpec;
use crate::contract::{DeviceError, DeviceKind};
use crate::cuda::{self, CudaInfo};
use crate::host::topology::{HostPlace, Topology};

/// A GPU that a rank could drive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct GpuOffer {
    uuid: String,
    /// Distance between the GPU's bus and the nearest of the rank's cores; 0 is the nearest.
    distance: u32,
}

/// The GPUs that a rank could drive, and its wishes.
#[derive(Debug, Serialize, Deserialize)]
pub struct GpuOffers {
    gpus: Vec<GpuOffer>,
    /// The wishes of its devices in the platform file. `None` if the file lists no device of the rank, which then drives
    /// the GPUs that it is dealt.
    wishes: Option<Vec<GpuWish>>,
    /// Its place among the processes that its launcher has started on the host.
    place: Option<HostPlace>,
}

/// Finds the GPUs that this rank could drive, for the other ranks of its host. `launched` is its place among the processes that
/// its launcher has started there, if they count. Unusual findings are added to `notices`.
pub fn offer_gpus(
    topology: &Topology,
    node: &NodeSpec,
    scope: HostScope,
    launched: Option<HostPlace>,
    notices: &mut Vec<String>,
) -> (Vec<CudaInfo>, GpuOffers) {
    let wishes = (!node.devices.is_empty()).then(|| list_wishes(node));
    let found = match &wishes {
        Some(none) if none.is_empty() => Vec::new(),
        Some(_) => visible_gpus(notices),
        None => {
            let mut gpus = visible_gpus(notices);
            if scope == HostScope::World {
                leave_out_claimed(&mut gpus);
            }
            gpus
        }
    };
    let offers = GpuOffers {
        gpus: found.iter().map(|gpu| GpuOffer::new(topology, gpu)).collect(),
        wishes,
        place: launched,
    };
    (found, offers)
}

/// Assigns the GPUs of `rank`, which has `found` these: one for each GPU device of its node in the platform file, in their
/// order. A node without devices in the file gets its share of the GPUs that no file names.
///
/// These are dealt among all ranks of the host without devices in the file, even if they do not share their cores. `ranks` are
/// all ranks of the host with their offers. Unusual findings are added to `notices`.
///
/// # Errors
/// On the rank with the wish, returns [`DeviceError::Parameter`] for a GPU that is not there or belongs to another
/// device; the driver's error if a file names one and the driver fails. The other ranks get no GPU then.
pub fn assign_gpus(
    found: &[CudaInfo],
    mut ranks: Vec<(usize, GpuOffers)>,
    rank: usize,
    notices: &mut Vec<String>,
) -> Result<Vec<RankGpu>, DeviceError> {
    let here = ranks.len();
    for (_, offers) in &mut ranks {
        offers.leave_to_others(here);
    }
    let assigned = match assign_by_rank(&ranks) {
        // The other ranks of the host learn of the refusal from the rank with the wish.
        Err(refusal) if refusal.rank != rank => BTreeMap::new(),
        Err(refusal) => return Err(explain_refusal(refusal, found)),
        Ok(assigned) => assigned,
    };
    let on_host = assigned.values().map(Vec::len).sum();
    let mut mine = Vec::new();
    for &(ref uuid, sharers) in assigned.get(&rank).into_iter().flatten() {
        let info = found.iter().find(|gpu| gpu.uuid == *uuid).cloned();
        mine.extend(info.map(|info| RankGpu { info, sharers, on_host }));
    }
    notices.extend(slices::slice_notices(found, &mine, |uuid| {
        assigned
            .iter()
            .find(|(_, gpus)| gpus.iter().any(|(driven, _)| driven == uuid))
            .map(|(&rank, _)| rank)
    }));
    Ok(mine)
}

/// Lists the GPUs that the devices of a node ask for.
fn list_wishes(node: &NodeSpec) -> Vec<GpuWish> {
    node.devices
        .iter()
        .enumerate()
        .filter(|(_, device)| device.kind == DeviceKind::Cuda)
        .map(|(device, spec)| GpuWish { device, number: spec.gpu, share: spec.share })
        .collect()
}

/// Explains why a device of the platform file gets no GPU. If no GPU was found, the findings about CUDA say more.
fn explain_refusal(refusal: GpuRefusal, found: &[CudaInfo]) -> DeviceError {
    let reason = match cuda::devices() {
        Err(error) if found.is_empty() => return error,
        _ if found.is_empty() => cuda::survey().finding,
        _ if found.iter().any(|gpu| gpu.is_slice) => {
            format!("{}; of slices (MIG): {}", refusal.reason, slices::REMEDY)
        }
        _ => refusal.reason,
    };
    DeviceError::parameter("gpu", refusal.value, reason)
}

/// A GPU's UUID, and the number of devices that have it.
type Assigned = (String, usize);

/// Returns the GPUs of each rank of a host: the ones that the platform file gives its devices, or its share of the rest.
fn assign_by_rank(
    ranks: &[(usize, GpuOffers)],
) -> Result<BTreeMap<usize, Vec<Assigned>>, GpuRefusal> {
    let seekers = ranks.iter().map(|(rank, offers)| GpuSeeker {
        rank: *rank,
        gpus: offers.gpus.iter().map(|gpu| gpu.uuid.as_str()).collect(),
        wishes: offers.wishes.as_deref().unwrap_or_default(),
    });
    let seekers: Vec<_> = seekers.collect();
    let (claims, granted) = GpuClaims::grant_wishes(&seekers)?;
    let mut assigned: BTreeMap<usize, Vec<Assigned>> = BTreeMap::new();
    for (seeker, uuids) in seekers.iter().zip(granted) {
        let gpus = uuids.into_iter();
        let gpus = gpus.map(|uuid| (uuid.to_owned(), claims.count_holders(uuid)));
        assigned.insert(seeker.rank, gpus.collect());
    }
    let (mut takers, mut free) = (Vec::new(), Vec::new());
    for (rank, offers) in ranks.iter().filter(|(_, offers)| offers.wishes.is_none()) {
        let mut gpus = offers.gpus.clone();
        gpus.retain(|gpu| claims.count_holders(&gpu.uuid) == 0);
        takers.push(*rank);
        free.push(gpus);
    }
    for (rank, gpus) in takers.into_iter().zip(deal_gpus(&free)) {
        let unshared = gpus.into_iter().map(|uuid| (uuid, 1));
        assigned.insert(rank, unshared.collect());
    }
    Ok(assigned)
}

/// Returns the GPUs that this process may use. Problems with them are noted and do not keep the CPUs from working.
fn visible_gpus(notices: &mut Vec<String>) -> Vec<CudaInfo> {
    let survey = cuda::survey();
    tracing::info!("{}", survey.finding);
    if survey.is_broken {
        notices.push(survey.finding);
    }
    survey.devices
}

impl GpuOffers {
    /// Leaves GPUs to the processes of the host that are no ranks of this communicator, if more than `here` were launched there.
    /// They deal the GPUs among all of them, in the order of the UUIDs.
    fn leave_to_others(&mut self, here: usize) {
        let Some(place) = self.place.filter(|place| place.count > here) else {
            return;
        };
        if self.wishes.is_none() {
            self.gpus.sort_by(|a, b| a.uuid.cmp(&b.uuid));
            let gpus = std::mem::take(&mut self.gpus).into_iter();
            self.gpus = gpus.skip(place.index).step_by(place.count).collect();
        }
    }
}

impl GpuOffer {
    fn new(topology: &Topology, gpu: &CudaInfo) -> Self {
        let nearest = gpu
            .pci_bus_id
            .parse()
            .map(|id| topology.pci_distances(&id))
            .unwrap_or_default()
            .values()
            .copied()
            .min();
        Self { uuid: gpu.uuid.clone(), distance: nearest.unwrap_or(u32::MAX) }
    }
}

/// Deals GPUs among the ranks that see them, as [`deal_by_distance`] does. Returns the UUIDs of each rank's own.
fn deal_gpus(ranks: &[Vec<GpuOffer>]) -> Vec<Vec<String>> {
    // Each GPU's distance to each rank, if the rank sees it.
    let mut distances: BTreeMap<&str, Vec<Option<u32>>> = BTreeMap::new();
    for (rank, gpus) in ranks.iter().enumerate() {
        for gpu in gpus {
            distances.entry(&gpu.uuid).or_insert_with(|| vec![None; ranks.len()])[rank] =
                Some(gpu.distance);
        }
    }
    let (uuids, distances): (Vec<&str>, Vec<_>) = distances.into_iter().unzip();
    let mut dealt = vec![Vec::new(); ranks.len()];
    for (uuid, rank) in uuids.into_iter().zip(deal_by_distance(&distances)) {
        if let Some(rank) = rank {
            dealt[rank].push(uuid.to_owned());
        }
    }
    dealt
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offers(gpus: &[(&str, u32)]) -> Vec<GpuOffer> {
        gpus.iter().map(|&(uuid, distance)| GpuOffer { uuid: uuid.to_owned(), distance }).collect()
    }

    #[test]
    fn gpus_go_to_the_ranks_next_to_them_evenly() {
        let ranks = [
            offers(&[("a", 1), ("b", 0), ("c", 0), ("d", 1)]),
            offers(&[("a", 0), ("b", 1), ("c", 1), ("d", 0)]),
        ];
        assert_eq!(deal_gpus(&ranks), [["b", "c"], ["a", "d"]]);
        // Each rank has its own two, whatever the order of the names.
        let ranks = [
            offers(&[("a", 0), ("b", 0), ("c", 1), ("d", 1)]),
            offers(&[("a", 1), ("b", 1), ("c", 0), ("d", 0)]),
        ];
        assert_eq!(deal_gpus(&ranks), [["a", "b"], ["c", "d"]]);
        // One more rank than GPUs, and no rank at all.
        let ranks = vec![offers(&[("a", 0), ("b", 0)]); 3];
        assert_eq!(deal_gpus(&ranks).concat(), ["a", "b"]);
        assert!(deal_gpus(&[]).is_empty());
    }

    /// A rank that sees these GPUs, all equally near.
    fn rank(uuids: &[&str], wishes: Option<Vec<GpuWish>>) -> GpuOffers {
        let gpus: Vec<(&str, u32)> = uuids.iter().map(|uuid| (*uuid, 0)).collect();
        GpuOffers { gpus: offers(&gpus), wishes, place: None }
    }

    fn wish(number: Option<usize>, share: bool) -> GpuWish {
        GpuWish { device: 1, number, share }
    }

    #[test]
    fn what_a_file_names_is_not_dealt() {
        let three = ["a", "b", "c"];
        let wishes = vec![wish(None, false), wish(Some(0), false)];
        let ranks = [
            (3, rank(&three, None)),
            (4, rank(&three, Some(wishes))),
            (7, rank(&three, Some(Vec::new()))),
        ];
        let assigned = assign_by_rank(&ranks).unwrap();
        assert_eq!(assigned[&3], [("c".to_owned(), 1)]);
        assert_eq!(assigned[&4], [("b".to_owned(), 1), ("a".to_owned(), 1)]);
        assert!(assigned[&7].is_empty());
        // Both ranks of the file share the GPU, and the one without a file has nothing left.
        let ranks = [
            (0, rank(&["a"], Some(vec![wish(None, true)]))),
            (1, rank(&["a"], Some(vec![wish(None, true)]))),
            (2, rank(&["a"], None)),
        ];
        let assigned = assign_by_rank(&ranks).unwrap();
        assert_eq!(assigned[&1], [("a".to_owned(), 2)]);
        assert!(assigned[&2].is_empty());
    }

    #[test]
    fn gpus_are_left_to_ranks_of_other_communicators() {
        let cases = [(0, 1, vec!["a", "c"]), (1, 1, vec!["b"]), (1, 2, vec!["c", "a", "b"])];
        for (index, here, left) in cases {
            let mut offers = rank(&["c", "a", "b"], None);
            offers.place = Some(HostPlace { index, count: 2 });
            offers.leave_to_others(here);
            let gpus = offers.gpus.iter().map(|gpu| gpu.uuid.as_str());
            assert_eq!(gpus.collect::<Vec<_>>(), left);
        }
    }

    #[test]
    fn a_gpu_that_one_rank_alone_sees_is_its_own() {
        // As when a batch system shows each task its own GPU.
        let ranks = [offers(&[("b", 0)]), offers(&[("a", 0)])];
        assert_eq!(deal_gpus(&ranks), [["b"], ["a"]]);
        let ranks = [offers(&[("a", 0), ("b", 0)]), offers(&[("b", 3)])];
        assert_eq!(deal_gpus(&ranks).concat().len(), 2);
    }
}
