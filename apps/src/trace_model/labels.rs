//! The names of events in the `.pcf` file next to a Paraver trace.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use isochron_hierarchy::printable::show_path;

/// The names of a `.pcf` file.
///
/// ```text
/// EVENT_TYPE
/// 0    1000    Iteration
/// VALUES
/// 1      Begin
/// 0      End
/// ```
#[derive(Debug, Default)]
pub struct EventLabels {
    /// The path of the file, for messages.
    path: String,
    /// The types of each name.
    types: BTreeMap<String, u64>,
    /// The values of each name, by type.
    values: BTreeMap<(u64, String), i128>,
}

impl EventLabels {
    /// Reads the file; there need not be one.
    ///
    /// # Errors
    /// Returns the file and the reason of the system, if it cannot be read.
    pub fn read(path: &Path) -> Result<Self, String> {
        let path_text = show_path(path);
        let text = match fs::read(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            read => read.map_err(|error| format!("{path_text}: {error}"))?,
        };
        let mut labels = Self { path: path_text, ..Self::default() };
        labels.parse(&String::from_utf8_lossy(&text));
        Ok(labels)
    }

    /// Adds the names of a text. Lines that name no event are ignored.
    fn parse(&mut self, text: &str) {
        let (mut kinds, mut are_values) = (Vec::new(), false);
        for line in text.lines().map(str::trim) {
            let words = line.split_once(char::is_whitespace);
            match (line, words) {
                ("VALUES", _) => are_values = true,
                ("EVENT_TYPE" | "", _) => (kinds, are_values) = (Vec::new(), false),
                // VALUE NAME, of all types above.
                (_, Some((value, name))) if are_values => {
                    if let Ok(value) = value.parse() {
                        let name = name.trim();
                        let keys = kinds.iter().map(|kind| (*kind, name.to_owned()));
                        self.values.extend(keys.map(|key| (key, value)));
                    }
                }
                // COLOR TYPE NAME.
                (_, Some((_, rest))) => {
                    if let Some((kind, name)) = rest.trim_start().split_once(char::is_whitespace)
                        && let Ok(kind) = kind.parse()
                    {
                        kinds.push(kind);
                        self.types.insert(name.trim().to_owned(), kind);
                    }
                }
                _ => {}
            }
        }
    }

    /// Returns the type with this number or name.
    ///
    /// # Errors
    /// Returns the option and the known names if no type has this one.
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

    /// Returns type and value of the event `TYPE` or `TYPE:VALUE`, each by number or name.
    ///
    /// # Errors
    /// Fails if one of them has no such name.
    pub fn find_event(&self, option: &str, name: &str) -> Result<(u64, Option<i128>), String> {
        let parts = name.rsplit_once(':').filter(|_| !self.types.contains_key(name));
        let Some((kind, value)) = parts else {
            return Ok((self.find_type(option, name)?, None));
        };
        let kind = self.find_type(option, kind)?;
        let named = self.values.get(&(kind, value.to_owned())).copied();
        let value = value.parse().ok().or(named);
        let value =
            value.ok_or_else(|| format!("{option} {name}: {} has no such value", self.path))?;
        Ok((kind, Some(value)))
    }

    /// Describes a type by its number and name.
    pub fn describe_type(&self, kind: u64) -> String {
        self.types
            .iter()
            .find(|(_, known)| **known == kind)
            .map_or_else(|| kind.to_string(), |(name, _)| format!("{kind} ({name})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PCF: &str = "DEFAULT_OPTIONS\n\nLEVEL THREAD\n\nSTATES\n1    Running\n\n\
                       EVENT_TYPE\n0    1000    Iteration\n9 60000019 User function\nbroken\n\
                       VALUES\n0   End\n5   compute_forces: all\n\n\nEVENT_TYPE\n7  42000050 PAPI_TOT_INS [Instr completed]\n";

    #[test]
    fn events_are_found_by_number_and_by_name() {
        let mut labels = EventLabels { path: "a.pcf".to_owned(), ..EventLabels::default() };
        labels.parse(PCF);
        for (name, kind, value) in [
            ("1000", 1000, None),
            ("Iteration", 1000, None),
            ("77:3", 77, Some(3)),
            ("User function:0", 60_000_019, Some(0)),
            ("60000019:End", 60_000_019, Some(0)),
            ("PAPI_TOT_INS [Instr completed]", 42_000_050, None),
        ] {
            assert_eq!(labels.find_event("--event", name), Ok((kind, value)), "{name}");
        }
        for (name, part) in [
            ("Iterations", "--event Iterations: a.pcf names Iteration, PAPI"),
            ("Iteration:begin", "no such value"),
        ] {
            let refused = labels.find_event("--event", name).expect_err(name);
            assert!(refused.contains(part), "{refused}");
        }
        assert_eq!(labels.describe_type(1000), "1000 (Iteration)");
        let none = EventLabels::read(Path::new("/no/such.pcf")).expect("no names");
        let refused = none.find_type("--size", "Bodies").expect_err("no names");
        assert!(refused.contains("give the number"), "{refused}");
    }
}
