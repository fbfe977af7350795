//! The order of work as the emulated program has defined it, and work without an order.
//!
//! Work on different streams may run in any order, unless one stream waits for an event behind the other's work, or the
//! host has waited in between. If both use the same memory and one writes it, the result is luck. This is noticed when
//! the second work is queued, under every schedule. Each stream has a vector clock for that: it counts the pieces of
//! work of every stream that are done before.

use crate::state::{Emulator, Violation};
use crate::work::{CopyEnd, StreamWork};
use std::collections::BTreeMap;
use std::ops::Range;

/// The number of pieces of work of each stream that come before a moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VectorClock(BTreeMap<u64, u64>);

impl VectorClock {
    /// Advances the clock to a moment after this one and `other`.
    pub fn join(&mut self, other: &Self) {
        for (&stream, &number) in &other.0 {
            let known = self.0.entry(stream).or_default();
            *known = number.max(*known);
        }
    }

    fn covers(&self, stream: u64, number: u64) -> bool {
        self.0.get(&stream).is_some_and(|&known| number <= known)
    }
}

/// Lines of bytes, `pitch` apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryArea {
    pub start: u64,
    pub width: u64,
    pub pitch: u64,
    pub height: u64,
}

impl MemoryArea {
    /// Makes an area of one line.
    pub fn line(start: u64, bytes: u64) -> Self {
        Self { start, width: bytes, pitch: bytes, height: 1 }
    }

    fn is_empty(&self) -> bool {
        self.width == 0 || self.height == 0
    }

    fn range(&self) -> Range<u64> {
        self.start..self.start + (self.height - 1) * self.pitch + self.width
    }

    /// Returns `true` if a byte lies in both areas.
    fn overlaps(&self, other: &Self) -> bool {
        if self.is_empty() || other.is_empty() {
            return false;
        }
        let (own, others) = (self.range(), other.range());
        if own.start >= others.end || others.start >= own.end {
            return false;
        }
        let (few, many) = if self.height <= other.height { (self, other) } else { (other, self) };
        (0..few.height).any(|line| many.has_any_of(few.start + line * few.pitch, few.width))
    }

    /// Returns `true` if one of its lines shares a byte with these.
    fn has_any_of(&self, start: u64, bytes: u64) -> bool {
        // The first line that ends behind `start`.
        let line = (start + 1).saturating_sub(self.start + self.width).div_ceil(self.pitch.max(1));
        line < self.height && self.start + line * self.pitch < start + bytes
    }
}

/// A read or a write of memory by work. Device addresses and host addresses never coincide.
#[derive(Debug, Clone, Copy)]
pub struct Access {
    pub area: MemoryArea,
    pub writes: bool,
}

/// An access of work that the host has not waited for.
#[derive(Debug, Clone, Copy)]
pub struct Recent {
    pub device: usize,
    stream: u64,
    number: u64,
    access: Access,
}

impl StreamWork {
    /// Lists the accesses of the work.
    pub fn list_accesses(&self) -> Vec<Access> {
        match self {
            Self::Copy(copy) => {
                let size = (copy.width, copy.height);
                let from = access_end(&copy.from, size, copy.from_pitch, false);
                let to = access_end(&copy.to, size, copy.to_pitch, true);
                from.into_iter().chain(to).collect()
            }
            Self::Gemm(gemm) => {
                let size = gemm.kind.bytes();
                [
                    (gemm.a, gemm.m, gemm.k, gemm.lda, false),
                    (gemm.b, gemm.k, gemm.n, gemm.ldb, false),
                    (gemm.c, gemm.m, gemm.n, gemm.ldc, true),
                ]
                .map(|(start, rows, cols, ld, writes)| {
                    Access::new(start, (rows * size, cols), ld * size, writes)
                })
                .into()
            }
            Self::Record(..) | Self::Wait(..) => Vec::new(),
        }
    }
}

/// Returns the access of one end of a copy; `None` for bytes that were read when it was queued.
fn access_end(end: &CopyEnd, size: (usize, usize), pitch: usize, writes: bool) -> Option<Access> {
    let start = match end {
        CopyEnd::Device(address) => *address,
        CopyEnd::Host(address) => *address as u64,
        CopyEnd::Staged(_) => return None,
    };
    Some(Access::new(start, size, pitch, writes))
}

impl Emulator {
    /// Takes note of work that is put on a stream; work that is not ordered with it is a violation.
    pub fn order_work(&mut self, id: u64, work: &StreamWork) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        stream.queued += 1;
        let (device, number) = (stream.device, stream.queued);
        stream.clock.join(&self.waited_for);
        stream.clock.0.insert(id, number);
        match work {
            StreamWork::Wait(event, _) => {
                if let Some(event) = self.events.get(event) {
                    stream.clock.join(&event.clock);
                }
            }
            StreamWork::Record(event, _) => {
                if let Some(event) = self.events.get_mut(event) {
                    event.clock = stream.clock.clone();
                }
            }
            StreamWork::Copy(_) | StreamWork::Gemm(_) => {}
        }
        let clock = stream.clock.clone();
        let accesses = work.list_accesses();
        let unordered = self.recent.iter().any(|before| {
            !clock.covers(before.stream, before.number)
                && accesses.iter().any(|now| before.access.conflicts(now))
        });
        if unordered {
            self.report_violation(Violation::Unordered);
        }
        self.recent.extend(accesses.into_iter().map(|access| Recent {
            device,
            stream: id,
            number,
            access,
        }));
    }

    /// Takes note that the host has waited for all work before this moment.
    pub fn wait_for(&mut self, clock: &VectorClock) {
        let waited_for = &mut self.waited_for;
        waited_for.join(clock);
        self.recent.retain(|recent| !waited_for.covers(recent.stream, recent.number));
        // The work of destroyed streams has been waited for; without this a clock would grow with every stream.
        let streams = &self.streams;
        waited_for.0.retain(|id, _| streams.get(id).is_some_and(|stream| !stream.destroyed));
    }

    /// Returns `true` if work that the host has not waited for uses memory in this range.
    pub fn is_used(&self, start: u64, bytes: u64) -> bool {
        let area = MemoryArea::line(start, bytes);
        self.recent.iter().any(|r| r.access.area.overlaps(&area))
    }
}

impl Access {
    /// Makes an access of `height` lines of `width` bytes.
    fn new(start: u64, (width, height): (usize, usize), pitch: usize, writes: bool) -> Self {
        let area =
            MemoryArea { start, width: width as u64, pitch: pitch as u64, height: height as u64 };
        Self { area, writes }
    }

    fn conflicts(&self, other: &Self) -> bool {
        (self.writes || other.writes) && self.area.overlaps(&other.area)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(start: u64, width: u64, pitch: u64, height: u64) -> MemoryArea {
        MemoryArea { start, width, pitch, height }
    }

    #[test]
    fn areas_overlap_where_a_byte_is_in_both() {
        // All pairs of small areas, by counting their bytes.
        let mut all = vec![area(3, 0, 4, 2), area(3, 4, 4, 0)];
        for start in 0..7 {
            for (width, pitch) in [(1, 3), (2, 3), (3, 3), (2, 7)] {
                all.extend((1..4).map(|height| area(start, width, pitch, height)));
            }
        }
        fn bytes(area: &MemoryArea) -> Vec<u64> {
            (0..area.height)
                .map(|line| area.start + line * area.pitch)
                .flat_map(|start| start..start + area.width)
                .collect()
        }
        for a in &all {
            for b in &all {
                let (in_a, in_b) = (bytes(a), bytes(b));
                let expected = in_a.iter().any(|byte| in_b.contains(byte));
                assert_eq!(a.overlaps(b), expected, "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn a_clock_covers_what_it_has_joined() {
        let (mut one, mut other) = (VectorClock::default(), VectorClock::default());
        one.0.insert(1, 4);
        other.0.insert(1, 2);
        other.0.insert(2, 7);
        one.join(&other);
        assert!(one.covers(1, 4) && one.covers(2, 7));
        assert!(!one.covers(1, 5) && !one.covers(3, 1));
    }
}
