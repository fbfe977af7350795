//! The watch of a command over silent ranks.

use clap::Args;
use isochron_core::internal::watch::{RankPhase, RankWatch, WatchSettings, enter};
use isochron_devices::internal::failed_status;
use signal_hook::low_level;

use crate::numbers::parse_positive;
use crate::output::note;

/// Seconds of standstill after which a job ends, if no option says otherwise.
const TIMEOUT_S: f64 = 600.0;

/// Least seconds of standstill after which a check ends if no option says otherwise: libraries and devices take their time to
/// start.
const LEAST_CHECK_S: f64 = 30.0;

/// The end of a job that stands still.
#[derive(Args, Clone, Copy)]
pub struct WatchArguments {
    /// Seconds without progress of the job after which it is ended, or none; never under a debugger [default: 600, and
    /// --seconds for health]
    #[arg(long, value_name = "S", value_parser = parse_timeout)]
    stall_timeout: Option<f64>,
    /// The seconds that a check may take.
    #[arg(skip)]
    check_s: Option<f64>,
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
    pub const DEFAULT: Self = Self { stall_timeout: None, check_s: None };

    /// Returns the arguments of a check of so many seconds, which does not stand still for longer.
    pub fn of_check(self, seconds: f64) -> Self {
        Self { check_s: Some(seconds), ..self }
    }

    /// Starts to watch this rank.
    pub fn start(self) -> Option<RankWatch> {
        let [timeout_s, joined_timeout_s] = self.find_timeouts();
        let watch = RankWatch::start(WatchSettings {
            timeout_s,
            joined_timeout_s,
            say: note,
            end: || low_level::exit(failed_status().into()),
        });
        enter(RankPhase::Start);
        watch
    }

    /// Returns the seconds of standstill after which the job ends, before all ranks have joined and then.
    fn find_timeouts(self) -> [f64; 2] {
        let check_s = self.check_s.unwrap_or(TIMEOUT_S);
        [TIMEOUT_S, check_s.clamp(LEAST_CHECK_S, TIMEOUT_S)]
            .map(|seconds| self.stall_timeout.unwrap_or(seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_that_is_given_counts() {
        for (seconds, usual_s) in [(5.0, 30.0), (45.0, 45.0), (1e4, 600.0)] {
            let mut arguments = WatchArguments::DEFAULT.of_check(seconds);
            assert_eq!(arguments.find_timeouts(), [600.0, usual_s]);
            arguments.stall_timeout = Some(3.0);
            assert_eq!(arguments.find_timeouts(), [3.0; 2]);
        }
    }

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
