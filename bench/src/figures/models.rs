//! Figures 3.1 to 3.4 of the thesis: models of a naive kernel.
//!
//! # References
//! Clarke's thesis, sections 3.1 to 3.3.

use anyhow::Context as _;
use isochron_campaign::CampaignReport;
use isochron_hierarchy::model::{Fit, Point, SpeedModel};
use isochron_plot::{Curve, Mark, Plot, color, draw_plots};

use super::spline::CubicSpline;
use super::{Figure, draw_curve, list_rows, read_document};
use crate::growth::Growth;
use crate::points::MeasuredModels;

/// Block size: a unit is the update of a block of C by blocks of A and B.
const BLOCK: f64 = 64.0;

/// Places at which a curve is evaluated.
const PLACES: u32 = 500;

/// Points that figure 3.2 joins, and those that figure 3.3 fits.
const FEW: usize = 5;
const SOME: usize = 12;

/// The measured points of the figures.
struct KernelPoints {
    /// The full model of the naive kernel.
    points: Vec<Point>,
    /// The points that the divisions of DPA added to its partial model.
    growth: Vec<Point>,
}

/// Draws the four figures.
pub fn draw_figures(report: &CampaignReport) -> anyhow::Result<Vec<Figure>> {
    let row = |contender| {
        let rows = list_rows(report, contender);
        rows.first().copied().with_context(|| format!("no {contender} was measured"))
    };
    let full: MeasuredModels = read_document(row("full")?)?;
    let growth: Growth = read_document(row("growth")?)?;
    let measured = KernelPoints {
        points: full.into_first()?,
        growth: growth.steps.iter().map(|step| step.naive).collect(),
    };
    Ok(vec![
        ("figure-3-1", draw_plots(&measured.draw_fits()?)),
        ("figure-3-2", draw_plots(&measured.draw_lines()?)),
        ("figure-3-3", draw_plots(&measured.draw_splines()?)),
        ("figure-3-4", draw_plots(&measured.draw_growth()?)),
    ])
}

impl KernelPoints {
    /// Figure 3.1: the full model by its two fits.
    fn draw_fits(&self) -> anyhow::Result<Vec<Plot>> {
        let fits = [
            ("(a) piecewise, of restricted shape", Fit::PiecewiseSpeed),
            ("(b) Akima spline", Fit::Akima),
        ];
        let mut plots = Vec::new();
        for (title, fit) in fits {
            let curve = self.draw_model(fit.to_string(), color::BLUE, &*fit.model(&self.points)?);
            plots.push(self.make_plot(title.to_owned(), vec![curve], &self.points));
        }
        Ok(plots)
    }

    /// Figure 3.2: straight lines through a few points, level on both sides.
    fn draw_lines(&self) -> anyhow::Result<Vec<Plot>> {
        let few = choose_points(&self.points, FEW);
        let model = Fit::RawPiecewise.model(&few)?;
        let curves =
            vec![self.draw_model("partial".to_owned(), color::BLUE, &*model), self.draw_full()?];
        let title = format!("{FEW} points of the full model, joined by lines");
        Ok(vec![self.make_plot(title, curves, &few)])
    }

    /// Figure 3.3: a cubic spline and an Akima spline through the same points.
    fn draw_splines(&self) -> anyhow::Result<Vec<Plot>> {
        let some = choose_points(&self.points, SOME);
        let speeds = some.iter().map(|point| (point.d as f64, to_gflops(point.speed())));
        let cubic = CubicSpline::through(speeds.collect());
        let places = self.list_places().into_iter();
        let cubic = draw_curve(
            "cubic spline".to_owned(),
            color::VERMILION,
            places.map(|x| (x, cubic.value(x).max(0.0))).collect(),
        );
        let akima = Fit::Akima.model(&some)?;
        let akima = self.draw_model("Akima spline".to_owned(), color::BLUE, &*akima);
        let mut plots = Vec::new();
        for (title, curve) in [("(a) cubic spline", cubic), ("(b) Akima spline", akima)] {
            let title = format!("{title} through {SOME} points of the full model");
            let curves = vec![curve, self.draw_full()?];
            plots.push(self.make_plot(title, curves, &some));
        }
        Ok(plots)
    }

    /// Figure 3.4: the partial model of the naive kernel after each division of DPA.
    fn draw_growth(&self) -> anyhow::Result<Vec<Plot>> {
        let mut plots = Vec::new();
        for (index, letter) in (0..self.growth.len()).zip('a'..) {
            let known = &self.growth[..=index];
            let model = Fit::PiecewiseSpeed.model(known)?;
            let curves = vec![
                self.draw_model("partial".to_owned(), color::BLUE, &*model),
                self.draw_full()?,
            ];
            let added = known[index].d;
            let title = format!("({letter}) division {} adds a point at {added} units", index + 1);
            plots.push(self.make_plot(title, curves, known));
        }
        Ok(plots)
    }

    /// Makes a plot of curves and the points that they were made from.
    fn make_plot(&self, title: String, curves: Vec<Curve>, points: &[Point]) -> Plot {
        let marks = points.iter().map(|point| {
            let work = point.d as f64 * flops_per_unit() / 1e9;
            Mark::of_speed(point.d as f64, work, point.t_s, point.ci_s)
        });
        Plot {
            title,
            x_name: "size, units",
            y_name: "speed, GFLOP/s",
            curves,
            marks: marks.collect(),
        }
    }

    fn draw_full(&self) -> anyhow::Result<Curve> {
        let model = Fit::RawPiecewise.model(&self.points)?;
        let curve = self.draw_model("full model".to_owned(), color::GREY, &*model);
        Ok(Curve { dashed: true, ..curve })
    }

    fn draw_model(&self, name: String, color: &'static str, model: &dyn SpeedModel) -> Curve {
        let places = self.list_places().into_iter();
        let points = places.map(|x| (x, to_gflops(model.speed(x))));
        draw_curve(name, color, points.collect())
    }

    /// Returns even steps to the largest size, and all measured sizes.
    fn list_places(&self) -> Vec<f64> {
        let sizes = self.points.iter().chain(&self.growth);
        let sizes: Vec<f64> = sizes.map(|point| point.d as f64).collect();
        let end = sizes.iter().copied().fold(0.0, f64::max);
        let mut places: Vec<f64> = (0..=PLACES)
            .map(|i| end * f64::from(i) / f64::from(PLACES))
            .chain(sizes.iter().copied())
            .collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        places
    }
}

fn flops_per_unit() -> f64 {
    2.0 * BLOCK.powi(3)
}

fn to_gflops(units_per_s: f64) -> f64 {
    units_per_s * flops_per_unit() / 1e9
}

/// Returns some of the points, evenly from the first to the last.
fn choose_points(points: &[Point], count: usize) -> Vec<Point> {
    let last = points.len() - 1;
    let mut chosen: Vec<Point> =
        (0..count).map(|i| i * last / (count - 1).max(1)).map(|place| points[place]).collect();
    chosen.dedup_by_key(|point| point.d);
    chosen
}
