//! A sign of life: the few numbers that a rank tells the others about itself, and their form on the network.

use super::activity::RankPhase;

/// Bytes of the secret of a job, which tells its datagrams from others.
pub const TOKEN_BYTES: usize = 16;
/// Bytes of a datagram.
pub const WORD_BYTES: usize = TOKEN_BYTES + 4 + 3 * 4 + 4 * 8;

/// Bits of the flags. The low bits hold the phase.
const WAITS: u32 = 1 << 8;
const SENDS: u32 = 1 << 9;
const BUSY: u32 = 1 << 10;
const TRACED: u32 = 1 << 11;
const ENDED: u32 = 1 << 12;
const ENDS_JOB: u32 = 1 << 13;

/// A rank's activity, and the seconds that it has spent without progress.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sign {
    pub phase: RankPhase,
    /// The step, from 1; 0 outside of the steps.
    pub step: u32,
    pub steps: u32,
    /// `true` while the rank waits for others.
    pub waits: bool,
    /// `true` while bytes go through the network cards of its host.
    pub sends: bool,
    /// `true` while it computes, reads or writes.
    pub is_busy: bool,
    /// `true` under a debugger.
    pub is_traced: bool,
    /// `true` if the rank has ended its work and is watched no longer.
    pub has_ended: bool,
    pub quiet_s: f64,
    /// Seconds without progress after which a rank that does not wait is named.
    pub patience_s: f64,
    /// Seconds without progress that such a rank may take before the job is ended.
    pub bound_s: f64,
    /// Mean time of a step so far; 0 if unknown.
    pub step_s: f64,
}

impl Sign {
    /// Describes the activity behind "it was".
    pub fn describe(&self) -> String {
        let phase = self.phase.describe();
        match self.step {
            0 => phase.to_owned(),
            step => format!("{phase}, step {step} of {}", self.steps),
        }
    }
}

/// A datagram.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Word {
    /// The rank that sends it.
    pub rank: u32,
    pub sign: Sign,
    /// `true` if the job is at its end: every rank that reads it leaves.
    pub ends_job: bool,
}

impl Word {
    /// Returns the datagram of a job with this token.
    pub fn encode(&self, token: &[u8; TOKEN_BYTES]) -> [u8; WORD_BYTES] {
        let sign = &self.sign;
        let flags = [
            (sign.waits, WAITS),
            (sign.sends, SENDS),
            (sign.is_busy, BUSY),
            (sign.is_traced, TRACED),
            (sign.has_ended, ENDED),
            (self.ends_job, ENDS_JOB),
        ];
        let flags = flags
            .iter()
            .filter(|(is_set, _)| *is_set)
            .fold(sign.phase as u32, |all, (_, flag)| all | flag);
        let mut bytes = [0; WORD_BYTES];
        let (start, rest) = bytes.split_at_mut(TOKEN_BYTES);
        start.copy_from_slice(token);
        let (words, numbers) = rest.split_at_mut(4 * 4);
        let values = [self.rank, flags, sign.step, sign.steps];
        for (place, value) in words.chunks_exact_mut(4).zip(values) {
            place.copy_from_slice(&value.to_le_bytes());
        }
        let values = [sign.quiet_s, sign.patience_s, sign.bound_s, sign.step_s];
        for (place, value) in numbers.chunks_exact_mut(8).zip(values) {
            place.copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    /// Reads a datagram; `None` if it is not one of a job with this token.
    pub fn decode(bytes: &[u8], token: &[u8; TOKEN_BYTES]) -> Option<Self> {
        let bytes: &[u8; WORD_BYTES] = bytes.try_into().ok()?;
        let rest = bytes.strip_prefix(token)?;
        let (words, numbers) = rest.split_at_checked(4 * 4)?;
        let mut words = words
            .chunks_exact(4)
            .filter_map(|bytes| bytes.try_into().ok().map(u32::from_le_bytes));
        let [rank, flags, step, steps] = std::array::from_fn(|_| words.next().unwrap_or(0));
        let mut numbers = numbers
            .chunks_exact(8)
            .filter_map(|bytes| bytes.try_into().ok().map(f64::from_le_bytes));
        let [quiet_s, patience_s, bound_s, step_s] =
            std::array::from_fn(|_| numbers.next().unwrap_or(0.0));
        let sign = Sign {
            phase: RankPhase::from_repr(flags & (WAITS - 1))?,
            step,
            steps,
            waits: flags & WAITS != 0,
            sends: flags & SENDS != 0,
            is_busy: flags & BUSY != 0,
            is_traced: flags & TRACED != 0,
            has_ended: flags & ENDED != 0,
            quiet_s,
            patience_s,
            bound_s,
            step_s,
        };
        Some(Self {
            rank,
            sign,
            ends_job: flags & ENDS_JOB != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use strum::IntoEnumIterator as _;

    use super::*;

    #[test]
    fn a_word_is_read_as_it_was_written_by_those_who_know_the_token() {
        let token = *b"sixteen bytes ..";
        for (number, phase) in (0..).zip(RankPhase::iter()) {
            let word = Word {
                rank: 70_000 + number,
                sign: Sign {
                    phase,
                    step: number,
                    steps: 96,
                    waits: number % 2 == 0,
                    sends: number % 3 == 0,
                    is_busy: number % 4 == 0,
                    is_traced: number % 5 == 0,
                    has_ended: number % 6 == 0,
                    quiet_s: 1.5,
                    patience_s: f64::INFINITY,
                    bound_s: 60.0,
                    step_s: 0.125,
                },
                ends_job: number % 7 == 0,
            };
            let bytes = word.encode(&token);
            assert_eq!(Word::decode(&bytes, &token), Some(word));
            assert_eq!(Word::decode(&bytes, b"another token .."), None);
            assert_eq!(Word::decode(&bytes[..WORD_BYTES - 1], &token), None);
        }
    }
}
