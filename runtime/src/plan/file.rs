//! Plans in files.

use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{Plan, SCHEMA};
use crate::comm::{CollectiveCall, Comm, agree};
use crate::error::Error;
use crate::input::read_text;

/// The key of every version of the document.
#[derive(Deserialize)]
struct Version {
    schema: u32,
}

impl Plan {
    /// Reads a plan on the head rank and sends it to all.
    ///
    /// # Errors
    /// On every rank, returns [`Error::File`] when the file cannot be read or is no plan, [`Error::Plan`] or
    /// [`Error::Parameter`] when the plan is of another version, or impossible.
    ///
    /// # Collective
    /// All ranks, with the same path.
    pub fn load(comm: &dyn Comm, path: &Path) -> Result<Self, Error> {
        let _call = CollectiveCall::new(comm, "loading a plan").with_path("file", path).enter()?;
        let read = match comm.rank() {
            0 => read_text(path).map_err(|error| Error::file(path, error)),
            _ => Ok(String::new()),
        };
        let mut bytes = agree(comm, read)?.into_bytes();
        comm.broadcast(0, &mut bytes)?;
        Self::parse(&bytes, path)
    }

    fn parse(bytes: &[u8], path: &Path) -> Result<Self, Error> {
        let Version { schema } = parse_json(bytes, path)?;
        if schema != SCHEMA {
            let reason = format!("it is of version {schema}, not {SCHEMA}");
            return Err(Error::Plan(reason));
        }
        let mut plan = parse_json::<Self>(bytes, path)?.without_fit();
        plan.check()?;
        plan.note_file(path);
        Ok(plan)
    }

    /// Notes the file that the plan was read from.
    pub(crate) fn note_file(&mut self, path: &Path) {
        self.file = Some(path.to_owned());
    }
}

fn parse_json<T: DeserializeOwned>(bytes: &[u8], path: &Path) -> Result<T, Error> {
    serde_json::from_slice(bytes).map_err(|error| {
        Error::file(path, format!("no plan: {error}; `isochron mxm --save-plan` writes plans"))
    })
}
