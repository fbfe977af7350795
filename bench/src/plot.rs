//! Plots as SVG.

use std::fmt::Write as _;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 500.0;
const LEFT: f64 = 70.0;
/// Room for the names.
const RIGHT: f64 = 170.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 55.0;

/// Told apart by most eyes: the palette of Okabe and Ito, without its yellow.
pub const COLOURS: [&str; 7] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000",
];

/// A line through points of positive coordinates, ascending in `x`.
pub struct Line {
    /// What stands beside it.
    pub name: String,
    /// The points.
    pub points: Vec<(f64, f64)>,
}

/// A plot of `lines`, both axes logarithmic, as an SVG document. The names must be free of markup. Without any
/// point there are axes only.
pub fn log_log(title: &str, x_title: &str, y_title: &str, lines: &[Line]) -> String {
    let points = || lines.iter().flat_map(|line| &line.points);
    let x = Scale::new(points().map(|point| point.0), LEFT, WIDTH - RIGHT);
    let y = Scale::new(points().map(|point| point.1), HEIGHT - BOTTOM, TOP);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n"
    );
    let middle = f64::midpoint(LEFT, WIDTH - RIGHT);
    text(&mut svg, middle, 24.0, "middle", title);
    text(&mut svg, middle, HEIGHT - 12.0, "middle", x_title);
    text(&mut svg, 8.0, TOP - 14.0, "start", y_title);
    for decade in x.decades() {
        let at = x.at(10_f64.powi(decade));
        grid_line(&mut svg, (at, TOP), (at, HEIGHT - BOTTOM));
        text(
            &mut svg,
            at,
            HEIGHT - BOTTOM + 18.0,
            "middle",
            &tick(decade),
        );
    }
    for decade in y.decades() {
        let at = y.at(10_f64.powi(decade));
        grid_line(&mut svg, (LEFT, at), (WIDTH - RIGHT, at));
        text(&mut svg, LEFT - 8.0, at + 4.0, "end", &tick(decade));
    }
    for (i, line) in lines.iter().enumerate() {
        let placed: Vec<(f64, f64)> = line.points.iter().map(|p| (x.at(p.0), y.at(p.1))).collect();
        draw(&mut svg, i, &line.name, &placed);
    }
    svg + "</svg>\n"
}

/// Whole decades, drawn from one place to another.
struct Scale {
    low: i32,
    high: i32,
    from: f64,
    to: f64,
}

impl Scale {
    fn new(values: impl Iterator<Item = f64> + Clone, from: f64, to: f64) -> Self {
        let least = values.clone().fold(f64::INFINITY, f64::min);
        let most = values.fold(0.0, f64::max);
        let (least, most) = if least <= most {
            (least, most)
        } else {
            (1.0, 1.0)
        };
        let low = least.log10().floor() as i32;
        Self {
            low,
            high: (most.log10().ceil() as i32).max(low + 1),
            from,
            to,
        }
    }

    fn decades(&self) -> impl Iterator<Item = i32> + use<> {
        self.low..=self.high
    }

    fn at(&self, value: f64) -> f64 {
        let part = (value.log10() - f64::from(self.low)) / f64::from(self.high - self.low);
        self.from + part * (self.to - self.from)
    }
}

/// A power of ten as people write it.
fn tick(decade: i32) -> String {
    match decade {
        -3..=5 => format!("{}", 10_f64.powi(decade)),
        _ => format!("1e{decade}"),
    }
}

/// One line with its points, and its name beside the last one of the list.
fn draw(svg: &mut String, index: usize, name: &str, placed: &[(f64, f64)]) {
    let colour = COLOURS[index % COLOURS.len()];
    let corners: Vec<String> = placed
        .iter()
        .map(|(x, y)| format!("{x:.1},{y:.1}"))
        .collect();
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(
        svg,
        "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"{}\"/>",
        corners.join(" ")
    );
    for (x, y) in placed {
        let _ = writeln!(
            svg,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{colour}\"/>"
        );
    }
    let (x, y) = (WIDTH - RIGHT + 16.0, TOP + 12.0 + 22.0 * index as f64);
    let _ = writeln!(
        svg,
        "<circle cx=\"{x}\" cy=\"{}\" r=\"5\" fill=\"{colour}\"/>",
        y - 4.5
    );
    text(svg, x + 12.0, y, "start", name);
}

pub fn grid_line(svg: &mut String, from: (f64, f64), to: (f64, f64)) {
    let _ = writeln!(
        svg,
        "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"#ddd\"/>",
        from.0, from.1, to.0, to.1
    );
}

pub fn text(svg: &mut String, x: f64, y: f64, anchor: &str, words: &str) {
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_lie_where_their_logarithm_does() {
        let scale = Scale::new([0.02, 5.0].into_iter(), 300.0, 0.0);
        assert_eq!(scale.decades().collect::<Vec<_>>(), [-2, -1, 0, 1]);
        assert!((scale.at(0.1) - 200.0).abs() < 1e-9);
        let none = Scale::new(std::iter::empty(), 0.0, 1.0);
        assert_eq!(none.decades().collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn every_point_and_name_is_drawn() {
        let line = |name: &str, points: &[(f64, f64)]| Line {
            name: name.to_owned(),
            points: points.to_vec(),
        };
        let lines = [
            line("first", &[(1.0, 2.0), (10.0, 30.0)]),
            line("second", &[(5.0, 0.1)]),
        ];
        let svg = log_log("title", "x", "y", &lines);
        assert_eq!(svg.matches("r=\"3.5\"").count(), 3);
        assert!(svg.contains(">first<") && svg.contains(">second<"));
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
        assert!(!svg.contains("NaN"));
    }
}
