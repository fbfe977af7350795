//! Values of options that have names: the shells complete them.

use std::error::Error;
use std::ffi::OsStr;
use std::str::FromStr;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Command};
use isochron_devices::blas::BlasChoice;
use strum::VariantNames;

/// The reason why a value is refused.
type Refusal = Box<dyn Error + Send + Sync>;

/// Reads a value by its [`FromStr`], whose message tells what is possible, and knows the names for completions.
///
/// An option that takes it hides the names in its help (`hide_possible_values`), because its text explains them.
#[derive(Debug, Clone)]
pub struct NamedValues<T> {
    names: Vec<&'static str>,
    parse: fn(&str) -> Result<T, Refusal>,
}

impl<T> NamedValues<T>
where
    T: FromStr,
    T::Err: Into<Refusal>,
{
    /// Takes these names. Others, such as paths, are for the value to read or to refuse.
    pub fn new(names: &[&'static str]) -> Self {
        Self { names: names.to_vec(), parse: |text| text.parse().map_err(Into::into) }
    }

    /// Adds names.
    pub fn with(mut self, names: &[&'static str]) -> Self {
        self.names.extend(names);
        self
    }
}

/// Takes the names of all values of an enumeration.
pub fn name_all<T>() -> NamedValues<T>
where
    T: FromStr + VariantNames,
    T::Err: Into<Refusal>,
{
    NamedValues::new(T::VARIANTS)
}

/// Takes the names of BLAS libraries, and paths.
pub fn name_blas() -> NamedValues<BlasChoice> {
    NamedValues::new(&BlasChoice::NAMES)
}

impl<T: Clone + Send + Sync + 'static> TypedValueParser for NamedValues<T> {
    type Value = T;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<T, clap::Error> {
        TypedValueParser::parse_ref(&self.parse, command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.names.iter().map(PossibleValue::new)))
    }
}
