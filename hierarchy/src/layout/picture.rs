//! A tiling as text.

use super::Rect;

const UP: usize = 1;
const DOWN: usize = 2;
const LEFT: usize = 4;
const RIGHT: usize = 8;

/// The line character for each combination of the four directions above.
const LINES: [char; 16] =
    [' ', '╵', '╷', '│', '╴', '┘', '┐', '┤', '╶', '└', '┌', '├', '─', '┴', '┬', '┼'];

/// A character is about twice as high as it is wide.
const ASPECT: f64 = 2.0;

/// Draws the rectangles of `rows × cols` blocks as nearly in proportion as characters allow. `max_height` and `max_width`
/// count characters from the first line to the last.
pub(super) fn draw_tiling(
    rows: u64,
    cols: u64,
    rects: &[Rect],
    max_height: usize,
    max_width: usize,
) -> String {
    if rows == 0 || cols == 0 {
        return format!("(empty: {rows}×{cols})\n");
    }
    let mut canvas = TilingCanvas::new(rows, cols, max_height, max_width);
    for rect in rects.iter().filter(|rect| !rect.is_empty()) {
        canvas.outline(rect);
    }
    let mut lines = canvas.to_lines();
    for (node, rect) in rects.iter().enumerate().filter(|(_, r)| !r.is_empty()) {
        canvas.label(&mut lines, node, rect);
    }
    lines.iter().map(|line| format!("{}\n", line.iter().collect::<String>())).collect()
}

/// The lines of the picture: the directions that meet at each character.
struct TilingCanvas {
    rows: u64,
    cols: u64,
    /// Characters from the first to the last line, downwards and to the right.
    height: usize,
    width: usize,
    joints: Vec<usize>,
}

impl TilingCanvas {
    fn new(rows: u64, cols: u64, max_height: usize, max_width: usize) -> Self {
        let (max_height, max_width) = (max_height as f64, max_width as f64);
        let ratio = rows as f64 / cols as f64 / ASPECT;
        let height = (max_width * ratio).round().clamp(2.0, max_height);
        let width = (height / ratio).round().clamp(2.0, max_width);
        let (height, width) = (height as usize, width as usize);
        Self { rows, cols, height, width, joints: vec![0; (height + 1) * (width + 1)] }
    }

    /// Returns the sides of `rect` on the canvas: top, bottom, left, right.
    fn find_sides(&self, rect: &Rect) -> [usize; 4] {
        let [top, bottom] = [rect.row, rect.row + rect.rows]
            .map(|y| super::scale_boundary(y, self.rows, self.height as u64) as usize);
        let [left, right] = [rect.col, rect.col + rect.cols]
            .map(|x| super::scale_boundary(x, self.cols, self.width as u64) as usize);
        [top, bottom, left, right]
    }

    /// Draws the sides of `rect`.
    fn outline(&mut self, rect: &Rect) {
        let [top, bottom, left, right] = self.find_sides(rect);
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

    fn to_lines(&self) -> Vec<Vec<char>> {
        self.joints
            .chunks(self.width + 1)
            .map(|joints| joints.iter().map(|&joint| LINES[joint]).collect())
            .collect()
    }

    /// Writes the node's number into the middle of its rectangle, and its size below if both fit.
    fn label(&self, lines: &mut [Vec<char>], node: usize, rect: &Rect) {
        let [top, bottom, left, right] = self.find_sides(rect);
        let height = (bottom - top).saturating_sub(1);
        let width = (right - left).saturating_sub(1);
        let mut texts = vec![node.to_string(), format!("{}×{}", rect.rows, rect.cols)];
        texts.truncate(height);
        let first = top + 1 + height.saturating_sub(texts.len()) / 2;
        for (y, text) in (first..).zip(&texts) {
            let length = text.chars().count();
            if length > width {
                break;
            }
            let x = left + 1 + (width - length) / 2;
            lines[y].splice(x..x + length, text.chars());
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
        assert_eq!(layout.picture(25, 13), expected);
    }

    fn measure_picture(picture: &str) -> (usize, usize) {
        let widths = picture.lines().map(|line| line.chars().count());
        (picture.lines().count(), widths.max().unwrap_or(0))
    }

    #[test]
    fn a_picture_keeps_the_proportions_of_the_matrix() {
        for (rows, cols) in [(16, 16), (8, 16), (16, 9), (5, 40), (24, 10)] {
            let picture = br(&[3.0, 2.0, 1.0], rows, cols).expect("areas").picture(80, 12);
            let (lines, width) = measure_picture(&picture);
            // A character is twice as high as it is wide, and each side is rounded to characters.
            let height = 2.0 * (lines as f64 - 1.0);
            let exact = height * cols as f64 / rows as f64;
            let rounding = 0.5 + cols as f64 / rows as f64;
            assert!((width as f64 - 1.0 - exact).abs() <= rounding, "{picture}");
            assert!(lines == 12 || width == 80, "{picture}");
        }
    }

    #[test]
    fn extreme_shapes_stay_within_the_width() {
        for (rows, cols) in [(1, 1000), (1000, 1), (1, 1), (7, 3)] {
            let layout = br(&[1.0, 0.0, 5.0, 2.0], rows, cols).expect("areas");
            for (width, height) in [(0, 0), (8, 3), (9, 12), (40, 12)] {
                let picture = layout.picture(width, height);
                let (lines, longest) = measure_picture(&picture);
                assert!(longest <= width.max(8) && lines <= height.max(3));
            }
        }
        assert_eq!(br(&[1.0], 0, 5).expect("areas").picture(20, 20), "(empty: 0×5)\n");
    }
}
