//! Figures of the campaigns of a GPU: the course of an update, and speeds over sizes.

use anyhow::Context as _;
use isochron_campaign::CampaignReport;
use isochron_plot::{Lane, LaneBar, PlotSeries, Timeline, color, draw_log_log};
use serde::Deserialize;

use super::{Figure, find_result, list_rows, read_document, read_whole};
use crate::gpu::UpdateCourse;

/// Updates in the picture.
const DRAWN: usize = 3;

/// An update that waits for the arithmetic for less than this part of its time, once all is copied, is not bound by the
/// arithmetic.
const SHORT: f64 = 0.05;

/// The lanes of the picture, with their colours.
const LANES: [(&str, &str); 3] = [
    ("arithmetic, at most", color::BLUE),
    ("copies on the host", color::VERMILION),
    ("waiting for the link", color::GREEN),
];

#[derive(Deserialize)]
struct CourseDocument {
    course: Vec<UpdateCourse>,
}

/// Draws some updates of the first shape of `gpu-updates` one after the other, and names their bound.
pub fn draw_course(report: &CampaignReport) -> anyhow::Result<Figure> {
    let rows = list_rows(report, "ours");
    let row = rows.first().context("no update was measured")?;
    let CourseDocument { course } = read_document(row)?;
    let seconds = |name| Ok::<f64, anyhow::Error>(find_result(row, name)?.median);
    let parts = ["calls_s", "copies_s", "waits_s", "arithmetic_s"].map(seconds);
    let [calls_s, copies_s, waits_s, arithmetic_s] = parts;
    let bound = find_bound(calls_s?, copies_s?, waits_s?, arithmetic_s?);
    Ok(("course", draw_updates(&course, bound)))
}

/// Names the bound of an update. The parts are the seconds of calls of the driver, of copies on the host, of waiting for the
/// link, and of waiting for the arithmetic once all is copied.
fn find_bound(calls_s: f64, copies_s: f64, waits_s: f64, arithmetic_s: f64) -> &'static str {
    if arithmetic_s >= SHORT * (calls_s + copies_s + waits_s + arithmetic_s) {
        "arithmetic"
    } else if copies_s >= waits_s.max(calls_s) {
        "the host's copies into pinned memory"
    } else if waits_s >= calls_s {
        "the link"
    } else {
        "calls of the driver"
    }
}

fn draw_updates(updates: &[UpdateCourse], bound: &str) -> String {
    // From the middle of the job.
    let middle = updates.len().saturating_sub(DRAWN) / 2;
    let drawn = &updates[middle..updates.len().min(middle + DRAWN)];
    let lanes = LANES.map(|(name, _)| Lane { name: name.to_owned(), height: 34.0 });
    let mut timeline = Timeline {
        lanes: lanes.into(),
        left: 150.0,
        x_title: format!("bound by {bound}"),
        ..Timeline::default()
    };
    let first_s = drawn.first().map_or(0.0, |update| update.from_s);
    for update in drawn {
        let from_s = update.from_s;
        let mut bars = vec![(0, update.queued_s, update.done_s)];
        for piece in &update.pieces {
            let free_s = piece.done_s - piece.copies_s;
            bars.push((1, free_s, piece.done_s));
            bars.push((2, free_s - piece.waits_s, free_s));
        }
        timeline.bars.extend(bars.into_iter().map(|(lane, begin_s, end_s)| LaneBar {
            lane,
            from_s: from_s + begin_s,
            to_s: from_s + end_s,
            color: LANES[lane].1,
        }));
        let since_ms = 1e3 * (from_s - first_s);
        timeline.ticks.push((from_s, format!("{since_ms:.2} ms")));
    }
    timeline.draw()
}

/// The document of `isochron measure mxm`, as far as it is drawn.
#[derive(Deserialize)]
struct FigureModels {
    ranks: Vec<DeviceModel>,
}

#[derive(Deserialize)]
struct DeviceModel {
    device: String,
    points: Vec<DevicePoint>,
}

#[derive(Deserialize)]
struct DevicePoint {
    /// Blocks of C.
    d: u64,
    /// Flop/s.
    work_per_s: f64,
    /// 0 if the measurement was given up.
    reps: u32,
}

/// Draws the speeds of the devices of `gpu-models` over the side of C: each alone, and all together.
pub fn draw_models(report: &CampaignReport) -> anyhow::Result<Figure> {
    let mut curves = Vec::new();
    for row in &report.rows {
        let block = read_whole(row, "block")? as f64;
        let models: FigureModels = read_document(row)?;
        for DeviceModel { device, points } in models.ranks {
            let measured = points.iter().filter(|point| point.reps > 0);
            let sides =
                measured.map(|point| ((point.d as f64).sqrt() * block, point.work_per_s / 1e9));
            curves.push(PlotSeries {
                name: format!("{device}, {}", row.contender),
                points: sides.collect(),
            });
        }
    }
    curves.sort_by(|a, b| a.name.cmp(&b.name));
    let svg = draw_log_log("Speed of the update", "side of C", "GFLOP/s", &curves);
    Ok(("speeds", svg))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn updates_are_drawn_with_their_pieces() -> anyhow::Result<()> {
        let update = |from_s: f64| {
            json!({
                "from_s": from_s, "queued_s": 0.0005, "copied_s": 0.005, "done_s": 0.008,
                "pieces": [{"waits_s": 0.001, "copies_s": 0.002, "done_s": 0.004}],
            })
        };
        let updates: Vec<UpdateCourse> =
            serde_json::from_value(json!([update(0.0), update(0.01)]))?;
        let svg = draw_updates(&updates, "arithmetic");
        assert!(svg.contains("bound by arithmetic") && !svg.contains("NaN"), "{svg}");
        assert_eq!(svg.matches("<rect").count(), 7);
        assert!(!draw_updates(&[], "").contains("NaN"));
        Ok(())
    }

    #[test]
    fn the_bound_of_an_update_is_its_longest_wait() {
        assert_eq!(find_bound(0.1, 0.2, 0.2, 0.5), "arithmetic");
        assert_eq!(find_bound(0.1, 0.6, 0.29, 0.01), "the host's copies into pinned memory");
        assert_eq!(find_bound(0.1, 0.3, 0.59, 0.01), "the link");
        assert_eq!(find_bound(0.9, 0.05, 0.04, 0.01), "calls of the driver");
    }
}
