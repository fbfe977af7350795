//! The measurements as points files.

use std::collections::BTreeMap;

use isochron_devices::{DeviceInfo, Measurement};
use isochron_hierarchy::model::{ModelFile, Point};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};

use super::measured::{JobMeasurements, MEASUREMENT_NAMES};
use super::report::list_cores;
use super::schedule::name_device;

/// Makes the names and contents of the points files, one or two for each device.
pub fn make_files(measured: &JobMeasurements, block: usize) -> Vec<(String, String)> {
    let mut files = Vec::new();
    for (index, device) in measured.devices.iter().enumerate() {
        let neighbours = ["nothing", &list_neighbours(measured, index)];
        for (which, word) in MEASUREMENT_NAMES.into_iter().enumerate() {
            let found = device.sizes.iter().filter_map(|size| {
                let units = ((size.n / block) as u64).pow(2);
                Some((units, size.measurements()[which]?))
            });
            let found: Vec<(u64, Measurement)> = found.collect();
            if !found.is_empty() {
                let name = name_file(measured.ranks, device.rank, &device.info.name, word);
                let mut headers = describe_device(&device.info, &device.host, neighbours[which]);
                headers.insert("kernel", "rank-b update of n×n, gemm".to_owned());
                headers.insert("date", today());
                headers.insert("block", block.to_string());
                headers.insert("element", measured.element.to_string());
                if measured.ranks > 1 {
                    headers.insert("rank", device.rank.to_string());
                }
                files.push((name, make_file(headers, &found)));
            }
        }
    }
    files
}

/// Returns the names of the other devices on the host of device `index`.
fn list_neighbours(measured: &JobMeasurements, index: usize) -> String {
    let host = &measured.devices[index].host;
    let others = measured.devices.iter().enumerate();
    others
        .filter(|(i, device)| *i != index && device.host == *host)
        .map(|(_, d)| name_device(measured.ranks, d.rank, &d.info.name))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Returns the name of the points file with the measurements of a rank's device alone or together.
pub fn name_file(ranks: usize, rank: usize, device: &str, word: &str) -> String {
    format!("{}.points", name_stem(ranks, rank, device, word))
}

/// Returns the name of such a file without its ending, and without characters that have a meaning in a path.
pub fn name_stem(ranks: usize, rank: usize, device: &str, word: &str) -> String {
    let device = device.replace(|c: char| !c.is_alphanumeric() && !"._-".contains(c), "_");
    match ranks {
        1 => format!("{device}-{word}"),
        _ => format!("rank{rank}-{device}-{word}"),
    }
}

/// Returns the headers that describe a device of a host. `neighbours` are the devices that computed at the same time.
pub fn describe_device(
    info: &DeviceInfo,
    host: &str,
    neighbours: &str,
) -> BTreeMap<&'static str, String> {
    let mut headers = BTreeMap::from([
        ("device", info.name.clone()),
        ("host", host.to_owned()),
        ("library", info.blas.clone()),
        ("cores", list_cores(info)),
        ("pinned", info.pinned.to_string()),
        ("measured-beside", neighbours.to_owned()),
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
    ]);
    if let Some(paced) = &info.paced {
        headers.insert("paced", paced.clone());
    }
    headers
}

/// Makes the text of a points file.
fn make_file(mut headers: BTreeMap<&str, String>, found: &[(u64, Measurement)]) -> String {
    // A bound is no point: a model would take it for a time.
    let bounds: Vec<String> = found
        .iter()
        .filter(|(_, measurement)| measurement.is_bound())
        .map(|(d, m)| format!("{d} units take at least {} s", m.t_s))
        .collect();
    if !bounds.is_empty() {
        headers.insert("bounds", bounds.join("; "));
    }
    let points = found.iter().filter(|(_, m)| !m.is_bound());
    let file = ModelFile {
        headers: headers
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value.replace(['\n', '\r'], " ")))
            .collect(),
        points: points
            .map(|(d, m)| Point {
                d: *d,
                t_s: m.t_s,
                reps: m.reps,
                ci_s: m.ci_s,
            })
            .collect(),
    };
    file.to_string()
}

/// Returns today's date in UTC, as `2026-01-31`.
pub fn today() -> String {
    let mut time = String::new();
    // Writing to a String cannot fail.
    let _ = SystemTime.format_time(&mut Writer::new(&mut time));
    time.truncate("2026-01-31".len());
    time
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::measured::made_up::make_test_measurements;

    #[test]
    fn points_files_are_read_back_and_a_bound_is_no_point() {
        let files = make_files(&make_test_measurements(), 64);
        let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            [
                "fast_one-alone.points",
                "fast_one-together.points",
                "slow-alone.points",
                "slow-together.points"
            ]
        );
        let [alone, together] =
            [0, 1].map(|i: usize| ModelFile::parse(&files[i].1).expect("a points file"));
        assert_eq!(
            alone.points.iter().map(|point| point.d).collect::<Vec<_>>(),
            [1, 4]
        );
        assert_eq!(alone.headers["measured-beside"], "nothing");
        assert_eq!(alone.headers["block"], "64");
        assert_eq!(together.points.len(), 1);
        assert_eq!(together.headers["measured-beside"], "slow");
        assert_eq!(together.headers["bounds"], "4 units take at least 10 s");
    }

    #[test]
    fn ranks_and_their_hosts_are_named() {
        let mut measured = make_test_measurements();
        measured.ranks = 2;
        measured.devices[1].rank = 1;
        let files = make_files(&measured, 64);
        assert_eq!(files[3].0, "rank1-slow-together.points");
        let parsed = ModelFile::parse(&files[3].1).expect("a points file");
        let headers = ["rank", "host", "measured-beside"].map(|key| &*parsed.headers[key]);
        assert_eq!(headers, ["1", "vm", "rank 0 fast/one"]);
        measured.devices[0].host = "other".to_owned();
        assert_eq!(list_neighbours(&measured, 1), "");
    }

    #[test]
    fn a_date_has_year_month_and_day() {
        let shape = today().replace(|c: char| c.is_ascii_digit(), "0");
        assert_eq!(shape, "0000-00-00");
    }
}
