//! Points and models as tables and as JSON.

use isochron_hierarchy::model::{Fit, Flag, Point, Reason, SpeedModel};
use serde::Serialize;

use super::PointsModels;
use crate::table::TextTable;

/// A points file as JSON.
#[derive(Serialize)]
pub struct PointsDocument {
    file: String,
    points: Vec<PointSpeed>,
    flags: Vec<Flag>,
    fits: Vec<FitDocument>,
}

/// A point with its speed in units per second.
#[derive(Serialize)]
struct PointSpeed {
    #[serde(flatten)]
    point: Point,
    speed: f64,
}

/// A model as JSON.
#[derive(Serialize)]
struct FitDocument {
    fit: Fit,
    at: Vec<SizeValue>,
}

/// The speed and the time of a model at a size.
#[derive(Serialize)]
struct SizeValue {
    d: u64,
    speed: f64,
    time_s: f64,
}

impl PointsDocument {
    /// Makes the document of a points file.
    pub fn new(models: &PointsModels) -> Self {
        let points = models.points.iter().map(|&point| PointSpeed {
            point,
            speed: point.speed(),
        });
        let fits = models.fits.iter().map(|(fit, model)| FitDocument {
            fit: *fit,
            at: SizeValue::list(&**model, &models.sizes),
        });
        Self {
            file: models.file.clone(),
            points: points.collect(),
            flags: models.restricted.flags(),
            fits: fits.collect(),
        }
    }
}

impl SizeValue {
    fn list(model: &dyn SpeedModel, sizes: &[u64]) -> Vec<Self> {
        sizes
            .iter()
            .map(|&d| Self {
                d,
                speed: model.speed(d as f64),
                time_s: model.time_s(d as f64),
            })
            .collect()
    }
}

/// Formats the points with their flags, and the values of the models.
pub fn format_text(models: &PointsModels) -> String {
    let flags = models.restricted.flags();
    let points = point_table(&models.points, &flags);
    let mut text = format!("{}\n{points}\n", models.file);
    for flag in &flags {
        text += &format!("{flag}\n");
    }
    if !flags.is_empty() {
        text.push('\n');
    }
    let speeds = value_table(models, |model, d| model.speed(d));
    let times = value_table(models, |model, d| model.time_s(d));
    text + &format!("speed, units/s\n{speeds}\ntime, s\n{times}")
}

fn point_table(points: &[Point], flags: &[Flag]) -> TextTable {
    let mut table = TextTable::new(0, &["d", "time s", "reps", "ci s", "units/s", "flag"]);
    for point in points {
        let flag = flags.iter().find(|flag| flag.d == point.d);
        let reason = flag.map_or("", |flag| match flag.reason {
            Reason::TooSlow => "too slow",
            Reason::TooFast => "too fast",
            Reason::OutOfShape => "out of shape",
        });
        table.add_row(vec![
            point.d.to_string(),
            six_digits(point.t_s),
            point.reps.to_string(),
            six_digits(point.ci_s),
            six_digits(point.speed()),
            reason.to_owned(),
        ]);
    }
    table
}

/// Makes a table with a column for each model.
fn value_table(models: &PointsModels, value: fn(&dyn SpeedModel, f64) -> f64) -> TextTable {
    let names = models.fits.iter().map(|(fit, _)| fit.name());
    let heading: Vec<&str> = std::iter::once("d").chain(names).collect();
    let mut table = TextTable::new(0, &heading);
    for &d in &models.sizes {
        let fits = models.fits.iter();
        let values = fits.map(|(_, model)| six_digits(value(&**model, d as f64)));
        table.add_row(std::iter::once(d.to_string()).chain(values).collect());
    }
    table
}

/// Formats a number with six digits.
pub fn six_digits(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let digits = value.abs().log10().floor();
    if (-5.0..9.0).contains(&digits) {
        let decimals = (5.0 - digits).max(0.0) as usize;
        format!("{value:.decimals$}")
    } else {
        format!("{value:.5e}")
    }
}

#[cfg(test)]
mod tests {
    use super::six_digits;

    #[test]
    fn numbers_have_six_digits() {
        assert_eq!(six_digits(0.0), "0");
        assert_eq!(six_digits(60000.0), "60000.0");
        assert_eq!(six_digits(12_345_678.0), "12345678");
        assert_eq!(six_digits(0.000016667), "0.0000166670");
        assert_eq!(six_digits(1.5e-9), "1.50000e-9");
        assert_eq!(six_digits(2e12), "2.00000e12");
    }
}
