//! What the ranks and the director of the head rank tell each other in a multiplication.

use super::director::Directive;
use super::seen_step::SeenStep;
use super::step_log::StepLog;
use crate::comm::{Comm, Letter, Transfer, decode_outcome, encode_outcome, post};
use crate::error::Error;

/// This rank's side: its log, the question that is under way, and the answer.
///
/// A question is the logs of all ranks, on their way to the head rank; its answer goes to all. Nothing waits meanwhile. A rank
/// may have the answer while another one has yet to come to its step, so all meet before they act on it together.
pub(super) struct Dialogue<'c> {
    comm: &'c dyn Comm,
    /// What no question has told.
    log: StepLog,
    /// The steps that have been logged, since the beginning.
    logged: usize,
    /// The changes that no question has told, in order.
    changes: Vec<LoggedChange>,
    question: Option<Question<'c>>,
    answer: Option<Result<Directive, Error>>,
    /// The answer while the ranks meet.
    kept: Option<Result<Directive, Error>>,
    /// The ranks have met since the answer came.
    has_met: bool,
    /// The last answer of the head rank, as it is sent.
    told: Option<Transfer<'c, u8>>,
}

/// A change of the division on this rank.
struct LoggedChange {
    /// The step that it came before.
    step: usize,
    seconds: f64,
    /// This rank's part of C moved.
    moves: bool,
}

impl<'c> Dialogue<'c> {
    pub(super) fn new(comm: &'c dyn Comm) -> Self {
        Self {
            comm,
            log: StepLog::default(),
            logged: 0,
            changes: Vec::new(),
            question: None,
            answer: None,
            kept: None,
            has_met: false,
            told: None,
        }
    }

    /// Notes an update of this inner dimension, and if it was computed.
    pub(super) fn note_update(&mut self, k: usize, is_computed: bool) {
        self.log.k += k;
        self.log.has_failed |= !is_computed;
    }

    /// Returns the sum of the inner dimensions of this rank's updates so far.
    pub(super) fn k_done(&self) -> usize {
        self.log.k
    }

    pub(super) fn log_step(&mut self, step: SeenStep) {
        self.log.steps.push(step);
        self.logged += 1;
    }

    /// Logs a change before the next step.
    pub(super) fn log_change(&mut self, seconds: f64, moves: bool) {
        self.changes.push(LoggedChange { step: self.logged, seconds, moves });
    }

    /// Returns what no question has told of the steps before `seen`, and begins the next log.
    pub(super) fn take_log(&mut self, seen: usize) -> Vec<u8> {
        let later = self.logged.saturating_sub(seen).min(self.log.steps.len());
        let steps = self.log.steps.split_off(self.log.steps.len() - later);
        for change in self.changes.extract_if(.., |change| change.step <= seen) {
            (self.log.changing_s, self.log.has_moved) = (change.seconds, change.moves);
        }
        let log = bytemuck::cast_slice(&self.log.encode()).to_vec();
        self.log = StepLog { k: self.log.k, steps, ..StepLog::default() };
        log
    }

    /// Asks the director, unless a question is under way or answered.
    pub(super) fn ask(&mut self, seen: usize) {
        if self.question.is_some() || self.answer.is_some() {
            return;
        }
        let log = self.take_log(seen);
        match Question::ask(self.comm, log) {
            Ok(question) => self.question = Some(question),
            Err(error) => self.answer = Some(Err(error)),
        }
    }

    /// Makes a question progress. Returns the logs of all ranks once they are on the head rank, which then
    /// [tells](Self::tell) its answer.
    pub(super) fn drive(&mut self) -> Option<Vec<Vec<u8>>> {
        let question = self.question.as_mut()?;
        match question.progress() {
            Ok(false) => return None,
            Ok(true) => {}
            Err(error) => self.answer = Some(Err(error)),
        }
        let question = self.question.take()?;
        let kept = self.kept.take();
        self.has_met = kept.is_some();
        if self.answer.is_none() && self.comm.rank() == 0 {
            let Some(kept) = kept else {
                return Some(question.logs());
            };
            self.tell(kept);
            return None;
        }
        self.answer.get_or_insert_with(|| decode_outcome(0, &question.answer()));
        None
    }

    /// Tells all ranks the answer, on the head rank.
    pub(super) fn tell(&mut self, answer: Result<Directive, Error>) {
        let ranks = self.comm.size();
        if ranks == 1 {
            self.answer = Some(answer);
            return;
        }
        let text = encode_outcome(self.comm, answer);
        let posted = post(self.comm, 1..ranks, &text);
        self.answer = Some(posted.and_then(|told| {
            self.told = Some(told);
            decode_outcome(0, &text)
        }));
    }

    /// Returns `true` once the answer is here and, if it is a change, all ranks have called this: the change is made by all
    /// together, and a rank that waits for them passes on no more panels.
    pub(super) fn is_agreed(&mut self) -> bool {
        let changes = |answer: &Result<Directive, Error>| {
            answer.as_ref().is_ok_and(|directive| directive.change.is_some())
        };
        if !self.has_met && self.answer.as_ref().is_some_and(changes) {
            self.kept = self.answer.take();
            match Question::ask(self.comm, Vec::new()) {
                Ok(question) => self.question = Some(question),
                Err(error) => self.answer = Some(Err(error)),
            }
        }
        self.answer.is_some()
    }

    pub(super) fn take_answer(&mut self) -> Option<Result<Directive, Error>> {
        self.has_met = false;
        self.answer.take()
    }
}

/// The ranks' logs on their way to the head rank, and its answer on the way back.
struct Question<'c> {
    /// This rank's log.
    log: Vec<u8>,
    /// The log as it is sent; `None` on the head rank.
    _posted: Option<Transfer<'c, u8>>,
    /// The logs of the other ranks, on the head rank; the answer, on the others.
    awaited: Vec<Letter<'c>>,
}

impl<'c> Question<'c> {
    /// Posts this rank's log.
    ///
    /// # Errors
    /// Returns the errors of [`Comm`].
    fn ask(comm: &'c dyn Comm, log: Vec<u8>) -> Result<Self, Error> {
        let is_head = comm.rank() == 0;
        let posted = if is_head { None } else { Some(post(comm, 0..1, &log)?) };
        let from = if is_head { 1..comm.size() } else { 0..1 };
        let awaited = from.map(|rank| Letter::expect(comm, rank)).collect::<Result<_, _>>()?;
        Ok(Self { log, _posted: posted, awaited })
    }

    /// Makes it progress; returns `true` once all logs are here on the head rank, and the answer on the others.
    ///
    /// # Errors
    /// Returns the errors of [`Comm`].
    fn progress(&mut self) -> Result<bool, Error> {
        let mut are_here = true;
        for letter in &mut self.awaited {
            are_here &= letter.progress()?;
        }
        Ok(are_here)
    }

    /// Returns the logs by rank, on the head rank.
    fn logs(self) -> Vec<Vec<u8>> {
        let others = self.awaited.into_iter().map(Letter::into_text);
        std::iter::once(self.log).chain(others).collect()
    }

    /// Returns the answer, on the other ranks.
    fn answer(mut self) -> Vec<u8> {
        self.awaited.pop().map_or_else(Vec::new, Letter::into_text)
    }
}

#[cfg(test)]
mod tests {
    use isochron_hierarchy::layout::slice_cols;

    use super::*;
    use crate::comm::LocalComm;
    use crate::plan::Assignment;

    #[test]
    fn a_question_tells_the_steps_before_its_own_and_the_changes_up_to_it() {
        let comm = LocalComm::new();
        let mut dialogue = Dialogue::new(&comm);
        for step in 0..5 {
            if step == 2 || step == 4 {
                dialogue.log_change(f64::from(step), step == 2);
            }
            dialogue.note_update(8, true);
            dialogue.log_step(SeenStep::untimed(8, step as usize, &[1]));
        }
        // However late it is asked.
        for (seen, rows, change) in
            [(3, 0..3, (2.0, true)), (3, 3..3, (0.0, false)), (usize::MAX, 3..5, (4.0, false))]
        {
            let log = StepLog::decode(&dialogue.take_log(seen), 1);
            assert!(log.steps.iter().map(|step| step.rows).eq(rows), "{seen}");
            assert_eq!((log.changing_s, log.has_moved), change, "{seen}");
        }
        assert_eq!(dialogue.k_done(), 40);
    }

    #[test]
    fn the_only_rank_answers_itself() {
        let comm = LocalComm::new();
        let mut dialogue = Dialogue::new(&comm);
        dialogue.ask(0);
        assert_eq!(dialogue.drive().map(|logs| logs.len()), Some(1));
        assert!(!dialogue.is_agreed() && dialogue.drive().is_none());
        dialogue.tell(Ok(Directive::LAST));
        assert!(dialogue.is_agreed());
        // What is answered is not asked again.
        dialogue.ask(0);
        assert!(dialogue.drive().is_none());
        assert_eq!(dialogue.take_answer().unwrap().unwrap(), Directive::LAST);
    }

    #[test]
    fn the_ranks_meet_before_a_change() {
        let comm = LocalComm::new();
        let mut dialogue = Dialogue::new(&comm);
        dialogue.ask(0);
        assert!(dialogue.drive().is_some());
        let change = Some(Assignment { layout: slice_cols(1, &[1]).unwrap(), slices: Vec::new() });
        let directive = Directive { change, steps: 1 };
        dialogue.tell(Ok(directive.clone()));
        assert!(!dialogue.is_agreed() && dialogue.drive().is_none() && dialogue.is_agreed());
        assert_eq!(dialogue.take_answer().unwrap().unwrap(), directive);
    }
}
