//! Measured times and models as tables.

use std::fmt;
use std::io::{self, Write};

use isochron_hierarchy::model::Reason;
use isochron_hierarchy::printable::{show_name, show_text};

use super::{ModelSource, NamedModel, ShownModel, TimedSize};
use crate::table::{NumberRow, write_numbers};

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
        let n_sizes = self.sizes().count();
        let columns = self.keys.iter().rev().map(|&key| {
            let model = self.make_model(key);
            let mut values = Vec::with_capacity(n_sizes);
            values.extend(self.sizes().map(|size| value(&model, size as f64)));
            values
        });
        let mut columns: Vec<Vec<f64>> = columns.collect();
        columns.reverse();
        write_numbers(out, &heading, |visit| {
            let mut row = NumberRow::default();
            self.sizes().enumerate().try_for_each(|(index, size)| {
                row.clear();
                row.add(size);
                columns.iter().for_each(|values| row.add(SixDigits(values[index])));
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
