//! Figures 2.4 to 2.7, 4.3 and A.4 of the thesis: iterations of the Jacobi method on emulated nodes with a memory cliff.
//!
//! # References
//! Clarke's thesis, sections 2.3.1 and 4.3, and appendix A.5.

use anyhow::Context as _;
use isochron_campaign::CampaignReport;
use isochron_hierarchy::model::{Fit, ModelFile, PiecewiseFpm, Point, SpeedModel as _};
use isochron_plot::{Bar, BarPanel, Curve, Mark, Plot, color, draw_bars, draw_plots};
use serde::Deserialize;

use super::{Figure, draw_curve, list_rows, read_document, read_text, read_whole};

/// Places at which a curve is evaluated.
const PLACES: u32 = 400;

/// Iterations that figures 2.7 and 4.3 show at most.
const SPEEDS_SHOWN: usize = 9;

/// Iterations of figure 2.5.
const SWINGS_SHOWN: usize = 5;

/// The colours of the nodes.
const NODE_COLORS: [&str; 4] = [color::BLUE, color::VERMILION, color::GREEN, color::PURPLE];

/// Edge of the blocks that the points files count.
const BLOCK: f64 = 32.0;

/// The platforms: one node of four with a memory cliff, and two of four.
const CLIFF: &str = "emulated-memory-cliff";
const TWO_CLIFFS: &str = "emulated-two-memory-cliffs";

/// The sizes: all parts fit the memory, or an even division does not, and the size of figure 4.3.
const SMALL: usize = 2048;
const LARGE: usize = 3456;
const LARGER: usize = 3840;

/// The strategies: constant speeds, and partial models that GPA or NPA divides by.
const CONSTANT: &str = "cpm";
const BY_GPA: &str = "fpm --partitioner gpa";
const BY_NPA: &str = "fpm --partitioner npa";

/// The points files that the nodes of a platform follow.
const CLIFF_POINTS: [&str; 4] = [
    include_str!("../../../cluster-configs/models/cliff-paging.points"),
    include_str!("../../../cluster-configs/models/cliff-60k.points"),
    include_str!("../../../cluster-configs/models/cliff-45k.points"),
    include_str!("../../../cluster-configs/models/cliff-30k.points"),
];
const TWO_CLIFFS_POINTS: [&str; 4] = [
    include_str!("../../../cluster-configs/models/cliff-paging.points"),
    include_str!("../../../cluster-configs/models/cliff-paging-90k.points"),
    include_str!("../../../cluster-configs/models/cliff-60k.points"),
    include_str!("../../../cluster-configs/models/cliff-45k.points"),
];

/// A run that figures show.
struct JacobiRun {
    platform: String,
    /// Number of unknowns.
    size: usize,
    strategy: String,
    history: Vec<JacobiSweep>,
}

/// The document of `isochron app jacobi --json`, as far as it is needed.
#[derive(Deserialize)]
struct JacobiDocument {
    history: Vec<JacobiSweep>,
}

/// An iteration.
#[derive(Deserialize)]
struct JacobiSweep {
    /// Rows that moved after it.
    moved: u64,
    /// Rows of each node.
    rows: Vec<u64>,
    /// Seconds of each node.
    times_s: Vec<f64>,
}

/// Draws all figures.
pub fn draw_figures(report: &CampaignReport) -> anyhow::Result<Vec<Figure>> {
    let mut runs = Vec::new();
    for row in list_rows(report, "jacobi") {
        let document: JacobiDocument = read_document(row)?;
        runs.push(JacobiRun {
            platform: read_text(row, "platform")?.to_owned(),
            size: read_whole(row, "size")?,
            strategy: read_text(row, "strategy")?.to_owned(),
            history: document.history,
        });
    }
    let find = |platform: &str, size: usize, strategy: &str| {
        let mut shown = runs.iter();
        let found = shown
            .find(|run| run.platform == platform && run.size == size && run.strategy == strategy);
        found.with_context(|| format!("{strategy} on {platform} with {size} was not measured"))
    };
    let swinging = find(TWO_CLIFFS, LARGE, CONSTANT)?;
    let balanced = find(TWO_CLIFFS, LARGE, BY_GPA)?;
    let by_npa = find(TWO_CLIFFS, LARGER, BY_NPA)?;
    Ok(vec![
        (
            "figure-2-4ac",
            draw_times(&[
                ("2.4 (a)", find(CLIFF, SMALL, CONSTANT)?),
                ("2.4 (c)", find(TWO_CLIFFS, SMALL, CONSTANT)?),
            ]),
        ),
        (
            "figure-2-4bd",
            draw_times(&[("2.4 (b)", find(CLIFF, LARGE, CONSTANT)?), ("2.4 (d)", swinging)]),
        ),
        ("figure-2-5", swinging.draw_swings()?),
        ("figure-2-6", draw_times(&[("2.6", balanced)])),
        ("figure-2-7", balanced.draw_partial_models(Fit::PiecewiseSpeed)?),
        ("figure-4-3", by_npa.draw_partial_models(Fit::Akima)?),
        ("figure-A-4", draw_times(&[("A.4", find(CLIFF, LARGE, BY_GPA)?)])),
    ])
}

/// Draws the times of every rank in every iteration, a panel for each figure.
fn draw_times(figures: &[(&str, &JacobiRun)]) -> String {
    let names: Vec<String> = (1..=4).map(|node| format!("node {node}")).collect();
    let panels = figures.iter().map(|(figure, run)| run.make_panel(figure));
    draw_bars(&names, &panels.collect::<Vec<BarPanel>>())
}

impl JacobiRun {
    fn make_panel(&self, figure: &str) -> BarPanel {
        let groups = (1..).zip(&self.history).map(|(iteration, sweep)| {
            let bars = sweep.times_s.iter().enumerate().map(|(series, &height)| Bar {
                series,
                height,
                low: height,
                high: height,
            });
            (iteration.to_string(), bars.collect())
        });
        BarPanel {
            title: format!(
                "{figure}: n = {}, {}, seconds of each iteration",
                self.size, self.platform
            ),
            groups: groups.collect(),
        }
    }

    /// Draws the points of the first iterations on the speeds that the nodes follow.
    fn draw_swings(&self) -> anyhow::Result<String> {
        let shown = 0..self.history.len().min(SWINGS_SHOWN);
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
        self.history
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
            .history
            .get(measured)
            .context("iterations")?
            .iter()
            .flat_map(|sweep| sweep.rows.iter().zip(&sweep.times_s));
        let marks = points.filter(|(rows, _)| **rows > 0).map(|(&rows, &time_s)| {
            let work = self.find_speed(rows as f64, 1.0);
            Mark::of_speed(rows as f64, work, time_s, 0.0)
        });
        let rows = &self.history[index].rows;
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
                .map(|rows| (rows, self.find_speed(rows, model.time_s(rows))));
            curves.push(draw_curve(format!("node {}", node + 1), color, speeds.collect()));
        }
        Ok(curves)
    }

    /// Returns the points of a node up to an iteration; repeated sizes once.
    fn list_points(&self, node: usize, index: usize) -> Vec<Point> {
        let mut points: Vec<Point> = Vec::new();
        for sweep in &self.history[..=index] {
            let (d, t_s) = (sweep.rows[node], sweep.times_s[node]);
            if d > 0 && points.iter().all(|point| point.d != d) {
                points.push(Point { d, t_s, reps: 1, ci_s: 0.0 });
            }
        }
        points.sort_by_key(|point| point.d);
        points
    }

    /// Draws the speeds that the nodes follow.
    fn draw_full_models(&self) -> anyhow::Result<Vec<Curve>> {
        let files = match &*self.platform {
            CLIFF => CLIFF_POINTS,
            TWO_CLIFFS => TWO_CLIFFS_POINTS,
            other => anyhow::bail!("no points of {other}"),
        };
        let mut curves = Vec::new();
        for (node, (text, color)) in files.into_iter().zip(NODE_COLORS).enumerate() {
            let model = PiecewiseFpm::from_points(ModelFile::parse(text)?.points)?;
            let speeds = self.list_places().into_iter().map(|rows| {
                let units = rows * self.size as f64 / (BLOCK * BLOCK);
                (rows, self.find_speed(rows, model.raw().time_s(units)))
            });
            curves.push(Curve {
                symbol: '.',
                dashed: true,
                ..draw_curve(format!("node {}, full model", node + 1), color, speeds.collect())
            });
        }
        Ok(curves)
    }

    /// Returns the speed in GFLOP/s of a sweep over rows.
    fn find_speed(&self, rows: f64, seconds: f64) -> f64 {
        2.0 * rows * self.size as f64 / seconds / 1e9
    }

    /// Draws the line on which all sizes take the time of the iteration's slowest node.
    fn draw_line(&self, index: usize) -> Curve {
        let end = self.list_places().last().copied().unwrap_or(1.0);
        let longest_s = self.history[index].times_s.iter().copied().fold(0.0, f64::max);
        Curve {
            name: "equal time".to_owned(),
            symbol: '/',
            color: color::GREY,
            points: vec![(0.0, 0.0), (end, self.find_speed(end, longest_s))],
            ..Curve::default()
        }
    }

    /// Returns even steps of rows, to the largest part.
    fn list_places(&self) -> Vec<f64> {
        let end =
            self.history.iter().flat_map(|sweep| &sweep.rows).max().copied().unwrap_or(1) as f64;
        (1..=PLACES).map(|i| end * f64::from(i) / f64::from(PLACES)).collect()
    }
}
