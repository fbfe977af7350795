//! Groups of bars.

use crate::area::Area;
use crate::axis::LinearAxis;
use crate::color;
use crate::svg::{Anchor, Svg, SvgRect};

/// Size of a panel and of the area of its bars, in pixels.
const SIZE: (f64, f64) = (1000.0, 230.0);
const AREA: Area = Area { left: 60.0, top: 34.0, width: 770.0, height: 168.0 };

/// A bar with the interval that is drawn over it.
pub struct Bar {
    /// The index of its name.
    pub series: usize,
    /// Its height; without a finite one it is left out.
    pub height: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

/// Groups of bars next to each other.
pub struct BarPanel {
    /// The text above it.
    pub title: String,
    /// The name of each group, and its bars.
    pub groups: Vec<(String, Vec<Bar>)>,
}

/// Draws panels below each other on one scale from 0, as an SVG document. `names` are those of the series.
pub fn draw_bars(names: &[String], panels: &[BarPanel]) -> String {
    let mut svg = Svg::new(SIZE.0, SIZE.1 * panels.len() as f64, 13);
    let ends = panels
        .iter()
        .flat_map(|panel| &panel.groups)
        .flat_map(|(_, bars)| bars)
        .map(|bar| bar.high);
    let axis = LinearAxis::to(ends.filter(|end| end.is_finite()).fold(0.0, f64::max));
    for (index, panel) in panels.iter().enumerate() {
        let area = AREA.move_down(SIZE.1 * index as f64);
        panel.draw(&mut svg, &area, &axis);
    }
    for (index, name) in names.iter().enumerate() {
        let (x, y) = AREA.draw_legend_name(&mut svg, index, name);
        let sample = SvgRect { x: x - 6.0, y: y - 6.0, width: 12.0, height: 12.0 };
        svg.rect(sample, color::of_series(index));
    }
    svg.finish()
}

impl BarPanel {
    fn draw(&self, svg: &mut Svg, area: &Area, axis: &LinearAxis) {
        let title = (area.left, area.top - 14.0);
        svg.text(title, Anchor::Start, &axis.title(&self.title));
        area.draw_heights(svg, &axis.ticks());
        let room = area.width / self.groups.len().max(1) as f64;
        for (index, (name, bars)) in self.groups.iter().enumerate() {
            let left = area.left + room * index as f64;
            let middle = (left + room / 2.0, area.bottom() + 18.0);
            svg.text(middle, Anchor::Middle, name);
            let width = 0.84 * room / bars.len().max(1) as f64;
            for (index, bar) in bars.iter().enumerate() {
                let x = left + 0.08 * room + width * index as f64;
                bar.draw(svg, x, width, area, axis);
            }
        }
    }
}

impl Bar {
    /// Draws the bar into `width` pixels from `x` on.
    fn draw(&self, svg: &mut Svg, x: f64, width: f64, area: &Area, axis: &LinearAxis) {
        if !self.height.is_finite() {
            return;
        }
        let [top, low, high] =
            [self.height, self.low, self.high].map(|value| area.y_at(axis.fraction(value)));
        let bar = SvgRect { x, y: top, width: width * 0.9, height: area.bottom() - top };
        svg.rect(bar, color::of_series(self.series));
        svg.whisker(x + width * 0.45, low, high, 0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(series: usize, height: f64) -> Bar {
        Bar { series, height, low: height - 1.0, high: height + 1.0 }
    }

    #[test]
    fn every_bar_and_name_is_drawn_within_the_scale() {
        let panel = BarPanel {
            title: "2 ranks".to_owned(),
            groups: vec![
                ("first".to_owned(), vec![bar(0, 119.0), bar(1, 60.0)]),
                ("second".to_owned(), vec![bar(1, f64::NAN)]),
            ],
        };
        let svg = draw_bars(&["a".to_owned(), "b".to_owned()], &[panel]);
        assert_eq!(svg.matches("<path ").count(), 2, "a bar without a value is left out");
        assert!(svg.contains(">120<") && svg.contains(">first<") && svg.contains(">b<"));
        assert!(draw_bars(&[], &[]).ends_with("</svg>\n"));
    }
}
