//! Points files, read line by line.

use std::io::{self, BufRead, Read as _};
use std::path::Path;

use isochron_hierarchy::model::{ModelError, ModelFile, SurfaceFile};

use crate::error::Error;
use crate::input::{name_encoding, read_unchanged};

/// The content of a file of measured times.
#[derive(Debug)]
pub enum AnyPointsFile {
    /// Times of sizes.
    Points(ModelFile),
    /// Times of heights and widths.
    Surface(SurfaceFile),
}

/// Reads a points file or a surface file, whichever its header names. Its text is never in memory as a whole.
///
/// # Errors
/// Returns [`Error::File`] for a file that cannot be read, with the line for a broken one.
pub fn read_measured(path: &Path) -> Result<AnyPointsFile, Error> {
    read_file(path, read_any)
}

/// Reads a points file as [`read_measured`] does.
///
/// # Errors
/// Returns [`Error::File`] for a file that cannot be read, with the line for a broken one.
pub fn read_points(path: &Path) -> Result<ModelFile, Error> {
    read_file(path, |text| ModelFile::read(next_line(text)))
}

/// Reads a surface file as [`read_measured`] does.
///
/// # Errors
/// Returns [`Error::File`] for a file that cannot be read, with the line for a broken one.
pub fn read_surface(path: &Path) -> Result<SurfaceFile, Error> {
    read_file(path, |text| SurfaceFile::read(next_line(text)))
}

/// The reason why a file cannot be used.
enum FailedReading {
    Reading(io::Error),
    Content(ModelError),
}

impl FailedReading {
    fn of_file(self, path: &Path) -> Error {
        match self {
            Self::Reading(error) => Error::file(path, name_encoding(error)),
            Self::Content(error) => Error::file(path, error),
        }
    }
}

impl From<io::Error> for FailedReading {
    fn from(error: io::Error) -> Self {
        Self::Reading(error)
    }
}

impl From<ModelError> for FailedReading {
    fn from(error: ModelError) -> Self {
        Self::Content(error)
    }
}

fn read_file<R>(
    path: &Path,
    read: impl Fn(&mut dyn BufRead) -> Result<R, FailedReading>,
) -> Result<R, Error> {
    read_unchanged(path, read)
        .map_err(FailedReading::from)
        .flatten()
        .map_err(|failed| failed.of_file(path))
}

fn read_any(mut text: &mut dyn BufRead) -> Result<AnyPointsFile, FailedReading> {
    let head = read_head(&mut text)?;
    let mut whole = head.as_bytes().chain(text);
    Ok(if names_surface(&head) {
        AnyPointsFile::Surface(SurfaceFile::read(next_line(&mut whole))?)
    } else {
        AnyPointsFile::Points(ModelFile::read(next_line(&mut whole))?)
    })
}

/// Appends lines of a text one by one, as [`ModelFile::read`] asks for them.
fn next_line<B: BufRead + ?Sized>(
    text: &mut B,
) -> impl FnMut(&mut String) -> Result<bool, FailedReading> {
    |line| Ok(text.read_line(line)? > 0)
}

/// Reads the lines above the first point, and that line.
fn read_head(text: &mut impl BufRead) -> io::Result<String> {
    let mut head = String::new();
    loop {
        let start = head.len();
        let read = text.read_line(&mut head)?;
        let line = head[start..].trim_start_matches('\u{feff}').trim();
        if read == 0 || !(line.is_empty() || line.starts_with('#')) {
            return Ok(head);
        }
    }
}

/// Returns `true` if a header above the points names the format of surfaces, of any version.
fn names_surface(head: &str) -> bool {
    head.trim_start_matches('\u{feff}')
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map_while(|line| line.strip_prefix('#'))
        .filter_map(|header| header.split_once(':'))
        .any(|(key, value)| {
            key.trim() == "format" && value.trim().split(' ').next() == Some("isochron-surface")
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn the_format_header_above_the_points_tells_surfaces() {
        let is_surface = |text: &str| names_surface(&read_head(&mut text.as_bytes()).unwrap());
        for text in [
            "# format: isochron-surface 1\n4 4 1\n",
            "\u{feff}\r\n# device: gpu\r\n\r\n#format:isochron-surface 2\r\n",
        ] {
            assert!(is_surface(text), "{text:?}");
        }
        for text in [
            "",
            "4 1\n",
            "# format: isochron-points 1\n",
            "# a format: isochron-surface 1\n",
            "4 1\n# format: isochron-surface 1\n",
        ] {
            assert!(!is_surface(text), "{text:?}");
        }
    }

    #[test]
    fn a_file_read_by_lines_is_the_file_parsed_whole() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let text = "\u{feff}# host: a\r\n100 0.5 3 0.01\r\n\n200 1\n200 2 0\r";
        file.write_all(text.as_bytes()).unwrap();
        let parsed = ModelFile::parse(text).unwrap();
        assert_eq!(read_points(file.path()).unwrap(), parsed);
        let AnyPointsFile::Points(any) = read_measured(file.path()).unwrap() else {
            panic!("no points");
        };
        assert_eq!(any, parsed);
        file.write_all(b"\n300 x\n").unwrap();
        let error = read_measured(file.path()).unwrap_err().to_string();
        let path = file.path().display();
        assert_eq!(error, format!("{path}: line 6: t = \"x\" is not seconds"));
    }

    #[test]
    fn bytes_that_are_no_text_are_refused() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"1 1\n\xff 2\n").unwrap();
        let error = read_points(file.path()).unwrap_err().to_string();
        assert!(error.ends_with("is no text: it has bytes that are not UTF-8"), "{error}");
    }
}
