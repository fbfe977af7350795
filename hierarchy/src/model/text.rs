//! The points file: one model as text.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{ModelError, Point};

/// The value of the `format` header that this version writes, and the only one it reads.
pub const FORMAT: &str = "isochron-points 1";

/// The key of the header that [`FORMAT`] stands in.
const FORMAT_KEY: &str = "format";

/// A points file: header comments and one model's points.
///
/// ```text
/// # format: isochron-points 1
/// # device: cpu:0-7
/// 100 0.012 5 0.0003
/// 200 0.025
/// ```
///
/// Each line holds `d t [reps [ci]]`: units, seconds, repetitions (1 if left out), half-width of the
/// confidence interval in seconds (0 if left out); `d` never falls, and repeats where one size was
/// measured several times. A line `# key: value` is a header, any other text after `#` is ignored, as
/// are empty lines. The points are laid out as FuPerMod writes them, so a file without a `format`
/// header is read as well. [`parse`](Self::parse) reads and [`Display`](fmt::Display) writes.
///
/// # Example
/// ```
/// use isochron_hierarchy::model::ModelFile;
///
/// let file = ModelFile::parse("# device: gpu0\n100 0.5 3 0.01\n")?;
/// assert_eq!(file.headers["device"], "gpu0");
/// assert_eq!(file.to_string(), "# format: isochron-points 1\n# device: gpu0\n100 0.5 3 0.01\n");
/// # Ok::<(), isochron_hierarchy::model::ModelError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ModelFile {
    /// Header comments other than `format`. A key holds no colon and neither holds a line break;
    /// white space around them is not kept.
    pub headers: BTreeMap<String, String>,
    /// The points; written in ascending order of `d`.
    pub points: Vec<Point>,
}

impl ModelFile {
    /// Reads a points file.
    ///
    /// # Errors
    /// [`ModelError::Syntax`] with the line and the reason: a format or version that is not
    /// [`FORMAT`], a line that is not two to four numbers, a point without a finite positive speed,
    /// or a `d` below the line before it.
    pub fn parse(text: &str) -> Result<Self, ModelError> {
        let mut file = Self::default();
        for (index, content) in text.lines().enumerate() {
            file.read_line(content.trim())
                .map_err(|reason| ModelError::Syntax {
                    line: index + 1,
                    reason,
                })?;
        }
        Ok(file)
    }

    fn read_line(&mut self, content: &str) -> Result<(), String> {
        if let Some(comment) = content.strip_prefix('#') {
            return self.read_comment(comment);
        }
        if content.is_empty() {
            return Ok(());
        }
        let point = read_point(content)?;
        if let Some(last) = self.points.last()
            && point.d < last.d
        {
            return Err(format!(
                "d = {} after d = {}: sizes must ascend",
                point.d, last.d
            ));
        }
        self.points.push(point);
        Ok(())
    }

    fn read_comment(&mut self, comment: &str) -> Result<(), String> {
        let Some((key, value)) = comment.split_once(':') else {
            return Ok(());
        };
        let (key, value) = (key.trim(), value.trim());
        if key == FORMAT_KEY {
            return if value == FORMAT {
                Ok(())
            } else {
                Err(format!("format \"{value}\" is not \"{FORMAT}\""))
            };
        }
        self.headers.insert(key.to_owned(), value.to_owned());
        Ok(())
    }
}

impl fmt::Display for ModelFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "# {FORMAT_KEY}: {FORMAT}")?;
        for (key, value) in self.headers.iter().filter(|(key, _)| *key != FORMAT_KEY) {
            writeln!(f, "# {key}: {value}")?;
        }
        let mut points = self.points.clone();
        points.sort_by_key(|point| point.d);
        for Point { d, t_s, reps, ci_s } in points {
            // Debug, because it keeps very small times short and reads back to the same number.
            writeln!(f, "{d} {t_s:?} {reps} {ci_s:?}")?;
        }
        Ok(())
    }
}

/// Reads `d t [reps [ci]]`.
fn read_point(numbers: &str) -> Result<Point, String> {
    let fields: Vec<&str> = numbers.split_whitespace().collect();
    if !(2..=4).contains(&fields.len()) {
        return Err(format!(
            "{} fields in \"{}\": expected d t [reps [ci]]",
            fields.len(),
            numbers
        ));
    }
    let point = Point {
        d: read_number("d", fields[0], "a whole number of units")?,
        t_s: read_number("t", fields[1], "seconds")?,
        reps: fields
            .get(2)
            .map_or(Ok(1), |reps| read_number("reps", reps, "a whole number"))?,
        ci_s: fields
            .get(3)
            .map_or(Ok(0.0), |ci| read_number("ci", ci, "seconds"))?,
    };
    point.check().map_err(|error| error.to_string())?;
    Ok(point)
}

fn read_number<N: std::str::FromStr>(name: &str, field: &str, wanted: &str) -> Result<N, String> {
    field
        .parse()
        .map_err(|_| format!("{name} = \"{field}\" is not {wanted}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        ModelFile::parse(text)
            .expect_err("must be refused")
            .to_string()
    }

    #[test]
    fn a_fupermod_file_without_header_is_read() {
        let file = ModelFile::parse("#d t reps ci\n100 1e-3 5 2e-5\n\n200 0.5\n").expect("valid");
        assert_eq!(
            file.points[0],
            Point {
                d: 100,
                t_s: 1e-3,
                reps: 5,
                ci_s: 2e-5
            }
        );
        assert_eq!(
            file.points[1],
            Point {
                d: 200,
                t_s: 0.5,
                reps: 1,
                ci_s: 0.0
            }
        );
        assert!(file.headers.is_empty());
    }

    #[test]
    fn errors_name_the_line_and_the_reason() {
        assert_eq!(
            error("# format: isochron-points 2\n"),
            "line 1: format \"isochron-points 2\" is not \"isochron-points 1\""
        );
        assert_eq!(
            error("1 1\n\n2\n"),
            "line 3: 1 fields in \"2\": expected d t [reps [ci]]"
        );
        assert_eq!(
            error("1 1 1 1 1"),
            "line 1: 5 fields in \"1 1 1 1 1\": expected d t [reps [ci]]"
        );
        assert_eq!(
            error("1 1\n1.5 2\n"),
            "line 2: d = \"1.5\" is not a whole number of units"
        );
        assert_eq!(error("1 fast\n"), "line 1: t = \"fast\" is not seconds");
        assert_eq!(
            error("9 1\n8 1\n"),
            "line 2: d = 8 after d = 9: sizes must ascend"
        );
        assert!(error("1 0\n").starts_with("line 1: point d = 1, t = 0 s"));
        assert!(error("1 nan\n").starts_with("line 1: point d = 1, t = NaN s"));
    }
}
