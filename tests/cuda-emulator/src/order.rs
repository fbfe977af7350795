//! What comes before what, as far as the emulated program has seen to it, and work that nothing orders.
//!
//! Two pieces of work on different streams may run in any order unless one stream waits for an event behind the other's
//! work, or the host has waited in between. When both use the same memory and one writes it, the result is luck. This is
//! noticed when the second one is queued, whatever the schedule, by a clock for each stream that counts the work of all
//! streams which is done before (a vector clock).

use crate::state::{Emulator, Violation};
use crate::work::{End, Work};
use std::collections::BTreeMap;
use std::ops::Range;

/// How many pieces of work of each stream come before a moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Clock(BTreeMap<u64, u64>);

impl Clock {
    /// Both moments come before.
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
pub struct Area {
    pub start: u64,
    pub width: u64,
    pub pitch: u64,
    pub height: u64,
}

impl Area {
    /// One line.
    pub fn line(start: u64, bytes: u64) -> Self {
        Self {
            start,
            width: bytes,
            pitch: bytes,
            height: 1,
        }
    }

    fn is_empty(&self) -> bool {
        self.width == 0 || self.height == 0
    }

    fn range(&self) -> Range<u64> {
        self.start..self.start + (self.height - 1) * self.pitch + self.width
    }

    /// Whether some byte lies in both.
    fn overlaps(&self, other: &Self) -> bool {
        if self.is_empty() || other.is_empty() {
            return false;
        }
        let (own, others) = (self.range(), other.range());
        if own.start >= others.end || others.start >= own.end {
            return false;
        }
        let (few, many) = if self.height <= other.height {
            (self, other)
        } else {
            (other, self)
        };
        (0..few.height).any(|line| many.has_any_of(few.start + line * few.pitch, few.width))
    }

    /// Whether one of its lines has a byte in common with these.
    fn has_any_of(&self, start: u64, bytes: u64) -> bool {
        // The first line that ends behind `start`.
        let behind = (start + 1).saturating_sub(self.start + self.width);
        let line = behind.div_ceil(self.pitch.max(1));
        line < self.height && self.start + line * self.pitch < start + bytes
    }
}

/// What a piece of work does to memory. Device addresses and host addresses are never the same.
#[derive(Debug, Clone, Copy)]
pub struct Access {
    pub area: Area,
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

impl Work {
    /// The memory that it uses.
    pub fn accesses(&self) -> Vec<Access> {
        let access = |start, [width, pitch, height]: [usize; 3], writes| Access {
            area: Area {
                start,
                width: width as u64,
                pitch: pitch as u64,
                height: height as u64,
            },
            writes,
        };
        match self {
            Self::Copy(copy) => {
                let end = |end: &End, pitch, writes| {
                    let start = match end {
                        End::Device(address) => *address,
                        End::Host(address) => *address as u64,
                        End::Staged(_) => return None,
                    };
                    Some(access(start, [copy.width, pitch, copy.height], writes))
                };
                let from = end(&copy.from, copy.from_pitch, false);
                let to = end(&copy.to, copy.to_pitch, true);
                from.into_iter().chain(to).collect()
            }
            Self::Gemm(gemm) => {
                let size = gemm.kind.bytes();
                let matrix = |start, rows, cols, ld, writes| {
                    access(start, [rows * size, ld * size, cols], writes)
                };
                vec![
                    matrix(gemm.a, gemm.m, gemm.k, gemm.lda, false),
                    matrix(gemm.b, gemm.k, gemm.n, gemm.ldb, false),
                    matrix(gemm.c, gemm.m, gemm.n, gemm.ldc, true),
                ]
            }
            Self::Record(..) | Self::Wait(..) => Vec::new(),
        }
    }
}

impl Emulator {
    /// Takes note of work that is put on a stream, and of what it is not ordered with.
    pub fn order(&mut self, id: u64, work: &Work) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        stream.queued += 1;
        let (device, number) = (stream.device, stream.queued);
        stream.clock.join(&self.waited_for);
        stream.clock.0.insert(id, number);
        match work {
            Work::Wait(event, _) => {
                if let Some(event) = self.events.get(event) {
                    stream.clock.join(&event.clock);
                }
            }
            Work::Record(event, _) => {
                if let Some(event) = self.events.get_mut(event) {
                    event.clock = stream.clock.clone();
                }
            }
            Work::Copy(_) | Work::Gemm(_) => {}
        }
        let clock = stream.clock.clone();
        let accesses = work.accesses();
        let unordered = self.recent.iter().any(|before| {
            !clock.covers(before.stream, before.number)
                && accesses.iter().any(|now| before.access.conflicts(now))
        });
        if unordered {
            self.violation(Violation::Unordered);
        }
        self.recent
            .extend(accesses.into_iter().map(|access| Recent {
                device,
                stream: id,
                number,
                access,
            }));
    }

    /// The host has waited for what comes before this moment.
    pub fn wait_for(&mut self, clock: &Clock) {
        let waited_for = &mut self.waited_for;
        waited_for.join(clock);
        self.recent
            .retain(|recent| !waited_for.covers(recent.stream, recent.number));
        // What streams that are gone have done is waited for, or a clock would know more and more of them.
        let streams = &self.streams;
        let lives = |id: &u64| streams.get(id).is_some_and(|stream| !stream.destroyed);
        waited_for.0.retain(|id, _| lives(id));
    }

    /// Whether work that the host has not waited for uses memory in this range.
    pub fn is_used(&self, start: u64, bytes: u64) -> bool {
        let area = Area::line(start, bytes);
        self.recent.iter().any(|r| r.access.area.overlaps(&area))
    }
}

impl Access {
    fn conflicts(&self, other: &Self) -> bool {
        (self.writes || other.writes) && self.area.overlaps(&other.area)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(start: u64, width: u64, pitch: u64, height: u64) -> Area {
        Area {
            start,
            width,
            pitch,
            height,
        }
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
        let bytes = |a: &Area| -> Vec<u64> {
            let lines = (0..a.height).map(|line| a.start + line * a.pitch);
            lines.flat_map(|start| start..start + a.width).collect()
        };
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
        let (mut one, mut other) = (Clock::default(), Clock::default());
        one.0.insert(1, 4);
        other.0.insert(1, 2);
        other.0.insert(2, 7);
        one.join(&other);
        assert!(one.covers(1, 4) && one.covers(2, 7));
        assert!(!one.covers(1, 5) && !one.covers(3, 1));
    }
}
