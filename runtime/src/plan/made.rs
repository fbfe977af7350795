//! The making of a plan: when, by which version, and by which measurements.

use std::time::{SystemTime, UNIX_EPOCH};

use isochron_devices::MeasureConfig;
use serde::{Deserialize, Serialize};

/// The making of a [`Plan`](super::Plan).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Making {
    /// Version of Isochron.
    pub version: String,
    /// Date and time in UTC; `null` for a plan without measurements.
    pub at: Option<String>,
    /// Seconds of measuring and partitioning.
    pub balance_s: f64,
    /// Repetitions and precision of the measurements.
    pub measure: MeasureConfig,
}

impl Default for Making {
    /// A plan of this version without measurements.
    fn default() -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            at: None,
            balance_s: 0.0,
            measure: MeasureConfig::default(),
        }
    }
}

impl Making {
    /// Describes a making that ends now.
    pub(crate) fn now(balance_s: f64, measure: MeasureConfig) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            at: since.ok().map(|since| format_utc(since.as_secs())),
            balance_s,
            measure,
            ..Self::default()
        }
    }
}

/// Formats a number of seconds since 1970 as date and time in UTC.
pub fn format_utc(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Years begin in March, so that the day that some have more is their last one. 400 years have 146 097 days, and the
    // 1st of March of the year 0 was 719 468 days before 1970.
    let day = days + 719_468;
    let (era, day) = (day / 146_097, day % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let year = 400 * era + year + u64::from(month >= 10);
    let month = if month < 10 { month + 3 } else { month - 9 };
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year}-{month:02}-{date:02} {hour:02}:{minute:02}:{:02} UTC", second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_dates_in_utc() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_795_377_301, "2026-11-22 19:55:01 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(format_utc(seconds), text);
        }
    }
}
