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
        marks: marks(device, speed_mark),
    }];
    if time {
        plots.push(Plot {
            title: device.file.clone(),
            x_name: "size, units",
            y_name: "time, s",
            curves: curves(device, |model, d| model.time_s(d)),
            marks: marks(device, time_mark),
        });
    }
    plots
}

fn curves(device: &Device, value: impl Fn(&dyn SpeedModel, f64) -> f64) -> Vec<Curve> {
    // Curves may have corners where there are points.
    let measured = device.points.iter().map(|point| point.d);
    let places = among(measured.chain(device.sizes.iter().copied()));
    let curve = |(fit, model): &(Fit, Box<dyn SpeedModel>)| {
        let (symbol, color, dashed) = look(*fit);
        Curve {
            name: fit.name().to_owned(),
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

fn marks(device: &Device, mark: fn(f64, f64, f64, f64) -> Mark) -> Vec<Mark> {
    let points = device.points.iter();
    let mark = |&Point { d, t_s, ci_s, .. }: &Point| mark(d as f64, d as f64, t_s, ci_s);
    points.map(mark).collect()
}

/// At `x` the time of so many units, whose number it does not depend on.
pub fn time_mark(x: f64, _units: f64, t_s: f64, ci_s: f64) -> Mark {
    Mark {
        x,
        y: t_s,
        low: (t_s - ci_s).max(0.0),
        high: t_s + ci_s,
    }
}

/// At `x` the speed of so many units, and the interval of their time as speeds.
pub fn speed_mark(x: f64, units: f64, t_s: f64, ci_s: f64) -> Mark {
    let least_s = t_s - ci_s;
    Mark {
        x,
        y: units / t_s,
        low: units / (t_s + ci_s),
        high: if least_s > 0.0 {
            units / least_s
        } else {
            f64::INFINITY
        },
    }
}

/// `places` with as many more evenly between 0 and somewhat beyond the last.
pub fn among(places: impl Iterator<Item = u64> + Clone) -> Vec<f64> {
    let end = 1.05 * places.clone().max().unwrap_or(1) as f64;
    let even = (0..=PLACES).map(|i| end * f64::from(i) / f64::from(PLACES));
    let mut places: Vec<f64> = even.chain(places.map(|d| d as f64)).collect();
    places.sort_unstable_by(f64::total_cmp);
    places.dedup();
    places
}
