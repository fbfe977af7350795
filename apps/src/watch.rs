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
    /// Seconds without progress of the job after which it is ended, or none; never under a debugger [default: 600]
    #[arg(long, value_name = "S", value_parser = parse_timeout)]
    stall_timeout: Option<StallTimeout>,
}

/// Seconds of standstill after which a job ends; `None` for never.
#[derive(Clone, Copy)]
struct StallTimeout(Option<f64>);

fn parse_timeout(text: &str) -> Result<StallTimeout, String> {
    match text {
        "none" | "0" => Ok(StallTimeout(None)),
        _ => match parse_positive(text) {
            Ok(seconds) if seconds.is_finite() => Ok(StallTimeout(Some(seconds))),
            _ => Err("expected a number above 0, or none".to_owned()),
        },
    }
}

impl WatchArguments {
    /// The arguments of a command without the option.
    pub const DEFAULT: Self = Self {
        stall_timeout: None,
    };

    /// Starts to watch this rank.
    pub fn start(self) -> Option<RankWatch> {
        let timeout = self.stall_timeout.unwrap_or(StallTimeout(Some(TIMEOUT_S)));
        let watch = RankWatch::start(WatchSettings {
            timeout_s: timeout.0,
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
        let parse = |text| parse_timeout(text).map(|timeout| timeout.0);
        assert_eq!(parse("none"), Ok(None));
        assert_eq!(parse("0"), Ok(None));
        assert_eq!(parse("2.5"), Ok(Some(2.5)));
        for wrong in ["-1", "inf", "NaN", "soon", ""] {
            let message = parse(wrong).unwrap_err();
            assert_eq!(message, "expected a number above 0, or none", "{wrong}");
        }
    }
}
