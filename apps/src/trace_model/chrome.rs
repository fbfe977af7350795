//! Chrome's JSON traces: events `B` and `E` around a piece of work, or `X` with its duration; times in microseconds.

use std::collections::BTreeMap;

use isochron_hierarchy::printable::show_name;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::iterations::{Iterations, TracedThread};
use super::json::JsonEvents;
use super::lines::TraceFile;
use super::pairs;
use super::reading::TraceEnd;
use super::{TraceOptions, UnitsSource};

/// The beginning of the names of MPI's calls.
const MPI_CALLS: &str = "MPI_";

/// Most names that a message lists.
const MOST_LISTED: usize = 10;

/// A process and a thread in it.
type ThreadNames = (String, String);

/// A piece of work of a thread.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Span {
    begin_us: f64,
    end_us: f64,
    units: u64,
    line: u64,
}

/// An event `B` without its `E`.
#[derive(Serialize, Deserialize)]
struct OpenSpan {
    name: String,
    begin_us: f64,
    size: Option<Value>,
    line: u64,
}

/// The spans of a thread that count, or that do not.
#[derive(Default, Serialize, Deserialize)]
struct ThreadSpans {
    open: Vec<OpenSpan>,
    time_us: f64,
    iterations: Vec<Span>,
    /// Beginning and end of excluded calls.
    excluded: Vec<(f64, f64)>,
}

/// A trace up to the last event that was read.
#[derive(Serialize, Deserialize)]
pub struct ChromeTrace {
    /// Its array is in an object.
    in_object: bool,
    #[serde(with = "pairs")]
    threads: BTreeMap<ThreadNames, ThreadSpans>,
    /// The number of events with each name.
    seen: BTreeMap<String, u64>,
}

/// Refuses options that need Paraver's events.
fn check_options(options: &TraceOptions) -> Result<(), String> {
    let of_paraver = [
        ("--running", options.running),
        ("--nested", options.nested),
        (
            "--counter",
            matches!(options.units, UnitsSource::Counter(_)),
        ),
    ];
    let given = of_paraver.iter().find(|(_, given)| *given);
    given.map_or(Ok(()), |(option, _)| {
        Err(format!(
            "{option}: only for Paraver's traces, and this one is Chrome's"
        ))
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
            seen: BTreeMap::new(),
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
            let added = self.add_event(&event, line, options);
            added.map_err(|reason| format!("line {line}: {reason}"))?;
        }
        Ok(None)
    }

    fn add_event(
        &mut self,
        event: &Value,
        line: u64,
        options: &TraceOptions,
    ) -> Result<(), String> {
        if !event.is_object() {
            return Err("an event is an object".to_owned());
        }
        let phase = event["ph"].as_str().ok_or("the event has no phase `ph`")?;
        if !["B", "E", "X"].contains(&phase) {
            return Ok(());
        }
        let time_us = read_number(event, "ts")?;
        let name = event["name"].as_str().unwrap_or_default();
        let names = (name_place(&event["pid"]), name_place(&event["tid"]));
        let size = find_size(event, options);
        let spans = self.threads.entry(names).or_default();
        if phase != "E" {
            *self.seen.entry(name.to_owned()).or_default() += 1;
        }
        match phase {
            "X" => {
                let end_us = time_us + read_number(event, "dur")?;
                let span = OpenSpan {
                    name: name.to_owned(),
                    begin_us: time_us,
                    size,
                    line,
                };
                spans.close(span, end_us, options)
            }
            "B" => {
                spans.go_on(time_us)?;
                spans.open.push(OpenSpan {
                    name: name.to_owned(),
                    begin_us: time_us,
                    size,
                    line,
                });
                Ok(())
            }
            _ => {
                spans.go_on(time_us)?;
                let mut span = spans
                    .open
                    .pop()
                    .ok_or("an event `E` without a `B` before")?;
                if !name.is_empty() && name != span.name {
                    let OpenSpan {
                        name: begun, line, ..
                    } = span;
                    let [name, begun] = [name, &begun].map(show_name);
                    return Err(format!(
                        "`E` of \"{name}\" ends `B` of \"{begun}\" in line {line}"
                    ));
                }
                span.size = size.or(span.size);
                spans.close(span, time_us, options)
            }
        }
    }

    fn check_event(&self, options: &TraceOptions) -> Result<(), String> {
        let wanted = &options.event;
        if self.seen.contains_key(wanted) {
            return Ok(());
        }
        let mut seen: Vec<(u64, &str)> = (self
            .seen
            .iter()
            .map(|(name, count)| (*count, name.as_str())))
        .collect();
        seen.sort_unstable_by(|a, b| b.cmp(a));
        let listed: Vec<&str> = seen
            .iter()
            .take(MOST_LISTED)
            .map(|(_, name)| *name)
            .collect();
        Err(match listed.is_empty() {
            true => format!("no event {wanted}, and no other events with a beginning and an end"),
            false => format!(
                "no event {wanted}; its most frequent events are {}",
                listed.join(", ")
            ),
        })
    }

    fn add_iterations(
        &mut self,
        options: &TraceOptions,
        iterations: &mut Iterations,
    ) -> Result<TraceEnd, String> {
        let mut unfinished = 0;
        for ((process, thread), mut spans) in std::mem::take(&mut self.threads) {
            let open = spans.open.iter().filter(|span| span.name == options.event);
            unfinished += open.count() as u64;
            let place = TracedThread {
                process: format!("process{process}"),
                thread,
                host: None,
            };
            spans.add_iterations(&place, iterations)?;
        }
        Ok(TraceEnd {
            unfinished,
            notices: Vec::new(),
        })
    }
}

impl ThreadSpans {
    /// Goes on to the time of an event `B` or `E`.
    fn go_on(&mut self, time_us: f64) -> Result<(), String> {
        if time_us < self.time_us {
            let before = self.time_us;
            return Err(format!(
                "time {time_us} after {before} on the same thread: times run backwards"
            ));
        }
        self.time_us = time_us;
        Ok(())
    }

    /// Keeps a span that ends, if it counts or is an excluded call.
    fn close(&mut self, span: OpenSpan, end_us: f64, options: &TraceOptions) -> Result<(), String> {
        let OpenSpan {
            name,
            begin_us,
            size,
            line,
        } = span;
        if end_us < begin_us {
            return Err(format!(
                "the event ends at {end_us}, before it begins at {begin_us}"
            ));
        }
        if name == options.event {
            let units = read_units(size.as_ref(), options)?;
            self.iterations.push(Span {
                begin_us,
                end_us,
                units,
                line,
            });
        } else if is_excluded(&name, options) {
            self.excluded.push((begin_us, end_us));
        }
        Ok(())
    }

    /// Adds the iterations in the order of time, each without the excluded calls in it.
    fn add_iterations(
        &mut self,
        place: &TracedThread,
        iterations: &mut Iterations,
    ) -> Result<(), String> {
        self.iterations
            .sort_by(|a, b| a.begin_us.total_cmp(&b.begin_us));
        self.excluded.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (mut first, mut before) = (0, None::<Span>);
        for span in &self.iterations {
            if let Some(before) = before.filter(|before| before.end_us > span.begin_us) {
                let reason = format!(
                    "the iteration begins before that of line {} ends",
                    before.line
                );
                return Err(format!("line {}: {reason}", span.line));
            }
            before = Some(*span);
            // Calls do not overlap, or lie in each other: their ends need not ascend, but none is long past.
            while self
                .excluded
                .get(first)
                .is_some_and(|(_, end_us)| *end_us <= span.begin_us)
            {
                first += 1;
            }
            let t_us = span.end_us - span.begin_us - sum_calls(&self.excluded[first..], span);
            if t_us <= 0.0 {
                return Err(format!("line {}: the iteration took no time", span.line));
            }
            iterations.add(place, span.units, t_us * 1e-6)?;
        }
        Ok(())
    }
}

/// Returns the time of a span that lies in calls, which ascend by their beginnings.
fn sum_calls(calls: &[(f64, f64)], span: &Span) -> f64 {
    let (mut sum_us, mut until_us) = (0.0, span.begin_us);
    let within = calls
        .iter()
        .take_while(|(begin_us, _)| *begin_us < span.end_us);
    for &(begin_us, end_us) in within {
        let end_us = end_us.min(span.end_us);
        sum_us += (end_us - begin_us.max(until_us)).max(0.0);
        until_us = until_us.max(end_us);
    }
    sum_us
}

/// Returns the argument of an event that holds the size.
fn find_size(event: &Value, options: &TraceOptions) -> Option<Value> {
    match &options.units {
        UnitsSource::Latest(key) => event.get("args")?.get(key).cloned(),
        _ => None,
    }
}

fn is_excluded(name: &str, options: &TraceOptions) -> bool {
    match options.exclude.is_empty() {
        true => name.starts_with(MPI_CALLS),
        false => options.exclude.iter().any(|excluded| excluded == name),
    }
}

fn read_units(size: Option<&Value>, options: &TraceOptions) -> Result<u64, String> {
    let UnitsSource::Latest(key) = &options.units else {
        return options.count_units(0.0);
    };
    let size =
        size.ok_or_else(|| format!("the iteration has no size: no {key:?} is in its `args`"))?;
    let amount = size.as_f64().or_else(|| size.as_str()?.parse().ok());
    let amount = amount
        .ok_or_else(|| format!("the size {key:?} is {size}, which must be a number above 0"))?;
    options.count_units(amount)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_count_once_and_only_within_the_iteration() {
        let span = Span {
            begin_us: 10.0,
            end_us: 50.0,
            units: 1,
            line: 1,
        };
        let calls = [
            (0.0, 12.0),
            (20.0, 30.0),
            (22.0, 25.0),
            (28.0, 31.0),
            (45.0, 70.0),
            (80.0, 90.0),
        ];
        assert_eq!(sum_calls(&calls, &span), 2.0 + 11.0 + 5.0);
    }
}
