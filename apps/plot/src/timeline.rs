//! Bars in lanes over time.

use crate::svg::{Anchor, Svg, SvgRect};

const WIDTH: f64 = 1000.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 46.0;
const BOTTOM: f64 = 40.0;

/// Pixels between the bars of neighbouring lanes.
const GAP: f64 = 6.0;

/// Bars in lanes over time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Timeline {
    /// The lanes from top to bottom.
    pub lanes: Vec<Lane>,
    /// The bars, in the order in which they are drawn.
    pub bars: Vec<LaneBar>,
    /// Times in seconds that have a line and a text.
    pub ticks: Vec<(f64, String)>,
    /// The text below.
    pub x_title: String,
    /// Colours with their meaning.
    pub legend: Vec<(&'static str, &'static str)>,
    /// Pixels for the names of the lanes.
    pub left: f64,
}

/// A lane of a timeline.
#[derive(Debug, Clone, PartialEq)]
pub struct Lane {
    /// The name to its left; empty for none.
    pub name: String,
    /// Its height in pixels.
    pub height: f64,
}

/// Something that took from one time to another, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LaneBar {
    /// The index of its lane.
    pub lane: usize,
    /// Its beginning.
    pub from_s: f64,
    /// Its end.
    pub to_s: f64,
    /// Its colour.
    pub color: &'static str,
}

impl Timeline {
    /// Draws the timeline as an SVG document, from the beginning of the first bar to the end of the last one.
    pub fn draw(&self) -> String {
        let mut tops = vec![TOP];
        for lane in &self.lanes {
            tops.push(tops[tops.len() - 1] + lane.height);
        }
        let bottom = tops[self.lanes.len()];
        let mut svg = Svg::new(WIDTH, bottom + BOTTOM, 13);
        self.draw_legend(&mut svg);
        for (time_s, text) in &self.ticks {
            let x = self.x(*time_s);
            svg.grid_line((x, TOP), (x, bottom));
            svg.text((x, bottom + 18.0), Anchor::Middle, text);
        }
        svg.text((WIDTH / 2.0, bottom + 34.0), Anchor::Middle, &self.x_title);
        for (lane, top) in self.lanes.iter().zip(&tops) {
            let middle = top + (lane.height - GAP) / 2.0 + 4.0;
            svg.text((self.left - 8.0, middle), Anchor::End, &lane.name);
        }
        for bar in &self.bars {
            let x = self.x(bar.from_s);
            let rect = SvgRect {
                x,
                y: tops[bar.lane],
                // A very short bar is still seen.
                width: (self.x(bar.to_s) - x).max(0.5),
                height: self.lanes[bar.lane].height - GAP,
            };
            svg.rect(rect, bar.color);
        }
        svg.finish()
    }

    /// Returns the first and the last second, `(0, 0)` without bars.
    pub fn range_s(&self) -> (f64, f64) {
        let starts = self.bars.iter().map(|bar| bar.from_s).reduce(f64::min);
        let ends = self.bars.iter().map(|bar| bar.to_s).reduce(f64::max);
        (starts.unwrap_or(0.0), ends.unwrap_or(0.0))
    }

    fn x(&self, time_s: f64) -> f64 {
        let (first_s, last_s) = self.range_s();
        let length_s = (last_s - first_s).max(1e-9);
        self.left + (time_s - first_s) / length_s * (WIDTH - self.left - RIGHT)
    }

    fn draw_legend(&self, svg: &mut Svg) {
        let mut left = self.left;
        for (color, meaning) in &self.legend {
            let sample = SvgRect { x: left, y: 14.0, width: 12.0, height: 12.0 };
            svg.rect(sample, color);
            svg.text((left + 18.0, 25.0), Anchor::Start, meaning);
            left += 18.0 + svg.measure(meaning) + 24.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_lie_in_their_lanes_from_the_first_time_to_the_last() {
        let bar = LaneBar { lane: 1, from_s: 5.0, to_s: 7.0, color: "#123456" };
        let timeline = Timeline {
            lanes: ["first", ""].map(|name| Lane { name: name.to_owned(), height: 30.0 }).into(),
            bars: vec![bar, LaneBar { from_s: 6.0, to_s: 9.0, ..bar }],
            left: 80.0,
            ..Timeline::default()
        };
        let svg = timeline.draw();
        assert!(
            svg.contains(
                "<rect x=\"80.00\" y=\"76.00\" width=\"450.00\" height=\"24.00\" fill=\"#123456\"/>"
            ),
            "{svg}"
        );
        assert!(svg.contains(">first<"), "{svg}");
        assert!(!Timeline::default().draw().contains("NaN"));
    }
}
