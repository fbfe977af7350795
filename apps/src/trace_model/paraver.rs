//! Paraver's traces, as Extrae writes them: a header, then records of states, events and communications, one a line.
//!
//! ```text
//! #Paraver (12/03/2012 at 16:38):1307548742_ns:1(8):1:2(1:1,1:1),1
//! c:1:1:2:1:2
//! i:1:4:2:1:3:2
//! 1:cpu:application:task:thread:begin:end:state
//! 2:cpu:application:task:thread:time:type:value[:type:value ...]
//! 3:cpu:application:task:thread:sent:left:cpu:application:task:thread:received:arrived:bytes:tag
//! 4:cpu:application:task:thread:time:communicator:sent:received:call:root
//! ```
//! Of the header only the unit of time counts. Lines `c` and `i` list communicators. Extrae's predecessors wrote records
//! 4, of collective operations, which Paraver ignores too. Records ascend in time. Only records 2 count, and memory holds
//! the last state of each thread.

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;
use std::ops::RangeInclusive;
use std::path::Path;

use isochron_hierarchy::printable::show_name;

use super::labels::EventLabels;
use super::{SizeTimes, Trace, TraceArguments, miss_event};
use crate::lines::count;

/// The event types of MPI's calls.
const MPI_CALLS: RangeInclusive<u64> = 50_000_001..=50_000_099;

/// The event type of Extrae's writing its buffer to the disk.
const FLUSHES: u64 = 40_000_003;

/// Type and value of the event at which Extrae changes to burst mode: it records bursts of computing, and no calls.
const BURST_MODE: (u64, i128) = (40_000_018, 2);

/// The units of time, in seconds. Without one, times are microseconds.
const UNITS: [(&str, f64); 4] = [("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0)];

/// A thread, by the numbers of its application, its task and itself.
type ThreadNumbers = [u64; 3];

/// The events that the options name, by their numbers.
struct EventChoice {
    iteration: (u64, Option<i128>),
    size: Option<u64>,
    counter: Option<u64>,
    /// The calls that do not count; `None` for MPI's and Extrae's flushes.
    excluded: Option<BTreeSet<u64>>,
}

impl EventChoice {
    fn find(arguments: &TraceArguments, labels: &EventLabels) -> Result<Self, String> {
        let find = |option, name: &Option<String>| {
            name.as_ref().map(|name| labels.find_type(option, name)).transpose()
        };
        let named = arguments.exclude.iter().filter(|name| *name != "none");
        let excluded = named.map(|name| labels.find_type("--exclude", name));
        let excluded: BTreeSet<u64> = excluded.collect::<Result<_, _>>()?;
        Ok(Self {
            iteration: labels.find_event("--event", &arguments.event)?,
            size: find("--size", &arguments.size)?,
            counter: find("--counter", &arguments.counter)?,
            excluded: (!arguments.exclude.is_empty()).then_some(excluded),
        })
    }

    /// Returns `true` for a call that does not count.
    fn is_excluded(&self, kind: u64) -> bool {
        match &self.excluded {
            Some(kinds) => kinds.contains(&kind),
            None => MPI_CALLS.contains(&kind) || kind == FLUSHES,
        }
    }
}

/// A thread up to its last record. Times are in the unit of the trace.
#[derive(Default)]
struct ThreadCourse {
    time: u64,
    begun: Option<BegunIteration>,
    /// The excluded calls that it is in, and the time when it entered the first one.
    calls: BTreeSet<u64>,
    called: u64,
    /// Time in excluded calls that have ended.
    lost: u64,
    latest: Option<i128>,
    counted: i128,
    /// The number of iterations whose counter was not read when they began or ended.
    unread: u64,
    times: SizeTimes,
}

/// The state of a thread when its iteration began.
struct BegunIteration {
    time: u64,
    lost: u64,
    counted: i128,
    /// The counter was read.
    is_read: bool,
}

impl ThreadCourse {
    /// Adds the events of one record, pairs of type and value.
    fn add_events(&mut self, events: &[(u64, i128)], reader: &Reader<'_>) -> Result<(), String> {
        let choice = &reader.choice;
        let find = |kind| events.iter().rev().find(|event| event.0 == kind).map(|event| event.1);
        for &(kind, value) in events.iter().filter(|event| choice.is_excluded(event.0)) {
            self.add_call(kind, value != 0);
        }
        let read = choice.counter.and_then(find);
        self.counted += read.unwrap_or(0);
        let latest = choice.size.and_then(find);
        let Some(value) = find(choice.iteration.0) else {
            self.latest = latest.or(self.latest);
            return Ok(());
        };
        // A size in the record that begins something is not that of the iteration before.
        if value == 0 {
            self.latest = latest.or(self.latest);
        }
        self.end_iteration(read.is_some(), reader)?;
        self.latest = latest.or(self.latest);
        if value != 0 && choice.iteration.1.is_none_or(|wanted| wanted == value) {
            self.begun = Some(BegunIteration {
                time: self.time,
                lost: self.lost_time(),
                counted: self.counted,
                is_read: read.is_some(),
            });
        }
        Ok(())
    }

    /// Enters an excluded call, or leaves it.
    fn add_call(&mut self, kind: u64, is_entered: bool) {
        let was_free = self.calls.is_empty();
        if is_entered {
            self.calls.insert(kind);
        } else {
            self.calls.remove(&kind);
        }
        match (was_free, self.calls.is_empty()) {
            (true, false) => self.called = self.time,
            (false, true) => self.lost += self.time - self.called,
            _ => {}
        }
    }

    fn end_iteration(&mut self, is_read: bool, reader: &Reader<'_>) -> Result<(), String> {
        let Some(begun) = self.begun.take() else {
            return Ok(());
        };
        let amount = match reader.choice {
            EventChoice { counter: Some(_), .. } => {
                self.unread += u64::from(!(begun.is_read && is_read));
                self.counted - begun.counted
            }
            EventChoice { size: Some(kind), .. } => self.latest.ok_or_else(|| {
                format!("the iteration that ends here has no size: no event {kind} was before on this thread")
            })?,
            _ => 0,
        };
        let units = reader.arguments.count_units(amount as f64)?;
        let computing = self.time - begun.time - (self.lost_time() - begun.lost);
        if computing == 0 {
            return Err("the iteration that ends here took no time".to_owned());
        }
        self.times.entry(units).or_default().add(computing as f64 * reader.unit_s);
        Ok(())
    }

    /// Returns the time up to now in excluded calls.
    fn lost_time(&self) -> u64 {
        self.lost + if self.calls.is_empty() { 0 } else { self.time - self.called }
    }
}

/// The parts of a reading that no record changes.
struct Reader<'a> {
    arguments: &'a TraceArguments,
    choice: EventChoice,
    /// Seconds of the unit of time.
    unit_s: f64,
}

/// A trace up to the last record that was read.
#[derive(Default)]
struct ReadRecords {
    threads: BTreeMap<ThreadNumbers, ThreadCourse>,
    /// The number of records with each type of event.
    seen: BTreeMap<u64, u64>,
    has_bursts: bool,
}

/// Reads a trace, and the names of events in the file next to it.
///
/// # Errors
/// Returns the line and the reason, the option that names no event, or the event that the trace lacks.
pub fn read(
    path: &Path,
    mut file: impl BufRead,
    arguments: &TraceArguments,
) -> Result<Trace, String> {
    let labels = EventLabels::read(&path.with_extension("pcf"))?;
    let choice = EventChoice::find(arguments, &labels)?;
    let mut reader = Reader { arguments, choice, unit_s: 0.0 };
    let mut records = ReadRecords::default();
    let mut line = Vec::new();
    for number in 1_u64.. {
        line.clear();
        let read = file.read_until(b'\n', &mut line).map_err(|error| error.to_string())?;
        if read == 0 {
            break;
        }
        let added = if line.pop() != Some(b'\n') {
            Err("has no end: the trace is truncated".to_owned())
        } else if number == 1 {
            parse_header(&line).map(|unit_s| reader.unit_s = unit_s)
        } else {
            records.add_line(line.trim_ascii_end(), &reader)
        };
        added.map_err(|reason| format!("line {number}: {reason}"))?;
    }
    let wanted = reader.choice.iteration.0;
    if !records.seen.contains_key(&wanted) {
        let seen = records.seen.iter().map(|(kind, n)| (*n, labels.describe_type(*kind)));
        return Err(miss_event(&labels.describe_type(wanted), seen));
    }
    Ok(records.end(&reader.choice))
}

/// Returns the seconds of the unit of time.
fn parse_header(line: &[u8]) -> Result<f64, String> {
    let line = String::from_utf8_lossy(line);
    let known = line.trim_start_matches('\u{feff}').strip_prefix("#Paraver (");
    let rest = known.and_then(|rest| rest.split_once("):"));
    let (_, rest) = rest.ok_or("no header of a known version: `#Paraver (DATE):...` is one")?;
    let end = rest.split(':').next().unwrap_or_default();
    let (_, unit) = end.split_once('_').unwrap_or(("", "us"));
    let unit_s = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, unit_s)| *unit_s);
    unit_s.ok_or_else(|| {
        format!("the header has the unknown unit of time \"{}\": ns is one", show_name(unit))
    })
}

impl ReadRecords {
    fn add_line(&mut self, line: &[u8], reader: &Reader<'_>) -> Result<(), String> {
        // Lists of communicators follow the header; comments may stand anywhere.
        if matches!(line, [] | [b'#', ..] | [b'c' | b'i', b':', ..]) {
            return Ok(());
        }
        let numbers = parse_numbers(line)?;
        match (numbers[0], numbers.len()) {
            (2, length) if length >= 8 && length.is_multiple_of(2) => {
                self.add_events(&numbers, reader)
            }
            (1, 8) | (3, 15) | (4, _) => Ok(()),
            (1..=3, length) => {
                Err(format!("a record of kind {} cannot have {length} fields", numbers[0]))
            }
            (kind, _) => Err(format!("{kind} is no kind of record: 1 to 4 are")),
        }
    }

    fn add_events(&mut self, numbers: &[i128], reader: &Reader<'_>) -> Result<(), String> {
        let whole = |number: i128| {
            u64::try_from(number).map_err(|_| format!("{number} must be at least 0"))
        };
        let thread = [whole(numbers[2])?, whole(numbers[3])?, whole(numbers[4])?];
        if thread.contains(&0) {
            return Err("application, task and thread are numbers from 1".to_owned());
        }
        let mut events = Vec::new();
        for event in numbers[6..].chunks_exact(2) {
            let event = (whole(event[0])?, event[1]);
            *self.seen.entry(event.0).or_default() += 1;
            self.has_bursts |= event == BURST_MODE;
            events.push(event);
        }
        let course = self.threads.entry(thread).or_default();
        let (time, before) = (whole(numbers[5])?, course.time);
        if time < before {
            return Err(format!(
                "time {time} after {before} on the same thread: times run backwards"
            ));
        }
        course.time = time;
        course.add_events(&events, reader)
    }

    /// Ends the trace.
    fn end(self, choice: &EventChoice) -> Trace {
        let mut notices = Vec::new();
        let unread = self.threads.values().map(|course| course.unread).sum();
        if unread > 0 {
            let iterations = count(unread, "iteration");
            notices.push(format!(
                "the counter was not read at both ends of {iterations}, whose sizes are inexact: mark them with \
                 Extrae_eventandcounters"
            ));
        }
        if self.has_bursts && choice.excluded.is_none() {
            notices.push(
                "it was recorded in burst mode, without MPI's calls: their time counts".to_owned(),
            );
        }
        let cut = self.threads.values().filter(|course| course.begun.is_some()).count() as u64;
        let threads = self.threads.into_iter().filter(|(_, course)| !course.times.is_empty());
        let threads = threads.map(|([application, task, thread], course)| {
            let process = match application {
                1 => format!("rank{}", task - 1),
                _ => format!("application{application}-rank{}", task - 1),
            };
            ((process, thread.to_string()), course.times)
        });
        Trace { threads: threads.collect(), cut, notices }
    }
}

/// Reads the fields of a record: whole numbers with colons between them.
fn parse_numbers(line: &[u8]) -> Result<Vec<i128>, String> {
    let fields = line.split(|byte| *byte == b':').map(|field| {
        let number = str::from_utf8(field).ok().and_then(|text| text.parse().ok());
        number.ok_or_else(|| format!("{:?} is no whole number", String::from_utf8_lossy(field)))
    });
    fields.collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct TraceLine {
        #[command(flatten)]
        arguments: TraceArguments,
    }

    /// Returns the units and times of a thread with these records, times with the events at them, in seconds.
    fn list_times(line: &str, records: &[(u64, &str)]) -> Vec<(u64, f64)> {
        let line = TraceLine::parse_from(format!("trace-model a.prv {line}").split(' '));
        let records = records.iter().map(|(time, events)| format!("2:1:1:1:1:{time}:{events}\n"));
        let text = format!("#Paraver (a):90_s:1(1):1:1(1:1)\n{}", records.collect::<String>());
        let trace = read(Path::new("/no/such.prv"), text.as_bytes(), &line.arguments);
        let threads = trace.unwrap_or_else(|reason| panic!("{text}: {reason}")).threads;
        let times = threads.into_values().flatten();
        times.map(|(units, mean)| (units, mean.mean)).collect()
    }

    #[test]
    fn calls_of_mpi_do_not_count_wherever_the_iteration_begins() {
        let records = [
            (5, "50000002:10"),
            (10, "7:1:8:40"),
            (20, "50000002:0"),
            (30, "50000002:10:50000001:4"),
            (34, "50000002:0"),
            (36, "50000001:0"),
            (60, "50000002:3"),
            (70, "7:0"),
            (90, "50000002:0"),
        ];
        // 60 less 10 to 20, 30 to 36 and 60 to 70.
        assert_eq!(list_times("--event 7 --size 8", &records), [(40, 34.0)]);
    }

    #[test]
    fn each_value_begins_an_iteration_with_the_size_beside_it() {
        let records = [(0, "7:1:8:100"), (10, "8:200:7:2"), (30, "7:3:8:300"), (60, "7:0:8:301")];
        let all = [(100, 10.0), (200, 20.0), (301, 30.0)];
        assert_eq!(list_times("--event 7 --size 8", &records), all);
        // Only the second value counts; another one ends it.
        assert_eq!(list_times("--event 7:2 --size 8", &records), [(200, 20.0)]);
        let counted = [(0, "8:1000:7:1"), (5, "8:30:11:1"), (10, "7:0:8:12")];
        assert_eq!(list_times("--event 7 --counter 8", &counted), [(42, 10.0)]);
    }
}
