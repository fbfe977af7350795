//! Rectangles of elements from one place in memory to another.

/// Distances between neighbours of a rectangle in memory, along a line and between lines; one of them is 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Strides {
    pub along: usize,
    pub line: usize,
}

impl Strides {
    /// Strides of lines that are contiguous.
    pub(crate) fn lines(ld: usize) -> Self {
        Self { along: 1, line: ld }
    }

    /// Strides of lines that lie side by side.
    pub(crate) fn across(ld: usize) -> Self {
        Self { along: ld, line: 1 }
    }

    /// Returns the place of an element of the rectangle, given by its indices along the lines and of its line.
    pub(super) fn index(&self, (along, line): (usize, usize)) -> usize {
        along * self.along + line * self.line
    }
}

/// Edge of the tiles that are copied at a time if the lines of one side cross those of the other: one tile of each side
/// fits the first-level cache.
const TILE: usize = 32;

/// Copies `lines` lines of `along` elements each from `source` to `target`, both of which begin with the first of them.
/// The lines of `target` lie `target_ld` apart. `put` stores each element.
pub(crate) fn copy_lines<T: Copy>(
    (target, target_ld): (&mut [T], usize),
    (source, strides): (&[T], Strides),
    (along, lines): (usize, usize),
    put: &impl Fn(&mut T, T),
) {
    if along == 0 || lines == 0 {
        return;
    }
    if strides.along == 1 {
        for line in 0..lines {
            let from = &source[line * strides.line..][..along];
            let to = &mut target[line * target_ld..][..along];
            to.iter_mut()
                .zip(from)
                .for_each(|(to, &from)| put(to, from));
        }
        return;
    }
    for first_line in (0..lines).step_by(TILE) {
        for first in (0..along).step_by(TILE) {
            for line in first_line..lines.min(first_line + TILE) {
                let to = &mut target[line * target_ld + first..][..TILE.min(along - first)];
                for (to, at) in to.iter_mut().zip(first..) {
                    put(to, source[strides.index((at, line))]);
                }
            }
        }
    }
}

/// Stores an element as it is.
pub(crate) fn replace<T>(target: &mut T, value: T) {
    *target = value;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn element(i: usize, j: usize) -> i64 {
        (i + 1000 * j) as i64
    }

    #[test]
    fn lines_are_copied_straight_and_across() {
        for (along, lines) in [(1, 1), (3, 5), (33, 70), (64, 31), (0, 4), (4, 0)] {
            for strides in [Strides::lines(along + 2), Strides::across(lines + 3)] {
                let mut source = vec![-1; strides.index((along, lines)) + 1];
                for (i, j) in (0..along).flat_map(|i| (0..lines).map(move |j| (i, j))) {
                    source[strides.index((i, j))] = element(i, j);
                }
                let ld = along + 1;
                let mut target = vec![-7; ld * lines];
                copy_lines(
                    (&mut target, ld),
                    (&source, strides),
                    (along, lines),
                    &|to, value| *to = -value,
                );
                for (j, line) in target.chunks(ld).enumerate() {
                    let expected = (0..along).map(|i| -element(i, j)).chain([-7]);
                    assert!(line.iter().copied().eq(expected), "{strides:?}");
                }
            }
        }
    }
}
