//! Points and models as tables and as JSON.

use isochron_hierarchy::model::{Fit, Flag, Point, Reason, SpeedModel};
use serde::Serialize;

use super::Device;
use crate::table::Table;

/// A device as JSON.
#[derive(Serialize)]
pub struct Model {
    file: String,
    points: Vec<Measured>,
    flags: Vec<Flag>,
    fits: Vec<Fitted>,
}

#[derive(Serialize)]
struct Measured {
    #[serde(flatten)]
    point: Point,
    speed: f64,
}

#[derive(Serialize)]
struct Fitted {
    fit: Fit,
    at: Vec<Value>,
}

/// What a model says about a size.
#[derive(Serialize)]
struct Value {
    d: u64,
    speed: f64,
    time_s: f64,
}

impl Model {
    pub fn of(device: &Device) -> Self {
        let fitted = |(fit, model): &(Fit, Box<dyn SpeedModel>)| Fitted {
            fit: *fit,
            at: device.sizes.iter().map(|&d| value(&**model, d)).collect(),
        };
        let measured = |point: &Point| Measured {
            point: *point,
            speed: point.speed(),
        };
        Self {
            file: device.file.clone(),
            points: device.points.iter().map(measured).collect(),
            flags: device.measured.flags(),
            fits: device.fits.iter().map(fitted).collect(),
        }
    }
}

fn value(model: &dyn SpeedModel, d: u64) -> Value {
    Value {
        d,
        speed: model.speed(d as f64),
        time_s: model.time_s(d as f64),
    }
}

/// The points, what is wrong with them, and what the models say.
pub fn text(device: &Device) -> String {
    let flags = device.measured.flags();
    let mut text = format!("{}\n{}\n", device.file, points(&device.points, &flags));
    for flag in &flags {
        text += &format!("{flag}\n");
    }
    if !flags.is_empty() {
        text.push('\n');
    }
    let speeds = values(device, |value| value.speed);
    let times = values(device, |value| value.time_s);
    text + &format!("speed, units/s\n{speeds}\ntime, s\n{times}")
}

fn points(points: &[Point], flags: &[Flag]) -> Table {
    let mut table = Table::new(0, &["d", "time s", "reps", "ci s", "units/s", "flag"]);
    for point in points {
        let flag = flags.iter().find(|flag| flag.d == point.d);
        let flag = flag.map_or("", |flag| match flag.reason {
            Reason::TooSlow => "too slow",
            Reason::TooFast => "too fast",
            Reason::OutOfShape => "out of shape",
        });
        table.row(vec![
            point.d.to_string(),
            short(point.t_s),
            point.reps.to_string(),
            short(point.ci_s),
            short(point.speed()),
            flag.to_owned(),
        ]);
    }
    table
}

/// A column for each model.
fn values(device: &Device, number: impl Fn(Value) -> f64) -> Table {
    let names = device.fits.iter().map(|(fit, _)| fit.name());
    let heading: Vec<&str> = std::iter::once("d").chain(names).collect();
    let mut table = Table::new(0, &heading);
    for &d in &device.sizes {
        let numbers = device.fits.iter();
        let numbers = numbers.map(|(_, model)| short(number(value(&**model, d))));
        table.row(std::iter::once(d.to_string()).chain(numbers).collect());
    }
    table
}

/// Six digits.
pub fn short(value: f64) -> String {
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
    use super::short;

    #[test]
    fn numbers_have_six_digits() {
        assert_eq!(short(0.0), "0");
        assert_eq!(short(60000.0), "60000.0");
        assert_eq!(short(12_345_678.0), "12345678");
        assert_eq!(short(0.000016667), "0.0000166670");
        assert_eq!(short(1.5e-9), "1.50000e-9");
        assert_eq!(short(2e12), "2.00000e12");
    }
}
