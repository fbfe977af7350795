//! The versions of the formats of the commands' documents.

use serde::{Serialize, Serializer};

/// The version of a document's format: its first field, which is the same in all documents of a command.
#[derive(Debug, Clone, Copy)]
pub struct FormatVersion<const VERSION: u32>;

impl<const VERSION: u32> Serialize for FormatVersion<VERSION> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(VERSION)
    }
}

#[cfg(feature = "schemars")]
impl<const VERSION: u32> schemars::JsonSchema for FormatVersion<VERSION> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("FormatVersion{VERSION}").into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "integer", "const": VERSION })
    }
}
