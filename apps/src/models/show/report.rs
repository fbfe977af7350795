//! Measured times and models as tables and as JSON.

use std::fmt;
use std::io::{self, Write};

use isochron_hierarchy::model::Reason;
use isochron_hierarchy::printable::{show_name, show_text};
use serde::ser::{SerializeMap as _, SerializeSeq as _};
use serde::{Serialize, Serializer};

use super::{ModelKey, ModelSource, NamedModel, ShownModel, TimedSize};
use crate::table::{NumberRow, write_numbers};

/// All models as JSON.
#[derive(Serialize)]
struct ModelsDocument<'a> {
    schema: u32,
    models: Vec<ShownDocument<'a>>,
}

/// The times of one file or stored model as JSON. Its lists are written as they are made.
struct ShownDocument<'a>(&'a ShownModel);

/// The measured times.
struct TimeList<'a>(&'a ShownModel);

/// The models made of them.
struct ModelSeries<'a>(&'a ShownModel);

/// A model as JSON.
#[derive(Serialize)]
struct ModelDocument<'a> {
    #[serde(flatten)]
    key: ModelKey,
    at: ValueList<'a>,
}

/// The values of a model at the sizes to show.
struct ValueList<'a>(&'a ShownModel, NamedModel);

/// The speed and the time of a model at a size, `d` or `m`.
struct ModelValue<'a> {
    name: &'a str,
    size: u64,
    speed: f64,
    time_s: f64,
}

impl Serialize for ShownDocument<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let shown = self.0;
        let mut map = serializer.serialize_map(None)?;
        match &shown.source {
            ModelSource::File(file) => map.serialize_entry("file", file)?,
            ModelSource::Stored(model) => map.serialize_entry("stored", model)?,
        }
        if let Some(grid) = shown.grid() {
            map.serialize_entry("grid", &grid)?;
        }
        map.serialize_entry("points", &TimeList(shown))?;
        if let Some(flags) = &shown.flags {
            map.serialize_entry("flags", flags)?;
        }
        map.serialize_entry(shown.labels.models, &ModelSeries(shown))?;
        map.end()
    }
}

impl Serialize for TimeList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        self.0.visit_times(|time| list.serialize_element(&time))?;
        list.end()
    }
}

impl Serialize for ModelSeries<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.keys.iter().map(|&key| ModelDocument {
            key,
            at: ValueList(self.0, self.0.make_model(key)),
        }))
    }
}

impl Serialize for ValueList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(file, model) = self;
        serializer.collect_seq(file.sizes.iter().map(|&size| ModelValue {
            name: file.labels.size,
            size,
            speed: model.speed(size as f64),
            time_s: model.time_s(size as f64),
        }))
    }
}

impl Serialize for ModelValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(self.name, &self.size)?;
        map.serialize_entry("speed", &self.speed)?;
        map.serialize_entry("time_s", &self.time_s)?;
        map.end()
    }
}

/// Writes all models for scripts, as one line.
pub(super) fn write_json(models: &[ShownModel], out: &mut dyn Write) -> io::Result<()> {
    let document = ModelsDocument {
        schema: 1,
        models: models.iter().map(ShownDocument).collect(),
    };
    serde_json::to_writer(&mut *out, &document)?;
    writeln!(out)
}

impl ShownModel {
    /// Writes the measured times with their flags, and the values of the models; of a stored model first its key and its
    /// runs, with their repetitions if these are wanted.
    pub(super) fn write_text(&self, with_repetitions: bool, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}", show_name(&self.describe()))?;
        if let ModelSource::Stored(model) = &self.source {
            write!(out, "{}", show_text(&model.format(with_repetitions)))?;
        }
        if self.keys.is_empty() {
            return Ok(());
        }
        self.write_times(out)?;
        writeln!(out)?;
        if self.grid() == Some(false) {
            out.write_all(
                b"not every height was measured at every width: elsewhere the speed is a mean of the \
                  measured ones, the near ones counting most\n\n",
            )?;
        }
        let flags = self.flags.as_deref().unwrap_or_default();
        for flag in flags {
            writeln!(out, "{flag}")?;
        }
        if !flags.is_empty() {
            writeln!(out)?;
        }
        writeln!(out, "speed, units/s")?;
        self.write_values(NamedModel::speed, out)?;
        writeln!(out, "\ntime, s")?;
        self.write_values(NamedModel::time_s, out)
    }

    /// Writes the measured times with their flags.
    fn write_times(&self, out: &mut dyn Write) -> io::Result<()> {
        let heading = match self.flags {
            Some(_) => "d|time s|reps|ci s|units/s|flag",
            None => "m|n|time s|reps|ci s|units/s",
        };
        let flags = self.flags.as_deref().unwrap_or_default();
        write_numbers(out, heading, |visit| {
            let mut row = NumberRow::default();
            self.visit_times(|time| {
                row.clear();
                match time.size {
                    TimedSize::Units { d } => row.add(d),
                    TimedSize::Blocks { m, n } => {
                        row.add(m);
                        row.add(n);
                    }
                }
                row.add(SixDigits(time.t_s));
                row.add(time.reps);
                row.add(SixDigits(time.ci_s));
                row.add(SixDigits(time.speed));
                // Flags ascend.
                if let Ok(at) = flags.binary_search_by_key(&time.size.main(), |flag| flag.d) {
                    row.add(describe_reason(flags[at].reason));
                }
                visit(&row)
            })
        })
    }

    /// Writes a table with a column for each model.
    fn write_values(
        &self,
        value: fn(&NamedModel, f64) -> f64,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let names: Vec<String> = self.keys.iter().map(|key| key.name()).collect();
        let heading = format!("{}|{}", self.labels.size, names.join("|"));
        // The models of the last columns need most memory, so they are made while there are no other columns.
        let columns = self.keys.iter().rev().map(|&key| {
            let model = self.make_model(key);
            self.sizes
                .iter()
                .map(|&size| value(&model, size as f64))
                .collect()
        });
        let mut columns: Vec<Vec<f64>> = columns.collect();
        columns.reverse();
        write_numbers(out, &heading, |visit| {
            let mut row = NumberRow::default();
            self.sizes.iter().enumerate().try_for_each(|(index, size)| {
                row.clear();
                row.add(size);
                columns
                    .iter()
                    .for_each(|values| row.add(SixDigits(values[index])));
                visit(&row)
            })
        })
    }
}

fn describe_reason(reason: Reason) -> &'static str {
    match reason {
        Reason::TooSlow => "too slow",
        Reason::TooFast => "too fast",
        Reason::OutOfShape => "out of shape",
    }
}

/// A number that is shown with six digits.
struct SixDigits(f64);

impl fmt::Display for SixDigits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(value) = *self;
        if value == 0.0 {
            return f.write_str("0");
        }
        let digits = value.abs().log10().floor();
        if (-5.0..9.0).contains(&digits) {
            let decimals = (5.0 - digits).max(0.0) as usize;
            write!(f, "{value:.decimals$}")
        } else {
            write!(f, "{value:.5e}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::SixDigits;

    #[test]
    fn numbers_have_six_digits() {
        assert_eq!(SixDigits(0.0).to_string(), "0");
        assert_eq!(SixDigits(60000.0).to_string(), "60000.0");
        assert_eq!(SixDigits(12_345_678.0).to_string(), "12345678");
        assert_eq!(SixDigits(0.000016667).to_string(), "0.0000166670");
        assert_eq!(SixDigits(1.5e-9).to_string(), "1.50000e-9");
        assert_eq!(SixDigits(2e12).to_string(), "2.00000e12");
    }
}
