//! The measurements as a table, as JSON and as plots.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use isochron_devices::{DeviceInfo, MeasureTally, Measurement};
use isochron_plot::{Curve, Mark, Plot, color};
use serde_json::{Value, json};

use super::measured::{DeviceMeasurements, JobMeasurements, MEASUREMENT_NAMES, SizeMeasurements};
use super::peak::{OperandsIn, Peak};
use crate::lines::wrap;
use crate::table::TextTable;

/// Makes the document for scripts.
pub fn make_document(measured: &JobMeasurements, block: usize) -> Value {
    json!({
        "schema": 1,
        "block": block,
        "kernel": "rank-b update",
        "element": measured.element,
        "peak": "measured: the best speed of the device's own library on products of squares, in one repetition",
        "devices": measured.devices,
        "measured": count_measurements(measured),
    })
}

fn count_measurements(measured: &JobMeasurements) -> MeasureTally {
    let mut tally = MeasureTally::default();
    for found in measured
        .devices
        .iter()
        .flat_map(|device| &device.sizes)
        .flat_map(SizeMeasurements::measurements)
        .flatten()
    {
        tally.count(&found);
    }
    tally
}

/// Formats the text for people. Prose has at most `width` characters a line.
pub fn format_text(measured: &JobMeasurements, block: usize, width: usize) -> String {
    let element = measured.element;
    let mut text = format!("update C (n×n) += A (n×{block}) · B ({block}×n), {element}\n");
    let libraries: BTreeSet<&str> = (measured.devices.iter())
        .map(|device| device.info.blas.as_str())
        .collect();
    let is_common = libraries.len() == 1;
    for library in libraries.into_iter().filter(|_| is_common) {
        text += &wrap(&format!("BLAS {library}"), width);
    }
    for device in &measured.devices {
        let mut above = describe_device(device, measured.ranks);
        if !is_common {
            above += &format!("\nBLAS {}", device.info.blas);
        }
        above += &format!("\n{}", describe_peak(device.peak));
        // Writing to a String cannot fail.
        let _ = write!(text, "\n{}\n{}", wrap(&above, width), size_table(device));
    }
    let mut remarks = format_remarks(&count_measurements(measured));
    let mut sizes = measured.devices.iter().flat_map(|device| &device.sizes);
    if sizes.all(|size| size.together.is_none()) {
        let each = if measured.devices.len() == 1 {
            ""
        } else {
            " on each host"
        };
        remarks += &format!("one device{each}: there is nothing to measure it together with\n");
    } else {
        remarks += "ratio: speed together / speed alone\n";
    }
    format!("{text}\n{}", wrap(&remarks, width))
}

fn describe_peak(peak: Peak) -> String {
    format!(
        "measured peak {:.2} GFLOP/s: squares of {} {}",
        peak.gflops,
        peak.size,
        match peak.operands {
            OperandsIn::HostMemory => "in host memory",
            OperandsIn::DeviceMemory => "in its own memory, without transfers",
        }
    )
}

fn describe_device(device: &DeviceMeasurements, ranks: usize) -> String {
    let info = &device.info;
    let rank = match ranks {
        1 => String::new(),
        _ => format!("rank {} on {}, ", device.rank, device.host),
    };
    let pace = info.paced.as_ref();
    let paced = pace.map_or(String::new(), |pace| format!(", paced: {pace}"));
    let noun = if info.cores.len() == 1 {
        "core"
    } else {
        "cores"
    };
    let pinned = if info.pinned { "pinned" } else { "not pinned" };
    format!(
        "{rank}{}: {noun} {}, {pinned}{paced}",
        info.name,
        list_cores(info)
    )
}

/// Lists the cores of a device.
pub fn list_cores(info: &DeviceInfo) -> String {
    let list: Vec<String> = info.cores.iter().map(ToString::to_string).collect();
    list.join(" ")
}

fn size_table(device: &DeviceMeasurements) -> TextTable {
    let heading = "n|GFLOP/s|% peak|± %|reps|together|% peak|± %|reps|ratio";
    let mut table = TextTable::new(0, heading);
    for size in &device.sizes {
        let mut row = vec![size.n.to_string()];
        for found in size.measurements() {
            row.extend(measurement_cells(device, size, found));
        }
        let ratio = size.relative_speed().map(|ratio| format!("{ratio:.3}"));
        row.push(ratio.unwrap_or_else(|| "-".to_owned()));
        table.add_row(row);
    }
    table
}

/// Returns speed, part of the peak, uncertainty and repetitions of one measurement.
fn measurement_cells(
    device: &DeviceMeasurements,
    size: &SizeMeasurements,
    found: Option<Measurement>,
) -> [String; 4] {
    let Some(found) = found else {
        return ["-", "-", "-", "-"].map(str::to_owned);
    };
    // For a bound, the largest possible speed.
    let gflops = size.flop / found.t_s / 1e9;
    let percent = match device.peak.gflops {
        peak if peak > 0.0 => format!("{:.1}", 100.0 * gflops / peak),
        // A device too slow for the squares has shown no peak.
        _ => "-".to_owned(),
    };
    if found.is_bound() {
        return [
            format!("<{gflops:.2}"),
            format!("<{percent}"),
            "-".to_owned(),
            "0".to_owned(),
        ];
    }
    let mark = if found.is_precise() { "" } else { "!" };
    [
        format!("{gflops:.2}"),
        percent,
        format!("{:.1}{mark}", 100.0 * found.ci_s / found.t_s),
        found.reps.to_string(),
    ]
}

/// Lists the deficiencies of the measurements, a line each.
fn format_remarks(tally: &MeasureTally) -> String {
    let of = tally.measurements;
    [
        (
            tally.imprecise,
            format!(
                "of {of} measurements did not reach their precision (marked !): a longer --budget or --thorough gives them more time"
            ),
        ),
        (
            tally.bounds,
            "sizes take too long: a bound is shown (marked <)".to_owned(),
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
    ].iter().filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}\n"))
        .collect()
}

/// Makes a plot of speed against size for each device.
pub fn make_plots(measured: &JobMeasurements) -> Vec<Plot> {
    measured
        .devices
        .iter()
        .map(|device| make_plot(device, measured.ranks))
        .collect()
}

fn make_plot(device: &DeviceMeasurements, ranks: usize) -> Plot {
    let mut curves = Vec::new();
    let mut marks = Vec::new();
    let looks = [('*', color::BLUE), ('+', color::VERMILION)];
    for (which, (name, (symbol, color))) in MEASUREMENT_NAMES.into_iter().zip(looks).enumerate() {
        let found = device.sizes.iter().filter_map(|size| {
            let m = size.measurements()[which].filter(|m| !m.is_bound())?;
            let gflop = size.flop / 1e9;
            Some(Mark::of_speed(size.n as f64, gflop, m.t_s, m.ci_s))
        });
        let found: Vec<Mark> = found.collect();
        // The line alone is named even if nothing was measured.
        if !found.is_empty() || which == 0 {
            curves.push(Curve {
                name: name.to_owned(),
                symbol,
                color,
                dashed: false,
                points: found.iter().map(|mark| (mark.x, mark.y)).collect(),
            });
        }
        marks.extend(found);
    }
    let end = device.sizes.last().map_or(1.0, |size| size.n as f64);
    let peak = device.peak.gflops;
    curves.push(Curve {
        name: "measured peak".to_owned(),
        symbol: '-',
        color: color::GREY,
        dashed: true,
        points: vec![(0.0, peak), (end, peak)],
    });
    Plot {
        title: format!("{}, {}", describe_device(device, ranks), device.info.blas),
        x_name: "n",
        y_name: "GFLOP/s",
        curves,
        marks,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::measured::made_up::make_test_measurements;
    use isochron_devices::MeasureOutcome;

    #[test]
    fn speeds_parts_of_the_peak_and_ratios_are_shown() {
        let text = format_text(&make_test_measurements(), 64, 80);
        // 2·64³ flop in 2⁻¹⁰ s.
        assert!(text.contains("0.54") && text.contains("53.7"), "{text}");
        assert!(text.contains("0.500"), "half as fast together: {text}");
        assert!(
            text.contains("<0.00") && text.contains("2 sizes take too long"),
            "{text}"
        );
        let plots = make_plots(&make_test_measurements());
        assert_eq!(plots[0].curves.len(), 3);
        assert_eq!(plots[0].marks.len(), 3, "a bound is not drawn");
    }

    #[test]
    fn the_library_of_all_devices_is_told_once() {
        let mut measured = make_test_measurements();
        let text = format_text(&measured, 64, 80);
        assert_eq!(text.matches("BLAS made up").count(), 1, "{text}");
        assert!(text.contains("\nfast/one: cores 0 2, pinned\nmeasured peak 1.00 GFLOP/s: squares of 256 in host memory\n"), "{text}");
        measured.devices[1].info.blas = "another".to_owned();
        let text = format_text(&measured, 64, 80);
        assert!(
            text.contains("pinned\nBLAS made up\n") && text.contains("pinned\nBLAS another\n"),
            "{text}"
        );
    }

    #[test]
    fn precision_that_was_not_reached_is_reported() {
        let mut measured = make_test_measurements();
        measured.devices[0].sizes[0].alone.outcome = MeasureOutcome::OutOfTime;
        let text = format_text(&measured, 64, 80);
        assert!(text.contains("1.0!"), "{text}");
        assert!(text.contains("1 of 8 measurements did not reach"), "{text}");
    }

    #[test]
    fn the_text_fits_80_columns() {
        let mut measured = make_test_measurements();
        measured.ranks = 100;
        for device in &mut measured.devices {
            device.host = "a-long-name.of-a-host.example.org".to_owned();
            device.info.blas = "a BLAS with a version and the options of its build".to_owned();
            device.info.cores = (0..64).collect();
            for size in &mut device.sizes {
                size.n *= 500;
                size.alone.outcome = MeasureOutcome::OutOfRepetitions;
                size.alone.outliers = 1000;
                size.alone.t_s = 2.0_f64.powi(-24);
            }
        }
        let text = format_text(&measured, 64, 80);
        let longest = text.lines().max_by_key(|line| line.chars().count());
        assert!(
            longest.is_some_and(|line| line.chars().count() <= 80),
            "{text}"
        );
    }

    #[test]
    fn ranks_and_their_hosts_are_shown() {
        let mut measured = make_test_measurements();
        assert!(!format_text(&measured, 64, 80).contains("rank"));
        measured.ranks = 2;
        measured.devices[1].rank = 1;
        assert!(format_text(&measured, 64, 80).contains("rank 1 on vm, slow: "));
        assert!(make_plots(&measured)[1].title.starts_with("rank 1 on vm"));
        let document = make_document(&measured, 64);
        let device = &document["devices"][1];
        assert_eq!(
            (&device["rank"], &device["host"]),
            (&json!(1), &json!("vm"))
        );
    }

    #[test]
    fn json_holds_every_measurement() {
        let document = make_document(&make_test_measurements(), 64);
        let sizes = &document["devices"][1]["sizes"];
        assert_eq!(sizes[1]["together"]["outcome"], "bounded");
        assert_eq!(sizes[0]["alone"]["reps"], 5);
        assert_eq!(document["measured"]["bounds"], 2);
        assert_eq!(document["devices"][0]["name"], "fast/one");
    }
}
