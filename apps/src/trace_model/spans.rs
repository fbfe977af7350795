//! The pieces of work of a thread in a trace of Chrome.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::iterations::{Iterations, TracedThread};
use super::oddities::{Oddities, Oddity};
use super::options::{TraceOptions, UnitsSource};

/// The part that an event plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventRole {
    /// It is around an iteration.
    Iteration,
    /// It is a call whose time does not count.
    Call,
    /// It ends what began last.
    Unnamed,
    /// None.
    Other,
}

/// A beginning, or an end.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Edge {
    pub time_us: f64,
    pub line: u64,
    /// The number of its name.
    pub name: u32,
    pub role: EventRole,
    pub is_end: bool,
    /// The size that an iteration has by it.
    pub size: Option<Box<Value>>,
}

/// An iteration.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Span {
    begin_us: f64,
    end_us: f64,
    units: u64,
    line: u64,
}

/// The events of a thread. Those with a beginning and an end of their own may be in any order, so all are kept until the
/// trace ends.
#[derive(Default, Serialize, Deserialize)]
pub struct ThreadSpans {
    pub edges: Vec<Edge>,
    iterations: Vec<Span>,
    /// Beginning and end of excluded calls.
    excluded: Vec<(f64, f64)>,
}

/// Iterations that the trace has only in part.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CutIterations {
    /// They have no end.
    pub unfinished: u64,
    /// They have no beginning.
    pub unbegun: u64,
}

impl ThreadSpans {
    /// Keeps a piece of work that begins at an edge, if it counts or is an excluded call.
    ///
    /// # Errors
    /// The reason, if it ends before it begins or has no size.
    pub fn add(&mut self, begin: Edge, end_us: f64, options: &TraceOptions) -> Result<(), String> {
        let Edge { time_us: begin_us, line, role, size, .. } = begin;
        if end_us < begin_us {
            return Err(format!("the event ends at {end_us}, before it begins at {begin_us}"));
        }
        match role {
            EventRole::Iteration => self.iterations.push(Span {
                begin_us,
                end_us,
                units: read_units(size.as_deref(), options)?,
                line,
            }),
            EventRole::Call => self.excluded.push((begin_us, end_us)),
            EventRole::Unnamed | EventRole::Other => {}
        }
        Ok(())
    }

    /// Joins beginnings with their ends, in the order of time. An end with a name ends the last beginning of that name, one
    /// without a name the last one of all.
    ///
    /// # Errors
    /// The line and the reason.
    pub fn join_edges(
        &mut self,
        options: &TraceOptions,
        oddities: &mut Oddities,
    ) -> Result<CutIterations, String> {
        let mut edges = std::mem::take(&mut self.edges);
        edges.sort_by(|a, b| a.time_us.total_cmp(&b.time_us).then(a.line.cmp(&b.line)));
        let mut cut = CutIterations::default();
        let mut open: Vec<Edge> = Vec::new();
        for edge in edges {
            if !edge.is_end {
                open.push(edge);
                continue;
            }
            let begun = if edge.role == EventRole::Unnamed {
                open.len().checked_sub(1)
            } else {
                open.iter().rposition(|begun| begun.name == edge.name)
            };
            match (begun.map(|place| open.remove(place)), edge.role) {
                (Some(begun), _) => {
                    let begin = Edge { size: edge.size.or(begun.size), ..begun };
                    self.add(begin, edge.time_us, options)
                        .map_err(|reason| format!("line {}: {reason}", edge.line))?;
                }
                (None, EventRole::Iteration) => cut.unbegun += 1,
                // It began before the trace.
                (None, EventRole::Call) => self.excluded.push((f64::NEG_INFINITY, edge.time_us)),
                (None, _) => oddities.add(Oddity::NoBeginning, edge.line),
            }
        }
        for begun in open {
            match begun.role {
                EventRole::Iteration => cut.unfinished += 1,
                EventRole::Call => self.excluded.push((begun.time_us, f64::INFINITY)),
                EventRole::Unnamed | EventRole::Other => {}
            }
        }
        Ok(cut)
    }

    /// Adds the iterations in the order of time, each without the excluded calls in it.
    ///
    /// # Errors
    /// The line and the reason, if iterations overlap or take no time.
    pub fn add_iterations(
        &mut self,
        place: &TracedThread,
        iterations: &mut Iterations,
    ) -> Result<(), String> {
        self.iterations.sort_by(|a, b| a.begin_us.total_cmp(&b.begin_us));
        self.excluded.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (mut first, mut before) = (0, None::<Span>);
        for span in &self.iterations {
            if let Some(before) = before.filter(|before| before.end_us > span.begin_us) {
                let reason =
                    format!("the iteration begins before that of line {} ends", before.line);
                return Err(format!("line {}: {reason}", span.line));
            }
            before = Some(*span);
            // Calls do not overlap, or lie in each other: their ends need not ascend, but none is long past.
            while self.excluded.get(first).is_some_and(|(_, end_us)| *end_us <= span.begin_us) {
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
    let within = calls.iter().take_while(|(begin_us, _)| *begin_us < span.end_us);
    for &(begin_us, end_us) in within {
        let end_us = end_us.min(span.end_us);
        sum_us += (end_us - begin_us.max(until_us)).max(0.0);
        until_us = until_us.max(end_us);
    }
    sum_us
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_count_once_and_only_within_the_iteration() {
        let span = Span { begin_us: 10.0, end_us: 50.0, units: 1, line: 1 };
        let calls =
            [(0.0, 12.0), (20.0, 30.0), (22.0, 25.0), (28.0, 31.0), (45.0, 70.0), (80.0, 90.0)];
        assert_eq!(sum_calls(&calls, &span), 2.0 + 11.0 + 5.0);
    }
}
