//! Plots of functions and measurements on linear axes.

use crate::area::{Area, Titles};
use crate::axis::LinearAxis;
use crate::svg::{Stroke, Svg};

/// Pixels around the area inside the axes.
const LEFT: f64 = 80.0;
const TOP: f64 = 40.0;
const RIGHT: f64 = 180.0;
const BOTTOM: f64 = 60.0;

/// Pixels of that area.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 320.0;

/// A plot with both axes from 0.
pub struct Plot {
    /// The text above it.
    pub title: String,
    /// The quantity to the right.
    pub x_name: &'static str,
    /// The quantity upwards.
    pub y_name: &'static str,
    /// Functions, the most important first.
    pub curves: Vec<Curve>,
    /// Measurements.
    pub marks: Vec<Mark>,
}

/// A function.
pub struct Curve {
    /// Its name in the legend.
    pub name: String,
    /// Its character in a terminal.
    pub symbol: char,
    /// Its colour in SVG.
    pub color: &'static str,
    /// `true` for an interrupted line in SVG.
    pub dashed: bool,
    /// `(x, y)`, ascending in `x`, joined by straight lines.
    pub points: Vec<(f64, f64)>,
}

/// A measurement.
pub struct Mark {
    /// Its place to the right.
    pub x: f64,
    /// Its value.
    pub y: f64,
    /// The lower end of its confidence interval.
    pub low: f64,
    /// The upper end of its confidence interval, which may be at infinity.
    pub high: f64,
}

impl Plot {
    /// Returns the horizontal axis and the vertical one.
    pub(crate) fn axes(&self) -> (LinearAxis, LinearAxis) {
        let points = self.curves.iter().flat_map(|curve| &curve.points).copied();
        let all = points.chain(self.marks.iter().map(|mark| (mark.x, mark.y)));
        let (x, y) = all.fold((0.0_f64, 0.0_f64), |most, point| {
            (most.0.max(point.0), most.1.max(point.1))
        });
        // A very wide interval must not make everything else small.
        let ends = self.marks.iter().map(|mark| mark.high);
        let end = ends.filter(|&high| high <= 1.5 * y).fold(y, f64::max);
        (LinearAxis::to(x), LinearAxis::to(end))
    }

    fn draw(&self, svg: &mut Svg, area: &Area) {
        let (x, y) = self.axes();
        let titles = Titles {
            above: &self.title,
            x: &x.title(self.x_name),
            y: &y.title(self.y_name),
        };
        area.draw_frame(svg, &titles, &ticks(&x), &ticks(&y));
        let scale = Scale { area, x, y };
        for (index, curve) in self.curves.iter().enumerate() {
            let stroke = curve.stroke();
            let points: Vec<_> = curve.points.iter().map(|&p| scale.place(p)).collect();
            svg.polyline(&points, &stroke);
            let (x, y) = area.draw_legend_name(svg, index, &curve.name);
            svg.polyline(&[(x - 12.0, y), (x + 12.0, y)], &stroke);
        }
        for mark in &self.marks {
            let (x, y) = scale.place((mark.x, mark.y));
            let [low, high] = [mark.low, mark.high].map(|end| scale.place((mark.x, end)).1);
            svg.whisker(x, (low, high), 6.0);
            svg.circle((x, y), 3.0, "black");
        }
        let middle = area.draw_legend_name(svg, self.curves.len(), "measured");
        svg.circle(middle, 3.0, "black");
    }
}

impl Curve {
    fn stroke(&self) -> Stroke {
        Stroke {
            color: self.color,
            width: 1.8,
            dashed: self.dashed,
        }
    }
}

/// An area with its axes.
struct Scale<'a> {
    area: &'a Area,
    x: LinearAxis,
    y: LinearAxis,
}

impl Scale<'_> {
    fn place(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let fractions = (self.x.fraction(x), self.y.fraction(y));
        self.area.place(fractions)
    }
}

fn ticks(axis: &LinearAxis) -> Vec<(f64, String)> {
    let numbers = axis.numbers().into_iter();
    numbers
        .map(|(value, text)| (axis.fraction(value), text))
        .collect()
}

/// Draws the plots below each other, as an SVG document.
#[must_use]
pub fn draw_plots(plots: &[Plot]) -> String {
    let (width, height) = (LEFT + WIDTH + RIGHT, TOP + HEIGHT + BOTTOM);
    let mut svg = Svg::new(width, height * plots.len() as f64, 13);
    for (index, plot) in plots.iter().enumerate() {
        let area = Area {
            left: LEFT,
            top: TOP + height * index as f64,
            width: WIDTH,
            height: HEIGHT,
        };
        plot.draw(&mut svg, &area);
    }
    svg.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(dashed: bool) -> Curve {
        Curve {
            name: "fit".to_owned(),
            symbol: '*',
            color: "#123456",
            dashed,
            points: vec![(0.0, 0.0), (5.0, 10.0), (10.0, 10.0)],
        }
    }

    fn plot() -> Plot {
        Plot {
            title: "a<b>".to_owned(),
            x_name: "size",
            y_name: "speed",
            curves: vec![curve(false), curve(true)],
            marks: vec![Mark {
                x: 5.0,
                y: 5.0,
                low: 2.5,
                high: f64::INFINITY,
            }],
        }
    }

    #[test]
    fn every_curve_and_measurement_is_drawn() {
        let text = draw_plots(&[plot(), plot()]);
        let corners = "points=\"80.00,360.00 400.00,40.00 720.00,40.00\"";
        assert_eq!(text.matches(corners).count(), 2, "{text}");
        assert_eq!(text.matches("stroke-dasharray").count(), 4);
        assert_eq!(text.matches("<circle").count(), 4, "one each in the legend");
        assert!(
            text.contains("M400.00 280.00V40.00"),
            "the interval ends at the edge: {text}"
        );
        assert!(text.contains("a&lt;b&gt;"), "{text}");
    }
}
