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

    /// Returns `true` if there is another round; `needed` says if this rank needs one. If the communicator has failed, there is
    /// none: that lasts, so the next call reports it.
    ///
    /// # Collective
    /// All ranks, until it is false.
    pub fn ask_for_round(&mut self, needed: bool) -> bool {
        if !self.over {
            let mut needing = [u64::from(needed)];
            self.over = self.comm.sum_u64(&mut needing).is_err() || needing[0] == 0;
        }
        !self.over
    }
}
