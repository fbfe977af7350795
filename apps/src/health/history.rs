//! Earlier checks, a line each in a file, and what changed since.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use isochron_core::Error;
use isochron_core::plan::format_utc;
use isochron_hierarchy::health::{DatedChange, find_changes};
use isochron_hierarchy::printable::show_name;
use isochron_hierarchy::times::find_median;
use serde::{Deserialize, Serialize};

/// Version of a line.
const SCHEMA: u32 = 1;

/// Characters of the day in a moment.
const DAY: usize = "1970-01-01".len();

/// Checks for which a change is told.
const TOLD: usize = 30;

/// Last checks whose median is the usual time of a name.
const RECENT: usize = 5;

/// Seconds by name.
type NamedTimes = BTreeMap<String, f64>;

/// The times of a check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PastCheck {
    schema: u32,
    /// Its end, in seconds since 1970.
    at_s: u64,
    /// Seconds of an update of the largest size, by host, device and units.
    devices: NamedTimes,
    /// Seconds of a long message, by members and bytes.
    links: NamedTimes,
}

/// The file of earlier checks.
pub struct PastChecks {
    path: PathBuf,
    file: File,
    checks: Vec<PastCheck>,
    /// Bytes of its whole lines: a check that was stopped while it wrote leaves half a line.
    whole_bytes: u64,
}

/// A device or link that has changed.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct ChangeDocument {
    /// Host, device and size, or members and bytes.
    name: String,
    /// The day of the first check that shows it (UTC).
    since: String,
    /// Number of checks from that one on.
    checks: usize,
    /// Its times then over those before.
    factor: f64,
}

impl PastChecks {
    /// Opens a file of checks, which is new if there is none yet.
    ///
    /// # Errors
    /// Returns [`Error::File`] if the file cannot be read or written, or if a whole line of it is no check.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let open = || -> io::Result<(File, String)> {
            let mut file = OpenOptions::new().create(true).read(true).append(true).open(path)?;
            let mut text = String::new();
            file.read_to_string(&mut text)?;
            Ok((file, text))
        };
        let (file, text) = open().map_err(|error| Error::file(path, error))?;
        let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
        let mut checks: Vec<PastCheck> = Vec::new();
        for (index, line) in whole.lines().enumerate() {
            let fail = |reason: String| Error::file(path, format!("line {}: {reason}", index + 1));
            let check: PastCheck =
                serde_json::from_str(line).map_err(|error| fail(error.to_string()))?;
            if check.schema != SCHEMA {
                return Err(fail(format!("it is of version {}, not {SCHEMA}", check.schema)));
            }
            checks.push(check);
        }
        Ok(Self { path: path.to_owned(), file, checks, whole_bytes: whole.len() as u64 })
    }

    /// Adds the times of devices and of links in a check that ended at this moment, in seconds since 1970, to the file, and lists what has changed.
    ///
    /// # Errors
    /// Returns [`Error::Output`] if the file cannot be written.
    pub fn add(
        &mut self,
        [devices, links]: [NamedTimes; 2],
        at_s: u64,
    ) -> Result<Vec<ChangeDocument>, Error> {
        let check = PastCheck { schema: SCHEMA, at_s, devices, links };
        let line =
            serde_json::to_string(&check).map_err(|error| Error::output(&self.path, error))?;
        let cut = self.file.set_len(self.whole_bytes);
        cut.and_then(|()| self.file.write_all(format!("{line}\n").as_bytes()))
            .map_err(|error| Error::output(&self.path, error))?;
        self.checks.push(check);
        Ok(self.list_changes())
    }

    /// Returns the median seconds of a device in the last checks that have it.
    pub fn find_recent(&self, device: &str) -> Option<f64> {
        let times_s = self.checks.iter().rev().filter_map(|check| check.devices.get(device));
        let recent: Vec<f64> = times_s.take(RECENT).copied().collect();
        (!recent.is_empty()).then(|| find_median(&recent))
    }

    /// Lists the devices and links that have changed in the last checks.
    fn list_changes(&self) -> Vec<ChangeDocument> {
        let of_devices: Vec<NamedTimes> =
            self.checks.iter().map(|check| check.devices.clone()).collect();
        let of_links: Vec<NamedTimes> =
            self.checks.iter().map(|check| check.links.clone()).collect();
        let found = [of_devices, of_links].into_iter().flat_map(|checks| find_changes(&checks));
        let told = found.filter(|change| change.check + TOLD >= self.checks.len());
        told.map(|change| self.describe(change)).collect()
    }

    fn describe(&self, change: DatedChange) -> ChangeDocument {
        ChangeDocument {
            name: change.name,
            since: format_utc(self.checks[change.check].at_s)[..DAY].to_owned(),
            checks: self.checks.len() - change.check,
            factor: change.factor,
        }
    }
}

impl ChangeDocument {
    /// Returns the change in words.
    pub fn describe(&self) -> String {
        let slower = if self.factor > 1.0 { "slower" } else { "faster" };
        let part = 100.0 * (self.factor - 1.0).abs();
        let (name, since, checks) = (show_name(&self.name), &self.since, self.checks);
        format!("{name} is {part:.1} % {slower} than before {since} ({checks} checks)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(number: u64, slow_s: f64) -> PastCheck {
        let names = ["a", "b", "c"].map(|name| (name.to_owned(), 1.0));
        let devices = names.into_iter().chain([("d".to_owned(), slow_s)]).collect();
        PastCheck { schema: SCHEMA, at_s: number * 86_400, devices, links: BTreeMap::new() }
    }

    #[test]
    fn a_change_is_dated_and_torn_or_foreign_lines_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("checks.jsonl");
        let mut history = PastChecks::open(&path).unwrap();
        history.checks =
            (0..15).map(|number| check(number, if number < 12 { 1.0 } else { 1.01 })).collect();
        let changes = history.list_changes();
        assert_eq!(changes.len(), 1);
        assert_eq!(changes[0].describe(), "d is 1.0 % slower than before 1970-01-13 (3 checks)");
        assert_eq!([history.find_recent("d"), history.find_recent("e")], [Some(1.01), None]);
        let line = serde_json::to_string(&history.checks[0]).unwrap();
        std::fs::write(&path, format!("{line}\n{line}\n{{\"at")).unwrap();
        let read = PastChecks::open(&path).unwrap();
        assert_eq!((read.checks.len(), read.whole_bytes), (2, 2 * (line.len() as u64 + 1)));
        assert!(PastChecks::open(&folder.path().join("missing/checks.jsonl")).is_err());
        for (text, reason) in [
            ("{}\n".to_owned(), "line 1: missing field"),
            (format!("{line}\n{}\n", line.replace(":1,", ":2,")), "line 2: it is of version 2"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = PastChecks::open(&path).err().expect("refused").to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
