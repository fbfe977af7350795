//! Contenders learn the speeds of made-up clusters: what knowing how to balance costs, and what it saves.
//!
//! A simulation, the same in every run: [`instance`] makes clusters of known times, [`simulation`] is the clock, [`contender`]
//! measures and runs.

mod contender;
mod decision;
mod in_run;
mod instance;
mod noise;
mod simulation;
mod vary;

use anyhow::ensure;
use isochron_hierarchy::learn::Tuning;
use serde::Serialize;

use contender::LearningContender;
pub use decision::time_decisions;
use instance::{KnownCluster, Setting};
use simulation::SimulatedRun;
use vary::Variation;

/// A contender and the instances that it runs.
#[derive(clap::Args)]
pub struct LearningArguments {
    contender: LearningContender,
    /// The kind of cluster
    setting: Setting,
    nodes: usize,
    /// Steps of a run
    steps: u64,
    /// Number of instances
    instances: u64,
    /// Number of the first instance
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// A number that the learner decides by, and a factor of it: look.patience=2
    #[arg(long, value_name = "NAME=FACTOR")]
    vary: Option<Variation>,
}

/// What the runs of a contender cost. A ratio is (measuring + moving C + run) / ideal of an instance.
#[derive(Debug, PartialEq, Serialize)]
struct LearningCosts {
    /// Mean of the ratios.
    mean_over_ideal: f64,
    /// The ratio that nine of ten instances do not exceed.
    decile_over_ideal: f64,
    /// The largest ratio.
    worst_over_ideal: f64,
    /// Number of the instance with the largest ratio.
    worst_instance: u64,
    /// The largest ratio to the seconds of the even division.
    worst_over_even: f64,
    /// Mean part of the ideal time that measuring before the run took.
    measuring: f64,
    /// Mean part of the ideal time that moving C took.
    moving: f64,
    /// Mean number of times that C moved.
    moves: f64,
}

/// Simulates the runs and prints what they cost as JSON.
///
/// # Errors
/// Returns the errors of the contender.
pub fn run(arguments: &LearningArguments) -> anyhow::Result<()> {
    println!("{}", serde_json::to_string(&arguments.simulate()?)?);
    Ok(())
}

impl LearningArguments {
    fn simulate(&self) -> anyhow::Result<LearningCosts> {
        let tuning = match &self.vary {
            Some(variation) => variation.apply_to(Tuning::default())?,
            None => Tuning::default(),
        };
        let mut ratios = Vec::new();
        let (mut measuring, mut moving, mut moves, mut worst_over_even) = (0.0, 0.0, 0.0, 0.0_f64);
        for number in self.first..self.first + self.instances {
            let cluster = KnownCluster::draw(self.setting, self.nodes, number);
            let mut run = SimulatedRun::new(&cluster, self.steps, number ^ self.steps << 32);
            self.contender.run(&mut run, tuning)?;
            ensure!(run.steps_left() == 0, "the contender ends before the run");
            let (cost, ideal_s) = (run.cost(), cluster.ideal_s() * self.steps as f64);
            ratios.push((cost.total_s() / ideal_s, number));
            let even_s = cluster.even_s() * self.steps as f64;
            worst_over_even = worst_over_even.max(cost.total_s() / even_s);
            measuring += cost.measuring_s / ideal_s;
            moving += cost.moving_s / ideal_s;
            moves += f64::from(cost.moves);
        }
        ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
        let Some(&(worst_over_ideal, worst_instance)) = ratios.last() else {
            anyhow::bail!("no instances");
        };
        let n = ratios.len() as f64;
        Ok(LearningCosts {
            mean_over_ideal: ratios.iter().map(|(ratio, _)| ratio).sum::<f64>() / n,
            decile_over_ideal: ratios[(0.9 * n).ceil() as usize - 1].0,
            worst_over_ideal,
            worst_instance,
            worst_over_even,
            measuring: measuring / n,
            moving: moving / n,
            moves: moves / n,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn simulate(
        contender: LearningContender,
        first: u64,
        instances: u64,
    ) -> anyhow::Result<LearningCosts> {
        LearningArguments {
            contender,
            setting: Setting::Cliff,
            nodes: 4,
            steps: 30,
            instances,
            first,
            vary: None,
        }
        .simulate()
    }

    #[test]
    fn a_run_is_the_same_again() -> anyhow::Result<()> {
        for contender in [LearningContender::Paper, LearningContender::Fpm] {
            let costs = simulate(contender, 0, 3)?;
            assert_eq!(costs, simulate(contender, 0, 3)?);
            // Measuring costs something.
            assert!(costs.measuring > 0.0);
        }
        Ok(())
    }

    #[test]
    fn of_ten_instances_nine_are_within_the_ninth_decile() -> anyhow::Result<()> {
        let ten = simulate(LearningContender::Adaptive, 0, 10)?;
        let mut ratios = Vec::new();
        for first in 0..10 {
            ratios.push(simulate(LearningContender::Adaptive, first, 1)?.mean_over_ideal);
        }
        // Nothing undercuts the ideal.
        assert!(ratios.iter().all(|&ratio| ratio > 1.0), "{ratios:?}");
        assert_eq!(ratios[ten.worst_instance as usize], ten.worst_over_ideal);
        ratios.sort_by(f64::total_cmp);
        assert_eq!(ten.decile_over_ideal, ratios[8]);
        assert!((ten.mean_over_ideal - ratios.iter().sum::<f64>() / 10.0).abs() < 1e-12);
        Ok(())
    }
}
