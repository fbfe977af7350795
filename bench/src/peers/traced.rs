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
    activity: Activity,
    from_s: f64,
    to_s: f64,
}

/// The activity of a span.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Activity {
    /// An update.
    Update,
    /// Panels are sent to the rank, in this lane. A lane has one journey at a time.
    Panels(usize),
}

/// Panels that are being sent to a rank.
struct Journey {
    rank: usize,
    /// Their first index along k.
    k: usize,
    lane: usize,
    from_s: f64,
}

/// Draws the trace of a multiplication as an SVG document. Other lines are ignored.
pub fn draw_log<'a>(log: impl Iterator<Item = &'a str>) -> String {
    let spans = read_spans(log);
    let n_ranks = spans.iter().map(|span| span.rank + 1).max().unwrap_or(0);
    let panel_lanes = spans.iter().map(|span| match span.activity {
        Activity::Update => 0,
        Activity::Panels(lane) => lane + 1,
    });
    // The updates, the panels and the gap.
    let n_lanes = panel_lanes.max().unwrap_or(0) + 2;
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
        let panels = (2..n_lanes).map(|_| make_lane("", PANELS));
        timeline.lanes.extend(panels);
        timeline.lanes.push(make_lane("", GAP));
    }
    let mut n_updates = vec![0; n_ranks];
    for span in &spans {
        let first_lane = span.rank * n_lanes;
        let (lane, color) = match span.activity {
            Activity::Update => {
                n_updates[span.rank] += 1;
                let turn = (n_updates[span.rank] - 1) % UPDATE_COLORS.len();
                (first_lane, UPDATE_COLORS[turn])
            }
            Activity::Panels(lane) => (first_lane + 1 + lane, PANEL_COLOR),
        };
        timeline.bars.push(LaneBar {
            lane,
            from_s: span.from_s,
            to_s: span.to_s,
            color,
        });
    }
    let (first_s, last_s) = timeline.range_s();
    if !spans.is_empty() {
        let numbers = LinearAxis::to(last_s - first_s).numbers().into_iter();
        let within = numbers.filter(|(time_s, _)| *time_s <= last_s - first_s);
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
    let mut journeys: Vec<Journey> = Vec::new();
    let mut first_s = None;
    for line in log {
        let (Some(clock_s), Some(rank)) = (clock_s(line), number_after(line, "multiply{rank="))
        else {
            continue;
        };
        let rank = rank as usize;
        let first_s = *first_s.get_or_insert(clock_s);
        // A time half a day before the first one is after midnight.
        let midnight_s = if clock_s + 43_200.0 < first_s {
            86_400.0
        } else {
            0.0
        };
        let time_s = clock_s + midnight_s;
        if line.contains("panels are sent for") {
            journeys.extend(begin_journey(line, rank, time_s, &journeys));
        } else if line.contains("panels are here") {
            let k = number_after(line, " k=").map(|k| k as usize);
            let place = journeys
                .iter()
                .position(|journey| journey.rank == rank && Some(journey.k) == k);
            if let Some(place) = place {
                let journey = journeys.swap_remove(place);
                spans.push(TraceSpan {
                    rank,
                    activity: Activity::Panels(journey.lane),
                    from_s: journey.from_s,
                    to_s: time_s,
                });
            }
        } else if line.contains("the devices' times") && line.contains("step{") {
            spans.push(TraceSpan {
                rank,
                activity: Activity::Update,
                from_s: time_s - slowest_device_s(line),
                to_s: time_s,
            });
        }
    }
    spans
}

/// Begins a journey in the first free lane of its rank. Without messages nothing travels: all panels are there already.
fn begin_journey(line: &str, rank: usize, from_s: f64, others: &[Journey]) -> Option<Journey> {
    let k = number_after(line, " k=")? as usize;
    if number_after(line, " messages=")? == 0.0 {
        return None;
    }
    let mut lane = 0;
    while others
        .iter()
        .any(|other| other.rank == rank && other.lane == lane)
    {
        lane += 1;
    }
    Some(Journey {
        rank,
        k,
        lane,
        from_s,
    })
}

/// Returns the longest of the devices' times in a line.
fn slowest_device_s(line: &str) -> f64 {
    let times = line.split("busy_s: ").skip(1);
    times.filter_map(leading_number).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trace_becomes_updates_and_journeys() {
        let log = "\
2026-01-01T23:59:59.500000Z TRACE multiply{rank=1}: isochron::multiply::panels: panels are sent for k=128 messages=1
2026-01-02T00:00:00.250000Z TRACE multiply{rank=1}:step{step=0}: isochron::multiply: the devices' times times=[UpdateTime { busy_s: 0.5 }, UpdateTime { busy_s: 2.5e-1 }]
2026-01-02T00:00:00.500000Z TRACE multiply{rank=1}:step{step=1}: isochron::multiply::panels: panels are here k=128
2026-01-02T00:00:00.600000Z TRACE multiply{rank=1}:step{step=1}: isochron::multiply::panels: panels are sent for k=256 messages=0
2026-01-02T00:00:00.700000Z TRACE multiply{rank=1}:step{step=1}: isochron::multiply::panels: panels are here k=256
something else";
        let day_s = 86_400.0;
        let update = TraceSpan {
            rank: 1,
            activity: Activity::Update,
            from_s: day_s - 0.25,
            to_s: day_s + 0.25,
        };
        let panels = TraceSpan {
            rank: 1,
            activity: Activity::Panels(0),
            from_s: day_s - 0.5,
            to_s: day_s + 0.5,
        };
        assert_eq!(read_spans(log.lines()), [update, panels]);
        let svg = draw_log(log.lines());
        assert!(svg.contains(">rank 1<") && !svg.contains("NaN"));
        assert!(draw_log("".lines()).ends_with("</svg>\n"));
    }
}
