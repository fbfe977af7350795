//! A strict reader of the JSON Schemas in `docs/schema`: the part of the standard that they use, and nothing else.
//!
//! An unknown keyword is an error, as is a property that a schema does not list. The reader also notes which properties
//! documents had, so that a schema cannot describe what no document has.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::pages::read_file;

/// The keywords that say nothing about a document.
const REMARKS: [&str; 6] = [
    "$schema",
    "$id",
    "$defs",
    "$comment",
    "title",
    "description",
];

/// A schema, and what documents have shown of it.
pub struct Schema {
    root: Value,
    seen: BTreeSet<String>,
}

/// Reads `docs/schema/NAME.schema.json`.
pub fn load_schema(name: &str) -> Value {
    let text = read_file(format!("docs/schema/{name}.schema.json"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

impl Schema {
    /// Reads a schema.
    pub fn new(name: &str) -> Self {
        Self {
            root: load_schema(name),
            seen: BTreeSet::new(),
        }
    }

    /// Checks a document.
    ///
    /// # Errors
    /// The place in the document, and the reason.
    pub fn check(&mut self, document: &Value) -> Result<(), String> {
        let root = self.root.clone();
        let checker = Checker { root: &root };
        checker.check(&root, document, "", &mut self.seen)
    }

    /// Returns the properties that no document had, less those whose description says that they are rare.
    pub fn unseen(&self) -> Vec<String> {
        let mut all = BTreeSet::new();
        collect_properties(&self.root, &mut all);
        all.difference(&self.seen).cloned().collect()
    }
}

struct Checker<'a> {
    root: &'a Value,
}

impl Checker<'_> {
    fn check(
        &self,
        schema: &Value,
        value: &Value,
        at: &str,
        seen: &mut BTreeSet<String>,
    ) -> Result<(), String> {
        let Some(schema) = schema.as_object() else {
            let allowed = schema
                .as_bool()
                .expect("a schema is an object or a truth value");
            return if allowed {
                Ok(())
            } else {
                Err(format!("{at}: not allowed"))
            };
        };
        for (keyword, rule) in schema {
            let outcome = match keyword.as_str() {
                "$ref" => self.check(&self.resolve(rule), value, at, seen),
                "type" => check_type(rule, value),
                "enum" => ensure_that(as_list(rule).contains(value), "not one of the values"),
                "const" => ensure_that(rule == value, "another value"),
                "minimum" => check_minimum(rule, value),
                "properties" => self.check_properties(rule, value, at, seen),
                "required" => check_required(rule, value),
                "additionalProperties" => self.check_others(schema, value, at, seen),
                "items" => self.check_items(rule, value, at, seen),
                "minItems" => ensure_that(length_of(value) >= rule.as_u64(), "too short"),
                "maxItems" => ensure_that(length_of(value) <= rule.as_u64(), "too long"),
                "oneOf" => self.check_one(rule, value, at, seen),
                _ => ensure_that(
                    REMARKS.contains(&keyword.as_str()),
                    "unknown keyword in the schema",
                ),
            };
            outcome.map_err(|reason| {
                if reason.starts_with('/') {
                    reason
                } else {
                    format!(
                        "{}: {keyword}: {reason}: {value}",
                        if at.is_empty() { "/" } else { at }
                    )
                }
            })?;
        }
        Ok(())
    }

    /// Returns the definition that `#/$defs/NAME` refers to.
    fn resolve(&self, reference: &Value) -> Value {
        let pointer = reference.as_str().and_then(|text| text.strip_prefix('#'));
        pointer
            .and_then(|pointer| self.root.pointer(pointer))
            .unwrap_or_else(|| panic!("{reference} is not defined"))
            .clone()
    }

    fn check_properties(
        &self,
        rule: &Value,
        value: &Value,
        at: &str,
        seen: &mut BTreeSet<String>,
    ) -> Result<(), String> {
        for (name, schema) in as_object(rule) {
            if let Some(value) = value.get(name) {
                seen.insert(identify_property(name, schema));
                self.check(schema, value, &format!("{at}/{name}"), seen)?;
            }
        }
        Ok(())
    }

    fn check_others(
        &self,
        schema: &Map<String, Value>,
        value: &Value,
        at: &str,
        seen: &mut BTreeSet<String>,
    ) -> Result<(), String> {
        let known = schema.get("properties").map(as_object);
        let rule = &schema["additionalProperties"];
        for (name, value) in value.as_object().into_iter().flatten() {
            if known.is_none_or(|known| !known.contains_key(name)) {
                self.check(rule, value, &format!("{at}/{name}"), seen)?;
            }
        }
        Ok(())
    }

    fn check_items(
        &self,
        rule: &Value,
        value: &Value,
        at: &str,
        seen: &mut BTreeSet<String>,
    ) -> Result<(), String> {
        let items = value.as_array().into_iter().flatten().enumerate();
        for (index, item) in items {
            self.check(rule, item, &format!("{at}/{index}"), seen)?;
        }
        Ok(())
    }

    fn check_one(
        &self,
        rule: &Value,
        value: &Value,
        at: &str,
        seen: &mut BTreeSet<String>,
    ) -> Result<(), String> {
        let mut reasons = Vec::new();
        let mut matching = 0;
        for schema in as_list(rule) {
            let mut shown = seen.clone();
            match self.check(schema, value, at, &mut shown) {
                Ok(()) => {
                    matching += 1;
                    *seen = shown;
                }
                Err(reason) => reasons.push(reason),
            }
        }
        ensure_that(
            matching == 1,
            &format!("{matching} fit ({})", reasons.join("; ")),
        )
    }
}

fn ensure_that(holds: bool, otherwise: &str) -> Result<(), String> {
    if holds {
        Ok(())
    } else {
        Err(otherwise.to_owned())
    }
}

fn check_type(rule: &Value, value: &Value) -> Result<(), String> {
    let allowed = match rule {
        Value::Array(names) => names.iter().any(|name| is_of_type(name, value)),
        name => is_of_type(name, value),
    };
    ensure_that(allowed, &format!("not {rule}"))
}

fn is_of_type(name: &Value, value: &Value) -> bool {
    match name.as_str() {
        Some("null") => value.is_null(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_u64() || value.is_i64(),
        Some("number") => value.is_number(),
        Some("string") => value.is_string(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        _ => panic!("{name} is not a type"),
    }
}

fn check_minimum(rule: &Value, value: &Value) -> Result<(), String> {
    let least = rule.as_f64().expect("a number");
    ensure_that(
        value.as_f64().is_none_or(|number| number >= least),
        "too small",
    )
}

fn check_required(rule: &Value, value: &Value) -> Result<(), String> {
    let Some(value) = value.as_object() else {
        return Ok(());
    };
    let missing: Vec<&str> = as_list(rule)
        .iter()
        .filter_map(Value::as_str)
        .filter(|name| !value.contains_key(*name))
        .collect();
    ensure_that(
        missing.is_empty(),
        &format!("without {}", missing.join(", ")),
    )
}

fn length_of(value: &Value) -> Option<u64> {
    value.as_array().map(|items| items.len() as u64)
}

fn as_list(value: &Value) -> &[Value] {
    value.as_array().expect("a list in the schema")
}

fn as_object(value: &Value) -> &Map<String, Value> {
    value.as_object().expect("an object in the schema")
}

/// Returns what tells a property from others of its name: its description.
fn identify_property(name: &str, schema: &Value) -> String {
    let description = schema["description"].as_str();
    let description = description.unwrap_or_else(|| panic!("{name} has no description"));
    format!("{name}: {description}")
}

/// Collects every property of a schema that documents of a usual machine have.
fn collect_properties(schema: &Value, all: &mut BTreeSet<String>) {
    match schema {
        Value::Object(members) => {
            if let Some(properties) = members.get("properties") {
                for (name, schema) in as_object(properties) {
                    if schema.get("$comment").is_none() {
                        all.insert(identify_property(name, schema));
                        collect_properties(schema, all);
                    }
                }
            }
            for (_, schema) in members.iter().filter(|(name, _)| *name != "properties") {
                collect_properties(schema, all);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_properties(item, all)),
        _ => {}
    }
}

/// Returns a Markdown table of the fields of a schema.
pub fn field_table(schema: &Value) -> String {
    let mut table = "| key | type | meaning |\n|---|---|---|\n".to_owned();
    add_rows(schema, schema, "", &mut table);
    table
}

/// Adds the fields of a schema; those of a part that holds parts once.
fn add_rows(root: &Value, schema: &Value, path: &str, table: &mut String) {
    if path.contains(".parts[].parts") {
        return;
    }
    let schema = follow_reference(root, schema);
    for choice in schema["oneOf"].as_array().into_iter().flatten() {
        add_rows(root, choice, path, table);
    }
    if let Some(items) = schema.get("items") {
        add_rows(root, items, &format!("{path}[]"), table);
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        let shown = path.trim_start_matches('.');
        let (kind, text) = (name_type(root, field), field["description"].as_str());
        let row = format!("| `{shown}` | {kind} | {} |\n", text.unwrap_or_default());
        // Several choices may share a field.
        if !table.contains(&row) {
            *table += &row;
        }
        add_rows(root, field, &path, table);
    }
}

/// Returns the definition that a schema refers to, or the schema.
fn follow_reference<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let pointer = schema["$ref"]
        .as_str()
        .and_then(|text| text.strip_prefix('#'));
    pointer.map_or(schema, |pointer| {
        root.pointer(pointer).expect("a definition")
    })
}

/// Returns the type of a field in words.
fn name_type(root: &Value, field: &Value) -> String {
    let field = follow_reference(root, field);
    if let Some(choices) = field["oneOf"].as_array() {
        let mut kinds: Vec<String> = choices
            .iter()
            .map(|choice| name_type(root, choice))
            .collect();
        kinds.sort_by_key(|kind| kind == "null");
        return kinds.join(" or ");
    }
    let values = field["enum"].as_array().cloned();
    if let Some(values) = values.or_else(|| field.get("const").map(|value| vec![value.clone()])) {
        let values: Vec<String> = values.iter().map(|value| format!("`{value}`")).collect();
        return values.join(", ").replace('"', "");
    }
    match &field["type"] {
        Value::Array(names) => {
            let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
            names.join(" or ")
        }
        name if name == "array" => match name_type(root, &field["items"]) {
            values if values.starts_with('`') => format!("list of {values}"),
            list if list.starts_with("list") => {
                format!("list of {}", list.replacen("list", "lists", 1))
            }
            name => format!("list of {name}s"),
        },
        name => name.as_str().unwrap_or("any").to_owned(),
    }
}

#[test]
fn the_reader_is_strict() {
    let root: Value = serde_json::from_str(
        r#"{"type": "object", "required": ["a"], "additionalProperties": false, "properties": {
            "a": {"description": "A number.", "type": ["number", "null"], "minimum": 1},
            "b": {"description": "A list.", "type": "array", "items": {"enum": ["x", "y"]}}}}"#,
    )
    .unwrap();
    let mut schema = Schema {
        root,
        seen: BTreeSet::new(),
    };
    for (text, fits) in [
        (r#"{"a": 1.5}"#, true),
        (r#"{"a": null, "b": ["x"]}"#, true),
        (r#"{"a": 0.5}"#, false),
        (r#"{"b": []}"#, false),
        (r#"{"a": 1, "b": ["z"]}"#, false),
        (r#"{"a": 1, "c": 1}"#, false),
    ] {
        let document = serde_json::from_str(text).unwrap();
        assert_eq!(schema.check(&document).is_ok(), fits, "{text}");
    }
    assert!(schema.unseen().is_empty());
    schema.root["pattern"] = Value::Bool(true);
    let error = schema.check(&serde_json::from_str(r#"{"a": 1}"#).unwrap());
    assert!(error.unwrap_err().contains("unknown keyword"));
}
