//! The entry of all ranks into a collective call, with the same arguments.

use std::fmt::Display;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use serde::Serialize;

use super::agree::agree;
use super::contract::Comm;
use super::settings::{Settings, add_fields, add_long, add_setting, describe_differences};
use crate::error::Error;

/// The name under which the calls themselves are compared.
const CALL: &str = "the call";

/// A collective call that this rank is about to enter, and its arguments.
pub(crate) struct CollectiveCall<'c> {
    comm: &'c dyn Comm,
    name: &'static str,
    arguments: Settings,
}

/// A collective call under way. If this rank panics in it, the others wait for it no longer.
pub(crate) struct EnteredCall<'c> {
    comm: &'c dyn Comm,
    name: &'static str,
}

impl<'c> CollectiveCall<'c> {
    /// Begins with no arguments. The name is what the call does, in words of all languages, such as `planning`.
    pub(crate) fn new(comm: &'c dyn Comm, name: &'static str) -> Self {
        Self { comm, name, arguments: Settings::new() }
    }

    /// Adds an argument, or the fields of one that has some. A float that is not finite counts as not given.
    pub(crate) fn with(mut self, name: &str, value: &impl Serialize) -> Self {
        add_setting(&mut self.arguments, name, value);
        self
    }

    /// Adds settings that are described already.
    pub(crate) fn with_settings(mut self, settings: Settings) -> Self {
        self.arguments.extend(settings);
        self
    }

    /// Adds the fields of a configuration by their own names.
    pub(crate) fn with_fields(mut self, configuration: &impl Serialize) -> Self {
        add_fields(&mut self.arguments, configuration);
        self
    }

    /// Adds an argument by its text.
    pub(crate) fn with_text(mut self, name: &str, value: impl Display) -> Self {
        self.arguments.insert(name.to_owned(), value.to_string());
        self
    }

    /// Adds a file or a folder.
    pub(crate) fn with_path(self, name: &str, path: &Path) -> Self {
        self.with_text(name, path.display())
    }

    /// Adds a long argument by words for it, such as `a plan`. It is compared by a number that is the same for equal ones.
    pub(crate) fn with_long(mut self, name: &str, words: &str, value: &impl Serialize) -> Self {
        add_long(&mut self.arguments, name, words, value);
        self
    }

    /// Enters the call, if all ranks enter the same one with the same arguments.
    ///
    /// # Errors
    /// Returns [`Error::Settings`] on every rank, with the arguments that differ, their values and the ranks that have
    /// them.
    ///
    /// # Collective
    /// All ranks.
    pub(crate) fn enter(self) -> Result<EnteredCall<'c>, Error> {
        self.enter_with(Ok(())).map(|(call, ())| call)
    }

    /// Enters the call as [`enter`](Self::enter) does, if no rank has failed to prepare it, and returns what this rank has
    /// prepared. It waits once for the others.
    ///
    /// # Collective
    /// All ranks.
    pub(crate) fn enter_with<V>(
        self,
        prepared: Result<V, Error>,
    ) -> Result<(EnteredCall<'c>, V), Error> {
        let Self { comm, name, arguments } = self;
        let number = hash_arguments(&arguments);
        enter_call(comm, name, number, || arguments, prepared)
    }
}

/// Returns a hash of the arguments.
pub(crate) fn hash_arguments(arguments: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    arguments.hash(&mut hasher);
    hasher.finish()
}

/// Enters a call as [`CollectiveCall::enter_with`] does. Ranks compare `number`; `describe` is called only if numbers differ.
///
/// # Collective
/// All ranks.
pub(crate) fn enter_call<'c, V>(
    comm: &'c dyn Comm,
    name: &'static str,
    number: u64,
    describe: impl FnOnce() -> Settings,
    prepared: Result<V, Error>,
) -> Result<(EnteredCall<'c>, V), Error> {
    // The number of every rank, with that of the call, and the number of failures.
    let mut words = vec![0; comm.size() + 1];
    words[comm.rank()] = hash_arguments(&(name, number));
    words[comm.size()] = u64::from(prepared.is_err());
    if let Err(lost) = comm.sum_u64(&mut words) {
        return Err(prepared.err().unwrap_or(lost));
    }
    let (numbers, failures) = words.split_at(comm.size());
    if numbers.iter().any(|number| *number != numbers[0]) {
        let calls = comm.gather(&Settings::from([(CALL.to_owned(), name.to_owned())]))?;
        let all = comm.gather(&describe())?;
        let differences = match describe_differences(&calls) {
            same if same.is_empty() => format!("{name}: {}", describe_differences(&all)),
            calls => calls,
        };
        return Err(Error::Settings(differences));
    }
    let prepared = if failures == [0] { prepared? } else { agree(comm, prepared)? };
    Ok((EnteredCall { comm, name }, prepared))
}

impl Drop for EnteredCall<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.comm.abandon(&format!("it panicked while {}", self.name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::LocalComm;
    use super::*;

    #[test]
    fn arguments_are_shown_as_a_user_writes_them() {
        let comm = LocalComm::new();
        let call = CollectiveCall::new(&comm, "planning")
            .with("block", &64)
            .with_path("file", Path::new("/a/b"))
            .with_long("plan", "a plan", &[1, 2]);
        assert_eq!((&*call.arguments["block"], &*call.arguments["file"]), ("64", "/a/b"));
        assert!(call.arguments["plan"].starts_with("a plan\u{1f}"));
        assert!(call.enter().is_ok());
    }
}
