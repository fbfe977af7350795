//! Figures 3.1 to 3.4, from measured points of the naive kernel.

use isochron_hierarchy::model::{Fit, Point, SpeedModel};
use isochron_plot::{Curve, Mark, Plot, color, draw_plots};

use super::kernel::KernelSamples;
use super::spline::CubicSpline;

/// Places at which a curve is evaluated.
const PLACES: u32 = 500;

/// Points that figure 3.2 joins, and those that figure 3.3 fits.
const FEW: usize = 5;
const SOME: usize = 12;

impl KernelSamples {
    /// Draws the figures as SVG documents, with their numbers; none without points.
    ///
    /// # Errors
    /// If the points make no model.
    pub fn draw_figures(&self) -> anyhow::Result<Vec<(usize, String)>> {
        if self.points.is_empty() {
            return Ok(Vec::new());
        }
        let figures = [
            self.draw_fits()?,
            self.draw_lines()?,
            self.draw_splines()?,
            self.draw_growth()?,
        ];
        let figures = figures.map(|plots| draw_plots(&plots));
        Ok((1..).zip(figures).collect())
    }

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
        let curves = vec![
            self.draw_model("partial".to_owned(), color::BLUE, &*model),
            self.draw_full()?,
        ];
        let title = format!("{FEW} points of the full model, joined by lines");
        Ok(vec![self.make_plot(title, curves, &few)])
    }

    /// Figure 3.3: a cubic spline and an Akima spline through the same points.
    fn draw_splines(&self) -> anyhow::Result<Vec<Plot>> {
        let some = choose_points(&self.points, SOME);
        let speeds = some
            .iter()
            .map(|point| (point.d as f64, to_gflops(point.speed())));
        let cubic = CubicSpline::through(speeds.collect());
        let places = self.list_places().into_iter();
        let cubic = Curve {
            name: "cubic spline".to_owned(),
            symbol: '*',
            color: color::VERMILION,
            dashed: false,
            points: places.map(|x| (x, cubic.value(x).max(0.0))).collect(),
        };
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
        let points: Vec<Point> = self.growth.iter().map(|step| step.naive).collect();
        let mut plots = Vec::new();
        for (index, letter) in (0..points.len()).zip('a'..) {
            let known = &points[..=index];
            let model = Fit::PiecewiseSpeed.model(known)?;
            let curves = vec![
                self.draw_model("partial".to_owned(), color::BLUE, &*model),
                self.draw_full()?,
            ];
            let added = known[index].d;
            let title = format!(
                "({letter}) division {} adds a point at {added} units",
                index + 1
            );
            plots.push(self.make_plot(title, curves, known));
        }
        Ok(plots)
    }

    /// Makes a plot of curves and the points that they were made from.
    fn make_plot(&self, title: String, curves: Vec<Curve>, points: &[Point]) -> Plot {
        let marks = points.iter().map(|point| {
            let work = point.d as f64 * KernelSamples::flops_per_unit() / 1e9;
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
        Ok(Curve {
            dashed: true,
            ..curve
        })
    }

    fn draw_model(&self, name: String, color: &'static str, model: &dyn SpeedModel) -> Curve {
        let places = self.list_places().into_iter();
        Curve {
            name,
            symbol: '*',
            color,
            dashed: false,
            points: places.map(|x| (x, to_gflops(model.speed(x)))).collect(),
        }
    }

    /// Returns even steps to the largest size, and all measured sizes.
    fn list_places(&self) -> Vec<f64> {
        let sizes = self
            .points
            .iter()
            .chain(self.growth.iter().map(|step| &step.naive));
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

fn to_gflops(units_per_s: f64) -> f64 {
    units_per_s * KernelSamples::flops_per_unit() / 1e9
}

/// Returns some of the points, evenly from the first to the last.
fn choose_points(points: &[Point], count: usize) -> Vec<Point> {
    let last = points.len() - 1;
    let mut chosen: Vec<Point> = (0..count)
        .map(|i| i * last / (count - 1).max(1))
        .map(|place| points[place])
        .collect();
    chosen.dedup_by_key(|point| point.d);
    chosen
}

#[cfg(test)]
mod tests {
    use super::super::kernel::GrowthStep;
    use super::*;

    fn point(d: u64) -> Point {
        Point {
            d,
            t_s: d as f64 * (1e-5 + 1e-9 * d as f64),
            reps: 3,
            ci_s: 0.0,
        }
    }

    #[test]
    fn every_figure_shows_its_points() -> anyhow::Result<()> {
        let samples = KernelSamples {
            points: (1..=40).map(|i| point(100 * i)).collect(),
            growth: [4000, 900, 1100]
                .map(|d| GrowthStep {
                    naive: point(d),
                    blas: point(d),
                })
                .into(),
        };
        let figures = samples.draw_figures()?;
        let plots: Vec<usize> = figures
            .iter()
            .map(|(_, svg)| svg.matches("speed, GFLOP/s").count())
            .collect();
        assert_eq!(plots, [2, 1, 2, 3]);
        assert!(
            figures[3]
                .1
                .contains("(c) division 3 adds a point at 1100 units")
        );
        assert_eq!(choose_points(&samples.points, FEW).len(), FEW);
        assert!(KernelSamples::default().draw_figures()?.is_empty());
        Ok(())
    }
}
