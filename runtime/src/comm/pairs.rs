//! Messages that ranks exchange in pairs, to be timed.

use std::time::Instant;

use isochron_hierarchy::network::{MessageTimes, PairTimes};
use isochron_hierarchy::times::find_median;

use super::contract::Comm;
use super::transfer::{Message, Transfer};
use crate::error::Error;

/// Bytes of the short messages, in which the latency counts.
pub const SHORT_BYTES: usize = 8;

/// Bounds of the bytes of long messages, in which the bandwidth counts.
const LONG_BYTES: [usize; 2] = [64 << 10, 4 << 20];

/// Most seconds of a long message.
const LONG_S: f64 = 0.1;

/// Most seconds of the repetitions: a pair that is far slower than others stops earlier.
const REPEATED_S: f64 = 2.0;

/// Repetitions of a message, of which the median counts.
const REPETITIONS: usize = 5;

/// Bytes of a message, and the seconds of its repetitions.
pub type LengthTimes = (usize, Vec<f64>);

/// Lengths of messages that tell the time as a function of them.
const LENGTHS: usize = 12;

/// Chooses the bytes of long messages: the most, up to 4 MiB, that take up to 0.1 s in these pairs of ranks at once.
///
/// # Errors
/// Returns the errors of [`Comm`].
///
/// # Collective
/// All ranks, with the same pairs.
pub fn choose_long_bytes(comm: &dyn Comm, pairs: &[(usize, usize)]) -> Result<usize, Error> {
    let [least, most] = LONG_BYTES;
    let mut bytes = least;
    while bytes < most {
        let mine_s = time_partner(comm, pairs, bytes, 2)?;
        // The faster of two: a message that was lost in part says nothing.
        let longest_s = comm.largest(
            mine_s.map_or(0.0, |times_s| times_s.into_iter().fold(f64::INFINITY, f64::min)),
        )?;
        if 2.0 * longest_s > LONG_S {
            break;
        }
        bytes *= 2;
    }
    Ok(bytes)
}

/// Times short messages and long ones of these bytes between ranks in pairs, all pairs at once. Other ranks take part without a
/// partner. Returns the times of each pair, on every rank.
///
/// A message goes one way and is answered by a short one: the other way is timed next. Both ways at once would measure how TCP
/// shares a link between messages and their acknowledgements.
///
/// # Errors
/// Returns the errors of [`Comm`].
///
/// # Collective
/// All ranks, with the same pairs and bytes.
pub fn time_pairs(
    comm: &dyn Comm,
    pairs: &[(usize, usize)],
    long_bytes: usize,
) -> Result<Vec<PairTimes>, Error> {
    let [short_s, long_s] = [SHORT_BYTES, long_bytes].map(|bytes| {
        let times_s = time_partner(comm, pairs, bytes, REPETITIONS)?;
        Ok::<_, Error>(times_s.map(|times_s| find_median(&times_s)))
    });
    let (short_s, long_s) = (short_s?.map(|both_s| both_s / 2.0), long_s?);
    let sent =
        short_s.zip(long_s).map(|(short_s, both_s)| [short_s, (both_s - short_s).max(short_s)]);
    let sent = comm.gather(&sent)?;
    let from = |rank: usize| {
        let [short_s, long_s] = sent[rank].unwrap_or_default();
        MessageTimes { short_s, long_s }
    };
    Ok(pairs.iter().map(|&(a, b)| [from(a), from(b)]).collect())
}

/// Times single messages of growing lengths, up to these bytes, from one rank to another while no other pair exchanges any. Returns the
/// bytes of each length and the seconds of its repetitions, on every rank.
///
/// # Errors
/// Returns the errors of [`Comm`].
///
/// # Collective
/// All ranks, with the same pair and bytes.
pub fn time_lengths(
    comm: &dyn Comm,
    pair: (usize, usize),
    long_bytes: usize,
) -> Result<Vec<LengthTimes>, Error> {
    let growth = (long_bytes as f64 / SHORT_BYTES as f64).powf(1.0 / (LENGTHS - 1) as f64);
    let lengths =
        (0..LENGTHS).map(|step| (SHORT_BYTES as f64 * growth.powi(step as i32)).round() as usize);
    let mut found: Vec<LengthTimes> = Vec::new();
    for bytes in lengths {
        let both_s = time_partner(comm, &[pair], bytes, 2 * REPETITIONS)?;
        found.push((bytes, comm.share(pair.0, both_s)?));
    }
    let answer_s = found.first().map_or(0.0, |(_, times_s)| find_median(times_s) / 2.0);
    for both_s in found.iter_mut().flat_map(|(_, times_s)| times_s) {
        *both_s = (*both_s - answer_s).max(0.5 * *both_s);
    }
    Ok(found)
}

/// Times messages to this rank's partner, and short answers. Returns the seconds of both by repetition; `None` without a partner.
fn time_partner(
    comm: &dyn Comm,
    pairs: &[(usize, usize)],
    bytes: usize,
    repetitions: usize,
) -> Result<Option<Vec<f64>>, Error> {
    let rank = comm.rank();
    let partner = pairs.iter().find_map(|&(a, b)| match rank {
        _ if a == rank => Some((b, true)),
        _ if b == rank => Some((a, false)),
        _ => None,
    });
    comm.barrier()?;
    let Some((partner, is_first)) = partner else {
        return Ok(None);
    };
    // Not zeros, so that the pages exist before the first message: making them would be timed with it.
    let mut buffers = vec![vec![1_u8; bytes], vec![1; SHORT_BYTES]];
    let [message, answer] = [bytes, SHORT_BYTES].map(|bytes| 0..bytes);
    let [message, answer] =
        [Message::plain(partner, 0, message), Message::plain(partner, 1, answer)].map(|it| [it]);
    let mut times_s = Vec::new();
    for is_sender in [is_first, !is_first] {
        let begun = Instant::now();
        for repetition in 0..=repetitions {
            let start = Instant::now();
            let (first, last) = if is_sender { (&message, &answer) } else { (&answer, &message) };
            // The message tells whether it is the last one.
            if is_sender {
                let is_last = repetition > 0 && begun.elapsed().as_secs_f64() > REPEATED_S;
                buffers[0][0] = u8::from(!is_last);
                buffers = exchange(Transfer::start(comm, buffers, first, last)?)?;
                times_s.push(start.elapsed().as_secs_f64());
            } else {
                buffers = exchange(Transfer::start(comm, buffers, &[], last)?)?;
                buffers = exchange(Transfer::start(comm, buffers, first, &[])?)?;
            }
            if buffers[0][0] == 0 {
                break;
            }
        }
    }
    // The first one finds a link that has rested, and memory that the library has not seen.
    Ok(Some(times_s.split_off(1)))
}

/// Waits for messages. No rank sleeps meanwhile: waking up takes longer than a message.
fn exchange(mut transfer: Transfer<'_, u8>) -> Result<Vec<Vec<u8>>, Error> {
    while !transfer.progress()? {
        std::thread::yield_now();
    }
    transfer.finish()
}
