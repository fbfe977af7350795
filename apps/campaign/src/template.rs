//! Command lines with parameters in braces.

use std::collections::BTreeSet;

/// A text with names in braces, such as `mxm --size {size}`. `{{` and `}}` stand for braces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template {
    pieces: Vec<TemplatePiece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum TemplatePiece {
    Text(String),
    Name(String),
}

impl Template {
    /// Reads a text.
    ///
    /// # Errors
    /// Returns the mistake.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            plain += &rest[..at];
            let brace = &rest[at..=at];
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix(brace) {
                plain += brace;
                rest = after;
                continue;
            }
            let name = rest.split_once('}').filter(|_| brace == "{");
            let Some((name, after)) = name else {
                return Err(format!(
                    "`{brace}` without its other half: a brace itself is `{brace}{brace}`"
                ));
            };
            if !is_name(name) {
                return Err(format!("`{{{name}}}` is no name: a brace itself is `{{{{`"));
            }
            pieces.push(TemplatePiece::Text(std::mem::take(&mut plain)));
            pieces.push(TemplatePiece::Name(name.to_owned()));
            rest = after;
        }
        pieces.push(TemplatePiece::Text(plain + rest));
        Ok(Self { pieces })
    }

    /// Returns the names in the text.
    pub fn names(&self) -> BTreeSet<&str> {
        let names = self.pieces.iter().filter_map(|piece| match piece {
            TemplatePiece::Name(name) => Some(name.as_str()),
            TemplatePiece::Text(_) => None,
        });
        names.collect()
    }

    /// Returns the text with the value of each name.
    pub fn fill(&self, value: &dyn Fn(&str) -> String) -> String {
        let pieces = self.pieces.iter().map(|piece| match piece {
            TemplatePiece::Text(text) => text.clone(),
            TemplatePiece::Name(name) => value(name),
        });
        pieces.collect()
    }
}

/// Returns `true` for a name as expressions have it: letters, digits and underscores, no digit first.
pub(crate) fn is_name(text: &str) -> bool {
    let mut characters = text.chars();
    let is_first = |c: char| c.is_ascii_alphabetic() || c == '_';
    characters.next().is_some_and(is_first) && characters.all(|c| is_first(c) || c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_braces_are_filled_and_doubled_braces_stay() {
        let template = Template::parse("awk '{{print {column}}}' {file}").unwrap();
        assert_eq!(template.names(), ["column", "file"].into());
        let filled = template.fill(&|name| format!("<{name}>"));
        assert_eq!(filled, "awk '{print <column>}' <file>");
    }

    #[test]
    fn lone_braces_are_refused() {
        for text in ["a {b", "a b}", "{a b}", "{}"] {
            assert!(Template::parse(text).is_err(), "{text}");
        }
    }
}
