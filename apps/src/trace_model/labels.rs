//! The names of events and hosts in the files next to a Paraver trace.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use isochron_hierarchy::printable::{show_name, show_path};
use serde::{Deserialize, Serialize};

use super::pairs;

/// An event: its type and, if only one of them counts, its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventKey {
    pub kind: u64,
    pub value: Option<i128>,
}

/// The names of a `.pcf` file.
///
/// ```text
/// EVENT_TYPE
/// 0    1000    Iteration
/// VALUES
/// 1      Begin
/// 0      End
/// ```
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct EventLabels {
    /// The path of the file, for messages.
    path: String,
    /// The types of each name.
    types: BTreeMap<String, u64>,
    /// The values of each name, by type.
    #[serde(with = "pairs")]
    values: BTreeMap<(u64, String), i128>,
}

/// The part of a `.pcf` file that a line belongs to.
enum Section {
    Types,
    Values,
    Other,
}

impl EventLabels {
    /// Reads the file; there need not be one.
    ///
    /// # Errors
    /// If it cannot be read; the file, the line and the reason.
    pub fn read(path: &Path) -> Result<Self, String> {
        match fs::read(path) {
            Ok(bytes) => Self::parse(path, &String::from_utf8_lossy(&bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Ok(Self { path: path.display().to_string(), ..Self::default() })
            }
            Err(error) => Err(format!("{}: {error}", show_path(path))),
        }
    }

    fn parse(path: &Path, text: &str) -> Result<Self, String> {
        let mut labels = Self { path: path.display().to_string(), ..Self::default() };
        let (mut section, mut kinds) = (Section::Other, Vec::new());
        for (number, line) in (1..).zip(text.lines().map(str::trim)) {
            let read = match (line, &section) {
                ("EVENT_TYPE", _) => {
                    (section, kinds) = (Section::Types, Vec::new());
                    Some(())
                }
                ("VALUES", Section::Types) => {
                    section = Section::Values;
                    Some(())
                }
                ("", _) | (_, Section::Other) => {
                    section = Section::Other;
                    Some(())
                }
                (line, Section::Types) => labels.add_type(line, &mut kinds),
                (line, Section::Values) => labels.add_value(line, &kinds),
            };
            read.ok_or_else(|| {
                let line = show_name(line);
                format!("{}: line {number}: \"{line}\" names no event", show_path(path))
            })?;
        }
        Ok(labels)
    }

    /// Adds `COLOR TYPE NAME`.
    fn add_type(&mut self, line: &str, kinds: &mut Vec<u64>) -> Option<()> {
        let (_, rest) = line.split_once(char::is_whitespace)?;
        let (kind, name) = split_number(rest)?;
        kinds.push(kind);
        self.types.insert(name.to_owned(), kind);
        Some(())
    }

    /// Adds `VALUE NAME` to all types of the section.
    fn add_value(&mut self, line: &str, kinds: &[u64]) -> Option<()> {
        let (value, name) = split_number(line)?;
        for &kind in kinds {
            self.values.insert((kind, name.to_owned()), value);
        }
        Some(())
    }

    /// Returns the type with this number or name.
    ///
    /// # Errors
    /// If no type has the name; the option and the known names.
    pub fn find_type(&self, option: &str, name: &str) -> Result<u64, String> {
        name.parse().ok().or_else(|| self.types.get(name).copied()).ok_or_else(|| {
            let path = &self.path;
            let known: Vec<&str> = self.types.keys().map(String::as_str).collect();
            if known.is_empty() {
                format!("{option} {name}: {path} has no names of events; give the number")
            } else {
                format!("{option} {name}: {path} names {}", known.join(", "))
            }
        })
    }

    /// Returns the event `TYPE` or `TYPE:VALUE`, each by number or name.
    ///
    /// # Errors
    /// If one of them has no such name.
    pub fn find_event(&self, option: &str, name: &str) -> Result<EventKey, String> {
        let parts = name.rsplit_once(':').filter(|_| !self.types.contains_key(name));
        let Some((kind, value)) = parts else {
            let kind = self.find_type(option, name)?;
            return Ok(EventKey { kind, value: None });
        };
        let kind = self.find_type(option, kind)?;
        let named = self.values.get(&(kind, value.to_owned())).copied();
        let Some(value) = value.parse().ok().or(named) else {
            let path = &self.path;
            return Err(format!("{option} {name}: {path} has no value {value}"));
        };
        Ok(EventKey { kind, value: Some(value) })
    }

    /// Describes a type by its number and name.
    pub fn describe_type(&self, kind: u64) -> String {
        self.types
            .iter()
            .find(|(_, known)| **known == kind)
            .map_or_else(|| kind.to_string(), |(name, _)| format!("{kind} ({name})"))
    }
}

/// Splits a line into its first word, a number, and the rest.
fn split_number<N: std::str::FromStr>(line: &str) -> Option<(N, &str)> {
    let (number, name) = line.trim_start().split_once(char::is_whitespace)?;
    Some((number.parse().ok()?, name.trim()))
}

/// Reads the names of the nodes from a `.row` file; none without one.
///
/// ```text
/// LEVEL NODE SIZE 2
/// hcl11
/// hcl16
/// ```
pub fn read_hosts(path: &Path) -> Vec<String> {
    let text = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines = text.lines().map(str::trim);
    let mut lines = lines.skip_while(|line| !line.starts_with("LEVEL NODE SIZE"));
    let size = lines.next().and_then(|line| line.rsplit(' ').next()?.parse().ok());
    lines.take(size.unwrap_or(0)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PCF: &str = "DEFAULT_OPTIONS\n\nLEVEL THREAD\n\nEVENT_TYPE\n0    1000    Iteration\n9 60000019 User function\n\
                       VALUES\n0   End\n5   compute_forces: all\n\n\nEVENT_TYPE\n7  42000050 PAPI_TOT_INS [Instr completed]\n";

    #[test]
    fn events_are_found_by_number_and_by_name() {
        let labels = EventLabels::parse(Path::new("a.pcf"), PCF).expect("names");
        for (name, kind, value) in [
            ("1000", 1000, None),
            ("Iteration", 1000, None),
            ("77:3", 77, Some(3)),
            ("User function:0", 60_000_019, Some(0)),
            ("60000019:End", 60_000_019, Some(0)),
            ("PAPI_TOT_INS [Instr completed]", 42_000_050, None),
        ] {
            let found = labels.find_event("--event", name);
            assert_eq!(found, Ok(EventKey { kind, value }), "{name}");
        }
        for (name, part) in [
            ("Iterations", "--event Iterations: a.pcf names Iteration, PAPI"),
            ("Iteration:begin", "no value begin"),
        ] {
            let refused = labels.find_event("--event", name).expect_err(name);
            assert!(refused.contains(part), "{refused}");
        }
        assert_eq!(labels.describe_type(1000), "1000 (Iteration)");
        let refused = EventLabels::read(Path::new("/no/such.pcf"))
            .expect("no names")
            .find_type("--size", "Bodies")
            .expect_err("no names");
        assert!(refused.contains("give the number"), "{refused}");
        let broken = EventLabels::parse(Path::new("a.pcf"), "EVENT_TYPE\n0 x Iteration\n");
        let broken = broken.expect_err("a wrong line");
        assert!(broken.starts_with("a.pcf: line 2: \"0 x Iteration\""), "{broken}");
    }
}
