//! The timeline of a multiplication, from its trace.

use isochron_plot::{Lane, LaneBar, LinearAxis, Timeline, color};

use crate::trace::{clock_s, leading_number, number_after};

/// Pixels of the lanes: updates of a rank, panels below them, and the gap below both.
const UPDATES: f64 = 30.0;
const PANELS: f64 = 20.0;
const GAP: f64 = 16.0;

const UPDATE_COLORS: [&str; 2] = [color::BLUE, color::SKY];
const PANEL_COLOR: &str = color::ORANGE;

/// Something that took from one second to another on a rank.
#[derive(Debug, Clone, Copy, PartialEq)]
struct TraceSpan {
    rank: usize,
    /// The lane of the rank: 0 for updates, then those of panels on their way. Each has one journey at a time.
    lane: usize,
    from_s: f64,
    to_s: f64,
}

/// Draws the trace of a multiplication as an SVG document. Other lines are ignored.
pub fn draw_log<'a>(log: impl Iterator<Item = &'a str>) -> String {
    let spans = read_spans(log);
    let n_ranks = spans.iter().map(|span| span.rank + 1).max().unwrap_or(0);
    let last_lane = spans.iter().map(|span| span.lane).max().unwrap_or(0);
    let mut timeline = Timeline {
        x_title: "seconds".to_owned(),
        legend: vec![
            (UPDATE_COLORS[0], "an update, in turn with the next"),
            (PANEL_COLOR, "panels on their way"),
        ],
        left: 90.0,
        ..Timeline::default()
    };
    for rank in 0..n_ranks {
        timeline
            .lanes
            .push(make_lane(&format!("rank {rank}"), UPDATES));
        let panels = (0..last_lane).map(|_| make_lane("", PANELS));
        timeline.lanes.extend(panels);
        timeline.lanes.push(make_lane("", GAP));
    }
    let mut colors = vec![UPDATE_COLORS.into_iter().cycle(); n_ranks];
    for span in &spans {
        let color = match span.lane {
            0 => colors[span.rank].next().unwrap_or(PANEL_COLOR),
            _ => PANEL_COLOR,
        };
        timeline.bars.push(LaneBar {
            // A rank has the gap as one more lane.
            lane: span.rank * (last_lane + 2) + span.lane,
            from_s: span.from_s,
            to_s: span.to_s,
            color,
        });
    }
    let (first_s, last_s) = timeline.range_s();
    if !spans.is_empty() {
        let within = LinearAxis::to(last_s - first_s)
            .numbers()
            .into_iter()
            .filter(|(time_s, _)| *time_s <= last_s - first_s);
        timeline.ticks = within
            .map(|(time_s, text)| (first_s + time_s, text))
            .collect();
    }
    timeline.draw()
}

fn make_lane(name: &str, height: f64) -> Lane {
    Lane {
        name: name.to_owned(),
        height,
    }
}

/// Reads the spans: an update ends with the devices' times, and panels travel between two events about the same `k`.
fn read_spans<'a>(log: impl Iterator<Item = &'a str>) -> Vec<TraceSpan> {
    let mut spans = Vec::new();
    // Journeys that have begun, each with its first index along k.
    let mut journeys: Vec<(f64, TraceSpan)> = Vec::new();
    let mut first_s = None;
    for line in log {
        let (Some(clock_s), Some(rank)) = (clock_s(line), number_after(line, "multiply{rank="))
        else {
            continue;
        };
        let first_s = *first_s.get_or_insert(clock_s);
        // A time half a day before the first one is after midnight.
        let is_next_day = clock_s + 43_200.0 < first_s;
        let to_s = clock_s + if is_next_day { 86_400.0 } else { 0.0 };
        let mut span = TraceSpan {
            rank: rank as usize,
            lane: 0,
            from_s: to_s,
            to_s,
        };
        if line.contains("the devices' times") && line.contains("step{") {
            span.from_s -= slowest_device_s(line);
            spans.push(span);
            continue;
        }
        let Some(k) = number_after(line, " k=") else {
            continue;
        };
        // Without messages nothing travels: all panels are there already.
        let is_sent = number_after(line, " messages=").is_some_and(|count| count > 0.0);
        if line.contains("panels are sent for") && is_sent {
            let taken: Vec<usize> = journeys
                .iter()
                .filter(|(_, other)| other.rank == span.rank)
                .map(|(_, other)| other.lane)
                .collect();
            // The first free lane: one of the next is free, however many are taken.
            let mut lanes = 1..=taken.len() + 1;
            span.lane = lanes.find(|lane| !taken.contains(lane)).unwrap_or(1);
            journeys.push((k, span));
        } else if line.contains("panels are here") {
            let mut begun = journeys.iter();
            let place =
                begun.position(|(first_k, journey)| *first_k == k && journey.rank == span.rank);
            if let Some(place) = place {
                let (_, journey) = journeys.swap_remove(place);
                spans.push(TraceSpan { to_s, ..journey });
            }
        }
    }
    spans
}

/// Returns the longest of the devices' times in a line.
fn slowest_device_s(line: &str) -> f64 {
    line.split("busy_s: ")
        .skip(1)
        .filter_map(leading_number)
        .fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trace_becomes_updates_and_journeys() {
        let log = "\
2026-01-01T23:59:59.500000Z TRACE multiply{rank=1}: isochron_core::product::panels: panels are sent for k=128 messages=1
2026-01-02T00:00:00.250000Z TRACE multiply{rank=1}:step{step=0}: isochron_core::product::summa: the devices' times times=[UpdateTime { busy_s: 0.5 }, UpdateTime { busy_s: 2.5e-1 }]
2026-01-02T00:00:00.500000Z TRACE multiply{rank=1}:step{step=1}: isochron_core::product::panels: panels are here k=128
2026-01-02T00:00:00.600000Z TRACE multiply{rank=1}:step{step=1}: isochron_core::product::panels: panels are sent for k=256 messages=0
2026-01-02T00:00:00.700000Z TRACE multiply{rank=1}:step{step=1}: isochron_core::product::panels: panels are here k=256
something else";
        let day_s = 86_400.0;
        let update = TraceSpan {
            rank: 1,
            lane: 0,
            from_s: day_s - 0.25,
            to_s: day_s + 0.25,
        };
        let panels = TraceSpan {
            rank: 1,
            lane: 1,
            from_s: day_s - 0.5,
            to_s: day_s + 0.5,
        };
        assert_eq!(read_spans(log.lines()), [update, panels]);
        let svg = draw_log(log.lines());
        assert!(svg.contains(">rank 1<") && !svg.contains("NaN"));
        assert!(draw_log("".lines()).ends_with("</svg>\n"));
    }
}
