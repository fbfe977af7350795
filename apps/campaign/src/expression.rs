//! Expressions over parameters and results: `size == 8192 and ranks == 2`, `ours.wall_s + ours.balance_s`.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use minijinja::value::{Serde, ValueKind};
use minijinja::{Environment, Value};
use serde::Serialize;

static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(minijinja::UndefinedBehavior::Strict);
    environment
});

/// Longest expression, in bytes. Each operator may take a place on the stack while it is read.
const LONGEST: usize = 4096;

/// An expression whose syntax is known to be right: that of Jinja, with `and`, `or`, `not`, comparisons and arithmetic.
#[derive(Debug, Clone)]
pub(crate) struct Expression {
    source: String,
    compiled: Arc<minijinja::Expression<'static, 'static>>,
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl Expression {
    /// Reads an expression.
    ///
    /// # Errors
    /// Returns the mistake.
    pub fn parse(source: &str) -> Result<Self, String> {
        if source.len() > LONGEST {
            let start: String = source.chars().take(40).collect();
            return Err(format!("`{start}…` is longer than {LONGEST} bytes"));
        }
        match ENVIRONMENT.compile_expression_owned(source.to_owned()) {
            Ok(compiled) => Ok(Self { source: source.to_owned(), compiled: Arc::new(compiled) }),
            Err(error) => {
                let advice =
                    if source.contains("&&") || source.contains("||") || source.contains('!') {
                        "; write `and`, `or` and `not`"
                    } else {
                        ""
                    };
                let detail = error.detail().unwrap_or("is no expression");
                Err(format!("`{source}`: {detail}{advice}"))
            }
        }
    }

    /// Returns its text.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns the names in it: `size`, or `ours.wall_s`.
    pub fn names(&self) -> BTreeSet<String> {
        let names = self.compiled.undeclared_variables(true);
        names.into_iter().collect()
    }

    /// Returns the value of the expression as a number, 1 for `true` and 0 for `false`; `None` if a name has no value or the
    /// result is no finite number.
    pub fn number(&self, names: &impl Serialize) -> Option<f64> {
        let value = self.evaluate(names).ok()?;
        let value = if value.kind() == ValueKind::Bool {
            f64::from(u8::from(value.is_true()))
        } else {
            f64::try_from(value).ok()?
        };
        value.is_finite().then_some(value)
    }

    /// Returns `true` if the expression holds.
    ///
    /// # Errors
    /// Returns the reason why it has no value.
    pub fn holds(&self, names: &impl Serialize) -> Result<bool, String> {
        Ok(self.evaluate(names)?.is_true())
    }

    fn evaluate(&self, names: &impl Serialize) -> Result<Value, String> {
        let value = self.compiled.eval(Value::from(Serde(names)));
        value.map_err(|error| {
            let detail = error.detail().unwrap_or("has no value");
            format!("`{}`: {detail}", self.source)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn comparisons_and_sums_are_read() {
        let excluded = Expression::parse("size == 8192 and (ranks < 4 or hosts == '1:4')").unwrap();
        let names = ["hosts", "ranks", "size"].map(str::to_owned);
        assert_eq!(excluded.names(), names.into());
        let point = json!({"size": 8192, "ranks": 4, "hosts": "1:4"});
        assert_eq!(excluded.holds(&point), Ok(true));
        let sum = Expression::parse("ours.wall_s + 2 * ours.balance_s").unwrap();
        let names = ["ours.balance_s", "ours.wall_s"].map(str::to_owned);
        assert_eq!(sum.names(), names.into());
        let values = json!({"ours": {"wall_s": 1.5, "balance_s": 0.25}});
        assert_eq!(sum.number(&values), Some(2.0));
    }

    #[test]
    fn missing_values_and_divisions_by_zero_are_no_numbers() {
        let ratio = Expression::parse("a / b").unwrap();
        assert_eq!(ratio.number(&json!({"a": 1.0})), None);
        assert_eq!(ratio.number(&json!({"a": 1.0, "b": 0.0})), None);
    }

    #[test]
    fn an_expression_of_any_length_is_read_or_refused() {
        let long = |start: &str, more: &str, end: &str, times: usize| {
            format!("{start}{}{end}", more.repeat(times))
        };
        for (start, more, end) in [
            ("a", " + a", ""),
            ("a", "**a", ""),
            ("a", " and a", ""),
            ("a", "<a", ""),
            ("a", "~a", ""),
            ("", "-", "a"),
            ("", "not ", "a"),
            ("", "(", "a"),
            ("a", "[a", ""),
            ("a", "|abs", ""),
            ("a", ".a", ""),
            ("a", " if a else a", ""),
        ] {
            // The longest that is read, and far longer ones.
            for times in [LONGEST - 1, 100_000].map(|bytes| bytes / more.len()) {
                let source = long(start, more, end, times);
                match Expression::parse(&source) {
                    Ok(read) => {
                        assert!(source.len() <= LONGEST);
                        let _ = (read.names(), read.number(&json!({"a": 1})));
                    }
                    Err(reason) => assert!(reason.len() < LONGEST + 200),
                }
            }
        }
    }

    #[test]
    fn a_comparison_is_one_or_zero() {
        let names = json!({"ours": {"error": 1e-9}, "text": "1"});
        for (source, expected) in [
            ("ours.error < 1e-6", Some(1.0)),
            ("ours.error > 0.5", Some(0.0)),
            ("not (1 > 2)", Some(1.0)),
            ("text", None),
        ] {
            assert_eq!(Expression::parse(source).unwrap().number(&names), expected, "{source}");
        }
    }

    #[test]
    fn operators_of_other_languages_are_named() {
        let refused = Expression::parse("size == 8192 && ranks == 2").unwrap_err();
        assert!(refused.contains("write `and`"), "{refused}");
    }
}
