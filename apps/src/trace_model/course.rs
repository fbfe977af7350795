//! The course of a thread through a Paraver trace: its iterations, and the time in which it computed.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::choice::{EventChoice, UnitsChoice};
use super::iterations::TracedThread;

/// The state of a thread that computes.
const RUNNING: i128 = 1;

/// A thread up to its last record.
#[derive(Serialize, Deserialize)]
pub struct ThreadCourse {
    pub place: TracedThread,
    time: u64,
    begun: Option<BegunIteration>,
    /// Calls that were begun within the value that began the iteration.
    depth: u32,
    /// The excluded calls that it is in, and the time when it entered the first one.
    calls: BTreeSet<u64>,
    called: u64,
    /// Time in excluded calls that have ended, or in states other than running.
    lost: u64,
    /// The end of the last state other than running.
    idle_until: u64,
    latest: Option<i128>,
    counted: i128,
    /// The number of iterations whose counter was not read when they began or ended.
    pub unread: u64,
}

/// The state of a thread when its iteration began.
#[derive(Serialize, Deserialize)]
struct BegunIteration {
    time: u64,
    lost: u64,
    counted: i128,
    /// The counter was read, if the size is a counter.
    is_read: bool,
}

/// An iteration that ended.
#[derive(Debug, PartialEq, Eq)]
pub struct EndedIteration {
    /// The event or counter that tells its size; 0 for a given one.
    pub amount: i128,
    /// The time in which the thread computed.
    pub computing: u64,
}

/// The effect of an event on the iteration.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Chop {
    Nothing,
    /// Another one begins.
    Begin,
    /// Something else begins.
    Leave,
    End,
}

impl ThreadCourse {
    /// Starts the course of a thread.
    pub fn new(place: TracedThread) -> Self {
        Self {
            place,
            time: 0,
            begun: None,
            depth: 0,
            calls: BTreeSet::new(),
            called: 0,
            lost: 0,
            idle_until: 0,
            latest: None,
            counted: 0,
            unread: 0,
        }
    }

    /// Returns `true` if an iteration has begun that has not ended.
    pub fn is_in_iteration(&self) -> bool {
        self.begun.is_some()
    }

    /// Goes on to the time of a record.
    ///
    /// # Errors
    /// If the time is before that of the last record.
    pub fn move_to(&mut self, time: u64) -> Result<(), String> {
        if time < self.time {
            let before = self.time;
            return Err(format!(
                "time {time} after {before} on the same thread: times run backwards"
            ));
        }
        self.time = time;
        Ok(())
    }

    /// Adds a state that begins now and lasts until `end`.
    ///
    /// # Errors
    /// If it ends before it begins.
    pub fn add_state(&mut self, end: u64, state: i128) -> Result<(), String> {
        let lasts = end.checked_sub(self.time);
        let lasts = lasts.ok_or_else(|| format!("the state ends at {end}, before it begins"))?;
        if state != RUNNING {
            self.lost += lasts;
            self.idle_until = end;
        }
        Ok(())
    }

    /// Adds the events of one record, pairs of type and value; returns the iteration that they end.
    ///
    /// # Errors
    /// If the iteration has no size.
    pub fn add_events(
        &mut self,
        events: &[i128],
        choice: &EventChoice,
    ) -> Result<Option<EndedIteration>, String> {
        let (mut chop, mut latest) = (Chop::Nothing, None);
        let mut is_read = !matches!(choice.units, UnitsChoice::Counter(_));
        for event in events.chunks_exact(2) {
            let Ok(kind) = u64::try_from(event[0]) else {
                return Err(format!("{} is no type of an event", event[0]));
            };
            let value = event[1];
            if choice.is_excluded(kind) {
                self.add_call(kind, value != 0);
            }
            match choice.units {
                UnitsChoice::Counter(counter) if counter == kind => {
                    self.counted += value;
                    is_read = true;
                }
                UnitsChoice::Latest(size) if size == kind => latest = Some(value),
                _ => {}
            }
            if choice.iteration.kind == kind {
                chop = self.find_chop(value, choice);
            }
        }
        if chop != Chop::Nothing
            && let Some(begun) = &self.begun
        {
            self.unread += u64::from(!(begun.is_read && is_read));
        }
        // A size in the record that begins something is not that of the iteration before.
        let mut ended = None;
        if matches!(chop, Chop::Begin | Chop::Leave) {
            ended = self.end_iteration(choice)?;
        }
        self.latest = latest.or(self.latest);
        if chop == Chop::End {
            ended = self.end_iteration(choice)?;
        } else if chop == Chop::Begin {
            self.begun = Some(BegunIteration {
                time: self.time,
                lost: self.lost_time(),
                counted: self.counted,
                is_read,
            });
        }
        Ok(ended)
    }

    /// Enters an excluded call, or leaves it.
    fn add_call(&mut self, kind: u64, is_entered: bool) {
        let was_free = self.calls.is_empty();
        if is_entered {
            self.calls.insert(kind);
        } else {
            self.calls.remove(&kind);
        }
        match (was_free, self.calls.is_empty()) {
            (true, false) => self.called = self.time,
            (false, true) => self.lost += self.time - self.called,
            _ => {}
        }
    }

    /// Decides on a value of the event around iterations: one that begins an iteration also ends the one before.
    fn find_chop(&mut self, value: i128, choice: &EventChoice) -> Chop {
        let begins = value != 0 && choice.iteration.value.is_none_or(|wanted| wanted == value);
        let is_inside = choice.nested && self.begun.is_some();
        match value {
            0 if is_inside && self.depth > 0 => {
                self.depth -= 1;
                Chop::Nothing
            }
            0 => Chop::End,
            _ if is_inside => {
                self.depth += 1;
                Chop::Nothing
            }
            _ if begins => Chop::Begin,
            _ => Chop::Leave,
        }
    }

    fn end_iteration(&mut self, choice: &EventChoice) -> Result<Option<EndedIteration>, String> {
        let Some(begun) = self.begun.take() else {
            return Ok(None);
        };
        let amount = match choice.units {
            UnitsChoice::Fixed => 0,
            UnitsChoice::Counter(_) => self.counted - begun.counted,
            UnitsChoice::Latest(kind) => self.latest.ok_or_else(|| {
                format!("the iteration that ends here has no size: no event {kind} was before on this thread")
            })?,
        };
        let lost = self.lost_time() - begun.lost;
        Ok(Some(EndedIteration {
            amount,
            computing: (self.time - begun.time).saturating_sub(lost),
        }))
    }

    /// Returns the time up to now in which the thread did not compute.
    fn lost_time(&self) -> u64 {
        let in_call = if self.calls.is_empty() { 0 } else { self.time - self.called };
        self.lost + in_call - self.idle_until.saturating_sub(self.time)
    }
}

#[cfg(test)]
mod tests {
    use super::super::labels::EventKey;
    use super::*;

    const MPI: i128 = 50_000_002;

    fn choice(value: Option<i128>, nested: bool) -> EventChoice {
        EventChoice {
            iteration: EventKey { kind: 7, value },
            units: UnitsChoice::Latest(8),
            excluded: None,
            running: false,
            nested,
        }
    }

    fn course() -> ThreadCourse {
        ThreadCourse::new(TracedThread {
            process: "rank0".to_owned(),
            thread: "1".to_owned(),
            host: None,
        })
    }

    /// Returns amount and computing time of the iterations of a course: times with the events at them.
    fn follow(choice: &EventChoice, records: &[(u64, &[i128])]) -> Vec<(i128, u64)> {
        let mut course = course();
        let mut found = Vec::new();
        for (time, events) in records {
            course.move_to(*time).expect("times that ascend");
            let ended = course.add_events(events, choice).expect("a size");
            found.extend(ended.map(|ended| (ended.amount, ended.computing)));
        }
        found
    }

    #[test]
    fn calls_of_mpi_do_not_count_wherever_the_iteration_begins() {
        let records: [(u64, &[i128]); 9] = [
            (5, &[MPI, 10]),
            (10, &[7, 1, 8, 40]),
            (20, &[MPI, 0]),
            (30, &[MPI, 10, 50_000_001, 4]),
            (34, &[MPI, 0]),
            (36, &[50_000_001, 0]),
            (60, &[MPI, 3]),
            (70, &[7, 0]),
            (90, &[MPI, 0]),
        ];
        // 60 less 10 to 20, 30 to 36 and 60 to 70.
        assert_eq!(follow(&choice(None, false), &records), [(40, 34)]);
    }

    #[test]
    fn each_value_begins_an_iteration_with_the_size_beside_it() {
        let records: [(u64, &[i128]); 4] = [
            (0, &[7, 1, 8, 100]),
            (10, &[8, 200, 7, 2]),
            (30, &[7, 3, 8, 300]),
            (60, &[7, 0, 8, 301]),
        ];
        let found = follow(&choice(None, false), &records);
        assert_eq!(found, [(100, 10), (200, 20), (301, 30)]);
        // Only the second value counts; another one ends it.
        assert_eq!(follow(&choice(Some(2), false), &records), [(200, 20)]);
    }

    #[test]
    fn nested_calls_belong_to_the_call_around_them() {
        let records: [(u64, &[i128]); 8] = [
            (0, &[8, 9]),
            (1, &[7, 3]),
            (2, &[7, 5]),
            (4, &[7, 6]),
            (5, &[7, 0]),
            (9, &[7, 0]),
            (12, &[7, 0]),
            (13, &[7, 0]),
        ];
        assert_eq!(follow(&choice(Some(5), true), &records), [(9, 7)]);
        assert_eq!(follow(&choice(Some(5), false), &records), [(9, 2)]);
    }

    #[test]
    fn counters_are_summed_over_the_iteration() {
        let counters = EventChoice { units: UnitsChoice::Counter(9), ..choice(None, false) };
        let records: [(u64, &[i128]); 3] =
            [(0, &[9, 1000, 7, 1]), (5, &[9, 30, 11, 1]), (10, &[7, 0, 9, 12])];
        assert_eq!(follow(&counters, &records), [(42, 10)]);
    }

    #[test]
    fn only_the_state_running_counts_if_asked() {
        let choice =
            EventChoice { running: true, units: UnitsChoice::Fixed, ..choice(None, false) };
        let mut course = course();
        let mut found = None;
        for (time, state, events) in [
            (0, Some((12, 3)), &[][..]),
            (10, None, &[7, 1, MPI, 1][..]),
            (12, Some((20, 1)), &[]),
            (20, Some((25, 9)), &[]),
            (25, Some((40, 1)), &[]),
            (40, Some((60, 3)), &[]),
            (50, None, &[7, 0]),
        ] {
            course.move_to(time).expect("times that ascend");
            if let Some((end, state)) = state {
                course.add_state(end, state).expect("a state");
            }
            found = course.add_events(events, &choice).expect("a size").or(found);
        }
        // 10 to 50 less 10 to 12, 20 to 25 and 40 to 50.
        let expected = EndedIteration { amount: 0, computing: 23 };
        assert_eq!(found, Some(expected));
        assert!(course.move_to(49).expect_err("backwards").contains("49 after 50"));
        assert!(course.add_state(49, 1).is_err());
    }
}
