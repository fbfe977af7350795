//! JSON Schemas of the commands' documents, and tables of their fields, derived from the types that are written and read.

mod fields;

use std::fs;
use std::io;
use std::path::Path;

use isochron_campaign::{
    CampaignComparison, CampaignPlan, CampaignReport, CampaignStatus, Repetition,
};
use isochron_core::internal::SegmentLine;
use isochron_core::plan::{Plan, PlanSearch};
use isochron_core::report::Report;
use isochron_core::session::PlatformSpec;
use schemars::generate::SchemaSettings;
use schemars::transform::transform_subschemas;
use schemars::{JsonSchema, Schema};
use serde_json::Value;

use self::fields::format_fields;
use crate::balance::BalanceDocument;
use crate::check::CheckAnswer;
use crate::health::document::HealthDocument;
use crate::layout::LayoutAnswer;
use crate::links::document::LinksDocument;
use crate::measure::report::MeasureDocument;
use crate::models::diff::ModelDifference;
use crate::models::edit::StoreChange;
use crate::models::list::ModelList;
use crate::models::show::document::ModelsDocument;
use crate::models::verify::StoreCheck;
use crate::partition::PartitionAnswer;
use crate::simulate::SimulateDocument;
use crate::topology::TopologyDocument;
use crate::trace_model::report::TraceDocument;

/// The folder of the schemas and of the tables of fields in a `share` folder.
const SCHEMAS: &str = "isochron/schemas";

/// A document with its schema.
struct DocumentSchema {
    name: &'static str,
    schema: Value,
}

/// Writes the schema of each document and a table of its fields into a `share` folder, as `NAME.schema.json` and `NAME.md`.
pub fn write_schemas(share: &Path) -> io::Result<()> {
    let folder = share.join(SCHEMAS);
    fs::create_dir_all(&folder)?;
    for DocumentSchema { name, schema } in list_schemas() {
        let text = serde_json::to_string_pretty(&schema)? + "\n";
        fs::write(folder.join(format!("{name}.schema.json")), text)?;
        fs::write(folder.join(format!("{name}.md")), format_fields(&schema))?;
    }
    Ok(())
}

/// Lists the schemas of the documents in `docs/formats.md`.
fn list_schemas() -> Vec<DocumentSchema> {
    let written = SchemaSettings::draft2020_12().for_serialize();
    let read = SchemaSettings::draft2020_12().for_deserialize();
    vec![
        describe::<PlatformSpec>(read, "platform", "platform file"),
        describe::<Report>(written.clone(), "report", "report"),
        describe::<CheckAnswer>(written.clone(), "check", "result check"),
        describe::<Plan>(written.clone(), "plan", "saved plan"),
        describe::<PlanSearch>(written.clone(), "planned", "predicted plans"),
        describe::<SimulateDocument>(written.clone(), "simulated", "simulated plan"),
        describe::<TopologyDocument<'_>>(written.clone(), "topology", "topology"),
        describe::<MeasureDocument>(written.clone(), "measure", "kernel speeds"),
        describe::<HealthDocument>(written.clone(), "health", "health"),
        describe::<LinksDocument>(written.clone(), "links", "links"),
        describe::<TraceDocument>(written.clone(), "trace-model", "traced models"),
        describe::<BalanceDocument>(written.clone(), "balance", "balance"),
        describe::<PartitionAnswer>(written.clone(), "partition", "partition"),
        describe::<LayoutAnswer<'_>>(written.clone(), "layout", "layout"),
        describe::<ModelList>(written.clone(), "models-list", "model list"),
        describe::<ModelsDocument<'_>>(written.clone(), "models-show", "models"),
        describe::<ModelDifference>(written.clone(), "models-diff", "model difference"),
        describe::<StoreChange>(written.clone(), "models-edit", "store change"),
        describe::<StoreCheck>(written.clone(), "models-verify", "store check"),
        describe::<SegmentLine<'_>>(written.clone(), "segment", "segment"),
        describe::<CampaignPlan>(written.clone(), "campaign-plan", "campaign plan"),
        describe::<CampaignStatus>(written.clone(), "campaign-status", "campaign status"),
        describe::<CampaignReport>(written.clone(), "campaign-report", "campaign report"),
        describe::<CampaignComparison>(
            written.clone(),
            "campaign-compare",
            "comparison of campaigns",
        ),
        describe::<Repetition>(written, "repetition", "repetition"),
    ]
}

/// Derives the schema of a document from its type.
fn describe<D: JsonSchema>(
    settings: SchemaSettings,
    name: &'static str,
    title: &str,
) -> DocumentSchema {
    let mut schema = settings.into_generator().into_root_schema_for::<D>();
    tidy_schema(&mut schema);
    schema.insert("title".to_owned(), format!("Isochron {title}").into());
    let mut schema = schema.to_value();
    close_objects(&mut schema, false);
    DocumentSchema { name, schema }
}

/// Keeps what users of a document need: removes titles, formats and defaults of Rust types, links, and all but the first paragraph
/// of each description.
fn tidy_schema(schema: &mut Schema) {
    for keyword in ["title", "format", "default"] {
        schema.remove(keyword);
    }
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = tidy_description(text);
    }
    remove_null_of_absent(schema);
    for keyword in ["anyOf", "oneOf"] {
        let choices = schema.get_mut(keyword).and_then(Value::as_array_mut);
        choices.into_iter().flatten().for_each(describe_name);
    }
    transform_subschemas(&mut tidy_schema, schema);
}

/// Removes `null` from optional properties, which are left out instead.
fn remove_null_of_absent(schema: &mut Schema) {
    let required: Vec<Value> =
        schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    let properties = properties.into_iter().flatten();
    for (_, property) in
        properties.filter(|(name, _)| !required.iter().any(|wanted| *wanted == **name))
    {
        if let Some(types) = property.get_mut("type").and_then(Value::as_array_mut) {
            types.retain(|name| name != "null");
        }
        if let Some(choices) = property.get_mut("anyOf").and_then(Value::as_array_mut) {
            choices.retain(|choice| choice["type"] != "null");
        }
    }
}

/// Describes the name of an enum's variant, which has no comment of its own, by the comment on the variant.
fn describe_name(variant: &mut Value) {
    let description = variant.get("description").cloned();
    let properties = variant.get_mut("properties").and_then(Value::as_object_mut);
    let (Some(description), Some(properties)) = (description, properties) else {
        return;
    };
    let mut names = properties
        .values_mut()
        .filter_map(Value::as_object_mut)
        .filter(|property| !property.contains_key("description"));
    if let (Some(name), None) = (names.next(), names.next()) {
        name.insert("description".to_owned(), description);
    }
}

/// Returns the first paragraph of a doc comment as one line. Links become their texts, and `None` becomes the `null` of JSON.
fn tidy_description(text: &str) -> String {
    let paragraph = text.split("\n\n").next().unwrap_or_default();
    let words: Vec<&str> = paragraph.split_whitespace().collect();
    remove_links(&words.join(" ")).replace("`None`", "`null`")
}

/// Replaces `[text]` and `[text](target)` by `text`, unless they stand in code.
fn remove_links(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(['[', '`']) {
        let (before, from) = rest.split_at(start);
        plain += before;
        let code = from[1..].find('`').filter(|_| from.starts_with('`'));
        let link = from.find(']').filter(|_| from.starts_with('['));
        if let Some(end) = code {
            plain += &from[..end + 2];
            rest = &from[end + 2..];
        } else if let Some(end) = link {
            plain += &from[1..end];
            rest = &from[end + 1..];
            if let Some(target) = rest.strip_prefix('(').and_then(|rest| rest.find(')')) {
                rest = &rest[target + 2..];
            }
        } else {
            plain.push_str(&from[..1]);
            rest = &from[1..];
        }
    }
    plain + rest
}

/// Refuses properties that a schema does not list, at each place where a whole object stands. `is_part` is `true` for one of
/// the choices that add properties to an object.
fn close_objects(schema: &mut Value, is_part: bool) {
    let Value::Object(members) = schema else {
        return;
    };
    let is_object = members.contains_key("properties");
    let mut has_choices = false;
    for (keyword, member) in members.iter_mut() {
        match (keyword.as_str(), member) {
            ("allOf" | "anyOf" | "oneOf", Value::Array(choices)) => {
                has_choices = true;
                for choice in choices {
                    close_objects(choice, is_part || is_object);
                }
            }
            ("properties" | "$defs", Value::Object(schemas)) => {
                schemas.values_mut().for_each(|schema| close_objects(schema, false));
            }
            ("items", items) => close_objects(items, false),
            _ => {}
        }
    }
    if is_object && !is_part {
        let keyword = if has_choices { "unevaluatedProperties" } else { "additionalProperties" };
        members.insert(keyword.to_owned(), Value::Bool(false));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_are_first_paragraphs_without_links() {
        for (comment, description) in [
            ("Rows of A.\n\n# Errors\nNone.", "Rows of A."),
            ("Times\nof [`Node`], in\nseconds.", "Times of `Node`, in seconds."),
            ("See [the page](https://a.b/c), `a[0]`.", "See the page, `a[0]`."),
            ("Its core; `None` if unbound.", "Its core; `null` if unbound."),
            ("In [0, 1)", "In [0, 1)"),
        ] {
            assert_eq!(tidy_description(comment), description);
        }
    }

    #[test]
    fn every_field_of_every_document_is_described() {
        for DocumentSchema { name, schema } in list_schemas() {
            for line in format_fields(&schema).lines() {
                assert!(!line.contains("|  |"), "{name}: {line}");
            }
        }
    }

    #[test]
    fn properties_that_are_not_listed_are_refused_once_for_each_object() {
        let mut schema = serde_json::json!({
            "properties": { "a": { "properties": {} } },
            "anyOf": [{ "properties": { "b": { "properties": {} } } }, {}],
            "$defs": { "choice": { "oneOf": [{ "properties": {} }, { "type": "null" }] } },
        });
        close_objects(&mut schema, false);
        let closed = serde_json::json!({
            "properties": { "a": { "properties": {}, "additionalProperties": false } },
            "anyOf": [
                { "properties": { "b": { "properties": {}, "additionalProperties": false } } }, {}
            ],
            "unevaluatedProperties": false,
            "$defs": {
                "choice": {
                    "oneOf": [{ "properties": {}, "additionalProperties": false }, { "type": "null" }]
                }
            },
        });
        assert_eq!(schema, closed);
    }
}
