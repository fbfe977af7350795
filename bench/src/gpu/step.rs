//! What happens when in an update whose panels travel ahead, from the events that the GPU's device tells, and what bounds
//! it.

use std::path::Path;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::Campaign;
use super::clock::Clock;
use super::jobs::{Device, Job};
use super::rows::Row;
use crate::direct::Shape;
use crate::peers::bars::rect;
use crate::plot::{COLOURS, grid_line, text};
use crate::results::{list, number};
use crate::statistics::Spread;

/// Updates of the multiplication.
const UPDATES: usize = 16;
/// Updates in the picture.
const DRAWN: usize = 3;
/// An update that waits for less than this part of its time, when all is copied, is bound by the copies.
const SHORT: f64 = 0.05;

/// An update, in seconds of the day.
#[derive(Debug, Clone, Default, PartialEq)]
struct Update {
    is_ahead: bool,
    from_s: f64,
    /// When its arithmetic was queued, when all of the next panels were in pinned memory, and when the arithmetic was done.
    queued_s: f64,
    copied_s: f64,
    done_s: f64,
    pieces: Vec<Piece>,
}

/// A piece of the next panels: the wait for the link to let go of a slot, and then the copy into it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Piece {
    waits_s: f64,
    copies_s: f64,
    done_s: f64,
}

/// Multiplies on the GPU alone, and keeps what it tells.
pub fn measure(campaign: &mut Campaign, clock: Clock) -> anyhow::Result<()> {
    let (host, _) = campaign.card.divided_cores();
    let (side, panel) = (campaign.scale.side, campaign.scale.panel);
    let nodes = [vec![Device::gpu("gpu", &host)]];
    let width = panel.to_string();
    let job = Job {
        nodes: &nodes,
        shape: Shape {
            m: side,
            n: side,
            k: UPDATES * panel,
        },
        block: campaign.scale.block,
        words: &["--panel", &width],
        // The measurements before are no part of it, and tell as much again: the last updates are those of the product.
        log: "isochron_devices::cuda=trace",
    };
    let (report, log) = campaign.multiply("step", &job, clock)?;
    let updates = updates(log.lines());
    let last = updates.len().saturating_sub(UPDATES);
    let found: Vec<&Update> = updates[last..]
        .iter()
        .filter(|update| update.is_overlapped())
        .collect();
    ensure!(!found.is_empty(), "no update's panels came ahead");
    let seconds =
        |figure: fn(&Update) -> f64| Spread::of(found.iter().map(|update| figure(update)));
    let all = seconds(|update| update.done_s - update.from_s);
    let copies = seconds(|update| update.sum(|piece| piece.copies_s));
    let link = seconds(|update| update.sum(|piece| piece.waits_s));
    let arithmetic = seconds(|update| update.done_s - update.copied_s);
    let calls = seconds(Update::calls_s);
    let parts = [calls, copies, link, arithmetic].map(|part| part.median);
    // The ends have no neighbours.
    let middle = found.len().saturating_sub(DRAWN) / 2;
    let drawn = found
        .iter()
        .skip(middle)
        .take(DRAWN)
        .map(|update| update.json());
    campaign.record.results["step"] = json!({
        "what": format!("{side}×{side}, k = {panel}, f64"), "updates": found.len(), "update_s": all.json(),
        "copies_s": copies.json(), "link_s": link.json(), "arithmetic_s": arithmetic.json(), "calls_s": calls.json(),
        "bound": bound(all.median, parts),
        "drawn": drawn.collect::<Vec<_>>(), "report": report,
    });
    Ok(())
}

/// What bounds an update that takes so long, of which so much goes by with calls of the driver, with copies on the host, with
/// waiting for the link to take them, and with waiting for the arithmetic once all is copied.
fn bound(update_s: f64, parts: [f64; 4]) -> &'static str {
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

impl Update {
    /// Whether its own panels were there, and the next ones were copied while it was computed.
    fn is_overlapped(&self) -> bool {
        self.is_ahead && !self.pieces.is_empty()
    }

    fn sum(&self, figure: fn(&Piece) -> f64) -> f64 {
        self.pieces
            .iter()
            .map(figure)
            .fold(0.0, |sum, part| sum + part)
    }

    /// What neither copies nor waits: queueing the arithmetic and the copies.
    fn calls_s(&self) -> f64 {
        self.copied_s - self.from_s - self.sum(|piece| piece.copies_s + piece.waits_s)
    }

    /// As JSON, in seconds after its beginning.
    fn json(&self) -> Value {
        let since = |time_s: f64| time_s - self.from_s;
        let piece = |piece: &Piece| json!({ "waits_s": piece.waits_s, "copies_s": piece.copies_s, "done_s": since(piece.done_s) });
        json!({
            "from_s": self.from_s, "queued_s": since(self.queued_s), "copied_s": since(self.copied_s),
            "done_s": since(self.done_s), "pieces": self.pieces.iter().map(piece).collect::<Vec<_>>(),
        })
    }
}

/// The updates that a log tells of, those that are told whole.
fn updates<'a>(log: impl Iterator<Item = &'a str>) -> Vec<Update> {
    let mut updates = Vec::new();
    let mut open: Option<Update> = None;
    for line in log.filter(|line| line.contains("isochron_devices::cuda")) {
        let Some(time_s) = clock_s(line) else {
            continue;
        };
        if line.contains("an update begins") {
            open = Some(Update {
                is_ahead: line.contains("is_ahead=true"),
                from_s: time_s,
                ..Update::default()
            });
            continue;
        }
        let Some(update) = &mut open else { continue };
        if line.contains("its arithmetic is queued") {
            update.queued_s = time_s;
        } else if line.contains("nothing is left to copy") {
            update.copied_s = time_s;
        } else if line.contains("a piece is in pinned memory") {
            let seconds = |key: &str| leading_number(line.split_once(key)?.1);
            update.pieces.push(Piece {
                waits_s: seconds("waited_s=").unwrap_or(0.0),
                copies_s: seconds("copied_s=").unwrap_or(0.0),
                done_s: time_s,
            });
        } else if line.contains("an update is done") {
            update.done_s = time_s;
            updates.extend(open.take());
        }
    }
    updates
}

/// Seconds of the day in a line that begins with a date and a time. An update at midnight is told wrong.
fn clock_s(line: &str) -> Option<f64> {
    let (_, time) = line.split_once('T')?;
    let (time, _) = time.split_once('Z')?;
    let parts: Result<Vec<f64>, _> = time.split(':').map(str::parse).collect();
    let &[hours, minutes, seconds] = parts.ok()?.as_slice() else {
        return None;
    };
    Some(3600.0 * hours + 60.0 * minutes + seconds)
}

fn leading_number(text: &str) -> Option<f64> {
    let is_part = |c: char| c.is_ascii_digit() || matches!(c, '.' | 'e' | '-');
    let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
    text[..end].parse().ok()
}

/// One row.
pub fn rows(results: &Value) -> Vec<Row> {
    let step = &results["step"];
    let Some(what) = step["what"].as_str() else {
        return Vec::new();
    };
    let milliseconds = |key: &str| crate::results::spread(&step[key]).scaled(1e3);
    let row = Row::new(what)
        .spread("an update, ms", milliseconds("update_s"), 3)
        .spread("copies on the host", milliseconds("copies_s"), 3)
        .spread("waiting for the link", milliseconds("link_s"), 3)
        .spread(
            "waiting for the arithmetic at the end",
            milliseconds("arithmetic_s"),
            3,
        )
        .no_goal(step["bound"].as_str().unwrap_or_default());
    vec![row]
}

/// What the table shows, and what it says.
pub fn words(results: &Value) -> String {
    let step = &results["step"];
    let part = |key: &str| {
        100.0 * number(step, &format!("/{key}/median")) / number(step, "/update_s/median")
    };
    format!(
        "**One update.** While the arithmetic of an update runs, the next panels are copied into pinned memory piece by piece, \
         each as soon as the link has let go of a slot. Of the {} updates whose panels came ahead, in the median, {:.0} % of the \
         time goes by with copies on the host, {:.0} % with waiting for the link, {:.0} % with calls of the driver, and {:.0} % is left to wait for the arithmetic \
         when everything is copied: the update is bound by {}.",
        step["updates"],
        part("copies_s"),
        part("link_s"),
        part("calls_s"),
        part("arithmetic_s"),
        step["bound"].as_str().unwrap_or("nothing that is known"),
    )
}

const WIDTH: f64 = 1000.0;
const LEFT: f64 = 150.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 30.0;
const LANE: f64 = 34.0;
const LANES: [&str; 3] = [
    "arithmetic, at most",
    "copies on the host",
    "waiting for the link",
];

/// Draws some updates, one after the other.
pub fn draw(folder: &Path, results: &Value) -> anyhow::Result<()> {
    let file = folder.join("gpu-step.svg");
    std::fs::write(&file, picture(&results["step"])).with_context(|| file.display().to_string())
}

fn picture(step: &Value) -> String {
    let drawn: Vec<&Value> = list(step, "drawn").collect();
    let first_s = drawn
        .first()
        .map_or(0.0, |update| number(update, "/from_s"));
    let last_s = drawn.last().map_or(1.0, |update| {
        number(update, "/from_s") + number(update, "/done_s")
    });
    let x = |time_s: f64| {
        LEFT + (time_s - first_s) / (last_s - first_s).max(1e-9) * (WIDTH - LEFT - RIGHT)
    };
    let bottom = TOP + LANE * LANES.len() as f64;
    let height = bottom + 40.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" \
         font-size=\"13\">\n<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"white\"/>\n"
    );
    for (lane, name) in LANES.iter().enumerate() {
        text(
            &mut svg,
            LEFT - 8.0,
            TOP + LANE * lane as f64 + 18.0,
            "end",
            name,
        );
    }
    let mut bar = |lane: usize, from_s: f64, to_s: f64| {
        let at = (x(from_s), TOP + LANE * lane as f64);
        rect(
            &mut svg,
            at,
            ((x(to_s) - at.0).max(0.3), LANE - 8.0),
            COLOURS[lane],
        );
    };
    for update in &drawn {
        let from_s = number(update, "/from_s");
        let at = |key: &str| from_s + number(update, key);
        bar(0, at("/queued_s"), at("/done_s"));
        for piece in list(update, "pieces") {
            let done_s = from_s + number(piece, "/done_s");
            let free_s = done_s - number(piece, "/copies_s");
            bar(1, free_s, done_s);
            bar(2, free_s - number(piece, "/waits_s"), free_s);
        }
    }
    for update in &drawn {
        let from_s = number(update, "/from_s");
        let (left, label) = (x(from_s), format!("{:.2} ms", 1e3 * (from_s - first_s)));
        grid_line(&mut svg, (left, TOP - 6.0), (left, bottom));
        text(&mut svg, left, bottom + 16.0, "start", &label);
    }
    svg + "</svg>\n"
}

/// Whether there is something to draw.
pub fn is_drawn(results: &Value) -> bool {
    list(&results["step"], "drawn").next().is_some()
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
    fn updates_are_read_from_the_log_and_drawn() {
        let found = updates(LOG.lines());
        assert_eq!(found.len(), 1);
        let update = &found[0];
        assert!(update.is_ahead && update.pieces.len() == 1);
        assert_eq!(
            (update.pieces[0].waits_s, update.pieces[0].copies_s),
            (0.001, 0.002)
        );
        assert!(update.is_overlapped() && (update.calls_s() - 0.002).abs() < 1e-9);
        assert!((update.done_s - update.copied_s - 0.003).abs() < 1e-9);
        let svg = picture(&json!({ "drawn": [update.json()] }));
        assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN"), "{svg}");
        assert_eq!(svg.matches("<rect").count(), 4);
        assert!(!picture(&Value::Null).contains("NaN"));
    }

    #[test]
    fn what_bounds_an_update_is_what_it_waits_for() {
        assert_eq!(bound(1.0, [0.1, 0.2, 0.2, 0.5]), "arithmetic");
        assert_eq!(
            bound(1.0, [0.1, 0.6, 0.3, 0.01]),
            "the host's copies into pinned memory"
        );
        assert_eq!(bound(1.0, [0.1, 0.3, 0.6, 0.01]), "the link");
        assert_eq!(bound(1.0, [0.9, 0.05, 0.04, 0.01]), "calls of the driver");
    }
}
