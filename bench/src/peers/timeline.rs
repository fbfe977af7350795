//! What happens when in a multiplication, from the events that it tells.

use crate::plot::{grid_line, text};

use super::bars::rect;

const WIDTH: f64 = 1000.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 20.0;
/// Room for the updates of a rank, and for one of the lanes below them.
const UPDATES: f64 = 50.0;
const LANE: f64 = 20.0;
const TOP: f64 = 46.0;
const BOTTOM: f64 = 40.0;

const COMPUTES: [&str; 2] = ["#0072b2", "#56b4e9"];
const TRAVELS: &str = "#e69f00";

/// Something that took from one second to another.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Span {
    rank: usize,
    kind: Kind,
    from_s: f64,
    to_s: f64,
}

/// Panels on their way.
struct Journey {
    rank: usize,
    /// The first index along k that they are of.
    k: usize,
    lane: usize,
    from_s: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    /// An update.
    Computes,
    /// Panels are on their way, in this lane: no others are in it at that time.
    Travels(usize),
}

/// Draws the log of a multiplication; lines that tell nothing of it are passed over.
pub fn timeline<'a>(log: impl Iterator<Item = &'a str>) -> String {
    let spans = spans(log);
    let ranks = spans.iter().map(|span| span.rank + 1).max().unwrap_or(0);
    let first = spans
        .iter()
        .map(|span| span.from_s)
        .fold(f64::INFINITY, f64::min);
    let last = spans.iter().map(|span| span.to_s).fold(0.0, f64::max);
    let lanes = spans.iter().map(|span| match span.kind {
        Kind::Computes => 0,
        Kind::Travels(lane) => lane + 1,
    });
    let room = UPDATES + LANE * lanes.max().unwrap_or(0) as f64;
    let height = TOP + room * ranks as f64 + BOTTOM;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" \
         font-size=\"13\">\n<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"white\"/>\n"
    );
    legend(&mut svg);
    let length = (last - first).max(1e-9);
    let x = |time_s: f64| LEFT + (time_s - first) / length * (WIDTH - LEFT - RIGHT);
    let step = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|step| length / step <= 12.0)
        .unwrap_or(length);
    let mut tick = 0.0;
    while tick <= length && !spans.is_empty() {
        grid_line(
            &mut svg,
            (x(first + tick), TOP),
            (x(first + tick), height - BOTTOM),
        );
        text(
            &mut svg,
            x(first + tick),
            height - BOTTOM + 18.0,
            "middle",
            &format!("{tick:.2}"),
        );
        tick += step;
    }
    text(&mut svg, WIDTH / 2.0, height - 6.0, "middle", "seconds");
    let mut parity = vec![0; ranks];
    for span in &spans {
        let base = TOP + room * span.rank as f64;
        let (y, tall, colour) = match span.kind {
            Kind::Computes => {
                parity[span.rank] += 1;
                (
                    base + 4.0,
                    LANE + 4.0,
                    COMPUTES[parity[span.rank] % COMPUTES.len()],
                )
            }
            Kind::Travels(lane) => (base + 32.0 + LANE * lane as f64, LANE - 4.0, TRAVELS),
        };
        let width = (x(span.to_s) - x(span.from_s)).max(0.5);
        rect(&mut svg, (x(span.from_s), y), (width, tall), colour);
    }
    for rank in 0..ranks {
        let base = TOP + room * rank as f64;
        text(
            &mut svg,
            LEFT - 8.0,
            base + 20.0,
            "end",
            &format!("rank {rank}"),
        );
    }
    svg + "</svg>\n"
}

fn legend(svg: &mut String) {
    let entries = [
        (COMPUTES[0], "an update, in turn with the next"),
        (TRAVELS, "panels on their way"),
    ];
    for (idx, (colour, name)) in entries.into_iter().enumerate() {
        let left = LEFT + 300.0 * idx as f64;
        rect(svg, (left, 14.0), (12.0, 12.0), colour);
        text(svg, left + 18.0, 25.0, "start", name);
    }
}

/// What the lines tell: an update ends with the devices' times, and panels come between two events about the same `k`.
fn spans<'a>(log: impl Iterator<Item = &'a str>) -> Vec<Span> {
    let mut spans = Vec::new();
    let mut under_way: Vec<Journey> = Vec::new();
    let mut first_s = None;
    for line in log {
        let (Some(clock_s), Some(rank)) = (clock_s(line), after(line, "multiply{rank=")) else {
            continue;
        };
        // Midnight may come.
        let first_s = *first_s.get_or_insert(clock_s);
        let time_s = if clock_s + 43_200.0 < first_s {
            clock_s + 86_400.0
        } else {
            clock_s
        };
        let rank = rank as usize;
        if line.contains("panels are sent for") {
            // Without messages nothing is on its way: all of it is here already.
            let travels = after(line, " messages=").is_some_and(|messages| messages > 0.0);
            if let Some(k) = after(line, " k=").filter(|_| travels) {
                let taken = |lane: &usize| {
                    let mut others = under_way.iter();
                    others.any(|other| other.rank == rank && other.lane == *lane)
                };
                let lane = (0..).find(|lane| !taken(lane)).unwrap_or(0);
                let k = k as usize;
                let from_s = time_s;
                under_way.push(Journey {
                    rank,
                    k,
                    lane,
                    from_s,
                });
            }
        } else if line.contains("panels are here") {
            let Some(k) = after(line, " k=") else {
                continue;
            };
            let is_it = |other: &Journey| (other.rank, other.k) == (rank, k as usize);
            if let Some(place) = under_way.iter().position(is_it) {
                let Journey { lane, from_s, .. } = under_way.swap_remove(place);
                let kind = Kind::Travels(lane);
                spans.push(Span {
                    rank,
                    kind,
                    from_s,
                    to_s: time_s,
                });
            }
        } else if line.contains("the devices' times") && line.contains("step{") {
            let busy_s = slowest_device_s(line);
            spans.push(Span {
                rank,
                kind: Kind::Computes,
                from_s: time_s - busy_s,
                to_s: time_s,
            });
        }
    }
    spans
}

/// The longest of the devices' times in a line.
fn slowest_device_s(line: &str) -> f64 {
    let parts = line.split("busy_s: ").skip(1);
    parts.filter_map(leading_number).fold(0.0, f64::max)
}

/// The number right behind `key`.
fn after(line: &str, key: &str) -> Option<f64> {
    leading_number(line.split_once(key)?.1)
}

fn leading_number(text: &str) -> Option<f64> {
    let is_part = |c: char| c.is_ascii_digit() || matches!(c, '.' | 'e' | '-');
    let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
    text[..end].parse().ok()
}

/// Seconds of the day in a line that begins with a date and a time.
fn clock_s(line: &str) -> Option<f64> {
    let (_, time) = line.split_once('T')?;
    let (time, _) = time.split_once('Z')?;
    let mut parts = time.split(':').map(str::parse::<f64>);
    let (hours, minutes, seconds) = (
        parts.next()?.ok()?,
        parts.next()?.ok()?,
        parts.next()?.ok()?,
    );
    Some(3600.0 * hours + 60.0 * minutes + seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_becomes_updates_and_journeys() {
        let log = "\
2026-01-01T23:59:59.500000Z TRACE multiply{rank=1}: isochron::multiply::panels: panels are sent for k=128 messages=1
2026-01-02T00:00:00.250000Z TRACE multiply{rank=1}:step{step=0}: isochron::multiply: the devices' times times=[UpdateTime { busy_s: 0.5 }, UpdateTime { busy_s: 2.5e-1 }]
2026-01-02T00:00:00.500000Z TRACE multiply{rank=1}:step{step=1}: isochron::multiply::panels: panels are here k=128
2026-01-02T00:00:00.600000Z TRACE multiply{rank=1}:step{step=1}: isochron::multiply::panels: panels are sent for k=256 messages=0
2026-01-02T00:00:00.700000Z TRACE multiply{rank=1}:step{step=1}: isochron::multiply::panels: panels are here k=256
something else";
        let spans = spans(log.lines());
        let day_s = 86_400.0;
        let of = |kind, from_s, to_s| Span {
            rank: 1,
            kind,
            from_s,
            to_s,
        };
        assert_eq!(
            spans,
            [
                of(Kind::Computes, day_s - 0.25, day_s + 0.25),
                of(Kind::Travels(0), day_s - 0.5, day_s + 0.5),
            ]
        );
        let svg = timeline(log.lines());
        assert!(svg.contains(">rank 1<") && svg.ends_with("</svg>\n") && !svg.contains("NaN"));
        assert!(timeline("".lines()).ends_with("</svg>\n"));
    }
}
