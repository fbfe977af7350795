//! The course of updates whose panels are sent ahead, from the events of the GPU's device.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::ensure;
use serde::{Deserialize, Serialize};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

/// An update. All times but its beginning are seconds after that.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct UpdateCourse {
    /// Its beginning, in seconds after that of the first update.
    pub from_s: f64,
    /// Its arithmetic was queued.
    pub queued_s: f64,
    /// All of the next panels were in pinned memory.
    pub copied_s: f64,
    /// Its arithmetic was done.
    pub done_s: f64,
    pub pieces: Vec<PieceCourse>,
}

/// A piece of the next panels: the wait until the link has freed a slot, and then the copy into it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PieceCourse {
    pub waits_s: f64,
    pub copies_s: f64,
    /// The end of the copy, in seconds after the beginning of the update.
    pub done_s: f64,
}

/// Where the time of updates goes, in seconds of each.
#[derive(Debug, Serialize)]
pub struct CourseTimes {
    /// The host copied into pinned memory.
    copies_s: Vec<f64>,
    /// It waited for the link.
    waits_s: Vec<f64>,
    /// All was copied, and it waited for the arithmetic.
    arithmetic_s: Vec<f64>,
    /// Everything else: calls of the driver.
    calls_s: Vec<f64>,
    course: Vec<UpdateCourse>,
}

/// An event of the device.
#[derive(Debug, Clone, Copy)]
struct SeenEvent {
    name: &'static str,
    at: Instant,
    fields: EventFields,
}

#[derive(Debug, Clone, Copy, Default)]
struct EventFields {
    is_ahead: bool,
    waited_s: f64,
    copied_s: f64,
}

impl Visit for EventFields {
    fn record_bool(&mut self, field: &Field, value: bool) {
        if field.name() == "is_ahead" {
            self.is_ahead = value;
        }
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        match field.name() {
            "waited_s" => self.waited_s = value,
            "copied_s" => self.copied_s = value,
            _ => {}
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

/// Notes the events of the GPU's device from its start on.
#[derive(Debug, Clone)]
pub struct CourseRecorder {
    events: Arc<Mutex<Vec<SeenEvent>>>,
}

impl<S: Subscriber> Layer<S> for CourseRecorder {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let at = Instant::now();
        let mut fields = EventFields::default();
        event.record(&mut fields);
        let name = event.metadata().name();
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.push(SeenEvent { name, at, fields });
    }
}

impl CourseRecorder {
    /// Starts to note events of all threads.
    ///
    /// # Errors
    /// Fails if something else notes the events of this process.
    pub fn start() -> anyhow::Result<Self> {
        let recorder = Self { events: Arc::default() };
        let device = Targets::new().with_target("isochron_devices::cuda", Level::TRACE);
        tracing_subscriber::registry().with(recorder.clone().with_filter(device)).try_init()?;
        Ok(recorder)
    }

    /// Returns the updates so far that were in the middle of a job.
    ///
    /// # Errors
    /// Fails if there are none.
    pub fn finish(&self) -> anyhow::Result<CourseTimes> {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let course = list_updates(&events);
        ensure!(!course.is_empty(), "no panels were sent ahead");
        Ok(CourseTimes::of(course))
    }
}

/// Makes updates of events. Left out are the first one of a job, whose panels were not sent ahead, and the last one, which sends
/// none.
fn list_updates(events: &[SeenEvent]) -> Vec<UpdateCourse> {
    let mut updates = Vec::new();
    let mut first = None;
    let mut open: Option<(Instant, UpdateCourse)> = None;
    for SeenEvent { name, at, fields } in events.iter().copied() {
        if name == "update_begins" {
            let from_s = (at - *first.get_or_insert(at)).as_secs_f64();
            let course = UpdateCourse { from_s, ..UpdateCourse::default() };
            open = fields.is_ahead.then_some((at, course));
            continue;
        }
        let Some((from, update)) = &mut open else {
            continue;
        };
        let since_s = (at - *from).as_secs_f64();
        match name {
            "arithmetic_queued" => update.queued_s = since_s,
            "piece_copied" => update.pieces.push(PieceCourse {
                waits_s: fields.waited_s,
                copies_s: fields.copied_s,
                done_s: since_s,
            }),
            "panels_copied" => update.copied_s = since_s,
            "update_done" => {
                update.done_s = since_s;
                let done = open.take().map(|(_, update)| update);
                updates.extend(done.filter(|update| !update.pieces.is_empty()));
            }
            _ => {}
        }
    }
    updates
}

impl CourseTimes {
    fn of(course: Vec<UpdateCourse>) -> Self {
        let list = |time: fn(&UpdateCourse) -> f64| course.iter().map(time).collect();
        Self {
            copies_s: list(UpdateCourse::copies_s),
            waits_s: list(UpdateCourse::waits_s),
            arithmetic_s: list(|update| update.done_s - update.copied_s),
            calls_s: list(|update| update.copied_s - update.copies_s() - update.waits_s()),
            course,
        }
    }
}

impl UpdateCourse {
    fn copies_s(&self) -> f64 {
        self.pieces.iter().map(|piece| piece.copies_s).sum()
    }

    fn waits_s(&self) -> f64 {
        self.pieces.iter().map(|piece| piece.waits_s).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn updates_are_made_of_their_events() {
        let begin = Instant::now();
        let event = |name, at_ms, fields| SeenEvent {
            name,
            at: begin + Duration::from_millis(at_ms),
            fields,
        };
        let none = EventFields::default();
        let ahead = EventFields { is_ahead: true, ..none };
        let piece = EventFields { waited_s: 0.001, copied_s: 0.002, ..none };
        let events = [
            event("piece_copied", 0, piece),
            event("update_begins", 1, none),
            event("piece_copied", 4, piece),
            event("update_done", 5, none),
            event("update_begins", 10, ahead),
            event("arithmetic_queued", 11, none),
            event("piece_copied", 14, piece),
            event("panels_copied", 15, none),
            event("update_done", 18, none),
            event("update_begins", 20, ahead),
        ];
        let found = list_updates(&events);
        assert_eq!(found.len(), 1);
        let update = &found[0];
        assert_eq!((update.from_s, update.queued_s, update.done_s), (0.009, 0.001, 0.008));
        assert_eq!(update.pieces[0].done_s, 0.004);
        let times = CourseTimes::of(found);
        assert_eq!((times.copies_s[0], times.waits_s[0]), (0.002, 0.001));
        assert!((times.arithmetic_s[0] - 0.003).abs() < 1e-9);
        assert!((times.calls_s[0] - 0.002).abs() < 1e-9);
    }
}
