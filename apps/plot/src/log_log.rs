//! Series of points on logarithmic axes.

use crate::area::Area;
use crate::axis::LogAxis;
use crate::color;
use crate::svg::Svg;

/// Size of the picture and of the area inside its axes, in pixels.
const SIZE: (f64, f64) = (900.0, 500.0);
const AREA: Area = Area { left: 80.0, top: 40.0, width: 630.0, height: 400.0 };

/// Named points, joined by straight lines.
pub struct PlotSeries {
    /// The name in the legend.
    pub name: String,
    /// `(x, y)`, positive, ascending in `x`.
    pub points: Vec<(f64, f64)>,
}

/// Draws series with both axes logarithmic, as an SVG document. Without a point there are axes only.
pub fn draw_log_log(title: &str, x_title: &str, y_title: &str, series: &[PlotSeries]) -> String {
    let points = series.iter().flat_map(|series| &series.points);
    let x = LogAxis::covering(points.clone().map(|point| point.0));
    let y = LogAxis::covering(points.map(|point| point.1));
    let titles = [title, x_title, y_title];
    let mut svg = Svg::new(SIZE.0, SIZE.1, 13);
    AREA.draw_frame(&mut svg, titles, &x.ticks(), &y.ticks());
    for (index, series) in series.iter().enumerate() {
        let color = color::of_series(index);
        let places: Vec<(f64, f64)> = series
            .points
            .iter()
            .map(|point| (AREA.x_at(x.fraction(point.0)), AREA.y_at(y.fraction(point.1))))
            .collect();
        svg.polyline(&places, color, 1.8, "");
        for &place in &places {
            svg.circle(place, 3.5, color);
        }
        let middle = AREA.draw_legend_name(&mut svg, index, &series.name);
        svg.circle(middle, 5.0, color);
    }
    svg.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_and_name_is_drawn() {
        let series = [
            PlotSeries { name: "first".to_owned(), points: vec![(1.0, 2.0), (10.0, 30.0)] },
            PlotSeries { name: "second".to_owned(), points: vec![(5.0, 0.1)] },
        ];
        let svg = draw_log_log("title", "x", "y", &series);
        assert_eq!(svg.matches("r=\"3.5\"").count(), 3);
        assert!(svg.contains(">first<") && svg.contains(">second<"));
        assert!(!svg.contains("NaN"));
        assert!(!draw_log_log("title", "x", "y", &[]).contains("NaN"));
    }
}
