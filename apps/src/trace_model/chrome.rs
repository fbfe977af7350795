//! Chrome's JSON traces: events `B` and `E` around a piece of work, or `X` with its duration; times in microseconds.
//!
//! Only the event around iterations, the excluded calls, and ends without a name have to be sound. What is wrong with other
//! events is counted, and told once.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::iterations::{Iterations, TraceEnd, TracedThread};
use super::json::JsonEvents;
use super::lines::TraceFile;
use super::oddities::{Oddities, Oddity};
use super::options::{TraceOptions, UnitsSource};
use super::pairs;
use super::spans::{Edge, EventRole, ThreadSpans};
use crate::lines::count;

/// The beginning of the names of MPI's calls.
const MPI_CALLS: &str = "MPI_";

/// Most names that a message lists.
const MOST_LISTED: usize = 10;

/// A process and a thread in it.
type ThreadNames = (String, String);

/// A name of events.
#[derive(Serialize, Deserialize)]
struct EventName {
    index: u32,
    /// Number of events that begin under it.
    begun: u64,
}

/// A trace up to the last event that was read.
#[derive(Serialize, Deserialize)]
pub struct ChromeTrace {
    /// Its array is in an object.
    in_object: bool,
    #[serde(with = "pairs")]
    threads: BTreeMap<ThreadNames, ThreadSpans>,
    names: BTreeMap<String, EventName>,
    oddities: Oddities,
}

/// Refuses options that need Paraver's events.
fn check_options(options: &TraceOptions) -> Result<(), String> {
    [
        ("--running", options.running),
        ("--nested", options.nested),
        ("--counter", matches!(options.units, UnitsSource::Counter(_))),
    ]
    .iter()
    .find(|(_, given)| *given)
    .map_or(Ok(()), |(option, _)| {
        Err(format!("{option}: only for Paraver's traces, and this one is Chrome's"))
    })
}

impl ChromeTrace {
    /// Finds the events of a trace.
    ///
    /// # Errors
    /// The line and the reason; or an option for other traces.
    pub fn open(file: &mut TraceFile, options: &TraceOptions) -> Result<Self, String> {
        check_options(options)?;
        Ok(Self {
            in_object: JsonEvents::open(file)?.is_in_object(),
            threads: BTreeMap::new(),
            names: BTreeMap::new(),
            oddities: Oddities::default(),
        })
    }

    /// Reads on until the file is due to pause. At the end of the trace, adds the iterations and returns the remarks.
    ///
    /// # Errors
    /// The line and the reason; or the event that it lacks.
    pub fn read_on(
        &mut self,
        file: &mut TraceFile,
        options: &TraceOptions,
        iterations: &mut Iterations,
    ) -> Result<Option<TraceEnd>, String> {
        let mut events = JsonEvents::go_on(file, self.in_object);
        while !events.is_due() {
            let Some((line, event)) = events.next_event()? else {
                self.check_event(options)?;
                let end = self.add_iterations(options, iterations)?;
                file.note_iterations(iterations.added);
                return Ok(Some(end));
            };
            self.add_event(&event, line, options)
                .map_err(|reason| format!("line {line}: {reason}"))?;
        }
        Ok(None)
    }

    fn add_event(
        &mut self,
        event: &Value,
        line: u64,
        options: &TraceOptions,
    ) -> Result<(), String> {
        let phase = match event["ph"].as_str() {
            Some(phase @ ("B" | "E" | "X")) => phase,
            Some(_) => return Ok(()),
            None => {
                self.oddities.add(Oddity::NoPhase, line);
                return Ok(());
            }
        };
        let name = event["name"].as_str().unwrap_or_default();
        let role = match (phase, name) {
            // It may end an iteration.
            ("E", "") => EventRole::Unnamed,
            _ => find_role(name, options),
        };
        let index = self.note_name(name, phase != "E");
        let time_us = match read_number(event, "ts") {
            Err(_) if role == EventRole::Other => {
                self.oddities.add(Oddity::NoTime, line);
                return Ok(());
            }
            time_us => time_us?,
        };
        let end_us = match read_number(event, "dur") {
            _ if phase != "X" => None,
            Err(_) if role == EventRole::Other => {
                self.oddities.add(Oddity::NoTime, line);
                return Ok(());
            }
            lasts_us => Some(time_us + lasts_us?),
        };
        let names = (name_place(&event["pid"]), name_place(&event["tid"]));
        let edge = Edge {
            time_us,
            line,
            name: index,
            role,
            is_end: phase == "E",
            size: find_size(event, options, role).map(Box::new),
        };
        let spans = self.threads.entry(names).or_default();
        match end_us {
            Some(end_us) if end_us < time_us && role == EventRole::Other => {
                self.oddities.add(Oddity::NegativeTime, line);
                Ok(())
            }
            Some(end_us) => spans.add(edge, end_us, options),
            None => {
                spans.edges.push(edge);
                Ok(())
            }
        }
    }

    /// Returns the number of a name, and counts an event that begins under it.
    fn note_name(&mut self, name: &str, begins: bool) -> u32 {
        if !self.names.contains_key(name) {
            let index = self.names.len() as u32;
            let new = EventName { index, begun: 0 };
            self.names.insert(name.to_owned(), new);
        }
        let Some(known) = self.names.get_mut(name) else {
            return 0;
        };
        known.begun += u64::from(begins);
        known.index
    }

    fn check_event(&self, options: &TraceOptions) -> Result<(), String> {
        let wanted = &options.event;
        let mut seen = BTreeMap::<&str, u64>::new();
        for (name, EventName { begun, .. }) in self.names.iter().filter(|(_, n)| n.begun > 0) {
            if is_called(name, wanted) {
                return Ok(());
            }
            *seen.entry(strip_number(name)).or_default() += begun;
        }
        let mut seen: Vec<(u64, &str)> = seen.into_iter().map(|(name, n)| (n, name)).collect();
        seen.sort_unstable_by(|a, b| b.cmp(a));
        let listed: Vec<&str> = seen.iter().take(MOST_LISTED).map(|(_, name)| *name).collect();
        if listed.is_empty() {
            return Err(format!(
                "no event {wanted}, and no other events with a beginning and an end"
            ));
        }
        Err(format!("no event {wanted}; its most frequent events are {}", listed.join(", ")))
    }

    fn add_iterations(
        &mut self,
        options: &TraceOptions,
        iterations: &mut Iterations,
    ) -> Result<TraceEnd, String> {
        let (mut unfinished, mut unbegun) = (0, 0);
        for ((process, thread), mut spans) in std::mem::take(&mut self.threads) {
            let place = TracedThread { process: format!("process{process}"), thread, host: None };
            let cut = spans.join_edges(options, &mut self.oddities)?;
            unfinished += cut.unfinished;
            unbegun += cut.unbegun;
            spans.add_iterations(&place, iterations)?;
        }
        let mut notices: Vec<String> = self.oddities.describe().into_iter().collect();
        if unbegun > 0 {
            let ended = count(unbegun, "iteration");
            notices.push(format!("{ended} had no beginning and left no time"));
        }
        Ok(TraceEnd { unfinished, notices })
    }
}

/// Returns the argument of an event that holds the size, if it may be an iteration's.
fn find_size(event: &Value, options: &TraceOptions, role: EventRole) -> Option<Value> {
    match &options.units {
        UnitsSource::Latest(key) if matches!(role, EventRole::Iteration | EventRole::Unnamed) => {
            event.get("args")?.get(key).cloned()
        }
        _ => None,
    }
}

fn find_role(name: &str, options: &TraceOptions) -> EventRole {
    if is_called(name, &options.event) {
        return EventRole::Iteration;
    }
    let is_excluded = if options.exclude.is_empty() {
        name.starts_with(MPI_CALLS)
    } else {
        (options.exclude.iter()).any(|excluded| is_called(name, excluded))
    };
    if is_excluded { EventRole::Call } else { EventRole::Other }
}

/// Returns `true` for this name, alone or with a number behind it, as in `step#12`.
fn is_called(name: &str, wanted: &str) -> bool {
    name == wanted || strip_number(name) == wanted
}

/// Returns a name without the number behind it.
fn strip_number(name: &str) -> &str {
    match name.rsplit_once('#') {
        Some((before, digits))
            if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            before
        }
        _ => name,
    }
}

fn read_number(event: &Value, key: &str) -> Result<f64, String> {
    let value = &event[key];
    let number = value.as_f64().or_else(|| value.as_str()?.parse().ok());
    let number = number.filter(|number: &f64| number.is_finite());
    number.ok_or_else(|| {
        format!("the event has `{key}` {value}, which must be a number of microseconds")
    })
}

/// Names a process or a thread, which may be a number or a word.
fn name_place(value: &Value) -> String {
    match value {
        Value::Null => "0".to_owned(),
        Value::String(name) => name.clone(),
        value => value.to_string(),
    }
}
