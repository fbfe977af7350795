//! A plot as a Scalable Vector Graphics document.

use std::fmt::Write as _;

use super::{Axis, Curve, Plot};

/// Pixels of the area inside the axes.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 320.0;

/// Pixels to the left of, above, to the right of and below that area.
const LEFT: f64 = 80.0;
const TOP: f64 = 40.0;
const RIGHT: f64 = 180.0;
const BOTTOM: f64 = 60.0;

/// The plots below each other, as a document.
pub fn svg(plots: &[Plot]) -> String {
    let (width, height) = (LEFT + WIDTH + RIGHT, TOP + HEIGHT + BOTTOM);
    let all = height * plots.len() as f64;
    let mut text = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{all}" viewBox="0 0 {width} {all}" font-family="sans-serif" font-size="13">
<rect width="{width}" height="{all}" fill="white"/>
"#
    );
    for (index, plot) in plots.iter().enumerate() {
        let y = TOP + height * index as f64;
        text += &element(
            &format!(r#"g transform="translate({LEFT} {y})""#),
            &draw(plot),
        );
    }
    text + "</svg>\n"
}

fn draw(plot: &Plot) -> String {
    let (x, y) = plot.axes();
    let at = |(px, py): (f64, f64)| (x.part(px) * WIDTH, HEIGHT - y.part(py) * HEIGHT);
    let mut text = frame(plot, &x, &y);
    for (index, curve) in plot.curves.iter().enumerate() {
        let mut line = String::new();
        for &point in &curve.points {
            let (px, py) = at(point);
            let _ = write!(line, "{px:.2},{py:.2} ");
        }
        let style = style(curve);
        text += &format!("<polyline points=\"{}\" {style}/>\n", line.trim_end());
        text += &legend(index, curve.name, &format!("<line x2=\"24\" {style}/>"));
    }
    for mark in &plot.marks {
        let (px, py) = at((mark.x, mark.y));
        let [low, high] = [mark.low, mark.high].map(|end| at((mark.x, end)).1);
        text += &format!(
            "<path d=\"M{px:.2} {low:.2}V{high:.2}M{:.2} {low:.2}h6M{:.2} {high:.2}h6\" stroke=\"black\"/>\n",
            px - 3.0,
            px - 3.0,
        );
        text += &circle(px, py);
    }
    text + &legend(plot.curves.len(), "measured", &circle(12.0, 0.0))
}

/// Title, axes, numbers and the lines of the grid.
fn frame(plot: &Plot, x: &Axis, y: &Axis) -> String {
    let mut text = words(WIDTH / 2.0, -14.0, "middle", &plot.title);
    for (value, number) in x.numbers() {
        let px = x.part(value) * WIDTH;
        text += &format!("<path d=\"M{px:.2} 0V{HEIGHT}\" stroke=\"#ddd\"/>\n");
        text += &words(px, HEIGHT + 18.0, "middle", &number);
    }
    for (value, number) in y.numbers() {
        let py = HEIGHT - y.part(value) * HEIGHT;
        text += &format!("<path d=\"M0 {py:.2}H{WIDTH}\" stroke=\"#ddd\"/>\n");
        text += &words(-8.0, py + 4.0, "end", &number);
    }
    text += &words(WIDTH / 2.0, HEIGHT + 40.0, "middle", &x.title(plot.x_name));
    let turned = format!(
        "g transform=\"translate(-60 {}) rotate(-90)\"",
        HEIGHT / 2.0
    );
    text += &element(&turned, &words(0.0, 0.0, "middle", &y.title(plot.y_name)));
    text + &format!("<path d=\"M0 0V{HEIGHT}H{WIDTH}\" fill=\"none\" stroke=\"black\"/>\n")
}

fn style(curve: &Curve) -> String {
    let dashes = if curve.dashed {
        " stroke-dasharray=\"7 4\""
    } else {
        ""
    };
    format!(
        "fill=\"none\" stroke-width=\"1.8\" stroke=\"{}\"{dashes}",
        curve.color
    )
}

fn circle(x: f64, y: f64) -> String {
    format!("<circle cx=\"{x:.2}\" cy=\"{y:.2}\" r=\"3\" fill=\"black\"/>\n")
}

/// A line of the legend.
fn legend(index: usize, name: &str, sample: &str) -> String {
    let place = format!(
        "g transform=\"translate({} {})\"",
        WIDTH + 16.0,
        10 + 20 * index
    );
    element(
        &place,
        &(sample.to_owned() + &words(32.0, 4.0, "start", name)),
    )
}

/// A line of text; `anchor` is `start`, `middle` or `end`: what of it lies at `(x, y)`.
pub fn words(x: f64, y: f64, anchor: &str, text: &str) -> String {
    let text = escaped(text);
    format!("<text x=\"{x:.2}\" y=\"{y:.2}\" text-anchor=\"{anchor}\">{text}</text>\n")
}

/// An element of which `start` is the name and the attributes.
fn element(start: &str, content: &str) -> String {
    let name = start.split(' ').next().unwrap_or(start);
    format!("<{start}>\n{content}</{name}>\n")
}

/// Text that cannot be taken for markup, without characters that no document may hold.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            _ if character.is_control() => escaped.push('\u{fffd}'),
            _ => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::Mark;

    #[test]
    fn every_curve_and_measurement_is_drawn_and_names_are_no_markup() {
        let curve = |dashed| Curve {
            name: "fit",
            symbol: '*',
            color: "#123456",
            dashed,
            points: vec![(0.0, 0.0), (5.0, 10.0), (10.0, 10.0)],
        };
        let plot = || Plot {
            title: "a<b>&\"c\"\u{1}".to_owned(),
            x_name: "size",
            y_name: "speed",
            curves: vec![curve(false), curve(true)],
            marks: vec![Mark {
                x: 5.0,
                y: 5.0,
                low: 2.5,
                high: f64::INFINITY,
            }],
        };
        let text = svg(&[plot(), plot()]);
        assert_eq!(text.matches("<polyline").count(), 4);
        assert_eq!(text.matches("<circle").count(), 4, "one each in the legend");
        assert!(
            text.contains("points=\"0.00,320.00 320.00,0.00 640.00,0.00\""),
            "{text}"
        );
        assert!(
            text.contains("M320.00 240.00V0.00"),
            "the interval ends at the edge: {text}"
        );
        assert!(
            text.contains("a&lt;b&gt;&amp;&quot;c&quot;\u{fffd}"),
            "{text}"
        );
        for name in ["g", "text", "svg"] {
            let opened = text.matches(&format!("<{name} ")).count();
            let closed = text.matches(&format!("</{name}>")).count();
            assert_eq!(opened, closed, "{name}");
        }
    }
}
