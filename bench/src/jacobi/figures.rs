//! Figures 2.4 to 2.7, 4.3 and A.4, from the iterations of the runs.

use anyhow::Context as _;
use isochron_hierarchy::model::{Fit, Point};
use isochron_plot::{Bar, BarPanel, Curve, Mark, Plot, color, draw_bars, draw_plots};

use super::{FigureRun, JacobiResults};

/// Places at which a curve is evaluated.
const PLACES: u32 = 400;

/// Iterations that figures 2.5, 2.7 and 4.3 show at most.
const SPEEDS_SHOWN: usize = 9;

/// Iterations of figure 2.5.
const SWINGS_SHOWN: usize = 5;

/// The colours of the nodes.
const NODE_COLORS: [&str; 4] = [color::BLUE, color::VERMILION, color::GREEN, color::PURPLE];

impl JacobiResults {
    /// Draws all figures as SVG documents, with their names.
    ///
    /// # Errors
    /// If a run is missing, or its points make no model.
    pub fn draw_figures(&self) -> anyhow::Result<Vec<(&'static str, String)>> {
        Ok(vec![
            ("2-4ac", self.draw_times(&["2.4 (a)", "2.4 (c)"])?),
            ("2-4bd", self.draw_times(&["2.4 (b)", "2.4 (d)"])?),
            ("2-5", self.find_shown("2.4 (d)")?.draw_swings()?),
            ("2-6", self.draw_times(&["2.6"])?),
            (
                "2-7",
                self.find_shown("2.6")?
                    .draw_partial_models(Fit::PiecewiseSpeed)?,
            ),
            (
                "4-3",
                self.find_shown("4.3")?.draw_partial_models(Fit::Akima)?,
            ),
            ("4-4", self.speedups.draw_figure()),
            ("A-4", self.draw_times(&["A.4"])?),
        ])
    }

    fn find_shown(&self, figure: &str) -> anyhow::Result<&FigureRun> {
        self.find_run(figure)
            .with_context(|| format!("figure {figure} was not measured"))
    }

    /// Draws the times of every rank in every iteration, a panel for each figure.
    fn draw_times(&self, figures: &[&str]) -> anyhow::Result<String> {
        let runs = figures.iter().map(|figure| self.find_shown(figure));
        let runs: Vec<&FigureRun> = runs.collect::<anyhow::Result<_>>()?;
        let names: Vec<String> = (1..=4).map(|node| format!("node {node}")).collect();
        let panels: Vec<BarPanel> = runs.into_iter().map(FigureRun::make_panel).collect();
        Ok(draw_bars(&names, &panels))
    }
}

impl FigureRun {
    fn make_panel(&self) -> BarPanel {
        let groups = (1..).zip(&self.report.history).map(|(iteration, sweep)| {
            let bars = sweep
                .times_s
                .iter()
                .enumerate()
                .map(|(series, &height)| Bar {
                    series,
                    height,
                    low: height,
                    high: height,
                });
            (iteration.to_string(), bars.collect())
        });
        BarPanel {
            title: format!(
                "{}: n = {}, {}, seconds of each iteration",
                self.figure, self.trial.size, self.trial.platform
            ),
            groups: groups.collect(),
        }
    }

    /// Draws the points of the first iterations on the speeds that the nodes follow.
    fn draw_swings(&self) -> anyhow::Result<String> {
        let shown = 0..self.report.history.len().min(SWINGS_SHOWN);
        let plots =
            shown.map(|index| self.make_plot(index, index..=index, self.draw_full_models()?));
        Ok(draw_plots(&plots.collect::<anyhow::Result<Vec<Plot>>>()?))
    }

    /// Draws the partial models after the first iterations, with their points and the line of equal time.
    fn draw_partial_models(&self, fit: Fit) -> anyhow::Result<String> {
        let mut plots = Vec::new();
        for index in 0..self.count_divisions() {
            let mut curves = self.draw_models(index, fit)?;
            curves.push(self.draw_line(index));
            curves.extend(self.draw_full_models()?);
            plots.push(self.make_plot(index, 0..=index, curves)?);
        }
        Ok(draw_plots(&plots))
    }

    /// Counts the iterations up to the last one before which rows moved, within those that are shown.
    fn count_divisions(&self) -> usize {
        self.report
            .history
            .iter()
            .rposition(|sweep| sweep.moved > 0)
            .map_or(1, |last| last + 2)
            .min(SPEEDS_SHOWN)
    }

    /// Makes a plot of curves and of the points that some iterations have measured.
    fn make_plot(
        &self,
        index: usize,
        measured: std::ops::RangeInclusive<usize>,
        curves: Vec<Curve>,
    ) -> anyhow::Result<Plot> {
        let points = self
            .report
            .history
            .get(measured)
            .context("iterations")?
            .iter()
            .flat_map(|sweep| sweep.rows.iter().zip(&sweep.times_s));
        let marks = points
            .filter(|(rows, _)| **rows > 0)
            .map(|(&rows, &time_s)| {
                let work = self.trial.find_speed(rows as f64, 1.0);
                Mark::of_speed(rows as f64, work, time_s, 0.0)
            });
        let rows = &self.report.history[index].rows;
        Ok(Plot {
            title: format!("iteration {}: {rows:?} rows", index + 1),
            x_name: "rows of the node",
            y_name: "speed, GFLOP/s",
            curves,
            marks: marks.collect(),
        })
    }

    /// Draws the models of the points measured up to an iteration.
    fn draw_models(&self, index: usize, fit: Fit) -> anyhow::Result<Vec<Curve>> {
        let mut curves = Vec::new();
        for (node, color) in NODE_COLORS.into_iter().enumerate() {
            let model = fit.model(&self.list_points(node, index))?;
            let speeds = self
                .list_places()
                .into_iter()
                .map(|rows| (rows, self.trial.find_speed(rows, model.time_s(rows))));
            curves.push(Curve {
                name: format!("node {}", node + 1),
                symbol: '*',
                color,
                dashed: false,
                points: speeds.collect(),
            });
        }
        Ok(curves)
    }

    /// Returns the points of a node up to an iteration; repeated sizes once.
    fn list_points(&self, node: usize, index: usize) -> Vec<Point> {
        let mut points: Vec<Point> = Vec::new();
        for sweep in &self.report.history[..=index] {
            let (d, t_s) = (sweep.rows[node], sweep.times_s[node]);
            if d > 0 && points.iter().all(|point| point.d != d) {
                points.push(Point {
                    d,
                    t_s,
                    reps: 1,
                    ci_s: 0.0,
                });
            }
        }
        points.sort_by_key(|point| point.d);
        points
    }

    /// Draws the speeds that the nodes follow.
    fn draw_full_models(&self) -> anyhow::Result<Vec<Curve>> {
        Ok(self
            .trial
            .load_speeds()?
            .into_iter()
            .zip(NODE_COLORS)
            .enumerate()
            .map(|(node, (full, color))| {
                let places = self.list_places().into_iter();
                let points =
                    places.map(|rows| (rows, self.trial.find_speed(rows, full.find_seconds(rows))));
                Curve {
                    name: format!("node {}, full model", node + 1),
                    symbol: '.',
                    color,
                    dashed: true,
                    points: points.collect(),
                }
            })
            .collect())
    }

    /// Draws the line on which all sizes take the time of the iteration's slowest node.
    fn draw_line(&self, index: usize) -> Curve {
        let end = self.list_places().last().copied().unwrap_or(1.0);
        let longest_s = self.report.history[index].longest_s();
        Curve {
            name: "equal time".to_owned(),
            symbol: '/',
            color: color::GREY,
            dashed: false,
            points: vec![(0.0, 0.0), (end, self.trial.find_speed(end, longest_s))],
        }
    }

    /// Returns even steps of rows, to the largest part.
    fn list_places(&self) -> Vec<f64> {
        let end = self
            .report
            .history
            .iter()
            .flat_map(|sweep| &sweep.rows)
            .max()
            .copied()
            .unwrap_or(1) as f64;
        (1..=PLACES)
            .map(|i| end * f64::from(i) / f64::from(PLACES))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::speedup::SpeedupSamples;
    use super::super::trial::{JacobiReport, JacobiTrial, SweepSample, TWO_CLIFFS};
    use super::super::{FIGURES, FigureRun};
    use super::*;
    use crate::results::Origin;

    fn sweep(rows: [u64; 4], moved: u64) -> SweepSample {
        SweepSample {
            moved,
            moving_s: 0.0,
            rows: rows.to_vec(),
            times_s: rows.map(|count| 1e-4 * count as f64).to_vec(),
            wall_s: 1.0,
        }
    }

    fn make_run(figure: &str) -> FigureRun {
        FigureRun {
            figure: figure.to_owned(),
            trial: JacobiTrial {
                platform: TWO_CLIFFS.to_owned(),
                ranks: 4,
                size: 3072,
                strategy: "fpm".to_owned(),
                iterations: 3,
            },
            report: JacobiReport {
                checksum: String::new(),
                history: vec![
                    sweep([768; 4], 300),
                    sweep([1000, 900, 700, 472], 10),
                    sweep([1000, 900, 710, 462], 0),
                ],
                moved: 310,
                moving_s: 0.1,
                verified: Some(true),
                wall_s: 1.0,
            },
        }
    }

    #[test]
    fn every_figure_is_drawn_from_the_iterations() -> anyhow::Result<()> {
        let runs = FIGURES.map(|(figure, ..)| make_run(figure));
        let results = JacobiResults {
            origin: Origin::new(String::new()),
            runs: runs.into(),
            speedups: SpeedupSamples::default(),
        };
        let figures = results.draw_figures()?;
        assert_eq!(figures.len(), 8);
        let (_, partial) = &figures[4];
        for part in [
            "iteration 3: [1000, 900, 710, 462] rows",
            "equal time",
            "node 4, full model",
        ] {
            assert!(partial.contains(part), "{part}");
        }
        let (_, swings) = &figures[2];
        assert_eq!(swings.matches(">iteration ").count(), 3);
        let (_, times) = &figures[1];
        assert!(times.contains("2.4 (d): n = 3072") && times.contains(">node 4<"));
        let table = results.format_runs();
        assert!(table.contains("| 2 of 3 | 310 |"), "{table}");
        Ok(())
    }
}
