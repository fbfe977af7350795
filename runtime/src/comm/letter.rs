//! Messages whose lengths only their senders know, while something else is done.

use super::contract::{Comm, MAX_TAG};
use super::transfer::{Message, Transfer};
use crate::error::Error;

/// The tag of letters, which no other message has.
const TAG: u32 = MAX_TAG;

/// Bytes that tell the length of a letter.
const HEAD: usize = size_of::<u64>();

/// Sends a letter to these ranks.
///
/// # Errors
/// Returns the errors of [`Comm`].
pub fn post<'c>(
    comm: &'c dyn Comm,
    ranks: impl Iterator<Item = usize>,
    text: &[u8],
) -> Result<Transfer<'c, u8>, Error> {
    let mut buffer = bytemuck::bytes_of(&(text.len() as u64)).to_vec();
    buffer.extend_from_slice(text);
    let end = buffer.len();
    let sends: Vec<Message> = ranks
        .flat_map(|rank| [0..HEAD, HEAD..end].map(|range| Message::plain(rank, 0, range)))
        .map(|message| Message { tag: TAG, ..message })
        .collect();
    Transfer::start(comm, vec![buffer], &sends, &[])
}

/// A letter that is expected from a rank. Those of one rank arrive in the order in which it posts them.
pub struct Letter<'c> {
    comm: &'c dyn Comm,
    from: usize,
    /// What is received: the length, then the text. `None` once both are here.
    part: Option<Transfer<'c, u8>>,
    has_length: bool,
    text: Vec<u8>,
}

impl<'c> Letter<'c> {
    /// Expects a letter from another rank.
    ///
    /// # Errors
    /// Returns the errors of [`Comm`].
    pub fn expect(comm: &'c dyn Comm, from: usize) -> Result<Self, Error> {
        let part = Some(receive(comm, from, HEAD)?);
        Ok(Self { comm, from, part, has_length: false, text: Vec::new() })
    }

    /// Makes the letter progress; returns `true` once it is here.
    ///
    /// # Errors
    /// Returns the errors of [`Comm`].
    pub fn progress(&mut self) -> Result<bool, Error> {
        while let Some(mut part) = self.part.take() {
            if !part.progress()? {
                self.part = Some(part);
                return Ok(false);
            }
            let bytes = part.finish()?.swap_remove(0);
            if self.has_length {
                self.text = bytes;
            } else {
                self.has_length = true;
                let length: u64 = bytemuck::pod_read_unaligned(&bytes);
                self.part = Some(receive(self.comm, self.from, length as usize)?);
            }
        }
        Ok(true)
    }

    /// Takes the text out of a letter that is here.
    pub fn into_text(self) -> Vec<u8> {
        self.text
    }
}

fn receive(comm: &dyn Comm, from: usize, bytes: usize) -> Result<Transfer<'_, u8>, Error> {
    let message = Message { tag: TAG, ..Message::plain(from, 0, 0..bytes) };
    Transfer::start(comm, vec![vec![0; bytes]], &[], &[message])
}
