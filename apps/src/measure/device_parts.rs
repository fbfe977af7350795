//! The devices of all ranks as parts that are measured: their files, and their turns.

use std::collections::BTreeMap;

use isochron_core::Error;
use isochron_core::comm::Comm;
use isochron_devices::DeviceInfo;
use isochron_devices::internal::cpu_quota_cores;

use super::part::MeasuredPart;

/// Lists the devices of all ranks. Each is measured beside the others of its host, or `alone`. `headers` are those that all
/// files have.
///
/// # Errors
/// Returns the errors of messages.
///
/// # Collective
/// All ranks, each with its devices.
pub fn list_parts(
    comm: &dyn Comm,
    devices: &[DeviceInfo],
    is_alone: bool,
    headers: &[(&'static str, String)],
) -> Result<Vec<MeasuredPart>, Error> {
    let mine = devices.iter().map(|device| MeasuredPart {
        rank: comm.rank(),
        host: comm.host().to_owned(),
        device: Some(device.clone()),
        quota_cores: cpu_quota_cores(),
        ..MeasuredPart::default()
    });
    let ranks = comm.size();
    let mut parts = comm.gather(&mine.collect::<Vec<_>>())?.concat();
    let neighbours: Vec<Vec<String>> =
        (0..parts.len()).map(|part| list_neighbours(&parts, part, ranks)).collect();
    for (part, neighbours) in parts.iter_mut().zip(neighbours) {
        let Some(device) = &part.device else { continue };
        let (word, beside) = if is_alone || neighbours.is_empty() {
            ("alone", "nothing".to_owned())
        } else {
            ("together", neighbours.join(", "))
        };
        part.stem = name_stem(ranks, part.rank, &device.name, word);
        let rank = ("rank", format!("{} of {ranks}", part.rank));
        let of_device = describe_device(device, &part.host, beside);
        let all = of_device.into_iter().chain([rank]);
        part.add_headers(all.chain(headers.iter().cloned()));
    }
    Ok(parts)
}

/// Lists for each turn the device of `rank` that is measured in it, by its index. The devices of a host are measured one after
/// the other, those of several hosts at once. `devices` are all devices, each by its rank and its host.
pub fn list_turns<'d>(
    devices: impl IntoIterator<Item = (usize, &'d str)>,
    rank: usize,
) -> Vec<Option<usize>> {
    let mut turns = Vec::new();
    let mut taken: BTreeMap<&str, usize> = BTreeMap::new();
    let mut index = 0;
    for (of_rank, host) in devices {
        let turn = taken.entry(host).or_default();
        if turns.len() == *turn {
            turns.push(None);
        }
        if of_rank == rank {
            turns[*turn] = Some(index);
            index += 1;
        }
        *turn += 1;
    }
    turns
}

/// Returns the names of the other devices on the host of a device.
fn list_neighbours(parts: &[MeasuredPart], index: usize, ranks: usize) -> Vec<String> {
    let others = parts.iter().enumerate();
    others
        .filter(|(other, part)| *other != index && part.host == parts[index].host)
        .filter_map(|(_, part)| {
            let name = &part.device.as_ref()?.name;
            Some(match ranks {
                1 => name.clone(),
                _ => format!("rank {} {name}", part.rank),
            })
        })
        .collect()
}

/// Returns the name of the file of a rank's device without its ending, and without characters that have a meaning in a path.
fn name_stem(ranks: usize, rank: usize, device: &str, word: &str) -> String {
    let device = device.replace(|c: char| !c.is_alphanumeric() && !"._-".contains(c), "_");
    match ranks {
        1 => format!("{device}-{word}"),
        _ => format!("rank{rank}-{device}-{word}"),
    }
}

/// Returns the headers that describe a device of a host. `beside` are the devices that computed at the same time.
fn describe_device(device: &DeviceInfo, host: &str, beside: String) -> Vec<(&'static str, String)> {
    let cores: Vec<String> = device.cores.iter().map(ToString::to_string).collect();
    let mut headers = vec![
        ("device", device.name.clone()),
        ("host", host.to_owned()),
        ("library", device.blas.clone()),
        ("cores", cores.join(" ")),
        ("pinned", device.pinned.to_string()),
        ("measured-beside", beside),
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
    ];
    headers.extend(device.paced.clone().map(|pace| ("paced", pace)));
    headers
}

#[cfg(test)]
mod tests {
    use isochron_core::comm::LocalComm;
    use isochron_devices::{DeviceClock, DeviceKind};

    use super::*;

    #[test]
    fn a_device_is_measured_beside_others_or_alone() {
        let devices = ["fast/one", "slow"]
            .map(|name| DeviceInfo::new(name, DeviceKind::Cpu, DeviceClock::Cores));
        for (is_alone, stem, beside) in
            [(false, "fast_one-together", "slow"), (true, "fast_one-alone", "nothing")]
        {
            let block = [("block", "64".to_owned())];
            let parts = list_parts(&LocalComm::new(), &devices, is_alone, &block);
            let first = &parts.expect("two parts")[0];
            assert_eq!(first.stem, stem);
            let headers = ["measured-beside", "block"].map(|key| &*first.headers[key]);
            assert_eq!(headers, [beside, "64"]);
        }
        let alone = list_parts(&LocalComm::new(), &devices[..1], false, &[]);
        assert_eq!(alone.expect("a part")[0].stem, "fast_one-alone");
    }

    #[test]
    fn the_devices_of_a_host_take_turns_while_other_hosts_measure_theirs() {
        let devices = [(0, "a"), (1, "b"), (2, "a"), (2, "a")];
        let turns = [0, 1, 2].map(|rank| list_turns(devices, rank));
        let expected = [[Some(0), None, None], [Some(0), None, None], [None, Some(0), Some(1)]];
        assert_eq!(turns, expected);
    }
}
