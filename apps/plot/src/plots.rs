//! Plots of functions and measurements on linear axes.

use crate::area::Area;
use crate::axis::LinearAxis;
use crate::svg::Svg;

/// Size of a plot and of the area inside its axes, in pixels.
const SIZE: (f64, f64) = (900.0, 420.0);
const AREA: Area = Area {
    left: 80.0,
    top: 40.0,
    width: 640.0,
    height: 320.0,
};

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

impl Mark {
    /// Marks the speed of `work` done in `t_s ± ci_s` seconds, with the interval of the time as speeds.
    pub fn of_speed(x: f64, work: f64, t_s: f64, ci_s: f64) -> Self {
        Self {
            x,
            y: work / t_s,
            low: work / (t_s + ci_s),
            high: if t_s > ci_s {
                work / (t_s - ci_s)
            } else {
                f64::INFINITY
            },
        }
    }
}

impl Plot {
    /// Returns the horizontal axis and the vertical one.
    pub(crate) fn axes(&self) -> (LinearAxis, LinearAxis) {
        let all = self
            .curves
            .iter()
            .flat_map(|curve| &curve.points)
            .copied()
            .chain(self.marks.iter().map(|mark| (mark.x, mark.y)));
        let (x, y) = all.fold((0.0_f64, 0.0_f64), |most, point| {
            (most.0.max(point.0), most.1.max(point.1))
        });
        // A very wide interval must not make everything else small.
        let end = self
            .marks
            .iter()
            .map(|mark| mark.high)
            .filter(|&high| high <= 1.5 * y)
            .fold(y, f64::max);
        (LinearAxis::to(x), LinearAxis::to(end))
    }

    fn draw(&self, svg: &mut Svg, area: &Area) {
        let (x, y) = self.axes();
        let (x_title, y_title) = (x.title(self.x_name), y.title(self.y_name));
        let titles = [&*self.title, &x_title, &y_title];
        area.draw_frame(svg, titles, &x.ticks(), &y.ticks());
        let scale = Scale { area, x, y };
        for (index, curve) in self.curves.iter().enumerate() {
            let points: Vec<_> = curve
                .points
                .iter()
                .map(|&(x, y)| (scale.x_at(x), scale.y_at(y)))
                .collect();
            let (x, y) = area.draw_legend_name(svg, index, &curve.name);
            let sample = [(x - 12.0, y), (x + 12.0, y)];
            for line in [&points[..], &sample] {
                svg.polyline(line, curve.color, curve.dashed);
            }
        }
        for mark in &self.marks {
            let x = scale.x_at(mark.x);
            let [y, low, high] = [mark.y, mark.low, mark.high].map(|value| scale.y_at(value));
            svg.whisker(x, low, high, 6.0);
            svg.circle((x, y), 3.0, "black");
        }
        let middle = area.draw_legend_name(svg, self.curves.len(), "measured");
        svg.circle(middle, 3.0, "black");
    }
}

/// An area with its axes.
struct Scale<'a> {
    area: &'a Area,
    x: LinearAxis,
    y: LinearAxis,
}

impl Scale<'_> {
    /// Returns the horizontal pixel of an x value.
    fn x_at(&self, value: f64) -> f64 {
        self.area.x_at(self.x.fraction(value))
    }

    /// Returns the vertical pixel of a y value.
    fn y_at(&self, value: f64) -> f64 {
        self.area.y_at(self.y.fraction(value))
    }
}

/// Draws the plots below each other, as an SVG document.
pub fn draw_plots(plots: &[Plot]) -> String {
    let mut svg = Svg::new(SIZE.0, SIZE.1 * plots.len() as f64, 13);
    for (index, plot) in plots.iter().enumerate() {
        plot.draw(&mut svg, &AREA.move_down(SIZE.1 * index as f64));
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
