//! The results of the campaign, kept in a file.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Context as _;
use isochron_devices::CudaInfo;
use serde::{Deserialize, Serialize};

use super::GpuPart;
use super::part_records::{
    CopyTimes, ModelsRecord, OutOfCoreRecord, RanksRecord, ResidentRecord, ResidentTimes,
    StepRecord, StreamedRecord, TogetherRecord,
};
use super::rows::RowRecord;
use crate::report::MxmReport;
use crate::results::{Origin, RoundSample, figures_by_round, to_json};

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
    /// The side of the C that stays on the GPU.
    pub side: usize,
    /// The parts that were measured.
    #[serde(default)]
    pub parts: Vec<PartRecord>,
    /// The platform files by name.
    #[serde(default)]
    pub platforms: BTreeMap<String, String>,
    #[serde(default)]
    pub samples: Vec<GpuSample>,
    #[serde(default)]
    pub summary: Vec<RowRecord>,
    #[serde(default)]
    pub resident: Vec<ResidentRecord>,
    pub streamed: Option<StreamedRecord>,
    pub out_of_core: Option<OutOfCoreRecord>,
    pub models: Option<ModelsRecord>,
    pub together: Option<TogetherRecord>,
    pub ranks: Option<RanksRecord>,
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
    /// Copies between host and GPU.
    Copies { copies: CopyTimes },
    /// A job whose C stays on the GPU.
    Resident(ResidentTimes),
    /// A job whose C visits the GPU in tiles: the seconds of each visit.
    Visits { updates: usize, visits_s: Vec<f64> },
    /// A multiplication of `isochron mxm`.
    Run {
        report: Box<MxmReport>,
        /// Measurements of IDPA, if they were counted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        iterations: Option<usize>,
    },
    /// A product.
    Product { seconds: f64 },
}

/// The measured thing and the contestant.
pub type About<'a> = (&'a str, &'a str);

impl RoundSample for GpuSample {
    fn round(&self) -> usize {
        self.round
    }
}

impl GpuFigures {
    /// Returns the seconds of a product.
    pub fn product_s(&self) -> Option<f64> {
        match self {
            Self::Product { seconds } => Some(*seconds),
            _ => None,
        }
    }

    /// Returns the report of a multiplication.
    pub fn report(&self) -> Option<&MxmReport> {
        match self {
            Self::Run { report, .. } => Some(report),
            _ => None,
        }
    }
}

impl GpuResults {
    /// Lists the things that a part has measured, in the order in which they came.
    pub fn list_whats(&self, part: GpuPart) -> Vec<&str> {
        let mut found: Vec<&str> = Vec::new();
        for sample in self.samples.iter().filter(|sample| sample.part == part) {
            if !found.contains(&&*sample.what) {
                found.push(&sample.what);
            }
        }
        found
    }

    /// Returns a figure of a part's samples by round.
    pub fn figures(
        &self,
        part: GpuPart,
        (what, who): About<'_>,
        figure: impl Fn(&GpuFigures) -> Option<f64>,
    ) -> Vec<f64> {
        let samples = self.samples.iter();
        figures_by_round(
            samples.filter(|s| s.part == part && s.what == what && s.who == who),
            |sample| figure(&sample.figures).unwrap_or(f64::NAN),
        )
    }
}

/// The results so far, with the file that keeps them.
pub struct GpuRecord {
    file: PathBuf,
    pub results: GpuResults,
    /// All errors so far.
    pub errors: Vec<String>,
}

impl GpuRecord {
    pub fn new(file: PathBuf, results: GpuResults) -> Self {
        Self {
            file,
            results,
            errors: Vec::new(),
        }
    }

    /// Reports an error and remembers it.
    pub fn add_error(&mut self, error: String) {
        eprintln!("{error}");
        self.errors.push(error);
    }

    /// Returns `true` if this contestant has failed with this thing in this part.
    pub fn has_failed(&self, part: GpuPart, about: About<'_>) -> bool {
        let start = error_start(part, about);
        self.errors.iter().any(|error| error.starts_with(&start))
    }

    /// Measures a sample, reports it and keeps it. A measurement that fails is reported and not tried again.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn sample(
        &mut self,
        (part, round): (GpuPart, usize),
        (what, who): About<'_>,
        measure: impl FnOnce() -> anyhow::Result<GpuFigures>,
    ) -> anyhow::Result<()> {
        if self.has_failed(part, (what, who)) {
            return Ok(());
        }
        match measure() {
            Ok(figures) => {
                eprintln!("round {round} {what} {who}");
                self.results.samples.push(GpuSample {
                    part,
                    round,
                    what: what.to_owned(),
                    who: who.to_owned(),
                    figures,
                });
                self.write()
            }
            Err(error) => {
                self.add_error(format!("{}{error:#}", error_start(part, (what, who))));
                Ok(())
            }
        }
    }

    /// Writes the file. A run that is aborted leaves the last complete one.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self) -> anyhow::Result<()> {
        let partial = self.file.with_extension("partial");
        std::fs::write(&partial, to_json(&self.results)?)
            .with_context(|| partial.display().to_string())?;
        std::fs::rename(&partial, &self.file).with_context(|| self.file.display().to_string())
    }
}

/// Returns the beginning of the error of a contestant.
fn error_start(part: GpuPart, (what, who): About<'_>) -> String {
    format!("{}: {what}, {who}: ", part.name())
}

/// Results without any samples, for tests.
#[cfg(test)]
pub fn make_test_results(samples: Vec<GpuSample>) -> GpuResults {
    GpuResults {
        origin: Origin::new("made up".to_owned()),
        emulated: false,
        finding: String::new(),
        gpu: CudaInfo {
            ordinal: 0,
            name: "GPU model".to_owned(),
            uuid: String::new(),
            pci_bus_id: String::new(),
            compute_capability: (9, 0),
            memory_bytes: 1 << 34,
            multiprocessors: 100,
            clock_hz: None,
            peak_f64_flops_per_s: None,
            peak_f32_flops_per_s: None,
            is_slice: false,
        },
        blas: "cuBLAS".to_owned(),
        host_cores: 1,
        cores: 2,
        memory_available_bytes: None,
        side: 8,
        parts: Vec::new(),
        platforms: BTreeMap::new(),
        samples,
        summary: Vec::new(),
        resident: Vec::new(),
        streamed: None,
        out_of_core: None,
        models: None,
        together: None,
        ranks: None,
        step: None,
    }
}
