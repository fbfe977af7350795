//! Points and models as plots.

use isochron_hierarchy::model::{Fit, Point, SpeedModel};

use super::Device;
use crate::plot::{Curve, Mark, Plot};

/// Places at which a curve is evaluated, besides the measured sizes.
const PLACES: u32 = 400;

/// Speed against size, and if asked for time against size.
pub fn plots(device: &Device, time: bool) -> Vec<Plot> {
    let mut plots = vec![Plot {
        title: device.file.clone(),
        x_name: "size, units",
        y_name: "speed, units/s",
        curves: curves(device, |model, d| model.speed(d)),
        marks: device.points.iter().map(speed_mark).collect(),
    }];
    if time {
        plots.push(Plot {
            title: device.file.clone(),
            x_name: "size, units",
            y_name: "time, s",
            curves: curves(device, |model, d| model.time_s(d)),
            marks: device.points.iter().map(time_mark).collect(),
        });
    }
    plots
}

fn curves(device: &Device, value: impl Fn(&dyn SpeedModel, f64) -> f64) -> Vec<Curve> {
    let places = places(device);
    let curve = |(fit, model): &(Fit, Box<dyn SpeedModel>)| {
        let (symbol, color, dashed) = look(*fit);
        Curve {
            name: fit.name(),
            symbol,
            color,
            dashed,
            points: places.iter().map(|&d| (d, value(&**model, d))).collect(),
        }
    };
    let mut curves: Vec<Curve> = device.fits.iter().map(curve).collect();
    // A constant is the least of what there is to see.
    curves.sort_by_key(|curve| curve.name == Fit::Cpm.name());
    curves
}

/// Sizes at which the curves are evaluated: evenly from 0 to beyond the last one that matters, and where
/// they may have corners.
fn places(device: &Device) -> Vec<f64> {
    let measured = device.points.iter().map(|point| point.d);
    let sizes = || measured.clone().chain(device.sizes.iter().copied());
    let end = 1.05 * sizes().max().unwrap_or(1) as f64;
    let even = (0..=PLACES).map(|i| end * f64::from(i) / f64::from(PLACES));
    let mut places: Vec<f64> = even.chain(sizes().map(|d| d as f64)).collect();
    places.sort_unstable_by(f64::total_cmp);
    places.dedup();
    places
}

/// Character, colour (of a palette that the colour-blind can tell apart) and whether the line is
/// interrupted: those of fits without restricted shape are.
fn look(fit: Fit) -> (char, &'static str, bool) {
    match fit {
        Fit::Cpm => ('-', "#999999", false),
        Fit::PiecewiseSpeed => ('*', "#0072b2", false),
        Fit::PiecewiseTime => ('+', "#009e73", false),
        Fit::Akima => ('~', "#d55e00", true),
        Fit::RawPiecewise => ('.', "#cc79a7", true),
    }
}

fn time_mark(point: &Point) -> Mark {
    Mark {
        x: point.d as f64,
        y: point.t_s,
        low: (point.t_s - point.ci_s).max(0.0),
        high: point.t_s + point.ci_s,
    }
}

/// The interval of the time, as speeds.
fn speed_mark(point: &Point) -> Mark {
    let d = point.d as f64;
    let least_s = point.t_s - point.ci_s;
    Mark {
        x: d,
        y: point.speed(),
        low: d / (point.t_s + point.ci_s),
        high: if least_s > 0.0 {
            d / least_s
        } else {
            f64::INFINITY
        },
    }
}
