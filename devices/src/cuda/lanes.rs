//! The streams of a device, and the events between them.

use super::check::CallResult;
use super::context::Context;
use super::plan::SLOTS;
use super::stream::{Event, Stream};
use std::sync::Arc;

/// The streams, and what they tell each other. Four of them: the tiles of C come, go and are computed at the same time,
/// and panels must not queue behind tiles.
#[derive(Debug)]
pub struct Lanes {
    pub compute: Stream,
    pub panels: Stream,
    pub upload: Stream,
    pub download: Stream,
    /// What was copied last is there.
    pub copied: Event,
    /// The arithmetic of a tile is done.
    pub computed: [Event; SLOTS],
    /// A panel is no longer needed.
    pub panel_free: [Event; SLOTS],
}

impl Lanes {
    /// Streams and events in a bound context.
    pub fn new(context: &Arc<Context>) -> CallResult<Self> {
        let (stream, event) = (|| Stream::new(context), || Event::new(context));
        Ok(Self {
            compute: stream()?,
            panels: stream()?,
            upload: stream()?,
            download: stream()?,
            copied: event()?,
            computed: [event()?, event()?],
            panel_free: [event()?, event()?],
        })
    }

    /// Waits until nothing is under way. Every stream is waited for, whatever the others say.
    pub fn settle(&self) -> CallResult<()> {
        let streams = [&self.compute, &self.panels, &self.upload, &self.download];
        let outcomes = streams.map(Stream::synchronize);
        outcomes.into_iter().collect()
    }
}
