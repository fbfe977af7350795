//! A sign of life: the few facts that a rank tells the others about itself, and their form on the network.

use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher24;

use super::activity::RankPhase;

/// Bytes of the secret of a job, the key of the code before each datagram.
pub const SECRET_BYTES: usize = 16;
/// Most bytes of a datagram.
pub const MOST_BYTES: usize = 1024;

/// A rank's activity, and the seconds that it has spent without progress.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Sign {
    pub phase: RankPhase,
    /// The step, from 1; 0 outside of the steps.
    pub step: u32,
    pub steps: u32,
    /// `true` while the rank waits for others.
    pub waits: bool,
    /// `true` while it computes.
    pub is_busy: bool,
    /// `true` under a debugger.
    pub is_traced: bool,
    /// `true` if the rank has ended its work and is watched no longer.
    pub has_ended: bool,
    pub quiet_s: f64,
    /// Seconds without progress after which a rank that does not wait is named; `f64::MAX` for never.
    pub patience_s: f64,
    /// Seconds without progress that such a rank may take before the job is ended; `f64::MAX` for ever.
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
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Word {
    /// The rank that sends it.
    pub rank: usize,
    /// The number of the datagram among those of this rank, from 1: an older one is a replay.
    pub counter: u64,
    pub sign: Sign,
    /// `true` if the job is at its end: every rank that reads it leaves.
    pub ends_job: bool,
}

impl Word {
    /// Returns the datagram of a job with this secret: the code, and JSON.
    pub fn encode(&self, secret: &SipHasher24) -> Vec<u8> {
        // Only maps without text as keys cannot be written.
        let text = serde_json::to_vec(self).unwrap_or_default();
        [&secret.hash(&text).to_le_bytes()[..], &text].concat()
    }

    /// Reads a datagram; `None` if it is not one of a job with this secret.
    pub fn decode(bytes: &[u8], secret: &SipHasher24) -> Option<Self> {
        let (code, text) = bytes.split_first_chunk()?;
        if u64::from_le_bytes(*code) != secret.hash(text) {
            return None;
        }
        serde_json::from_slice(text).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_read_as_it_was_written_with_the_secret_alone() {
        let [secret, other] =
            [b"sixteen bytes ..", b"another token .."].map(SipHasher24::new_with_key);
        let sign = Sign {
            phase: RankPhase::Multiply,
            step: u32::MAX,
            steps: u32::MAX,
            quiet_s: 0.1 + 0.2,
            patience_s: f64::MAX,
            bound_s: -f64::MAX,
            step_s: f64::MIN_POSITIVE,
            ..Sign::default()
        };
        let word = Word { rank: 70_000, counter: u64::MAX, sign, ends_job: true };
        let mut bytes = word.encode(&secret);
        assert!(bytes.len() < MOST_BYTES);
        assert_eq!(Word::decode(&bytes, &secret), Some(word));
        assert_eq!(Word::decode(&bytes, &other), None);
        assert_eq!(Word::decode(&bytes[..bytes.len() - 1], &secret), None);
        for bit in 0..8 * bytes.len() {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Word::decode(&bytes, &secret), None, "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
