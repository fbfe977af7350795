//! The first line of a Paraver trace.
//!
//! ```text
//! #Paraver (12/03/2012 at 16:38):1307548742_ns:2(4,4):1:3(1:1,1:1,2:2),5
//! ```
//! After the date: the time of the last record and its unit, the CPUs of each node, the number of applications, and for
//! each of them the number of its tasks, the threads and the node of each task, and the number of communicators.
//! Between applications Extrae writes a comma, and Paraver a colon.

use isochron_hierarchy::printable::show_name;
use serde::{Deserialize, Serialize};

/// The parts of the header that models need.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceHeader {
    /// The time of the last record.
    pub end: u64,
    /// Seconds of the unit of time.
    pub unit_s: f64,
    /// The node of each task of each application, from 1; 0 if it is not known.
    nodes: Vec<Vec<u64>>,
}

/// The units of time, in seconds. Without one, times are microseconds.
const UNITS: [(&str, f64); 4] = [("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0)];

impl TraceHeader {
    /// Reads the first line.
    ///
    /// # Errors
    /// If it is no header, or of an unknown version.
    pub fn parse(line: &str) -> Result<Self, String> {
        let known = line.trim_start_matches('\u{feff}').strip_prefix("#Paraver (");
        let rest = known.and_then(|rest| rest.split_once("):"));
        let (_, rest) = rest.ok_or("no header of a known version: `#Paraver (DATE):...` is one")?;
        let parts = split_outside(rest, ':');
        let [time, _, count, applications @ ..] = &parts[..] else {
            return Err("the header lacks its time, nodes or applications".to_owned());
        };
        let (end, unit_s) = parse_end(time)?;
        let applications = split_applications(applications);
        if count.parse() != Ok(applications.len()) {
            let found = applications.len();
            return Err(format!("the header has {found} applications and says {count}"));
        }
        let nodes = applications.iter().map(|text| parse_application(text));
        Ok(Self { end, unit_s, nodes: nodes.collect::<Result<_, _>>()? })
    }

    /// Returns the node of a task, from 1; 0 if it is not known.
    ///
    /// # Errors
    /// If the header has no such task.
    pub fn find_node(&self, application: u64, task: u64) -> Result<u64, String> {
        let tasks = find_from_one(&self.nodes, application);
        tasks
            .and_then(|tasks| find_from_one(tasks, task))
            .copied()
            .ok_or_else(|| format!("the header has no task {task} of application {application}"))
    }
}

/// Returns the element with this number, counted from 1.
fn find_from_one<T>(elements: &[T], number: u64) -> Option<&T> {
    elements.get(usize::try_from(number.checked_sub(1)?).ok()?)
}

/// Returns the texts of the applications, without the numbers of their communicators.
fn split_applications<'a>(parts: &[&'a str]) -> Vec<&'a str> {
    let mut applications = Vec::new();
    for part in parts {
        let mut pieces = split_outside(part, ',').into_iter();
        applications.extend(pieces.next());
        applications.extend(pieces.filter(|piece| piece.contains('(')));
    }
    applications
}

/// Splits a text where it is in no brackets.
fn split_outside(text: &str, separator: char) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut depth) = (0, 0_i32);
    for (at, c) in text.char_indices() {
        depth += i32::from(c == '(') - i32::from(c == ')');
        if c == separator && depth == 0 {
            parts.push(&text[start..at]);
            start = at + c.len_utf8();
        }
    }
    parts.push(&text[start..]);
    parts
}

fn parse_end(text: &str) -> Result<(u64, f64), String> {
    let (end, unit) = text.split_once('_').unwrap_or((text, "us"));
    let unit_s = UNITS.iter().find(|(name, _)| *name == unit);
    let (_, unit_s) = unit_s.ok_or_else(|| {
        format!("the header has the unknown unit of time \"{}\"", show_name(unit))
    })?;
    let end = end.parse();
    let end = end.map_err(|_| {
        format!("the header has the time \"{}\": a whole number is one", show_name(text))
    })?;
    Ok((end, *unit_s))
}

fn parse_application(text: &str) -> Result<Vec<u64>, String> {
    parse_nodes(text).ok_or_else(|| {
        let text = show_name(text);
        format!("the header has the application \"{text}\": `TASKS(THREADS:NODE,...)` is one")
    })
}

/// Returns the node of each task of `tasks(threads:node,...)`.
fn parse_nodes(text: &str) -> Option<Vec<u64>> {
    let (count, rest) = text.split_once('(')?;
    let (tasks, _) = rest.split_once(')')?;
    let nodes = tasks.split(',').map(|task| task.split_once(':')?.1.parse().ok());
    let nodes: Vec<u64> = nodes.collect::<Option<_>>()?;
    (count.parse() == Ok(nodes.len())).then_some(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_extrae_tell_the_node_of_each_task() {
        let line = "#Paraver (12/03/2012 at 16:38):1307548742_ns:2(4,4):2:2(1:1,2:2),5:1(1:0)";
        let header = TraceHeader::parse(line).expect("a header");
        for (application, task) in [(0, 1), (1, 0), (1, 3), (3, 1)] {
            assert!(header.find_node(application, task).is_err());
        }
        assert_eq!((header.end, header.unit_s), (1_307_548_742, 1e-9));
        assert_eq!(header.nodes, [vec![1, 2], vec![0]]);
        assert_eq!(header.find_node(1, 2), Ok(2));
        let by_comma = line.replace(",5:1(1:0)", ",1(1:0),5");
        assert_eq!(TraceHeader::parse(&by_comma), Ok(header));
        let old = TraceHeader::parse("#Paraver (1/2/03 at 4:05):70:0:1:1(1:1)").expect("a header");
        assert_eq!((old.end, old.unit_s), (70, 1e-6));
    }

    #[test]
    fn other_headers_are_refused_with_the_part() {
        for (line, part) in [
            ("#Paraver2 (a):1:0:1:1(1:1)", "known version"),
            ("#Paraver (a)", "known version"),
            ("#Paraver (a):1", "lacks"),
            ("#Paraver (a):1_fs:0:1:1(1:1)", "\"fs\""),
            ("#Paraver (a):-1_ns:0:1:1(1:1)", "-1_ns"),
            ("#Paraver (a):1_ns:0:2:1(1:1)", "1 applications and says 2"),
            ("#Paraver (a):1_ns:0:1:1(1:1),1(1:1)", "2 applications and"),
            ("#Paraver (a):1_ns:0:1:2(1:1)", "2(1:1)"),
            ("#Paraver (a):1_ns:0:1:1(1)", "1(1)"),
            ("#Paraver (a):1_ns:0:1:1", "\"1\""),
        ] {
            let refused = TraceHeader::parse(line).expect_err(line);
            assert!(refused.contains(part), "{part} in {refused}");
        }
    }
}
