//! Runs of contenders that describe them, as `isochron mxm --json` does: who computed what, and when.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::CampaignError;
use crate::file::Campaign;
use crate::folder::read_document;
use crate::history::{Cell, History};
use crate::record::Repetition;
use crate::statistics::MedianInterval;

/// The runs of a campaign.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Runs {
    /// All devices.
    devices: Vec<Device>,
    /// Their numbers.
    #[serde(skip)]
    numbers: BTreeMap<Device, usize>,
    /// The speed of each device in each row, by medians over rounds.
    speeds: Vec<ShownSpeed>,
    /// Predicted and measured seconds of each run that has both.
    predictions: Vec<ShownPrediction>,
    /// In each row the run of the middle value.
    runs: Vec<Run>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct Device {
    name: String,
    /// Devices of one class are alike.
    class: String,
}

#[derive(Debug, Clone, Serialize)]
struct ShownSpeed {
    row: usize,
    /// Number of the device.
    device: usize,
    /// Elements of C that it computed.
    elements: f64,
    gflops: MedianInterval,
}

#[derive(Debug, Clone, Serialize)]
struct ShownPrediction {
    row: usize,
    round: u32,
    predicted_s: f64,
    measured_s: f64,
}

/// A run, as charts show it.
#[derive(Debug, Clone, Serialize)]
struct Run {
    row: usize,
    round: u32,
    m: f64,
    n: f64,
    k: f64,
    gflops: Option<f64>,
    wall_s: f64,
    ideal_s: Option<f64>,
    account: Option<BTreeMap<String, f64>>,
    nodes: Vec<RunNode>,
}

#[derive(Debug, Clone, Serialize)]
struct RunNode {
    #[serde(flatten)]
    part: Part,
    devices: Vec<RunDevice>,
}

#[derive(Debug, Clone, Serialize)]
struct RunDevice {
    /// Number of the device.
    device: usize,
    busy_s: f64,
}

/// The parts of a report of `isochron mxm` that charts show.
#[derive(Debug, Clone, Deserialize)]
struct KeptDocument {
    m: f64,
    n: f64,
    k: f64,
    block: f64,
    #[serde(default)]
    element: String,
    wall_s: f64,
    gflops: Option<f64>,
    ideal_s: Option<f64>,
    #[serde(default)]
    way: String,
    #[serde(default)]
    candidates: Vec<ShownCandidate>,
    nodes: Vec<DocumentNode>,
    account: Option<BTreeMap<String, f64>>,
}

#[derive(Debug, Clone, Deserialize)]
struct ShownCandidate {
    way: String,
    wall_s: f64,
}

#[derive(Debug, Clone, Deserialize)]
struct DocumentNode {
    #[serde(flatten)]
    part: Part,
    devices: Vec<DocumentDevice>,
}

/// The part of a node in the work.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Part {
    rank: usize,
    host: String,
    row: usize,
    col: usize,
    rows: usize,
    cols: usize,
    busy_s: f64,
    #[serde(default)]
    exposed_s: f64,
    #[serde(default)]
    sum_s: f64,
}

#[derive(Debug, Clone, Deserialize)]
struct DocumentDevice {
    name: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    blas: String,
    paced: Option<String>,
    #[serde(default)]
    cores: Vec<usize>,
    units: f64,
    busy_s: f64,
}

impl Runs {
    /// Adds the runs of a row by their documents, ascending by value. Documents of other programs are left out.
    pub fn add_row(&mut self, confidence: f64, row: usize, documents: &[(&Repetition, Value)]) {
        let mut documents: Vec<(&Repetition, KeptDocument)> = documents
            .iter()
            .filter_map(|(repetition, document)| {
                Some((*repetition, KeptDocument::deserialize(document).ok()?))
            })
            .collect();
        let mut samples: BTreeMap<usize, Vec<(f64, f64)>> = BTreeMap::new();
        for (repetition, document) in &documents {
            self.predictions.extend(document.predict(row, repetition));
            for (part, device) in document.list_devices() {
                let number = self.number_of(Device::new(part, device));
                let elements = device.units * document.block * document.block;
                if elements > 0.0 && device.busy_s > 0.0 {
                    let gflops = elements * document.flops_per_element() / device.busy_s / 1e9;
                    samples.entry(number).or_default().push((elements, gflops));
                }
            }
        }
        for (device, samples) in samples {
            let median = |values: Vec<f64>| MedianInterval::of(values, confidence);
            let elements = median(samples.iter().map(|sample| sample.0).collect());
            let gflops = median(samples.iter().map(|sample| sample.1).collect());
            if let (Some(elements), Some(gflops)) = (elements, gflops) {
                self.speeds.push(ShownSpeed { row, device, elements: elements.median, gflops });
            }
        }
        if !documents.is_empty() {
            let (repetition, document) = documents.swap_remove(documents.len() / 2);
            let run = self.make_run(row, repetition, document);
            self.runs.push(run);
        }
    }

    /// Returns the number of a device, which is new or known.
    fn number_of(&mut self, device: Device) -> usize {
        let next = self.devices.len();
        let number = *self.numbers.entry(device.clone()).or_insert(next);
        if number == next {
            self.devices.push(device);
        }
        number
    }

    fn make_run(&mut self, row: usize, repetition: &Repetition, document: KeptDocument) -> Run {
        let nodes = document.nodes.into_iter().map(|node| {
            let devices = node.devices.iter().map(|device| RunDevice {
                device: self.number_of(Device::new(&node.part, device)),
                busy_s: device.busy_s,
            });
            RunNode { devices: devices.collect(), part: node.part }
        });
        Run {
            row,
            round: repetition.round.unwrap_or(0),
            nodes: nodes.collect(),
            m: document.m,
            n: document.n,
            k: document.k,
            gflops: document.gflops,
            wall_s: document.wall_s,
            ideal_s: document.ideal_s,
            account: document.account,
        }
    }
}

/// Reads the documents of the repetitions that count from these folders, ascending by value.
///
/// # Errors
/// Returns [`CampaignError::File`] if a document is damaged.
pub(super) fn read_documents<'h>(
    folders: &[PathBuf],
    campaign: &Campaign,
    history: &'h History,
    cell: Cell,
) -> Result<Vec<(&'h Repetition, Value)>, CampaignError> {
    let counted = history
        .list_counted(cell, u32::MAX)
        .map(|(_, repetition)| repetition)
        .filter(|repetition| repetition.is_done());
    let mut documents = Vec::new();
    for repetition in counted {
        if let Some(name) = &repetition.document
            && let Some(document) = read_document(folders, name)?
        {
            documents.push((repetition, document));
        }
    }
    let value = |repetition: &Repetition| {
        let value = campaign.contender_of(cell).find_value(repetition);
        value.unwrap_or(f64::INFINITY)
    };
    documents.sort_by(|(a, _), (b, _)| value(a).total_cmp(&value(b)));
    Ok(documents)
}

impl Device {
    fn new(part: &Part, device: &DocumentDevice) -> Self {
        let cores = match device.cores.len() {
            1 => "1 core".to_owned(),
            cores => format!("{cores} cores"),
        };
        let paced = device.paced.as_ref().map(|pace| format!("paced {pace}"));
        let words = [Some(device.kind.clone()), Some(cores), Some(device.blas.clone()), paced];
        let words: Vec<String> =
            words.into_iter().flatten().filter(|word| !word.is_empty()).collect();
        Self {
            name: format!("{} {} {}", part.host, part.rank, device.name),
            class: words.join(", "),
        }
    }
}

impl KeptDocument {
    fn list_devices(&self) -> impl Iterator<Item = (&Part, &DocumentDevice)> {
        self.nodes.iter().flat_map(|node| node.devices.iter().map(|device| (&node.part, device)))
    }

    /// Floating-point operations for an element of C.
    fn flops_per_element(&self) -> f64 {
        // A product of complex numbers takes four of real ones.
        let factor = if self.element.starts_with('c') { 8.0 } else { 2.0 };
        factor * self.k
    }

    /// Returns what was predicted for the way that was taken.
    fn predict(&self, row: usize, repetition: &Repetition) -> Option<ShownPrediction> {
        let taken = self.candidates.iter().find(|candidate| candidate.way == self.way)?;
        Some(ShownPrediction {
            row,
            round: repetition.round?,
            predicted_s: taken.wall_s,
            measured_s: self.wall_s,
        })
    }
}
