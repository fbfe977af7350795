//! A plot in characters.

use super::{Axis, Plot};

/// Characters of the plot's area.
const WIDTH: usize = 72;
const HEIGHT: usize = 20;

/// What a measurement looks like.
const MARK: char = 'o';

/// The plot in lines that end in a newline, with its legend. Where curves lie on each other the first
/// is seen, and a measurement before all of them.
pub fn terminal(plot: &Plot) -> String {
    let (x, y) = plot.axes();
    let mut canvas = Canvas::new();
    for curve in plot.curves.iter().rev() {
        for pair in curve.points.windows(2) {
            let [from, to] = [pair[0], pair[1]].map(|point| place(&x, &y, point));
            canvas.line(from, to, curve.symbol);
        }
    }
    for mark in &plot.marks {
        let (column, row) = place(&x, &y, (mark.x, mark.y));
        canvas.cells[row][column] = MARK;
    }
    let mut text = format!("{}\n{}\n", plot.title, y.title(plot.y_name));
    text += &canvas.framed(&x, &y);
    text += &format!("{:>1$}\n", x.title(plot.x_name), MARGIN + 1 + WIDTH);
    let curves = plot.curves.iter();
    let names = curves.map(|curve| format!("{} {}", curve.symbol, curve.name));
    let names: Vec<String> = std::iter::once(format!("{MARK} measured"))
        .chain(names)
        .collect();
    text + &format!("{}\n", names.join("   "))
}

/// Characters to the left of the plot's area.
const MARGIN: usize = 8;

struct Canvas {
    /// From top to bottom.
    cells: Vec<Vec<char>>,
}

/// Column and row of a point.
fn place(x: &Axis, y: &Axis, point: (f64, f64)) -> (usize, usize) {
    let across = |part: f64, cells: usize| (part * (cells - 1) as f64).round() as usize;
    (
        across(x.part(point.0), WIDTH),
        HEIGHT - 1 - across(y.part(point.1), HEIGHT),
    )
}

impl Canvas {
    fn new() -> Self {
        Self {
            cells: vec![vec![' '; WIDTH]; HEIGHT],
        }
    }

    fn line(&mut self, from: (usize, usize), to: (usize, usize), symbol: char) {
        let steps = from.0.abs_diff(to.0).max(from.1.abs_diff(to.1)).max(1);
        let between = |a: usize, b: usize, step: usize| (a * (steps - step) + b * step) / steps;
        for step in 0..=steps {
            let (column, row) = (between(from.0, to.0, step), between(from.1, to.1, step));
            self.cells[row][column] = symbol;
        }
    }

    /// The plot's area with its axes.
    fn framed(&self, x: &Axis, y: &Axis) -> String {
        let mut beside = vec![String::new(); HEIGHT];
        for (value, text) in y.numbers() {
            beside[place(x, y, (0.0, value)).1] = text;
        }
        let mut lines = String::new();
        for (row, label) in self.cells.iter().zip(&beside) {
            let joint = if label.is_empty() { '│' } else { '┤' };
            let row: String = row.iter().collect();
            lines += format!("{label:>MARGIN$}{joint}{row}").trim_end();
            lines.push('\n');
        }
        let mut rule = vec!['─'; WIDTH];
        // A number ends at its place and must not reach the one before.
        let mut below = String::new();
        for (value, text) in x.numbers() {
            let column = place(x, y, (value, 0.0)).0;
            rule[column] = '┬';
            let end = MARGIN + 2 + column;
            let used = below.chars().count();
            if end > used + text.chars().count() {
                below += &format!("{text:>0$}", end - used);
            }
        }
        let rule: String = rule.into_iter().collect();
        lines + &format!("{:>MARGIN$}└{rule}\n{below}\n", "")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::{Curve, Mark};

    #[test]
    fn a_rising_line_goes_from_corner_to_corner() {
        let curve = |symbol, y| Curve {
            name: "line".to_owned(),
            symbol,
            color: "#000",
            dashed: false,
            points: vec![(0.0, 0.0), (10.0, y)],
        };
        let plot = Plot {
            title: "title".to_owned(),
            x_name: "size",
            y_name: "speed",
            curves: vec![curve('*', 10.0), curve('+', 10.0)],
            marks: vec![Mark {
                x: 10.0,
                y: 5.0,
                low: 5.0,
                high: 5.0,
            }],
        };
        let text = terminal(&plot);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..2], ["title", "speed"]);
        assert!(
            lines[2].starts_with("      10┤") && lines[2].ends_with('*'),
            "{text}"
        );
        assert!(lines[1 + HEIGHT].starts_with("       0┤*"), "{text}");
        assert_eq!(
            text.matches('o').count(),
            2,
            "a measurement and the legend: {text}"
        );
        assert_eq!(text.matches('+').count(), 1, "covered: {text}");
        assert!(text.ends_with("o measured   * line   + line\n"), "{text}");
        let widest = lines.iter().map(|line| line.chars().count()).max();
        assert!(widest <= Some(MARGIN + 2 + WIDTH), "{text}");
    }
}
