//! A segment: the times that one job has learnt, as text.
//!
//! One JSON document a line: a header, the runs, and a checksum of all bytes before it. A text that ends early has no checksum,
//! so truncation shows as well as corruption.

use std::iter;

use isochron_hierarchy::times::Series;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::key::StoreKey;

/// Name of the format, and the version that is written. Older ones are read too: version 1 has no times of libraries, version
/// 2 none of kernels that are no updates of a multiplication, and up to [version 3](WITH_BLOCKS) the block size of the problem
/// is in the key of a device.
const FORMAT: &str = "isochron-models";
pub(super) const VERSION: u32 = 4;
/// The last version with the block size of the problem in the key of a device, on which its times do not depend.
const WITH_BLOCKS: u32 = 3;

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
    /// A newer version of Isochron wrote it.
    #[error("it is of version {0}, and this program reads version {VERSION}")]
    Newer(u32),
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
    if header.version > VERSION {
        return Err(SegmentError::Newer(header.version));
    }
    let whole = text.strip_suffix('\n').ok_or_else(|| corrupt("its end is missing"))?;
    let last = whole.rfind('\n').ok_or_else(|| corrupt("its end is missing"))? + 1;
    let trailer: SegmentTrailer =
        serde_json::from_str(&whole[last..]).map_err(|_| corrupt("its end is missing"))?;
    if checksum(&text[..last]) != trailer.crc32 {
        return Err(corrupt("its checksum differs"));
    }
    let runs = text[..last].lines().skip(1).map(|line| {
        if header.version > WITH_BLOCKS {
            serde_json::from_str(line).map_err(corrupt)
        } else {
            read_with_block(line).map_err(corrupt)
        }
    });
    let runs = runs.map(|run| run.and_then(check_run)).collect::<Result<Vec<StoredRun>, _>>()?;
    if runs.len() != trailer.runs {
        let (found, told) = (runs.len(), trailer.runs);
        return Err(corrupt(format!("{found} runs, not {told}")));
    }
    Ok(if header.version > WITH_BLOCKS { runs } else { join_blocks(runs) })
}

/// Reads a run, without the block size of the problem in the key of a device.
fn read_with_block(line: &str) -> serde_json::Result<StoredRun> {
    let mut run: Value = serde_json::from_str(line)?;
    let identity = run.pointer_mut("/key/identity");
    // The blocks of a kernel of one's own are its work.
    let of_device = identity
        .and_then(Value::as_object_mut)
        .filter(|identity| identity.contains_key("transfers"));
    if let Some(identity) = of_device {
        identity.remove("block");
    }
    serde_json::from_value(run)
}

/// Joins the runs of a job that differed in the block size alone: times are kept by the area and the width of an update.
fn join_blocks(runs: Vec<StoredRun>) -> Vec<StoredRun> {
    let mut joined: Vec<StoredRun> = Vec::new();
    for run in runs {
        let mut others = joined.iter_mut();
        match others.find(|other| (&other.writer, &other.key) == (&run.writer, &run.key)) {
            Some(other) => {
                run.samples.into_iter().for_each(|sample| add_series(&mut other.samples, sample))
            }
            None => joined.push(run),
        }
    }
    joined
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
    use super::super::kernel_key::KernelSource;
    use super::super::kernel_key::tests::make_source;
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
    fn runs_that_differed_in_their_blocks_are_joined() {
        let runs = [(1, 0.5), (1, 0.25), (2, 0.125)].map(|(units, time_s)| StoredRun {
            samples: vec![make_sample(units, time_s)],
            ..stored("w", 3, &[])
        });
        let [first, ..] = &runs;
        let mut text = make_old(first, 3);
        let line = text.lines().nth(1).unwrap().to_owned();
        for (run, block) in runs[1..].iter().zip([64, 32]) {
            let other = make_old(run, 3);
            let other = other.lines().nth(1).unwrap();
            let other = other.replace("\"block\":128", &format!("\"block\":{block}"));
            let end = text.rfind("{\"runs\"").unwrap();
            text.insert_str(end, &(other + "\n"));
        }
        assert!(text.contains("\"block\":32") && text.contains(&line));
        let end = text.rfind("{\"runs\"").unwrap();
        let crc32 = checksum(&text[..end]);
        text.truncate(end);
        text += &format!("{{\"runs\":3,\"crc32\":\"{crc32}\"}}\n");
        let joined = parse_segment(text.as_bytes()).unwrap();
        let expected = stored("w", 3, &[(1, &[0.5, 0.25]), (2, &[0.125])]);
        assert_eq!(joined, [expected]);
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
    fn segments_of_older_versions_are_read() {
        let run = stored("w", 3, &[(1, &[0.1 + 0.2, 2.0])]);
        let of_kernel =
            StoredRun { key: KernelSource::make_keys(&[make_source()]).remove(0), ..run.clone() };
        for version in 1..VERSION {
            for run in [&run, &of_kernel] {
                let text = make_old(run, version);
                assert!(text.contains("\"block\":"), "{text}");
                assert_eq!(parse_segment(text.as_bytes()), Ok(vec![run.clone()]));
            }
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

    /// Formats a run as an older version did.
    pub fn make_old(run: &StoredRun, version: u32) -> String {
        let header = format!("{{\"format\":\"{FORMAT}\",\"version\":{version}}}\n");
        let run = serde_json::to_string(run).unwrap();
        let width = "\"width\":256,\"transfers\"";
        let run = run.replace(width, &format!("\"block\":128,{width}"));
        let text = header + &run + "\n";
        let crc32 = checksum(&text);
        format!("{text}{{\"runs\":1,\"crc32\":\"{crc32}\"}}\n")
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
    fn a_newer_version_is_told_from_a_broken_one() {
        let text = r#"{"format":"isochron-models","version":5,"other":0}"#;
        assert_eq!(parse_segment(text.as_bytes()), Err(SegmentError::Newer(5)));
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
