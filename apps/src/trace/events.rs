//! The events of a rank in the trace event format: names of its tracks, slices, flows and counters, each a JSON object.
//!
//! # References
//! Trace Event Format (Duca and Sinclair, 2016), which Perfetto reads: times are microseconds, with nanoseconds behind the
//! point.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};

use isochron_core::Error;
use serde_json::{Map, Value, json};

use super::clocks::RankClock;
use super::recorder::{DeviceWork, EventKind, Messages, Recording, Span, TraceEvent};

/// A rank with everything that it has recorded.
pub struct RecordedRank<'r> {
    pub rank: usize,
    pub host: &'r str,
    pub clock: RankClock,
    pub recording: &'r Recording,
}

/// Takes an event of the file.
pub type WriteEvent<'w> = dyn FnMut(Value) -> Result<(), Error> + 'w;

/// A track of slices, in the order in which a rank's are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Track {
    /// The main thread.
    Rank,
    Device(u32),
    /// Messages that travel one after another.
    Lane(u32),
}

impl Track {
    fn of(event: &TraceEvent) -> Self {
        match event.kind {
            EventKind::Span(_) => Self::Rank,
            EventKind::Work(work) => Self::Device(work.device),
            EventKind::Messages(messages) => Self::Lane(messages.lane),
        }
    }

    /// Returns its number within its rank: a thread's, of 32 bits and not 0.
    fn number(self) -> u32 {
        match self {
            Self::Rank => 1,
            Self::Device(device) => 2 + device,
            Self::Lane(lane) => (1 << 16) + lane,
        }
    }
}

/// An event by the clock of the head rank's host.
#[derive(Debug, Clone, Copy)]
struct Slice<'r> {
    begin_ns: u64,
    end_ns: u64,
    event: &'r TraceEvent,
}

/// Returns a time of the file.
fn to_us(time_ns: u64) -> f64 {
    time_ns as f64 / 1e3
}

impl RecordedRank<'_> {
    /// Writes all events: the names of the tracks, then the slices in the order of their beginnings, each with its flows and
    /// the speed of its device, then the bytes under way.
    ///
    /// # Errors
    /// Returns the errors of `write`.
    pub fn write_events(&self, write: &mut WriteEvent<'_>) -> Result<(), Error> {
        self.list_names().into_iter().try_for_each(&mut *write)?;
        let slices = self.list_slices();
        let flows = Flows::of(&slices);
        for slice in &slices {
            write(self.make_slice(slice))?;
            match slice.event.kind {
                EventKind::Work(work) => {
                    let end = flows.find_end(self.rank, &work);
                    end.map(|id| self.make_flow("f", slice, id))
                        .into_iter()
                        .try_for_each(&mut *write)?;
                    if work.flop > 0.0 {
                        let speed = 1e9 * work.flop / (slice.end_ns - slice.begin_ns) as f64;
                        write(self.count_speed(&work, slice.begin_ns, speed))?;
                        write(self.count_speed(&work, slice.end_ns, 0.0))?;
                    }
                }
                EventKind::Messages(messages) => {
                    let begins = flows.find_begins(self.rank, &messages).into_iter();
                    begins.map(|id| self.make_flow("s", slice, id)).try_for_each(&mut *write)?;
                }
                EventKind::Span(_) => {}
            }
        }
        self.count_bytes(&slices).into_iter().try_for_each(&mut *write)?;
        let last = slices.iter().map(|slice| slice.end_ns).max();
        let dropped = last.zip(self.describe_dropped()).map(|(at_ns, dropped)| {
            let mut event = self.make_event("i", Some(Track::Rank), at_ns, &dropped);
            event["s"] = "t".into();
            event
        });
        dropped.into_iter().try_for_each(write)
    }

    /// Says how many events are missing.
    fn describe_dropped(&self) -> Option<String> {
        let dropped = self.recording.dropped;
        (dropped > 0).then(|| format!("{dropped} later events were dropped"))
    }

    /// Returns the number of the process: processes of two hosts may have the same one of their own.
    fn number_process(&self) -> usize {
        self.rank + 1
    }

    /// Names the process and its tracks, in the order in which they are shown.
    fn list_names(&self) -> Vec<Value> {
        let name = |of: &str, track: Track, args: Value| json!({"ph": "M", "pid": self.number_process(), "tid": track.number(), "name": of, "args": args});
        let process = |of: &str, args: Value| name(of, Track::Rank, args);
        let mut names = vec![
            process(
                "process_name",
                json!({"name": format!("rank {} on {}", self.rank, self.host)}),
            ),
            process("process_sort_index", json!({"sort_index": self.rank})),
        ];
        if let Some(labels) = self.describe_process() {
            names.push(process("process_labels", json!({"labels": labels})));
        }
        let devices = (0..self.recording.devices.len() as u32).map(Track::Device);
        let mut tracks: BTreeSet<Track> = devices.chain([Track::Rank]).collect();
        tracks.extend(self.recording.events.iter().map(Track::of));
        for (place, track) in tracks.into_iter().enumerate() {
            let title = match track {
                Track::Rank => "phases and steps".to_owned(),
                Track::Device(device) => self.recording.devices[device as usize].clone(),
                Track::Lane(0) => "messages".to_owned(),
                Track::Lane(lane) => format!("messages {}", lane + 1),
            };
            names.push(name("thread_name", track, json!({"name": title})));
            names.push(name("thread_sort_index", track, json!({"sort_index": place})));
        }
        names
    }

    fn describe_process(&self) -> Option<String> {
        let error_ns = self.clock.error_ns();
        let clock = (error_ns > 0).then(|| {
            let error_us = to_us(error_ns);
            format!("its clock is compared to within {error_us:.1} µs")
        });
        let labels: Vec<String> = clock.into_iter().chain(self.describe_dropped()).collect();
        (!labels.is_empty()).then(|| labels.join(", "))
    }

    /// Lists the events that took time, by their beginnings; one that holds others comes before them.
    fn list_slices(&self) -> Vec<Slice<'_>> {
        let events = self.recording.events.iter();
        let mut slices: Vec<Slice<'_>> = events
            // Of two spans with the same times, the outer one ended later.
            .rev()
            .map(|event| {
                let [begin_ns, end_ns] =
                    [event.begin_ns, event.end_ns].map(|own_ns| self.clock.to_head_ns(own_ns));
                Slice { begin_ns, end_ns, event }
            })
            // A slice has a length, whatever the clocks' resolution.
            .filter(|slice| slice.begin_ns < slice.end_ns)
            .collect();
        slices.sort_by_key(|slice| (slice.begin_ns, Reverse(slice.end_ns)));
        slices
    }

    /// Makes an event of a type on a track, or of the whole process.
    fn make_event(&self, of: &str, track: Option<Track>, at_ns: u64, name: &str) -> Value {
        let mut event =
            json!({"ph": of, "pid": self.number_process(), "ts": to_us(at_ns), "name": name});
        if let Some(track) = track {
            event["tid"] = track.number().into();
        }
        event
    }

    fn make_slice(&self, slice: &Slice<'_>) -> Value {
        let track = Track::of(slice.event);
        let Description { category, name, args } = match slice.event.kind {
            EventKind::Span(span) => describe_span(span),
            EventKind::Work(work) => describe_work(&work),
            EventKind::Messages(messages) => describe_messages(&messages),
        };
        let mut event = self.make_event("X", Some(track), slice.begin_ns, &name);
        event["dur"] = to_us(slice.end_ns - slice.begin_ns).into();
        event["cat"] = category.into();
        event["args"] = args.into();
        event
    }

    /// Makes the beginning (`s`) or the end (`f`) of a flow, which is bound to the slice that lasts then.
    fn make_flow(&self, of: &str, slice: &Slice<'_>, id: u64) -> Value {
        let track = Some(Track::of(slice.event));
        let mut event = self.make_event(of, track, slice.begin_ns, "panels");
        event["cat"] = "panels".into();
        event["id"] = id.into();
        event["bp"] = "e".into();
        event
    }

    fn make_counter(&self, at_ns: u64, name: &str, unit: &str, value: Value) -> Value {
        let mut event = self.make_event("C", None, at_ns, name);
        event["args"] = json!({unit: value});
        event
    }

    fn count_speed(&self, work: &DeviceWork, at_ns: u64, speed: f64) -> Value {
        let name = format!("speed of {}", self.recording.devices[work.device as usize]);
        self.make_counter(at_ns, &name, "flop/s", speed.into())
    }

    /// Counts the bytes that are coming to the rank, in the order of time.
    fn count_bytes(&self, slices: &[Slice<'_>]) -> Vec<Value> {
        let mut changes = Vec::new();
        for slice in slices {
            if let EventKind::Messages(messages) = slice.event.kind {
                let bytes = messages.bytes.cast_signed();
                changes.extend([(slice.begin_ns, bytes), (slice.end_ns, -bytes)]);
            }
        }
        changes.sort_unstable();
        let mut under_way = 0;
        let counted = changes.into_iter().map(|(at_ns, bytes)| {
            under_way += bytes;
            self.make_counter(at_ns, "bytes under way", "bytes", under_way.into())
        });
        counted.collect()
    }
}

/// The flows from the messages for a step to the work on it, one for each device.
struct Flows {
    /// The steps for which messages have come.
    brought: HashSet<u32>,
    /// The devices that work on a step.
    workers: HashMap<u32, Vec<u32>>,
}

impl Flows {
    fn of(slices: &[Slice<'_>]) -> Self {
        let (mut brought, mut workers) = (HashSet::new(), HashMap::<u32, Vec<u32>>::new());
        for slice in slices {
            match slice.event.kind {
                EventKind::Messages(messages) if messages.count > 0 => {
                    brought.insert(messages.step);
                }
                EventKind::Work(DeviceWork { step: Some(step), device, .. }) => {
                    workers.entry(step).or_default().push(device)
                }
                _ => {}
            }
        }
        Self { brought, workers }
    }

    /// Returns the flow that ends in a device's work.
    fn find_end(&self, rank: usize, work: &DeviceWork) -> Option<u64> {
        let step = work.step.filter(|step| self.brought.contains(step))?;
        Some(number_flow(rank, step, work.device))
    }

    /// Returns the flows that begin with messages.
    fn find_begins(&self, rank: usize, messages: &Messages) -> Vec<u64> {
        let workers = self.workers.get(&messages.step);
        let workers = workers.filter(|_| messages.count > 0).into_iter().flatten();
        workers.map(|&device| number_flow(rank, messages.step, device)).collect()
    }
}

/// Returns the number of a flow, which no other one has: of the rank, the device and the step, from the highest bits down.
fn number_flow(rank: usize, step: u32, device: u32) -> u64 {
    ((rank as u64 + 1) << 44) | (u64::from(device) << 32) | u64::from(step)
}

/// Category, name and arguments of a slice.
struct Description {
    category: &'static str,
    name: String,
    args: Map<String, Value>,
}

impl Description {
    fn new(
        category: &'static str,
        name: impl Into<String>,
        args: impl IntoIterator<Item = (&'static str, u64)>,
    ) -> Self {
        let args = args.into_iter().map(|(name, value)| (name.to_owned(), value.into()));
        Self { category, name: name.into(), args: args.collect() }
    }
}

fn describe_span(span: Span) -> Description {
    match span {
        Span::Phase(name) => Description::new("phase", name, []),
        Span::Measurement(number) => {
            Description::new("measurement", format!("measurement {number}"), [])
        }
        Span::Step(number) => Description::new("step", format!("step {number}"), []),
        Span::Part(name) => Description::new("part", name, []),
        Span::Move(name, bytes) => Description::new("part", name, [("sent bytes", bytes)]),
    }
}

fn describe_work(work: &DeviceWork) -> Description {
    let step = work.step.map(|step| ("step", u64::from(step)));
    let sizes = [("rows", work.rows), ("columns", work.cols), ("k", work.k)]
        .map(|(name, size)| (name, u64::from(size)));
    let sizes = sizes.into_iter().filter(|(_, size)| *size > 0);
    let mut described = Description::new("device", work.name, step.into_iter().chain(sizes));
    if work.flop > 0.0 {
        described.args.insert("flop".to_owned(), work.flop.into());
    }
    described
}

fn describe_messages(messages: &Messages) -> Description {
    let values = [
        ("step", u64::from(messages.step)),
        ("messages", u64::from(messages.count)),
        ("bytes", messages.bytes),
        ("sent bytes", messages.sent_bytes),
    ];
    Description::new("messages", "panels", values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_all(recording: &Recording) -> Vec<Value> {
        let rank = RecordedRank { rank: 2, host: "node07", clock: RankClock::default(), recording };
        let mut events = Vec::new();
        let write = &mut |event| {
            events.push(event);
            Ok(())
        };
        rank.write_events(write).unwrap();
        events
    }

    fn at(begin_ns: u64, end_ns: u64, kind: EventKind) -> TraceEvent {
        TraceEvent { begin_ns, end_ns, kind }
    }

    fn update(device: u32, step: u32) -> EventKind {
        EventKind::Work(DeviceWork {
            device,
            name: "update",
            step: Some(step),
            rows: 10,
            cols: 4,
            k: 5,
            flop: 400.0,
        })
    }

    fn panels(lane: u32, step: u32) -> EventKind {
        EventKind::Messages(Messages { lane, step, count: 1, bytes: 80, sent_bytes: 0 })
    }

    fn record() -> Recording {
        let span = |span| EventKind::Span(span);
        Recording {
            devices: vec!["cpu0".to_owned(), "gpu0".to_owned()],
            events: vec![
                at(10, 30, panels(0, 0)),
                at(12, 50, panels(1, 1)),
                at(40, 41, update(0, 0)),
                at(40, 60, update(1, 0)),
                at(30, 60, span(Span::Step(0))),
                at(60, 60, span(Span::Part("changing columns"))),
                at(60, 80, update(1, 1)),
                at(60, 90, span(Span::Step(1))),
                at(0, 90, span(Span::Phase("multiplying"))),
            ],
            dropped: 3,
        }
    }

    /// Lists the events of a type.
    fn list<'e>(events: &'e [Value], of: &str) -> Vec<&'e Value> {
        events.iter().filter(|event| event["ph"] == of).collect()
    }

    #[test]
    fn every_event_is_on_a_track_that_has_a_name() {
        let events = write_all(&record());
        let named: HashMap<u64, &str> = list(&events, "M")
            .iter()
            .filter(|event| event["name"] == "thread_name")
            .map(|event| (event["tid"].as_u64().unwrap(), event["args"]["name"].as_str().unwrap()))
            .collect();
        let mut names: Vec<&str> = named.values().copied().collect();
        names.sort_unstable();
        assert_eq!(names, ["cpu0", "gpu0", "messages", "messages 2", "phases and steps"]);
        assert!(events.iter().all(|event| event["pid"] == 3));
        let on_tracks = events.iter().filter(|event| event["ph"] != "C");
        assert!(on_tracks.clone().all(|event| named.contains_key(&event["tid"].as_u64().unwrap())));
        let dropped = "3 later events were dropped";
        assert_eq!(events[0]["args"]["name"], "rank 2 on node07");
        assert_eq!(events[2]["args"]["labels"], dropped);
        assert_eq!(list(&events, "i")[0]["name"], dropped);
    }

    #[test]
    fn slices_have_a_length_and_come_before_those_that_they_hold() {
        let events = write_all(&record());
        let slices = list(&events, "X");
        // All but the one that took no time.
        assert_eq!(slices.len(), record().events.len() - 1);
        let times = |slice: &Value| ["ts", "dur"].map(|key| slice[key].as_f64().unwrap());
        assert!(slices.is_sorted_by_key(|slice| times(slice)[0]));
        let names: Vec<&Value> =
            slices.iter().filter(|slice| slice["tid"] == 1).map(|slice| &slice["name"]).collect();
        assert_eq!(names, ["multiplying", "step 0", "step 1"]);
        assert_eq!(times(slices[1]), [0.01, 0.02]);
        let args = json!({"step": 0, "rows": 10, "columns": 4, "k": 5, "flop": 400.0});
        assert!(slices.iter().any(|slice| slice["args"] == args));
    }

    #[test]
    fn flows_lead_from_the_messages_of_a_step_to_each_device() {
        let mut recording = record();
        let ids = |events: &[Value], of: &str| -> Vec<u64> {
            list(events, of).iter().map(|event| event["id"].as_u64().unwrap()).collect()
        };
        let events = write_all(&recording);
        let first = ids(&events, "s");
        assert_eq!(first.len(), 3);
        assert_eq!(first.iter().collect::<BTreeSet<_>>(), ids(&events, "f").iter().collect());
        // The first step has all its panels itself.
        recording.events.remove(0);
        let events = write_all(&recording);
        assert_eq!((ids(&events, "s").len(), ids(&events, "s")), (1, ids(&events, "f")));
    }

    #[test]
    fn counters_are_speeds_and_bytes() {
        let events = write_all(&record());
        let counted = |unit: &str| -> Vec<(f64, f64)> {
            let counters = list(&events, "C").into_iter();
            let values = counters.filter_map(|event| {
                Some((event["ts"].as_f64()? * 1e3, event["args"][unit].as_f64()?))
            });
            values.collect()
        };
        let speeds =
            [(40.0, 2e10), (60.0, 0.0), (40.0, 4e11), (41.0, 0.0), (60.0, 2e10), (80.0, 0.0)];
        assert_eq!(counted("flop/s"), speeds);
        assert_eq!(counted("bytes"), [(10.0, 80.0), (12.0, 160.0), (30.0, 80.0), (50.0, 0.0)]);
    }
}
