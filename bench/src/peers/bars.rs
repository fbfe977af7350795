//! Groups of bars as SVG.

use std::fmt::Write as _;

use crate::plot::{COLOURS, grid_line, text};
use crate::statistics::Spread;

const WIDTH: f64 = 1000.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 170.0;
const PANEL: f64 = 230.0;
/// Room above and below the bars of a panel.
const TOP: f64 = 34.0;
const BOTTOM: f64 = 28.0;

/// A bar.
pub struct Bar {
    /// The index of its name.
    pub series: usize,
    /// Its height, with the range that is drawn over it.
    pub height: Spread,
}

/// Groups beside each other.
pub struct Panel {
    pub title: String,
    /// A name, and its bars.
    pub groups: Vec<(String, Vec<Bar>)>,
}

/// `panels` below each other, on one scale from zero. The texts must be free of markup.
pub fn bars(names: &[String], panels: &[Panel]) -> String {
    let height = PANEL * panels.len() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" \
         font-size=\"13\">\n<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"white\"/>\n"
    );
    let all = || panels.iter().flat_map(|panel| &panel.groups);
    let most = all().flat_map(|group| &group.1).map(|bar| bar.height.max);
    let step = step(most.filter(|value| value.is_finite()).fold(0.0, f64::max));
    for (idx, panel) in panels.iter().enumerate() {
        draw_panel(&mut svg, panel, PANEL * idx as f64, step);
    }
    for (idx, name) in names.iter().enumerate() {
        let (x, y) = (WIDTH - RIGHT + 12.0, TOP + 10.0 + 20.0 * idx as f64);
        rect(
            &mut svg,
            (x, y - 10.0),
            (12.0, 12.0),
            COLOURS[idx % COLOURS.len()],
        );
        text(&mut svg, x + 18.0, y, "start", name);
    }
    svg + "</svg>\n"
}

/// A round distance of lines, at most six of which reach `most`.
fn step(most: f64) -> f64 {
    let steps = [
        0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 25.0, 50.0, 100.0, 200.0, 500.0, 1000.0,
    ];
    let fits = |step: &f64| most <= 6.0 * step;
    steps.into_iter().find(fits).unwrap_or(most / 5.0)
}

fn draw_panel(svg: &mut String, panel: &Panel, top: f64, step: f64) {
    let (floor, ceiling) = (top + PANEL - BOTTOM, top + TOP);
    let y = |value: f64| floor - value / (6.0 * step) * (floor - ceiling);
    text(svg, LEFT, top + 20.0, "start", &panel.title);
    for line in 0..=6 {
        let value = f64::from(line) * step;
        grid_line(svg, (LEFT, y(value)), (WIDTH - RIGHT, y(value)));
        // A tenth has no exact sum.
        let label = (10.0 * value).round() / 10.0;
        text(svg, LEFT - 6.0, y(value) + 4.0, "end", &label.to_string());
    }
    let room = (WIDTH - RIGHT - LEFT) / panel.groups.len().max(1) as f64;
    for (idx, (name, bars)) in panel.groups.iter().enumerate() {
        let left = LEFT + room * idx as f64;
        text(svg, left + room / 2.0, floor + 18.0, "middle", name);
        let width = 0.84 * room / bars.len().max(1) as f64;
        for (place, bar) in bars.iter().enumerate() {
            let x = left + 0.08 * room + width * place as f64;
            let Spread { median, min, max } = bar.height;
            let colour = COLOURS[bar.series % COLOURS.len()];
            rect(
                svg,
                (x, y(median)),
                (width * 0.9, floor - y(median)),
                colour,
            );
            whisker(svg, x + width * 0.45, y(min), y(max));
        }
    }
}

pub fn rect(svg: &mut String, at: (f64, f64), size: (f64, f64), colour: &str) {
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(
        svg,
        "<rect x=\"{:.2}\" y=\"{:.2}\" width=\"{:.2}\" height=\"{:.2}\" fill=\"{colour}\"/>",
        at.0, at.1, size.0, size.1
    );
}

fn whisker(svg: &mut String, x: f64, low: f64, high: f64) {
    let _ = writeln!(
        svg,
        "<line x1=\"{x:.2}\" y1=\"{low:.2}\" x2=\"{x:.2}\" y2=\"{high:.2}\" stroke=\"#444\"/>"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bar_and_name_is_drawn_within_the_scale() {
        let bar = |series, median| Bar {
            series,
            height: Spread {
                median,
                min: median - 1.0,
                max: median + 1.0,
            },
        };
        let panel = Panel {
            title: "2 ranks".to_owned(),
            groups: vec![
                ("first".to_owned(), vec![bar(0, 119.0), bar(1, 60.0)]),
                ("second".to_owned(), vec![bar(1, 10.0)]),
            ],
        };
        assert_eq!((step(120.0), step(121.0)), (20.0, 25.0));
        let svg = bars(&["a".to_owned(), "b".to_owned()], &[panel]);
        assert_eq!(svg.matches("stroke=\"#444\"").count(), 3);
        assert!(svg.contains(">first<") && svg.contains(">b<") && !svg.contains("NaN"));
    }
}
