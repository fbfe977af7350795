//! Tables of the fields of documents, made from their schemas.

use std::{ptr, slice};

use serde_json::Value;

/// Returns a Markdown table of the fields of a schema: keys in alphabetical order, with `[]` for an element of a list.
pub(super) fn format_fields(schema: &Value) -> String {
    let mut fields = FieldTable { root: schema, within: Vec::new(), rows: Vec::new() };
    fields.add(schema, "");
    let mut table = "| key | type | meaning |\n|---|---|---|\n".to_owned();
    for row in &fields.rows {
        table += row;
    }
    table
}

/// The table of the fields of a schema.
struct FieldTable<'s> {
    root: &'s Value,
    /// The definitions whose fields are being added. A part that holds parts like itself is shown once.
    within: Vec<&'s Value>,
    rows: Vec<String>,
}

impl<'s> FieldTable<'s> {
    /// Adds the fields of a schema, whose objects stand at this path.
    fn add(&mut self, schema: &'s Value, path: &str) {
        let target = self.follow_reference(schema);
        let is_known = self.within.iter().any(|within| ptr::eq(*within, target));
        // A document within another one has a version, and a table of its own.
        let is_document = !ptr::eq(self.root, target) && !target["properties"]["schema"].is_null();
        if is_known || is_document {
            return;
        }
        self.within.push(target);
        for choice in list_choices(target) {
            self.add(choice, path);
        }
        if let Some(items) = target.get("items") {
            self.add(items, &format!("{path}[]"));
        }
        for (name, field) in target["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            let shown = path.trim_start_matches('.');
            let kind = self.name_type(field);
            let text = field["description"].as_str().unwrap_or_default();
            let row = format!("| `{shown}` | {kind} | {text} |\n");
            // Several choices may share a field.
            if !self.rows.contains(&row) {
                self.rows.push(row);
            }
            self.add(field, &path);
        }
        self.within.pop();
    }

    /// Returns the definition that a schema refers to, or the schema.
    fn follow_reference(&self, schema: &'s Value) -> &'s Value {
        let pointer = schema["$ref"].as_str().and_then(|text| text.strip_prefix('#'));
        pointer.and_then(|pointer| self.root.pointer(pointer)).unwrap_or(schema)
    }

    /// Returns the type of a field in words, or its values.
    fn name_type(&self, field: &'s Value) -> String {
        let mut kinds = Vec::new();
        self.collect_kinds(field, &mut kinds);
        if kinds.is_empty() {
            return "any".to_owned();
        }
        kinds.sort_by_key(|kind| kind == "null");
        let are_values = kinds.first().is_some_and(|kind| kind.starts_with('`'));
        if are_values && kinds.last().is_some_and(|kind| kind == "null") {
            kinds.pop();
            kinds.push("`null`".to_owned());
        }
        kinds.join(if are_values { ", " } else { " or " })
    }

    /// Collects the types of a field and its values, each once.
    fn collect_kinds(&self, field: &'s Value, kinds: &mut Vec<String>) {
        let target = self.follow_reference(field);
        // A field may have some of the values of its type.
        let values = [field, target].into_iter().find_map(list_values);
        let found: Vec<String> = if let Some(values) = values {
            let texts = values.iter().map(|value| format!("`{value}`"));
            texts.map(|text| text.replace('"', "")).collect()
        } else {
            let types = match &target["type"] {
                Value::Array(names) => names,
                name => slice::from_ref(name),
            };
            let names = types.iter().filter_map(Value::as_str);
            names.map(|name| self.name_kind(name, target)).collect()
        };
        for kind in found {
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        if values.is_none() {
            list_choices(target).for_each(|choice| self.collect_kinds(choice, kinds));
        }
    }

    /// Returns a type of a field in words.
    fn name_kind(&self, name: &str, field: &'s Value) -> String {
        if name == "array" { self.name_list(field) } else { name.to_owned() }
    }

    /// Returns the type of a list in words.
    fn name_list(&self, list: &'s Value) -> String {
        match self.name_type(list.get("items").unwrap_or(&list["prefixItems"][0])) {
            values if values.starts_with('`') => format!("list of {values}"),
            lists if lists.starts_with("list") => {
                format!("list of {}", lists.replacen("list", "lists", 1))
            }
            name => format!("list of {name}s"),
        }
    }
}

/// Lists the values that a schema allows; `None` if it names none.
fn list_values(schema: &Value) -> Option<&[Value]> {
    let value = schema.get("const").map(slice::from_ref);
    value.or_else(|| Some(schema["enum"].as_array()?.as_slice()))
}

/// Lists the schemas of which one holds.
fn list_choices(schema: &Value) -> impl Iterator<Item = &Value> {
    ["anyOf", "oneOf"].iter().flat_map(|keyword| schema[*keyword].as_array().into_iter().flatten())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_their_types_and_meanings() {
        let schema = serde_json::json!({
            "properties": {
                "part": { "$ref": "#/$defs/part", "description": "The part." },
                "fact": { "description": "A fact." },
                "speed": { "type": ["number", "null"], "description": "Units per second." },
                "way": {
                    "anyOf": [{ "$ref": "#/$defs/way" }, { "type": "null" }], "description": "The way."
                },
                "areas": {
                    "type": "array",
                    "items": { "type": "array", "items": { "type": "integer" } },
                    "description": "Areas.",
                },
            },
            "$defs": {
                "part": {
                    "type": "object",
                    "properties": {
                        "parts": {
                            "type": "array",
                            "items": { "$ref": "#/$defs/part" },
                            "description": "Parts in it.",
                        }
                    },
                },
                "way": { "oneOf": [{ "const": "a" }, { "const": "b" }] },
            },
        });
        let rows = "\
| key | type | meaning |
|---|---|---|
| `areas` | list of lists of integers | Areas. |
| `fact` | any | A fact. |
| `part` | object | The part. |
| `part.parts` | list of objects | Parts in it. |
| `speed` | number or null | Units per second. |
| `way` | `a`, `b`, `null` | The way. |
";
        assert_eq!(format_fields(&schema), rows);
    }
}
