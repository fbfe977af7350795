//! Groups of bars.

use crate::axis::LinearAxis;
use crate::color;
use crate::svg::{Anchor, Svg};

/// Pixels of the picture's width, of its margins, and of a panel's height with its room above and below the bars.
const WIDTH: f64 = 1000.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 170.0;
const PANEL: f64 = 230.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 28.0;

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
#[must_use]
pub fn draw_bars(names: &[String], panels: &[BarPanel]) -> String {
    let mut svg = Svg::new(WIDTH, PANEL * panels.len() as f64, 13);
    let groups = panels.iter().flat_map(|panel| &panel.groups);
    let ends = groups.flat_map(|(_, bars)| bars).map(|bar| bar.high);
    let axis = LinearAxis::to(ends.filter(|end| end.is_finite()).fold(0.0, f64::max));
    for (index, panel) in panels.iter().enumerate() {
        panel.draw(&mut svg, PANEL * index as f64, &axis);
    }
    for (index, name) in names.iter().enumerate() {
        let (x, y) = (WIDTH - RIGHT + 12.0, TOP + 10.0 + 20.0 * index as f64);
        svg.rect((x, y - 10.0), (12.0, 12.0), color::of_series(index));
        svg.text((x + 18.0, y), Anchor::Start, name);
    }
    svg.finish()
}

/// The vertical scale of a panel.
struct Height<'a> {
    axis: &'a LinearAxis,
    floor: f64,
    ceiling: f64,
}

impl Height<'_> {
    fn y(&self, value: f64) -> f64 {
        self.floor - self.axis.fraction(value) * (self.floor - self.ceiling)
    }
}

impl BarPanel {
    fn draw(&self, svg: &mut Svg, top: f64, axis: &LinearAxis) {
        let height = Height {
            axis,
            floor: top + PANEL - BOTTOM,
            ceiling: top + TOP,
        };
        svg.text((LEFT, top + 20.0), Anchor::Start, &axis.title(&self.title));
        for (value, number) in axis.numbers() {
            let y = height.y(value);
            svg.grid_line((LEFT, y), (WIDTH - RIGHT, y));
            svg.text((LEFT - 6.0, y + 4.0), Anchor::End, &number);
        }
        let room = (WIDTH - RIGHT - LEFT) / self.groups.len().max(1) as f64;
        for (index, (name, bars)) in self.groups.iter().enumerate() {
            let left = LEFT + room * index as f64;
            let middle = (left + room / 2.0, height.floor + 18.0);
            svg.text(middle, Anchor::Middle, name);
            draw_group(svg, (left, room), bars, &height);
        }
    }
}

/// Draws the bars of a group into `room` pixels from `left` on.
fn draw_group(svg: &mut Svg, (left, room): (f64, f64), bars: &[Bar], height: &Height<'_>) {
    let width = 0.84 * room / bars.len().max(1) as f64;
    for (index, bar) in bars.iter().enumerate() {
        if !bar.height.is_finite() {
            continue;
        }
        let x = left + 0.08 * room + width * index as f64;
        let top = height.y(bar.height);
        let size = (width * 0.9, height.floor - top);
        svg.rect((x, top), size, color::of_series(bar.series));
        let ends = (height.y(bar.low), height.y(bar.high));
        svg.whisker(x + width * 0.45, ends, 0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(series: usize, height: f64) -> Bar {
        Bar {
            series,
            height,
            low: height - 1.0,
            high: height + 1.0,
        }
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
        assert_eq!(
            svg.matches("<path ").count(),
            2,
            "a bar without a value is left out"
        );
        assert!(svg.contains(">120<") && svg.contains(">first<") && svg.contains(">b<"));
        assert!(draw_bars(&[], &[]).ends_with("</svg>\n"));
    }
}
