//! Chrome's JSON traces: events `B` and `E` around a piece of work, or `X` with its duration; times in microseconds.
//!
//! Events may be in any order. Only the event around iterations, the excluded calls, and ends without a name have to be
//! sound.

use std::collections::BTreeMap;
use std::io::Read;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Deserializer, Value};

use super::{SizeTimes, Trace, TraceArguments, miss_event};

/// The beginning of the names of MPI's calls.
const MPI_CALLS: &str = "MPI_";

/// The text of a trace from a position on.
struct TraceText<'a> {
    text: &'a [u8],
    line: u64,
}

impl<'a> TraceText<'a> {
    /// Goes to the array of the events: the trace itself, or `traceEvents` of an object. Returns `true` for an object.
    fn find_array(&mut self) -> Result<bool, String> {
        if self.skip_space() != Some(b'{') {
            self.skip(1);
            return Ok(false);
        }
        self.skip(1);
        while self.skip_space() == Some(b'"') {
            let key: String = self.read_value()?;
            if self.skip_space() == Some(b':') {
                self.skip(1);
            }
            if key == "traceEvents" && self.skip_space() == Some(b'[') {
                self.skip(1);
                return Ok(true);
            }
            self.skip_space();
            self.read_value::<IgnoredAny>()?;
        }
        Err(format!("line {}: the object has no array `traceEvents`", self.line))
    }

    /// Goes to the next character that is neither white space nor a comma.
    fn skip_space(&mut self) -> Option<u8> {
        let is_space = |byte: &u8| byte.is_ascii_whitespace() || b",\xef\xbb\xbf".contains(byte);
        let length = self.text.iter().take_while(|byte| is_space(byte)).count();
        self.skip(length);
        self.text.first().copied()
    }

    fn read_value<T: Deserialize<'a>>(&mut self) -> Result<T, String> {
        let mut values = Deserializer::from_slice(self.text).into_iter();
        let value = match values.next() {
            Some(Err(error)) if !error.is_eof() => {
                let line = self.line + error.line().saturating_sub(1) as u64;
                let text = error.to_string();
                let reason = text.split(" at line ").next().unwrap_or_default();
                return Err(format!("line {line}: no JSON (which has no NaN): {reason}"));
            }
            Some(Ok(value)) => value,
            _ => {
                let line = self.line;
                return Err(format!(
                    "line {line}: the trace is truncated in the middle of a value"
                ));
            }
        };
        let length = values.byte_offset();
        self.skip(length);
        Ok(value)
    }

    fn skip(&mut self, length: usize) {
        let (skipped, rest) = self.text.split_at(length.min(self.text.len()));
        self.line += skipped.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.text = rest;
    }
}

/// A beginning or an end.
struct Edge {
    time_us: f64,
    line: u64,
    name: String,
    is_end: bool,
    /// The size that an iteration has by it.
    size: Option<Value>,
}

/// An iteration.
struct OpenSpan {
    begin_us: f64,
    end_us: f64,
    line: u64,
    size: Option<Value>,
}

/// The events of a thread.
#[derive(Default)]
struct ThreadSpans {
    edges: Vec<Edge>,
    iterations: Vec<OpenSpan>,
    /// Beginning and end of excluded calls.
    calls: Vec<(f64, f64)>,
}

/// Reads a trace.
///
/// # Errors
/// Returns the line and the reason, the option that is for other traces, or the event that the trace lacks.
pub fn read(mut file: impl Read, arguments: &TraceArguments) -> Result<Trace, String> {
    if arguments.counter.is_some() {
        return Err("--counter: only for Paraver's traces, and this one is Chrome's".to_owned());
    }
    let mut text = Vec::new();
    file.read_to_end(&mut text).map_err(|error| error.to_string())?;
    let mut text = TraceText { text: &text, line: 1 };
    let in_object = text.find_array()?;
    let mut threads = BTreeMap::<(String, String), ThreadSpans>::new();
    let (mut seen, mut is_seen) = (BTreeMap::<String, u64>::new(), false);
    // The format allows an array alone to lack its end.
    while !matches!((text.skip_space(), in_object), (Some(b']'), _) | (None, false)) {
        let line = text.line;
        let event: Value = text.read_value()?;
        let name = event["name"].as_str().unwrap_or_default();
        if matches!(event["ph"].as_str(), Some("B" | "X")) {
            *seen.entry(strip_number(name).to_owned()).or_default() += 1;
            is_seen |= is_called(name, &arguments.event);
        }
        let place = (format!("process{}", name_place(&event["pid"])), name_place(&event["tid"]));
        let thread = threads.entry(place).or_default();
        arguments
            .add_event(thread, &event, line)
            .map_err(|reason| format!("line {line}: {reason}"))?;
    }
    if !is_seen {
        return Err(miss_event(&arguments.event, seen.into_iter().map(|(name, n)| (n, name))));
    }
    let mut trace = Trace { threads: BTreeMap::new(), cut: 0, notices: Vec::new() };
    for (place, mut spans) in threads {
        trace.cut += arguments.join_edges(&mut spans)?;
        let times = arguments.list_times(spans)?;
        if !times.is_empty() {
            trace.threads.insert(place, times);
        }
    }
    Ok(trace)
}

impl TraceArguments {
    fn add_event(&self, thread: &mut ThreadSpans, event: &Value, line: u64) -> Result<(), String> {
        let phase = event["ph"].as_str().unwrap_or_default();
        let name = event["name"].as_str().unwrap_or_default();
        let is_wanted = is_called(name, &self.event) || self.is_call(name);
        // An end without a name may end an iteration.
        let is_end = phase == "E";
        if !["B", "E", "X"].contains(&phase) || phase == "X" && !is_wanted {
            return Ok(());
        }
        let time_us = match read_number(event, "ts") {
            Err(_) if !(is_wanted || is_end && name.is_empty()) => return Ok(()),
            time_us => time_us?,
        };
        let size = self.size.as_ref().and_then(|key| event["args"].get(key).cloned());
        let edge = Edge { time_us, line, name: name.to_owned(), is_end, size };
        if phase == "X" {
            return self.add_span(thread, edge, time_us + read_number(event, "dur")?);
        }
        thread.edges.push(edge);
        Ok(())
    }

    /// Keeps a piece of work that begins at an edge, if it is an iteration or an excluded call.
    fn add_span(&self, thread: &mut ThreadSpans, begin: Edge, end_us: f64) -> Result<(), String> {
        let Edge { time_us: begin_us, line, name, size, .. } = begin;
        if end_us < begin_us {
            return Err(format!("the event ends at {end_us}, before it begins at {begin_us}"));
        }
        if is_called(&name, &self.event) {
            thread.iterations.push(OpenSpan { begin_us, end_us, line, size });
        } else if self.is_call(&name) {
            thread.calls.push((begin_us, end_us));
        }
        Ok(())
    }

    /// Joins beginnings with their ends, in the order of time. An end with a name ends the last beginning of that name, one
    /// without a name the last one of all. Returns the number of iterations that lack one of both.
    fn join_edges(&self, thread: &mut ThreadSpans) -> Result<u64, String> {
        let mut edges = std::mem::take(&mut thread.edges);
        edges.sort_by(|a, b| a.time_us.total_cmp(&b.time_us).then(a.line.cmp(&b.line)));
        let mut cut = 0;
        let mut open = Vec::<Edge>::new();
        for edge in edges {
            if !edge.is_end {
                open.push(edge);
                continue;
            }
            let begun =
                open.iter().rposition(|begun| edge.name.is_empty() || begun.name == edge.name);
            if let Some(begun) = begun {
                let begun = open.remove(begun);
                let begin = Edge { size: edge.size.or(begun.size), ..begun };
                self.add_span(thread, begin, edge.time_us)
                    .map_err(|reason| format!("line {}: {reason}", edge.line))?;
            } else if is_called(&edge.name, &self.event) {
                cut += 1;
            } else if self.is_call(&edge.name) {
                // It began before the trace.
                thread.calls.push((f64::NEG_INFINITY, edge.time_us));
            }
        }
        for begun in open {
            if is_called(&begun.name, &self.event) {
                cut += 1;
            } else if self.is_call(&begun.name) {
                thread.calls.push((begun.time_us, f64::INFINITY));
            }
        }
        Ok(cut)
    }

    /// Lists the times of iterations, each without the excluded calls in it.
    fn list_times(&self, thread: ThreadSpans) -> Result<SizeTimes, String> {
        let ThreadSpans { mut iterations, mut calls, .. } = thread;
        iterations.sort_by(|a, b| a.begin_us.total_cmp(&b.begin_us));
        calls.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut times = SizeTimes::new();
        let (mut first, mut before) = (0, None::<&OpenSpan>);
        for span in &iterations {
            let blame = |reason: String| format!("line {}: {reason}", span.line);
            if let Some(before) = before.filter(|before| before.end_us > span.begin_us) {
                let line = before.line;
                return Err(blame(format!("the iteration begins before that of line {line} ends")));
            }
            before = Some(span);
            // Calls do not overlap, or lie in each other: their ends need not ascend, but none is long past.
            while calls.get(first).is_some_and(|(_, end_us)| *end_us <= span.begin_us) {
                first += 1;
            }
            let t_us = span.end_us - span.begin_us - sum_calls(&calls[first..], span);
            if t_us <= 0.0 {
                return Err(blame("the iteration took no time".to_owned()));
            }
            let units = self.read_units(span.size.as_ref()).map_err(blame)?;
            times.entry(units).or_default().add(t_us * 1e-6);
        }
        Ok(times)
    }

    fn read_units(&self, size: Option<&Value>) -> Result<u64, String> {
        let Some(key) = &self.size else {
            return self.count_units(0.0);
        };
        let size =
            size.ok_or_else(|| format!("the iteration has no size: no {key:?} is in its `args`"))?;
        let amount = find_number(size)
            .ok_or_else(|| format!("the size {key:?} is {size}, which must be a number above 0"))?;
        self.count_units(amount)
    }

    fn is_call(&self, name: &str) -> bool {
        if self.exclude.is_empty() {
            name.starts_with(MPI_CALLS)
        } else {
            self.exclude.iter().any(|excluded| is_called(name, excluded))
        }
    }
}

/// Returns the time of a span that lies in calls, which ascend by their beginnings.
fn sum_calls(calls: &[(f64, f64)], span: &OpenSpan) -> f64 {
    let (mut sum_us, mut until_us) = (0.0, span.begin_us);
    for &(begin_us, end_us) in calls.iter().take_while(|(begin_us, _)| *begin_us < span.end_us) {
        let end_us = end_us.min(span.end_us);
        sum_us += (end_us - begin_us.max(until_us)).max(0.0);
        until_us = until_us.max(end_us);
    }
    sum_us
}

/// Returns `true` for this name, alone or with a number behind it, as in `step#12`.
fn is_called(name: &str, wanted: &str) -> bool {
    name == wanted || strip_number(name) == wanted
}

/// Returns a name without the number behind it.
fn strip_number(name: &str) -> &str {
    match name.rsplit_once('#') {
        Some((before, digits)) if digits.parse::<u64>().is_ok() => before,
        _ => name,
    }
}

/// Returns a number, which may be written as text.
fn find_number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok())
}

fn read_number(event: &Value, key: &str) -> Result<f64, String> {
    let value = &event[key];
    find_number(value).filter(|number| number.is_finite()).ok_or_else(|| {
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
        let span = OpenSpan { begin_us: 10.0, end_us: 50.0, line: 1, size: None };
        let calls =
            [(0.0, 12.0), (20.0, 30.0), (22.0, 25.0), (28.0, 31.0), (45.0, 70.0), (80.0, 90.0)];
        assert_eq!(sum_calls(&calls, &span), 2.0 + 11.0 + 5.0);
    }
}
