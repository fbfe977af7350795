//! The figures.

use isochron_plot::{Curve, Mark, Plot, color, draw_plots};

use super::HpoptaResults;
use super::samples::{Application, DividedRuns, RowDivision, SizeSamples};

impl HpoptaResults {
    /// Draws the three figures as SVG documents.
    pub fn draw_figures(&self) -> Vec<String> {
        let [dgemv, fft] = [Application::Dgemv, Application::Fft2d]
            .map(|application| self.list_samples(application));
        let functions = [&dgemv, &fft]
            .into_iter()
            .filter_map(|samples| samples.last());
        let functions: Vec<Plot> = functions.map(|samples| plot_functions(samples)).collect();
        vec![
            draw_plots(&functions),
            draw_plots(&plot_times(&dgemv)),
            draw_plots(&plot_times(&fft)),
        ]
    }
}

/// Figure 1: the speed of every rank over its rows.
fn plot_functions(samples: &SizeSamples) -> Plot {
    let (application, size) = (samples.application, samples.size);
    let flops = application.count_row_flops(size) / 1e9;
    let curves = samples.functions.iter().enumerate().map(|(rank, points)| {
        let speeds = points
            .iter()
            .map(|point| (point.d as f64, point.d as f64 * flops / point.t_s));
        draw_curve(
            format!("rank {rank}"),
            color::of_series(rank),
            false,
            speeds.collect(),
        )
    });
    let marks = samples.functions.iter().flatten().map(|point| {
        Mark::of_speed(
            point.d as f64,
            point.d as f64 * flops,
            point.t_s,
            point.ci_s,
        )
    });
    Plot {
        title: format!("{}, n = {size}", application.name()),
        x_name: "rows",
        y_name: "speed, GFLOP/s",
        curves: curves.collect(),
        marks: marks.collect(),
    }
}

/// Figures 2 and 3: HPOPTA's times over the sizes, and those of the other divisions over HPOPTA's.
fn plot_times(samples: &[&SizeSamples]) -> Vec<Plot> {
    let Some(first) = samples.first() else {
        return Vec::new();
    };
    let name = first.application.name();
    let actual = samples.iter().map(|samples| {
        let time = samples.summarize(RowDivision::Hpopta, DividedRuns::actual_s);
        Mark {
            x: samples.size as f64,
            y: time.mean_s,
            low: time.mean_s - time.ci_s,
            high: time.mean_s + time.ci_s,
        }
    });
    let actual: Vec<Mark> = actual.collect();
    let predicted = samples
        .iter()
        .map(|samples| (samples.size as f64, samples.predict(RowDivision::Hpopta)));
    let curves = vec![
        draw_curve(
            "predicted".to_owned(),
            color::BLUE,
            true,
            predicted.collect(),
        ),
        draw_curve(
            "actual".to_owned(),
            color::VERMILION,
            false,
            actual.iter().map(|mark| (mark.x, mark.y)).collect(),
        ),
    ];
    let ratios = [RowDivision::Balanced, RowDivision::Even]
        .into_iter()
        .zip([color::GREEN, color::PURPLE]);
    let ratios = ratios.map(|(division, color)| {
        let ratios = samples.iter().map(|samples| {
            let [ours, other] = [RowDivision::Hpopta, division]
                .map(|division| samples.summarize(division, DividedRuns::actual_s).mean_s);
            (samples.size as f64, other / ours)
        });
        draw_curve(
            format!("{division} / HPOPTA"),
            color,
            false,
            ratios.collect(),
        )
    });
    vec![
        Plot {
            title: format!("(a) {name}, divided by HPOPTA"),
            x_name: "n",
            y_name: "time, s",
            curves,
            marks: actual,
        },
        Plot {
            title: format!("(b) {name}, other divisions"),
            x_name: "n",
            y_name: "time / HPOPTA's",
            curves: ratios.collect(),
            marks: Vec::new(),
        },
    ]
}

fn draw_curve(name: String, color: &'static str, dashed: bool, points: Vec<(f64, f64)>) -> Curve {
    Curve {
        name,
        symbol: '*',
        color,
        dashed,
        points,
    }
}
