//! The measurements as a table, as JSON, as points files and as a plot.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use isochron_devices::{DeviceInfo, MeasureTally, Measurement};
use isochron_hierarchy::model::{ModelFile, Point};
use serde_json::json;

use super::measured::{DeviceMeasured, Measured, SizeMeasured};
use crate::failure::Failure;
use crate::plot::{Curve, Mark, Plot};
use crate::table::Table;

/// Version of the JSON document.
const SCHEMA: u32 = 1;

/// The document for scripts.
///
/// # Errors
/// None in practice: numbers that JSON lacks become `null`.
pub fn json(measured: &Measured, block: usize) -> Result<String, Failure> {
    let document = json!({
        "schema": SCHEMA,
        "block": block,
        "kernel": "rank-b update",
        "element": "f64",
        "peak": PEAK,
        "devices": measured.devices,
        "measured": tally(measured),
    });
    serde_json::to_string_pretty(&document).map_err(Failure::run)
}

/// What the peak is.
const PEAK: &str = "measured: the best speed of the device's own library on products of squares";

fn tally(measured: &Measured) -> MeasureTally {
    let mut tally = MeasureTally::default();
    let sizes = measured.devices.iter().flat_map(|device| &device.sizes);
    for size in sizes {
        tally.count(&size.alone);
        size.together
            .iter()
            .for_each(|together| tally.count(together));
    }
    tally
}

/// The text for people.
pub fn text(measured: &Measured, block: usize) -> String {
    let mut text = format!("update C (n×n) += A (n×{block}) · B ({block}×n), f64\n");
    for device in &measured.devices {
        let DeviceMeasured { info, peak, .. } = device;
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(text, "\n{}", describe(info));
        let _ = writeln!(
            text,
            "peak {:.2} GFLOP/s (measured: best of its library on squares, at {})\n",
            peak.gflops, peak.size
        );
        let _ = write!(text, "{}", table(device));
    }
    text.push_str(&remarks(&tally(measured)));
    if measured.devices.len() == 1 {
        text.push_str("\none device: there is nothing to measure it together with\n");
    }
    text
}

fn describe(info: &DeviceInfo) -> String {
    let paced = info.paced.as_ref();
    let paced = paced.map_or(String::new(), |pace| format!(", paced: {pace}"));
    let pinned = if info.pinned { "pinned" } else { "not pinned" };
    format!(
        "{}: {}, {}, {pinned}{paced}",
        info.name,
        info.blas,
        cores(info)
    )
}

fn cores(info: &DeviceInfo) -> String {
    let list: Vec<String> = info.cores.iter().map(ToString::to_string).collect();
    format!("cores {}", list.join(" "))
}

fn table(device: &DeviceMeasured) -> Table {
    let mut table = Table::new(
        0,
        &[
            "n",
            "GFLOP/s",
            "% of peak",
            "± %",
            "reps",
            "together",
            "% of peak",
            "± %",
            "reps",
            "together/alone",
        ],
    );
    for size in &device.sizes {
        let mut row = vec![size.n.to_string()];
        row.extend(cells(device, size, Some(&size.alone)));
        row.extend(cells(device, size, size.together.as_ref()));
        // In speeds, as the columns that it compares.
        row.push(
            size.slowdown()
                .map_or("-".to_owned(), |slowdown| format!("{:.3}", 1.0 / slowdown)),
        );
        table.row(row);
    }
    table
}

/// Speed, part of the peak, uncertainty and repetitions of one measurement.
fn cells(device: &DeviceMeasured, size: &SizeMeasured, found: Option<&Measurement>) -> [String; 4] {
    let Some(found) = found else {
        return ["-", "-", "-", "-"].map(str::to_owned);
    };
    let gflops = size.gflops(found);
    // A device too slow for the squares has shown no peak.
    let peak = Some(device.peak.gflops).filter(|&peak| peak > 0.0);
    let percent = peak.map_or("-".to_owned(), |peak| {
        format!("{:.1}", 100.0 * gflops / peak)
    });
    if found.bounded() {
        return [
            format!("<{gflops:.2}"),
            format!("<{percent}"),
            "-".to_owned(),
            "0".to_owned(),
        ];
    }
    let mark = if found.reached() { "" } else { "!" };
    [
        format!("{gflops:.2}"),
        percent,
        format!("{:.1}{mark}", 100.0 * found.ci_s / found.t_s),
        found.reps.to_string(),
    ]
}

/// What of the measurements is not as it should be.
pub fn remarks(tally: &MeasureTally) -> String {
    let of = tally.measurements;
    let lines = [
        (
            tally.imprecise,
            format!("of {of} measurements did not reach their precision (marked !)"),
        ),
        (
            tally.bounds,
            "sizes take too long: what is shown is a bound (marked <)".to_owned(),
        ),
        (
            tally.outliers,
            format!(
                "of {} repetitions were disturbed and measured again",
                tally.repetitions + tally.outliers
            ),
        ),
        (
            tally.not_normal,
            format!("of {of} measurements have times that are not normally distributed"),
        ),
    ];
    let said = lines.iter().filter(|(count, _)| *count > 0);
    let said: String = said
        .map(|(count, what)| format!("{count} {what}\n"))
        .collect();
    if said.is_empty() {
        said
    } else {
        format!("\n{said}")
    }
}

/// Names and contents of the points files, one or two a device.
pub fn points_files(measured: &Measured, block: usize) -> Vec<(String, String)> {
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
                files.push((name, points_file(&device.info, block, beside, &points)));
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
    info: &DeviceInfo,
    block: usize,
    beside: &str,
    found: &[(u64, Measurement)],
) -> String {
    let mut headers = BTreeMap::from([
        ("device", info.name.clone()),
        ("host", host()),
        ("kernel", "rank-b update of n×n, dgemm".to_owned()),
        ("block", block.to_string()),
        ("element", "f64".to_owned()),
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
        .filter(|(_, measurement)| measurement.bounded());
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
            .filter(|(_, m)| !m.bounded())
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

/// Speed against size, a plot for each device.
pub fn plots(measured: &Measured) -> Vec<Plot> {
    measured.devices.iter().map(plot).collect()
}

fn plot(device: &DeviceMeasured) -> Plot {
    let of = |get: fn(&SizeMeasured) -> Option<Measurement>| -> Vec<(&SizeMeasured, Measurement)> {
        let known = device
            .sizes
            .iter()
            .filter_map(|size| Some((size, get(size)?)));
        known.filter(|(_, found)| !found.bounded()).collect()
    };
    let (alone, together) = (of(|size| Some(size.alone)), of(|size| size.together));
    let line = |found: &[(&SizeMeasured, Measurement)]| -> Vec<(f64, f64)> {
        found
            .iter()
            .map(|(size, m)| (size.n as f64, size.gflops(m)))
            .collect()
    };
    let end = device.sizes.last().map_or(1.0, |size| size.n as f64);
    let curve = |name, symbol, color, dashed, points| Curve {
        name,
        symbol,
        color,
        dashed,
        points,
    };
    let mut curves = vec![curve("alone", '*', "#0072b2", false, line(&alone))];
    if !together.is_empty() {
        curves.push(curve("together", '+', "#d55e00", false, line(&together)));
    }
    let peak = device.peak.gflops;
    curves.push(curve(
        "measured peak",
        '-',
        "#999999",
        true,
        vec![(0.0, peak), (end, peak)],
    ));
    Plot {
        title: describe(&device.info),
        x_name: "n",
        y_name: "GFLOP/s",
        curves,
        marks: alone
            .iter()
            .chain(&together)
            .map(|(size, m)| mark(size, m))
            .collect(),
    }
}

/// The interval of the time, as speeds.
fn mark(size: &SizeMeasured, m: &Measurement) -> Mark {
    let speed = |t_s: f64| {
        if t_s > 0.0 {
            size.flop / t_s / 1e9
        } else {
            f64::INFINITY
        }
    };
    Mark {
        x: size.n as f64,
        y: speed(m.t_s),
        low: speed(m.t_s + m.ci_s),
        high: speed(m.t_s - m.ci_s),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::peak::Peak;
    use isochron_devices::{DeviceKind, MeasureOutcome};

    fn found(t_s: f64) -> Measurement {
        Measurement {
            t_s,
            ci_s: 0.01 * t_s,
            reps: 5,
            outcome: MeasureOutcome::Precise,
            ..Measurement::default()
        }
    }

    fn measured() -> Measured {
        let size = |n: usize, alone, together| SizeMeasured {
            n,
            flop: 2.0 * (n * n * 64) as f64,
            alone,
            together: Some(together),
        };
        let device = |name: &str| DeviceMeasured {
            info: DeviceInfo {
                name: name.to_owned(),
                kind: DeviceKind::Cpu,
                blas: "made up".to_owned(),
                paced: None,
                cores: vec![0, 2],
                pinned: true,
            },
            peak: Peak {
                gflops: 1.0,
                size: 256,
            },
            sizes: vec![
                size(64, found(2.0_f64.powi(-10)), found(2.0_f64.powi(-9))),
                size(128, found(2.0_f64.powi(-8)), Measurement::bound(10.0)),
            ],
        };
        Measured {
            devices: vec![device("fast/one"), device("slow")],
        }
    }

    #[test]
    fn points_files_are_read_back_and_a_bound_is_no_point() {
        let files = points_files(&measured(), 64);
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
    fn speeds_parts_of_the_peak_and_ratios_are_shown() {
        let text = text(&measured(), 64);
        // 2·64³ flop in 2⁻¹⁰ s.
        assert!(text.contains("0.54") && text.contains("53.7"), "{text}");
        assert!(text.contains("0.500"), "half as fast together: {text}");
        assert!(
            text.contains("<0.00") && text.contains("2 sizes take too long"),
            "{text}"
        );
        let plots = plots(&measured());
        assert_eq!(plots[0].curves.len(), 3);
        assert_eq!(plots[0].marks.len(), 3, "a bound is not drawn");
    }

    #[test]
    fn json_holds_every_measurement() {
        let document: serde_json::Value =
            serde_json::from_str(&json(&measured(), 64).expect("JSON")).expect("JSON");
        let sizes = &document["devices"][1]["sizes"];
        assert_eq!(sizes[1]["together"]["outcome"], "bounded");
        assert_eq!(sizes[0]["alone"]["reps"], 5);
        assert_eq!(document["measured"]["bounds"], 2);
        assert_eq!(document["devices"][0]["name"], "fast/one");
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
