//! A sign of life: the few numbers that a rank tells the others about itself, and their form on the network.

use siphasher::sip::SipHasher24;

use super::activity::RankPhase;

/// Bytes of the secret of a job, the key of the code at the end of each datagram.
pub const SECRET_BYTES: usize = 16;
/// Bytes of a datagram: nine numbers and the code.
pub const WORD_BYTES: usize = 10 * 8;

/// Bits of the phase, below the flags.
const PHASE_BITS: u32 = 8;

/// A rank's activity, and the seconds that it has spent without progress.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
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

/// A datagram. Its code, a SipHash of all else under the job's secret, tells it from others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Word {
    /// The rank that sends it.
    pub rank: u32,
    /// The number of the datagram among those of this rank, from 1: an older one is a replay.
    pub counter: u64,
    pub sign: Sign,
    /// `true` if the job is at its end: every rank that reads it leaves.
    pub ends_job: bool,
}

impl Word {
    /// Returns the datagram of a job with this secret.
    pub fn encode(&self, secret: &SipHasher24) -> [u8; WORD_BYTES] {
        let sign = &self.sign;
        let flags =
            [sign.waits, sign.sends, sign.is_busy, sign.is_traced, sign.has_ended, self.ends_job];
        let flags = flags.iter().rev();
        let flags = flags.fold(0, |all, &flag| all << 1 | u32::from(flag));
        let numbers = [
            self.counter,
            self.rank.into(),
            u64::from(sign.phase as u32 | flags << PHASE_BITS),
            sign.step.into(),
            sign.steps.into(),
            sign.quiet_s.to_bits(),
            sign.patience_s.to_bits(),
            sign.bound_s.to_bits(),
            sign.step_s.to_bits(),
        ];
        let mut bytes = [0; WORD_BYTES];
        for (place, number) in bytes.as_chunks_mut().0.iter_mut().zip(numbers) {
            *place = number.to_le_bytes();
        }
        let (text, code) = bytes.split_at_mut(WORD_BYTES - 8);
        code.copy_from_slice(&secret.hash(text).to_le_bytes());
        bytes
    }

    /// Reads a datagram; `None` if it is not one of a job with this secret.
    pub fn decode(bytes: &[u8], secret: &SipHasher24) -> Option<Self> {
        let bytes: &[u8; WORD_BYTES] = bytes.try_into().ok()?;
        let (numbers, _) = bytes.as_chunks();
        let numbers: [u64; 10] = std::array::from_fn(|at| u64::from_le_bytes(numbers[at]));
        let [counter, small @ .., quiet, patience, bound, mean, code] = numbers;
        if code != secret.hash(&bytes[..WORD_BYTES - 8]) {
            return None;
        }
        let [rank, kind, step, steps] = small.map(|number| number as u32);
        let [waits, sends, is_busy, is_traced, has_ended, ends_job] =
            std::array::from_fn(|flag| kind >> PHASE_BITS >> flag & 1 == 1);
        let sign = Sign {
            phase: RankPhase::from_repr(kind & ((1 << PHASE_BITS) - 1))?,
            step,
            steps,
            waits,
            sends,
            is_busy,
            is_traced,
            has_ended,
            quiet_s: f64::from_bits(quiet),
            patience_s: f64::from_bits(patience),
            bound_s: f64::from_bits(bound),
            step_s: f64::from_bits(mean),
        };
        Some(Self { rank, counter, sign, ends_job })
    }
}

#[cfg(test)]
mod tests {
    use strum::IntoEnumIterator as _;

    use super::*;

    #[test]
    fn a_word_is_read_as_it_was_written_with_the_secret_alone() {
        let [secret, other] =
            [b"sixteen bytes ..", b"another token .."].map(SipHasher24::new_with_key);
        for (number, phase) in (0..).zip(RankPhase::iter()) {
            let word = Word {
                rank: 70_000 + number,
                counter: u64::MAX - u64::from(number),
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
            let mut bytes = word.encode(&secret);
            assert_eq!(Word::decode(&bytes, &secret), Some(word));
            assert_eq!(Word::decode(&bytes, &other), None);
            assert_eq!(Word::decode(&bytes[..WORD_BYTES - 1], &secret), None);
            for bit in 0..8 * WORD_BYTES {
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Word::decode(&bytes, &secret), None, "bit {bit}");
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }
}
