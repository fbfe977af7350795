//! The flag of a measured size.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A measured size that contradicts the others: its speed differs by more than confidence intervals and
/// a tolerance explain.
///
/// **Bounds.** A speed function is expected to rise concavely and then to fall, with a time that
/// increases. The two neighbours on either side then bound the speed of a size. The speed is
/// * at least that on the line between the neighbours if the right one is faster, else at least the right
///   one's. For the smallest size the line starts at the origin, because a smaller size takes less time.
/// * at most that on the line through the two left neighbours if it rises, else at most the left one's.
///   If there is only one left neighbour, the line starts at the origin.
/// * at most that on the line through the two right neighbours, if they certainly rise.
///
/// A cliff thus contradicts nothing; a dip and a spike do. The uncertainty of a measured speed is the
/// half-width of its confidence interval or 5 %, whichever is larger. A bound is as uncertain as its
/// speeds can make it at worst. If the true speeds are admissible and within the intervals of the
/// measured ones, nothing is flagged.
///
/// **Blame.** An outlier makes its neighbours contradict each other as well. Candidates are single sizes
/// and runs of up to three adjacent ones. The candidate that resolves most per size by its removal is
/// flagged and taken out of the comparison. This repeats until no contradiction is left. Among equals the
/// candidate farther from the line between its neighbours goes first, then the slower one, because
/// disturbances only slow down. If the speed jumps up and stays there, all sizes on one side of the jump
/// are flagged.
///
/// **Wide valleys.** A valley may be so wide that no size contradicts the next. Sizes that contradict the
/// shape-restricted fit of the unflagged ones are flagged last ([`Reason::OutOfShape`]).
///
/// # Deviations
/// * **contradicting measurements**: the thesis leaves a point out of the fit (section 3.2.1). Here a
///   contradicting size is also flagged, because it should be measured again.
///
/// # References
/// Clarke's thesis, section 3.2.1, for the shape.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Flag {
    /// Units of the flagged point.
    pub d: u64,
    /// Its measured speed, in units per second; the mean if it was measured several times.
    pub speed: f64,
    /// Nearest speed that the other points allow, in units per second.
    pub allowed: f64,
    /// Largest difference of the two that lack of precision explains, in units per second.
    pub tolerance: f64,
    /// The contradiction.
    pub reason: Reason,
}

/// The kind of contradiction between a measured size and the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// Slower than its neighbours allow.
    TooSlow,
    /// Faster than its neighbours allow.
    TooFast,
    /// Consistent with its neighbours, but left out by the shape restriction and off the fit of the
    /// others.
    OutOfShape,
}

impl fmt::Display for Flag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { d, speed, allowed, tolerance, reason } = self;
        let allows = match reason {
            Reason::TooSlow => "its neighbours allow no less than",
            Reason::TooFast => "its neighbours allow no more than",
            Reason::OutOfShape => "the fit of the other sizes says",
        };
        write!(f, "d = {d}: {speed:.4e} units/s, but {allows} {allowed:.4e} ± {tolerance:.1e}")
    }
}

impl Flag {
    /// Returns the difference beyond the tolerance, in units per second.
    pub(super) fn excess(&self) -> f64 {
        (self.speed - self.allowed).abs() - self.tolerance
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_reads_as_a_sentence() {
        let flag =
            Flag { d: 300, speed: 33.0, allowed: 100.0, tolerance: 7.0, reason: Reason::TooSlow };
        assert_eq!(
            flag.to_string(),
            "d = 300: 3.3000e1 units/s, but its neighbours allow no less than 1.0000e2 ± 7.0e0"
        );
    }
}
