//! Balancing the loop of a program of one's own.
//!
//! A program with a loop over units of work (rows, blocks, cells, particles) asks a [`Rebalancer`] for its part, times
//! its own work, and ends each sweep with [`balance`](Rebalancer::balance). When `balance` returns `true`, the parts
//! have changed, and the program moves its data.
//!
//! # Example
//! A whole program. It runs alone, and under `mpirun` on any number of ranks.
//! ```
//! use isochron::comm::connect;
//! use isochron::rebalance::{LoopPart, RebalanceConfig, Rebalancer, UnitArray};
//!
//! fn main() -> Result<(), isochron::Error> {
//!     let comm = connect()?;
//!     let (rows, cols) = (600, 100);
//!     let config = RebalanceConfig::default();
//!     let mut balancer = Rebalancer::new(comm, rows, &config, LoopPart::default())?;
//!     let mut mine: UnitArray<f64> = balancer.make_array(cols)?;
//!     mine.fill(2.0);
//!     for _sweep in 0..50 {
//!         balancer.begin();
//!         for value in mine.iter_mut() {
//!             *value = value.sqrt();
//!         }
//!         balancer.end();
//!         if balancer.balance()? {
//!             balancer.migrate(&mut mine)?;
//!         }
//!     }
//!     assert_eq!(mine.len(), balancer.part().count() * cols);
//!     Ok(())
//! }
//! ```
//!
//! # Which times
//! * [`begin`](Rebalancer::begin) and [`end`](Rebalancer::end) enclose the work of this rank, without messages and
//!   without waiting for other ranks: a rank that waits would seem slow itself.
//! * [`record`](Rebalancer::record) takes seconds that the program has measured: of GPU events, since a host timer
//!   sees only the launch; or of a part of the units.
//! * [`ignore_sweep`](Rebalancer::ignore_sweep) leaves out a sweep that is unlike others, such as one with output.
//!
//! # Other partitioners
//! ParMETIS, Scotch, Zoltan and p4est divide by weights: [`shares`](Rebalancer::shares) are these. Such a program
//! takes the shares when `balance` returns `true`, and moves its data by the partitioner's own means.
//!
//! # Cost
//! A move must win back its own time. [`measure_move_unit_s`] measures what the first one may cost; later ones are timed.
//! Most calls of `balance` count, and do nothing else. All ranks exchange a few numbers after 1 to
//! [`check_every`](RebalanceConfig::check_every) sweeps. Rank 0 decides, from the times of all ranks.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use isochron_devices::internal::HomeProcess;
use isochron_hierarchy::rebalance::{Advice, Rebalance, list_ranges};
pub use isochron_hierarchy::rebalance::{LoopPart, RebalanceConfig, RebalanceReport};
use serde::{Deserialize, Serialize};

use self::blocks::move_blocks;
use self::migrate::{Change, move_units};
use self::state::{load_machine, save_machine};
use self::sweep::SweepTimes;
use crate::comm::{
    Comm, Settings, add_fields, add_setting, agree, agree_on_settings, describe_differences,
    describe_long, share_outcome,
};
use crate::error::Error;

pub use self::array::{UnitArray, migrate_units};
pub use self::blocks::MovedBlocks;
pub use self::cost::measure_move_unit_s;
pub use self::migrate::UnitMemory;

mod array;
mod blocks;
mod cost;
mod migrate;
mod state;
mod sweep;

/// Balances a program's own loop over the ranks of a communicator. The [module](self) has an example.
pub struct Rebalancer {
    comm: Arc<dyn Comm>,
    /// On rank 0.
    machine: Option<Rebalance>,
    units: Vec<u64>,
    /// The division before the last change.
    before: Vec<u64>,
    times: SweepTimes,
    /// Sweeps until the ranks look at the times.
    due_in: u64,
    /// Seconds of moving since the last look.
    moving_s: f64,
    moves: u64,
    home: HomeProcess,
}

impl fmt::Debug for Rebalancer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rebalancer")
            .field("rank", &self.comm.rank())
            .field("units", &self.units)
            .field("moves", &self.moves)
            .finish_non_exhaustive()
    }
}

/// The message of a rank to the others.
#[derive(Serialize, Deserialize)]
struct ToldSweep {
    sweeps: Vec<Option<f64>>,
    moving_s: f64,
}

/// The message of rank 0 to the others.
#[derive(Serialize, Deserialize)]
struct LoopDecision {
    advice: Advice,
    due_in: u64,
}

impl Rebalancer {
    /// Divides `total` units over the ranks. `mine` describes this rank.
    ///
    /// # Errors
    /// On every rank, returns [`Error::Settings`] for ranks with different totals or configurations, with the names and
    /// values; [`Error::Adaptive`] for a configuration outside its range, an invalid part, or parts that cannot take
    /// all units.
    ///
    /// # Collective
    /// All ranks, with the same total and configuration.
    pub fn new(
        comm: impl Into<Arc<dyn Comm>>,
        total: u64,
        config: &RebalanceConfig,
        mine: LoopPart,
    ) -> Result<Self, Error> {
        let comm = comm.into();
        agree_on_settings(&*comm, &list_settings(total, config))?;
        agree(&*comm, mine.check().map_err(Error::from))?;
        let parts = comm.gather(&mine)?;
        let machine = match comm.rank() {
            0 => Rebalance::new(config.clone(), total, parts).map(Some),
            _ => Ok(None),
        };
        let machine = agree(&*comm, machine.map_err(Error::from))?;
        Self::begin_with(comm, machine)
    }

    fn begin_with(comm: Arc<dyn Comm>, machine: Option<Rebalance>) -> Result<Self, Error> {
        let start =
            machine.as_ref().map(|machine| (machine.units().to_vec(), machine.count_sweeps()));
        let (units, due_in) = comm.share(0, start)?;
        Ok(Self {
            comm,
            machine,
            before: units.clone(),
            units,
            times: SweepTimes::default(),
            due_in,
            moving_s: 0.0,
            moves: 0,
            home: HomeProcess::current(),
        })
    }

    /// Returns the units of each rank.
    pub fn units(&self) -> &[u64] {
        &self.units
    }

    /// Returns the units of this rank: the parts follow each other in the order of the ranks.
    pub fn part(&self) -> Range<u64> {
        list_ranges(&self.units).swap_remove(self.comm.rank())
    }

    /// Returns the ranks that have the units just before this rank's, and just after; `None` where there are no units, and
    /// for a rank without any.
    pub fn neighbours(&self) -> [Option<usize>; 2] {
        let rank = self.comm.rank();
        if self.units[rank] == 0 {
            return [None; 2];
        }
        let (before, after) = (&self.units[..rank], &self.units[rank + 1..]);
        let before = before.iter().rposition(|&units| units > 0);
        let after = after.iter().position(|&units| units > 0);
        [before, after.map(|ahead| rank + 1 + ahead)]
    }

    /// Returns the part of all units that each rank has: the weights for a partitioner. They sum to 1.
    pub fn shares(&self) -> Vec<f64> {
        match self.units.iter().sum::<u64>() {
            0 => vec![1.0 / self.units.len() as f64; self.units.len()],
            total => (self.units.iter()).map(|&units| units as f64 / total as f64).collect(),
        }
    }

    /// Returns the number of times that the parts have changed.
    pub fn moves(&self) -> u64 {
        self.moves
    }

    /// Begins to time this rank's work of a sweep.
    pub fn begin(&mut self) {
        self.times.begin();
    }

    /// Ends what [`begin`](Self::begin) began. Several pairs in a sweep add up.
    pub fn end(&mut self) {
        self.times.end();
    }

    /// Takes the seconds that this rank needed for `units` of its units. All times of a sweep add up, and so do their
    /// units. If these are not as many as the part has, the time is scaled to the part. 0 units stand for none that are
    /// counted, such as for work that a sweep has once.
    ///
    /// A negative or non-finite time makes the next decision fail on every rank.
    pub fn record(&mut self, units: u64, seconds: f64) {
        self.times.record(units, seconds);
    }

    /// Leaves the current sweep out: nothing is learnt from it on any rank.
    pub fn ignore_sweep(&mut self) {
        self.times.ignore();
    }

    /// Takes the seconds that this rank needed for its part, and ends the sweep: [`record`](Self::record) and
    /// [`balance`](Self::balance) in one.
    ///
    /// # Errors
    /// On every rank, returns [`Error::Parameter`] for an invalid time, and for `begin` and `end` that do not match, on
    /// any rank since the last decision; [`Error::Adaptive`] if the times do not admit a division; [`Error::Forked`] in
    /// a forked child of the process that has made the balancer.
    ///
    /// # Collective
    /// All ranks.
    pub fn observe(&mut self, seconds: f64) -> Result<bool, Error> {
        self.record(self.units[self.comm.rank()], seconds);
        self.balance()
    }

    /// Ends a sweep. Returns `true` if the parts have changed: the next sweep has the new ones.
    ///
    /// # Errors
    /// On every rank, returns [`Error::Parameter`] for an invalid time, and for `begin` and `end` that do not match, on
    /// any rank since the last decision; the times since then are forgotten. [`Error::Settings`] if ranks make another call meanwhile,
    /// such as [`report`](Self::report). [`Error::Adaptive`] if the times do not admit a division. [`Error::Forked`] in a forked child of
    /// the process that has made the balancer.
    ///
    /// # Collective
    /// All ranks, after every sweep.
    pub fn balance(&mut self) -> Result<bool, Error> {
        // Most calls send no message, which would notice it.
        self.home.check("balancer")?;
        self.times.end_sweep(self.units[self.comm.rank()]);
        self.due_in -= 1;
        if self.due_in > 0 {
            return Ok(false);
        }
        // An error leaves all ranks with a decision after the next sweep.
        self.due_in = 1;
        self.tell_head("balance")?;
        let decided = self.machine.as_mut().map(|machine| {
            let advice = machine.advise()?;
            let due_in = machine.count_sweeps();
            Ok(LoopDecision { advice, due_in })
        });
        let LoopDecision { advice, due_in } = share_outcome(&*self.comm, 0, decided)?;
        self.due_in = due_in;
        let Advice::Move(units) = advice else {
            return Ok(false);
        };
        tracing::info!(?units, "the parts of the loop have changed");
        self.before = std::mem::replace(&mut self.units, units);
        self.moves += 1;
        Ok(true)
    }

    /// Hands the times since the last decision to rank 0, in this call of all ranks.
    fn tell_head(&mut self, call: &str) -> Result<(), Error> {
        let sweeps = agree(&*self.comm, self.times.take())?;
        let moving_s = std::mem::take(&mut self.moving_s);
        let call = Settings::from([("the call of the balancer".to_owned(), call.to_owned())]);
        let all = self.comm.gather(&(call, ToldSweep { sweeps, moving_s }))?;
        let (calls, all): (Vec<Settings>, Vec<ToldSweep>) = all.into_iter().unzip();
        let differences = describe_differences(&calls);
        if !differences.is_empty() {
            return Err(Error::Settings(differences));
        }
        let told = match &mut self.machine {
            Some(machine) => observe_ranks(machine, &all),
            None => Ok(()),
        };
        agree(&*self.comm, told)
    }

    /// Returns the units that this rank had before the last change of the parts; those of its part if there was none.
    pub fn part_before(&self) -> Range<u64> {
        list_ranges(&self.before).swap_remove(self.comm.rank())
    }

    /// Makes an array of zeros for the units of this rank's part, each of `unit_len` elements, with room for the moves to come.
    ///
    /// # Errors
    /// On every rank, returns [`Error::Settings`] for ranks with different lengths; [`Error::Allocation`].
    ///
    /// # Collective
    /// All ranks, with the same `unit_len` and type.
    pub fn make_array<T: bytemuck::Pod>(&self, unit_len: usize) -> Result<UnitArray<T>, Error> {
        UnitArray::zeros(&*self.comm, &self.units, unit_len)
    }

    /// Moves an array to the parts now. Units that stay are not touched, as long as its memory has
    /// [room](UnitArray). Called once for each array, before the next sweep.
    ///
    /// # Errors
    /// On every rank, returns [`Error::Settings`] for ranks with arrays of different divisions or lengths;
    /// [`Error::Parameter`] for an array of other units; [`Error::Allocation`].
    ///
    /// # Collective
    /// All ranks, with arrays of the same division, `unit_len` and type.
    pub fn migrate<T: bytemuck::Pod>(&mut self, array: &mut UnitArray<T>) -> Result<(), Error> {
        let start = Instant::now();
        migrate_units(&*self.comm, &self.units, array)?;
        self.moving_s += start.elapsed().as_secs_f64();
        Ok(())
    }

    /// Moves units of `unit_len` elements in memory of the program, from the parts before the last change to the parts now.
    /// Called once for each array, before the next sweep.
    ///
    /// # Errors
    /// On every rank, returns [`Error::Settings`] for ranks with units or elements of different
    /// lengths; [`Error::Parameter`] for memory without a place for each unit of the parts before and after the change;
    /// [`Error::Allocation`].
    ///
    /// # Collective
    /// All ranks, with the same `unit_len` and type.
    pub fn migrate_memory<T: bytemuck::Pod>(
        &mut self,
        unit_len: usize,
        memory: UnitMemory<'_, T>,
    ) -> Result<(), Error> {
        let start = Instant::now();
        move_units(&*self.comm, self.last_change(), unit_len, memory)?;
        self.moving_s += start.elapsed().as_secs_f64();
        Ok(())
    }

    /// Moves blocks as [`migrate_memory`](Self::migrate_memory) moves units: one for each unit, of any length. Blocks that stay
    /// are not touched.
    ///
    /// # Errors
    /// On every rank, returns [`Error::Settings`] for ranks with elements of different lengths; [`Error::Parameter`] for
    /// other blocks than one for each unit of the part before the change; [`Error::Allocation`].
    ///
    /// # Collective
    /// All ranks, with the same type.
    pub fn migrate_blocks<T: bytemuck::Pod>(
        &mut self,
        blocks: &mut Vec<Vec<T>>,
    ) -> Result<(), Error> {
        let moved = self.exchange_blocks(blocks)?;
        blocks.truncate(moved.kept.end);
        blocks.splice(..moved.kept.start, moved.before);
        blocks.extend(moved.after);
        Ok(())
    }

    /// Moves blocks as [`migrate_blocks`](Self::migrate_blocks) does, and returns those that have come. The program takes away
    /// the others that it does not [keep](MovedBlocks::kept).
    ///
    /// # Errors
    /// On every rank, returns [`Error::Settings`] for ranks with elements of different lengths; [`Error::Parameter`] for
    /// other blocks than one for each unit of the part before the change; [`Error::Allocation`].
    ///
    /// # Collective
    /// All ranks, with the same type.
    pub fn exchange_blocks<T: bytemuck::Pod>(
        &mut self,
        blocks: &[impl AsRef<[T]>],
    ) -> Result<MovedBlocks<T>, Error> {
        let start = Instant::now();
        let moved = move_blocks(&*self.comm, self.last_change(), blocks)?;
        self.moving_s += start.elapsed().as_secs_f64();
        Ok(moved)
    }

    fn last_change(&self) -> Change<'_> {
        Change { from: &self.before, to: &self.units }
    }

    /// Takes the seconds that this rank needed to move its data by other means than [`migrate`](Self::migrate).
    ///
    /// A negative or non-finite time makes the next decision fail on every rank.
    pub fn note_move(&mut self, seconds: f64) {
        if self.times.check_seconds(seconds) {
            self.moving_s = (self.moving_s + seconds).min(f64::MAX);
        }
    }

    /// Returns the number of sweeps, changes, drifts and unusable times so far, the same on every rank.
    ///
    /// # Errors
    /// On every rank, returns [`Error::Parameter`] for an invalid time, and for `begin` and `end` that do not match, on
    /// any rank since the last decision; [`Error::Settings`] if ranks make another call meanwhile; [`Error::Adaptive`] if the times do
    /// not admit a division; [`Error::Forked`] in a forked child of the process that has made the balancer.
    ///
    /// # Collective
    /// All ranks, between two sweeps.
    pub fn report(&mut self) -> Result<RebalanceReport, Error> {
        self.flush_times("report")?;
        self.comm.share(0, self.machine.as_ref().map(Rebalance::to_report))
    }

    /// Returns what is known so far, for a checkpoint; the same bytes on every rank.
    ///
    /// # Errors
    /// On every rank, returns [`Error::Parameter`] for an invalid time, and for `begin` and `end` that do not match, on
    /// any rank since the last decision; [`Error::Settings`] if ranks make another call meanwhile; [`Error::Adaptive`] if the times do
    /// not admit a division; [`Error::Forked`] in a forked child of the process that has made the balancer.
    ///
    /// # Collective
    /// All ranks, between two sweeps.
    pub fn state(&mut self) -> Result<Vec<u8>, Error> {
        self.flush_times("state")?;
        share_outcome(&*self.comm, 0, self.machine.as_ref().map(save_machine))
    }

    /// Goes on from a [`state`](Self::state), with the same parts and the same knowledge.
    ///
    /// # Errors
    /// On every rank, returns [`Error::Settings`] for ranks with different bytes; [`Error::Parameter`] for bytes that
    /// are no state, or one of another number of ranks.
    ///
    /// # Collective
    /// All ranks, with the same bytes.
    pub fn restore(comm: impl Into<Arc<dyn Comm>>, state: &[u8]) -> Result<Self, Error> {
        let comm = comm.into();
        let words = format!("a state of {} bytes", state.len());
        let state_text = describe_long(words, crc32fast::hash(state));
        agree_on_settings(&*comm, &Settings::from([("state".to_owned(), state_text)]))?;
        let machine = agree(&*comm, load_machine(state, comm.size()))?;
        let head = (comm.rank() == 0).then_some(machine);
        Self::begin_with(comm, head)
    }

    /// Hands all times to rank 0 without a decision.
    fn flush_times(&mut self, call: &str) -> Result<(), Error> {
        self.tell_head(call)?;
        self.due_in = self.comm.share(0, self.machine.as_ref().map(Rebalance::count_sweeps))?;
        Ok(())
    }
}

/// Hands the times of all ranks to the machine.
fn observe_ranks(machine: &mut Rebalance, all: &[ToldSweep]) -> Result<(), Error> {
    let moving_s = all.iter().map(|told| told.moving_s).fold(0.0, f64::max);
    if moving_s > 0.0 {
        machine.note_move(moving_s)?;
    }
    let unusable = machine.to_report().unusable;
    for sweep in 0..all[0].sweeps.len() {
        let times: Option<Vec<f64>> =
            (all.iter()).map(|told| told.sweeps.get(sweep).copied().flatten()).collect();
        match times {
            Some(times_s) => machine.observe(&times_s)?,
            None => machine.skip_sweep(),
        }
    }
    let report = machine.to_report();
    if let Some((rank, seconds)) =
        report.last_unusable.filter(|_| unusable == 0 && report.unusable > 0)
    {
        tracing::warn!(
            rank,
            seconds,
            "no time to learn from: is the clock too coarse, or was nothing recorded?"
        );
    }
    Ok(())
}

/// Returns what all ranks must give alike.
fn list_settings(total: u64, config: &RebalanceConfig) -> Settings {
    let mut settings = Settings::new();
    add_setting(&mut settings, "units", &total);
    add_fields(&mut settings, config);
    settings
}

#[cfg(test)]
mod tests;
