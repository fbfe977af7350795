//! Links that are slower, later or less reliable than the others of a cluster.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::ClusterError;
use crate::units::{Latency, Rate};

/// What is wrong with the link of a host, or between two: `iso-3:rate=50mbit`, `iso-1+iso-4:latency=1ms`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Flaw {
    /// Index of the host, from 0.
    pub host: usize,
    /// Index of the other host of a pair, from 0; `None` for all that the host sends and receives.
    pub other: Option<usize>,
    /// What is wrong.
    pub kind: FlawKind,
}

/// What is wrong with a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FlawKind {
    /// It is slower both ways.
    Rate(Rate),
    /// What the host sends is slower.
    Out(Rate),
    /// What the host receives is slower.
    In(Rate),
    /// Each frame is later.
    Latency(Latency),
    /// Part of the frames that are lost, from 0 to 1.
    Loss(f64),
}

impl FromStr for Flaw {
    type Err = ClusterError;

    fn from_str(text: &str) -> Result<Self, ClusterError> {
        let form = "write a host or two and what is wrong: iso-3:rate=50mbit (or out, in), \
            iso-1+iso-4:rate=25mbit, iso-2:latency=1ms, iso-2:loss=0.5%";
        let wrong = || ClusterError::value("flaw", text, form);
        let (hosts, what) = text.split_once(':').ok_or_else(wrong)?;
        let (name, value) = what.split_once('=').ok_or_else(wrong)?;
        let index = |host: &str| -> Result<usize, ClusterError> {
            let number: usize = host
                .strip_prefix("iso-")
                .and_then(|number| number.parse().ok())
                .ok_or_else(wrong)?;
            number.checked_sub(1).ok_or_else(wrong)
        };
        let (host, other) = match hosts.split_once('+') {
            Some((host, other)) => (index(host)?, Some(index(other)?)),
            None => (index(hosts)?, None),
        };
        let kind = match name {
            "rate" => FlawKind::Rate(value.parse()?),
            "out" => FlawKind::Out(value.parse()?),
            "in" => FlawKind::In(value.parse()?),
            "latency" => FlawKind::Latency(value.parse()?),
            "loss" => {
                let percent = value.strip_suffix('%').and_then(|percent| percent.parse().ok());
                let percent: f64 = percent.ok_or_else(wrong)?;
                FlawKind::Loss(
                    Some(percent / 100.0)
                        .filter(|part| (0.0..=1.0).contains(part))
                        .ok_or_else(wrong)?,
                )
            }
            _ => return Err(wrong()),
        };
        let is_of_host =
            matches!(kind, FlawKind::Rate(_) | FlawKind::Latency(_)) || other.is_none();
        (is_of_host && other != Some(host)).then_some(Self { host, other, kind }).ok_or_else(wrong)
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "iso-{}", self.host + 1)?;
        self.other.map_or(Ok(()), |other| write!(f, "+iso-{}", other + 1))?;
        match self.kind {
            FlawKind::Rate(rate) => write!(f, ":rate={rate}"),
            FlawKind::Out(rate) => write!(f, ":out={rate}"),
            FlawKind::In(rate) => write!(f, ":in={rate}"),
            FlawKind::Latency(time) => write!(f, ":latency={time}"),
            FlawKind::Loss(part) => write!(f, ":loss={}%", 100.0 * part),
        }
    }
}

impl TryFrom<String> for Flaw {
    type Error = ClusterError;

    fn try_from(text: String) -> Result<Self, ClusterError> {
        text.parse()
    }
}

impl From<Flaw> for String {
    fn from(flaw: Flaw) -> Self {
        flaw.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_is_read_and_written_alike() {
        for text in [
            "iso-3:rate=50mbit",
            "iso-1:out=1gbit",
            "iso-1:in=2.5gbit",
            "iso-2:latency=1ms",
            "iso-2:loss=0.5%",
            "iso-1+iso-4:rate=25mbit",
            "iso-1+iso-4:latency=1ms",
        ] {
            assert_eq!(text.parse::<Flaw>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "iso-3",
            "iso-3:rate",
            "iso-0:rate=1gbit",
            "3:rate=1gbit",
            "iso-3:speed=1gbit",
            "iso-3:loss=5",
            "iso-3:loss=101%",
            "iso-1+iso-1:rate=1gbit",
            "iso-1+iso-2:loss=1%",
            "iso-3:rate=fast",
        ] {
            assert!(text.parse::<Flaw>().is_err(), "{text}");
        }
    }
}
