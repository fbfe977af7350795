//! Which rank of a host drives which of its GPUs.

use isochron_devices::CudaInfo;
use isochron_devices::cuda;
use isochron_devices::deal_by_distance;
use isochron_devices::topology::Topology;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

use crate::comm::Comm;

/// A GPU that a rank could drive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Offer {
    uuid: String,
    /// Of the nearest of the rank's cores to the GPU's bus; 0 is the nearest.
    distance: u32,
}

/// What a rank could drive, and where.
#[derive(Serialize, Deserialize)]
struct Offers {
    host: String,
    gpus: Vec<Offer>,
}

/// The GPUs that this rank drives when nobody says otherwise; none when it does not want any. Those of a host are dealt
/// among all ranks on it, whether or not they share their cores. What is unusual is added to `notices`.
///
/// # Collective
/// All ranks.
pub(super) fn mine(
    comm: &dyn Comm,
    topology: &Topology,
    wanted: bool,
    notices: &mut Vec<String>,
) -> Vec<CudaInfo> {
    let found = if wanted {
        visible(comm, notices)
    } else {
        Vec::new()
    };
    let offer = |gpu: &CudaInfo| Offer {
        uuid: gpu.uuid.clone(),
        distance: distance(topology, gpu),
    };
    let offers = Offers {
        host: comm.host().to_owned(),
        gpus: found.iter().map(offer).collect(),
    };
    let all = comm.all_gather(&serde_json::to_vec(&offers).unwrap_or_default());
    let here = |(rank, bytes): (usize, &Vec<u8>)| {
        let offers: Offers = serde_json::from_slice(bytes).ok()?;
        (offers.host == comm.host()).then_some((rank, offers.gpus))
    };
    let (ranks, offers): (Vec<usize>, Vec<Vec<Offer>>) =
        all.iter().enumerate().filter_map(here).unzip();
    let dealt = deal(&offers);
    let me = ranks.iter().position(|&rank| rank == comm.rank());
    let mine = me.map(|me| dealt[me].clone()).unwrap_or_default();
    let is_mine = |gpu: &CudaInfo| mine.contains(&gpu.uuid);
    found.into_iter().filter(is_mine).collect()
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
fn deal(ranks: &[Vec<Offer>]) -> Vec<Vec<String>> {
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
fn sees(gpus: &[Offer], uuid: &str) -> Option<u32> {
    let gpu = gpus.iter().find(|gpu| gpu.uuid == uuid);
    gpu.map(|gpu| gpu.distance)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offers(gpus: &[(&str, u32)]) -> Vec<Offer> {
        let offer = |&(uuid, distance): &(&str, u32)| Offer {
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
    fn a_gpu_that_one_rank_alone_sees_is_its_own() {
        // As when a batch system shows each task its own GPU.
        let ranks = [offers(&[("b", 0)]), offers(&[("a", 0)])];
        assert_eq!(deal(&ranks), [["b"], ["a"]]);
        let ranks = [offers(&[("a", 0), ("b", 0)]), offers(&[("b", 3)])];
        assert_eq!(deal(&ranks).concat().len(), 2);
    }
}
