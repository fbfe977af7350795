//! The measurements as a table, as JSON and as plots.

use std::fmt::Write as _;

use isochron_devices::{DeviceInfo, MeasureTally, Measurement};
use isochron_plot::{Curve, Mark, Plot, color};
use serde_json::{Value, json};

use super::measured::{DeviceMeasurements, HostMeasurements, SizeMeasurements};
use super::peak::OperandsIn;
use crate::table::TextTable;

/// Version of the JSON document.
const SCHEMA: u32 = 1;

/// Makes the document for scripts.
pub fn make_document(measured: &HostMeasurements, block: usize) -> Value {
    json!({
        "schema": SCHEMA,
        "block": block,
        "kernel": "rank-b update",
        "element": measured.element,
        "peak": PEAK,
        "devices": measured.devices,
        "measured": count_measurements(measured),
    })
}

/// The meaning of the peak.
const PEAK: &str = "measured: the best speed of the device's own library on products of squares, in one repetition";

fn count_measurements(measured: &HostMeasurements) -> MeasureTally {
    let mut tally = MeasureTally::default();
    let sizes = measured.devices.iter().flat_map(|device| &device.sizes);
    for size in sizes {
        tally.count(&size.alone);
        if let Some(together) = &size.together {
            tally.count(together);
        }
    }
    tally
}

/// Formats the text for people.
pub fn format_text(measured: &HostMeasurements, block: usize) -> String {
    let element = measured.element;
    let mut text = format!("update C (n×n) += A (n×{block}) · B ({block}×n), {element}\n");
    for device in &measured.devices {
        let DeviceMeasurements { info, peak, .. } = device;
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(text, "\n{}", describe_device(info));
        let _ = writeln!(
            text,
            "peak {:.2} GFLOP/s (measured: best of its library on squares {}, at {})\n",
            peak.gflops,
            match peak.operands {
                OperandsIn::HostMemory => "in host memory",
                OperandsIn::DeviceMemory => "in its own memory, without transfers",
            },
            peak.size
        );
        let _ = write!(text, "{}", size_table(device));
    }
    text.push_str(&format_remarks(&count_measurements(measured)));
    if measured.devices.len() == 1 {
        text.push_str("\none device: there is nothing to measure it together with\n");
    }
    text
}

fn describe_device(info: &DeviceInfo) -> String {
    let pace = info.paced.as_ref();
    let paced = pace.map_or(String::new(), |pace| format!(", paced: {pace}"));
    let pinned = if info.pinned { "pinned" } else { "not pinned" };
    format!(
        "{}: {}, {}, {pinned}{paced}",
        info.name,
        info.blas,
        cores_text(info)
    )
}

/// Returns the cores of a device in words.
pub fn cores_text(info: &DeviceInfo) -> String {
    let list: Vec<String> = info.cores.iter().map(ToString::to_string).collect();
    format!("cores {}", list.join(" "))
}

fn size_table(device: &DeviceMeasurements) -> TextTable {
    let mut table = TextTable::new(
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
        row.extend(measurement_cells(device, size, Some(&size.alone)));
        row.extend(measurement_cells(device, size, size.together.as_ref()));
        // A ratio of speeds, as the columns that it compares.
        row.push(
            size.slowdown()
                .map_or("-".to_owned(), |slowdown| format!("{:.3}", 1.0 / slowdown)),
        );
        table.add_row(row);
    }
    table
}

/// Returns speed, part of the peak, uncertainty and repetitions of one measurement.
fn measurement_cells(
    device: &DeviceMeasurements,
    size: &SizeMeasurements,
    found: Option<&Measurement>,
) -> [String; 4] {
    let Some(found) = found else {
        return ["-", "-", "-", "-"].map(str::to_owned);
    };
    let gflops = size.gflops(found);
    // A device too slow for the squares has shown no peak.
    let peak = Some(device.peak.gflops).filter(|&peak| peak > 0.0);
    let percent = match peak {
        Some(peak) => format!("{:.1}", 100.0 * gflops / peak),
        None => "-".to_owned(),
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
    let lines = [
        (
            tally.imprecise,
            format!("of {of} measurements did not reach their precision (marked !)"),
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
    ];
    let remarks: String = lines
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}\n"))
        .collect();
    if remarks.is_empty() {
        remarks
    } else {
        format!("\n{remarks}")
    }
}

/// Makes a plot of speed against size for each device.
pub fn make_plots(measured: &HostMeasurements) -> Vec<Plot> {
    measured.devices.iter().map(make_plot).collect()
}

fn make_plot(device: &DeviceMeasurements) -> Plot {
    let alone = device.sizes.iter().map(|size| (size, size.alone));
    let together = device
        .sizes
        .iter()
        .filter_map(|size| Some((size, size.together?)));
    let mut curves = Vec::new();
    let mut marks = Vec::new();
    for (name, symbol, color, found) in [
        ("alone", '*', color::BLUE, alone.collect::<Vec<_>>()),
        ("together", '+', color::VERMILION, together.collect()),
    ] {
        let measured: Vec<_> = found.iter().filter(|(_, m)| !m.is_bound()).collect();
        marks.extend(measured.iter().map(|(size, m)| make_mark(size, m)));
        // The line alone is named even if nothing was measured.
        if !measured.is_empty() || name == "alone" {
            curves.push(Curve {
                name: name.to_owned(),
                symbol,
                color,
                dashed: false,
                points: measured
                    .iter()
                    .map(|(size, m)| (size.n as f64, size.gflops(m)))
                    .collect(),
            });
        }
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
        title: describe_device(&device.info),
        x_name: "n",
        y_name: "GFLOP/s",
        curves,
        marks,
    }
}

/// Marks a speed, with the interval of the time as speeds.
fn make_mark(size: &SizeMeasurements, m: &Measurement) -> Mark {
    let least_s = m.t_s - m.ci_s;
    Mark {
        x: size.n as f64,
        y: size.flop / m.t_s / 1e9,
        low: size.flop / (m.t_s + m.ci_s) / 1e9,
        high: if least_s > 0.0 {
            size.flop / least_s / 1e9
        } else {
            f64::INFINITY
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::measured::made_up::make_test_measurements;

    #[test]
    fn speeds_parts_of_the_peak_and_ratios_are_shown() {
        let text = format_text(&make_test_measurements(), 64);
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
    fn json_holds_every_measurement() {
        let document = make_document(&make_test_measurements(), 64);
        let sizes = &document["devices"][1]["sizes"];
        assert_eq!(sizes[1]["together"]["outcome"], "bounded");
        assert_eq!(sizes[0]["alone"]["reps"], 5);
        assert_eq!(document["measured"]["bounds"], 2);
        assert_eq!(document["devices"][0]["name"], "fast/one");
    }
}
