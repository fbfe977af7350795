//! Figure 4.4 of the thesis: the speed-up over the even division, by the number of unknowns.

use anyhow::Context as _;
use isochron_campaign::{CampaignReport, MedianInterval};
use isochron_plot::{Curve, Plot, color, draw_plots};

use super::{Figure, draw_curve, list_rows, mark_median, read_whole};

/// The contenders beside the even division, with their names in the figure and their colours.
const STRATEGIES: [(&str, &str, &str); 3] = [
    ("constant", "cpm", color::VERMILION),
    ("partial", "fpm by npa", color::BLUE),
    ("adaptive", "adaptive", color::GREEN),
];

/// Draws the figure.
pub fn draw_figure(report: &CampaignReport) -> anyhow::Result<Figure> {
    let mut curves = Vec::new();
    let mut marks = Vec::new();
    for (contender, name, color) in STRATEGIES {
        let mut points = Vec::new();
        for row in list_rows(report, contender) {
            let ratio = row.ratio;
            let ratio = ratio.with_context(|| format!("{contender} has no speed-up"))?;
            let mark = mark_median(read_whole(row, "size")? as f64, invert(ratio));
            points.push((mark.x, mark.y));
            marks.push(mark);
        }
        curves.push(draw_curve(name.to_owned(), color, points));
    }
    let mut even = Vec::new();
    for row in list_rows(report, "even") {
        even.push((read_whole(row, "size")? as f64, 1.0));
    }
    curves.push(Curve {
        symbol: '-',
        dashed: true,
        ..draw_curve("even".to_owned(), color::GREY, even)
    });
    let plot = Plot {
        title: "speed-up over the even division, moving counted".to_owned(),
        x_name: "unknowns n",
        y_name: "even / strategy, seconds",
        curves,
        marks,
    };
    Ok(("figure-4-4", draw_plots(&[plot])))
}

/// Returns the median of the inverse ratios.
fn invert(ratio: MedianInterval) -> MedianInterval {
    MedianInterval {
        median: 1.0 / ratio.median,
        low: ratio.high.map(|high| 1.0 / high),
        high: ratio.low.map(|low| 1.0 / low),
        ..ratio
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_inverse_ratios_change_places() {
        let ratio = MedianInterval { median: 2.0, low: Some(1.0), high: Some(4.0), n: 7 };
        let speedup = invert(ratio);
        assert_eq!((speedup.low, speedup.median, speedup.high), (Some(0.25), 0.5, Some(1.0)));
    }
}
