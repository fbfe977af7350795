//! The state of a balanced loop, as bytes that a checkpoint keeps.

use isochron_hierarchy::rebalance::Rebalance;
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// The name of the format.
const FORMAT: &str = "isochron rebalancer";

/// The version of the format.
const VERSION: u32 = 2;

/// A machine in words, and their checksum.
#[derive(Serialize, Deserialize)]
struct SavedMachine {
    format: String,
    version: u32,
    crc32: u32,
    machine: String,
}

/// Returns the machine as bytes.
pub(super) fn save_machine(machine: &Rebalance) -> Result<Vec<u8>, Error> {
    let machine = serde_json::to_string(machine).map_err(|error| refuse_state(&error))?;
    let saved = SavedMachine {
        format: FORMAT.to_owned(),
        version: VERSION,
        crc32: crc32fast::hash(machine.as_bytes()),
        machine,
    };
    serde_json::to_vec(&saved).map_err(|error| refuse_state(&error))
}

/// Reads the machine of a communicator of `ranks` ranks.
pub(super) fn load_machine(state: &[u8], ranks: usize) -> Result<Rebalance, Error> {
    let saved: SavedMachine =
        serde_json::from_slice(state).map_err(|error| refuse_state(&error))?;
    if (saved.format.as_str(), saved.version) != (FORMAT, VERSION) {
        let found = format!("{} {}", saved.format, saved.version);
        return Err(refuse_state(&format!("{found}, where {FORMAT} {VERSION} is needed")));
    }
    if saved.crc32 != crc32fast::hash(saved.machine.as_bytes()) {
        return Err(refuse_state(&"its checksum is wrong"));
    }
    let machine: Rebalance =
        serde_json::from_str(&saved.machine).map_err(|error| refuse_state(&error))?;
    match machine.units().len() {
        parts if parts == ranks => Ok(machine),
        parts => {
            Err(refuse_state(&format!("it is of {parts} ranks, and this communicator has {ranks}")))
        }
    }
}

fn refuse_state(reason: &dyn ToString) -> Error {
    Error::parameter("state", "what was given", reason.to_string())
}
