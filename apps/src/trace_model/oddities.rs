//! What is wrong with events that have nothing to do with the iterations.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use strum::Display;

use crate::lines::count;

/// A fault of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Display)]
pub enum Oddity {
    #[strum(serialize = "without a phase `ph`")]
    NoPhase,
    #[strum(serialize = "without a time")]
    NoTime,
    #[strum(serialize = "of negative duration")]
    NegativeTime,
    #[strum(serialize = "without a beginning")]
    NoBeginning,
}

/// The faults of a trace.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Oddities {
    found: BTreeMap<Oddity, FoundOddity>,
}

#[derive(Debug, Serialize, Deserialize)]
struct FoundOddity {
    events: u64,
    first_line: u64,
}

impl Oddities {
    /// Counts an event with a fault.
    pub fn add(&mut self, oddity: Oddity, line: u64) {
        let found = self.found.entry(oddity).or_insert(FoundOddity { events: 0, first_line: line });
        found.events += 1;
        found.first_line = found.first_line.min(line);
    }

    /// Describes all in one line; `None` if there are none.
    pub fn describe(&self) -> Option<String> {
        let told = self.found.iter().map(|(oddity, found)| {
            let events = count(found.events, "event");
            format!("{events} {oddity} (line {})", found.first_line)
        });
        let told: Vec<String> = told.collect();
        (!told.is_empty()).then(|| format!("left out, of other names: {}", told.join(", ")))
    }
}
