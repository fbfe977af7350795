//! A plot in characters.

use isochron_hierarchy::printable::show_name;

use crate::axis::LinearAxis;
use crate::plots::Plot;

/// Characters of the area inside the axes.
const WIDTH: usize = 72;
const HEIGHT: usize = 20;

/// Characters to the left of that area.
const MARGIN: usize = 8;

/// The character of a measurement.
const MARK: char = 'o';

/// Draws a plot in lines that end in a newline, with its legend.
///
/// Where curves cover each other, the first one is seen; a measurement covers all of them.
pub fn draw_in_terminal(plot: &Plot) -> String {
    let (x, y) = plot.axes();
    let mut grid = CharGrid { x, y, cells: vec![vec![' '; WIDTH]; HEIGHT] };
    for curve in plot.curves.iter().rev() {
        for pair in curve.points.windows(2) {
            let [from, to] = [pair[0], pair[1]].map(|(x, y)| (grid.column_of(x), grid.row_of(y)));
            grid.draw_line(from, to, curve.symbol);
        }
    }
    for mark in plot.all_marks() {
        let (column, row) = (grid.column_of(mark.x), grid.row_of(mark.y));
        grid.cells[row][column] = MARK;
    }
    let mut text = format!("{}\n{}\n", show_name(&plot.title), y.title(plot.y_name));
    text += &grid.with_axes();
    text += &format!("{:>1$}\n", x.title(plot.x_name), MARGIN + 1 + WIDTH);
    let names =
        plot.curves.iter().map(|curve| format!("{} {}", curve.symbol, show_name(&curve.name)));
    let legend: Vec<String> = std::iter::once(format!("{MARK} measured")).chain(names).collect();
    text + &format!("{}\n", legend.join("   "))
}

/// The characters inside the axes.
struct CharGrid {
    x: LinearAxis,
    y: LinearAxis,
    /// Rows from top to bottom.
    cells: Vec<Vec<char>>,
}

impl CharGrid {
    /// Returns the column of an x value.
    fn column_of(&self, x: f64) -> usize {
        nearest_cell(self.x.fraction(x), WIDTH)
    }

    /// Returns the row of a y value.
    fn row_of(&self, y: f64) -> usize {
        HEIGHT - 1 - nearest_cell(self.y.fraction(y), HEIGHT)
    }

    /// Draws a line between two cells, each with its column and its row.
    fn draw_line(&mut self, from: (usize, usize), to: (usize, usize), symbol: char) {
        let steps = from.0.abs_diff(to.0).max(from.1.abs_diff(to.1)).max(1);
        for step in 0..=steps {
            let column = (from.0 * (steps - step) + to.0 * step) / steps;
            let row = (from.1 * (steps - step) + to.1 * step) / steps;
            self.cells[row][column] = symbol;
        }
    }

    /// Returns the characters with the axes around them.
    fn with_axes(&self) -> String {
        let mut labels = vec![String::new(); HEIGHT];
        for (value, text) in self.y.numbers() {
            labels[self.row_of(value)] = text;
        }
        let mut lines = String::new();
        for (row, label) in self.cells.iter().zip(&labels) {
            let joint = if label.is_empty() { '│' } else { '┤' };
            let row: String = row.iter().collect();
            lines += format!("{label:>MARGIN$}{joint}{row}").trim_end();
            lines.push('\n');
        }
        lines + &self.horizontal_axis()
    }

    fn horizontal_axis(&self) -> String {
        let mut rule = vec!['─'; WIDTH];
        // A number ends at its place and must not reach the one before.
        let mut below = String::new();
        for (value, text) in self.x.numbers() {
            let column = self.column_of(value);
            rule[column] = '┬';
            let end = MARGIN + 2 + column;
            let used = below.chars().count();
            if end > used + text.chars().count() {
                below += &format!("{text:>0$}", end - used);
            }
        }
        let rule: String = rule.into_iter().collect();
        format!("{:>MARGIN$}└{rule}\n{below}\n", "")
    }
}

fn nearest_cell(fraction: f64, cells: usize) -> usize {
    (fraction * (cells - 1) as f64).round() as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plots::{Curve, Mark};

    fn rising_line(symbol: char) -> Curve {
        Curve {
            name: "line".to_owned(),
            symbol,
            color: "#000",
            dashed: false,
            points: vec![(0.0, 0.0), (10.0, 10.0)],
            ..Curve::default()
        }
    }

    #[test]
    fn a_rising_line_goes_from_corner_to_corner() {
        let plot = Plot {
            title: "title".to_owned(),
            x_name: "size",
            y_name: "speed",
            curves: vec![rising_line('*'), rising_line('+')],
            marks: vec![Mark { x: 10.0, y: 5.0, low: 5.0, high: 5.0 }],
        };
        let text = draw_in_terminal(&plot);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..2], ["title", "speed"]);
        assert!(lines[2].starts_with("      10┤") && lines[2].ends_with('*'), "{text}");
        assert!(lines[1 + HEIGHT].starts_with("       0┤*"), "{text}");
        assert_eq!(text.matches('o').count(), 2, "a measurement and the legend: {text}");
        assert_eq!(text.matches('+').count(), 1, "covered: {text}");
        assert!(text.ends_with("o measured   * line   + line\n"), "{text}");
        let widest = lines.iter().map(|line| line.chars().count()).max();
        assert!(widest <= Some(MARGIN + 2 + WIDTH), "{text}");
    }
}
