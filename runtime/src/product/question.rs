//! A question to the director of the head rank, while it travels.

use crate::comm::{Comm, Letter, Transfer, post};
use crate::error::Error;

/// The ranks' logs on their way to the head rank, and its answer on the way back.
pub(super) struct Question<'c> {
    /// This rank's log.
    log: Vec<u8>,
    /// The log as it is sent; `None` on the head rank.
    _posted: Option<Transfer<'c, u8>>,
    /// The logs of the other ranks, on the head rank; the answer, on the others.
    awaited: Vec<Letter<'c>>,
}

impl<'c> Question<'c> {
    /// Posts this rank's log.
    ///
    /// # Errors
    /// Returns the errors of [`Comm`].
    pub(super) fn ask(comm: &'c dyn Comm, log: Vec<u8>) -> Result<Self, Error> {
        let is_head = comm.rank() == 0;
        let posted = if is_head { None } else { Some(post(comm, 0..1, &log)?) };
        let from = if is_head { 1..comm.size() } else { 0..1 };
        let awaited = from.map(|rank| Letter::expect(comm, rank)).collect::<Result<_, _>>()?;
        Ok(Self { log, _posted: posted, awaited })
    }

    /// Makes it progress; returns `true` once all logs are here on the head rank, and the answer on the others.
    ///
    /// # Errors
    /// Returns the errors of [`Comm`].
    pub(super) fn progress(&mut self) -> Result<bool, Error> {
        let mut are_here = true;
        for letter in &mut self.awaited {
            are_here &= letter.progress()?;
        }
        Ok(are_here)
    }

    /// Returns the logs by rank, on the head rank.
    pub(super) fn logs(&self) -> Vec<&[u8]> {
        let others = self.awaited.iter().map(Letter::text);
        std::iter::once(&*self.log).chain(others).collect()
    }

    /// Returns the answer, on the other ranks.
    pub(super) fn answer(&self) -> &[u8] {
        self.awaited.first().map_or(&[], Letter::text)
    }
}
