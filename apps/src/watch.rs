//! The watch of a command over silent ranks.

use clap::Args;
use isochron_core::internal::watch::{RankPhase, RankWatch, WatchSettings, enter};
use signal_hook::low_level;

use crate::numbers::parse_positive;
use crate::output::note;

/// Seconds of standstill after which a job ends, if no option says otherwise.
const TIMEOUT_S: f64 = 600.0;

/// The end of a job that stands still.
#[derive(Args, Clone, Copy)]
pub struct WatchArguments {
    /// Seconds without progress of the job after which it is ended, or none; never under a debugger
    #[arg(long, value_name = "S", value_parser = parse_timeout, default_value_t = TIMEOUT_S)]
    stall_timeout: f64,
}

/// Reads seconds; infinitely many for `none`.
fn parse_timeout(text: &str) -> Result<f64, String> {
    if text == "none" {
        return Ok(f64::INFINITY);
    }
    parse_positive(text)
        .ok()
        .filter(|seconds| seconds.is_finite())
        .ok_or_else(|| "expected a number above 0, or none".to_owned())
}

impl WatchArguments {
    /// The arguments of a command without the option.
    pub const DEFAULT: Self = Self {
        stall_timeout: TIMEOUT_S,
    };

    /// Starts to watch this rank.
    pub fn start(self) -> Option<RankWatch> {
        let watch = RankWatch::start(WatchSettings {
            timeout_s: self.stall_timeout,
            say: note,
            end: || low_level::exit(1),
        });
        enter(RankPhase::Start);
        watch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_a_time_or_none() {
        assert_eq!(parse_timeout("none"), Ok(f64::INFINITY));
        assert_eq!(parse_timeout("2.5"), Ok(2.5));
        for wrong in ["-1", "0", "inf", "NaN", "soon", ""] {
            let message = parse_timeout(wrong).unwrap_err();
            assert_eq!(message, "expected a number above 0, or none", "{wrong}");
        }
    }
}
