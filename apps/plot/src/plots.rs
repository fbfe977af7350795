//! Plots of functions and measurements on linear axes.

use crate::area::Area;
use crate::axis::LinearAxis;
use crate::color;
use crate::svg::{Anchor, Svg};

/// Size of a plot without its legend and of the area inside its axes, in pixels. The legend is below: a narrow window shrinks
/// what is wide.
const SIZE: (f64, f64) = (640.0, 430.0);
const AREA: Area = Area { left: 80.0, top: 40.0, width: 540.0, height: 320.0 };

/// Height of a line of the legend, in pixels.
const LEGEND_LINE: f64 = 20.0;

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
#[derive(Default)]
pub struct Curve {
    /// Its name in the legend.
    pub name: String,
    /// Its character in a terminal.
    pub symbol: char,
    /// Its colour in SVG.
    pub color: &'static str,
    /// `true` for an interrupted line in SVG.
    pub dashed: bool,
    /// Pixels by which the line is wider than others in SVG, so that it is seen below them.
    pub extra_width: f64,
    /// `(x, y)`, ascending in `x`, joined by straight lines.
    pub points: Vec<(f64, f64)>,
    /// The least and the largest measured `x`: beyond them the line is dotted in SVG.
    pub measured: Option<(f64, f64)>,
    /// Its own measurements, in its colour.
    pub marks: Vec<Mark>,
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
            high: if t_s > ci_s { work / (t_s - ci_s) } else { f64::INFINITY },
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
            .chain(self.all_marks().map(|mark| (mark.x, mark.y)));
        let (x, y) =
            all.fold((0.0_f64, 0.0_f64), |most, point| (most.0.max(point.0), most.1.max(point.1)));
        // A very wide interval must not make everything else small.
        let end = self
            .all_marks()
            .map(|mark| mark.high)
            .filter(|&high| high <= 1.5 * y)
            .fold(y, f64::max);
        (LinearAxis::to(x), LinearAxis::to(end))
    }

    /// Returns the measurements of the plot and of its curves.
    pub(crate) fn all_marks(&self) -> impl Iterator<Item = &Mark> {
        let own = self.curves.iter().flat_map(|curve| &curve.marks);
        self.marks.iter().chain(own)
    }

    /// Returns the height with the legend, in pixels.
    fn height(&self) -> f64 {
        let entries = self.curves.len() + usize::from(!self.marks.is_empty());
        SIZE.1 + LEGEND_LINE * entries as f64
    }

    fn draw(&self, svg: &mut Svg, area: &Area) {
        let (x, y) = self.axes();
        let (x_title, y_title) = (x.title(self.x_name), y.title(self.y_name));
        let titles = [&*self.title, &x_title, &y_title];
        area.draw_frame(svg, titles, &x.ticks(), &y.ticks());
        let scale = Scale { area, x, y };
        for (index, curve) in self.curves.iter().enumerate() {
            let (x, y) = draw_legend_name(svg, area, index, &curve.name);
            curve.draw_line(svg, &[(x - 12.0, y), (x + 12.0, y)], curve.dashes());
            for (points, is_measured) in curve.split() {
                let points: Vec<_> =
                    points.iter().map(|&(x, y)| (scale.x_at(x), scale.y_at(y))).collect();
                let dashes = if is_measured { curve.dashes() } else { "2 4" };
                curve.draw_line(svg, &points, dashes);
            }
            // Colours repeat after these curves.
            let shape = index / color::N_SERIES;
            for mark in &curve.marks {
                scale.draw_mark(svg, mark, shape, curve.color);
            }
            if !curve.marks.is_empty() {
                svg.shape((x, y), shape, curve.color);
            }
        }
        for mark in &self.marks {
            scale.draw_mark(svg, mark, 0, "black");
        }
        if !self.marks.is_empty() {
            let middle = draw_legend_name(svg, area, self.curves.len(), "measured");
            svg.shape(middle, 0, "black");
        }
    }
}

/// Draws the name of entry `index` of the legend below; returns the middle of its sample, which is 24 pixels wide.
fn draw_legend_name(svg: &mut Svg, area: &Area, index: usize, name: &str) -> (f64, f64) {
    let (x, y) = (area.left, area.bottom() + 62.0 + LEGEND_LINE * index as f64);
    svg.text((x + 32.0, y + 4.0), Anchor::Start, name);
    (x + 12.0, y)
}

impl Curve {
    fn dashes(&self) -> &'static str {
        if self.dashed { "7 4" } else { "" }
    }

    fn draw_line(&self, svg: &mut Svg, points: &[(f64, f64)], dashes: &str) {
        svg.polyline(points, self.color, 1.8 + self.extra_width, dashes);
    }

    /// Returns the parts of the line, each with whether it was measured there.
    fn split(&self) -> Vec<(&[(f64, f64)], bool)> {
        let Some((low, high)) = self.measured else {
            return vec![(&self.points, true)];
        };
        let points = &self.points;
        let first = points.partition_point(|point| point.0 < low);
        let end = points.partition_point(|point| point.0 <= high).max(first);
        let parts = [
            (&points[..points.len().min(first + 1)], false),
            (&points[first..end], true),
            (&points[end.saturating_sub(1).max(first)..], false),
        ];
        parts.into_iter().filter(|part| part.0.len() > 1).collect()
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

    fn draw_mark(&self, svg: &mut Svg, mark: &Mark, shape: usize, color: &str) {
        let x = self.x_at(mark.x);
        let [y, low, high] = [mark.y, mark.low, mark.high].map(|value| self.y_at(value));
        svg.whisker(x, low, high, 6.0);
        svg.shape((x, y), shape, color);
    }

    /// Returns the vertical pixel of a y value.
    fn y_at(&self, value: f64) -> f64 {
        self.area.y_at(self.y.fraction(value))
    }
}

/// Draws the plots below each other, as an SVG document.
pub fn draw_plots(plots: &[Plot]) -> String {
    let mut svg = Svg::new(SIZE.0, plots.iter().map(Plot::height).sum(), 15);
    let mut top = 0.0;
    for plot in plots {
        plot.draw(&mut svg, &AREA.move_down(top));
        top += plot.height();
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
            ..Curve::default()
        }
    }

    fn plot() -> Plot {
        Plot {
            title: "a<b>".to_owned(),
            x_name: "size",
            y_name: "speed",
            curves: vec![curve(false), curve(true)],
            marks: vec![Mark { x: 5.0, y: 5.0, low: 2.5, high: f64::INFINITY }],
        }
    }

    #[test]
    fn every_curve_and_measurement_is_drawn() {
        let text = draw_plots(&[plot(), plot()]);
        let corners = "points=\"80.00,360.00 350.00,40.00 620.00,40.00\"";
        assert_eq!(text.matches(corners).count(), 2, "{text}");
        assert_eq!(text.matches("\"7 4\"").count(), 4);
        assert_eq!(text.matches("<circle").count(), 4, "one each in the legend");
        assert!(text.contains("M350.00 280.00V40.00"), "the interval ends at the edge: {text}");
        assert!(text.contains("a&lt;b&gt;"), "{text}");
    }

    #[test]
    fn twenty_four_curves_with_marks_differ() {
        let curves = (0..24).map(|index| Curve {
            name: format!("curve {index}"),
            color: color::of_series(index),
            marks: plot().marks,
            ..curve(false)
        });
        let plot = Plot { curves: curves.collect(), ..plot() };
        let svg = draw_plots(&[plot]);
        let looks = (0..24).map(|index| {
            let (_, entry) = svg.split_once(&format!(">curve {index}<")).unwrap();
            let words = entry.split("<text").next().unwrap().split_whitespace();
            // Colours and the ends of paths, without coordinates.
            let look = words.filter_map(|word| match word.find('m') {
                Some(at) => Some(&word[at..]),
                None => ["stroke=", "<circle"]
                    .iter()
                    .any(|start| word.starts_with(start))
                    .then_some(word),
            });
            look.collect::<Vec<_>>()
        });
        let looks: std::collections::BTreeSet<Vec<&str>> = looks.collect();
        assert_eq!(looks.len(), 24, "{looks:?}");
    }

    #[test]
    fn a_curve_is_dotted_where_nothing_was_measured() {
        let points: Vec<(f64, f64)> = (0..=10).map(|x| (f64::from(x), 1.0)).collect();
        for (low, high) in [(0, 10), (0, 4), (3, 7), (7, 7), (10, 10)] {
            let (low, high) = (f64::from(low), f64::from(high));
            let curve =
                Curve { points: points.clone(), measured: Some((low, high)), ..Curve::default() };
            let mut covered = 0.0;
            for (part, is_measured) in curve.split() {
                let (from, to) = (part[0].0, part[part.len() - 1].0);
                assert_eq!(from, covered, "{low} to {high}");
                assert_eq!(is_measured, from >= low && to <= high, "{low} to {high}");
                covered = to;
            }
            assert_eq!(covered, 10.0, "{low} to {high}");
        }
    }
}
