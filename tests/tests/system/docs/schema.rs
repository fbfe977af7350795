//! The schemas of documents and the tables of their fields, as the command writes them with its manuals.

use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;

use isochron_tests::launch::{HANGS, open_mpi, run};
use jsonschema::Validator;
use serde_json::Value;
use tempfile::TempDir;

use super::pages::read_file;

/// The folder of the manuals.
static MANUALS: LazyLock<TempDir> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    let mpi = open_mpi();
    let mut command = Command::new(&mpi.isochron);
    command.arg("write-manuals").arg(folder.path());
    run(command, HANGS).success();
    folder
});

/// Returns the path of a schema or of a table of fields.
fn find_schema(file: &str) -> PathBuf {
    MANUALS.path().join("isochron/schemas").join(file)
}

/// Lists the names of all schemas.
pub fn list_schemas() -> Vec<String> {
    let entries = find_schema("").read_dir().expect("the schemas");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<String> = names
        .filter_map(|name| Some(name.to_str()?.strip_suffix(".schema.json")?.to_owned()))
        .collect();
    names.sort();
    names
}

/// Returns the table of the fields of a document.
pub fn field_table(name: &str) -> String {
    read_file(find_schema(&format!("{name}.md")))
}

/// The schema of a document.
pub struct Schema(Validator);

impl Schema {
    /// Reads a schema.
    pub fn new(name: &str) -> Self {
        let text = read_file(find_schema(&format!("{name}.schema.json")));
        let schema = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let validator = jsonschema::draft202012::new(&schema);
        Self(validator.unwrap_or_else(|error| panic!("{name}: {error}")))
    }

    /// Checks a document.
    ///
    /// # Errors
    /// Returns the places in the document, each with the reason.
    pub fn check(&self, document: &Value) -> Result<(), String> {
        let errors = self.0.iter_errors(document);
        let errors: Vec<String> =
            errors.map(|error| format!("{}: {error}", error.instance_path())).collect();
        if errors.is_empty() {
            return Ok(());
        }
        Err(errors.join("\n"))
    }

    /// Checks that the schema refuses a document with one property more, in whichever object but those at and within the place
    /// `open`, and with one less.
    pub fn check_strictness(&self, document: &Value, open: Option<&str>) {
        let places = list_objects(document, String::new());
        let is_open = |place: &str| open.is_some_and(|open| place.starts_with(open));
        for place in places.into_iter().filter(|place| !is_open(place)) {
            let mut changed = document.clone();
            let object = changed.pointer_mut(&place).and_then(Value::as_object_mut);
            let object = object.expect("an object of the document");
            object.insert("not_a_property".to_owned(), Value::Null);
            assert!(self.check(&changed).is_err(), "{place} has an unknown property");
        }
        let mut changed = document.clone();
        let object = changed.as_object_mut().expect("an object");
        if object.remove("schema").is_some() {
            assert!(self.check(&changed).is_err(), "the version is missing");
        }
    }
}

/// Lists the objects in a value, by their pointers.
fn list_objects(value: &Value, place: String) -> Vec<String> {
    match value {
        Value::Object(members) => {
            let inner = members
                .iter()
                .flat_map(|(name, value)| list_objects(value, format!("{place}/{name}")));
            let mut all: Vec<String> = inner.collect();
            all.push(place);
            all
        }
        Value::Array(items) => items
            .iter()
            .enumerate()
            .flat_map(|(index, value)| list_objects(value, format!("{place}/{index}")))
            .collect(),
        _ => Vec::new(),
    }
}
