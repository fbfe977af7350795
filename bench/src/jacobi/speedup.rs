//! Figure 4.4: the speed-up over the even division, by the number of unknowns.

use std::collections::BTreeSet;

use isochron_plot::{Curve, Mark, Plot, color, draw_plots};
use serde::{Deserialize, Serialize};

use super::trial::JacobiTrial;
use crate::launch::MxmLauncher;
use crate::markdown::format_table;
use crate::results::list_in_turn;
use crate::statistics::MedianRange;

/// The strategies that are compared with the even division, with their colours.
const BALANCED: [(&str, &str); 3] = [
    ("cpm", color::VERMILION),
    ("fpm --partitioner npa", color::BLUE),
    ("adaptive", color::GREEN),
];

const EVEN: &str = "even";

/// The runs of all sizes and strategies.
#[derive(Default, Serialize, Deserialize)]
pub struct SpeedupSamples {
    samples: Vec<SpeedupSample>,
}

/// A run.
#[derive(Serialize, Deserialize)]
struct SpeedupSample {
    round: usize,
    trial: JacobiTrial,
    wall_s: f64,
    moving_s: f64,
    moved: u64,
}

impl SpeedupSamples {
    /// Solves systems of these sizes by all strategies in turn.
    ///
    /// # Errors
    /// If a run fails.
    pub fn measure(
        launcher: &MxmLauncher,
        platform: &str,
        ranks: usize,
        rounds: usize,
        iterations: usize,
        sizes: &[usize],
    ) -> anyhow::Result<Self> {
        let mut samples = Vec::new();
        let strategies: Vec<&str> = [EVEN]
            .into_iter()
            .chain(BALANCED.iter().map(|(name, _)| *name))
            .collect();
        for round in 0..rounds {
            for &size in sizes {
                for &strategy in list_in_turn(&strategies, round) {
                    let trial = JacobiTrial {
                        platform: platform.to_owned(),
                        ranks,
                        size,
                        strategy: strategy.to_owned(),
                        iterations,
                    };
                    let report = trial.run(launcher)?;
                    eprintln!("round {round}, {size}, {strategy}: {:.2} s", report.wall_s);
                    samples.push(SpeedupSample {
                        round,
                        trial,
                        wall_s: report.wall_s,
                        moving_s: report.moving_s,
                        moved: report.moved,
                    });
                }
            }
        }
        Ok(Self { samples })
    }

    fn list_sizes(&self) -> BTreeSet<usize> {
        self.samples
            .iter()
            .map(|sample| sample.trial.size)
            .collect()
    }

    /// Returns the values of a strategy's runs of a size, by round.
    fn list_values(
        &self,
        size: usize,
        strategy: &str,
        value: fn(&SpeedupSample) -> f64,
    ) -> Vec<f64> {
        let runs = self.samples.iter();
        runs.filter(|run| run.trial.size == size && run.trial.strategy == strategy)
            .map(value)
            .collect()
    }

    fn find_speedup(&self, size: usize, strategy: &str) -> MedianRange {
        let [even, own] =
            [EVEN, strategy].map(|name| self.list_values(size, name, |run| run.wall_s));
        MedianRange::of_ratios(&even, &own)
    }

    /// Formats the speed-ups, and the share of moving in a run.
    pub fn format_table(&self) -> String {
        let columns = [
            "n:",
            "even, s:",
            "CPM, even / it:",
            "moving, %:",
            "FPM (NPA), even / it:",
            "moving, %:",
            "adaptive, even / it:",
            "moving, %:",
        ];
        format_table(
            columns,
            self.list_sizes()
                .into_iter()
                .map(|size| self.make_row(size)),
        )
    }

    fn make_row(&self, size: usize) -> [String; 8] {
        let even_s = self.list_values(size, EVEN, |run| run.wall_s);
        let mut row = vec![size.to_string(), MedianRange::of(even_s).text(2)];
        for (strategy, _) in BALANCED {
            let moving = self.list_values(size, strategy, |run| 100.0 * run.moving_s / run.wall_s);
            row.push(self.find_speedup(size, strategy).text(2));
            row.push(format!("{:.1}", MedianRange::of(moving).median));
        }
        std::array::from_fn(|column| row[column].clone())
    }

    /// Draws figure 4.4.
    pub fn draw_figure(&self) -> String {
        let sizes = self.list_sizes();
        let mut curves = Vec::new();
        let mut marks = Vec::new();
        for (strategy, color) in BALANCED {
            let found = sizes
                .iter()
                .map(|&size| (size as f64, self.find_speedup(size, strategy)));
            let found: Vec<(f64, MedianRange)> = found.collect();
            marks.extend(found.iter().map(|(x, ratio)| Mark {
                x: *x,
                y: ratio.median,
                low: ratio.min,
                high: ratio.max,
            }));
            curves.push(Curve {
                name: strategy.replace(" --partitioner ", " by "),
                symbol: '*',
                color,
                dashed: false,
                points: found.iter().map(|(x, ratio)| (*x, ratio.median)).collect(),
            });
        }
        curves.push(Curve {
            name: EVEN.to_owned(),
            symbol: '-',
            color: color::GREY,
            dashed: true,
            points: sizes.iter().map(|&size| (size as f64, 1.0)).collect(),
        });
        draw_plots(&[Plot {
            title: "speed-up over the even division, moving counted".to_owned(),
            x_name: "unknowns n",
            y_name: "even / strategy, seconds",
            curves,
            marks,
        }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(round: usize, size: usize, strategy: &str, wall_s: f64) -> SpeedupSample {
        SpeedupSample {
            round,
            trial: JacobiTrial {
                platform: "four".to_owned(),
                ranks: 4,
                size,
                strategy: strategy.to_owned(),
                iterations: 20,
            },
            wall_s,
            moving_s: 0.1 * wall_s,
            moved: 5,
        }
    }

    #[test]
    fn speedups_are_ratios_within_a_round() {
        let mut samples = Vec::new();
        for (round, slower) in [(0, 1.0), (1, 3.0)] {
            samples.push(sample(round, 100, EVEN, 6.0 * slower));
            for ((strategy, _), wall_s) in BALANCED.into_iter().zip([12.0, 3.0, 2.0]) {
                samples.push(sample(round, 100, strategy, wall_s * slower));
            }
        }
        let samples = SpeedupSamples { samples };
        let row = "| 100 | 12.00 (6.00 to 18.00) | 0.50 (0.50 to 0.50) | 10.0 | 2.00 (2.00 to 2.00) | 10.0 | 3.00 (3.00 to 3.00) | 10.0 |";
        assert!(
            samples.format_table().contains(row),
            "{}",
            samples.format_table()
        );
        let svg = samples.draw_figure();
        assert!(
            svg.contains(">cpm<") && svg.contains(">fpm by npa<") && svg.contains("unknowns n"),
            "{svg}"
        );
    }
}
