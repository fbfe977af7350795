//! `isochron check`: a result file, compared with the report of the run that wrote it.

use isochron_devices::with_element;
use isochron_hierarchy::printable::show_path;
use std::path::PathBuf;

use clap::Args;
use isochron_core::Error;
use isochron_core::internal::input::read_text;
use isochron_core::matrix::Digest;
use isochron_core::matrix::file::digest_file;
use isochron_devices::ElementType;
use serde::{Deserialize, Serialize};

use crate::documents::FormatVersion;
use crate::failure::Failure;
use crate::output::Answer;

/// The file, and the report with its digest.
#[derive(Args)]
pub struct CheckArguments {
    /// File with a result (.npy or .mtx)
    file: PathBuf,
    /// Report of the run that wrote it (JSON), as `mxm --report` or --json wrote it
    #[arg(long, value_name = "FILE")]
    report: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The fields of a report that matter here.
#[derive(Deserialize)]
struct WrittenResult {
    m: usize,
    n: usize,
    element: ElementType,
    digest: Option<String>,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct CheckAnswer {
    /// Version of the format.
    schema: FormatVersion<1>,
    /// The file.
    file: String,
    /// Digest in the report.
    expected: String,
    /// Digest of the file's elements.
    found: String,
    /// `true` if the file holds what the run has computed.
    is_same: bool,
}

/// Runs the command.
pub fn run(arguments: &CheckArguments) -> Result<Answer, Failure> {
    let path = &arguments.report;
    let text = read_text(path).map_err(|error| Error::file(path, error))?;
    let no_report = |reason: String| {
        let reason = format!("is no report of `isochron mxm`: {reason}");
        Failure::from(Error::file(path, reason))
    };
    let written: WrittenResult =
        serde_json::from_str(&text).map_err(|error| no_report(error.to_string()))?;
    let Some(expected) = written.digest else {
        let reason = "has no digest: its run wrote no file, run it with --out";
        return Err(Error::file(path, reason).into());
    };
    if expected.len() != 16 || u64::from_str_radix(&expected, 16).is_err() {
        let reason = format!("its digest `{expected}` is not one of 16 hexadecimal digits");
        return Err(no_report(reason));
    }
    let (shape, found) = digest_as(written.element, arguments)?;
    if shape != (written.m, written.n) {
        return Err(Failure::run(format!(
            "{} is not the result of {}: it is {}×{}, not {}×{}",
            show_path(&arguments.file),
            show_path(path),
            shape.0,
            shape.1,
            written.m,
            written.n
        )));
    }
    let found = found.to_string();
    let answer = CheckAnswer {
        schema: FormatVersion,
        file: arguments.file.display().to_string(),
        is_same: found == expected,
        expected,
        found,
    };
    if answer.is_same {
        return Answer::new(arguments.json, &answer, |answer| {
            format!(
                "{} is the result of {}: digest {}\n",
                show_path(&arguments.file),
                show_path(path),
                answer.found
            )
        });
    }
    let failure = Failure::run(format!(
        "{} is not the result of {}: the digest of its elements is {}, not {}",
        show_path(&arguments.file),
        show_path(path),
        answer.found,
        answer.expected
    ));
    // For people the failure says it all.
    let answer = Answer::new(arguments.json, &answer, |_| String::new())?;
    Ok(answer.with_failure(failure))
}

/// Returns the rows and columns of the matrix in the file, and the digest of its elements.
fn digest_as(
    element: ElementType,
    arguments: &CheckArguments,
) -> Result<((usize, usize), Digest), Error> {
    let path = &arguments.file;
    with_element!(element, T => digest_file::<T>(path))
}
