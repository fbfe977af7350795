//! Measured times and models as plots.

use std::convert::Infallible;

use isochron_hierarchy::model::Fit;
use isochron_hierarchy::printable::show_name;
use isochron_plot::{Curve, Mark, Plot, color};

use super::{MeasuredTime, ModelKey, NamedModel, ShownModel, TimedSize};

/// Places at which a curve is evaluated, besides the measured sizes.
const PLACES: u32 = 400;

/// A quantity to draw: its name, its value by a model, and as it was measured.
type Quantity = (&'static str, fn(&NamedModel, f64) -> f64, fn(f64, &MeasuredTime) -> Mark);

/// Makes the plots of speed against size, and of time against size if asked for. Models of one kind of size share a plot.
pub(super) fn make_plots(models: &[ShownModel], with_time: bool) -> Vec<Plot> {
    let speed: Quantity = ("speed, units/s", NamedModel::speed, speed_mark);
    let time: Quantity = ("time, s", NamedModel::time_s, time_mark);
    let quantities = [Some(speed), with_time.then_some(time)];
    let mut axes: Vec<&str> = Vec::new();
    for model in models.iter().filter(|model| !model.drawn.is_empty()) {
        if !axes.contains(&model.labels.axis) {
            axes.push(model.labels.axis);
        }
    }
    let all = quantities.iter().flatten();
    all.flat_map(|quantity| {
        axes.iter().map(|&axis| {
            let models = models.iter().filter(|model| model.labels.axis == axis);
            make_plot(&models.collect::<Vec<_>>(), quantity)
        })
    })
    .collect()
}

fn make_plot(models: &[&ShownModel], (y_name, value, make_mark): &Quantity) -> Plot {
    let names = name_all(models);
    let mut curves = Vec::new();
    let mut marks = Vec::new();
    for (model, name) in models.iter().zip(&names) {
        let drawn = model.measure_marks(*make_mark);
        let ends = drawn.iter().map(|mark| mark.x);
        let measured = ends.clone().reduce(f64::min).zip(ends.reduce(f64::max));
        let places = model.curve_places();
        let mut own = Vec::new();
        for (index, &key) in model.drawn.iter().enumerate() {
            let (symbol, color) = curve_style(index, key);
            let made = model.make_model(key);
            let name = match (models.len(), model.drawn.len()) {
                (1, _) => key.name(),
                (_, 1) => name.clone(),
                _ => format!("{name}, {}", key.name()),
            };
            // Fits of the same points lie over each other: the later ones are narrower.
            let later = match key {
                ModelKey::Fit(_) => model.drawn.len() - 1 - index,
                ModelKey::N(_) => 0,
            };
            own.push(Curve {
                name,
                symbol,
                color,
                dashed: index >= color::N_SERIES,
                points: places.iter().map(|&x| (x, value(&made, x))).collect(),
                measured,
                extra_width: 2.0 * later as f64,
                ..Curve::default()
            });
        }
        if models.len() == 1 {
            marks = drawn;
        } else if let Some(curve) = own.first_mut() {
            curve.marks = drawn;
        }
        curves.extend(own);
    }
    if models.len() > 1 {
        for (index, curve) in curves.iter_mut().enumerate() {
            curve.color = color::of_series(index);
            curve.dashed = (index / color::N_SERIES) % 2 == 1;
        }
    }
    Plot {
        title: match &names[..] {
            [name] => name.clone(),
            names => format!("{} models", names.len()),
        },
        x_name: models.first().map_or("", |model| model.labels.axis),
        y_name,
        curves,
        marks,
    }
}

/// Returns the names of models, those of files without their folders unless these tell them apart.
fn name_all(models: &[&ShownModel]) -> Vec<String> {
    let short: Vec<String> = models.iter().map(|model| model.name()).collect();
    let is_known = |name: &String| short.iter().filter(|other| *other == name).count() == 1;
    let all = short.iter().zip(models);
    all.map(|(name, model)| {
        let name = if is_known(name) { name.clone() } else { model.describe() };
        show_name(&name).into_owned()
    })
    .collect()
}

impl ShownModel {
    /// Returns the measured times of the drawn models.
    fn measure_marks(&self, make_mark: fn(f64, &MeasuredTime) -> Mark) -> Vec<Mark> {
        let mut marks = Vec::new();
        let Ok(()) = self.visit_times(|time| {
            if self.has_model_of(&time) {
                marks.push(make_mark(time.size.main() as f64, &time));
            }
            Ok::<_, Infallible>(())
        });
        marks
    }

    /// Returns `true` if a time was measured where a model is shown: for a surface, at the width of a section.
    fn has_model_of(&self, time: &MeasuredTime) -> bool {
        self.keys.iter().any(|key| match *key {
            ModelKey::Fit(_) => true,
            ModelKey::N(width) => matches!(time.size, TimedSize::Blocks { n, .. } if n == width),
        })
    }

    /// Returns even steps from 0 to 5 % beyond the largest size, and all sizes: curves may have corners there.
    /// Ascending.
    fn curve_places(&self) -> Vec<f64> {
        let mut sizes: Vec<u64> = self.sizes().collect();
        let Ok(()) = self.visit_times(|time| {
            sizes.push(time.size.main());
            Ok::<_, Infallible>(())
        });
        let end = 1.05 * sizes.iter().copied().max().unwrap_or(1) as f64;
        let mut places: Vec<f64> = (0..=PLACES)
            .map(|i| end * f64::from(i) / f64::from(PLACES))
            .chain(sizes.into_iter().map(|d| d as f64))
            .collect();
        places.sort_unstable_by(f64::total_cmp);
        places.dedup();
        places
    }
}

fn speed_mark(x: f64, time: &MeasuredTime) -> Mark {
    let units = time.size.units() as f64;
    Mark::of_speed(x, units, time.t_s, time.ci_s)
}

fn time_mark(x: f64, time: &MeasuredTime) -> Mark {
    Mark { x, y: time.t_s, low: (time.t_s - time.ci_s).max(0.0), high: time.t_s + time.ci_s }
}

/// Returns the character and the colour of a model of one device.
fn curve_style(index: usize, key: ModelKey) -> (char, &'static str) {
    const SYMBOLS: [char; 7] = ['*', '+', '~', '.', 'x', '#', '-'];
    match key {
        ModelKey::Fit(Fit::Cpm) => ('-', color::GREY),
        ModelKey::Fit(Fit::PiecewiseSpeed) => ('*', color::BLUE),
        ModelKey::Fit(Fit::PiecewiseTime) => ('+', color::GREEN),
        ModelKey::Fit(Fit::Akima) => ('~', color::VERMILION),
        ModelKey::Fit(Fit::RawPiecewise) => ('.', color::PURPLE),
        ModelKey::N(_) => (SYMBOLS[index % SYMBOLS.len()], color::of_series(index)),
    }
}
