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

/// Elements along the lines, and lines, of the tiles that are copied at a time if the lines of one side cross those of the
/// other. One tile of each side fits the first-level cache. A tile is short along the lines: if the rows of the source are a
/// power of 2 apart, the second-level cache has few places for them.
const TILE: (usize, usize) = (16, 64);

/// Bytes that memory is read in.
const CACHE_LINE_BYTES: usize = 64;

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
    for line in (0..lines).step_by(TILE.1) {
        for first in (0..along).step_by(TILE.0) {
            let size = (TILE.0.min(along - first), TILE.1.min(lines - line));
            let to = (&mut target[line * target_ld + first..], target_ld);
            let from = (&source[strides.index((first, line))..], strides.along);
            copy_across(to, from, size, put);
        }
    }
}

/// Copies `lines` lines of `along` elements each as they are. The lines lie `ld` apart on both sides.
pub(super) fn copy_straight<T: Copy>(
    (target, target_ld): (&mut [T], usize),
    (source, ld): (&[T], usize),
    (along, lines): (usize, usize),
) {
    if along == 0 {
        return;
    }
    for line in 0..lines {
        let from = &source[line * ld..][..along];
        target[line * target_ld..][..along].copy_from_slice(from);
    }
}

/// Copies a tile of lines that lie side by side in `source`, where their elements are `stride` apart. A cache line of the
/// source has elements of several lines, which are all copied at once: it need not stay in the cache until the next line.
fn copy_across<T: Copy>(
    (target, ld): (&mut [T], usize),
    (source, stride): (&[T], usize),
    (along, lines): (usize, usize),
    put: &impl Fn(&mut T, T),
) {
    let group = (CACHE_LINE_BYTES / size_of::<T>().max(1)).max(1);
    let whole = lines / group * group;
    for line in (0..whole).step_by(group) {
        for at in 0..along {
            let from = &source[at * stride + line..][..group];
            for (next, &value) in from.iter().enumerate() {
                put(&mut target[(line + next) * ld + at], value);
            }
        }
    }
    for line in whole..lines {
        for at in 0..along {
            put(&mut target[line * ld + at], source[at * stride + line]);
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
