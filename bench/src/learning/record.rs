//! The file of results: the ratios of each contender on the instances of each size.

use isochron_hierarchy::learn::Tuning;

use serde::{Deserialize, Serialize};

use super::contender::LearningContender;
use super::instance::{KnownCluster, Setting};
use super::simulation::SimulatedRun;
use crate::results::{CampaignResults, Origin};

/// The file of results.
#[derive(Serialize, Deserialize)]
pub struct LearningResults {
    #[serde(flatten)]
    pub origin: Origin,
    pub samples: Vec<LearningSample>,
    /// Seconds of each decision on a large cluster.
    #[serde(default)]
    pub decisions_s: Vec<f64>,
}

impl LearningResults {
    /// Keeps the samples of the contender that cannot be run again.
    ///
    /// # Errors
    /// If the published file cannot be read.
    pub fn keep_before(&mut self) -> anyhow::Result<()> {
        let mut published: Self = Self::PAGE.read()?;
        published
            .samples
            .retain(|sample| sample.contender == LearningContender::FpmBefore);
        self.samples.append(&mut published.samples);
        Ok(())
    }
}

/// The results of one contender on all instances of one kind.
#[derive(Serialize, Deserialize)]
pub struct LearningSample {
    pub setting: Setting,
    pub nodes: usize,
    pub steps: u64,
    pub contender: LearningContender,
    /// (Measuring + run) / ideal of each instance.
    pub over_ideal: Vec<f64>,
    /// Mean part of the ideal time that measuring before the run took.
    pub measuring: f64,
    /// Mean part of the ideal time that moving C took.
    pub moving: f64,
    /// Mean number of times that C moved.
    pub moves: f64,
}

/// Instances of one kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InstanceKind {
    pub setting: Setting,
    pub nodes: usize,
    pub steps: u64,
}

impl InstanceKind {
    /// Numbers of nodes.
    pub const NODES: [usize; 5] = [4, 8, 16, 90, 1000];

    /// Numbers of steps.
    pub const STEPS: [u64; 3] = [30, 150, 1000];

    /// Lists all kinds, in the order of the tables.
    pub fn list_all() -> Vec<Self> {
        let mut kinds = Vec::new();
        for setting in Setting::ALL {
            for nodes in Self::NODES {
                kinds.extend(Self::STEPS.map(|steps| Self {
                    setting,
                    nodes,
                    steps,
                }));
            }
        }
        kinds
    }

    /// Returns the number of instances: many where a goal counts the worst, few where one takes long.
    pub fn count_instances(self) -> u64 {
        match (self.nodes, self.steps) {
            (1000.., _) => 6,
            (90.., _) => 30,
            (_, 150) => 300,
            _ => 100,
        }
    }

    /// Runs a contender on the instances of these numbers; one that learns in the run decides by `tuning`.
    ///
    /// # Errors
    /// The errors of the contender.
    pub fn run(
        self,
        contender: LearningContender,
        tuning: Tuning,
        numbers: impl Iterator<Item = u64>,
    ) -> anyhow::Result<LearningSample> {
        let Self {
            setting,
            nodes,
            steps,
        } = self;
        let mut sample = LearningSample {
            setting,
            nodes,
            steps,
            contender,
            over_ideal: Vec::new(),
            measuring: 0.0,
            moving: 0.0,
            moves: 0.0,
        };
        for number in numbers {
            let cluster = KnownCluster::draw(setting, nodes, number);
            let mut run = SimulatedRun::new(&cluster, steps, number ^ steps << 32);
            contender.run(&mut run, tuning)?;
            anyhow::ensure!(run.steps_left() == 0, "{contender} ends before the run");
            sample.add(&run, cluster.ideal_s() * steps as f64);
        }
        Ok(sample.average())
    }
}

impl LearningSample {
    fn add(&mut self, run: &SimulatedRun<'_>, ideal_s: f64) {
        let cost = run.cost();
        self.over_ideal.push(round(cost.total_s() / ideal_s));
        self.measuring += cost.measuring_s / ideal_s;
        self.moving += cost.moving_s / ideal_s;
        self.moves += f64::from(cost.moves);
    }

    /// Divides the sums by the number of instances.
    fn average(self) -> Self {
        let n = self.over_ideal.len().max(1) as f64;
        Self {
            measuring: round(self.measuring / n),
            moving: round(self.moving / n),
            moves: round(self.moves / n),
            ..self
        }
    }

    pub fn kind(&self) -> InstanceKind {
        InstanceKind {
            setting: self.setting,
            nodes: self.nodes,
            steps: self.steps,
        }
    }

    pub fn mean(&self) -> f64 {
        self.over_ideal.iter().sum::<f64>() / self.over_ideal.len() as f64
    }

    /// Returns the ratio that nine of ten instances do not exceed.
    pub fn ninth_decile(&self) -> f64 {
        let mut sorted = self.over_ideal.clone();
        sorted.sort_by(f64::total_cmp);
        let rank = (0.9 * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.max(1) - 1).copied().unwrap_or(f64::NAN)
    }

    pub fn worst(&self) -> f64 {
        self.over_ideal.iter().copied().fold(f64::NAN, f64::max)
    }

    /// Describes it in a line, with the number of the worst instance.
    pub fn describe(&self) -> String {
        let numbers = 0..self.over_ideal.len();
        let worst = numbers.max_by(|&a, &b| self.over_ideal[a].total_cmp(&self.over_ideal[b]));
        format!(
            "{} {} nodes {} steps {}: {} (no. {}), measuring {:.3}, moving {:.3} in {:.1} moves",
            self.setting,
            self.nodes,
            self.steps,
            self.contender,
            self.text(),
            worst.unwrap_or(0),
            self.measuring,
            self.moving,
            self.moves,
        )
    }

    /// Returns mean, ninth decile and worst as a cell of a table.
    pub fn text(&self) -> String {
        format!(
            "{:.3} / {:.2} / {:.2}",
            self.mean(),
            self.ninth_decile(),
            self.worst()
        )
    }
}

/// Rounds to the four decimals that are kept.
fn round(value: f64) -> f64 {
    (1e4 * value).round() / 1e4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_the_same_again() -> anyhow::Result<()> {
        let kind = InstanceKind {
            setting: Setting::Cliff,
            nodes: 4,
            steps: 30,
        };
        for contender in [LearningContender::Paper, LearningContender::Fpm] {
            let [first, second] = [
                kind.run(contender, Tuning::default(), 0..3)?,
                kind.run(contender, Tuning::default(), 0..3)?,
            ];
            assert_eq!(first.over_ideal, second.over_ideal);
            // Nothing undercuts the ideal, and measuring costs something.
            assert!(first.over_ideal.iter().all(|&ratio| ratio > 1.0));
            assert!(first.measuring > 0.0);
        }
        Ok(())
    }

    #[test]
    fn of_ten_instances_nine_are_within_the_ninth_decile() -> anyhow::Result<()> {
        let mut sample =
            InstanceKind::list_all()[0].run(LearningContender::Fpm, Tuning::default(), 0..0)?;
        sample.over_ideal = (1..=10).map(f64::from).collect();
        assert_eq!(
            (sample.mean(), sample.ninth_decile(), sample.worst()),
            (5.5, 9.0, 10.0)
        );
        Ok(())
    }
}
