//! A Scalable Vector Graphics document.

use std::fmt::Write as _;

use isochron_hierarchy::printable;

use crate::text_width::measure_text;

/// Pixels between the text at an edge and the edge.
const MARGIN: f64 = 8.0;

/// Fits the width of a window, and turns light and dark round, with the same hues, for readers who prefer dark.
const STYLE: &str = ":root{color-scheme:light dark;max-width:100%;height:auto}\
     @media(prefers-color-scheme:dark){:root{filter:invert(.93) hue-rotate(180deg)}}";

/// An SVG document under construction, on a white background, or a dark one for readers who prefer it.
///
/// Coordinates and lengths are pixels, `x` to the right and `y` downwards; pairs are `(x, y)`.
/// Text and titles may hold any characters. A document is widened by what its text needs.
#[derive(Debug, Clone)]
pub struct Svg {
    elements: String,
    height: f64,
    font_size: u32,
    /// The left edge and the right edge.
    left: f64,
    right: f64,
}

/// A rectangle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SvgRect {
    /// The left edge.
    pub x: f64,
    /// The upper edge.
    pub y: f64,
    /// Its width.
    pub width: f64,
    /// Its height.
    pub height: f64,
}

/// The point of a line of text that lies at the given position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// Its start.
    Start,
    /// Its middle.
    Middle,
    /// Its end.
    End,
}

impl Anchor {
    fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Middle => "middle",
            Self::End => "end",
        }
    }
}

impl Svg {
    /// Begins a document of this size, with text of `font_size` pixels.
    pub fn new(width: f64, height: f64, font_size: u32) -> Self {
        Self { elements: String::new(), height, font_size, left: 0.0, right: width }
    }

    /// Ends the document and returns it.
    pub fn finish(self) -> String {
        let Self { elements, height, font_size, left, right } = self;
        let width = right - left;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
             viewBox=\"{left:.0} 0 {width:.0} {height:.0}\" font-family=\"sans-serif\" font-size=\"{font_size}\">\n\
             <style>{STYLE}</style>\n\
             <rect x=\"{left:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" fill=\"white\"/>\n\
             {elements}</svg>\n"
        )
    }

    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.elements, "{element}");
    }

    /// Adds a line of text.
    pub fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        let width = self.measure(text);
        let start = match anchor {
            Anchor::Start => x,
            Anchor::Middle => x - width / 2.0,
            Anchor::End => x - width,
        };
        self.left = self.left.min((start - MARGIN).floor());
        self.right = self.right.max((start + width + MARGIN).ceil());
        let (anchor, text) = (anchor.name(), escape(text));
        self.add(format_args!(
            "<text x=\"{x:.2}\" y=\"{y:.2}\" text-anchor=\"{anchor}\">{text}</text>"
        ));
    }

    /// Returns the width of a line of text.
    pub fn measure(&self, text: &str) -> f64 {
        measure_text(&printable::escape(text), self.font_size)
    }

    /// Adds a line of text that runs upwards, its middle at the given position.
    pub fn upward_text(&mut self, (x, y): (f64, f64), text: &str) {
        let text = escape(text);
        self.add(format_args!(
            "<text transform=\"translate({x:.2} {y:.2}) rotate(-90)\" text-anchor=\"middle\">{text}</text>"
        ));
    }

    /// Adds a straight line.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), color: &str) {
        self.add(format_args!(
            "<line x1=\"{:.2}\" y1=\"{:.2}\" x2=\"{:.2}\" y2=\"{:.2}\" stroke=\"{color}\"/>",
            from.0, from.1, to.0, to.1
        ));
    }

    /// Adds a line of a grid.
    pub fn grid_line(&mut self, from: (f64, f64), to: (f64, f64)) {
        self.line(from, to, "#ddd");
    }

    /// Adds the vertical line of an interval at `x`, with ends of width `cap`.
    pub fn whisker(&mut self, x: f64, low: f64, high: f64, cap: f64) {
        let left = x - cap / 2.0;
        self.add(format_args!(
            "<path d=\"M{x:.2} {low:.2}V{high:.2}M{left:.2} {low:.2}h{cap}M{left:.2} {high:.2}h{cap}\" stroke=\"#333\"/>"
        ));
    }

    /// Adds a line through points, with dashes as `stroke-dasharray` has them; without any it is solid.
    pub fn polyline(&mut self, points: &[(f64, f64)], color: &str, width: f64, dashes: &str) {
        let points = points.iter().map(|(x, y)| format!("{x:.2},{y:.2}"));
        let points = points.collect::<Vec<_>>().join(" ");
        let dashes = match dashes {
            "" => String::new(),
            lengths => format!(" stroke-dasharray=\"{lengths}\""),
        };
        self.add(format_args!(
            "<polyline points=\"{points}\" fill=\"none\" stroke-width=\"{width}\" stroke=\"{color}\"{dashes}/>"
        ));
    }

    /// Adds a disc.
    pub fn circle(&mut self, (x, y): (f64, f64), radius: f64, fill: &str) {
        self.add(format_args!(
            "<circle cx=\"{x:.2}\" cy=\"{y:.2}\" r=\"{radius}\" fill=\"{fill}\"/>"
        ));
    }

    /// Adds a disc, a square, a triangle or a diamond; the shapes repeat.
    pub fn shape(&mut self, (x, y): (f64, f64), shape: usize, fill: &str) {
        let path = match shape % 4 {
            0 => return self.circle((x, y), 3.5, fill),
            1 => "m-3.2-3.2h6.4v6.4h-6.4z",
            2 => "m0-4.6l4.4 7.6h-8.8z",
            _ => "m0-4.8l4.8 4.8l-4.8 4.8l-4.8-4.8z",
        };
        self.add(format_args!("<path d=\"M{x:.2} {y:.2}{path}\" fill=\"{fill}\"/>"));
    }

    /// Adds a filled rectangle without an outline.
    pub fn rect(&mut self, rect: SvgRect, fill: &str) {
        self.add(format_args!(
            "<rect x=\"{:.2}\" y=\"{:.2}\" width=\"{:.2}\" height=\"{:.2}\" fill=\"{fill}\"/>",
            rect.x, rect.y, rect.width, rect.height
        ));
    }
}

/// Returns text that cannot be taken for markup, without characters that no document may hold.
fn escape(text: &str) -> String {
    let text = printable::escape(text).replace('&', "&amp;").replace('"', "&quot;");
    text.replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_as_wide_as_its_text() {
        let mut svg = Svg::new(100.0, 10.0, 13);
        svg.text((90.0, 5.0), Anchor::Middle, "i");
        assert!(svg.clone().finish().contains("viewBox=\"0 0 100 10\""));
        let long = "a long name in a legend";
        let width = svg.measure(long);
        svg.text((90.0, 5.0), Anchor::Start, long);
        let right = (90.0 + width + 8.0).ceil();
        assert!(right > 200.0);
        let wide = format!("viewBox=\"0 0 {right:.0} 10\"");
        assert!(svg.clone().finish().contains(&wide), "{svg:?}");
        svg.text((5.0, 5.0), Anchor::End, long);
        let left = (5.0 - width - 8.0).floor();
        let both = format!("viewBox=\"{left:.0} 0 {:.0} 10\"", right - left);
        assert!(svg.clone().finish().contains(&both), "{svg:?}");
    }

    #[test]
    fn text_is_no_markup() {
        let mut svg = Svg::new(10.0, 10.0, 13);
        svg.text((1.0, 2.0), Anchor::End, "a<b>&\"c\"\u{1}");
        svg.upward_text((1.0, 2.0), "<");
        let text = svg.finish();
        assert!(text.contains(">a&lt;b&gt;&amp;&quot;c&quot;\\u{1}</text>"), "{text}");
        assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"));
        assert_eq!(text.matches("<text ").count(), 2);
    }
}
