//! A matrix of values as coloured cells.

use crate::svg::{Anchor, Svg, SvgRect};

/// A matrix of values from 0 to 1 as coloured cells, the darker the lower, with a scale below.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HeatMap {
    /// The text above.
    pub title: String,
    /// Names of the rows, which the columns have too.
    pub names: Vec<String>,
    /// Name of the columns.
    pub x_title: String,
    /// The values by row; `None` leaves a cell blank.
    pub values: Vec<Vec<Option<f64>>>,
    /// The text beside the scale.
    pub unit: String,
}

const TOP: f64 = 64.0;
const LEFT: f64 = 150.0;
const MAP: f64 = 560.0;

/// The colours of the highest value and the lowest one, by red, green and blue.
const COLORS: [[f64; 3]; 2] = [[231.0, 241.0, 250.0], [8.0, 48.0, 107.0]];

impl HeatMap {
    /// Draws the map as an SVG document.
    pub fn draw(&self) -> String {
        let count = self.names.len().max(1) as f64;
        let side = (MAP / count).min(48.0);
        let bottom = TOP + count * side;
        let mut svg = Svg::new(LEFT + count * side + 20.0, bottom + 60.0, 13);
        svg.text((LEFT, 20.0), Anchor::Start, &self.title);
        svg.text((LEFT + count * side / 2.0, 40.0), Anchor::Middle, &self.x_title);
        // More names than fit are left out evenly.
        let step = (16.0 / side).ceil().max(1.0) as usize;
        for (number, name) in self.names.iter().enumerate().step_by(step) {
            let middle = (number as f64 + 0.5) * side;
            svg.text(
                (LEFT - 8.0, TOP + middle + 4.0),
                Anchor::End,
                &format!("{name}  {}", number + 1),
            );
            svg.text((LEFT + middle, TOP - 8.0), Anchor::Middle, &(number + 1).to_string());
        }
        for (row, values) in self.values.iter().enumerate() {
            for (column, value) in values.iter().enumerate() {
                if let Some(value) = value {
                    let rect = SvgRect {
                        x: LEFT + column as f64 * side,
                        y: TOP + row as f64 * side,
                        width: side - side.min(1.0),
                        height: side - side.min(1.0),
                    };
                    svg.rect(rect, &shade(*value));
                }
            }
        }
        for tenth in 0..=10 {
            let (value, x) = (f64::from(tenth) / 10.0, LEFT + 22.0 * f64::from(tenth));
            let rect = SvgRect { x, y: bottom + 16.0, width: 22.0, height: 12.0 };
            svg.rect(rect, &shade(value));
            if tenth % 5 == 0 {
                let text = format!("{:.0} %", 100.0 * value);
                svg.text((x + 11.0, bottom + 44.0), Anchor::Middle, &text);
            }
        }
        svg.text((LEFT + 11.0 * 22.0 + 10.0, bottom + 26.0), Anchor::Start, &self.unit);
        svg.finish()
    }
}

fn shade(value: f64) -> String {
    let [high, low] = COLORS;
    let value = value.clamp(0.0, 1.0);
    let mixed = [0, 1, 2].map(|part| low[part] + value * (high[part] - low[part]));
    format!("#{:02x}{:02x}{:02x}", mixed[0] as u8, mixed[1] as u8, mixed[2] as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lower_values_are_darker_and_unknown_ones_blank() {
        let map = HeatMap {
            names: ["a", "b"].map(str::to_owned).into(),
            values: vec![vec![None, Some(1.0)], vec![Some(0.0), None]],
            ..HeatMap::default()
        };
        let svg = map.draw();
        let cells = |color: &str| svg.matches(&format!("fill=\"{color}\"")).count();
        // Each once in the map and once in the scale.
        assert_eq!([cells("#e7f1fa"), cells("#08306b")], [2, 2]);
        assert!(svg.contains(">a  1<") && !HeatMap::default().draw().contains("NaN"));
    }
}
