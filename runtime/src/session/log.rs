//! The log of a session: its events as lines, for a function of the program.

use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::dispatcher::{DefaultGuard, set_default};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Dispatch, Event, Level, Metadata, Subscriber};

/// Takes the events of the calling thread while a guard lives.
#[derive(Clone)]
pub(super) struct LineLog(Dispatch);

impl LineLog {
    /// Passes events down to `level` to `write`.
    pub(super) fn new(level: Level, write: impl Fn(Level, &str) + Send + Sync + 'static) -> Self {
        Self(Dispatch::new(LineSubscriber { level, write, spans: AtomicU64::new(0) }))
    }

    /// Takes the events of this thread until the guard is dropped.
    pub(super) fn begin(&self) -> DefaultGuard {
        set_default(&self.0)
    }
}

/// Formats each event in one line. Spans are not shown.
struct LineSubscriber<W> {
    level: Level,
    write: W,
    /// Number of spans so far: each needs a number of its own.
    spans: AtomicU64,
}

impl<W: Fn(Level, &str) + 'static> Subscriber for LineSubscriber<W> {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.level && metadata.target().starts_with("isochron")
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::from_level(self.level))
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1 + self.spans.fetch_add(1, Ordering::Relaxed))
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = EventLine::default();
        event.record(&mut line);
        (self.write)(*event.metadata().level(), &line.finish());
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

/// The message of an event, and its other fields as `name=value`.
#[derive(Default)]
struct EventLine {
    message: String,
    fields: String,
}

impl EventLine {
    fn finish(self) -> String {
        format!("{}{}", self.message, self.fields).trim().to_owned()
    }
}

impl Visit for EventLine {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn events_of_this_thread_are_lines_while_the_log_is_begun() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&lines);
        let log = LineLog::new(Level::INFO, move |level, line| {
            kept.lock().unwrap().push(format!("{level} {line}"));
        });
        tracing::warn!("before");
        let guard = log.begin();
        let _span = tracing::info_span!("discover", rank = 3).entered();
        tracing::info!(host = "there", cores = 4, "found {} devices", 2);
        tracing::debug!("too much");
        tracing::error!(target: "elsewhere", "another crate's");
        drop(guard);
        tracing::warn!("after");
        assert_eq!(*lines.lock().unwrap(), ["INFO found 2 devices host=there cores=4"]);
    }
}
