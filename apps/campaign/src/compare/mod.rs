//! Comparisons of campaigns.

mod resample;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use isochron_base::printable::show_path;
use serde::Serialize;
use serde_json::Value;

use crate::environment::list_differences;
use crate::error::CampaignError;
use crate::file::{Better, Campaign, Contender};
use crate::folder::read_folder;
use crate::history::{Cell, History};
use crate::point::Parameters;
use crate::statistics::correct_by_holm;
use crate::status::Failed;
pub use resample::MOST_ROUNDS;
use resample::{LogRatio, RoundValues, compare_rounds};

/// Difference, as a part, within which two values are the same.
const SAME: f64 = 0.02;

/// Confidence of the intervals and, over all points, of the verdicts.
const CONFIDENCE: f64 = 0.95;

/// A campaign compared with a baseline of one or more campaigns.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct CampaignComparison {
    /// Version of the format.
    #[cfg_attr(feature = "schemars", schemars(extend("const" = 1)))]
    pub schema: u32,
    /// Folders of the baseline.
    pub baseline: Vec<PathBuf>,
    /// Folder of the campaign that is compared with it.
    pub compared: PathBuf,
    /// Differences between the environments of the last campaign of the baseline and of the compared one.
    pub environment: Vec<Difference>,
    /// What limits the comparison.
    pub notes: Vec<String>,
    /// Each contender at each point that both sides have.
    pub points: Vec<ComparedPoint>,
}

/// A fact in which two environments differ.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Difference {
    /// The fact.
    pub fact: String,
    /// Its value in the baseline.
    pub baseline: Value,
    /// Its value in the compared campaign.
    pub compared: Value,
}

/// A contender at a point, in the compared campaign and in the baseline.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct ComparedPoint {
    /// Parameters of the point.
    pub parameters: Parameters,
    /// Name of the contender.
    pub contender: String,
    /// The value that is compared.
    pub value_of: String,
    /// Median of the medians of the baseline's campaigns.
    pub baseline: Option<f64>,
    /// Median of the compared campaign.
    pub compared: Option<f64>,
    /// Median of the compared campaign over that of the baseline.
    pub ratio: Option<f64>,
    /// Ends of the ratio's interval at 95 %.
    pub interval: Option<[f64; 2]>,
    /// Probability of a ratio as far from 1 without a difference, corrected for all points by Holm.
    pub p_value: Option<f64>,
    /// The verdict.
    pub verdict: PointVerdict,
    /// Rounds that both sides need besides for another verdict than inconclusive, if the ratio stays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub more_rounds: Option<u64>,
    /// Why the contender has failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The verdict on a point.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum PointVerdict {
    /// The value is better, by more than 2 %.
    Faster,
    /// The value is worse, by more than 2 %.
    Slower,
    /// The whole interval is within 2 %.
    Same,
    /// The rounds do not tell.
    #[default]
    Inconclusive,
    /// The contender has failed in the compared campaign, and has no value there.
    Failed,
}

/// One side of a comparison.
struct Side {
    /// Name of the folder.
    name: String,
    campaign: Campaign,
    /// Numbers of the points by their names.
    points: BTreeMap<String, usize>,
    history: History,
    /// Description of the environment of most repetitions.
    environment: Value,
    /// Number of environments.
    n_environments: usize,
}

impl Side {
    fn read(folder: &Path) -> Result<Self, CampaignError> {
        let content = read_folder(folder)?;
        if content.repetitions.is_empty() {
            let reason = "has no measurements yet: run its campaign first";
            return Err(CampaignError::file(folder, reason));
        }
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for repetition in &content.repetitions {
            *counts.entry(&repetition.environment).or_default() += 1;
        }
        let most =
            counts.iter().max_by_key(|(_, count)| **count).map(|(name, _)| (*name).to_owned());
        let n_environments = counts.len();
        let mut environments = content.read_environments(most.into_iter().collect())?;
        Ok(Self {
            name: show_path(folder).to_string(),
            environment: environments.pop_first().map_or(Value::Null, |(_, facts)| facts),
            n_environments,
            points: (content.campaign.points.iter())
                .map(|point| point.id.clone())
                .zip(0..)
                .collect(),
            history: History::new(&content.campaign, content.repetitions),
            campaign: content.campaign,
        })
    }

    /// Returns `true` if this side has the same value of a contender, and the same direction in which it is better.
    fn is_comparable(&self, contender: &Contender) -> bool {
        let own = self.campaign.find_contender(&contender.name);
        own.is_none_or(|own| own.value == contender.value && own.better == contender.better)
    }

    /// Lists the contenders that have run, each with the name of a point.
    fn list_measured(&self) -> impl Iterator<Item = (&str, &str)> {
        let cells = self.campaign.cells();
        let measured = cells.filter(|cell| self.history.rounds_of(*cell) > 0);
        measured.map(|cell| {
            (&*self.campaign.contender_of(cell).name, &*self.campaign.point_of(cell).id)
        })
    }

    /// Returns the values of a contender at a point by round; none if the campaign lacks it.
    fn list_values(&self, point: &str, contender: &str) -> Vec<f64> {
        let point = self.points.get(point).copied();
        let contender = self.campaign.contenders.iter().position(|other| other.name == contender);
        let (Some(point), Some(contender)) = (point, contender) else {
            return Vec::new();
        };
        let cell = Cell { point, contender };
        let counted = self.history.list_counted(cell, u32::MAX);
        counted
            .filter_map(|(_, counted)| self.campaign.contenders[contender].find_value(counted))
            .collect()
    }
}

impl CampaignComparison {
    /// Compares a campaign with a baseline.
    ///
    /// # Errors
    /// Returns [`CampaignError::File`] if a folder holds no campaign, or the baseline and the campaign have nothing in
    /// common; [`CampaignError::Line`] if a file in it is damaged.
    pub fn read(baseline: &[PathBuf], compared: &Path) -> Result<Self, CampaignError> {
        let sides: Vec<Side> =
            baseline.iter().map(|folder| Side::read(folder)).collect::<Result<_, _>>()?;
        let new = Side::read(compared)?;
        let measured: BTreeSet<_> = sides.iter().flat_map(Side::list_measured).collect();
        let mut points: Vec<(ComparedPoint, RoundValues, Better)> = Vec::new();
        for cell in new.campaign.cells() {
            let (point, contender) = (new.campaign.point_of(cell), new.campaign.contender_of(cell));
            let values = RoundValues {
                baseline: sides
                    .iter()
                    .filter(|side| side.is_comparable(contender))
                    .map(|side| side.list_values(&point.id, &contender.name))
                    .collect(),
                compared: new.list_values(&point.id, &contender.name),
            };
            if measured.contains(&(&*contender.name, &*point.id)) {
                let mut point = ComparedPoint {
                    parameters: point.parameters.clone(),
                    contender: contender.name.clone(),
                    value_of: contender.value.source().to_owned(),
                    ..ComparedPoint::default()
                };
                let failed = Failed::find(&new.campaign, &new.history, cell);
                if let Some(failed) = failed.filter(|_| values.compared.is_empty()) {
                    point.verdict = PointVerdict::Failed;
                    point.reason = Some(failed.reason);
                }
                points.push((point, values, contender.better));
            }
        }
        if points.is_empty() {
            let reason = "has no contender and point in common with the baseline";
            return Err(CampaignError::file(compared, reason));
        }
        let notes = list_notes(&sides, &new, &measured);
        let before = sides.last().map_or(&Value::Null, |side| &side.environment);
        let environment = list_differences(before, &new.environment);
        Ok(Self {
            schema: 1,
            baseline: baseline.to_vec(),
            compared: compared.to_path_buf(),
            environment: environment
                .into_iter()
                .map(|(fact, baseline, compared)| Difference { fact, baseline, compared })
                .collect(),
            notes,
            points: judge_all(points),
        })
    }
}

/// Lists what limits a comparison: first what has failed.
fn list_notes(sides: &[Side], new: &Side, before: &BTreeSet<(&str, &str)>) -> Vec<String> {
    let mut notes = Vec::new();
    let all = sides.iter().chain([new]);
    for side in all.clone() {
        let cells = side.campaign.cells();
        let failed = cells.filter_map(|cell| Failed::find(&side.campaign, &side.history, cell));
        // The last failure of each contender.
        let failed: BTreeMap<_, _> = failed.map(|it| (it.contender.clone(), it)).collect();
        notes.extend(failed.into_iter().map(|(contender, it)| {
            format!("`{contender}` has failed in {}: {}", side.name, it.reason)
        }));
    }
    for side in all.filter(|side| side.n_environments > 1) {
        let (name, number) = (&side.name, side.n_environments);
        notes.push(format!("{name} has {number} environments: its report tells how they differ"));
    }
    for contender in &new.campaign.contenders {
        let name = &contender.name;
        if !sides.iter().all(|side| side.is_comparable(contender)) {
            notes.push(format!(
                "`{name}` is compared with another value in the baseline, or in another direction: there is no ratio"
            ));
        }
        let mut before = sides.iter().filter_map(|side| side.campaign.find_contender(name));
        if before
            .any(|it| it.definition != contender.definition || it.computed != contender.computed)
        {
            notes.push(format!(
                "the command or the results of `{name}` differ from those of the baseline"
            ));
        }
    }
    let now: BTreeSet<_> = new.list_measured().collect();
    let (there, here) = ("the baseline", &*new.name);
    for (has, lacks, of, lacking) in [(before, &now, there, here), (&now, before, here, there)] {
        let mut lost: BTreeMap<&str, usize> = BTreeMap::new();
        for (contender, _) in has.difference(lacks) {
            *lost.entry(contender).or_default() += 1;
        }
        notes.extend(lost.iter().map(|(contender, points)| {
            format!("`{contender}` has {points} points in {of} that are not in {lacking}")
        }));
    }
    notes
}

/// Judges all points together.
fn judge_all(points: Vec<(ComparedPoint, RoundValues, Better)>) -> Vec<ComparedPoint> {
    let compared: Vec<_> = points.iter().map(|(_, values, _)| compare_rounds(values)).collect();
    // Points with too few rounds are no tests.
    let p_values: Vec<f64> = compared.iter().flatten().map(LogRatio::p_value).collect();
    let tests = p_values.len();
    let mut corrected = correct_by_holm(&p_values).into_iter();
    let judged = points.into_iter().zip(compared);
    judged
        .map(|((mut point, values, better), ratio)| {
            [point.baseline, point.compared] = values.medians();
            let tested = ratio.and_then(|ratio| Some((ratio, corrected.next()?)));
            let Some((ratio, p_value)) = tested else {
                if point.verdict == PointVerdict::Inconclusive {
                    point.more_rounds = values.lacking();
                }
                return point;
            };
            let half = ratio.quantile(1.0 - (1.0 - CONFIDENCE) / 2.0) * ratio.error;
            let band = SAME.ln_1p();
            point.ratio = Some(ratio.log_ratio.exp());
            point.interval = Some([-half, half].map(|off| (ratio.log_ratio + off).exp()));
            point.p_value = Some(p_value);
            let is_better = (ratio.log_ratio < 0.0) == (better == Better::Less);
            point.verdict = if p_value <= 1.0 - CONFIDENCE && ratio.log_ratio.abs() > band {
                if is_better { PointVerdict::Faster } else { PointVerdict::Slower }
            } else if ratio.log_ratio.abs() + half <= band {
                PointVerdict::Same
            } else {
                PointVerdict::Inconclusive
            };
            if point.verdict == PointVerdict::Inconclusive {
                point.more_rounds =
                    Some(ratio.count_more_rounds(band, half, tests, values.compared.len()));
            }
            point
        })
        .collect()
}

#[cfg(test)]
mod tests;
