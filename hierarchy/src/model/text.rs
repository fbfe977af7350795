//! The points file: one model as text.

use std::collections::BTreeMap;
use std::fmt;

use super::{ModelError, Point};
use crate::printable::show_name;

/// The value of the `format` header that this version writes, and the only one that it reads.
const FORMAT: &str = "isochron-points 1";

/// The key of the header that holds [`FORMAT`].
pub(super) const FORMAT_KEY: &str = "format";

const BYTE_ORDER_MARK: char = '\u{feff}';

/// A points file: header comments and one model's points.
///
/// ```text
/// # format: isochron-points 1
/// # device: cpu:0-7
/// 100 0.012 5 0.0003
/// 200 0.025
/// ```
///
/// Each line holds `d t [reps [ci]]`: units, seconds, repetitions (1 by default), half-width of the
/// confidence interval in seconds (0 by default). With 0 repetitions measuring was given up after `t`,
/// which is then a lower bound. `d` never falls, and repeats if a size was measured several times.
///
/// A line `# key: value` is a header; of several with one key the last counts. Other text after `#` and
/// empty lines are ignored. FuPerMod writes points in the same way, so that a file without a `format`
/// header is read as well. Lines end with a line feed, or with carriage return and line feed. A byte order
/// mark at the start is skipped. A text without points is read; [`Fit::model`](super::Fit::model) then
/// refuses it.
///
/// [`parse`](Self::parse) reads and [`Display`](fmt::Display) writes.
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
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelFile {
    /// Header comments other than `format`. A key contains no colon, and neither key nor value a line
    /// break. White space around them is not kept.
    pub headers: BTreeMap<String, String>,
    /// The points; written in ascending order of `d`.
    pub points: Vec<Point>,
}

impl ModelFile {
    /// Reads a points file.
    ///
    /// # Errors
    /// Returns [`ModelError::Syntax`] with the line and the reason:
    /// * another format or version;
    /// * a line that is not two to four numbers, or has a carriage return inside;
    /// * a point without a usable speed or confidence interval, or a `d` below that of the line before.
    pub fn parse(text: &str) -> Result<Self, ModelError> {
        Self::read(lines_of(text))
    }

    /// Reads a points file line by line, so that only its points are kept in memory. `next_line` appends the next line to
    /// an empty text, or returns `false` at the end.
    ///
    /// ```
    /// use isochron_hierarchy::model::{ModelError, ModelFile};
    ///
    /// let mut lines = ["100 0.5\n", "200 1.5\n"].into_iter();
    /// let file = ModelFile::read::<ModelError>(|line| {
    ///     Ok(lines.next().map(|next| line.push_str(next)).is_some())
    /// })?;
    /// assert_eq!(file.points.len(), 2);
    /// # Ok::<(), ModelError>(())
    /// ```
    ///
    /// # Errors
    /// Fails as `next_line`, or as [`parse`](Self::parse).
    pub fn read<E: From<ModelError>>(
        next_line: impl FnMut(&mut String) -> Result<bool, E>,
    ) -> Result<Self, E> {
        let mut points: Vec<Point> = Vec::new();
        let headers = read_lines(next_line, FORMAT, |_, content| {
            let point = read_point(content)?;
            if let Some(last) = points.last()
                && point.d < last.d
            {
                return Err(format!("d = {} after d = {}: sizes must ascend", point.d, last.d));
            }
            points.push(point);
            Ok(())
        })?;
        points.shrink_to_fit();
        Ok(Self { headers, points })
    }
}

impl fmt::Display for ModelFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_headers(f, FORMAT, &self.headers)?;
        let mut points = self.points.clone();
        points.sort_by_key(|point| point.d);
        for Point { d, t_s, reps, ci_s } in points {
            // Debug keeps very small times short and reads back to the same number.
            writeln!(f, "{d} {t_s:?} {reps} {ci_s:?}")?;
        }
        Ok(())
    }
}

/// Values by key.
pub(super) type Headers = BTreeMap<String, String>;

/// Returns a function that appends the lines of a text, one at each call, and returns `false` at the end.
pub(super) fn lines_of(text: &str) -> impl FnMut(&mut String) -> Result<bool, ModelError> {
    let mut lines = text.lines();
    move |line| Ok(lines.next().map(|next| line.push_str(next)).is_some())
}

/// Reads a text of this format line by line, as [`ModelFile::read`]. `read_point` reads the lines that are neither empty nor
/// comments, given the headers above, `format` among them. Returns the other headers.
///
/// # Errors
/// Fails as `next_line`, or with [`ModelError::Syntax`].
pub(super) fn read_lines<E: From<ModelError>>(
    mut next_line: impl FnMut(&mut String) -> Result<bool, E>,
    format: &str,
    mut read_point: impl FnMut(&Headers, &str) -> Result<(), String>,
) -> Result<Headers, E> {
    let mut headers = Headers::new();
    let mut text = String::new();
    let mut number = 0;
    while next_line(&mut text)? {
        number += 1;
        let line = match number {
            1 => text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&text),
            _ => &text,
        };
        let content = line.trim();
        let read = if content.contains('\r') {
            // Read as white space, it would join two lines into one point.
            Err("carriage return without line feed".to_owned())
        } else if let Some(comment) = content.strip_prefix('#') {
            read_comment(&mut headers, format, comment)
        } else if content.is_empty() {
            Ok(())
        } else {
            read_point(&headers, content)
        };
        read.map_err(|reason| ModelError::Syntax { line: number, reason })?;
        text.clear();
    }
    headers.remove(FORMAT_KEY);
    Ok(headers)
}

fn read_comment(headers: &mut Headers, format: &str, comment: &str) -> Result<(), String> {
    let Some((key, value)) = comment.split_once(':') else {
        return Ok(());
    };
    let (key, value) = (key.trim(), value.trim());
    if key == FORMAT_KEY && value != format {
        let value = show_name(value);
        return Err(format!("format \"{value}\" is not \"{format}\""));
    }
    headers.insert(key.to_owned(), value.to_owned());
    Ok(())
}

/// Writes the header comments.
pub(super) fn write_headers(
    f: &mut fmt::Formatter<'_>,
    format: &str,
    headers: &Headers,
) -> fmt::Result {
    writeln!(f, "# {FORMAT_KEY}: {format}")?;
    for (key, value) in headers.iter().filter(|(key, _)| *key != FORMAT_KEY) {
        writeln!(f, "# {key}: {value}")?;
    }
    Ok(())
}

/// Reads `d t [reps [ci]]`.
fn read_point(line: &str) -> Result<Point, String> {
    let ([d], t_s, reps, ci_s) = read_fields(line, ["d"], "units")?;
    let point = Point { d, t_s, reps, ci_s };
    point.check().map_err(|error| error.to_string())?;
    Ok(point)
}

/// Reads sizes of these names, in whole `units`, then `t [reps [ci]]`.
///
/// # Errors
/// Returns the reason, with the offending text.
pub(super) fn read_fields<const N: usize>(
    line: &str,
    names: [&str; N],
    units: &str,
) -> Result<([u64; N], f64, u32, f64), String> {
    let count = line.split_whitespace().count();
    if !(N + 1..=N + 3).contains(&count) {
        let (line, names) = (show_name(line), names.join(" "));
        return Err(format!("{count} fields in \"{line}\": expected {names} t [reps [ci]]"));
    }
    let mut fields = line.split_whitespace();
    let mut sizes = [0; N];
    for ((size, name), field) in sizes.iter_mut().zip(names).zip(&mut fields) {
        *size = read_number(name, field, format_args!("a whole number of {units}"))?;
    }
    let mut next = || fields.next();
    let t_s = read_number("t", next().unwrap_or_default(), "seconds")?;
    let reps = next().map_or(Ok(1), |field| read_number("reps", field, "a whole number"))?;
    let ci_s = next().map_or(Ok(0.0), |field| read_number("ci", field, "seconds"))?;
    Ok((sizes, t_s, reps, ci_s))
}

fn read_number<N: std::str::FromStr>(
    name: &str,
    field: &str,
    wanted: impl fmt::Display,
) -> Result<N, String> {
    field.parse().map_err(|_| format!("{name} = \"{}\" is not {wanted}", show_name(field)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        ModelFile::parse(text).expect_err("must be refused").to_string()
    }

    #[test]
    fn a_fupermod_file_without_header_is_read() {
        let file = ModelFile::parse("#d t reps ci\n100 1e-3 5 2e-5\n\n200 0.5\n").expect("valid");
        assert_eq!(file.points[0], Point { d: 100, t_s: 1e-3, reps: 5, ci_s: 2e-5 });
        assert_eq!(file.points[1], Point { d: 200, t_s: 0.5, reps: 1, ci_s: 0.0 });
        assert!(file.headers.is_empty());
    }

    #[test]
    fn foreign_line_ends_and_a_byte_order_mark_are_read() {
        let file =
            ModelFile::parse("\u{feff}# host: a\r\n100 0.5 3 0.01\r\n200 1\r").expect("valid");
        assert_eq!(file.headers["host"], "a");
        assert_eq!(file.points.len(), 2);
        assert_eq!(error("# host: a\n1 1\r2 2\r"), "line 2: carriage return without line feed");
        assert!(error("1 1\n\u{feff}2 2\n").starts_with("line 2: d = "));
    }

    #[test]
    fn an_error_of_the_source_ends_the_reading() {
        let mut lines = 0;
        let read = ModelFile::read(|line| {
            lines += 1;
            line.push_str("7 1\n");
            if lines < 3 { Ok(true) } else { Err(ModelError::NoPoints) }
        });
        assert_eq!((read, lines), (Err(ModelError::NoPoints), 3));
    }

    #[test]
    fn few_or_repeated_points_are_read_as_they_stand() {
        for text in ["", "\n\n", "\u{feff}", "# device: cpu\n", "#\n"] {
            assert!(ModelFile::parse(text).expect("valid").points.is_empty());
        }
        assert_eq!(ModelFile::parse("7 1").expect("valid").points.len(), 1);
        let repeated = ModelFile::parse("7 1\n7 1\n7 2\n").expect("valid");
        assert_eq!(repeated.points.len(), 3);
        let last = ModelFile::parse("# a: 1\n# a: 2\n").expect("valid");
        assert_eq!(last.headers["a"], "2");
    }

    #[test]
    fn numbers_that_are_no_measurement_are_refused_by_line() {
        for field in ["nan", "inf", "-inf", "0", "-0.0", "-1", "1e400", "1e101", "1e-101", "1e-400"]
        {
            let message = error(&format!("1 1\n2 {field}\n"));
            assert!(message.starts_with("line 2: point d = 2, t = "), "{message}");
        }
        for field in ["nan", "inf", "-1", "1e400", "-1e-9"] {
            let message = error(&format!("1 1\n\n2 1 3 {field}\n"));
            assert!(message.starts_with("line 3: confidence interval ci = "), "{message}");
        }
        assert!(error("0 1\n").starts_with("line 1: point d = 0, t = 1 s"));
        for d in ["-1", "1e3", "18446744073709551616", "nan", "0x10", ""] {
            assert!(error(&format!("{d} 1.5e0 1\n")).starts_with("line 1: d = "));
        }
        for reps in ["-1", "2.5", "4294967296", "nan"] {
            assert!(error(&format!("1 1 {reps}\n")).starts_with("line 1: reps = "));
        }
        let largest = ModelFile::parse("18446744073709551615 1e100 4294967295 1e100\n");
        assert_eq!(largest.expect("valid").points[0].d, u64::MAX);
    }

    #[test]
    fn errors_name_the_line_and_the_reason() {
        assert_eq!(
            error("# format: isochron-points 2\n"),
            "line 1: format \"isochron-points 2\" is not \"isochron-points 1\""
        );
        assert_eq!(error("1 1\n\n2\n"), "line 3: 1 fields in \"2\": expected d t [reps [ci]]");
        assert_eq!(
            error("1 1 1 1 1"),
            "line 1: 5 fields in \"1 1 1 1 1\": expected d t [reps [ci]]"
        );
        assert_eq!(error("1 1\n1.5 2\n"), "line 2: d = \"1.5\" is not a whole number of units");
        assert_eq!(error("1 fast\n"), "line 1: t = \"fast\" is not seconds");
        assert_eq!(error("9 1\n8 1\n"), "line 2: d = 8 after d = 9: sizes must ascend");
        assert!(error("1 0\n").starts_with("line 1: point d = 1, t = 0 s"));
        assert!(error("1 nan\n").starts_with("line 1: point d = 1, t = NaN s"));
    }
}
