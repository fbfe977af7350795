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
//! Lines `c` and `i` list communicators. Extrae's predecessors wrote records 4, of collective operations, which Paraver
//! ignores too. Records ascend in time. Of the trace only the last state of each thread is kept.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::choice::EventChoice;
use super::course::{EndedIteration, ThreadCourse};
use super::header::TraceHeader;
use super::iterations::{Iterations, TraceEnd, TracedThread};
use super::labels::{EventLabels, read_hosts};
use super::lines::TraceFile;
use super::options::TraceOptions;
use super::pairs;
use crate::lines::count;

/// Type and value of the event at which Extrae changes to burst mode: it records bursts of computing, and no calls.
const BURST_MODE: (u64, i128) = (40_000_018, 2);

/// Most event types that a message lists.
const MOST_LISTED: usize = 10;

/// A thread, by the numbers of its application, its task and itself.
type ThreadNumbers = (u64, u64, u64);

/// A trace up to the last record that was read.
#[derive(Serialize, Deserialize)]
pub struct ParaverTrace {
    choice: EventChoice,
    labels: EventLabels,
    header: TraceHeader,
    hosts: Vec<String>,
    #[serde(with = "pairs")]
    threads: BTreeMap<ThreadNumbers, ThreadCourse>,
    /// The number of records with each type of event.
    seen: BTreeMap<u64, u64>,
    has_bursts: bool,
    end: u64,
}

impl ParaverTrace {
    /// Reads the header of a trace, and the files next to it.
    ///
    /// # Errors
    /// The line and the reason; or the option that names no event.
    pub fn open(path: &Path, file: &mut TraceFile, options: &TraceOptions) -> Result<Self, String> {
        let mut line = Vec::new();
        file.read_line(&mut line)?;
        let header = TraceHeader::parse(&String::from_utf8_lossy(&line));
        let header = header.map_err(|reason| file.blame_line(reason))?;
        let labels = EventLabels::read(&path.with_extension("pcf"))?;
        Ok(Self {
            choice: EventChoice::find(options, &labels)?,
            labels,
            header,
            hosts: read_hosts(&path.with_extension("row")),
            threads: BTreeMap::new(),
            seen: BTreeMap::new(),
            has_bursts: false,
            end: 0,
        })
    }

    /// Reads on until the file is due to pause, and adds the iterations. Returns the remarks at the end of the trace.
    ///
    /// # Errors
    /// The line and the reason; or the event that it lacks.
    pub fn read_on(
        &mut self,
        file: &mut TraceFile,
        options: &TraceOptions,
        iterations: &mut Iterations,
    ) -> Result<Option<TraceEnd>, String> {
        let (mut line, mut numbers) = (Vec::new(), Vec::new());
        while !file.is_due() {
            if !file.read_line(&mut line)? {
                self.check_event()?;
                return Ok(Some(self.describe_end()));
            }
            self.add_line(&line, &mut numbers, options, iterations)
                .map_err(|reason| file.blame_line(reason))?;
            file.note_iterations(iterations.added);
        }
        Ok(None)
    }

    fn add_line(
        &mut self,
        line: &[u8],
        numbers: &mut Vec<i128>,
        options: &TraceOptions,
        iterations: &mut Iterations,
    ) -> Result<(), String> {
        // Lists of communicators follow the header; comments may stand anywhere.
        if matches!(line, [] | [b'#', ..] | [b'c' | b'i', b':', ..]) {
            return Ok(());
        }
        parse_numbers(line, numbers)?;
        match (numbers[0], numbers.len()) {
            (1, 8) => self.add_state(numbers),
            (2, length) if length >= 8 && length.is_multiple_of(2) => {
                self.add_events(numbers, options, iterations)
            }
            (3, 15) | (4, _) => Ok(()),
            (1..=3, length) => {
                Err(format!("a record of kind {} cannot have {length} fields", numbers[0]))
            }
            (kind, _) => Err(format!("{kind} is no kind of record: 1 to 4 are")),
        }
    }

    fn add_state(&mut self, numbers: &[i128]) -> Result<(), String> {
        let end = u64::try_from(numbers[6]).map_err(|_| "the state has no end")?;
        let is_counted = self.choice.running;
        let course = self.go_on(numbers)?;
        if is_counted {
            course.add_state(end, numbers[7])?;
        }
        self.end = self.end.max(end);
        Ok(())
    }

    fn add_events(
        &mut self,
        numbers: &[i128],
        options: &TraceOptions,
        iterations: &mut Iterations,
    ) -> Result<(), String> {
        for event in numbers[6..].chunks_exact(2) {
            if let Ok(kind) = u64::try_from(event[0]) {
                *self.seen.entry(kind).or_default() += 1;
                self.has_bursts |= (kind, event[1]) == BURST_MODE;
            }
        }
        self.go_on(numbers)?;
        let Some(course) = self.threads.get_mut(&thread_numbers(numbers)?) else {
            return Ok(());
        };
        let Some(EndedIteration { amount, computing }) =
            course.add_events(&numbers[6..], &self.choice)?
        else {
            return Ok(());
        };
        let units = options.count_units(amount as f64)?;
        if computing == 0 {
            return Err("the iteration that ends here took no time".to_owned());
        }
        let t_s = computing as f64 * self.header.unit_s;
        iterations.add(&course.place, units, t_s)
    }

    /// Moves the thread of a record to its time, the sixth field.
    fn go_on(&mut self, numbers: &[i128]) -> Result<&mut ThreadCourse, String> {
        let key = thread_numbers(numbers)?;
        let time = u64::try_from(numbers[5]);
        let time = time.map_err(|_| format!("{} is no time", numbers[5]))?;
        self.end = self.end.max(time);
        let course = match self.threads.entry(key) {
            std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::btree_map::Entry::Vacant(free) => {
                free.insert(ThreadCourse::new(place_thread(&self.header, &self.hosts, key)?))
            }
        };
        course.move_to(time)?;
        Ok(course)
    }

    /// Refuses a trace without the event around iterations; the message lists the most frequent ones.
    fn check_event(&self) -> Result<(), String> {
        let wanted = self.choice.iteration.kind;
        if self.seen.contains_key(&wanted) {
            return Ok(());
        }
        let mut seen: Vec<(u64, u64)> =
            self.seen.iter().map(|(kind, count)| (*count, *kind)).collect();
        seen.sort_unstable_by(|a, b| b.cmp(a));
        let listed =
            seen.iter().take(MOST_LISTED).map(|(_, kind)| self.labels.describe_type(*kind));
        let listed: Vec<String> = listed.collect();
        let wanted = self.labels.describe_type(wanted);
        Err(if listed.is_empty() {
            format!("no event {wanted}, and no other events")
        } else {
            format!("no event {wanted}; its most frequent events are {}", listed.join(", "))
        })
    }

    fn describe_end(&self) -> TraceEnd {
        let open = self.threads.values().filter(|course| course.is_in_iteration());
        TraceEnd { unfinished: open.count() as u64, notices: self.list_notices() }
    }

    fn list_notices(&self) -> Vec<String> {
        let mut notices = Vec::new();
        if self.end < self.header.end {
            let [end, expected] =
                [self.end, self.header.end].map(|time| time as f64 * self.header.unit_s);
            notices.push(format!(
                "its records end at {end} s, and its header says {expected} s: it may be truncated"
            ));
        }
        let unread = self.threads.values().map(|course| course.unread).sum();
        if unread > 0 {
            let iterations = count(unread, "iteration");
            notices.push(format!(
                "the counter was not read at both ends of {iterations}, whose sizes are inexact: mark them with \
                 Extrae_eventandcounters"
            ));
        }
        if self.has_bursts && self.choice.excluded.is_none() {
            notices.push(
                "it was recorded in burst mode, without MPI's calls: their time counts".to_owned(),
            );
        }
        notices
    }
}

/// Reads the fields of a record: whole numbers with colons between them.
fn parse_numbers(line: &[u8], numbers: &mut Vec<i128>) -> Result<(), String> {
    numbers.clear();
    for field in line.split(|byte| *byte == b':') {
        let number = str::from_utf8(field).ok().and_then(|text| text.parse().ok());
        let Some(number) = number else {
            let field = String::from_utf8_lossy(field);
            return Err(format!("{field:?} is no whole number"));
        };
        numbers.push(number);
    }
    Ok(())
}

/// Returns the thread of a record.
fn thread_numbers(numbers: &[i128]) -> Result<ThreadNumbers, String> {
    let [application, task, thread] = [2, 3, 4].map(|field| u64::try_from(numbers[field]).ok());
    let numbers = application.zip(task).zip(thread);
    let numbers = numbers.map(|((application, task), thread)| (application, task, thread));
    numbers.ok_or_else(|| "application, task and thread are numbers from 1".to_owned())
}

fn place_thread(
    header: &TraceHeader,
    hosts: &[String],
    (application, task, thread): ThreadNumbers,
) -> Result<TracedThread, String> {
    let node = header.find_node(application, task)?;
    let name = usize::try_from(node).ok().and_then(|node| hosts.get(node.checked_sub(1)?));
    let rank = task - 1;
    Ok(TracedThread {
        process: match application {
            1 => format!("rank{rank}"),
            _ => format!("application{application}-rank{rank}"),
        },
        thread: thread.to_string(),
        host: (node > 0).then(|| name.cloned().unwrap_or_else(|| format!("node{node}"))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_record_are_whole_numbers() {
        let mut numbers = Vec::new();
        parse_numbers(b"2:1:1:1:1:10:42000050:18446744073709551615", &mut numbers)
            .expect("numbers");
        assert_eq!((numbers.len(), numbers[7]), (8, i128::from(u64::MAX)));
        for wrong in [&b"2::1"[..], b"2:x", b"2:1.5", b"", b"2: 1", b"2:\xff"] {
            assert!(parse_numbers(wrong, &mut numbers).is_err(), "{wrong:?}");
        }
    }
}
