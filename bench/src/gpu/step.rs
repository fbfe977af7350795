//! The course of an update whose panels are sent ahead, from the trace of the GPU's device, and its bound.

use anyhow::ensure;
use isochron_plot::{Lane, LaneBar, Timeline, color};

use super::GpuCampaign;
use super::budget::TimeBudget;
use super::jobs::{MxmJob, PlatformDevice};
use super::part_records::{StepRecord, TracedPiece, TracedUpdate};
use super::record::GpuResults;
use super::rows::{PartTable, TableRow};
use crate::shape::ProductShape;
use crate::statistics::MedianRange;
use crate::trace::{clock_s, number_after};

/// Updates of the multiplication.
const UPDATES: usize = 16;
/// Updates in the picture.
const DRAWN: usize = 3;
/// An update that waits for the arithmetic for less than this part of its time, once all is copied, is not bound by the
/// arithmetic.
const SHORT: f64 = 0.05;

/// Multiplies on the GPU alone, and keeps the course of its updates.
pub fn measure(campaign: &mut GpuCampaign, budget: TimeBudget) -> anyhow::Result<()> {
    let (host, _) = campaign.card.split_cores();
    let (side, panel) = (campaign.scale.side, campaign.scale.panel);
    let nodes = [vec![PlatformDevice::new("gpu", Some(false), &host)]];
    let width = panel.to_string();
    let job = MxmJob {
        platform: campaign.write_platform("step", &nodes)?,
        ranks: 1,
        shape: ProductShape {
            m: side,
            n: side,
            k: UPDATES * panel,
        },
        block: campaign.scale.block,
        words: vec!["--panel", &width],
        log: "isochron_devices::cuda=trace",
    };
    let (report, log) = job.run(&campaign.launcher, budget)?;
    let mut updates = read_updates(log.lines());
    // The measurements before the product leave the same events: the last updates are those of the product.
    updates.drain(..updates.len().saturating_sub(UPDATES));
    updates.retain(TracedUpdate::is_overlapped);
    ensure!(!updates.is_empty(), "no update's panels were sent ahead");
    campaign.record.results.step = Some(StepRecord {
        what: format!("{side}×{side}, k = {panel}, f64"),
        updates,
        report,
    });
    Ok(())
}

/// Names the bound of an update of `update_s` seconds. The parts are the seconds of calls of the driver, of copies on
/// the host, of waiting for the link, and of waiting for the arithmetic once all is copied.
fn find_bound(update_s: f64, parts: [f64; 4]) -> &'static str {
    let [calls_s, copies_s, link_s, arithmetic_s] = parts;
    if arithmetic_s >= SHORT * update_s {
        "arithmetic"
    } else if copies_s >= link_s.max(calls_s) {
        "the host's copies into pinned memory"
    } else if link_s >= calls_s {
        "the link"
    } else {
        "calls of the driver"
    }
}

impl TracedUpdate {
    /// Returns `true` if its own panels were sent ahead, and the next ones were copied while it was computed.
    fn is_overlapped(&self) -> bool {
        self.is_ahead && !self.pieces.is_empty()
    }

    fn copies_s(&self) -> f64 {
        self.pieces.iter().map(|piece| piece.copies_s).sum()
    }

    fn waits_s(&self) -> f64 {
        self.pieces.iter().map(|piece| piece.waits_s).sum()
    }

    /// Returns the seconds that queue the arithmetic and the copies: all that neither copies nor waits.
    fn calls_s(&self) -> f64 {
        self.copied_s - self.copies_s() - self.waits_s()
    }
}

/// Reads the complete updates in a trace. An update at midnight is read wrong.
fn read_updates<'a>(log: impl Iterator<Item = &'a str>) -> Vec<TracedUpdate> {
    let mut updates = Vec::new();
    let mut open: Option<TracedUpdate> = None;
    for line in log.filter(|line| line.contains("isochron_devices::cuda")) {
        let Some(time_s) = clock_s(line) else {
            continue;
        };
        if line.contains("an update begins") {
            open = Some(TracedUpdate {
                is_ahead: line.contains("is_ahead=true"),
                from_s: time_s,
                ..TracedUpdate::default()
            });
            continue;
        }
        let Some(update) = &mut open else { continue };
        let since_s = time_s - update.from_s;
        if line.contains("its arithmetic is queued") {
            update.queued_s = since_s;
        } else if line.contains("nothing is left to copy") {
            update.copied_s = since_s;
        } else if line.contains("a piece is in pinned memory") {
            update.pieces.push(TracedPiece {
                waits_s: number_after(line, "waited_s=").unwrap_or(0.0),
                copies_s: number_after(line, "copied_s=").unwrap_or(0.0),
                done_s: since_s,
            });
        } else if line.contains("an update is done") {
            update.done_s = since_s;
            updates.extend(open.take());
        }
    }
    updates
}

/// Makes one row, and draws some updates.
pub fn make_table(results: &GpuResults) -> PartTable {
    let Some(StepRecord { what, updates, .. }) = &results.step else {
        return PartTable::default();
    };
    let figures: [fn(&TracedUpdate) -> f64; 5] = [
        |update| update.done_s,
        TracedUpdate::calls_s,
        TracedUpdate::copies_s,
        TracedUpdate::waits_s,
        |update| update.done_s - update.copied_s,
    ];
    let ranges = figures.map(|figure| MedianRange::of(updates.iter().map(figure)));
    let [update_s, parts @ ..] = ranges.map(|range| range.median);
    let bound = find_bound(update_s, parts);
    let [update, _, copies, link, arithmetic] = ranges.map(|range| range.scale(1e3));
    let row = TableRow::new(&**what)
        .with_range("an update, ms", update, 3)
        .with_range("copies on the host", copies, 3)
        .with_range("waiting for the link", link, 3)
        .with_range("waiting for the arithmetic at the end", arithmetic, 3)
        .without_goal(bound);
    let [calls, copies, link, arithmetic] = parts.map(|part_s| 100.0 * part_s / update_s);
    let about = format!(
        "**One update.** During the arithmetic of an update, the next panels are copied into pinned memory piece by piece, \
         each as soon as the link has freed a slot. {} updates had panels that were sent ahead. Their median time is made of \
         {copies:.0} % copies on the host, {link:.0} % waiting for the link, {calls:.0} % calls of the driver, and \
         {arithmetic:.0} % waiting for the arithmetic when everything is copied. The update is bound by {bound}.",
        updates.len(),
    );
    // Those in the middle are drawn: the first and the last lack a neighbour.
    let middle = updates.len().saturating_sub(DRAWN) / 2;
    let drawn = &updates[middle..updates.len().min(middle + DRAWN)];
    PartTable {
        picture: (!drawn.is_empty()).then(|| ("gpu-step.svg", draw_updates(drawn))),
        ..PartTable::new(about, vec![row])
    }
}

/// The lanes of the picture, with their colours.
const LANES: [(&str, &str); 3] = [
    ("arithmetic, at most", color::BLUE),
    ("copies on the host", color::VERMILION),
    ("waiting for the link", color::GREEN),
];

/// Draws updates one after the other.
fn draw_updates(updates: &[TracedUpdate]) -> String {
    let lanes = LANES.map(|(name, _)| Lane {
        name: name.to_owned(),
        height: 34.0,
    });
    let mut timeline = Timeline {
        lanes: lanes.into(),
        left: 150.0,
        ..Timeline::default()
    };
    let first_s = updates.first().map_or(0.0, |update| update.from_s);
    for update in updates {
        let from_s = update.from_s;
        let mut bars = vec![(0, update.queued_s, update.done_s)];
        for piece in &update.pieces {
            let free_s = piece.done_s - piece.copies_s;
            bars.push((1, free_s, piece.done_s));
            bars.push((2, free_s - piece.waits_s, free_s));
        }
        timeline
            .bars
            .extend(bars.into_iter().map(|(lane, begin_s, end_s)| LaneBar {
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

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
2026-01-01T10:00:00.000100Z TRACE isochron_devices::cuda::staging: a piece is in pinned memory waited_s=0.5 copied_s=0.5
2026-01-01T10:00:01.000000Z TRACE isochron_devices::cuda::resident: an update begins k=512 is_ahead=true
2026-01-01T10:00:01.000500Z TRACE isochron_devices::cuda::resident: its arithmetic is queued
2026-01-01T10:00:01.004000Z TRACE isochron_devices::cuda::staging: a piece is in pinned memory waited_s=1e-3 copied_s=0.002
2026-01-01T10:00:01.005000Z TRACE isochron_devices::cuda::resident: nothing is left to copy
2026-01-01T10:00:01.008000Z TRACE isochron_devices::cuda::resident: an update is done
2026-01-01T10:00:02.000000Z TRACE isochron_devices::cuda::resident: an update begins k=512 is_ahead=false";

    #[test]
    fn updates_are_read_from_the_trace_and_drawn() {
        let found = read_updates(LOG.lines());
        assert_eq!(found.len(), 1);
        let update = &found[0];
        assert!(update.is_ahead && update.pieces.len() == 1);
        assert_eq!(
            (update.pieces[0].waits_s, update.pieces[0].copies_s),
            (0.001, 0.002)
        );
        assert!(update.is_overlapped() && (update.calls_s() - 0.002).abs() < 1e-9);
        assert!((update.done_s - update.copied_s - 0.003).abs() < 1e-9);
        let svg = draw_updates(&found);
        assert!(!svg.contains("NaN"), "{svg}");
        assert_eq!(svg.matches("<rect").count(), 4);
        assert!(!draw_updates(&[]).contains("NaN"));
    }

    #[test]
    fn the_bound_of_an_update_is_its_longest_wait() {
        assert_eq!(find_bound(1.0, [0.1, 0.2, 0.2, 0.5]), "arithmetic");
        assert_eq!(
            find_bound(1.0, [0.1, 0.6, 0.3, 0.01]),
            "the host's copies into pinned memory"
        );
        assert_eq!(find_bound(1.0, [0.1, 0.3, 0.6, 0.01]), "the link");
        assert_eq!(
            find_bound(1.0, [0.9, 0.05, 0.04, 0.01]),
            "calls of the driver"
        );
    }
}
