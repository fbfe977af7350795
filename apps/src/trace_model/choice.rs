//! The events that the options of a Paraver trace name, by their numbers.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::labels::{EventKey, EventLabels};
use super::options::{TraceOptions, UnitsSource};

/// The event types of MPI's calls.
const MPI_CALLS: std::ops::RangeInclusive<u64> = 50_000_001..=50_000_099;

/// The event type of Extrae's writing its buffer to the disk.
const FLUSHES: u64 = 40_000_003;

/// The events that the options name, by their numbers.
#[derive(Serialize, Deserialize)]
pub struct EventChoice {
    pub iteration: EventKey,
    pub units: UnitsChoice,
    /// The calls that do not count; `None` for MPI's and Extrae's flushes.
    pub excluded: Option<BTreeSet<u64>>,
    /// Only the state running counts.
    pub running: bool,
    /// Values of the event are calls, each ended by a 0.
    pub nested: bool,
}

/// The source of an iteration's units.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub enum UnitsChoice {
    /// The same for all.
    Fixed,
    /// The last value of an event.
    Latest(u64),
    /// The sum of a counter.
    Counter(u64),
}

impl EventChoice {
    pub fn find(options: &TraceOptions, labels: &EventLabels) -> Result<Self, String> {
        let kinds = options.exclude.iter().filter(|name| *name != "none");
        let kinds = kinds.map(|name| labels.find_type("--exclude", name));
        let kinds: BTreeSet<u64> = kinds.collect::<Result<_, _>>()?;
        Ok(Self {
            iteration: labels.find_event("--event", &options.event)?,
            units: match &options.units {
                UnitsSource::Fixed(_) => UnitsChoice::Fixed,
                UnitsSource::Latest(name) => UnitsChoice::Latest(labels.find_type("--size", name)?),
                UnitsSource::Counter(name) => {
                    UnitsChoice::Counter(labels.find_type("--counter", name)?)
                }
            },
            excluded: (!options.exclude.is_empty()).then_some(kinds),
            running: options.running,
            nested: options.nested,
        })
    }

    /// Returns `true` for a call that does not count.
    pub fn is_excluded(&self, kind: u64) -> bool {
        match &self.excluded {
            _ if self.running => false,
            Some(kinds) => kinds.contains(&kind),
            None => MPI_CALLS.contains(&kind) || kind == FLUSHES,
        }
    }
}
