//! The measurements as points files.

use std::collections::BTreeMap;

use isochron_devices::{DeviceInfo, ElementType, Measurement};
use isochron_hierarchy::model::{ModelFile, Point};

use super::measured::HostMeasurements;
use super::report::cores_text;

/// Makes the names and contents of the points files, one or two for each device.
pub fn make_files(measured: &HostMeasurements, block: usize) -> Vec<(String, String)> {
    let mut files = Vec::new();
    for (index, device) in measured.devices.iter().enumerate() {
        let numbered = measured.devices.iter().enumerate();
        let others: Vec<&str> = numbered
            .filter(|(i, _)| *i != index)
            .map(|(_, device)| device.info.name.as_str())
            .collect();
        let others = others.join(", ");
        let mut alone = Vec::new();
        let mut together = Vec::new();
        for size in &device.sizes {
            let units = ((size.n / block) as u64).pow(2);
            alone.push((units, size.alone));
            together.extend(size.together.map(|found| (units, found)));
        }
        for (word, neighbours, points) in [
            ("alone", "nothing", alone),
            ("together", &*others, together),
        ] {
            if !points.is_empty() {
                let name = format!("{}-{word}.points", path_safe(&device.info.name));
                let device = (&device.info, measured.element);
                files.push((name, make_file(device, block, neighbours, &points)));
            }
        }
    }
    files
}

/// Replaces the characters that have a meaning in a path.
fn path_safe(name: &str) -> String {
    name.replace(|c: char| !c.is_alphanumeric() && !"._-".contains(c), "_")
}

/// Makes the text of a points file. `neighbours` are the devices that computed at the same time.
fn make_file(
    (info, element): (&DeviceInfo, ElementType),
    block: usize,
    neighbours: &str,
    found: &[(u64, Measurement)],
) -> String {
    let mut headers = BTreeMap::from([
        ("device", info.name.clone()),
        ("host", host_name()),
        ("kernel", "rank-b update of n×n, gemm".to_owned()),
        ("block", block.to_string()),
        ("element", element.to_string()),
        ("library", info.blas.clone()),
        ("cores", cores_text(info).replacen("cores ", "", 1)),
        ("pinned", info.pinned.to_string()),
        ("measured-beside", neighbours.to_owned()),
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("date", today()),
    ]);
    if let Some(paced) = &info.paced {
        headers.insert("paced", paced.clone());
    }
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

fn host_name() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match text.trim() {
        "" => "unknown".to_owned(),
        name => name.to_owned(),
    }
}

/// Returns today's date in UTC, as `2026-01-31`.
fn today() -> String {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    date_of_day(since.as_secs() / 86_400)
}

/// Returns the date that many days after 1 January 1970. Years begin in March here, so that leap days end them.
fn date_of_day(days_since_1970: u64) -> String {
    let days = days_since_1970 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
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
    fn dates_are_those_of_the_calendar() {
        let days = [
            (0, "1970-01-01"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (20_818, "2026-12-31"),
        ];
        for (day, name) in days {
            assert_eq!(date_of_day(day), name);
        }
    }
}
