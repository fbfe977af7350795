//! The contenders: ways to find a division and to run on it.

use isochron_devices::MeasureConfig;
use isochron_hierarchy::balance::{BalanceConfig, BalanceStart, BalanceStep, Extent, Inpa};
use isochron_hierarchy::learn::Tuning;

use super::in_run::learn_in_run;
use super::simulation::SimulatedRun;

/// A way to find a division and to run on it.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum LearningContender {
    /// INPA with the start of the papers, one block and then the even division, and no thought of what measuring costs. Its
    /// other rules are those of [`Fpm`](Self::Fpm).
    Paper,
    /// INPA with the rules of this project.
    Fpm,
    /// A short look, and then the steps themselves.
    Adaptive,
}

impl LearningContender {
    /// Runs all steps of a run: [`measure`](SimulatedRun::measure) and [`look_once`](SimulatedRun::look_once) before the
    /// first, [`place`](SimulatedRun::place) before it and wherever C shall move, and [`step`](SimulatedRun::step) or
    /// [`finish`](SimulatedRun::finish).
    ///
    /// # Errors
    /// Returns the errors of balancing.
    pub fn run(self, run: &mut SimulatedRun<'_>, tuning: Tuning) -> anyhow::Result<()> {
        let config = BalanceConfig {
            steps: run.steps_left(),
            reps: MeasureConfig::default().min_reps,
            ..BalanceConfig::default()
        };
        match self {
            // Without a number of steps no measurement is too dear.
            Self::Paper => {
                balance_before(run, BalanceConfig { start: BalanceStart::Even, steps: 0, ..config })
            }
            Self::Fpm => balance_before(run, config),
            Self::Adaptive => learn_in_run(run, tuning),
        }
    }
}

/// Balances the nodes by INPA, then runs all steps on the result.
fn balance_before(run: &mut SimulatedRun<'_>, config: BalanceConfig) -> anyhow::Result<()> {
    let mut inpa = Inpa::new(config, run.n_nodes(), run.side(), run.side());
    let balance = loop {
        match inpa.step() {
            BalanceStep::Done(balance) => break balance,
            BalanceStep::Measure(extents) => {
                let blocks: Vec<u64> = extents.iter().map(Extent::area).collect();
                inpa.observe(&run.measure(&blocks))?;
            }
        }
    };
    run.place(balance.layout);
    run.finish();
    Ok(())
}
