//! The campaign file.

mod check;
mod combine;
mod raw;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::CampaignError;
use crate::expression::Expression;
use crate::point::{CampaignPoint, Parameter, Parameters, fingerprint};
use crate::reading::{ResultRule, TOOK};
use crate::template::Template;

/// Name of the folder of results in commands.
pub(crate) const FOLDER: &str = "folder";

/// The place of this folder in a command that does not know it yet: a text that no command line can have.
const FOLDER_PLACE: &str = "\0folder\0";

/// A campaign, as its file describes it.
#[derive(Debug, Clone)]
pub struct Campaign {
    /// Name of the campaign.
    pub name: String,
    /// Text for the readers of its report, in Markdown.
    pub about: Option<String>,
    /// Seed of the order within each round.
    pub seed: u64,
    /// The points, in the order of the file.
    pub points: Vec<CampaignPoint>,
    /// The contenders. Ratios have the first one below the line.
    pub contenders: Vec<Contender>,
    /// The number of repetitions.
    pub repeat: Repeat,
    /// The goals.
    pub goals: Vec<CampaignGoal>,
    /// Names of the values that the file computes from results, in its order.
    pub values: Vec<String>,
    /// The file as it was read.
    pub text: String,
    /// Folder of the file, in which commands run.
    pub folder: PathBuf,
}

/// A program that is measured.
#[derive(Debug, Clone)]
pub struct Contender {
    /// Name of the contender.
    pub name: String,
    pub(crate) command: Template,
    pub(crate) launch: Option<Template>,
    pub(crate) env: BTreeMap<String, Template>,
    pub(crate) result: ResultRule,
    /// Values computed from the results and the parameters, each also from those before it.
    pub(crate) computed: Vec<ComputedValue>,
    /// Numbers of the points at which it runs.
    pub(crate) points: BTreeSet<usize>,
    /// Values of each name that is tuned.
    pub(crate) tune: BTreeMap<String, Vec<Parameter>>,
    /// The condition on combinations of tuned values.
    pub(crate) tune_when: Option<Expression>,
    /// The value by which contenders are compared.
    pub(crate) value: Expression,
    /// The direction in which the value is better.
    pub better: Better,
    /// Longest time of a repetition.
    pub limit_s: f64,
    /// `true` if the JSON document of each repetition is kept.
    pub keep: bool,
    /// Numbers as the file writes them, by their bits.
    pub(crate) numbers: Arc<BTreeMap<u64, String>>,
    /// Fingerprint of everything that decides what is measured.
    pub(crate) definition: String,
}

/// A value that is computed from the results of a repetition.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ComputedValue {
    pub name: String,
    pub expression: Expression,
}

/// The direction in which a value is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// The smaller value, as of times.
    Less,
    /// The larger value, as of speeds.
    More,
}

/// The number of repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Repeat {
    /// Fewest rounds.
    pub min: u32,
    /// Most rounds.
    pub max: u32,
    /// Half-width of the interval of a median, over the median, at which repetition ends.
    pub precision: f64,
    /// Confidence of the interval. Exact values have a confidence of 1.
    pub confidence: f64,
    /// Seconds of all repetitions together, after which the campaign ends, or of those of each number of nodes; `None` without a
    /// limit.
    pub seconds: Option<f64>,
    /// Most repetitions of a repetition that was disturbed.
    pub again: u32,
    /// `true` if values are the same in every repetition: there is one round.
    pub exact: bool,
}

impl Default for Repeat {
    fn default() -> Self {
        Self {
            min: 3,
            max: 15,
            precision: 0.025,
            confidence: 0.95,
            seconds: None,
            again: 2,
            exact: false,
        }
    }
}

/// A bound of a value, or of the ratio of two.
#[derive(Debug, Clone)]
pub struct CampaignGoal {
    /// Name for readers.
    pub name: Option<String>,
    pub(crate) above: Expression,
    /// The value below the line; `None` for a bound of a value.
    pub(crate) below: Option<Expression>,
    /// Numbers of the points at which it is judged.
    pub(crate) points: BTreeSet<usize>,
    /// Least figure that meets the goal.
    pub at_least: Option<f64>,
    /// Largest figure that meets the goal.
    pub at_most: Option<f64>,
}

impl Campaign {
    /// Reads a campaign file.
    ///
    /// # Errors
    /// Returns [`CampaignError::File`] if it cannot be read, [`CampaignError::Line`] for a mistake in it.
    pub fn read(path: &Path) -> Result<Self, CampaignError> {
        Self::read_as(path, false)
    }

    /// Reads the copy of a campaign file, which may be older than a rule of this program: that decides only what may be begun.
    pub(crate) fn read_copy(path: &Path) -> Result<Self, CampaignError> {
        Self::read_as(path, true)
    }

    fn read_as(path: &Path, is_copy: bool) -> Result<Self, CampaignError> {
        let text = fs::read_to_string(path).map_err(|error| {
            let reason = match error.kind() {
                ErrorKind::NotFound => "is not there",
                ErrorKind::IsADirectory => "is a folder",
                ErrorKind::InvalidData => "is no text",
                _ => return CampaignError::file(path, format!("cannot be read: {error}")),
            };
            CampaignError::file(path, format!("{reason}: name a campaign file, in TOML"))
        })?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let folder = fs::canonicalize(folder).map_err(|error| CampaignError::file(path, error))?;
        Self::parse(&text, folder, is_copy).map_err(|mistake| CampaignError::Line {
            path: path.to_path_buf(),
            line: 1 + text.get(..mistake.at).unwrap_or_default().matches('\n').count(),
            reason: mistake.reason,
        })
    }

    /// Returns the numbers of nodes that its points need; none if the file does not say.
    pub fn list_nodes(&self) -> BTreeSet<u32> {
        self.points.iter().filter_map(|point| point.nodes).collect()
    }

    /// Returns the campaign with only the points that need this number of nodes.
    pub(crate) fn restrict(&self, nodes: u32) -> Self {
        let points = self.points.iter().cloned().enumerate();
        let (numbers, points): (Vec<usize>, Vec<CampaignPoint>) =
            points.filter(|(_, point)| point.nodes == Some(nodes)).unzip();
        let mut restricted = self.clone();
        restricted.points = points;
        let contenders = restricted.contenders.iter_mut().map(|it| &mut it.points);
        let goals = restricted.goals.iter_mut().map(|it| &mut it.points);
        for points in contenders.chain(goals) {
            let places = 0..numbers.len();
            *points = places.filter(|&place| points.contains(&numbers[place])).collect();
        }
        restricted
    }

    /// Returns the contender with this name.
    pub(crate) fn find_contender(&self, name: &str) -> Option<&Contender> {
        self.contenders.iter().find(|contender| contender.name == name)
    }
}

impl Contender {
    /// Returns the words of its command line at a point, launcher first, and its environment variables. The folder of results
    /// is not filled in: [`CommandLine::describe`] shows its name.
    ///
    /// # Errors
    /// Fails for a quotation mark without its other half.
    pub fn make_command(
        &self,
        parameters: &Parameters,
        tuned: &Parameters,
    ) -> Result<CommandLine, String> {
        let value = |name: &str| {
            if name == FOLDER {
                return FOLDER_PLACE.to_owned();
            }
            let found = parameters.get(name).or_else(|| tuned.get(name));
            let written = found.and_then(|it| match it {
                Parameter::Number(number) => self.numbers.get(&number.to_bits()).cloned(),
                _ => None,
            });
            written.or(found.map(ToString::to_string)).unwrap_or_default()
        };
        let split = |text: &str| {
            shlex::split(text).ok_or_else(|| format!("`{text}` has an open quotation"))
        };
        let launcher = self.launch.as_ref().map(|launch| launch.fill(&value) + " ");
        let launcher = launcher.unwrap_or_default();
        let text = format!("{launcher}{}", self.command.fill(&value));
        let env = self.env.iter().map(|(name, text)| (name.clone(), text.fill(&value)));
        Ok(CommandLine {
            words: split(&text)?,
            launcher: split(&launcher)?.len(),
            env: env.collect(),
            text,
        })
    }

    /// Returns all combinations of the values that are tuned at a point; one that is empty if there are none.
    pub(crate) fn list_tunings(&self, parameters: &Parameters) -> Vec<Parameters> {
        // Counted when the file was read.
        let mut tunings = combine::combine_all(&self.tune).unwrap_or_default();
        if let Some(condition) = &self.tune_when {
            tunings.retain(|tuned| {
                let names = combine::merge(parameters, tuned);
                // Checked when the file was read.
                condition.holds(&names).unwrap_or(false)
            });
        }
        tunings
    }

    /// Returns the names that a repetition gives values.
    pub(crate) fn value_names(&self) -> Vec<&str> {
        let computed = self.computed.iter().map(|value| value.name.as_str());
        let names = self.result.names().into_iter().chain([TOOK]);
        names.chain(computed).collect()
    }
}

/// A command line with its environment variables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandLine {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// Words of the launcher among them, which come first.
    pub(crate) launcher: usize,
    /// Variables that it gets besides those of the engine.
    pub env: BTreeMap<String, String>,
    /// The line before it was split.
    pub(crate) text: String,
}

impl CommandLine {
    /// Returns the line with the folder of results in place of its name.
    pub(crate) fn locate(mut self, folder: &Path) -> Self {
        let folder = folder.to_string_lossy();
        for text in self.words.iter_mut().chain(self.env.values_mut()) {
            *text = text.replace(FOLDER_PLACE, &folder);
        }
        self
    }

    /// Returns the line as a shell takes it. The folder of results appears as `{folder}` until it is located.
    pub fn describe(&self) -> String {
        let show = |text: &str| quote(&text.replace(FOLDER_PLACE, "{folder}"));
        let env = self.env.iter().map(|(name, value)| format!("{name}={}", show(value)));
        let words = self.words.iter().map(|word| show(word));
        env.chain(words).collect::<Vec<_>>().join(" ")
    }
}

/// Quotes a word for a shell if it needs that.
pub(crate) fn quote(word: &str) -> String {
    shlex::try_quote(word).map_or_else(|_| word.to_owned(), |quoted| quoted.into_owned())
}

/// Returns the fingerprint of what decides the measurements of a contender.
fn fingerprint_definition(raw: &raw::RawContender) -> String {
    fingerprint(&serde_json::json!({
        "command": raw.command.get_ref(),
        "launch": raw.launch.as_ref().map(|launch| launch.get_ref()),
        "env": raw.env.iter().map(|(name, text)| (name.get_ref(), text.get_ref())).collect::<BTreeMap<_, _>>(),
        "result": raw.result.as_ref().map(|result| result.get_ref()),
        "tune": raw.tune.iter().map(|(name, values)| (name.get_ref(), values.get_ref())).collect::<BTreeMap<_, _>>(),
        "value": raw.value.as_ref().map(|value| value.get_ref()),
    }))
}
