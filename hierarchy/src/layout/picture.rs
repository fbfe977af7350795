//! A tiling as text.

use std::collections::BTreeSet;

use super::Rect;

const UP: usize = 1;
const DOWN: usize = 2;
const LEFT: usize = 4;
const RIGHT: usize = 8;

/// The line character for each combination of the four directions above.
const LINES: [char; 16] = [
    ' ', '╵', '╷', '│', '╴', '┘', '┐', '┤', '╶', '└', '┌', '├', '─', '┴', '┬', '┼',
];

/// A character is about twice as high as it is wide.
const ASPECT: f64 = 2.0;

/// Draws the zones of `rows × cols` blocks at most `max_width` characters wide, in their proportions as
/// far as that goes.
pub(super) fn draw(rows: u64, cols: u64, zones: &[&[Rect]], max_width: usize) -> String {
    if rows == 0 || cols == 0 {
        return format!("(empty: {rows}×{cols})\n");
    }
    let mut canvas = Canvas::new(rows, cols, max_width.max(8) - 1);
    // A zone too thin for the canvas draws no line where its rectangles meet, and at the edge of the
    // matrix no neighbour draws it instead.
    let whole = Rect {
        rows,
        cols,
        ..Rect::default()
    };
    canvas.outline(&[whole]);
    for zone in zones {
        canvas.outline(zone);
    }
    let mut lines = canvas.lines();
    for (node, zone) in zones.iter().enumerate() {
        canvas.label(&mut lines, node, zone);
    }
    lines
        .iter()
        .map(|line| format!("{}\n", line.iter().collect::<String>()))
        .collect()
}

/// The lines of the picture: which of the four directions meet at each character.
struct Canvas {
    rows: u64,
    cols: u64,
    /// Characters from the first to the last line, downwards and to the right.
    height: usize,
    width: usize,
    joints: Vec<usize>,
}

/// A line from character `(y, x)` to its neighbour, to the right if level and else downwards.
type Segment = (usize, usize, bool);

/// A rectangle's corners on the canvas.
struct Corners {
    top: usize,
    bottom: usize,
    left: usize,
    right: usize,
}

impl Canvas {
    fn new(rows: u64, cols: u64, max_width: usize) -> Self {
        let ratio = rows as f64 / cols as f64 / ASPECT;
        let height = (max_width as f64 * ratio)
            .round()
            .clamp(2.0, max_width as f64);
        let width = (height / ratio).round().clamp(2.0, max_width as f64);
        let (height, width) = (height as usize, width as usize);
        Self {
            rows,
            cols,
            height,
            width,
            joints: vec![0; (height + 1) * (width + 1)],
        }
    }

    fn corners(&self, rect: &Rect) -> Corners {
        let place = |x: u64, of: u64, onto: usize| super::scale(x, of, onto as u64) as usize;
        let (rows, cols) = (self.rows, self.cols);
        Corners {
            top: place(rect.row, rows, self.height),
            bottom: place(rect.row + rect.rows, rows, self.height),
            left: place(rect.col, cols, self.width),
            right: place(rect.col + rect.cols, cols, self.width),
        }
    }

    /// Draws around `zone`, not between its rectangles.
    fn outline(&mut self, zone: &[Rect]) {
        let sides: Vec<BTreeSet<Segment>> = zone
            .iter()
            .filter(|rect| !rect.is_empty())
            .map(|rect| self.sides(rect))
            .collect();
        for (i, own) in sides.iter().enumerate() {
            let shared = |segment: &&Segment| {
                let others = sides.iter().enumerate().filter(|(other, _)| *other != i);
                others
                    .map(|(_, sides)| sides)
                    .any(|sides| sides.contains(segment))
            };
            own.iter()
                .filter(|side| !shared(side))
                .for_each(|&side| self.draw_segment(side));
        }
    }

    /// The sides of `rect`, one character a segment.
    fn sides(&self, rect: &Rect) -> BTreeSet<Segment> {
        let Corners {
            top,
            bottom,
            left,
            right,
        } = self.corners(rect);
        let level = [top, bottom]
            .into_iter()
            .flat_map(|y| (left..right).map(move |x| (y, x, true)));
        let upright = [left, right]
            .into_iter()
            .flat_map(|x| (top..bottom).map(move |y| (y, x, false)));
        level.chain(upright).collect()
    }

    fn draw_segment(&mut self, (y, x, level): Segment) {
        let stride = self.width + 1;
        let (end, there, back) = match level {
            true => (y * stride + x + 1, RIGHT, LEFT),
            false => ((y + 1) * stride + x, DOWN, UP),
        };
        self.joints[y * stride + x] |= there;
        self.joints[end] |= back;
    }

    fn lines(&self) -> Vec<Vec<char>> {
        let line = |joints: &[usize]| joints.iter().map(|&joint| LINES[joint]).collect();
        self.joints.chunks(self.width + 1).map(line).collect()
    }

    /// Writes the node's number, and its size below where both fit, into the middle of its largest
    /// rectangle.
    fn label(&self, lines: &mut [Vec<char>], node: usize, zone: &[Rect]) {
        let full = || zone.iter().filter(|rect| !rect.is_empty());
        let Some(rect) = full().max_by_key(|rect| rect.area()) else {
            return;
        };
        let Corners {
            top,
            bottom,
            left,
            right,
        } = self.corners(rect);
        let (height, width) = (
            (bottom - top).saturating_sub(1),
            (right - left).saturating_sub(1),
        );
        let number = node.to_string();
        let sizes: Vec<String> = full().map(|r| format!("{}×{}", r.rows, r.cols)).collect();
        let size = sizes.join("+");
        let fits = |text: &String| text.chars().count() <= width;
        let texts = match height {
            0 => vec![],
            1 => vec![number],
            _ => vec![number, size],
        };
        let first = top + 1 + height.saturating_sub(texts.len()) / 2;
        for (y, text) in (first..).zip(texts.iter().take_while(|text| fits(text))) {
            let x = left + 1 + (width - text.chars().count()) / 2;
            lines[y].splice(x..x + text.chars().count(), text.chars());
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::layout::br;

    #[test]
    fn four_unlike_nodes() {
        let layout = br(&[4.0, 2.0, 1.0, 1.0], 16, 16).expect("areas");
        let expected = "\
┌───────────┬───────────┐
│     2     │           │
│    4×8    │           │
├───────────┤           │
│     3     │           │
│    4×8    │     0     │
├───────────┤   16×8    │
│           │           │
│     1     │           │
│    8×8    │           │
│           │           │
│           │           │
└───────────┴───────────┘
";
        assert_eq!(layout.picture(25), expected);
    }

    #[test]
    fn extreme_shapes_stay_within_the_width() {
        for (rows, cols) in [(1, 1000), (1000, 1), (1, 1), (7, 3)] {
            let layout = br(&[1.0, 0.0, 5.0, 2.0], rows, cols).expect("areas");
            for width in [0, 8, 9, 40] {
                let picture = layout.picture(width);
                assert!(
                    picture
                        .lines()
                        .all(|line| line.chars().count() <= width.max(8))
                );
            }
        }
        assert_eq!(
            br(&[1.0], 0, 5).expect("areas").picture(20),
            "(empty: 0×5)\n"
        );
    }
}
