//! Figures 1 to 3 of the HPOPTA paper's supplement.
//!
//! # References
//! Khaleghzadeh, Reddy and Lastovetsky, supplement of the HPOPTA paper, sections 2 and 4.

use isochron_campaign::{CampaignReport, ReportRow};
use isochron_plot::{Curve, Mark, Plot, color, draw_plots};

use super::{
    Figure, draw_curve, find_result, list_rows, mark_median, read_document, read_text, read_whole,
};
use crate::points::MeasuredModels;

/// The applications, as parameters and figures name them.
const APPLICATIONS: [(&str, &str); 2] = [("dgemv", "DGEMV"), ("fft", "FFT")];

/// The divisions beside HPOPTA's, with their colours.
const OTHERS: [(&str, &str); 2] = [("balanced", color::GREEN), ("even", color::PURPLE)];

/// Draws the three figures.
pub fn draw_figures(report: &CampaignReport) -> anyhow::Result<Vec<Figure>> {
    let mut functions = Vec::new();
    for (kernel, name) in APPLICATIONS {
        let rows = list_sizes(report, "functions", kernel)?;
        if let Some((size, row)) = rows.last() {
            functions.push(plot_functions(name, kernel, *size, row)?);
        }
    }
    let [(dgemv, dgemv_name), (fft, fft_name)] = APPLICATIONS;
    Ok(vec![
        ("figure-1", draw_plots(&functions)),
        ("figure-2", draw_plots(&plot_times(report, dgemv, dgemv_name)?)),
        ("figure-3", draw_plots(&plot_times(report, fft, fft_name)?)),
    ])
}

/// Draws figure 2 of the product that the paper measures.
pub fn draw_product(report: &CampaignReport) -> anyhow::Result<Vec<Figure>> {
    Ok(vec![("figure-2", draw_plots(&plot_times(report, "mxm", "DGEMM")?))])
}

/// Lists the rows of a contender with an application, ascending in size.
fn list_sizes<'r>(
    report: &'r CampaignReport,
    contender: &str,
    kernel: &str,
) -> anyhow::Result<Vec<(usize, &'r ReportRow)>> {
    let mut rows = Vec::new();
    for row in list_rows(report, contender) {
        if read_text(row, "kernel")? == kernel {
            rows.push((read_whole(row, "size")?, row));
        }
    }
    rows.sort_by_key(|(size, _)| *size);
    Ok(rows)
}

/// Returns the flops of a row of this length, as programs are compared.
fn count_row_flops(kernel: &str, size: usize) -> f64 {
    let size = size as f64;
    match kernel {
        "fft" => 5.0 * size * size.log2(),
        _ => 2.0 * size,
    }
}

/// Figure 1: the speed of every rank over its rows.
fn plot_functions(name: &str, kernel: &str, size: usize, row: &ReportRow) -> anyhow::Result<Plot> {
    let flops = count_row_flops(kernel, size) / 1e9;
    let models: MeasuredModels = read_document(row)?;
    let curves = models.ranks.iter().enumerate().map(|(rank, model)| {
        let speeds = model.points.iter().filter(|point| point.reps > 0);
        let speeds = speeds.map(|point| (point.d as f64, point.d as f64 * flops / point.t_s));
        draw_curve(format!("rank {rank}"), color::of_series(rank), speeds.collect())
    });
    let points = models.ranks.iter().flat_map(|model| &model.points);
    let marks = points.filter(|point| point.reps > 0).map(|point| {
        let work = point.d as f64 * flops;
        Mark::of_speed(point.d as f64, work, point.t_s, point.ci_s)
    });
    Ok(Plot {
        title: format!("{name}, n = {size}"),
        x_name: "rows",
        y_name: "speed, GFLOP/s",
        curves: curves.collect(),
        marks: marks.collect(),
    })
}

/// Figures 2 and 3: HPOPTA's times over the sizes, and those of the other divisions over HPOPTA's.
fn plot_times(report: &CampaignReport, kernel: &str, name: &str) -> anyhow::Result<[Plot; 2]> {
    let ours = list_sizes(report, "hpopta", kernel)?;
    let mut actual = Vec::new();
    let mut predicted = Vec::new();
    for (size, row) in &ours {
        actual.push(mark_median(*size as f64, find_result(row, "actual_s")?));
        predicted.push((*size as f64, find_result(row, "predicted_s")?.median));
    }
    let curves = vec![
        Curve { dashed: true, ..draw_curve("predicted".to_owned(), color::BLUE, predicted) },
        draw_curve(
            "actual".to_owned(),
            color::VERMILION,
            actual.iter().map(|mark| (mark.x, mark.y)).collect(),
        ),
    ];
    let mut ratios = Vec::new();
    for (division, color) in OTHERS {
        let mut points = Vec::new();
        for ((size, other), mark) in list_sizes(report, division, kernel)?.iter().zip(&actual) {
            let other_s = find_result(other, "actual_s")?.median;
            points.push((*size as f64, other_s / mark.y));
        }
        ratios.push(draw_curve(format!("{division} / HPOPTA"), color, points));
    }
    Ok([
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
            curves: ratios,
            marks: Vec::new(),
        },
    ])
}
