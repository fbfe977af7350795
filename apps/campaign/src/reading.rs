//! Results in what a program prints.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::{Captures, Regex, RegexBuilder};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::statistics::find_median;
use crate::template::is_name;

/// Name of the value that every contender has: the seconds from its start to its end.
pub const TOOK: &str = "took_s";

/// The results of a contender as its file describes them.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawResult {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json: Option<JsonPlaces>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regex: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a list of keys, or a table with a place for each name")]
pub(crate) enum JsonPlaces {
    Keys(Vec<String>),
    Places(BTreeMap<String, String>),
}

/// Values by name.
pub(crate) type Values = BTreeMap<String, f64>;

/// The rule by which results are found on standard output.
#[derive(Debug, Clone)]
pub(crate) enum ResultRule {
    /// There are no results but the time that the program takes.
    Nothing,
    /// Places in a JSON document by the names of their results, in the order of the file.
    Json(Vec<(String, String)>),
    /// A regular expression, whose named groups are results. Its last match counts.
    Regex(Regex),
}

impl ResultRule {
    pub fn new(raw: &RawResult) -> Result<Self, String> {
        let rule = match (&raw.json, &raw.regex) {
            (Some(JsonPlaces::Keys(keys)), None) => {
                let places = keys.iter().map(|key| (name_place(key), key.clone()));
                Self::Json(places.collect())
            }
            (Some(JsonPlaces::Places(places)), None) => {
                Self::Json(places.clone().into_iter().collect())
            }
            (None, Some(text)) => {
                let mut builder = RegexBuilder::new(text);
                // `^` and `$` are the ends of a line, whatever ends it.
                let built = builder.multi_line(true).crlf(true).build();
                Self::Regex(built.map_err(|error| describe_regex_error(&error))?)
            }
            _ => return Err("`result` has either `json` or `regex`".to_owned()),
        };
        let names = rule.names();
        if names.is_empty() {
            return Err(
                "no result is named: a regular expression names it by (?P<name>...)".to_owned()
            );
        }
        if names.contains(&TOOK) {
            return Err(format!(
                "`{TOOK}` is the time of the whole program: give the result another name"
            ));
        }
        match names.iter().find(|name| !is_name(name)) {
            Some(name) => Err(format!(
                "`{name}` is no name for expressions: let `json` be a table with a name for each place"
            )),
            None => Ok(rule),
        }
    }

    /// Returns the names of the results, the first one first.
    pub fn names(&self) -> Vec<&str> {
        match self {
            Self::Nothing => Vec::new(),
            Self::Json(places) => places.iter().map(|(name, _)| name.as_str()).collect(),
            Self::Regex(regex) => regex.capture_names().flatten().collect(),
        }
    }

    /// Finds the results in what a program has printed.
    ///
    /// # Errors
    /// Returns the result that is missing.
    pub fn read(&self, printed: &str) -> Result<Values, String> {
        match self {
            Self::Nothing => Ok(Values::new()),
            Self::Json(places) => {
                let document = find_document(printed).ok_or("it prints no JSON document")?;
                let values = places.iter().map(|(name, place)| {
                    let found = find_place(&document, place);
                    let found = found.ok_or_else(|| format!("it prints no number `{place}`"))?;
                    let value = read_number(found);
                    let value =
                        value.ok_or_else(|| format!("`{place}` is {found}, which is no number"))?;
                    Ok((name.clone(), value))
                });
                values.collect()
            }
            Self::Regex(regex) => {
                let found = regex.captures_iter(printed).last();
                let found =
                    found.ok_or_else(|| format!("it prints nothing that matches `{regex}`"))?;
                let values = self.names().into_iter().map(|name| {
                    let text = found.name(name).map_or("", |group| group.as_str());
                    let value = text.parse().ok().filter(|value: &f64| value.is_finite());
                    let value =
                        value.ok_or_else(|| format!("`{name}` is `{text}`, which is no number"))?;
                    Ok((name.to_owned(), value))
                });
                values.collect()
            }
        }
    }
}

/// Returns the reason in the last line of a message that shows the whole expression.
fn describe_regex_error(error: &regex::Error) -> String {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default();
    format!("`regex`: {}", last.trim_start_matches("error: "))
}

/// Returns the name of a result: a key, or the last part of a pointer.
fn name_place(place: &str) -> String {
    let pointed = place.strip_prefix('/').and_then(|parts| parts.rsplit('/').next());
    pointed.unwrap_or(place).to_owned()
}

/// Returns the value of a key, or at a JSON pointer.
fn find_place<'d>(document: &'d Value, place: &str) -> Option<&'d Value> {
    if place.starts_with('/') { document.pointer(place) } else { document.get(place) }
}

/// Returns a number: 1 for `true` and 0 for `false`, and of a list of numbers its median.
fn read_number(value: &Value) -> Option<f64> {
    match value {
        Value::Bool(is_so) => Some(f64::from(u8::from(*is_so))),
        Value::Array(list) => {
            let numbers: Option<Vec<f64>> = list.iter().map(Value::as_f64).collect();
            Some(find_median(numbers?)).filter(|median| median.is_finite())
        }
        other => other.as_f64(),
    }
}

/// Returns the document that a program has printed: all of it, or the last one that begins with a line and ends with one. A
/// number that JSON has not, such as `NaN`, is a text in it.
pub(crate) fn find_document(printed: &str) -> Option<Value> {
    static WORDS: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let string = r#""(?:[^"\\\n]|\\.)*""#;
        Regex::new(&format!(r"(?i){string}|-?\b(?:nan|inf(?:inity)?)\b")).ok()
    });
    let quote = |found: &Captures<'_>| match &found[0] {
        string if string.starts_with('"') => string.to_owned(),
        word => format!("\"{word}\""),
    };
    // Some programs print a byte order mark.
    let printed = printed.trim_start_matches('\u{feff}');
    let printed = WORDS.as_ref()?.replace_all(printed, quote);
    let mut last = serde_json::from_str(&printed).ok();
    let mut rest = if last.is_some() { "" } else { &*printed };
    while !rest.is_empty() {
        let (line, mut next) = rest.split_once('\n').unwrap_or((rest, ""));
        // The parts of a document that was cut off are indented as a rule, and are none.
        let text = if line.starts_with([' ', '\t']) { line } else { rest };
        let mut documents = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        if let Some(Ok(document @ Value::Object(_))) = documents.next() {
            let after = text.get(documents.byte_offset()..).unwrap_or_default();
            let (end, behind) = after.split_once('\n').unwrap_or((after, ""));
            if end.trim().is_empty() {
                last = Some(document);
                next = if text.len() == rest.len() { behind } else { next };
            }
        }
        rest = next;
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> Result<ResultRule, String> {
        ResultRule::new(&toml::from_str(text).unwrap())
    }

    #[test]
    fn keys_and_pointers_lead_to_numbers_in_the_last_document() {
        let json = rule(r#"json = ["wall_s", "/nodes/0/busy_s"]"#).unwrap();
        assert_eq!(json.names(), ["wall_s", "busy_s"]);
        let printed =
            "a note\n{\"wall_s\": 2}\n{\"wall_s\": 1.5, \"nodes\": [{\"busy_s\": 1}]}\nthe end\n";
        let values = json.read(printed).unwrap();
        assert_eq!(values, [("wall_s".to_owned(), 1.5), ("busy_s".to_owned(), 1.0)].into());
        assert!(json.read("nothing").unwrap_err().contains("no JSON document"));
        assert!(json.read("{\"wall_s\": null}").unwrap_err().contains("`wall_s`"));
        let list = rule(r#"json = ["calls_s"]"#).unwrap();
        assert_eq!(list.read(r#"{"calls_s": [3, 1, 2]}"#).unwrap()["calls_s"], 2.0);
        assert!(list.read(r#"{"calls_s": []}"#).is_err());
        let switch = rule(r#"json = ["converged"]"#).unwrap();
        assert_eq!(switch.read(r#"{"converged": true}"#).unwrap()["converged"], 1.0);
        let named = rule(r#"json = { busy = "/nodes/0/busy_s" }"#).unwrap();
        assert_eq!(named.read(printed).unwrap()["busy"], 1.0);
    }

    #[test]
    fn the_last_match_of_a_regular_expression_counts() {
        let regex = rule(r"regex = 'GFLOPS (?P<gflops>[0-9.]+)'").unwrap();
        let values = regex.read("GFLOPS 1.0\nGFLOPS 2.5\n").unwrap();
        assert_eq!(values["gflops"], 2.5);
        assert!(regex.read("nothing").is_err());
        assert!(regex.read("GFLOPS ...").unwrap_err().contains("no number"));
    }

    #[test]
    fn rules_without_results_are_refused() {
        for (text, part) in [
            ("regex = '[0-9]+'", "no result is named"),
            ("regex = '(?P<a>['", "unclosed character class"),
            (r#"json = ["a-b"]"#, "`a-b` is no name"),
            ("json = []", "no result is named"),
            ("json = ['took_s']", "another name"),
            ("json = ['a']\nregex = 'b'", "either"),
        ] {
            let refused = rule(text).unwrap_err();
            assert!(refused.contains(part), "{refused}");
        }
    }

    #[test]
    fn a_document_is_found_whatever_stands_around_it() {
        let json = rule(r#"json = ["wall_s", "/nodes/0/busy_s"]"#).unwrap();
        let line = r#"{"wall_s": 1.5, "nodes": [{"busy_s": 1}]}"#;
        let lines = "{\n  \"wall_s\": 1.5,\n  \"nodes\": [\n    {\"busy_s\": 1}\n  ]\n}";
        let flat = "{\n\"wall_s\": 1.5,\n\"nodes\": [\n{\n\"busy_s\": 1\n}\n]\n}";
        let with_nan = line.replacen(
            '{',
            "{\"residual\": NaN, \"most\": -Infinity, \"c\": nan, \"NaN \\\"nan\": [inf], ",
            1,
        );
        for document in [line, lines, flat, &with_nan] {
            for before in [
                "",
                "\u{feff}",
                "warning: {x}\n",
                "it's \"odd\n",
                "{\"wall_s\": 9}\n",
                "{\n  \"wall_s\": 9\n}\n",
                "[1]\n{\n",
            ] {
                for after in [
                    "",
                    "\n",
                    "\r\n",
                    "\nthe end\n",
                    "\n{\n",
                    "\n}\n",
                    "\n[2]\n",
                    "\n{\"cut\": {\n  \"wall_s\": 8\n",
                ] {
                    let values = json.read(&format!("{before}{document}{after}"));
                    let values =
                        values.unwrap_or_else(|error| panic!("{error}: {before}{document}{after}"));
                    assert_eq!(
                        (values["wall_s"], values["busy_s"]),
                        (1.5, 1.0),
                        "{before}{document}{after}"
                    );
                }
            }
        }
        for (word, part) in [
            ("NaN", "is \"NaN\""),
            ("-inf", "is \"-inf\""),
            ("[1, NaN]", "no number"),
            ("[1e308, 1e308, 1e308, 1.7e308]", ""),
        ] {
            let read = json.read(&format!(
                "{{\"wall_s\": 3}}\n{{\"wall_s\": {word}, \"nodes\": [{{\"busy_s\": 1}}]}}\n"
            ));
            match read {
                Ok(values) => assert!(part.is_empty() && values["wall_s"].is_finite()),
                Err(reason) => {
                    assert!(!part.is_empty() && reason.contains(part), "{word}: {reason}")
                }
            }
        }
        // The parts of a document that was cut off are no documents.
        assert!(json.read("{\"a\": [\n  {\"wall_s\": 7\n  }\n").is_err());
    }

    #[test]
    fn the_anchors_of_an_expression_are_the_ends_of_a_line() {
        let regex = rule(r"regex = '^Time: (?P<t_s>\S+) s$'").unwrap();
        for printed in
            ["Time: 2 s", "x\nTime: 2 s\ny\n", "x\r\nTime: 2 s\r\n", "Time: 1 s\nTime: 2 s\n"]
        {
            assert_eq!(regex.read(printed).unwrap()["t_s"], 2.0, "{printed:?}");
        }
        assert!(regex.read("a Time: 2 s\nTime: 2 s b\n").is_err());
    }
}
