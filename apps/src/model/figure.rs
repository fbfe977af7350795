//! Points and models as plots.

use isochron_hierarchy::model::{Fit, SpeedModel};
use isochron_plot::{Curve, Mark, Plot, color};

use super::PointsModels;

/// Places at which a curve is evaluated, besides the measured sizes.
const PLACES: u32 = 400;

/// Makes the plot of speed against size, and of time against size if asked for.
pub fn make_plots(models: &PointsModels, with_time: bool) -> Vec<Plot> {
    let mut plots = vec![Plot {
        title: models.file.clone(),
        x_name: "size, units",
        y_name: "speed, units/s",
        curves: make_curves(models, |model, d| model.speed(d)),
        marks: make_marks(models, speed_mark),
    }];
    if with_time {
        plots.push(Plot {
            title: models.file.clone(),
            x_name: "size, units",
            y_name: "time, s",
            curves: make_curves(models, |model, d| model.time_s(d)),
            marks: make_marks(models, time_mark),
        });
    }
    plots
}

fn make_curves(models: &PointsModels, value: impl Fn(&dyn SpeedModel, f64) -> f64) -> Vec<Curve> {
    // Curves may have corners at the points.
    let measured = models.points.iter().map(|point| point.d);
    let places = curve_places(measured.chain(models.sizes.iter().copied()));
    let mut curves = Vec::new();
    for (fit, model) in &models.fits {
        let (symbol, color, dashed) = curve_style(*fit);
        curves.push(Curve {
            name: fit.name().to_owned(),
            symbol,
            color,
            dashed,
            points: places.iter().map(|&d| (d, value(&**model, d))).collect(),
        });
    }
    // A constant matters least.
    curves.sort_by_key(|curve| curve.name == Fit::Cpm.name());
    curves
}

/// Returns character, colour and whether the line is interrupted: those of fits without restricted shape are.
fn curve_style(fit: Fit) -> (char, &'static str, bool) {
    match fit {
        Fit::Cpm => ('-', color::GREY, false),
        Fit::PiecewiseSpeed => ('*', color::BLUE, false),
        Fit::PiecewiseTime => ('+', color::GREEN, false),
        Fit::Akima => ('~', color::VERMILION, true),
        Fit::RawPiecewise => ('.', color::PURPLE, true),
    }
}

/// Makes a mark of a place, the units there, their time and the half-width of its interval.
pub type MakeMark = fn(f64, f64, f64, f64) -> Mark;

fn make_marks(models: &PointsModels, make_mark: MakeMark) -> Vec<Mark> {
    let points = models.points.iter();
    points
        .map(|point| make_mark(point.d as f64, point.d as f64, point.t_s, point.ci_s))
        .collect()
}

/// Marks the time of the units at `x`.
pub fn time_mark(x: f64, _units: f64, t_s: f64, ci_s: f64) -> Mark {
    Mark {
        x,
        y: t_s,
        low: (t_s - ci_s).max(0.0),
        high: t_s + ci_s,
    }
}

/// Marks the speed of the units at `x`, with the interval of their time as speeds.
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

/// Returns `sizes` together with even steps from 0 to 5 % beyond the largest, ascending.
pub fn curve_places(sizes: impl Iterator<Item = u64> + Clone) -> Vec<f64> {
    let end = 1.05 * sizes.clone().max().unwrap_or(1) as f64;
    let even = (0..=PLACES).map(|i| end * f64::from(i) / f64::from(PLACES));
    let mut places: Vec<f64> = even.chain(sizes.map(|d| d as f64)).collect();
    places.sort_unstable_by(f64::total_cmp);
    places.dedup();
    places
}
