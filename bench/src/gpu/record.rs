//! The results of the campaign, kept in a file.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Context as _;
use isochron_devices::CudaInfo;
use serde::{Deserialize, Serialize};

use super::GpuPart;
use super::part_records::{ModelsRecord, OutOfCoreRecord, StepRecord, TiledRecord};
use super::rows::RowRecord;
use super::scale::GpuScale;
use crate::report::MxmReport;
use crate::results::{Origin, to_json};

/// The file of results.
#[derive(Serialize, Deserialize)]
pub struct GpuResults {
    #[serde(flatten)]
    pub origin: Origin,
    /// `true` for an emulated CUDA.
    pub emulated: bool,
    /// The state of CUDA in words.
    pub finding: String,
    pub gpu: CudaInfo,
    /// cuBLAS with its version.
    pub blas: String,
    /// Cores that copy for the GPU.
    pub host_cores: usize,
    /// All cores that this process may use.
    pub cores: usize,
    pub memory_available_bytes: Option<u64>,
    pub scale: GpuScale,
    /// The parts that were measured.
    pub parts: Vec<PartRecord>,
    /// The platform files by name.
    pub platforms: BTreeMap<String, String>,
    pub samples: Vec<GpuSample>,
    pub summary: Vec<RowRecord>,
    pub streamed: Option<TiledRecord>,
    pub out_of_core: Option<OutOfCoreRecord>,
    pub models: Option<ModelsRecord>,
    pub step: Option<StepRecord>,
}

/// A part that was measured.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PartRecord {
    pub part: GpuPart,
    pub seconds: f64,
    /// The errors; `None` if the part was measured to its end.
    pub error: Option<String>,
}

/// A measurement in a round.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GpuSample {
    pub part: GpuPart,
    pub round: usize,
    /// The measured thing.
    pub what: String,
    /// The contestant.
    pub who: String,
    #[serde(flatten)]
    pub figures: GpuFigures,
}

/// The figures of a sample.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
pub enum GpuFigures {
    /// The speeds of copies between host and GPU, in the order of the table's columns.
    Copies { bytes_per_s: [f64; 5] },
    /// Seconds of an update or a product, in one or more measurements.
    Times { times_s: Vec<f64> },
    /// A multiplication of `isochron mxm`.
    Run {
        report: Box<MxmReport>,
        /// Measurements of IDPA, if they were counted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        iterations: Option<usize>,
    },
}

/// The measured thing and the contestant.
pub type About<'a> = (&'a str, &'a str);

impl GpuResults {
    /// Makes results without any samples, and without what only the process knows that measures.
    pub fn new(origin: Origin, gpu: CudaInfo, scale: GpuScale) -> Self {
        Self {
            origin,
            emulated: false,
            finding: String::new(),
            gpu,
            blas: String::new(),
            host_cores: 1,
            cores: 1,
            memory_available_bytes: None,
            scale,
            parts: Vec::new(),
            platforms: BTreeMap::new(),
            samples: Vec::new(),
            summary: Vec::new(),
            streamed: None,
            out_of_core: None,
            models: None,
            step: None,
        }
    }

    /// Counts the cores that copy for the GPU, and the others.
    pub fn split_cores(&self) -> (usize, usize) {
        let host = self.host_cores.min(self.cores);
        (host, self.cores - host)
    }

    /// Returns a figure of a part's samples by round, which is their order.
    pub fn figures(
        &self,
        part: GpuPart,
        (what, who): About<'_>,
        figure: impl Fn(&GpuFigures) -> Option<f64>,
    ) -> Vec<f64> {
        self.samples
            .iter()
            .filter(|s| s.part == part && s.what == what && s.who == who)
            .map(|sample| figure(&sample.figures).unwrap_or(f64::NAN))
            .collect()
    }

    /// Returns the speeds in flop/s of updates or products of `flop`, by round.
    pub fn speeds(&self, part: GpuPart, about: About<'_>, flop: f64) -> Vec<f64> {
        self.figures(part, about, |figures| match figures {
            GpuFigures::Times { times_s } => {
                let mean_s = times_s.iter().sum::<f64>() / times_s.len() as f64;
                Some(flop / mean_s)
            }
            _ => None,
        })
    }

    /// Returns a figure of the reports of a multiplication, by round.
    pub fn report_figures(
        &self,
        part: GpuPart,
        about: About<'_>,
        figure: impl Fn(&MxmReport) -> Option<f64>,
    ) -> Vec<f64> {
        self.figures(part, about, |figures| match figures {
            GpuFigures::Run { report, .. } => figure(report),
            _ => None,
        })
    }
}

/// The results so far, with the file that keeps them.
pub struct GpuRecord {
    pub file: PathBuf,
    pub results: GpuResults,
    /// All errors so far.
    pub errors: Vec<String>,
}

impl GpuRecord {
    /// Reports an error and remembers it.
    pub fn add_error(&mut self, error: String) {
        eprintln!("{error}");
        self.errors.push(error);
    }

    /// Measures contestants in turn, reports the samples and keeps them. Every round begins with another contestant;
    /// one that fails is reported and not tried again. `measure` gets the place of the contestant and the round.
    pub fn sample_in_turn(
        &mut self,
        part: GpuPart,
        rounds: impl Iterator<Item = usize>,
        contestants: &[About<'_>],
        mut measure: impl FnMut(usize, usize) -> anyhow::Result<GpuFigures>,
    ) -> anyhow::Result<()> {
        for round in rounds {
            for turn in 0..contestants.len() {
                let at = (round + turn) % contestants.len();
                let (what, who) = contestants[at];
                let start = format!("{part}: {what}, {who}: ");
                if self.errors.iter().any(|error| error.starts_with(&start)) {
                    continue;
                }
                match measure(at, round) {
                    Ok(figures) => {
                        eprintln!("round {round} {what} {who}");
                        self.results.samples.push(GpuSample {
                            part,
                            round,
                            what: what.to_owned(),
                            who: who.to_owned(),
                            figures,
                        });
                        self.write()?;
                    }
                    Err(error) => self.add_error(format!("{start}{error:#}")),
                }
            }
        }
        Ok(())
    }

    /// Writes the file. A run that is aborted leaves the last complete one.
    pub fn write(&self) -> anyhow::Result<()> {
        let partial = self.file.with_extension("partial");
        std::fs::write(&partial, to_json(&self.results)?)
            .with_context(|| partial.display().to_string())?;
        std::fs::rename(&partial, &self.file).with_context(|| self.file.display().to_string())
    }
}

/// Results of some samples, for tests.
#[cfg(test)]
pub fn make_test_results(samples: Vec<GpuSample>) -> GpuResults {
    let gpu = CudaInfo {
        name: "GPU model".to_owned(),
        memory_bytes: 1 << 34,
        ..CudaInfo::default()
    };
    let scale = GpuScale::new(&gpu, true, None);
    GpuResults {
        samples,
        ..GpuResults::new(Origin::new("made up".to_owned()), gpu, scale)
    }
}
