//! Rounds of measuring that all ranks make in step.

use super::Comm;

/// The repetitions that all ranks make in step.
///
/// Before each round every rank asks once and says if it needs the round. There is one as long as any rank needs it.
/// When none does, the rounds are over: all ranks learn that from the same question, and none asks again.
pub struct MeasureRounds<'c> {
    comm: &'c dyn Comm,
    over: bool,
}

impl<'c> MeasureRounds<'c> {
    /// Begins rounds of all ranks.
    pub fn new(comm: &'c dyn Comm) -> Self {
        Self { comm, over: false }
    }

    /// Returns `true` if there is another round; `needed` says if this rank needs one.
    ///
    /// # Collective
    /// All ranks, until it is false.
    pub fn ask_for_round(&mut self, needed: bool) -> bool {
        self.ask_unless(needed, false)
    }

    /// Does the same, and ends the rounds if any rank has `refused` another.
    ///
    /// # Collective
    /// All ranks, until it is false. The others may [ask](Self::ask_for_round) without the right to refuse.
    pub fn ask_unless(&mut self, needed: bool, refused: bool) -> bool {
        if !self.over {
            let mut answers = [u64::from(needed), u64::from(refused)];
            self.comm.sum_u64(&mut answers);
            self.over = answers[0] == 0 || answers[1] > 0;
        }
        !self.over
    }
}
