//! The entry of all ranks into a collective call, with the same arguments.

use std::fmt::{Debug, Display};
use std::hash::{DefaultHasher, Hash, Hasher};

use serde::Serialize;
use serde_json::Value;

use super::contract::Comm;
use super::settings::{Settings, describe_differences};
use crate::error::Error;
use crate::matrix::Spread;

/// The name under which the calls themselves are compared.
const CALL: &str = "call";

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
    /// Begins with no arguments.
    pub(crate) fn new(comm: &'c dyn Comm, name: &'static str) -> Self {
        Self {
            comm,
            name,
            arguments: Settings::new(),
        }
    }

    /// Adds an argument, or the fields of one that has some. A float that is not finite is `null`.
    pub(crate) fn with(mut self, name: &str, value: &impl Serialize) -> Self {
        let value = serde_json::to_value(value).unwrap_or_default();
        self.add_value(name.to_owned(), &value);
        self
    }

    /// Adds an argument by its text.
    pub(crate) fn with_text(mut self, name: &str, value: impl Display) -> Self {
        self.arguments.insert(name.to_owned(), value.to_string());
        self
    }

    /// Adds an argument as it is printed for programmers.
    pub(crate) fn with_debug(self, name: &str, value: &impl Debug) -> Self {
        self.with_text(name, format_args!("{value:?}"))
    }

    /// Adds a long argument by a number that is the same for equal ones.
    pub(crate) fn with_digest(self, name: &str, value: &impl Serialize) -> Self {
        let bytes = serde_json::to_vec(value).unwrap_or_default();
        self.with_text(name, format_args!("number {:08x}", crc32fast::hash(&bytes)))
    }

    /// Adds the shape of a spread, and a number that is the same for equal ones.
    pub(crate) fn with_spread(self, name: &str, spread: &Spread) -> Self {
        let (rows, cols, number) = (spread.rows(), spread.cols(), spread.fingerprint());
        self.with_text(name, format_args!("{rows}x{cols} of number {number:016x}"))
    }

    fn add_value(&mut self, name: String, value: &Value) {
        match value {
            Value::Object(fields) => {
                for (field, value) in fields {
                    self.add_value(format!("{name}.{field}"), value);
                }
            }
            value => {
                self.arguments.insert(name, value.to_string());
            }
        }
    }

    /// Enters the call, if all ranks enter the same one with the same arguments.
    ///
    /// # Errors
    /// [`Error::Settings`] on every rank, with the arguments that differ, their values and the ranks that have them.
    ///
    /// # Collective
    /// All ranks.
    pub(crate) fn enter(self) -> Result<EnteredCall<'c>, Error> {
        let Self {
            comm,
            name,
            arguments,
        } = self;
        let mut hasher = DefaultHasher::new();
        (name, &arguments).hash(&mut hasher);
        let mut hashes = vec![0; comm.size()];
        hashes[comm.rank()] = hasher.finish();
        comm.sum_u64(&mut hashes)?;
        if hashes.iter().any(|hash| *hash != hashes[0]) {
            let calls = comm.gather(&Settings::from([(CALL.to_owned(), name.to_owned())]))?;
            let all = comm.gather(&arguments)?;
            let differences = match describe_differences(&calls) {
                same if same.is_empty() => format!("{name}: {}", describe_differences(&all)),
                calls => calls,
            };
            return Err(Error::Settings(differences));
        }
        Ok(EnteredCall { comm, name })
    }
}

impl Drop for EnteredCall<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.comm.abandon(&format!("it panicked in {}", self.name));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::super::LocalComm;
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Shape {
        m: usize,
        inner: Option<f64>,
    }

    #[test]
    fn the_fields_of_an_argument_have_names_of_their_own() {
        let comm = LocalComm::new();
        let call = CollectiveCall::new(&comm, "plan")
            .with("shape", &Shape { m: 3, inner: None })
            .with_debug("alpha", &1.5)
            .with_digest("long", &[1, 2]);
        let listed: Vec<_> = call.arguments.iter().collect();
        let text = format!("{listed:?}");
        for part in [
            "(\"shape.m\", \"3\")",
            "shape.inner",
            "(\"alpha\", \"1.5\")",
            "number ",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(call.enter().is_ok());
    }
}
