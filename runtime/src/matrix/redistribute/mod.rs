//! Redistribution: a matrix from where its elements lie to where they are wanted.
//!
//! A [`Spread`] says which rank holds which elements: those of a [`Spread`], all on
//! one rank, ScaLAPACK's [`BlockCyclic`] on a [`ProcessGrid`], or a submatrix of any of them. [`redistribute`] moves
//! the elements between any two of them, in the callers' own memory, row- or column-major, transposed on the way where
//! that is wanted. Every element that its holder does not need itself travels once, straight to the rank that needs it
//! ([`volume`]); what a rank has and needs itself is copied without a message. Nobody holds more than its own parts and
//! a bounded amount of messages.
//!
//! A program whose matrices are block-cyclic multiplies them like this:
//!
//! ```
//! use isochron::comm::{Comm, LocalComm};
//! use isochron::matrix::redistribute::RedistributeConfig;
//! use isochron::matrix::{BlockCyclic, Matrix, ProcessGrid, Spread, Stored, StoredMut};
//! use isochron::multiply::{Problem, Scalars};
//! use isochron::session::{Session, SessionConfig};
//! use isochron_hierarchy::balance::BalanceConfig;
//!
//! let comm = LocalComm::new(); // or `MpiComm::adopt` of the program's own communicator
//! let (m, n, k) = (60, 50, 40);
//! // DTYPE_, CTXT_, M_, N_, MB_, NB_, RSRC_, CSRC_, LLD_, and the grid as of `blacs_gridinit`.
//! let grid = ProcessGrid::by_rows(1, comm.size());
//! let spread = |descriptor: [i32; 9]| {
//!     let matrix = BlockCyclic::from_descriptor(&descriptor)?;
//!     Spread::block_cyclic(&matrix, grid, comm.size())
//! };
//! let a_spread = spread([1, 0, 60, 40, 8, 8, 0, 0, 60])?;
//! let b_spread = spread([1, 0, 40, 50, 8, 8, 0, 0, 40])?;
//! let c_spread = spread([1, 0, 60, 50, 8, 8, 0, 0, 60])?;
//! let local = |spread: &Spread| spread.local_shape(comm.rank());
//! let a = vec![1.0; local(&a_spread).0 * local(&a_spread).1]; // the program's own arrays
//! let b = vec![2.0; local(&b_spread).0 * local(&b_spread).1];
//! let mut c = vec![f64::NAN; local(&c_spread).0 * local(&c_spread).1];
//!
//! let mut session = Session::new(&comm, &SessionConfig::default())?;
//! let plan = session.plan(Problem::new(m, n, k, 16)?, &BalanceConfig::default())?;
//! let config = RedistributeConfig::default();
//! let a = Stored::by_columns(&a, local(&a_spread).0);
//! let b = Stored::by_columns(&b, local(&b_spread).0);
//! let (a, _) = Matrix::from_spread(&comm, (&a_spread, a), plan.a(), &config)?;
//! let (b, _) = Matrix::from_spread(&comm, (&b_spread, b), plan.b(), &config)?;
//! let mut product = session.zeros(&plan)?;
//! session.multiply(&plan, Scalars { alpha: 1.0, beta: 0.0 }, (&a, &b), &mut product)?;
//! let ld = local(&c_spread).0;
//! let moved = product.to_spread(&comm, (&c_spread, StoredMut::by_columns(&mut c, ld)))?;
//! assert!(c.iter().all(|&value| value == 2.0 * k as f64));
//! assert_eq!(moved.bytes, 0, "one rank has nobody to send to");
//! # Ok::<(), isochron::Error>(())
//! ```

mod copy;
mod matrices;
mod moves;

use std::time::Instant;

use serde::{Deserialize, Serialize};

pub(crate) use copy::{Strides, copy_lines};

use super::Spread;
use super::spread::digest;
use super::spread::error::SpreadError;
use super::stored::{Order, Stored, StoredMut};
use crate::comm::{Comm, Transfer, agree};
use crate::error::Error;
use moves::MovePlan;

#[cfg(doc)]
use super::{BlockCyclic, ProcessGrid, volume};

/// How elements are moved.
#[derive(Debug, Clone, Copy)]
pub struct RedistributeConfig<T> {
    /// Whether the target is the transposed of the source: element (i, j) of the target is (j, i) of the source.
    pub transposed: bool,
    /// What each element becomes on the way; `None` leaves it as it is. With [`transposed`](Self::transposed) and complex
    /// conjugation the target is the conjugate transposed.
    pub map: Option<fn(T) -> T>,
    /// Bytes of messages that a rank packs or waits for at a time, besides an element or two for each rank; the same on all
    /// ranks.
    pub limit_bytes: usize,
}

impl<T> Default for RedistributeConfig<T> {
    /// As it is, with 64 MiB of messages at a time.
    fn default() -> Self {
        Self {
            transposed: false,
            map: None,
            limit_bytes: 64 << 20,
        }
    }
}

/// What a redistribution took and sent.
#[derive(Debug, Default, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Moved {
    /// Seconds it took.
    pub seconds: f64,
    /// Messages with elements that were sent.
    pub messages: u64,
    /// Bytes of elements that were sent.
    pub bytes: u64,
}

impl Moved {
    /// This one and another one after it.
    pub fn and(self, next: Self) -> Self {
        Self {
            seconds: self.seconds + next.seconds,
            messages: self.messages + next.messages,
            bytes: self.bytes + next.bytes,
        }
    }

    /// Counts messages of `elements` elements of `T`.
    pub(crate) fn count<T>(&mut self, elements: impl IntoIterator<Item = usize>) {
        for elements in elements {
            self.messages += u64::from(elements > 0);
            self.bytes += (elements * size_of::<T>()) as u64;
        }
    }
}

/// Moves a matrix from the memory that `source` spreads it over to the one that `target` does: element (i, j), or (j, i)
/// with [`transposed`](RedistributeConfig::transposed), through [`map`](RedistributeConfig::map). What the target's memory
/// holds besides stays as it is, so that a submatrix can be written in place.
///
/// Returns what this rank sent. The bytes are those of [`volume`]: `volume(from, to)[rank]` elements, `from` transposed
/// where the matrix is.
///
/// # Errors
/// On every rank when any rank has reason to: [`Error::Spread`] for spreads of different shapes or of another number of
/// ranks, memory that cannot hold what the spread puts there, and ranks that do not ask for the same;
/// [`Error::Allocation`].
///
/// # Collective
/// All ranks, with the same spreads, orders and limit. Leading dimensions may differ.
pub fn redistribute<T: bytemuck::Pod>(
    comm: &dyn Comm,
    source: (&Spread, Stored<'_, T>),
    target: (&Spread, StoredMut<'_, T>),
    config: &RedistributeConfig<T>,
) -> Result<Moved, Error> {
    let span = tracing::info_span!("redistribute", rank = comm.rank());
    let _entered = span.enter();
    let start = Instant::now();
    let job = agree(comm, Movement::new(comm, source, &target, config))?;
    same_everywhere(comm, job.fingerprint)?;
    let target = target.1;
    let mut moved = match config.map {
        Some(map) => job.run(comm, target, &map),
        None => job.run(comm, target, &|value| value),
    };
    moved.seconds = start.elapsed().as_secs_f64();
    tracing::debug!(
        seconds = moved.seconds,
        messages = moved.messages,
        bytes = moved.bytes
    );
    Ok(moved)
}

/// A redistribution that can begin. Its lines are the target's: columns, or rows of both sides transposed.
struct Movement<'a, T> {
    route: MovePlan,
    source: (&'a [T], Strides),
    /// Buffers to send from and to receive into, for the rounds that are under way at a time.
    spare: Vec<[Vec<T>; 2]>,
    fingerprint: u64,
}

/// Rounds that are under way at a time: while one travels, the next one is packed and the one before it unpacked.
const ROUNDS: usize = 2;

impl<'a, T: bytemuck::Pod> Movement<'a, T> {
    fn new(
        comm: &dyn Comm,
        (from, source): (&Spread, Stored<'a, T>),
        (to, target): &(&Spread, StoredMut<'_, T>),
        config: &RedistributeConfig<T>,
    ) -> Result<Self, Error> {
        let flip = |transposed: bool, spread: &Spread, order: Order| {
            if transposed {
                (spread.transposed(), order.transposed())
            } else {
                (spread.clone(), order)
            }
        };
        check(comm, (from, &source), (to, target), config.transposed)?;
        let fingerprint = fingerprint((from, source.order), (to, target.order), config);
        let across = target.order == Order::Rows;
        let (from, source_order) = flip(config.transposed != across, from, source.order);
        let (to, _) = flip(across, to, target.order);
        let each = config.limit_bytes / size_of::<T>().max(1) / ROUNDS;
        let room = each.saturating_sub(2 * comm.size());
        let route = MovePlan::new(&from, &to, comm.rank(), room);
        let spare = buffers(&route)?;
        let steps = match source_order {
            Order::Columns => Strides::lines(source.ld),
            Order::Rows => Strides::across(source.ld),
        };
        Ok(Self {
            route,
            source: (source.data, steps),
            spare,
            fingerprint,
        })
    }

    fn run(mut self, comm: &dyn Comm, target: StoredMut<'_, T>, map: &impl Fn(T) -> T) -> Moved {
        let mut moved = Moved::default();
        let mut before: Option<(usize, Transfer<'_, T>)> = None;
        let StoredMut { data, ld, .. } = target;
        for round in 0..self.route.rounds() {
            let transfer = self.post(comm, round, &mut moved);
            if let Some((round, transfer)) = before.replace((round, transfer)) {
                self.take(round, transfer, (&mut *data, ld), map);
            } else {
                self.route.keep(self.source, (&mut *data, ld), map);
            }
        }
        match before {
            Some((round, transfer)) => self.take(round, transfer, (data, ld), map),
            None => self.route.keep(self.source, (data, ld), map),
        }
        moved
    }

    /// Packs and starts the messages of a round.
    fn post<'c>(&mut self, comm: &'c dyn Comm, round: usize, moved: &mut Moved) -> Transfer<'c, T> {
        let [mut packed, mut wanted] = self.spare.pop().unwrap_or_default();
        self.route.pack(round, self.source, &mut packed);
        let sends = self.route.sends(round, 0);
        let recvs = self.route.recvs(round, 1);
        wanted.resize(recvs.last().map_or(0, |last| last.range.end), T::zeroed());
        moved.count::<T>(sends.iter().map(|message| message.range.len()));
        Transfer::start(comm, vec![packed, wanted], &sends, &recvs)
    }

    /// Waits for a round and takes what has come.
    fn take(
        &mut self,
        round: usize,
        transfer: Transfer<'_, T>,
        target: (&mut [T], usize),
        map: &impl Fn(T) -> T,
    ) {
        let mut buffers = transfer.finish().into_iter();
        let mut next = || buffers.next().unwrap_or_default();
        let pair = [next(), next()];
        self.route.unpack(round, &pair[1], target, map);
        self.spare.push(pair);
    }
}

/// Room for the messages of all rounds that are under way at a time.
fn buffers<T>(route: &MovePlan) -> Result<Vec<[Vec<T>; 2]>, Error> {
    if route.rounds() == 0 {
        return Ok(Vec::new());
    }
    let room = |len: usize| {
        let mut buffer = Vec::new();
        buffer.try_reserve_exact(len).map(|()| buffer)
    };
    let [sent, received] = route.most();
    let pair = || Ok([room(sent)?, room(received)?]);
    let all: Result<_, std::collections::TryReserveError> =
        (0..ROUNDS.min(route.rounds())).map(|_| pair()).collect();
    all.map_err(|_| Error::Allocation {
        what: "the messages of a redistribution",
        bytes: ((sent + received) * size_of::<T>()) as u64,
    })
}

/// Whether the spreads fit each other and the communicator, and this rank's memory fits them.
fn check<T>(
    comm: &dyn Comm,
    (from, source): (&Spread, &Stored<'_, T>),
    (to, target): (&Spread, &StoredMut<'_, T>),
    transposed: bool,
) -> Result<(), SpreadError> {
    let (rank, ranks) = (comm.rank(), comm.size());
    for spread in [from.n_ranks(), to.n_ranks()] {
        if spread != ranks {
            return Err(SpreadError::Ranks { spread, ranks });
        }
    }
    let moved = match transposed {
        false => (from.rows(), from.cols()),
        true => (from.cols(), from.rows()),
    };
    let wanted = (to.rows(), to.cols());
    if moved != wanted {
        return Err(SpreadError::Shape {
            from: moved,
            to: wanted,
        });
    }
    if from.held(rank) > 0 {
        let (rows, cols) = from.local_shape(rank);
        source.check(rows, cols)?;
    }
    if to.held(rank) > 0 {
        let (rows, cols) = to.local_shape(rank);
        target.check(rows, cols)?;
    }
    Ok(())
}

/// A number that is the same on ranks that ask for the same.
fn fingerprint<T>(
    (from, source): (&Spread, Order),
    (to, target): (&Spread, Order),
    config: &RedistributeConfig<T>,
) -> u64 {
    let how = (config.transposed, size_of::<T>(), config.limit_bytes);
    digest(&(from.fingerprint(), to.fingerprint(), source, target, how))
}

/// Ranks that ask for different things would wait for messages that nobody sends.
fn same_everywhere(comm: &dyn Comm, fingerprint: u64) -> Result<(), Error> {
    let all = comm.gather(&fingerprint)?;
    match all.iter().position(|other| *other != all[0]) {
        Some(rank) => Err(SpreadError::Differ { rank }.into()),
        None => Ok(()),
    }
}
