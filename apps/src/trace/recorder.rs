//! The events of this rank, kept in memory until the end of the run.

use std::cell::RefCell;
use std::time::Instant;

use isochron_core::progress::{DeviceCall, Observer, Progress};
use isochron_devices::UpdateTime;

use super::clocks::read_clock;

/// Most events that a rank keeps, about 20 MiB. Later ones are counted and dropped.
pub const MOST_EVENTS: usize = 1 << 18;

/// Records what this rank does.
pub struct Recorder {
    state: RefCell<RecorderState>,
}

/// The events of a rank, by its own clock.
#[derive(Debug, Default)]
pub struct Recording {
    /// The names of its devices.
    pub devices: Vec<String>,
    /// The events, in the order of their ends.
    pub events: Vec<TraceEvent>,
    /// Number of events that were dropped.
    pub dropped: u64,
}

/// An event that has a beginning and an end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TraceEvent {
    pub begin_ns: u64,
    pub end_ns: u64,
    pub kind: EventKind,
}

/// What took the time of an event.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum EventKind {
    /// The rank's main thread. Its spans lie within each other.
    Span(Span),
    /// A device.
    Work(DeviceWork),
    /// Messages on their way.
    Messages(Messages),
}

/// A span of the rank's main thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    /// A phase of the command, by its name.
    Phase(&'static str),
    /// The measurement of this number.
    Measurement(u32),
    /// The step of this number.
    Step(u32),
    /// A wait, a change or a sum, by its name.
    Part(&'static str),
    /// A move between ranks, with the bytes that this rank has sent.
    Move(&'static str, u64),
}

/// The work of a device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DeviceWork {
    /// Index of the device.
    pub device: u32,
    pub name: &'static str,
    /// The step that needs the messages of this step; `None` if no messages are for it.
    pub step: Option<u32>,
    pub rows: u32,
    pub cols: u32,
    /// Inner dimension; 0 if there is none.
    pub k: u32,
    /// Floating-point operations; 0 if they are not known.
    pub flop: f64,
}

/// Panels on their way between this rank and others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Messages {
    /// The track; messages that travel at one time have tracks of their own.
    pub lane: u32,
    /// The step that they are for.
    pub step: u32,
    /// Number of messages to this rank.
    pub count: u32,
    /// Bytes to this rank.
    pub bytes: u64,
    /// Bytes from this rank.
    pub sent_bytes: u64,
}

/// Shortens a number for the memory of an event. No run reaches the largest.
fn shorten(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

struct RecorderState {
    kept: Recording,
    most: usize,
    /// The spans that have begun, the outermost first.
    open: Vec<(u64, Span)>,
    /// The call of the devices that has begun.
    call: Option<(u64, DeviceCall)>,
    /// The columns of each device in that call.
    cols: Vec<usize>,
    /// The messages under way, by lane.
    under_way: Vec<Option<(u64, Messages)>>,
    /// Number of the last measurement of all nodes.
    measurement: u32,
    /// Operations of a product of two elements and its sum.
    product_flop: f64,
}

impl Recorder {
    /// Starts to record a process that began at `start`, in its first phase.
    pub fn started_at(start: Instant, phase: &'static str) -> Self {
        let begin_ns = read_clock().saturating_sub(start.elapsed().as_nanos() as u64);
        Self {
            state: RefCell::new(RecorderState {
                open: vec![(begin_ns, Span::Phase(phase))],
                ..RecorderState::with_most(MOST_EVENTS)
            }),
        }
    }

    /// Names the devices. `product_flop` are the operations of a product of two elements and its sum.
    pub fn set_devices(&self, names: impl IntoIterator<Item = String>, product_flop: f64) {
        let mut state = self.state.borrow_mut();
        state.kept.devices = names.into_iter().collect();
        state.product_flop = product_flop;
    }

    /// Ends all spans and begins a phase of the command.
    pub fn enter(&self, phase: &'static str) {
        let now_ns = read_clock();
        let mut state = self.state.borrow_mut();
        state.close_to(0, now_ns);
        state.open.push((now_ns, Span::Phase(phase)));
    }

    /// Ends all spans, and returns everything that was recorded.
    pub fn finish(&self) -> Recording {
        let mut state = self.state.borrow_mut();
        state.close_to(0, read_clock());
        std::mem::take(&mut state.kept)
    }
}

impl Observer for Recorder {
    fn observe(&self, progress: Progress<'_>) {
        self.state.borrow_mut().observe(progress, read_clock());
    }
}

impl RecorderState {
    fn with_most(most: usize) -> Self {
        Self {
            kept: Recording::default(),
            most,
            open: Vec::new(),
            call: None,
            cols: Vec::new(),
            under_way: Vec::new(),
            measurement: 0,
            product_flop: 0.0,
        }
    }

    fn observe(&mut self, progress: Progress<'_>, now_ns: u64) {
        match progress {
            Progress::Measuring { iteration } => self.measurement = iteration,
            Progress::Measured { .. } | Progress::Slowest { .. } => {}
            Progress::Calling { call, cols } => self.begin_call(call, cols, now_ns),
            Progress::Called { times } => self.end_call(times, now_ns),
            Progress::PanelsUnderWay { step, messages, bytes, sent_bytes } => {
                let of = Messages {
                    lane: 0,
                    step: shorten(step),
                    count: shorten(messages),
                    bytes: bytes as u64,
                    sent_bytes: sent_bytes as u64,
                };
                self.begin_messages(of, now_ns);
            }
            Progress::PanelsHere { step } => self.end_messages(shorten(step), now_ns),
            Progress::Multiplying { step, .. } => {
                self.close_to(1, now_ns);
                self.open.push((now_ns, Span::Step(shorten(step))));
            }
            Progress::AwaitingPanels => self.open.push((now_ns, AWAITING_PANELS)),
            Progress::Changing { moves_c } => {
                let span = if moves_c {
                    Span::Move("moving C", 0)
                } else {
                    Span::Part("changing columns")
                };
                self.open.push((now_ns, span));
            }
            Progress::Changed { bytes } => {
                if let Some((_, Span::Move(_, sent))) = self.open.last_mut() {
                    *sent = bytes;
                }
                self.close_to(self.open.len().saturating_sub(1), now_ns);
            }
            Progress::Summing => self.begin_part("summing C", now_ns),
            Progress::AwaitingRanks => self.begin_part("waiting for the other ranks", now_ns),
        }
    }

    /// Ends what is within the phase, and begins another part of it.
    fn begin_part(&mut self, name: &'static str, now_ns: u64) {
        self.close_to(1, now_ns);
        self.open.push((now_ns, Span::Part(name)));
    }

    fn begin_call(&mut self, call: DeviceCall, cols: &[usize], now_ns: u64) {
        if let Some((_, AWAITING_PANELS)) = self.open.last() {
            self.close_to(self.open.len() - 1, now_ns);
        }
        if let DeviceCall::Measure { .. } = call {
            self.open.push((now_ns, Span::Measurement(self.measurement)));
        }
        self.call = Some((now_ns, call));
        self.cols.clear();
        self.cols.extend_from_slice(cols);
    }

    /// Keeps the work of each device: from the beginning of the call, for the time that the device took. All devices begin
    /// together.
    fn end_call(&mut self, times: &[UpdateTime], now_ns: u64) {
        let Some((begin_ns, call)) = self.call.take() else {
            return;
        };
        let (name, step, rows, k) = match call {
            DeviceCall::Measure { rows, k } => ("measurement", None, rows, k),
            DeviceCall::Update { step, rows, k } => ("update", Some(shorten(step)), rows, k),
            DeviceCall::Begin => ("taking C", None, 0, 0),
            DeviceCall::Redivide => ("changing columns", None, 0, 0),
            DeviceCall::Finish => ("returning C", None, 0, 0),
        };
        let cols_of = std::mem::take(&mut self.cols);
        for (device, &cols) in cols_of.iter().enumerate() {
            let busy_s = times.get(device).map(|time| time.busy_s);
            let is_idle = step.is_none() && busy_s == Some(0.0);
            if cols == 0 || is_idle {
                continue;
            }
            let most_ns = now_ns.saturating_sub(begin_ns).max(1);
            let busy_ns = busy_s.map_or(most_ns, |busy_s| (1e9 * busy_s).round() as u64);
            let products = rows as f64 * cols as f64 * k as f64;
            let work = DeviceWork {
                device: shorten(device),
                name,
                step,
                rows: shorten(rows),
                cols: shorten(cols),
                k: shorten(k),
                flop: if step.is_some() { self.product_flop * products } else { 0.0 },
            };
            let end_ns = begin_ns + busy_ns.clamp(1, most_ns);
            self.keep(begin_ns, end_ns, EventKind::Work(work));
        }
        self.cols = cols_of;
        if let DeviceCall::Measure { .. } = call {
            self.close_to(self.open.len().saturating_sub(1), now_ns);
        }
    }

    fn begin_messages(&mut self, of: Messages, now_ns: u64) {
        let free = self.under_way.iter().position(Option::is_none);
        let lane = free.unwrap_or_else(|| {
            self.under_way.push(None);
            self.under_way.len() - 1
        });
        let lane_number = shorten(lane);
        self.under_way[lane] = Some((now_ns, Messages { lane: lane_number, ..of }));
    }

    fn end_messages(&mut self, step: u32, now_ns: u64) {
        let is_of_step = |of: &&mut Option<(u64, Messages)>| {
            of.as_ref().is_some_and(|(_, messages)| messages.step == step)
        };
        let ended = self.under_way.iter_mut().find(is_of_step);
        if let Some((begin_ns, messages)) = ended.and_then(Option::take) {
            self.keep(begin_ns, now_ns, EventKind::Messages(messages));
        }
    }

    /// Ends the spans but for the outermost `depth`.
    fn close_to(&mut self, depth: usize, now_ns: u64) {
        while self.open.len() > depth
            && let Some((begin_ns, span)) = self.open.pop()
        {
            self.keep(begin_ns, now_ns, EventKind::Span(span));
        }
    }

    /// Keeps an event if there is room. Phases always have room: there are few.
    fn keep(&mut self, begin_ns: u64, end_ns: u64, kind: EventKind) {
        let is_phase = matches!(kind, EventKind::Span(Span::Phase(_)));
        if self.kept.events.len() < self.most || is_phase {
            self.kept.events.push(TraceEvent { begin_ns, end_ns, kind });
        } else {
            self.kept.dropped += 1;
        }
    }
}

/// The wait for the panels of a step, which ends when the devices begin.
const AWAITING_PANELS: Span = Span::Part("waiting for panels");

#[cfg(test)]
mod tests {
    use super::*;

    fn took(busy_s: f64) -> UpdateTime {
        UpdateTime { busy_s, cpu_s: 0.0 }
    }

    /// Records two steps of two devices and a change between the steps. The second device has no columns.
    fn record(most: usize) -> Recording {
        let mut state = RecorderState::with_most(most);
        state.product_flop = 2.0;
        state.open.push((0, Span::Phase("multiplying")));
        let call = |step| DeviceCall::Update { step, rows: 10, k: 5 };
        let under_way =
            |step| Progress::PanelsUnderWay { step, messages: 1, bytes: 80, sent_bytes: 16 };
        for (now_ns, progress) in [
            (10, under_way(0)),
            (12, under_way(1)),
            (20, Progress::Multiplying { step: 0, steps: 2 }),
            (21, Progress::AwaitingPanels),
            (30, Progress::PanelsHere { step: 0 }),
            (31, Progress::Calling { call: call(0), cols: &[4, 0] }),
            (40, Progress::PanelsHere { step: 1 }),
            (50, Progress::Called { times: &[took(15e-9), took(0.0)] }),
            (60, Progress::Multiplying { step: 1, steps: 2 }),
            (61, Progress::Changing { moves_c: true }),
            (70, Progress::Changed { bytes: 800 }),
            (71, Progress::Calling { call: call(1), cols: &[3, 1] }),
            (80, Progress::Called { times: &[took(1.0), took(0.0)] }),
            (81, Progress::AwaitingRanks),
        ] {
            state.observe(progress, now_ns);
        }
        state.close_to(0, 90);
        state.kept
    }

    fn list_spans(recording: &Recording) -> Vec<(u64, u64, Span)> {
        let events = recording.events.iter();
        events
            .filter_map(|event| match event.kind {
                EventKind::Span(span) => Some((event.begin_ns, event.end_ns, span)),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn spans_lie_within_each_other() {
        let expected = [
            (21, 31, AWAITING_PANELS),
            (20, 60, Span::Step(0)),
            (61, 70, Span::Move("moving C", 800)),
            (60, 81, Span::Step(1)),
            (81, 90, Span::Part("waiting for the other ranks")),
            (0, 90, Span::Phase("multiplying")),
        ];
        assert_eq!(list_spans(&record(99)), expected);
    }

    #[test]
    fn a_device_works_within_its_call_for_the_time_that_it_took() {
        let recording = record(99);
        let works = recording.events.iter().filter_map(|event| match event.kind {
            EventKind::Work(work) => Some((event.begin_ns, event.end_ns, work)),
            _ => None,
        });
        let works: Vec<_> = works
            .map(|(begin, end, work)| (begin, end, work.device, work.step, work.flop))
            .collect();
        let expected =
            [(31, 46, 0, Some(0), 400.0), (71, 80, 0, Some(1), 300.0), (71, 72, 1, Some(1), 100.0)];
        assert_eq!(works, expected);
    }

    #[test]
    fn messages_that_travel_together_have_lanes_of_their_own() {
        let recording = record(99);
        let messages = recording.events.iter().filter_map(|event| match event.kind {
            EventKind::Messages(of) => Some((event.begin_ns, event.end_ns, of.lane, of.step)),
            _ => None,
        });
        assert_eq!(messages.collect::<Vec<_>>(), [(10, 30, 0, 0), (12, 40, 1, 1)]);
    }

    #[test]
    fn events_beyond_the_bound_are_counted() {
        let all = record(99);
        let some = record(4);
        assert_eq!(some.events[..4], all.events[..4]);
        assert_eq!(some.events.last(), all.events.last());
        assert_eq!(some.dropped as usize, all.events.len() - some.events.len());
        assert_eq!((some.events.len(), all.dropped), (5, 0));
    }
}
