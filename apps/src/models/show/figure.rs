//! Measured times and models as plots.

use std::convert::Infallible;

use isochron_hierarchy::model::Fit;
use isochron_hierarchy::printable::show_name;
use isochron_plot::{Curve, Mark, Plot, color};

use super::{MeasuredTime, ModelKey, NamedModel, ShownModel, TimedSize};

/// Places at which a curve is evaluated, besides the measured sizes.
const PLACES: u32 = 400;

impl ShownModel {
    /// Makes the plot of speed against size, and of time against size if asked for.
    pub(super) fn plots(&self, with_time: bool) -> Vec<Plot> {
        if self.keys.is_empty() {
            return Vec::new();
        }
        let mut plots = vec![self.make_plot("speed, units/s", NamedModel::speed, speed_mark)];
        if with_time {
            plots.push(self.make_plot("time, s", NamedModel::time_s, time_mark));
        }
        plots
    }

    fn make_plot(
        &self,
        y_name: &'static str,
        value: fn(&NamedModel, f64) -> f64,
        make_mark: fn(f64, &MeasuredTime) -> Mark,
    ) -> Plot {
        let places = self.curve_places();
        let mut curves = Vec::new();
        for (index, &key) in self.keys.iter().enumerate() {
            let (symbol, color, dashed) = curve_style(index, key);
            let model = self.make_model(key);
            curves.push(Curve {
                name: key.name(),
                symbol,
                color,
                dashed,
                points: places.iter().map(|&x| (x, value(&model, x))).collect(),
            });
        }
        // A constant matters least.
        curves.sort_by_key(|curve| curve.name == Fit::Cpm.to_string());
        let mut marks = Vec::new();
        let Ok(()) = self.visit_times(|time| {
            if self.has_model_of(&time) {
                marks.push(make_mark(time.size.main() as f64, &time));
            }
            Ok::<_, Infallible>(())
        });
        Plot {
            title: show_name(&self.describe()).into_owned(),
            x_name: self.labels.axis,
            y_name,
            curves,
            marks,
        }
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
    Mark {
        x,
        y: time.t_s,
        low: (time.t_s - time.ci_s).max(0.0),
        high: time.t_s + time.ci_s,
    }
}

/// Returns character, colour and whether the line is interrupted: those of fits without restricted shape are.
///
/// From the eighth section on the characters repeat and the lines are interrupted.
fn curve_style(index: usize, key: ModelKey) -> (char, &'static str, bool) {
    const SECTIONS: [(char, &str); 7] = [
        ('*', color::BLUE),
        ('+', color::GREEN),
        ('~', color::VERMILION),
        ('.', color::PURPLE),
        ('x', color::ORANGE),
        ('#', color::SKY),
        ('-', color::GREY),
    ];
    match key {
        ModelKey::Fit(Fit::Cpm) => ('-', color::GREY, false),
        ModelKey::Fit(Fit::PiecewiseSpeed) => ('*', color::BLUE, false),
        ModelKey::Fit(Fit::PiecewiseTime) => ('+', color::GREEN, false),
        ModelKey::Fit(Fit::Akima) => ('~', color::VERMILION, true),
        ModelKey::Fit(Fit::RawPiecewise) => ('.', color::PURPLE, true),
        ModelKey::N(_) => {
            let (symbol, color) = SECTIONS[index % SECTIONS.len()];
            (symbol, color, index >= SECTIONS.len())
        }
    }
}
