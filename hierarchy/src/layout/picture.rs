//! A tiling as text.

use super::{Layout, Rect};

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

/// Draws `layout` at most `max_width` characters wide, in its proportions as far as that goes.
pub(super) fn draw(layout: &Layout, max_width: usize) -> String {
    if layout.rows() == 0 || layout.cols() == 0 {
        return format!("(empty: {}×{})\n", layout.rows(), layout.cols());
    }
    let mut canvas = Canvas::new(layout, max_width.max(8) - 1);
    let rects = || {
        layout
            .rects()
            .iter()
            .enumerate()
            .filter(|(_, rect)| !rect.is_empty())
    };
    rects().for_each(|(_, rect)| canvas.outline(rect));
    let mut lines = canvas.lines();
    rects().for_each(|(node, rect)| canvas.label(&mut lines, node, rect));
    lines
        .iter()
        .map(|line| format!("{}\n", line.iter().collect::<String>()))
        .collect()
}

/// The lines of the picture: which of the four directions meet at each character.
struct Canvas<'a> {
    layout: &'a Layout,
    /// Characters from the first to the last line, downwards and to the right.
    height: usize,
    width: usize,
    joints: Vec<usize>,
}

/// A rectangle's corners on the canvas.
struct Corners {
    top: usize,
    bottom: usize,
    left: usize,
    right: usize,
}

impl<'a> Canvas<'a> {
    fn new(layout: &'a Layout, max_width: usize) -> Self {
        let ratio = layout.rows() as f64 / layout.cols() as f64 / ASPECT;
        let height = (max_width as f64 * ratio)
            .round()
            .clamp(2.0, max_width as f64);
        let width = (height / ratio).round().clamp(2.0, max_width as f64);
        let (height, width) = (height as usize, width as usize);
        Self {
            layout,
            height,
            width,
            joints: vec![0; (height + 1) * (width + 1)],
        }
    }

    fn corners(&self, rect: &Rect) -> Corners {
        let place = |x: u64, of: u64, onto: usize| super::scale(x, of, onto as u64) as usize;
        let (rows, cols) = (self.layout.rows(), self.layout.cols());
        Corners {
            top: place(rect.row, rows, self.height),
            bottom: place(rect.row + rect.rows, rows, self.height),
            left: place(rect.col, cols, self.width),
            right: place(rect.col + rect.cols, cols, self.width),
        }
    }

    fn outline(&mut self, rect: &Rect) {
        let Corners {
            top,
            bottom,
            left,
            right,
        } = self.corners(rect);
        let stride = self.width + 1;
        for y in [top, bottom] {
            for x in left..right {
                self.joints[y * stride + x] |= RIGHT;
                self.joints[y * stride + x + 1] |= LEFT;
            }
        }
        for x in [left, right] {
            for y in top..bottom {
                self.joints[y * stride + x] |= DOWN;
                self.joints[(y + 1) * stride + x] |= UP;
            }
        }
    }

    fn lines(&self) -> Vec<Vec<char>> {
        let line = |joints: &[usize]| joints.iter().map(|&joint| LINES[joint]).collect();
        self.joints.chunks(self.width + 1).map(line).collect()
    }

    /// Writes the node's number, and its size below where both fit, into the middle of its rectangle.
    fn label(&self, lines: &mut [Vec<char>], node: usize, rect: &Rect) {
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
        let size = format!("{}×{}", rect.rows, rect.cols);
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
