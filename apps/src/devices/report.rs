//! The measurements as a table, as JSON, as points files and as a plot.

use std::fmt::Write as _;

use isochron_devices::{DeviceInfo, MeasureTally, Measurement};
use serde_json::{Value, json};

use super::measured::{DeviceMeasured, Measured, SizeMeasured};
use super::peak::OperandsIn;
use crate::plot::{Curve, Mark, Plot};
use crate::table::Table;

/// Version of the JSON document.
const SCHEMA: u32 = 1;

/// The document for scripts.
pub fn document(measured: &Measured, block: usize) -> Value {
    json!({
        "schema": SCHEMA,
        "block": block,
        "kernel": "rank-b update",
        "element": measured.element,
        "peak": PEAK,
        "devices": measured.devices,
        "measured": tally(measured),
    })
}

/// What the peak is.
const PEAK: &str = "measured: the best speed of the device's own library on products of squares, in one repetition";

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
    let element = measured.element;
    let mut text = format!("update C (n×n) += A (n×{block}) · B ({block}×n), {element}\n");
    for device in &measured.devices {
        let DeviceMeasured { info, peak, .. } = device;
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(text, "\n{}", describe(info));
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

/// The cores of a device.
pub fn cores(info: &DeviceInfo) -> String {
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
        known.filter(|(_, found)| !found.is_bound()).collect()
    };
    let (alone, together) = (of(|size| Some(size.alone)), of(|size| size.together));
    let line = |found: &[(&SizeMeasured, Measurement)]| -> Vec<(f64, f64)> {
        found
            .iter()
            .map(|(size, m)| (size.n as f64, size.gflops(m)))
            .collect()
    };
    let end = device.sizes.last().map_or(1.0, |size| size.n as f64);
    let curve = |name: &str, symbol, color, dashed, points| Curve {
        name: name.to_owned(),
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
    use crate::devices::measured::made_up;

    #[test]
    fn speeds_parts_of_the_peak_and_ratios_are_shown() {
        let text = text(&made_up(), 64);
        // 2·64³ flop in 2⁻¹⁰ s.
        assert!(text.contains("0.54") && text.contains("53.7"), "{text}");
        assert!(text.contains("0.500"), "half as fast together: {text}");
        assert!(
            text.contains("<0.00") && text.contains("2 sizes take too long"),
            "{text}"
        );
        let plots = plots(&made_up());
        assert_eq!(plots[0].curves.len(), 3);
        assert_eq!(plots[0].marks.len(), 3, "a bound is not drawn");
    }

    #[test]
    fn json_holds_every_measurement() {
        let document = document(&made_up(), 64);
        let sizes = &document["devices"][1]["sizes"];
        assert_eq!(sizes[1]["together"]["outcome"], "bounded");
        assert_eq!(sizes[0]["alone"]["reps"], 5);
        assert_eq!(document["measured"]["bounds"], 2);
        assert_eq!(document["devices"][0]["name"], "fast/one");
    }
}
