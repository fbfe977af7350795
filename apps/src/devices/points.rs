//! The measurements as points files.

use std::collections::BTreeMap;

use isochron_devices::{DeviceInfo, ElementType, Measurement};
use isochron_hierarchy::model::{ModelFile, Point};

use super::measured::Measured;
use super::report::cores;

/// Names and contents of the points files, one or two a device.
pub fn files(measured: &Measured, block: usize) -> Vec<(String, String)> {
    let mut files = Vec::new();
    let names: Vec<&str> = measured
        .devices
        .iter()
        .map(|device| device.info.name.as_str())
        .collect();
    for (index, device) in measured.devices.iter().enumerate() {
        let others: Vec<&str> = names
            .iter()
            .enumerate()
            .filter(|(i, _)| *i != index)
            .map(|(_, name)| *name)
            .collect();
        let beside = others.join(", ");
        let mut add = |word: &str, beside: &str, points: Vec<(u64, Measurement)>| {
            if !points.is_empty() {
                let name = format!("{}-{word}.points", file_name(&device.info.name));
                files.push((
                    name,
                    points_file((&device.info, measured.element), block, beside, &points),
                ));
            }
        };
        let units = |n: usize| ((n / block) as u64).pow(2);
        let alone = device.sizes.iter().map(|size| (units(size.n), size.alone));
        add("alone", "nothing", alone.collect());
        let together = device
            .sizes
            .iter()
            .filter_map(|size| Some((units(size.n), size.together?)));
        add("together", &beside, together.collect());
    }
    files
}

/// A name without characters that mean something in a path.
fn file_name(name: &str) -> String {
    let plain = |c: char| {
        if c.is_alphanumeric() || "._-".contains(c) {
            c
        } else {
            '_'
        }
    };
    name.chars().map(plain).collect()
}

fn points_file(
    (info, element): (&DeviceInfo, ElementType),
    block: usize,
    beside: &str,
    found: &[(u64, Measurement)],
) -> String {
    let mut headers = BTreeMap::from([
        ("device", info.name.clone()),
        ("host", host()),
        ("kernel", "rank-b update of n×n, gemm".to_owned()),
        ("block", block.to_string()),
        ("element", element.to_string()),
        ("library", info.blas.clone()),
        ("cores", cores(info).replacen("cores ", "", 1)),
        ("pinned", info.pinned.to_string()),
        ("measured-beside", beside.to_owned()),
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("date", today()),
    ]);
    if let Some(paced) = &info.paced {
        headers.insert("paced", paced.clone());
    }
    // A bound is no point: a model would take it for a time.
    let bounds = found
        .iter()
        .filter(|(_, measurement)| measurement.is_bound());
    let bounds: Vec<String> = bounds
        .map(|(d, m)| format!("{d} units take at least {} s", m.t_s))
        .collect();
    if !bounds.is_empty() {
        headers.insert("bounds", bounds.join("; "));
    }
    let point = |(d, m): &(u64, Measurement)| Point {
        d: *d,
        t_s: m.t_s,
        reps: m.reps,
        ci_s: m.ci_s,
    };
    let file = ModelFile {
        headers: headers
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value.replace(['\n', '\r'], " ")))
            .collect(),
        points: found
            .iter()
            .filter(|(_, m)| !m.is_bound())
            .map(point)
            .collect(),
    };
    file.to_string()
}

fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() {
        "unknown".to_owned()
    } else {
        name.to_owned()
    }
}

/// Today's date, in UTC, as `2026-01-31`.
fn today() -> String {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    date(since.as_secs() / 86_400)
}

/// The date so many days after the first of January 1970. Years begin in March here, so that leap days end them.
fn date(days: u64) -> String {
    let days = days + 719_468;
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
    use crate::devices::measured::made_up;

    #[test]
    fn points_files_are_read_back_and_a_bound_is_no_point() {
        let files = files(&made_up(), 64);
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
        let read = |i: usize| ModelFile::parse(&files[i].1).expect("a points file");
        let alone = read(0);
        assert_eq!(
            alone.points.iter().map(|point| point.d).collect::<Vec<_>>(),
            [1, 4]
        );
        assert_eq!(alone.headers["measured-beside"], "nothing");
        assert_eq!(alone.headers["block"], "64");
        let together = read(1);
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
            assert_eq!(date(day), name);
        }
    }
}
