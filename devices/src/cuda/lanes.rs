//! The streams of a device, and the events between them.

use super::check::CallResult;
use super::context::Context;
use super::plan::SLOTS;
use super::stream::{Event, Stream};
use std::sync::Arc;

/// The streams and the events between them. There are four streams: tiles of C are uploaded, downloaded and computed at
/// the same time, and panels must not queue behind tiles.
#[derive(Debug)]
pub struct Lanes {
    pub compute: Stream,
    pub panels: Stream,
    pub upload: Stream,
    pub download: Stream,
    /// The last copy has arrived.
    pub copied: Event,
    /// The arithmetic of a tile is done.
    pub computed: [Event; SLOTS],
    /// A panel is no longer needed.
    pub panel_free: [Event; SLOTS],
}

impl Lanes {
    /// Makes streams and events in a bound context.
    pub fn new(context: &Arc<Context>) -> CallResult<Self> {
        Ok(Self {
            compute: Stream::new(context)?,
            panels: Stream::new(context)?,
            upload: Stream::new(context)?,
            download: Stream::new(context)?,
            copied: Event::new(context)?,
            computed: [Event::new(context)?, Event::new(context)?],
            panel_free: [Event::new(context)?, Event::new(context)?],
        })
    }

    /// Waits until no work is under way, on every stream even if another one fails.
    pub fn settle(&self) -> CallResult<()> {
        [&self.compute, &self.panels, &self.upload, &self.download]
            .map(Stream::synchronize)
            .into_iter()
            .collect()
    }
}
