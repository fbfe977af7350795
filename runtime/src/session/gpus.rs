//! Which rank of a host drives which of its GPUs.

use isochron_devices::cuda;
use isochron_devices::deal_by_distance;
use isochron_devices::topology::Topology;
use isochron_devices::{CudaInfo, DeviceKind};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

use super::claims::{GpuClaims, GpuRefusal, GpuSeeker, GpuWish};
use super::platform::{DeviceSpec, NodeSpec};
use super::rank_gpu::RankGpu;
use super::slices;
use crate::comm::{Comm, agree};
use crate::error::Error;

/// A GPU that a rank could drive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct GpuOffer {
    uuid: String,
    /// Of the nearest of the rank's cores to the GPU's bus; 0 is the nearest.
    distance: u32,
}

/// What a rank could drive, where, and what it wants of it.
#[derive(Debug, Serialize, Deserialize)]
struct RankOffers {
    host: String,
    gpus: Vec<GpuOffer>,
    /// The GPUs that its devices in the platform file name; without such devices it drives what it is dealt.
    wishes: Option<Vec<GpuWish>>,
}

/// The GPUs that this rank drives: one for each GPU device of its node in the platform file, in their order, and without
/// a word about devices those it is dealt. What no file names is dealt among all ranks on the host that are free to take
/// it, whether or not they share their cores. What is unusual is added to `notices`.
///
/// # Errors
/// On every rank: [`Error::Parameter`] for a GPU that is not there or belongs to another device, [`Error::Device`] when a
/// file names one and the driver fails.
///
/// # Collective
/// All ranks.
pub(super) fn mine(
    comm: &dyn Comm,
    topology: &Topology,
    node: &NodeSpec,
    notices: &mut Vec<String>,
) -> Result<Vec<RankGpu>, Error> {
    let wishes = (!node.devices.is_empty()).then(|| wishes(node));
    let is_wanted = wishes.as_ref().is_none_or(|wishes| !wishes.is_empty());
    let found = match is_wanted {
        true => visible(comm, notices),
        false => Vec::new(),
    };
    let offer = |gpu: &CudaInfo| GpuOffer {
        uuid: gpu.uuid.clone(),
        distance: distance(topology, gpu),
    };
    let offers = RankOffers {
        host: comm.host().to_owned(),
        gpus: found.iter().map(offer).collect(),
        wishes,
    };
    let all = comm.gather(&offers)?.into_iter().enumerate();
    let ranks: Vec<(usize, RankOffers)> = all
        .filter(|(_, offers)| offers.host == comm.host())
        .collect();
    let assigned = match assign(&ranks) {
        // The others of the host wait for the one whose wish it is.
        Err(refusal) if refusal.rank != comm.rank() => Ok(BTreeMap::new()),
        Err(refusal) => Err(refused(refusal, &found)),
        Ok(assigned) => Ok(assigned),
    };
    let assigned = agree(comm, assigned)?;
    let on_host = assigned.values().map(Vec::len).sum();
    let info = |(uuid, sharers): &Assigned| {
        let info = found.iter().find(|gpu| gpu.uuid == *uuid)?.clone();
        let sharers = *sharers;
        Some(RankGpu {
            info,
            sharers,
            on_host,
        })
    };
    let mine = assigned.get(&comm.rank()).into_iter().flatten();
    let mine: Vec<RankGpu> = mine.filter_map(info).collect();
    let driver_of = |uuid: &str| {
        let drives = |gpus: &[Assigned]| gpus.iter().any(|(driven, _)| driven == uuid);
        let mut driving = assigned.iter().filter(|(_, gpus)| drives(gpus));
        driving.next().map(|(&rank, _)| rank)
    };
    notices.extend(slices::notices(&found, &mine, driver_of));
    Ok(mine)
}

/// The GPUs that the devices of a node ask for.
fn wishes(node: &NodeSpec) -> Vec<GpuWish> {
    let devices = node.devices.iter().enumerate();
    let gpus = devices.filter(|(_, device)| device.kind == DeviceKind::Cuda);
    let wish = |(index, device): (usize, &DeviceSpec)| GpuWish {
        device: index,
        number: device.gpu,
        share: device.share,
    };
    gpus.map(wish).collect()
}

/// Why a device of the platform file gets no GPU. Where there is none at all, what was found of CUDA says more.
fn refused(refusal: GpuRefusal, found: &[CudaInfo]) -> Error {
    let reason = match cuda::devices() {
        Err(error) if found.is_empty() => return error.into(),
        _ if found.is_empty() => cuda::survey().finding,
        _ if found.iter().any(|gpu| gpu.is_slice) => {
            format!("{}; of slices (MIG): {}", refusal.reason, slices::REMEDY)
        }
        _ => refusal.reason,
    };
    Error::Parameter {
        name: "gpu",
        value: refusal.value,
        reason,
    }
}

/// A GPU by its UUID, and the number of devices that have it.
type Assigned = (String, usize);

/// The GPUs of each rank of a host: those that the platform file gives its devices, or its part of those that no file
/// names.
fn assign(ranks: &[(usize, RankOffers)]) -> Result<BTreeMap<usize, Vec<Assigned>>, GpuRefusal> {
    let seekers: Vec<GpuSeeker<'_>> = ranks.iter().map(|(rank, o)| o.seeker(*rank)).collect();
    let (claims, granted) = GpuClaims::grant(&seekers)?;
    let counted = |uuid: &str| (uuid.to_owned(), claims.count(uuid));
    let granted = granted
        .iter()
        .map(|gpus| gpus.iter().map(|uuid| counted(uuid)).collect());
    let ranks_of = seekers.iter().map(|seeker| seeker.rank);
    let mut assigned: BTreeMap<usize, Vec<Assigned>> = ranks_of.zip(granted).collect();
    let takers = ranks.iter().filter(|(_, offers)| offers.wishes.is_none());
    let is_free = |gpu: &&GpuOffer| claims.count(&gpu.uuid) == 0;
    let free = |offers: &RankOffers| offers.gpus.iter().filter(is_free).cloned().collect();
    let (takers, left): (Vec<usize>, Vec<Vec<GpuOffer>>) =
        takers.map(|(rank, offers)| (*rank, free(offers))).unzip();
    for (rank, gpus) in takers.into_iter().zip(deal(&left)) {
        let alone = gpus.into_iter().map(|uuid| (uuid, 1));
        assigned.insert(rank, alone.collect());
    }
    Ok(assigned)
}

impl RankOffers {
    fn seeker(&self, rank: usize) -> GpuSeeker<'_> {
        GpuSeeker {
            rank,
            gpus: self.gpus.iter().map(|gpu| gpu.uuid.as_str()).collect(),
            wishes: self.wishes.as_deref().unwrap_or_default(),
        }
    }
}

/// The GPUs that this process may use. What is wrong with them is noted, and does not keep the CPUs from working.
fn visible(comm: &dyn Comm, notices: &mut Vec<String>) -> Vec<CudaInfo> {
    let survey = cuda::survey();
    tracing::info!(host = comm.host(), "{}", survey.finding);
    if survey.is_broken {
        notices.push(survey.finding);
    }
    survey.devices
}

fn distance(topology: &Topology, gpu: &CudaInfo) -> u32 {
    let distances = gpu.pci_bus_id.parse().map(|id| topology.pci_distances(&id));
    let distances = distances.unwrap_or_default();
    distances.values().copied().min().unwrap_or(u32::MAX)
}

/// Deals GPUs among the ranks that see them, as [`deal_by_distance`] does: the UUIDs of each rank's own.
fn deal(ranks: &[Vec<GpuOffer>]) -> Vec<Vec<String>> {
    let all = ranks.iter().flatten();
    let uuids: BTreeSet<&str> = all.map(|gpu| gpu.uuid.as_str()).collect();
    let distances: Vec<Vec<Option<u32>>> = uuids
        .iter()
        .map(|uuid| ranks.iter().map(|gpus| sees(gpus, uuid)).collect())
        .collect();
    let mut dealt = vec![Vec::new(); ranks.len()];
    for (uuid, rank) in uuids.into_iter().zip(deal_by_distance(&distances)) {
        if let Some(rank) = rank {
            dealt[rank].push(uuid.to_owned());
        }
    }
    dealt
}

/// How far a rank is from a GPU, if it sees it.
fn sees(gpus: &[GpuOffer], uuid: &str) -> Option<u32> {
    let gpu = gpus.iter().find(|gpu| gpu.uuid == uuid);
    gpu.map(|gpu| gpu.distance)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offers(gpus: &[(&str, u32)]) -> Vec<GpuOffer> {
        let offer = |&(uuid, distance): &(&str, u32)| GpuOffer {
            uuid: uuid.to_owned(),
            distance,
        };
        gpus.iter().map(offer).collect()
    }

    #[test]
    fn gpus_go_to_the_ranks_beside_them_evenly() {
        let ranks = [
            offers(&[("a", 1), ("b", 0), ("c", 0), ("d", 1)]),
            offers(&[("a", 0), ("b", 1), ("c", 1), ("d", 0)]),
        ];
        assert_eq!(deal(&ranks), [["b", "c"], ["a", "d"]]);
        // Each rank has its own two, whatever the order of the names.
        let ranks = [
            offers(&[("a", 0), ("b", 0), ("c", 1), ("d", 1)]),
            offers(&[("a", 1), ("b", 1), ("c", 0), ("d", 0)]),
        ];
        assert_eq!(deal(&ranks), [["a", "b"], ["c", "d"]]);
        // One more rank than GPUs, and no rank at all.
        let ranks = vec![offers(&[("a", 0), ("b", 0)]); 3];
        assert_eq!(deal(&ranks).concat(), ["a", "b"]);
        assert!(deal(&[]).is_empty());
    }

    #[test]
    fn what_a_file_names_is_not_dealt() {
        let three = || offers(&[("a", 0), ("b", 0), ("c", 0)]);
        let rank = |wishes: Option<Vec<GpuWish>>| RankOffers {
            host: "h".to_owned(),
            gpus: three(),
            wishes,
        };
        let wish = |number| GpuWish {
            device: 1,
            number,
            share: false,
        };
        let ranks = [
            (3, rank(None)),
            (4, rank(Some(vec![wish(None), wish(Some(0))]))),
            (7, rank(Some(Vec::new()))),
        ];
        let assigned = assign(&ranks).unwrap();
        let uuids = |rank| assigned[&rank].iter().map(|(uuid, _)| uuid.as_str());
        assert_eq!(uuids(3).collect::<Vec<_>>(), ["c"]);
        assert_eq!(uuids(4).collect::<Vec<_>>(), ["b", "a"]);
        assert_eq!(uuids(7).count(), 0);
        // Both ranks of the file share it, and the one without a file has nothing left.
        let shared = || RankOffers {
            gpus: offers(&[("a", 0)]),
            ..rank(Some(vec![GpuWish {
                share: true,
                ..wish(None)
            }]))
        };
        let left = RankOffers {
            gpus: offers(&[("a", 0)]),
            ..rank(None)
        };
        let assigned = assign(&[(0, shared()), (1, shared()), (2, left)]).unwrap();
        assert_eq!(assigned[&1], [("a".to_owned(), 2)]);
        assert!(assigned[&2].is_empty());
    }

    #[test]
    fn a_gpu_that_one_rank_alone_sees_is_its_own() {
        // As when a batch system shows each task its own GPU.
        let ranks = [offers(&[("b", 0)]), offers(&[("a", 0)])];
        assert_eq!(deal(&ranks), [["b"], ["a"]]);
        let ranks = [offers(&[("a", 0), ("b", 0)]), offers(&[("b", 3)])];
        assert_eq!(deal(&ranks).concat().len(), 2);
    }
}
