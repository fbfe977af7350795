//! The check of a store: what of it can be read.

use isochron_core::store::StoreFolder;
use serde::Serialize;

use super::folders::{Folders, name_path};
use crate::documents::FormatVersion;
use crate::failure::Failure;
use crate::lines::count;
use crate::output::Answer;

/// The findings of a check.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub(crate) struct StoreCheck {
    /// Version of the format.
    schema: FormatVersion<1>,
    /// `true` if no segment is broken, and every folder that `ISOCHRON_STORE` names exists.
    is_sound: bool,
    /// Whole segments.
    whole: u64,
    /// Broken segments.
    broken: u64,
    /// Segments of other versions, and those that cannot be opened.
    unread: u64,
    /// Broken segments that jobs have set aside.
    set_aside: u64,
    /// Other files, which killed jobs left behind.
    leftovers: u64,
    /// The folders and segments that are not read, each with the reason, one line each.
    findings: Vec<String>,
}

impl StoreCheck {
    /// Checks every segment of every folder.
    pub(super) fn read(folders: &Folders) -> Result<Self, Failure> {
        let missing = folders.list_missing().into_iter();
        let missing = missing.map(|folder| format!("{folder} does not exist"));
        let mut check = Self {
            schema: FormatVersion,
            is_sound: true,
            whole: 0,
            broken: 0,
            unread: 0,
            set_aside: 0,
            leftovers: 0,
            findings: missing.collect(),
        };
        check.is_sound = check.findings.is_empty();
        for folder in &folders.all {
            check.read_folder(folder).map_err(|error| Failure::of_file(folder.root(), error))?;
        }
        check.is_sound &= check.broken == 0;
        Ok(check)
    }

    fn read_folder(&mut self, folder: &StoreFolder) -> std::io::Result<()> {
        self.findings.extend(folder.name_newer());
        for segment in folder.find_all()? {
            match &segment.runs {
                Ok(_) => self.whole += 1,
                Err(reason) => {
                    self.broken += u64::from(segment.is_corrupt);
                    self.unread += u64::from(!segment.is_corrupt);
                    let path = name_path(&segment.path);
                    self.findings.push(format!("{path}: {reason}"));
                }
            }
        }
        for path in folder.find_leftovers()? {
            if StoreFolder::is_set_aside(&path) { self.set_aside += 1 } else { self.leftovers += 1 }
        }
        Ok(())
    }

    /// Formats the findings for people.
    pub(super) fn format(&self) -> String {
        let mut text: String = self.findings.iter().map(|finding| format!("{finding}\n")).collect();
        text += &format!(
            "{} whole, {} broken, {} not read; {} set aside, {}\n",
            count(self.whole, "segment"),
            self.broken,
            self.unread,
            self.set_aside,
            count(self.leftovers, "leftover")
        );
        text
    }

    /// Answers by the findings; a store that is not sound is a failure, whose text is the answer for people.
    pub(super) fn answer(&self, is_json: bool) -> Result<Answer, Failure> {
        if self.is_sound {
            return Answer::new(is_json, self, Self::format);
        }
        let failure = if is_json {
            Failure::run("the store is not sound")
        } else {
            Failure::run(self.format().trim_end())
        };
        let answer = Answer::new(is_json, self, |_| String::new())?;
        Ok(answer.with_failure(failure))
    }
}
