//! The watch over silent ranks: the cause of a standstill, said on standard error, and the end of a job that stands still.
//!
//! A rank can be stopped, its host or link can vanish, and a library that it calls may never return. MPI then waits for ever.
//! So each rank of the command has a watcher, a thread. Once a second it reads what the rank [does](RankPhase), and sends it
//! to the head rank, which names the cause of a standstill, and not its victims:
//!
//! 1. a rank that gives no signs any more;
//! 2. a rank that makes no progress, and does not wait for others. A step may take as long as was predicted and earlier steps
//!    let expect. A product by a library may take as long as its size and earlier products let expect;
//! 3. all, if all wait for each other.
//!
//! The first line comes after 10 s, and again after pauses that grow. After [`WatchSettings::timeout_s`] the job ends, unless
//! the cause may be at work or a debugger is attached. A watcher that did not run itself does not count that time, so a job
//! that was suspended as a whole just goes on.
//!
//! A rank whose signs have never come is not called silent: a firewall may drop them. The head tells once which ranks it does
//! not hear. A wait of all ranks is named after six times as long, since a large message may be under way.
//!
//! Each watcher also looks after the process of the next rank of its host. It says if that dies and the system has killed a
//! process for lack of memory.
//!
//! A processor that is busy is no progress: a library may spin. Therefore all that computes, reads or writes outside of
//! libraries notes each column or piece that is done. So a rank that is
//! quiet either stands still or is within one call of foreign code, of which the size is known.
//!
//! Sessions and communicators note what they do, which costs some stores. Programs that embed the runtime have no watcher:
//! the time between two of their calls is their own.

mod activity;
mod cause;
mod channel;
mod deaths;
mod judge;
mod process;
mod pulse;
mod sign;
mod start;
mod watcher;

pub use activity::{
    LongCall, RankPhase, Wait, Within, describe_phase, enter, enter_within, expect_work,
    note_progress,
};
pub use watcher::{RankWatch, WatchSettings};

pub(crate) use activity::begin_step;
