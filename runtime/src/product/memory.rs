//! The memory of a multiplication beside its matrices.

use isochron_devices::{DeviceTeam, Scalar};

use super::check::check_element;
use super::panels::{PanelRoom, RoomSize, StepPanels};
use crate::error::Error;
use crate::matrix::{Matrix, Region, Spread};
use crate::plan::Plan;
use crate::plan::schedule::StepSchedule;

/// The memory of a multiplication beside its matrices, kept for the next one.
#[derive(Debug)]
pub struct RunMemory<T: 'static> {
    /// The rooms of the panels.
    pub(super) rooms: Vec<PanelRoom<T>>,
    /// A rank's contribution to C if k is split.
    pub(super) partial: Option<Matrix<T>>,
}

impl<T: 'static> Default for RunMemory<T> {
    fn default() -> Self {
        Self { rooms: Vec::new(), partial: None }
    }
}

impl<T: Scalar> RunMemory<T> {
    /// Makes the memory that a failed run has lost, and reserves the memory of the devices again.
    ///
    /// # Errors
    /// As [`make`](Self::make).
    pub fn renew(&mut self, team: &mut DeviceTeam, plan: &Plan, rank: usize) -> Result<(), Error> {
        if self.rooms.len() != plan.panel_sets() {
            // A failure has cost the rooms.
            return self.make(team, plan, rank);
        }
        team.reserve(&plan.job_shape(rank), &plan.slices(rank))?;
        Ok(())
    }

    /// Makes the memory for a multiplication of this plan, as far as it is missing. The thread or the device that uses new memory
    /// writes it first, so that its pages lie next to it.
    ///
    /// # Errors
    /// On this rank alone, returns [`Error::Shape`] for a plan of another element type; [`Error::Allocation`] and
    /// [`Error::Device`] if memory is missing.
    pub fn make(&mut self, team: &mut DeviceTeam, plan: &Plan, rank: usize) -> Result<(), Error> {
        check_element::<T>(plan)?;
        let (job, slices) = (plan.job_shape(rank), plan.slices(rank));
        team.reserve(&job, &slices)?;
        let schedules: Vec<_> = plan
            .unlike_parts()
            .into_iter()
            .map(|(part, _)| StepSchedule::new(part.plan(), rank))
            .collect();
        let (count, size) = (plan.panel_sets(), RoomSize::of(&schedules, plan.panel()));
        let kept = &self.rooms;
        if kept.len() != count || !kept.iter().all(|room| room.suffices_for(size)) {
            // Before new memory is taken.
            self.rooms.clear();
            let mut sets = (0..count)
                .map(|_| PanelRoom::allocate(size).map(StepPanels::new))
                .collect::<Result<Vec<_>, _>>()?;
            prepare_panels(&schedules, &mut sets);
            for panels in &mut sets {
                if let Some(room) = panels.b_panel(job.cols) {
                    team.scale(T::ZERO, room, &slices)?;
                }
            }
            self.keep(sets);
        }
        self.partial = take_partial(self.partial.take(), plan, rank)?;
        Ok(())
    }

    /// Keeps the rooms of panels. After a failure their memory may be gone.
    pub(super) fn keep(&mut self, sets: Vec<StepPanels<'_, T>>) {
        let rooms = sets.into_iter().map(StepPanels::into_room);
        self.rooms = rooms.filter(|room| !room.is_lost()).collect();
    }
}

/// Writes to new panels, as [`StepPanels::prepare`] does.
fn prepare_panels<T: Scalar>(schedules: &[StepSchedule], fresh: &mut [StepPanels<'_, T>]) {
    let sets = fresh.len();
    for schedule in schedules {
        for (first, panels) in fresh.iter_mut().enumerate() {
            let steps = (first..schedule.piece_count()).step_by(sets);
            panels.prepare(schedule, steps);
        }
    }
}

/// Returns the room for a rank's contribution to all of C if k is split, without elements if its share is empty: the kept
/// one, or a new one. Returns `None` if C stays in place.
fn take_partial<T: Scalar>(
    kept: Option<Matrix<T>>,
    plan: &Plan,
    rank: usize,
) -> Result<Option<Matrix<T>>, Error> {
    if plan.division().shares().is_none() {
        return Ok(None);
    }
    let Region { rows, cols, .. } = plan.computed(rank);
    let has_room = |kept: &Matrix<T>| (kept.part().rows, kept.part().cols) == (rows, cols);
    match kept.filter(has_room) {
        Some(kept) => Ok(Some(kept)),
        None => Matrix::zeros(Spread::whole(rows, cols), 0).map(Some),
    }
}
