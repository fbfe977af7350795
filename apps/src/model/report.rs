//! Measured times and models as tables and as JSON.

use std::collections::BTreeMap;
use std::iter;

use isochron_hierarchy::model::{Flag, Reason};
use serde::Serialize;

use super::{FileModels, MeasuredTime, ModelKey, NamedModel};
use crate::failure::Failure;
use crate::output;
use crate::table::TextTable;

/// All files as JSON.
#[derive(Serialize)]
struct ModelsDocument<'a> {
    schema: u32,
    models: Vec<FileDocument<'a>>,
}

/// One file as JSON.
#[derive(Serialize)]
struct FileDocument<'a> {
    file: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    grid: Option<bool>,
    points: &'a [MeasuredTime],
    #[serde(skip_serializing_if = "Option::is_none")]
    flags: Option<&'a [Flag]>,
    /// `fits` or `sections`.
    #[serde(flatten)]
    models: BTreeMap<&'a str, Vec<ModelDocument<'a>>>,
}

/// A model as JSON.
#[derive(Serialize)]
struct ModelDocument<'a> {
    #[serde(flatten)]
    key: ModelKey,
    at: Vec<ModelValue<'a>>,
}

/// The speed and the time of a model at a size, `d` or `m`.
#[derive(Serialize)]
struct ModelValue<'a> {
    #[serde(flatten)]
    size: BTreeMap<&'a str, u64>,
    speed: f64,
    time_s: f64,
}

/// Formats all files for scripts.
pub(super) fn format_json(files: &[FileModels]) -> Result<String, Failure> {
    output::json_line(&ModelsDocument {
        schema: 1,
        models: files.iter().map(FileModels::document).collect(),
    })
}

impl FileModels {
    fn document(&self) -> FileDocument<'_> {
        let models = self.models.iter().map(|model| ModelDocument {
            key: model.key,
            at: self.list_values(model),
        });
        FileDocument {
            file: &self.file,
            grid: self.grid,
            points: &self.times,
            flags: self.flags.as_deref(),
            models: BTreeMap::from([(self.labels.models, models.collect())]),
        }
    }

    fn list_values(&self, model: &NamedModel) -> Vec<ModelValue<'_>> {
        let sizes = self.sizes.iter();
        let values = sizes.map(|&size| ModelValue {
            size: BTreeMap::from([(self.labels.size, size)]),
            speed: model.speed(size as f64),
            time_s: model.time_s(size as f64),
        });
        values.collect()
    }

    /// Formats the measured times with their flags, and the values of the models.
    pub(super) fn format_text(&self) -> String {
        let mut text = format!("{}\n{}\n", self.file, self.time_table());
        if self.grid == Some(false) {
            text += "not every height was measured at every width: elsewhere the speed is a mean of the \
                     measured ones, the near ones counting most\n\n";
        }
        let flags: String = self
            .flags
            .iter()
            .flatten()
            .map(|flag| format!("{flag}\n"))
            .collect();
        if !flags.is_empty() {
            text += &format!("{flags}\n");
        }
        let speeds = self.value_table(NamedModel::speed);
        let times = self.value_table(NamedModel::time_s);
        text + &format!("speed, units/s\n{speeds}\ntime, s\n{times}")
    }

    fn time_table(&self) -> TextTable {
        let heading = match self.flags {
            Some(_) => "d|time s|reps|ci s|units/s|flag",
            None => "m|n|time s|reps|ci s|units/s",
        };
        let mut table = TextTable::new(0, heading);
        for time in &self.times {
            let mut row: Vec<String> = time.sizes.values().map(u64::to_string).collect();
            row.extend([
                six_digits(time.t_s),
                time.reps.to_string(),
                six_digits(time.ci_s),
                six_digits(time.speed),
            ]);
            let mut flags = self.flags.iter().flatten();
            let flag = flags.find(|flag| flag.d == time.sizes[self.labels.size]);
            row.extend(flag.map(|flag| describe_reason(flag.reason).to_owned()));
            table.add_row(row);
        }
        table
    }

    /// Makes a table with a column for each model.
    fn value_table(&self, value: fn(&NamedModel, f64) -> f64) -> TextTable {
        let names: Vec<String> = self.models.iter().map(NamedModel::name).collect();
        let heading = format!("{}|{}", self.labels.size, names.join("|"));
        let mut table = TextTable::new(0, &heading);
        for &size in &self.sizes {
            let models = self.models.iter();
            let values = models.map(|model| six_digits(value(model, size as f64)));
            table.add_row(iter::once(size.to_string()).chain(values));
        }
        table
    }
}

fn describe_reason(reason: Reason) -> &'static str {
    match reason {
        Reason::TooSlow => "too slow",
        Reason::TooFast => "too fast",
        Reason::OutOfShape => "out of shape",
    }
}

/// Formats a number with six digits.
fn six_digits(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let digits = value.abs().log10().floor();
    if (-5.0..9.0).contains(&digits) {
        let decimals = (5.0 - digits).max(0.0) as usize;
        format!("{value:.decimals$}")
    } else {
        format!("{value:.5e}")
    }
}

#[cfg(test)]
mod tests {
    use super::six_digits;

    #[test]
    fn numbers_have_six_digits() {
        assert_eq!(six_digits(0.0), "0");
        assert_eq!(six_digits(60000.0), "60000.0");
        assert_eq!(six_digits(12_345_678.0), "12345678");
        assert_eq!(six_digits(0.000016667), "0.0000166670");
        assert_eq!(six_digits(1.5e-9), "1.50000e-9");
        assert_eq!(six_digits(2e12), "2.00000e12");
    }
}
