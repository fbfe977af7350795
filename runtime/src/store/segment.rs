//! A segment: the times that one job has learnt, as text.
//!
//! One JSON document a line: a header, the runs, and a checksum of all bytes before it. A text that ends early has no checksum,
//! so truncation shows as well as corruption.

use std::iter;

use isochron_hierarchy::times::Series;
use serde::{Deserialize, Serialize};

use super::key::StoreKey;

/// Name of the format, and the version that is written and read. Times of another version are measured anew.
const FORMAT: &str = "isochron-models";
pub(super) const VERSION: u32 = 4;
/// Repetitions of one size that a job keeps.
const REPETITIONS: usize = 32;

/// Seconds that a model can use.
const TIMES_S: std::ops::RangeInclusive<f64> = 1e-100..=1e100;

/// The times of one device in one job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StoredRun {
    /// The job. No other job has this name.
    pub writer: String,
    /// One more than the largest number that the job had read for this identity. It orders runs, whatever clocks say.
    pub run: u64,
    /// Time of writing, in seconds since 1970 by the writer's clock.
    pub at_s: u64,
    /// The timed work and its conditions.
    pub key: StoreKey,
    /// The times, by size.
    pub samples: Vec<Series>,
}

impl StoredRun {
    /// Returns the number of sizes and that of repetitions. It grows until the job ends.
    pub fn length(&self) -> (usize, usize) {
        let repetitions = self.samples.iter().map(|sample| sample.seconds.len());
        (self.samples.len(), repetitions.sum())
    }
}

/// Adds repetitions to those of the same size, measured or given up. If there are many, some that are spread evenly
/// over the job stay.
pub(crate) fn add_series(samples: &mut Vec<Series>, added: Series) {
    let key = (added.units, added.at_least);
    let index = samples
        .iter()
        .position(|sample| (sample.units, sample.at_least) == key)
        .unwrap_or(samples.len());
    match samples.get_mut(index) {
        Some(sample) => sample.seconds.extend(added.seconds),
        None => samples.push(added),
    }
    let seconds = &mut samples[index].seconds;
    let count = seconds.len();
    if count > REPETITIONS {
        let kept = (0..REPETITIONS).map(|index| seconds[index * count / REPETITIONS]);
        *seconds = kept.collect();
    }
}

/// A segment as it is written: the same file in the stores of all hosts of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentFile {
    /// Name of the file.
    pub(super) name: String,
    /// Its content.
    pub(super) text: String,
}

/// A line of a segment.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum SegmentLine<'a> {
    /// The first one.
    Header(SegmentHeader),
    /// The times of one device, of links, of a library or of a kernel.
    Run(&'a StoredRun),
    /// The last one.
    Trailer(SegmentTrailer),
}

/// The first line of a segment.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct SegmentHeader {
    /// Name of the format.
    #[cfg_attr(feature = "schemars", schemars(extend("const" = FORMAT)))]
    format: String,
    /// Version of the format.
    #[cfg_attr(feature = "schemars", schemars(extend("const" = VERSION)))]
    version: u32,
}

/// The last line of a segment.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct SegmentTrailer {
    /// Number of runs above.
    runs: usize,
    /// Checksum of all bytes above, in hexadecimal digits.
    crc32: String,
}

/// The reason why a text is no segment of this version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SegmentError {
    /// Another version of Isochron wrote it.
    #[error("it is of version {0}, and this program reads version {VERSION}")]
    OtherVersion(u32),
    /// Its first line is not that of a segment.
    #[error("it is broken: its first line is not that of a segment")]
    Foreign,
    /// It is broken.
    #[error("it is broken: {0}")]
    Corrupt(String),
}

/// Formats runs as a segment.
pub fn format_segment(runs: &[StoredRun]) -> serde_json::Result<String> {
    let header = SegmentLine::Header(SegmentHeader { format: FORMAT.to_owned(), version: VERSION });
    let mut text = String::new();
    for line in iter::once(header).chain(runs.iter().map(SegmentLine::Run)) {
        text += &serde_json::to_string(&line)?;
        text.push('\n');
    }
    let trailer = SegmentLine::Trailer(SegmentTrailer { runs: runs.len(), crc32: checksum(&text) });
    Ok(text + &serde_json::to_string(&trailer)? + "\n")
}

/// Reads a segment.
///
/// # Errors
/// Returns [`SegmentError`].
pub fn parse_segment(bytes: &[u8]) -> Result<Vec<StoredRun>, SegmentError> {
    let text = str::from_utf8(bytes).map_err(corrupt)?;
    let first = text.lines().next().unwrap_or_default();
    let header: SegmentHeader = serde_json::from_str(first).map_err(|_| SegmentError::Foreign)?;
    if header.format != FORMAT {
        return Err(SegmentError::Foreign);
    }
    if header.version != VERSION {
        return Err(SegmentError::OtherVersion(header.version));
    }
    let whole = text.strip_suffix('\n').ok_or_else(|| corrupt("its end is missing"))?;
    let last = whole.rfind('\n').ok_or_else(|| corrupt("its end is missing"))? + 1;
    let trailer: SegmentTrailer =
        serde_json::from_str(&whole[last..]).map_err(|_| corrupt("its end is missing"))?;
    if checksum(&text[..last]) != trailer.crc32 {
        return Err(corrupt("its checksum differs"));
    }
    let runs = text[..last].lines().skip(1);
    let runs = runs.map(|line| serde_json::from_str(line).map_err(corrupt).and_then(check_run));
    let runs = runs.collect::<Result<Vec<StoredRun>, _>>()?;
    if runs.len() != trailer.runs {
        let (found, told) = (runs.len(), trailer.runs);
        return Err(corrupt(format!("{found} runs, not {told}")));
    }
    Ok(runs)
}

fn check_run(run: StoredRun) -> Result<StoredRun, SegmentError> {
    let is_usable = run.samples.iter().all(|sample| {
        let times = &sample.seconds;
        sample.units > 0 && !times.is_empty() && times.iter().all(|t_s| TIMES_S.contains(t_s))
    });
    if is_usable { Ok(run) } else { Err(corrupt("a time that no model can use")) }
}

fn corrupt(reason: impl ToString) -> SegmentError {
    SegmentError::Corrupt(reason.to_string())
}

fn checksum(text: &str) -> String {
    format!("{:08x}", crc32fast::hash(text.as_bytes()))
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::key::tests::key;
    use super::*;

    pub fn stored(writer: &str, run: u64, samples: &[(u64, &[f64])]) -> StoredRun {
        let samples = samples.iter().map(|&(units, seconds)| Series {
            units,
            seconds: seconds.to_vec(),
            at_least: false,
        });
        StoredRun {
            writer: writer.to_owned(),
            run,
            at_s: 1_000_000,
            key: key(),
            samples: samples.collect(),
        }
    }

    fn make_sample(units: u64, seconds: f64) -> Series {
        Series { units, seconds: vec![seconds], at_least: false }
    }

    #[test]
    fn repetitions_are_capped_evenly() {
        let mut samples = Vec::new();
        for first in [0, 100, 200] {
            let sample = Series {
                seconds: (first..first + 100).map(f64::from).collect(),
                ..make_sample(7, 0.0)
            };
            add_series(&mut samples, sample);
        }
        add_series(&mut samples, make_sample(9, 1.0));
        assert_eq!(samples.len(), 2);
        let seconds = &samples[0].seconds;
        assert_eq!(seconds.len(), REPETITIONS);
        assert!(seconds.is_sorted() && seconds[0] < 10.0 && seconds[REPETITIONS - 1] > 250.0);
    }

    #[test]
    fn what_is_written_is_read() {
        let bound = Series { units: 7, seconds: vec![0.1 + 0.2], at_least: true };
        let mut run = stored("w", 3, &[(1, &[1e-9, 2.0])]);
        run.samples.push(bound);
        for runs in [vec![], vec![run.clone()], vec![run.clone(), run]] {
            let text = format_segment(&runs).unwrap();
            assert_eq!(parse_segment(text.as_bytes()), Ok(runs));
        }
    }

    #[test]
    fn runs_without_later_conditions_are_read() {
        let run = stored("w", 3, &[(1, &[1.5, 2.0])]);
        assert_eq!(run.key.conditions.state.machine, None);
        let whole = serde_json::to_string(&run).unwrap();
        let older = whole.replace("\"machine\":null,", "");
        assert_ne!(older, whole);
        assert_eq!(serde_json::from_str::<StoredRun>(&older).unwrap(), run);
    }

    #[test]
    fn no_truncated_or_changed_segment_is_read() {
        let runs = [stored("w", 3, &[(1, &[1.5, 2.0])]), stored("w", 3, &[(9, &[3.0])])];
        let text = format_segment(&runs).unwrap().into_bytes();
        for len in 0..text.len() {
            let read = parse_segment(&text[..len]);
            assert!(read.is_err(), "{len}");
        }
        for index in 0..text.len() {
            for bit in [0, 3, 7] {
                let mut changed = text.clone();
                changed[index] ^= 1 << bit;
                // A changed version may look newer; then nothing is read either.
                assert!(parse_segment(&changed).is_err(), "{index}");
            }
        }
    }

    #[test]
    fn another_version_is_told_from_a_broken_one() {
        for version in [3, 5] {
            let text = format!(r#"{{"format":"isochron-models","version":{version},"other":0}}"#);
            let read = parse_segment(text.as_bytes());
            assert_eq!(read, Err(SegmentError::OtherVersion(version)));
        }
        for broken in ["", "\n", "{}", "[1]\n", "x", "{\"format\":\"other\",\"version\":9}\n"] {
            let read = parse_segment(broken.as_bytes());
            assert_eq!(read, Err(SegmentError::Foreign), "{broken}");
        }
    }

    #[test]
    fn times_that_no_model_can_use_are_refused() {
        for sample in [(0, [1.0]), (1, [0.0]), (1, [-1.0]), (1, [1e300])] {
            let text = format_segment(&[stored("w", 1, &[(sample.0, &sample.1)])]).unwrap();
            let read = parse_segment(text.as_bytes());
            assert!(matches!(read, Err(SegmentError::Corrupt(_))), "{sample:?}");
        }
        let empty = format_segment(&[stored("w", 1, &[(1, &[])])]).unwrap();
        assert!(parse_segment(empty.as_bytes()).is_err());
    }
}
