//! The surface file: one model in two dimensions as text.

use std::collections::BTreeMap;
use std::fmt;

use super::text::{FORMAT_KEY, lines_of, read_fields, read_lines, write_headers};
use super::{ModelError, SurfacePoint};

/// The value of the `format` header that this version writes, and the only one that it reads.
const FORMAT: &str = "isochron-surface 1";

/// A surface file: header comments and the points of one [`Surface`](super::Surface).
///
/// ```text
/// # format: isochron-surface 1
/// # device: cpu:0-7
/// 16 4 0.012 5 0.0003
/// 16 8 0.025
/// ```
///
/// Each line holds `m n t [reps [ci]]`: height and width in blocks, seconds, repetitions (1 by default),
/// half-width of the confidence interval in seconds (0 by default). The points are in any order and may
/// repeat. Comments, headers and line ends are those of a [points file](super::ModelFile). The `format`
/// header must stand above the points, because `d t reps` could be read as `m n t`.
/// [`parse`](Self::parse) reads and [`Display`](fmt::Display) writes.
///
/// # Example
/// ```
/// use isochron_hierarchy::model::{Surface, SurfaceFile};
///
/// let file = SurfaceFile::parse("# format: isochron-surface 1\n16 4 0.5\n16 8 1\n")?;
/// assert_eq!(Surface::from_points(file.points)?.speed(16.0, 6.0), 128.0);
/// # Ok::<(), isochron_hierarchy::model::ModelError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SurfaceFile {
    /// Header comments other than `format`. A key contains no colon, and neither key nor value a line
    /// break. White space around them is not kept.
    pub headers: BTreeMap<String, String>,
    /// The points.
    pub points: Vec<SurfacePoint>,
}

impl SurfaceFile {
    /// Reads a surface file.
    ///
    /// # Errors
    /// Returns [`ModelError::Syntax`] with the line and the reason:
    /// * points without the `format` header above, or another format or version;
    /// * a line that is not three to five numbers, or has a carriage return inside;
    /// * a point without a usable speed or confidence interval.
    pub fn parse(text: &str) -> Result<Self, ModelError> {
        Self::read(lines_of(text))
    }

    /// Reads a surface file line by line, as [`ModelFile::read`](super::ModelFile::read).
    ///
    /// # Errors
    /// Fails as `next_line`, or as [`parse`](Self::parse).
    pub fn read<E: From<ModelError>>(
        next_line: impl FnMut(&mut String) -> Result<bool, E>,
    ) -> Result<Self, E> {
        let mut points = Vec::new();
        let headers = read_lines(next_line, FORMAT, |headers, content| {
            if !headers.contains_key(FORMAT_KEY) {
                return Err(format!("no line \"# format: {FORMAT}\" above the points"));
            }
            points.push(read_point(content)?);
            Ok(())
        })?;
        Ok(Self { headers, points })
    }
}

impl fmt::Display for SurfaceFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_headers(f, FORMAT, &self.headers)?;
        for point in &self.points {
            // Debug keeps very small times short and reads back to the same number.
            let (t_s, reps, ci_s) = (point.t_s, point.reps, point.ci_s);
            writeln!(f, "{} {} {t_s:?} {reps} {ci_s:?}", point.m, point.n)?;
        }
        Ok(())
    }
}

/// Reads `m n t [reps [ci]]`.
fn read_point(line: &str) -> Result<SurfacePoint, String> {
    let ([m, n], t_s, reps, ci_s) = read_fields(line, ["m", "n"], "blocks")?;
    let point = SurfacePoint { m, n, t_s, reps, ci_s };
    point.check().map_err(|error| error.to_string())?;
    Ok(point)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ModelFile;

    const HEAD: &str = "# format: isochron-surface 1\n";

    fn error(points: &str) -> String {
        SurfaceFile::parse(&format!("{HEAD}{points}")).expect_err("invalid").to_string()
    }

    #[test]
    fn what_is_written_is_read_back() {
        let text = format!("{HEAD}# device: gpu0\n9 4 1e-7 3 0.0\n2 4 0.5 1 0.25\n");
        let file = SurfaceFile::parse(&text).expect("valid");
        assert_eq!(file.headers["device"], "gpu0");
        assert_eq!(file.points[1], SurfacePoint { m: 2, n: 4, t_s: 0.5, reps: 1, ci_s: 0.25 });
        assert_eq!(file.to_string(), text);
    }

    #[test]
    fn repetitions_and_interval_may_be_left_out() {
        let file =
            SurfaceFile::parse(&format!("\u{feff}{HEAD}\r\n3 4 5\r\n3 4 5 6")).expect("valid");
        let read: Vec<_> = file.points.iter().map(|p| (p.reps, p.ci_s)).collect();
        assert_eq!(read, [(1, 0.0), (6, 0.0)]);
        assert!(SurfaceFile::parse("").expect("valid").points.is_empty());
    }

    #[test]
    fn points_of_one_dimension_are_not_taken_for_two() {
        let points = "100 2 5\n";
        let message = SurfaceFile::parse(points).expect_err("no format");
        assert_eq!(
            message.to_string(),
            "line 1: no line \"# format: isochron-surface 1\" above the points"
        );
        let one = ModelFile::parse(points).expect("valid").to_string();
        let message = SurfaceFile::parse(&one).expect_err("another format");
        assert_eq!(
            message.to_string(),
            "line 1: format \"isochron-points 1\" is not \"isochron-surface 1\""
        );
        assert!(ModelFile::parse(HEAD).is_err());
    }

    #[test]
    fn errors_name_the_line_and_the_reason() {
        assert_eq!(
            error("1 1 1\n\n1 2\n"),
            "line 4: 2 fields in \"1 2\": expected m n t [reps [ci]]"
        );
        assert!(error("1 1 1 1 1 1\n").starts_with("line 2: 6 fields"));
        assert_eq!(error("1 1.5 1\n"), "line 2: n = \"1.5\" is not a whole number of blocks");
        assert_eq!(error("1 1 slow\n"), "line 2: t = \"slow\" is not seconds");
        for point in ["0 1 1", "1 0 1", "1 1 0", "1 1 nan", "1 1 inf", "1 1 -1"] {
            assert!(error(point).starts_with("line 2: point m = "), "{point}");
        }
        assert!(error("1 1 1 1 nan\n").starts_with("line 2: confidence interval"));
        assert_eq!(error("1 1 1\r2 2 2\n"), "line 2: carriage return without line feed");
    }
}
