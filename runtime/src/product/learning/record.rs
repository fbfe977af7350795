//! Times and decisions of a run.

use std::path::Path;

use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};

use crate::comm::{CollectiveCall, Comm, share_outcome};
use crate::error::Error;
use crate::input::read_text;
use crate::plan::Plan;
use crate::plan::place::RunConditions;
use crate::product::director::Directive;
use crate::product::seen_step::SeenStep;

/// Version of the document.
const SCHEMA: u32 = 1;

/// The keys of every version of the document, which no plan has.
#[derive(Deserialize)]
struct RecordKeys {
    schema: u32,
    #[serde(rename = "decisions")]
    _decisions: IgnoredAny,
}

fn parse_json<T: DeserializeOwned>(text: &str, path: &Path) -> Result<T, Error> {
    // From bytes, as plans: from text, all would be compiled once more.
    serde_json::from_slice(text.as_bytes())
        .map_err(|error| Error::file(path, format!("no record of a run: {error}")))
}

/// A run that learnt: its plan, and every decision with the times that led to it. The same decisions follow from it
/// again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct RunRecord {
    /// Version of the format.
    #[cfg_attr(feature = "schemars", schemars(extend("const" = SCHEMA)))]
    schema: u32,
    /// The plan that the run began with: a saved plan, without `predicted`.
    plan: Plan,
    /// Conditions of these hosts that decide on the cost of changes.
    conditions: RunConditions,
    /// Every decision, in order.
    decisions: Vec<RecordedDecision>,
}

/// A decision in mid-run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct RecordedDecision {
    /// First step in which it was in force.
    pub step: usize,
    /// The steps of each rank since the last decision, by rank.
    pub ranks: Vec<Vec<SeenStep>>,
    /// Seconds of the last change, if there was one since the last decision.
    pub changing_s: f64,
    /// The decision.
    pub directive: Directive,
    /// `true` if a host had no memory for the change.
    pub is_refused: bool,
}

impl RecordedDecision {
    /// Returns the directive without a change that found no memory.
    pub(super) fn to_obey(&self) -> Directive {
        let change = self.directive.change.clone();
        Directive { change: change.filter(|_| !self.is_refused), ..self.directive }
    }
}

impl RunRecord {
    pub(super) fn new(
        plan: Plan,
        conditions: RunConditions,
        decisions: Vec<RecordedDecision>,
    ) -> Self {
        Self { schema: SCHEMA, plan: plan.without_fit(), conditions, decisions }
    }

    /// The plan that the run began with.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    pub(super) fn conditions(&self) -> &RunConditions {
        &self.conditions
    }

    pub(super) fn decision(&self, index: usize) -> Option<&RecordedDecision> {
        self.decisions.get(index)
    }

    /// Reads a record on the head rank and sends it to all.
    ///
    /// # Errors
    /// On every rank: [`Error::File`] when the file cannot be read or is no record, [`Error::Record`] when it is of
    /// another version, or its decisions are not of its plan; [`Error::Plan`] when its plan is impossible.
    ///
    /// # Collective
    /// All ranks, with the same path.
    pub fn load(comm: &dyn Comm, path: &Path) -> Result<Self, Error> {
        let _call =
            CollectiveCall::new(comm, "loading a record").with_path("file", path).enter()?;
        let read = (comm.rank() == 0).then(|| {
            let text = read_text(path).map_err(|error| Error::file(path, error))?;
            Self::parse(&text, path)
        });
        let mut record: Self = share_outcome(comm, 0, read)?;
        record.plan.note_file(path);
        Ok(record)
    }

    fn parse(text: &str, path: &Path) -> Result<Self, Error> {
        let RecordKeys { schema, .. } = parse_json(text, path)?;
        if schema != SCHEMA {
            let reason = format!("it is of version {schema}, not {SCHEMA}");
            return Err(Error::Record(reason));
        }
        let record: Self = parse_json(text, path)?;
        record.check()?;
        Ok(record)
    }

    fn check(&self) -> Result<(), Error> {
        self.plan.check()?;
        if self.plan.look().is_none() {
            return Err(Error::Record("its plan leaves nothing to the run".to_owned()));
        }
        let nodes = self.plan.nodes();
        for (index, decision) in self.decisions.iter().enumerate() {
            let mut ranks = decision.ranks.iter().zip(nodes);
            let suits = ranks.all(|(steps, node)| {
                steps.iter().all(|step| step.samples.len() == node.devices.len())
            });
            if !suits || decision.ranks.len() != nodes.len() {
                return Err(Error::Record(format!(
                    "the times of its decision {index} are not those of its devices"
                )));
            }
        }
        Ok(())
    }
}
