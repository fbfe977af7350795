//! The packets of a rank: its tracks, and its events as slices, flows and counters.

use std::collections::{HashMap, HashSet};

use isochron_core::Error;

use super::clocks::RankClock;
use super::messages::{
    ChildOrdering, CounterDescriptor, CounterUnit, DebugAnnotation, EventType, ProcessDescriptor,
    TracePacket, TrackDescriptor, TrackEvent,
};
use super::recorder::{DeviceWork, EventKind, Messages, Recording, Span, TraceEvent};

/// A rank with everything that it has recorded.
pub struct RecordedRank<'r> {
    pub rank: usize,
    pub host: &'r str,
    pub clock: RankClock,
    pub recording: &'r Recording,
}

/// Takes a packet.
pub type WritePacket<'w> = dyn FnMut(TracePacket) -> Result<(), Error> + 'w;

/// A track of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Track {
    /// The process, which holds the others.
    Process,
    /// The main thread.
    Rank,
    Device(u32),
    /// The speed of a device.
    Speed(u32),
    /// Messages that travel one after another.
    Lane(u32),
    UnderWay,
}

/// One end of an event.
#[derive(Debug, Clone, Copy)]
struct TraceMark<'r> {
    at_ns: u64,
    is_begin: bool,
    /// The time of the other end.
    other_ns: u64,
    event: &'r TraceEvent,
}

impl TraceMark<'_> {
    /// Returns the key by which marks are sorted: slices end before others begin, the inner ones first, and begin with the
    /// outer ones.
    fn key(&self) -> (u64, bool, u64) {
        (self.at_ns, self.is_begin, u64::MAX - self.other_ns)
    }
}

impl RecordedRank<'_> {
    /// Writes all packets, in the order of their times behind the descriptions of the tracks.
    ///
    /// # Errors
    /// Returns the errors of `write`.
    pub fn write_packets(&self, write: &mut WritePacket<'_>) -> Result<(), Error> {
        for (place, track) in (0..).zip(self.list_tracks()) {
            write(TracePacket {
                track_descriptor: Some(self.describe_track(track, place)),
                ..self.make_packet(None)
            })?;
        }
        let marks = self.list_marks();
        let flows = Flows::of(&marks);
        let mut under_way = 0;
        for mark in &marks {
            write(self.make_event(mark.at_ns, self.make_slice(mark, &flows)))?;
            let counter = match mark.event.kind {
                EventKind::Work(work) if work.flop > 0.0 => {
                    let busy_ns = mark.at_ns.abs_diff(mark.other_ns);
                    let speed = if mark.is_begin { 1e9 * work.flop / busy_ns as f64 } else { 0.0 };
                    TrackEvent {
                        double_counter_value: Some(speed),
                        ..self.make_track_event(Track::Speed(work.device), EventType::Counter)
                    }
                }
                EventKind::Messages(messages) => {
                    let bytes = messages.bytes.cast_signed();
                    under_way += if mark.is_begin { bytes } else { -bytes };
                    TrackEvent {
                        counter_value: Some(under_way),
                        ..self.make_track_event(Track::UnderWay, EventType::Counter)
                    }
                }
                EventKind::Work(_) | EventKind::Span(_) => continue,
            };
            write(self.make_event(mark.at_ns, counter))?;
        }
        match (marks.last(), self.describe_dropped()) {
            (Some(last), Some(dropped)) => {
                let event = TrackEvent {
                    name: Some(dropped),
                    ..self.make_track_event(Track::Rank, EventType::Instant)
                };
                write(self.make_event(last.at_ns, event))
            }
            _ => Ok(()),
        }
    }

    /// Says how many events are missing.
    fn describe_dropped(&self) -> Option<String> {
        let dropped = self.recording.dropped;
        (dropped > 0).then(|| format!("{dropped} later events were dropped"))
    }

    /// Lists the tracks, each behind the one that holds it.
    fn list_tracks(&self) -> Vec<Track> {
        let events = &self.recording.events;
        let with_speed: HashSet<u32> = events
            .iter()
            .filter_map(|event| match event.kind {
                EventKind::Work(work) if work.flop > 0.0 => Some(work.device),
                _ => None,
            })
            .collect();
        let lanes = events
            .iter()
            .filter_map(|event| match event.kind {
                EventKind::Messages(messages) => Some(messages.lane + 1),
                _ => None,
            })
            .max();
        let mut tracks = vec![Track::Process, Track::Rank];
        for device in 0..self.recording.devices.len() as u32 {
            tracks.push(Track::Device(device));
            tracks.extend(with_speed.contains(&device).then_some(Track::Speed(device)));
        }
        tracks.extend((0..lanes.unwrap_or(0)).map(Track::Lane));
        tracks.extend(lanes.map(|_| Track::UnderWay));
        tracks
    }

    /// Returns the number of a track, which no other one of any rank has.
    fn number_track(&self, track: Track) -> u64 {
        let (kind, index) = match track {
            Track::Process => (0, 0),
            Track::Rank => (1, 0),
            Track::Device(device) => (2, device),
            Track::Speed(device) => (3, device),
            Track::Lane(lane) => (4, lane),
            Track::UnderWay => (5, 0),
        };
        ((self.rank as u64 + 1) << 36) | (kind << 32) | u64::from(index)
    }

    /// Describes a track, which is shown in this place within its process.
    fn describe_track(&self, track: Track, place: i32) -> TrackDescriptor {
        let name_device = |device: u32| self.recording.devices[device as usize].clone();
        let name = match track {
            Track::Process => format!("rank {} on {}", self.rank, self.host),
            Track::Rank => "phases and steps".to_owned(),
            Track::Device(device) => name_device(device),
            Track::Speed(device) => format!("speed of {}", name_device(device)),
            Track::Lane(0) => "messages".to_owned(),
            Track::Lane(lane) => format!("messages {}", lane + 1),
            Track::UnderWay => "bytes under way".to_owned(),
        };
        let counter = match track {
            Track::Speed(_) => Some(CounterDescriptor {
                unit_name: Some("flop/s".to_owned()),
                ..CounterDescriptor::default()
            }),
            Track::UnderWay => Some(CounterDescriptor {
                unit: Some(CounterUnit::SizeBytes.into()),
                ..CounterDescriptor::default()
            }),
            _ => None,
        };
        let described = TrackDescriptor {
            uuid: Some(self.number_track(track)),
            name: Some(name.clone()),
            counter,
            ..TrackDescriptor::default()
        };
        if track == Track::Process {
            TrackDescriptor {
                process: Some(self.describe_process(name)),
                child_ordering: Some(ChildOrdering::Explicit.into()),
                ..described
            }
        } else {
            TrackDescriptor {
                parent_uuid: Some(self.number_track(Track::Process)),
                sibling_order_rank: Some(place),
                ..described
            }
        }
    }

    fn describe_process(&self, name: String) -> ProcessDescriptor {
        let error_ns = self.clock.error_ns();
        let clock = (error_ns > 0).then(|| {
            let error_us = error_ns as f64 / 1e3;
            format!("its clock is compared to within {error_us:.1} µs")
        });
        ProcessDescriptor {
            // Processes of two hosts may have the same number.
            pid: Some(self.rank as i32 + 1),
            process_name: Some(name),
            process_labels: clock.into_iter().chain(self.describe_dropped()).collect(),
        }
    }

    /// Lists the ends of all events in the order of time, by the clock of the head rank's host.
    fn list_marks(&self) -> Vec<TraceMark<'_>> {
        let mut marks = Vec::with_capacity(2 * self.recording.events.len());
        // Of two spans with the same times, the outer one ended later.
        for event in self.recording.events.iter().rev() {
            let [begin_ns, end_ns] =
                [event.begin_ns, event.end_ns].map(|own_ns| self.clock.to_head_ns(own_ns));
            // A slice has a length, whatever the clocks' resolution.
            if begin_ns == end_ns {
                continue;
            }
            for (at_ns, other_ns, is_begin) in [(begin_ns, end_ns, true), (end_ns, begin_ns, false)]
            {
                marks.push(TraceMark { at_ns, is_begin, other_ns, event });
            }
        }
        marks.sort_by_key(TraceMark::key);
        marks
    }

    fn make_packet(&self, timestamp: Option<u64>) -> TracePacket {
        TracePacket {
            timestamp,
            trusted_packet_sequence_id: Some(self.rank as u32 + 1),
            ..TracePacket::default()
        }
    }

    fn make_event(&self, at_ns: u64, event: TrackEvent) -> TracePacket {
        TracePacket { track_event: Some(event), ..self.make_packet(Some(at_ns)) }
    }

    fn make_track_event(&self, track: Track, of: EventType) -> TrackEvent {
        TrackEvent {
            track_uuid: Some(self.number_track(track)),
            r#type: Some(of.into()),
            ..TrackEvent::default()
        }
    }

    /// Makes the beginning or the end of a slice.
    fn make_slice(&self, mark: &TraceMark<'_>, flows: &Flows) -> TrackEvent {
        let track = match mark.event.kind {
            EventKind::Span(_) => Track::Rank,
            EventKind::Work(work) => Track::Device(work.device),
            EventKind::Messages(messages) => Track::Lane(messages.lane),
        };
        if !mark.is_begin {
            return self.make_track_event(track, EventType::SliceEnd);
        }
        let event = self.make_track_event(track, EventType::SliceBegin);
        match mark.event.kind {
            EventKind::Span(span) => describe_span(span, event),
            EventKind::Work(work) => TrackEvent {
                terminating_flow_ids: flows.find_end(self.rank, &work).into_iter().collect(),
                ..describe_work(&work, event)
            },
            EventKind::Messages(messages) => TrackEvent {
                flow_ids: flows.find_begins(self.rank, &messages),
                ..describe_messages(&messages, event)
            },
        }
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
    fn of(marks: &[TraceMark<'_>]) -> Self {
        let (mut brought, mut workers) = (HashSet::new(), HashMap::<u32, Vec<u32>>::new());
        for mark in marks.iter().filter(|mark| mark.is_begin) {
            match mark.event.kind {
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

fn describe_span(span: Span, event: TrackEvent) -> TrackEvent {
    let (category, name, bytes) = match span {
        Span::Phase(name) => ("phase", name.to_owned(), None),
        Span::Measurement(number) => ("measurement", format!("measurement {number}"), None),
        Span::Step(number) => ("step", format!("step {number}"), None),
        Span::Part(name) => ("part", name.to_owned(), None),
        Span::Move(name, bytes) => ("part", name.to_owned(), Some(("sent bytes", bytes))),
    };
    name_slice(event, category, name, bytes)
}

fn describe_work(work: &DeviceWork, event: TrackEvent) -> TrackEvent {
    let step = work.step.map(|step| ("step", u64::from(step)));
    let sizes = [("rows", work.rows), ("columns", work.cols), ("k", work.k)]
        .map(|(name, size)| (name, u64::from(size)));
    let sizes = sizes.into_iter().filter(|(_, size)| *size > 0);
    let mut event =
        name_slice(event, "device", work.name.to_owned(), step.into_iter().chain(sizes));
    if work.flop > 0.0 {
        event.debug_annotations.push(DebugAnnotation {
            name: Some("flop".to_owned()),
            double_value: Some(work.flop),
            ..DebugAnnotation::default()
        });
    }
    event
}

fn describe_messages(messages: &Messages, event: TrackEvent) -> TrackEvent {
    let values = [
        ("step", u64::from(messages.step)),
        ("messages", u64::from(messages.count)),
        ("bytes", messages.bytes),
        ("sent bytes", messages.sent_bytes),
    ];
    name_slice(event, "messages", "panels".to_owned(), values)
}

/// Names a slice, and gives it values.
fn name_slice(
    event: TrackEvent,
    category: &str,
    name: String,
    values: impl IntoIterator<Item = (&'static str, u64)>,
) -> TrackEvent {
    let values = values.into_iter().map(|(name, value)| DebugAnnotation {
        name: Some(name.to_owned()),
        uint_value: Some(value),
        ..DebugAnnotation::default()
    });
    TrackEvent {
        categories: vec![category.to_owned()],
        name: Some(name),
        debug_annotations: values.collect(),
        ..event
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::super::messages::PACKET_FIELD;
    use super::*;

    /// Returns the packets of a rank as they are in a file.
    fn write_all(recording: &Recording) -> Vec<TracePacket> {
        let rank = RecordedRank { rank: 2, host: "node07", clock: RankClock::default(), recording };
        let mut packets = Vec::new();
        let write = &mut |packet: TracePacket| {
            let mut bytes = Vec::new();
            prost::encoding::message::encode(PACKET_FIELD, &packet, &mut bytes);
            // Behind the tag of the field and the length.
            let read = TracePacket::decode_length_delimited(&bytes[1..]).unwrap();
            assert_eq!(read, packet);
            packets.push(read);
            Ok(())
        };
        rank.write_packets(write).unwrap();
        packets
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

    fn list_events(packets: &[TracePacket]) -> Vec<(u64, &TrackEvent)> {
        let events = packets.iter();
        events
            .filter_map(|packet| Some((packet.timestamp?, packet.track_event.as_ref()?)))
            .collect()
    }

    #[test]
    fn every_event_is_on_a_track_that_has_a_name() {
        let packets = write_all(&record());
        let described: Vec<&TrackDescriptor> =
            packets.iter().filter_map(|packet| packet.track_descriptor.as_ref()).collect();
        let names: Vec<&str> = described.iter().map(|track| track.name()).collect();
        let expected = [
            "rank 2 on node07",
            "phases and steps",
            "cpu0",
            "speed of cpu0",
            "gpu0",
            "speed of gpu0",
            "messages",
            "messages 2",
            "bytes under way",
        ];
        assert_eq!(names, expected);
        let numbers: HashSet<u64> = described.iter().map(|track| track.uuid()).collect();
        assert_eq!(numbers.len(), names.len());
        let events = list_events(&packets);
        assert!(events.iter().all(|(_, event)| numbers.contains(&event.track_uuid())));
        let process = described[0].process.as_ref().unwrap();
        assert_eq!(process.process_labels, ["3 later events were dropped"]);
        let last = events.last().unwrap().1;
        assert_eq!(
            (last.r#type(), last.name()),
            (EventType::Instant, "3 later events were dropped")
        );
    }

    #[test]
    fn slices_have_a_length_and_lie_within_each_other() {
        let packets = write_all(&record());
        let events = list_events(&packets);
        assert!(events.is_sorted_by_key(|(at_ns, _)| *at_ns));
        let mut open = HashMap::<u64, Vec<u64>>::new();
        let mut count = 0;
        for (at_ns, event) in events {
            let begun = open.entry(event.track_uuid()).or_default();
            match event.r#type() {
                EventType::SliceBegin => {
                    begun.push(at_ns);
                    count += 1;
                    let depth = if event.categories == ["step"] { 2 } else { 1 };
                    assert_eq!(begun.len(), depth, "{event:?}");
                }
                EventType::SliceEnd => assert!(begun.pop().unwrap() < at_ns),
                _ => {}
            }
        }
        assert!(open.values().all(Vec::is_empty));
        // All but the one that took no time.
        assert_eq!(count, record().events.len() - 1);
    }

    #[test]
    fn flows_lead_from_the_messages_of_a_step_to_each_device() {
        let mut recording = record();
        // The first step has all its panels itself.
        recording.events.remove(0);
        let packets = write_all(&recording);
        let events = list_events(&packets);
        let begins: Vec<u64> =
            (events.iter()).flat_map(|(_, event)| event.flow_ids.clone()).collect();
        let ends: Vec<u64> =
            (events.iter()).flat_map(|(_, event)| event.terminating_flow_ids.clone()).collect();
        assert_eq!((begins.len(), &begins), (1, &ends));
        let packets = write_all(&record());
        let first = list_events(&packets).into_iter().find(|(_, event)| event.name() == "panels");
        assert_eq!(first.unwrap().1.flow_ids.len(), 2);
    }

    #[test]
    fn counters_are_speeds_and_bytes() {
        let packets = write_all(&record());
        let events = list_events(&packets);
        let speeds: Vec<(u64, f64)> = (events.iter())
            .filter_map(|(at_ns, event)| Some((*at_ns, event.double_counter_value?)))
            .collect();
        let expected = [(40, 2e10), (40, 4e11), (41, 0.0), (60, 0.0), (60, 2e10), (80, 0.0)];
        assert_eq!(speeds, expected);
        let bytes: Vec<(u64, i64)> = (events.iter())
            .filter_map(|(at_ns, event)| Some((*at_ns, event.counter_value?)))
            .collect();
        assert_eq!(bytes, [(10, 80), (12, 160), (30, 80), (50, 0)]);
    }
}
