//! The assignments in the course of a multiplication: when they are decided on, and what a change needs.
//!
//! The director is asked about the steps from `b` on when the panels of step `b - 1` are sent for: a [lag](Plan::lag) before it.
//! The question and the answer travel while the devices compute and other panels pass; those of step `b` wait for the
//! answer, and a change for C alone. All ranks have computed with the same pieces of k when step `b` begins.

use isochron_devices::{Scalar, UpdateTime};
use isochron_hierarchy::layout::Layout;

use super::dialogue::Dialogue;
use super::director::{Directive, StepTimes, TimedDirector};
use super::panels::{PanelRoom, RoomSize};
use super::seen_step::SeenStep;
use super::step_log::{StepLog, decode_logs, find_changing_s, find_slowest};
use crate::comm::{Comm, agree};
use crate::error::Error;
use crate::matrix::redistribute::Movement;
use crate::matrix::{Frame, Matrix, Order, Region, Spread};
use crate::plan::Assignment;
use crate::plan::Plan;
use crate::plan::schedule::StepSchedule;
use crate::progress::{Observer, Progress, tell};

/// The assignments of a multiplication, and their director if there is one.
pub(super) struct Course<'d, T: 'static> {
    comm: &'d dyn Comm,
    plan: &'d Plan,
    timed: Option<TimedDirector<'d>>,
    /// Told which node is slowest.
    observer: Option<&'d dyn Observer>,
    /// The last one that was decided on.
    assignment: Assignment,
    steps: StepCounts,
    /// First step without a decided assignment, in the count of the rank with the most steps; `None` if all are decided.
    undecided: Option<usize>,
    /// The changes that wait for their steps, in order.
    ahead: Vec<PreparedChange<T>>,
    /// Number of changes of the layout.
    layouts: usize,
    /// The place of this rank's part of C after the last change.
    frame: Frame,
    /// The size of each set's room.
    room: RoomSize,
    /// The last layout, in the order of changes, that needed more room, and the new room of each set: a set takes one
    /// when it is used for that layout or a later one.
    rooms: (usize, Vec<PanelRoom<T>>),
    dialogue: Dialogue<'d>,
}

/// A change that all ranks have made room for.
pub(super) struct PreparedChange<T: 'static> {
    /// The step of this rank that it comes before.
    pub step: usize,
    /// The columns of this rank's devices.
    pub slices: Vec<usize>,
    /// The spread of C; `None` if only slices change.
    pub spread: Option<Spread>,
    /// The move of this rank's part of C; `None` if it stays.
    pub part_move: Option<PartMove<T>>,
}

/// The move of a rank's part of C to another spread.
pub(super) struct PartMove<T: 'static> {
    pub movement: Movement<T>,
    pub aim: MoveAim<T>,
}

/// The memory that a part of C moves to.
pub(super) enum MoveAim<T: 'static> {
    /// Its own, which has room for the part on this spread.
    Here(Spread),
    New(Box<Matrix<T>>),
}

impl<T: Scalar> PartMove<T> {
    /// Plans the move of a part that lies in `frame`. `allocate` makes new memory for it, if it needs any.
    ///
    /// # Errors
    /// Returns [`Error::Allocation`], on this rank alone.
    pub(super) fn plan(
        comm: &dyn Comm,
        from: &Spread,
        to: Spread,
        frame: Frame,
        allocate: impl FnOnce(Spread, usize) -> Result<Matrix<T>, Error>,
    ) -> Result<Self, Error> {
        let limit = MOVEMENT_BYTES / size_of::<T>();
        let movement = Movement::new(comm, from, &to, Order::Columns, limit)?;
        let aim = match frame.move_to(to.part(comm.rank())) {
            Some(_) => MoveAim::Here(to),
            None => MoveAim::New(Box::new(allocate(to, comm.rank())?)),
        };
        Ok(Self { movement, aim })
    }
}

impl<'d, T: Scalar> Course<'d, T> {
    /// Begins with the assignment of the plan, C in this place, and this room for each set of panels.
    ///
    /// # Errors
    /// Returns [`Error::Unreadable`] on every rank.
    ///
    /// # Collective
    /// All ranks, if there is a director.
    pub(super) fn begin(
        comm: &'d dyn Comm,
        plan: &'d Plan,
        mut timed: Option<TimedDirector<'d>>,
        c: Frame,
        room: RoomSize,
    ) -> Result<Self, Error> {
        let mut undecided = None;
        if let Some(timed) = &mut timed {
            let first = comm.share(0, Some(timed.director.count_first_steps()))?;
            undecided = Some(first.max(1).saturating_add(plan.lag()));
        }
        let mut course = Self {
            comm,
            plan,
            timed,
            observer: None,
            assignment: plan.assignment(),
            steps: StepCounts::of(plan, comm.rank()),
            undecided: None,
            ahead: Vec::new(),
            layouts: 0,
            frame: c,
            room,
            rooms: (0, Vec::new()),
            dialogue: Dialogue::new(comm),
        };
        course.decide_from(undecided);
        Ok(course)
    }

    /// Tells an observer which node is slowest.
    pub(super) fn with_observer(self, observer: Option<&'d dyn Observer>) -> Self {
        Self { observer, ..self }
    }

    /// Lets the next decision be on the steps from this one on, if there are any.
    fn decide_from(&mut self, step: Option<usize>) {
        self.undecided = step.filter(|&step| step < self.steps.most);
    }

    /// Returns the number of this rank's steps whose assignment is decided.
    pub(super) fn count_decided(&self) -> usize {
        let StepCounts { most, mine } = self.steps;
        match self.undecided {
            Some(step) => (step as u128 * mine as u128).div_ceil(most as u128) as usize,
            None => mine,
        }
    }

    /// Returns `true` if a decision is due before panels are sent for this step.
    pub(super) fn is_due(&self, step: usize) -> bool {
        self.undecided.is_some() && self.count_decided() <= step
    }

    /// Returns the number of this rank's steps.
    pub(super) fn count_steps(&self) -> usize {
        self.steps.mine
    }

    /// Returns `true` if there is a director.
    pub(super) fn is_directed(&self) -> bool {
        self.timed.is_some()
    }

    /// Returns the number of changes of the layout so far.
    pub(super) fn layouts(&self) -> usize {
        self.layouts
    }

    /// Takes new room for a set that has the room for an earlier layout, in the order of changes, if there is any.
    pub(super) fn take_room(&mut self, layout: usize) -> Option<PanelRoom<T>> {
        let (first, rooms) = &mut self.rooms;
        if layout < *first { rooms.pop() } else { None }
    }

    /// Returns `true` if the layout changes before this step.
    pub(super) fn moves_at(&self, step: usize) -> bool {
        self.ahead.iter().any(|change| change.step == step && change.spread.is_some())
    }

    /// Takes the change that comes before this step: the last one, if k is split and this rank has few steps.
    pub(super) fn take_change(&mut self, step: usize) -> Option<PreparedChange<T>> {
        self.ahead.extract_if(.., |change| change.step == step).last()
    }

    /// Makes the schedule of a part of k for the last assignment.
    pub(super) fn make_schedule(&self, part: &Plan) -> StepSchedule {
        let rank = self.comm.rank();
        match self.layouts {
            0 => StepSchedule::new(part, rank),
            _ => StepSchedule::on_parts(part, &self.list_parts(), rank),
        }
    }

    /// Returns the parts of C that the ranks compute from the last change on.
    fn list_parts(&self) -> Vec<Region> {
        let spread = self.spread_c(&self.assignment.layout);
        let ranks = 0..self.comm.size();
        ranks.map(|rank| spread.part(rank)).collect()
    }

    fn spread_c(&self, layout: &Layout) -> Spread {
        let problem = self.plan.problem();
        Spread::on_layout(problem.m(), problem.n(), problem.block(), layout)
    }

    /// Notes a step of this rank: `k` of the update, the rows of C, and the columns and times of the devices; no times without
    /// a part of C, and `None` after a failure.
    pub(super) fn log_step(
        &mut self,
        k: usize,
        rows: usize,
        slices: &[usize],
        times: Option<&[UpdateTime]>,
    ) {
        self.dialogue.note_update(k, times.is_some());
        let Some(timed) = &mut self.timed else {
            return;
        };
        let step = match times {
            Some([]) => Some(SeenStep::untimed(k, rows, slices)),
            Some(times) => {
                (timed.clock.read(times, slices)).map(|samples| SeenStep { k, rows, samples })
            }
            None => None,
        };
        let step = step.unwrap_or_else(|| SeenStep::untimed(0, rows, slices));
        self.dialogue.log_step(step);
    }

    /// Notes the seconds of a change, and if this rank's part of C moved.
    pub(super) fn log_change(&mut self, seconds: f64, moves: bool) {
        self.dialogue.log_change(seconds, moves);
    }

    /// Returns the sum of the inner dimensions of this rank's updates so far.
    pub(super) fn k_done(&self) -> usize {
        self.dialogue.k_done()
    }

    /// Asks the director about the next steps, or makes the question progress. It does not wait. A question tells of this rank's
    /// steps before the step `seen`.
    pub(super) fn ask(&mut self, seen: usize) {
        self.dialogue.ask(seen);
        self.drive_question();
    }

    /// Asks as [`ask`](Self::ask) does when the decision is due. Returns `true` once all ranks may [`decide`](Self::decide).
    pub(super) fn is_answered(&mut self, seen: usize) -> bool {
        self.ask(seen);
        self.dialogue.is_agreed()
    }

    /// Makes a question progress that is under way. The director of the head rank answers once all logs are there.
    pub(super) fn drive_question(&mut self) {
        if let Some(logs) = self.dialogue.drive() {
            let answer = self.ask_director(decode_logs(&logs, &self.assignment));
            self.dialogue.tell(answer);
        }
    }

    /// Decides as the director answered on the steps from `step` of this rank on. Returns `true` if the layout changes.
    ///
    /// # Errors
    /// Fails on every rank if the director fails, with [`Error::Shape`] for an assignment that does not fit. No decision follows.
    ///
    /// # Collective
    /// All ranks, once [`is_answered`](Self::is_answered) says so.
    pub(super) fn decide(&mut self, step: usize) -> Result<bool, Error> {
        let (Some(now), Some(answer)) = (self.undecided.take(), self.dialogue.take_answer()) else {
            return Ok(false);
        };
        let Directive { change, steps } = answer?;
        let next = now.saturating_add(steps.max(1));
        let change = change.filter(|next| *next != self.assignment);
        let is_made = match change {
            Some(next) => {
                self.check(&next).map_err(Error::Shape)?;
                self.prepare(step, next)?
            }
            None => None,
        };
        self.decide_from(Some(match is_made {
            Some(_) => next.saturating_add(self.plan.lag()),
            None => next,
        }));
        Ok(is_made.unwrap_or(false))
    }

    /// Hands the steps since the last decision to the director of the head rank. No decision follows.
    ///
    /// # Errors
    /// Fails on every rank if logs cannot be gathered.
    ///
    /// # Collective
    /// All ranks, if there is a director.
    pub(super) fn end(&mut self) -> Result<(), Error> {
        if self.timed.is_none() {
            return Ok(());
        }
        let logs = self.comm.all_gather(&self.dialogue.take_log(usize::MAX))?;
        let logs = decode_logs(&logs, &self.assignment);
        let is_head = self.comm.rank() == 0 && logs.iter().all(|log| !log.has_failed);
        if let Some(timed) = self.timed.as_mut().filter(|_| is_head) {
            let changing_s = find_changing_s(&logs);
            let ranks: Vec<Vec<SeenStep>> = logs.into_iter().map(|log| log.steps).collect();
            timed.director.note_last_steps(&ranks, changing_s);
        }
        Ok(())
    }

    /// Lets the director of the head rank decide.
    fn ask_director(&mut self, logs: Vec<StepLog>) -> Result<Directive, Error> {
        let (Some(timed), Some(step)) = (&mut self.timed, self.undecided) else {
            return Ok(Directive::LAST);
        };
        // After a failure the steps go on without arithmetic: there is nothing to learn.
        if logs.iter().any(|log| log.has_failed) {
            return Ok(Directive::LAST);
        }
        if let Some(rank) = find_slowest(&logs) {
            tell(self.observer, Progress::Slowest { rank });
        }
        timed.director.decide(&StepTimes {
            step,
            steps: self.steps.most,
            assignment: &self.assignment,
            changing_s: find_changing_s(&logs),
            ranks: logs.into_iter().map(|log| log.steps).collect(),
        })
    }

    /// Checks that an assignment is one of this plan's C, ranks and devices.
    fn check(&self, next: &Assignment) -> Result<(), String> {
        let (layout, old) = (&next.layout, &self.assignment);
        let sizes = [layout, &old.layout]
            .map(|layout| (layout.rows(), layout.cols(), layout.rects().len()));
        if sizes[0] != sizes[1] {
            return Err("the layout to change to is not one of this C and these ranks".to_owned());
        }
        let divides_k = self.plan.division().shares().is_some();
        if divides_k && *layout != old.layout {
            return Err("the parts of C that are held stay if k is split".to_owned());
        }
        if !next.slices.iter().map(Vec::len).eq(old.slices.iter().map(Vec::len)) {
            return Err("the slices to change to are those of other devices".to_owned());
        }
        let spread = self.spread_c(layout);
        for (rank, slices) in next.slices.iter().enumerate() {
            let wanted =
                if divides_k { self.plan.computed(rank).cols } else { spread.part(rank).cols };
            let found = slices.iter().copied().fold(0, usize::saturating_add);
            if found != wanted {
                return Err(format!(
                    "the slices of rank {rank} have {found} columns, the part has {wanted}"
                ));
            }
        }
        Ok(())
    }

    /// Makes room for a change before `step` on all ranks. Returns `true` if it changes the layout, and `None` if it
    /// found no room on some rank.
    fn prepare(&mut self, step: usize, next: Assignment) -> Result<Option<bool>, Error> {
        let rank = self.comm.rank();
        let mut change = PreparedChange {
            step,
            slices: next.slices[rank].clone(),
            spread: None,
            part_move: None,
        };
        let moves = next.layout != self.assignment.layout;
        if moves {
            match self.make_room(&next.layout) {
                Ok((moved, rooms)) => {
                    if let Some((part_move, frame)) = moved {
                        change.part_move = Some(part_move);
                        self.frame = frame;
                    }
                    if let Some(room) = rooms.first() {
                        self.room = room.size();
                        self.rooms = (self.layouts + 1, rooms);
                    }
                }
                Err(error) => {
                    tracing::info!(%error, "a change of the layout finds no room");
                    if let Some(timed) = &mut self.timed {
                        timed.director.note_refusal(&error);
                    }
                    return Ok(None);
                }
            }
            self.layouts += 1;
            change.spread = Some(self.spread_c(&next.layout));
        }
        self.assignment = next;
        self.ahead.push(change);
        Ok(Some(moves))
    }
}

/// Room on a rank for a layout: the move of its part of C with its new place, and room for panels.
type LayoutRoom<T> = (Option<(PartMove<T>, Frame)>, Vec<PanelRoom<T>>);

impl<T: Scalar> Course<'_, T> {
    /// Makes room for a layout on all ranks. A rank whose part of C stays needs no other memory for it.
    ///
    /// # Errors
    /// Fails on every rank as [`Director::check_memory`], or with [`Error::Allocation`].
    fn make_room(&mut self, layout: &Layout) -> Result<LayoutRoom<T>, Error> {
        let rank = self.comm.rank();
        let [from, to] = [&self.assignment.layout, layout].map(|layout| self.spread_c(layout));
        let parts = [&from, &to].map(|spread| spread.part(rank));
        let size = self.room.grow_to(&self.size_room(&to));
        let mut elements = 0;
        if parts[0] != parts[1] {
            elements += self.count_moving(parts);
        }
        if size != self.room {
            elements += self.plan.panel_sets() * size.count();
        }
        if let Some(timed) = &mut self.timed {
            (timed.director).check_memory(self.comm, (elements * size_of::<T>()) as u64)?;
        }
        agree(self.comm, self.allocate(&from, to, size))
    }

    /// Counts the elements of the memory that a move of this rank's part of C takes, with its messages.
    fn count_moving(&self, [from, to]: [Region; 2]) -> usize {
        let kept = from.intersection(&to).len();
        let sent = from.len() + to.len() - 2 * kept;
        let written = match self.frame.move_to(to) {
            // Memory that has been written once stays.
            Some(frame) => frame.count_covered().saturating_sub(kept),
            None => to.len() + 2 * to.cols * (to.rows / ROW_ROOM),
        };
        written + sent.min(MOVEMENT_BYTES / size_of::<T>())
    }

    /// Returns the room that a set of panels needs if C is computed on this spread.
    fn size_room(&self, c: &Spread) -> RoomSize {
        let rank = self.comm.rank();
        let parts: Vec<Region> = (0..self.comm.size()).map(|rank| c.part(rank)).collect();
        let schedules: Vec<StepSchedule> = self
            .plan
            .unlike_parts()
            .into_iter()
            .map(|(part, _)| StepSchedule::on_parts(part.plan(), &parts, rank))
            .collect();
        RoomSize::of(&schedules, self.plan.panel())
    }

    fn allocate(&self, from: &Spread, to: Spread, size: RoomSize) -> Result<LayoutRoom<T>, Error> {
        let rank = self.comm.rank();
        let sets = if size == self.room { 0 } else { self.plan.panel_sets() };
        let rooms = (0..sets).map(|_| PanelRoom::allocate(size));
        let rooms = rooms.collect::<Result<_, Error>>()?;
        let part = to.part(rank);
        if from.part(rank) == part {
            return Ok((None, rooms));
        }
        let part_move = PartMove::plan(self.comm, from, to, self.frame, |to, rank| {
            Matrix::zeros_with_room(to, rank, part.rows / ROW_ROOM)
        })?;
        let frame = match &part_move.aim {
            MoveAim::New(target) => Some(target.frame()),
            MoveAim::Here(_) => self.frame.move_to(part),
        };
        Ok((frame.map(|frame| (part_move, frame)), rooms))
    }
}

/// Bytes of messages of C that a rank packs or waits for at a time. More would only be fresh memory, whose pages cost
/// more than the messages.
const MOVEMENT_BYTES: usize = 8 << 20;

/// New memory for a part of C leaves this fraction of its rows free above and below: 1/8.
const ROW_ROOM: usize = 8;

/// Numbers of steps. They differ only if k is split.
#[derive(Debug, Clone, Copy)]
struct StepCounts {
    /// The steps of the rank with the most.
    most: usize,
    /// The steps of this rank.
    mine: usize,
}

impl StepCounts {
    fn of(plan: &Plan, rank: usize) -> Self {
        let most = (0..plan.n_ranks()).map(|rank| plan.steps(rank)).max();
        Self { most: most.unwrap_or(0), mine: plan.steps(rank) }
    }
}
