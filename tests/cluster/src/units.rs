//! Bandwidths, latencies and CPU quotas as people write them.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::ClusterError;

/// A bandwidth in bits per second, as `tc` writes it: `1gbit`, `2.5gbit`, `100mbit`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    bits_per_s: f64,
}

/// A time from host to host, one way: `100us`, `0.5ms`; `0us` adds none to the machine's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latency {
    ns: u64,
}

/// CPU time that a host may use, in percent of one core: `25%`, `200%`, or `none` without a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quota {
    cores: Option<f64>,
}

const RATES: &[(&str, f64)] =
    &[("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9), ("tbit", 1e12), ("bit", 1.0)];
const TIMES: &[(&str, f64)] = &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];

impl Rate {
    /// Returns the bits per second.
    pub fn bits_per_s(self) -> f64 {
        self.bits_per_s
    }

    /// Returns the time of `bytes` on the link, in nanoseconds.
    pub fn ns_for(self, bytes: usize) -> u64 {
        // A frame: far below 2^53 on either side.
        (bytes as f64 * 8e9 / self.bits_per_s).round() as u64
    }
}

impl Latency {
    /// Returns it as a duration.
    pub fn duration(self) -> Duration {
        Duration::from_nanos(self.ns)
    }

    /// Returns it in nanoseconds.
    pub fn ns(self) -> u64 {
        self.ns
    }
}

impl Quota {
    /// Returns the CPU time in cores; `None` without a limit.
    pub fn cores(self) -> Option<f64> {
        self.cores
    }
}

/// Reads a plain decimal number before one of the units; not `inf`, and no sign.
fn number_with_unit(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = &text[digits.len()..];
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    let is_plain = digits.chars().all(|c| c.is_ascii_digit() || c == '.');
    let number: f64 = digits.parse().ok().filter(|_| is_plain)?;
    Some(number * factor)
}

impl FromStr for Rate {
    type Err = ClusterError;

    fn from_str(text: &str) -> Result<Self, ClusterError> {
        let form = "write a number and a unit: bit, kbit, mbit, gbit or tbit, as in 1gbit";
        // The largest frame takes less than a second, and no machine emulates more.
        let range = (1e5..=1e12, "must be between 100kbit and 1tbit");
        let bits_per_s = number_in("bandwidth", text, RATES, form, range)?;
        Ok(Self { bits_per_s })
    }
}

impl FromStr for Latency {
    type Err = ClusterError;

    fn from_str(text: &str) -> Result<Self, ClusterError> {
        let form = "write a number and a unit: ns, us, ms or s, as in 100us";
        // Longer than any network's.
        let range = (0.0..=1e10, "must be between 0 and 10s");
        let ns = number_in("latency", text, TIMES, form, range)?;
        Ok(Self { ns: ns.round() as u64 })
    }
}

impl FromStr for Quota {
    type Err = ClusterError;

    fn from_str(text: &str) -> Result<Self, ClusterError> {
        if text == "none" {
            return Ok(Self { cores: None });
        }
        let form = "write percents of a core, as in 25%, or none";
        // From the smallest quota that the kernel enforces to more than any machine has.
        let range = (1.0..=102_400.0, "must be between 1% and 102400%");
        let percent = number_in("quota", text, &[("%", 1.0)], form, range)?;
        Ok(Self { cores: Some(percent / 100.0) })
    }
}

/// Reads a number with a unit in a range, or says why the value called `name` is wrong.
fn number_in(
    name: &'static str,
    text: &str,
    units: &[(&str, f64)],
    form: &str,
    (range, bounds): (RangeInclusive<f64>, &str),
) -> Result<f64, ClusterError> {
    let number = number_with_unit(text, units).ok_or(form);
    number
        .and_then(|n| range.contains(&n).then_some(n).ok_or(bounds))
        .map_err(|reason| ClusterError::value(name, text, reason))
}

/// Writes a value in the largest unit that leaves a number of at least one.
fn with_unit(value: f64, units: &[(&str, f64)], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let fitting = units.iter().filter(|(_, factor)| value >= *factor);
    let (name, factor) = fitting.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or(&units[0]);
    write!(f, "{}{name}", value / factor)
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        with_unit(self.bits_per_s, RATES, f)
    }
}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        with_unit(self.ns as f64, TIMES, f)
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cores {
            Some(cores) => write!(f, "{}%", cores * 100.0),
            None => f.write_str("none"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_is_read_and_written_alike() {
        fn is_read<T: FromStr<Err = ClusterError> + fmt::Display>(texts: &str) {
            for text in texts.split(' ') {
                assert_eq!(text.parse::<T>().unwrap().to_string(), text);
            }
        }
        is_read::<Rate>("1gbit 2.5gbit 100mbit 128kbit 1tbit");
        is_read::<Latency>("100us 1.5ms 2s 0ns 750ns");
        is_read::<Quota>("25% 12.5% 200% none");
    }

    #[test]
    fn numbers_are_in_the_unit_they_name() {
        assert_eq!("0.1gbit".parse::<Rate>().unwrap().bits_per_s(), 1e8);
        assert_eq!("0.1ms".parse::<Latency>().unwrap().ns(), 100_000);
        assert_eq!("25%".parse::<Quota>().unwrap().cores(), Some(0.25));
        assert_eq!("1gbit".parse::<Rate>().unwrap().ns_for(125), 1000);
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        fn is_refused<T: FromStr<Err = ClusterError>>(name: &str, texts: &str) {
            for text in texts.split('|') {
                let error = text.parse::<T>().err().map(|error| error.to_string());
                let told = format!("{name} `{text}`: ");
                assert!(error.as_ref().is_some_and(|error| error.starts_with(&told)), "{error:?}");
            }
        }
        let rates = "fast||1|gbit|-1gbit|0gbit|infgbit|1e3gbit|1 gbit|9tbit|1bit|µbit";
        is_refused::<Rate>("bandwidth", rates);
        is_refused::<Latency>("latency", "100||us|-1us|nanus|1e3us|11s|100µs");
        is_refused::<Quota>("quota", "25|%|-5%|0%|0.5%|nan%|all");
    }
}
