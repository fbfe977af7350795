//! Plots of functions and measurements, in a terminal or as SVG.

mod axis;
mod svg;
mod terminal;

pub use svg::{svg, words};
pub use terminal::terminal;

use axis::Axis;

/// A plot whose axes both begin at 0.
pub struct Plot {
    /// What stands above it.
    pub title: String,
    /// What goes to the right.
    pub x_name: &'static str,
    /// What goes upwards.
    pub y_name: &'static str,
    /// Functions, the most important first.
    pub curves: Vec<Curve>,
    /// Measurements.
    pub marks: Vec<Mark>,
}

/// A function.
pub struct Curve {
    /// Its name in the legend.
    pub name: &'static str,
    /// Its character in a terminal.
    pub symbol: char,
    /// Its colour in SVG.
    pub color: &'static str,
    /// Whether its line is interrupted in SVG.
    pub dashed: bool,
    /// `(x, y)`, ascending in `x`, joined by straight lines.
    pub points: Vec<(f64, f64)>,
}

/// A measurement.
pub struct Mark {
    pub x: f64,
    pub y: f64,
    /// Where its confidence interval begins and ends, which may be at infinity.
    pub low: f64,
    pub high: f64,
}

impl Plot {
    /// The horizontal axis and the vertical one.
    fn axes(&self) -> (Axis, Axis) {
        let points = || self.curves.iter().flat_map(|curve| &curve.points);
        let marks = || self.marks.iter();
        let largest = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max);
        let x = largest(&mut points().map(|point| point.0).chain(marks().map(|m| m.x)));
        let y = largest(&mut points().map(|point| point.1).chain(marks().map(|m| m.y)));
        // An interval that says next to nothing must not make everything else small.
        let bars = largest(
            &mut marks()
                .map(|mark| mark.high)
                .filter(|&high| high <= 1.5 * y),
        );
        (Axis::to(x), Axis::to(y.max(bars)))
    }
}
