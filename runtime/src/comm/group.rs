//! Ranks of a program that is not started by MPI: all that they need to do together is to gather bytes.

use std::cell::RefCell;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use isochron_devices::internal::HomeProcess;

use super::contract::{Comm, InFlight, MessageSpan, check_rank};
use super::local::{NoMessages, find_host_name};
use crate::error::Error;

/// A group of ranks that a program has anyway, such as that of a framework for training.
pub trait Group {
    /// This rank, `0 <= rank < size`.
    fn rank(&self) -> usize;

    /// Number of ranks, at least 1.
    fn size(&self) -> usize;

    /// Returns every rank's `data`, by rank; lengths may differ.
    ///
    /// # Errors
    /// Returns the reason why the group does not work any more.
    ///
    /// # Collective
    /// All ranks, in the same order as the group's other calls.
    fn all_gather(&self, data: &[u8]) -> Result<Vec<Vec<u8>>, String>;

    /// Tells the others, if the group can, that this rank takes part no longer. Not collective.
    fn leave(&self) {}
}

/// The communicator of a [`Group`]: for [`Rebalancer`](crate::rebalance::Rebalancer) and everything else that only gathers and shares values.
///
/// It has no messages between two ranks, so units are not moved, and no [session](crate::session) is opened on several ranks. A rank that
/// [leaves](Comm::abandon) tells the others if the group can ([`Group::leave`]). Hosts that give themselves one name are not numbered.
#[derive(Debug)]
pub struct GroupComm<G> {
    group: G,
    host: String,
    home: HomeProcess,
    state: RefCell<GroupState>,
}

#[derive(Debug, Default)]
struct GroupState {
    /// Number of calls so far.
    calls: u64,
    /// Why the group does not work any more.
    failure: Option<String>,
}

impl<G: Group> GroupComm<G> {
    /// Makes the communicator of a group.
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] for a group without this rank; [`Error::Group`] if the group fails, or does not gather what each rank gives.
    ///
    /// # Collective
    /// All ranks of the group.
    pub fn new(group: G) -> Result<Self, Error> {
        if group.size() == 0 {
            return Err(Error::parameter("size", 0, "a group has at least this rank"));
        }
        check_rank("rank", group.rank(), group.size())?;
        let made = Self {
            group,
            host: find_host_name(),
            home: HomeProcess::current(),
            state: RefCell::default(),
        };
        let greeting = |rank: usize| format!("isochron {rank} of {}", made.size());
        let greetings = made.all_gather(greeting(made.rank()).as_bytes())?;
        for (rank, told) in greetings.iter().enumerate() {
            if told != greeting(rank).as_bytes() {
                let told = String::from_utf8_lossy(told).into_owned();
                return Err(made.fail(format!("gave \"{told}\" for rank {rank}")));
            }
        }
        Ok(made)
    }

    /// Notes that the group does not work any more.
    fn fail(&self, reason: String) -> Error {
        self.state.borrow_mut().failure = Some(reason.clone());
        Error::Group { rank: self.rank(), reason }
    }

    fn refuse_messages(&self) -> Error {
        let reason = "a group of the program has no messages between two ranks: move the data by its own means, or take a communicator \
                      of MPI";
        Error::parameter("comm", self.implementation(), reason)
    }

    /// Gathers the same number of words from each rank.
    fn gather_words(
        &self,
        mine: impl Iterator<Item = [u8; 8]>,
    ) -> Result<Vec<Vec<[u8; 8]>>, Error> {
        let mine: Vec<[u8; 8]> = mine.collect();
        let all = self.all_gather(mine.as_flattened())?;
        let all = all.iter().map(|bytes| bytes.as_chunks().0.to_vec());
        let all: Vec<Vec<[u8; 8]>> = all.collect();
        match all.iter().position(|words| words.len() != mine.len()) {
            Some(rank) => {
                let (theirs, own) = (all[rank].len(), mine.len());
                Err(self
                    .fail(format!("gave {theirs} numbers for rank {rank}, and {own} for this one")))
            }
            None => Ok(all),
        }
    }
}

impl<G: Group + 'static> From<GroupComm<G>> for Arc<dyn Comm> {
    fn from(comm: GroupComm<G>) -> Self {
        Arc::new(comm)
    }
}

impl<G: Group> Comm for GroupComm<G> {
    fn rank(&self) -> usize {
        self.group.rank()
    }

    fn size(&self) -> usize {
        self.group.size()
    }

    fn host(&self) -> &str {
        &self.host
    }

    fn implementation(&self) -> &str {
        "none (a group of the program)"
    }

    fn barrier(&self) -> Result<(), Error> {
        self.all_gather(&[]).map(drop)
    }

    fn broadcast(&self, root: usize, data: &mut Vec<u8>) -> Result<(), Error> {
        check_rank("root", root, self.size())?;
        let mine: &[u8] = if root == self.rank() { data } else { &[] };
        let mut all = self.all_gather(mine)?;
        *data = all.swap_remove(root);
        Ok(())
    }

    fn all_gather(&self, data: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        self.home.check("communicator")?;
        let number = {
            let mut state = self.state.borrow_mut();
            if let Some(reason) = &state.failure {
                return Err(Error::Group { rank: self.rank(), reason: reason.clone() });
            }
            state.calls += 1;
            state.calls
        };
        let mine = [&number.to_le_bytes(), data].concat();
        let mut all = self.group.all_gather(&mine).map_err(|reason| self.fail(reason))?;
        let size = self.size();
        if all.len() != size {
            return Err(self.fail(format!("gave {} values for {size} ranks", all.len())));
        }
        if all[self.rank()] != mine {
            return Err(self.fail("gave this rank another value than its own".to_owned()));
        }
        for (rank, value) in all.iter_mut().enumerate() {
            let theirs = value.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
            if theirs != Some(number) {
                let theirs = theirs.map_or("none".to_owned(), |theirs| theirs.to_string());
                return Err(self.fail(format!("gave call {theirs} of rank {rank} for call {number} of this one: all ranks make the same calls")));
            }
            value.drain(..size_of_val(&number));
        }
        Ok(all)
    }

    fn sum_f64(&self, values: &mut [f64]) -> Result<(), Error> {
        let all = self.gather_words(values.iter().map(|value| value.to_le_bytes()))?;
        for (index, value) in values.iter_mut().enumerate() {
            *value = all.iter().map(|words| f64::from_le_bytes(words[index])).sum();
        }
        Ok(())
    }

    fn sum_u64(&self, values: &mut [u64]) -> Result<(), Error> {
        let all = self.gather_words(values.iter().map(|value| value.to_le_bytes()))?;
        for (index, value) in values.iter_mut().enumerate() {
            let words = all.iter().map(|words| u64::from_le_bytes(words[index]));
            *value = words.fold(0, u64::wrapping_add);
        }
        Ok(())
    }

    fn split(&self, _number: Option<usize>) -> Result<Option<Arc<dyn Comm>>, Error> {
        let reason = "a group of the program makes no smaller groups";
        Err(Error::parameter("comm", self.implementation(), reason))
    }

    #[allow(unsafe_code, reason = "the caller keeps the contract; there is no message")]
    unsafe fn start(
        &self,
        sends: &[MessageSpan],
        recvs: &[MessageSpan],
    ) -> Result<Box<dyn InFlight + '_>, Error> {
        match sends.first().or(recvs.first()) {
            None => Ok(Box::new(NoMessages)),
            Some(_) => Err(self.refuse_messages()),
        }
    }

    fn abandon(&self, _cause: &str) {
        self.group.leave();
    }

    fn check_messages(&self) -> Result<(), Error> {
        if self.size() == 1 { Ok(()) } else { Err(self.refuse_messages()) }
    }
}

/// The ranks of one process, such as one thread for each of its devices: [`make`](Self::make) makes all of them, and each thread takes one.
///
/// # Example
/// ```
/// use isochron::comm::{GroupComm, ThreadGroup};
/// use isochron::rebalance::{LoopPart, RebalanceConfig, Rebalancer};
///
/// let units = |group: ThreadGroup| -> Result<u64, isochron::Error> {
///     let comm = GroupComm::new(group)?;
///     let balancer = Rebalancer::new(comm, 100, &RebalanceConfig::default(), LoopPart::default())?;
///     let part = balancer.part();
///     Ok(part.end - part.start)
/// };
/// let threads = ThreadGroup::make(4).into_iter().map(|group| std::thread::spawn(move || units(group)));
/// let threads: Vec<_> = threads.collect();
/// for thread in threads {
///     assert_eq!(thread.join().unwrap()?, 25);
/// }
/// # Ok::<(), isochron::Error>(())
/// ```
#[derive(Debug)]
pub struct ThreadGroup {
    rank: usize,
    table: Arc<Table>,
}

/// Where the threads put down what they give.
#[derive(Debug)]
struct Table {
    given: Mutex<Given>,
    changed: Condvar,
}

#[derive(Debug)]
struct Given {
    /// What each rank gives in this round.
    values: Vec<Option<Vec<u8>>>,
    /// What all have given in the last one.
    all: Vec<Vec<u8>>,
    /// Number of whole rounds.
    rounds: u64,
    /// The first rank that has gone.
    gone: Option<usize>,
}

impl ThreadGroup {
    /// Makes the members of a group of this size, by rank.
    pub fn make(size: usize) -> Vec<Self> {
        let given = Given { values: vec![None; size], all: Vec::new(), rounds: 0, gone: None };
        let table = Arc::new(Table { given: Mutex::new(given), changed: Condvar::new() });
        (0..size).map(|rank| Self { rank, table: Arc::clone(&table) }).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Given> {
        self.table.given.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Group for ThreadGroup {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.lock().values.len()
    }

    fn all_gather(&self, data: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        let mut given = self.lock();
        let round = given.rounds;
        given.values[self.rank] = Some(data.to_vec());
        if given.values.iter().all(Option::is_some) {
            given.all = given.values.iter_mut().filter_map(Option::take).collect();
            given.rounds += 1;
            self.table.changed.notify_all();
        }
        while given.rounds == round {
            if let Some(rank) = given.gone {
                return Err(format!("the thread of rank {rank} has ended"));
            }
            given = self.table.changed.wait(given).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(given.all.clone())
    }

    fn leave(&self) {
        self.lock().gone.get_or_insert(self.rank);
        self.table.changed.notify_all();
    }
}

impl Drop for ThreadGroup {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::rebalance::{LoopPart, RebalanceConfig, Rebalancer};

    /// Runs a body on each of some threads, and returns what they return, by rank.
    fn on_threads<R: Send>(
        size: usize,
        body: impl Fn(GroupComm<ThreadGroup>) -> R + Sync,
    ) -> Vec<R> {
        let body = &body;
        thread::scope(|scope| {
            let threads = ThreadGroup::make(size).into_iter();
            let threads =
                threads.map(|group| scope.spawn(move || body(GroupComm::new(group).unwrap())));
            let threads: Vec<_> = threads.collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    #[test]
    fn threads_gather_share_and_sum() {
        let found = on_threads(3, |comm| {
            let rank = comm.rank();
            let comm: &dyn Comm = &comm;
            let (mut reals, mut counts) = ([rank as f64, 0.5], [u64::MAX, rank as u64]);
            comm.sum_f64(&mut reals).unwrap();
            comm.sum_u64(&mut counts).unwrap();
            comm.barrier().unwrap();
            let all = comm.gather(&"x".repeat(rank)).unwrap();
            let shared = comm.share(1, (rank == 1).then_some(7)).unwrap();
            (reals, counts, all.join("|"), shared)
        });
        let expected = ([3.0, 1.5], [u64::MAX - 2, 3], "|x|xx".to_owned(), 7);
        assert_eq!(found, vec![expected; 3]);
    }

    #[test]
    fn a_thread_that_has_ended_is_named_from_then_on() {
        let found = on_threads(3, |comm| {
            if comm.rank() == 1 {
                return String::new();
            }
            let first = comm.barrier().unwrap_err().to_string();
            assert_eq!(comm.barrier().unwrap_err().to_string(), first);
            first
        });
        assert_eq!(found[2], "rank 2: its group: the thread of rank 1 has ended");
    }

    #[test]
    fn ranks_that_make_unlike_calls_are_told_so() {
        let found = on_threads(3, |comm| {
            let rank = comm.rank();
            let config =
                RebalanceConfig { check_every: 1, warm_up: 0, ..RebalanceConfig::default() };
            let mut balancer = Rebalancer::new(comm, 9, &config, LoopPart::default()).unwrap();
            let failed = if rank == 1 {
                balancer.report().map(drop)
            } else {
                balancer.observe(1.0).map(drop)
            };
            failed.unwrap_err().to_string()
        });
        let words = "the call of the balancer is balance on ranks 0, 2, report on rank 1";
        assert!(found.iter().all(|told| told.contains(words)), "{found:?}");
    }

    /// A group of two that answers as it is told.
    struct Told(fn(&[u8]) -> Gathered);

    type Gathered = Result<Vec<Vec<u8>>, String>;

    impl Group for Told {
        fn rank(&self) -> usize {
            0
        }

        fn size(&self) -> usize {
            2
        }

        fn all_gather(&self, data: &[u8]) -> Gathered {
            (self.0)(data)
        }
    }

    #[test]
    fn a_group_that_does_not_gather_is_refused() {
        let refuse = |group: fn(&[u8]) -> Gathered, words: &str| {
            let told = GroupComm::new(Told(group)).err().unwrap().to_string();
            assert!(told.contains(words), "{told}");
        };
        refuse(|_| Err("connection closed".to_owned()), "connection closed");
        refuse(|data| Ok(vec![data.to_vec()]), "gave 1 values for 2 ranks");
        refuse(|_| Ok(vec![vec![0], vec![0]]), "another value than its own");
        refuse(|data| Ok(vec![data.to_vec(), Vec::new()]), "call none of rank 1");
        refuse(|data| Ok(vec![data.to_vec(); 2]), "\"isochron 0 of 2\" for rank 1");
    }

    #[test]
    fn a_group_moves_no_units() {
        use crate::rebalance::{UnitArray, measure_move_unit_s};
        use crate::session::Session;
        on_threads(2, |comm| {
            let array = UnitArray::<u8>::zeros(&comm, &[2, 2], 1).map(drop);
            let measured = measure_move_unit_s(&comm, 8).map(drop);
            let opened = Session::builder().build(comm).map(drop);
            for refused in [array, measured, opened] {
                let refused = refused.unwrap_err().to_string();
                assert!(refused.contains("no messages between two ranks"), "{refused}");
            }
        });
    }
}
