//! The engine that moves elements between the ranks' memories, for redistributions, files and sums.
//!
//! A movement goes in rounds: while the messages of one round travel, those of the next are packed and those of the one
//! before are unpacked. The memory of a round is bounded, and every element that its receiver does not hold itself travels
//! once, straight from its holder.
//!
//! Two users of the same messages do without the engine. The panels of SUMMA arrive in place, are relayed by other ranks, and
//! keep their buffers from step to step; here every round packs and unpacks. Files that all ranks see are read and written
//! by each rank itself, without any message.

use isochron_devices::{View, ViewMut};
use serde::{Deserialize, Serialize};

use super::moves::{MovePlan, count_rounds};
use crate::comm::{Comm, Transfer};
use crate::error::Error;
use crate::matrix::{Order, Region, Spread};

/// Rounds that are under way at a time: while one travels, the next one is packed and the one before it unpacked.
const ROUNDS_UNDER_WAY: usize = 2;

/// Buffers to send from and to receive into, for the rounds that are under way at a time.
pub(crate) type MessageBuffers<T> = Vec<[Vec<T>; 2]>;

/// A movement of elements, planned on all ranks with the same spreads and orders, and with memory for its messages.
#[derive(Debug)]
pub(crate) struct Movement<T> {
    /// Its lines are the target's: columns, or rows of both sides transposed.
    plan: MovePlan,
    /// Direction of the target's lines.
    order: Order,
    spare: MessageBuffers<T>,
}

impl<T: bytemuck::Pod> Movement<T> {
    /// Plans to move a matrix between two spreads of it, each element from its one holder. `order` is that of the target's
    /// memory. No rank packs or waits for more than `limit` elements at a time, but for an element or two for each rank.
    ///
    /// # Errors
    /// Returns [`Error::Allocation`], on this rank alone.
    ///
    /// # Panics
    /// If the spreads are over another number of ranks than `comm`.
    pub(crate) fn new(
        comm: &dyn Comm,
        from: &Spread,
        to: &Spread,
        order: Order,
        limit: usize,
    ) -> Result<Self, Error> {
        let rounds = choose_rounds(comm, from, to, limit);
        Self::in_rounds(comm, from, to, order, rounds)
    }

    /// Plans as [`new`](Self::new) does, for [`run_with`](Self::run_with) in these buffers, in which several movements may
    /// take their turns.
    ///
    /// # Errors
    /// Returns [`Error::Allocation`], on this rank alone.
    pub(crate) fn plan_with(
        comm: &dyn Comm,
        from: &Spread,
        to: &Spread,
        order: Order,
        limit: usize,
        buffers: &mut MessageBuffers<T>,
    ) -> Result<Self, Error> {
        let rounds = choose_rounds(comm, from, to, limit);
        let plan = make_plan(comm, from, to, order, rounds);
        reserve_buffers(&plan, buffers)?;
        Ok(Self { plan, order, spare: Vec::new() })
    }

    /// Plans to move a matrix in this many rounds, at least one. In `from` elements may have several holders: each of them
    /// sends its own value.
    ///
    /// # Errors
    /// Returns [`Error::Allocation`], on this rank alone.
    pub(crate) fn in_rounds(
        comm: &dyn Comm,
        from: &Spread,
        to: &Spread,
        order: Order,
        rounds: usize,
    ) -> Result<Self, Error> {
        let plan = make_plan(comm, from, to, order, rounds);
        let mut spare = Vec::new();
        reserve_buffers(&plan, &mut spare)?;
        Ok(Self { plan, order, spare })
    }

    /// Returns the bytes of memory that it keeps for messages.
    pub(crate) fn message_bytes(&self) -> u64 {
        let elements: usize = self.spare.iter().flatten().map(Vec::capacity).sum();
        (elements * size_of::<T>()) as u64
    }

    /// Moves the elements of `source`, and puts each into the target by `put`, in the order of the ranks that sent them, this
    /// one among them.
    ///
    /// # Collective
    /// All ranks.
    pub(crate) fn run(
        &mut self,
        comm: &dyn Comm,
        source: View<'_, T>,
        target: ViewMut<'_, T>,
        put: &impl Fn(&mut T, T),
    ) -> Result<Moved, Error> {
        let memory = match self.order {
            Order::Columns => MoveMemory::Apart { source, target },
            Order::Rows => {
                MoveMemory::Apart { source: source.transposed(), target: target.transposed() }
            }
        };
        self.run_rounds(comm, memory, put)
    }

    /// Does the same in buffers that it was [planned](Self::plan_with) with.
    ///
    /// # Collective
    /// All ranks.
    pub(crate) fn run_with(
        &mut self,
        buffers: &mut MessageBuffers<T>,
        comm: &dyn Comm,
        source: View<'_, T>,
        target: ViewMut<'_, T>,
    ) -> Result<Moved, Error> {
        std::mem::swap(&mut self.spare, buffers);
        let moved = self.run(comm, source, target, &replace);
        std::mem::swap(&mut self.spare, buffers);
        moved
    }

    /// Moves elements within one memory. The local matrix has the first of `places` there, and the second one afterwards: the
    /// elements that this rank keeps stay where they are.
    ///
    /// # Collective
    /// All ranks; others may [`run`](Self::run) the movement between two memories.
    pub(crate) fn run_within(
        mut self,
        comm: &dyn Comm,
        memory: ViewMut<'_, T>,
        places: [Region; 2],
    ) -> Result<Moved, Error> {
        self.plan.leave_own();
        let memory = MoveMemory::Shared { memory, places };
        self.run_rounds(comm, memory, &replace)
    }

    fn run_rounds(
        &mut self,
        comm: &dyn Comm,
        mut memory: MoveMemory<'_, T>,
        put: &impl Fn(&mut T, T),
    ) -> Result<Moved, Error> {
        let mut moved = Moved::default();
        let mut under_way: Option<(usize, Transfer<'_, T>)> = None;
        for round in 0..self.plan.rounds {
            let transfer = self.start_round(comm, round, memory.source(), &mut moved)?;
            if let Some((before, transfer)) = under_way.replace((round, transfer)) {
                self.finish_round(before, transfer, &mut memory, put)?;
            }
        }
        if let Some((last, transfer)) = under_way {
            self.finish_round(last, transfer, &mut memory, put)?;
        }
        Ok(moved)
    }

    /// Packs and starts the messages of a round.
    fn start_round<'c>(
        &mut self,
        comm: &'c dyn Comm,
        round: usize,
        source: View<'_, T>,
        moved: &mut Moved,
    ) -> Result<Transfer<'c, T>, Error> {
        let mut buffers = self.spare.pop().unwrap_or_default();
        let messages = self.plan.list_messages(round);
        for (buffer, messages) in buffers.iter_mut().zip(&messages) {
            let len = messages.last().map_or(0, |last| last.range.end);
            buffer.resize(len, T::zeroed());
        }
        self.plan.pack_round(round, source, &mut buffers[0]);
        let [sends, recvs] = messages;
        moved.count_messages::<T>(sends.iter().map(|message| message.range.len()));
        Transfer::start(comm, buffers.into(), &sends, &recvs)
    }

    /// Waits for a round, and puts its elements into the target.
    fn finish_round(
        &mut self,
        round: usize,
        transfer: Transfer<'_, T>,
        memory: &mut MoveMemory<'_, T>,
        put: &impl Fn(&mut T, T),
    ) -> Result<(), Error> {
        let (source, mut target) = memory.split();
        let mut buffers = transfer.finish()?.into_iter();
        let pair = [(); 2].map(|()| buffers.next().unwrap_or_default());
        self.plan.unpack_round(round, &pair[1], source, &mut target, put);
        self.spare.push(pair);
        Ok(())
    }
}

/// Stores an element as it is.
pub(crate) fn replace<T>(target: &mut T, value: T) {
    *target = value;
}

/// The memory between which elements move.
enum MoveMemory<'m, T> {
    Apart {
        source: View<'m, T>,
        target: ViewMut<'m, T>,
    },
    Shared {
        memory: ViewMut<'m, T>,
        /// The places of source and target.
        places: [Region; 2],
    },
}

impl<T> MoveMemory<'_, T> {
    fn source(&self) -> View<'_, T> {
        match self {
            Self::Apart { source, .. } => *source,
            Self::Shared { memory, places } => {
                memory.rb().block(places[0].row_range(), places[0].col_range())
            }
        }
    }

    /// Returns source and target for what has come. In shared memory there is no source: kept elements are in their place.
    fn split(&mut self) -> (View<'_, T>, ViewMut<'_, T>) {
        match self {
            Self::Apart { source, target } => (*source, target.reborrow()),
            Self::Shared { memory, places } => {
                let target = memory.reborrow();
                let target = target.into_block(places[1].row_range(), places[1].col_range());
                (View::empty(0, 0), target)
            }
        }
    }
}

/// Time and messages of a movement on one rank.
#[derive(Debug, Default, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Moved {
    /// Seconds of the slowest rank.
    pub seconds: f64,
    /// Messages with elements.
    pub messages: u64,
    /// Bytes of elements that ranks sent each other.
    pub bytes: u64,
}

impl Moved {
    /// Adds another movement that came after this one.
    pub fn and(self, next: Self) -> Self {
        Self {
            seconds: self.seconds + next.seconds,
            messages: self.messages + next.messages,
            bytes: self.bytes + next.bytes,
        }
    }

    /// Counts messages of `elements` elements of `T`.
    pub(crate) fn count_messages<T>(&mut self, elements: impl IntoIterator<Item = usize>) {
        for elements in elements {
            self.messages += u64::from(elements > 0);
            self.bytes += (elements * size_of::<T>()) as u64;
        }
    }
}

/// Counts the elements of a rank's messages that are under way at a time in a movement of this many rounds.
pub(crate) fn count_under_way(from: &Spread, to: &Spread, rank: usize, rounds: usize) -> usize {
    let [sent, received] = MovePlan::new(from, to, rank, rounds).most_per_round();
    ROUNDS_UNDER_WAY.min(rounds) * (sent + received)
}

/// Returns the rounds in which no rank packs or waits for more than `limit` elements at a time.
fn choose_rounds(comm: &dyn Comm, from: &Spread, to: &Spread, limit: usize) -> usize {
    let room = (limit / ROUNDS_UNDER_WAY).saturating_sub(2 * comm.size());
    count_rounds(from, to, room)
}

/// Plans a rank's moves, with lines in the direction of the target's.
fn make_plan(comm: &dyn Comm, from: &Spread, to: &Spread, order: Order, rounds: usize) -> MovePlan {
    match order {
        Order::Columns => MovePlan::new(from, to, comm.rank(), rounds),
        Order::Rows => MovePlan::new(&from.transposed(), &to.transposed(), comm.rank(), rounds),
    }
}

/// Makes room for the messages of all rounds that are under way at a time.
fn reserve_buffers<T>(plan: &MovePlan, buffers: &mut MessageBuffers<T>) -> Result<(), Error> {
    let pairs = ROUNDS_UNDER_WAY.min(plan.rounds).max(buffers.len());
    buffers.resize_with(pairs, Default::default);
    for pair in buffers {
        for (buffer, len) in pair.iter_mut().zip(plan.most_per_round()) {
            buffer.try_reserve_exact(len.saturating_sub(buffer.len())).map_err(|_| {
                Error::Allocation {
                    what: "the messages of a redistribution",
                    bytes: (len * size_of::<T>()) as u64,
                }
            })?;
        }
    }
    Ok(())
}
