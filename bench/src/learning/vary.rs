//! A number of the learner's tuning, varied to see what it is worth.

use std::str::FromStr;

use anyhow::Context as _;
use isochron_hierarchy::learn::Tuning;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A number of a [`Tuning`] and a factor of it, such as `look.patience=2` or `drift.rule.cut=0.5`.
#[derive(Debug, Clone, PartialEq)]
pub struct Variation {
    group: String,
    /// The number in its group, as a JSON pointer.
    number: String,
    factor: f64,
}

impl FromStr for Variation {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let (name, factor) = text.split_once('=').context("expected NAME=FACTOR")?;
        let (group, number) = name.split_once('.').context("expected GROUP.NUMBER")?;
        let variation = Self {
            group: group.to_owned(),
            number: format!("/{}", number.replace('.', "/")),
            factor: factor.parse()?,
        };
        variation.apply_to(Tuning::default())?;
        Ok(variation)
    }
}

impl Variation {
    /// Returns the tuning with the number varied. A whole number is rounded.
    ///
    /// # Errors
    /// Fails if there is no such number.
    pub fn apply_to(&self, mut tuning: Tuning) -> anyhow::Result<Tuning> {
        match self.group.as_str() {
            "look" => self.scale(&mut tuning.look)?,
            "noise" => self.scale(&mut tuning.noise)?,
            "drift" => self.scale(&mut tuning.drift)?,
            "doubt" => self.scale(&mut tuning.doubt)?,
            "fit" => self.scale(&mut tuning.fit)?,
            "change" => self.scale(&mut tuning.change)?,
            group => anyhow::bail!("a tuning has no group {group}"),
        }
        Ok(tuning)
    }

    fn scale<T: Serialize + DeserializeOwned>(&self, group: &mut T) -> anyhow::Result<()> {
        let mut numbers = serde_json::to_value(&*group)?;
        let number = numbers
            .pointer_mut(&self.number)
            .with_context(|| format!("{} has no number {}", self.group, self.number))?;
        let value = number.as_f64().context("it is no number")? * self.factor;
        *number =
            if number.is_u64() { Value::from(value.round() as u64) } else { Value::from(value) };
        *group = serde_json::from_value(numbers)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_number_is_varied() -> anyhow::Result<()> {
        let vary = |text: &str| text.parse::<Variation>()?.apply_to(Tuning::default());
        let mut expected = Tuning::default();
        expected.look.fractions[1] = 8;
        assert_eq!(vary("look.fractions.1=2")?, expected);
        let mut expected = Tuning::default();
        expected.drift.rule.cut = 2.0;
        assert_eq!(vary("drift.rule.cut=0.5")?, expected);
        for wrong in ["look", "look.patience", "look.nothing=2", "luck.patience=2"] {
            assert!(vary(wrong).is_err(), "{wrong}");
        }
        Ok(())
    }
}
