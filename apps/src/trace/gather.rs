//! The events of all ranks, gathered in the file of the head rank.

use std::io::Write as _;

use isochron_core::Error;
use isochron_core::comm::{Comm, Message, Transfer, agree};
use isochron_core::internal::output::PartialFile;

use super::events::RecordedRank;

/// Bytes of events that are written or sent at a time.
const CHUNK_BYTES: usize = 256 << 10;

/// Takes some of the bytes of a trace.
type WriteBytes<'w> = dyn FnMut(Vec<u8>) -> Result<(), Error> + 'w;

/// Writes the events of all ranks, those of the head rank first. The head rank has the file, and keeps a chunk of another
/// rank's events at a time.
///
/// # Errors
/// Returns [`Error::Output`] on every rank if the file cannot be written; the errors of messages.
///
/// # Collective
/// All ranks.
pub fn gather_events(
    comm: &dyn Comm,
    file: Option<PartialFile>,
    mine: &RecordedRank<'_>,
) -> Result<(), Error> {
    let Some(mut file) = file else {
        encode_chunks(mine, &mut |chunk| send_chunk(comm, chunk))?;
        // The end.
        send_chunk(comm, Vec::new())?;
        return agree(comm, Ok(()));
    };
    let mut write = |chunk: Vec<u8>| {
        let written = file.write_all(&chunk);
        written.map_err(|error| Error::output(file.path(), error))
    };
    let mut outcome = write(b"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[".to_vec())
        .and_then(|()| encode_chunks(mine, &mut write));
    for rank in 1..comm.size() {
        // If the file cannot be written, the other ranks still send.
        while let Some(chunk) = receive_chunk(comm, rank)? {
            outcome = outcome.and_then(|()| write(chunk));
        }
    }
    agree(comm, outcome.and_then(|()| write(b"\n]}\n".to_vec())).and_then(|()| file.publish()))
}

/// Encodes the events of this rank in chunks, a line each; the line before the first of the head rank has no comma.
fn encode_chunks(mine: &RecordedRank<'_>, write: &mut WriteBytes<'_>) -> Result<(), Error> {
    let mut chunk = Vec::with_capacity(CHUNK_BYTES);
    let mut separator = if mine.rank == 0 { "\n" } else { ",\n" };
    mine.write_events(&mut |event| {
        chunk.extend(std::mem::replace(&mut separator, ",\n").bytes());
        chunk.extend(event.to_string().bytes());
        if chunk.len() < CHUNK_BYTES {
            return Ok(());
        }
        write(std::mem::replace(&mut chunk, Vec::with_capacity(CHUNK_BYTES)))
    })?;
    if chunk.is_empty() { Ok(()) } else { write(chunk) }
}

/// Sends a chunk to the head rank, behind its length.
fn send_chunk(comm: &dyn Comm, chunk: Vec<u8>) -> Result<(), Error> {
    let messages = [Message::plain(0, 0, 0..LENGTH_BYTES), Message::plain(0, 1, 0..chunk.len())];
    let length = (chunk.len() as u64).to_le_bytes().to_vec();
    Transfer::start(comm, vec![length, chunk], &messages, &[])?.finish().map(drop)
}

/// Receives a chunk of a rank; `None` if there is none left.
fn receive_chunk(comm: &dyn Comm, rank: usize) -> Result<Option<Vec<u8>>, Error> {
    let length = receive_bytes(comm, rank, LENGTH_BYTES)?;
    let length = length.first_chunk().copied().map(u64::from_le_bytes);
    match length.unwrap_or(0) {
        0 => Ok(None),
        length => receive_bytes(comm, rank, length as usize).map(Some),
    }
}

/// Bytes of the length of a chunk.
const LENGTH_BYTES: usize = size_of::<u64>();

fn receive_bytes(comm: &dyn Comm, rank: usize, len: usize) -> Result<Vec<u8>, Error> {
    let message = [Message::plain(rank, 0, 0..len)];
    let buffers = Transfer::start(comm, vec![vec![0; len]], &[], &message)?.finish()?;
    Ok(buffers.into_iter().next().unwrap_or_default())
}
