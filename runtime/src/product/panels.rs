//! The panels of one step of SUMMA, and the messages that bring them.

use std::ops::Range;

use isochron_devices::{Scalar, View, ViewMut};

use crate::comm::{Comm, Message, Transfer};
use crate::error::Error;
use crate::matrix::redistribute::Moved;
use crate::matrix::{Operand, Region, try_zeros};
use crate::plan::schedule::{A, B, PanelPiece, StepSchedule, StepTransfers};
use crate::progress::{Observer, Progress, tell};

/// The operands of a multiplication, read step by step.
pub(super) struct StepOperands<'a, 'o, T> {
    pub comm: &'a dyn Comm,
    pub observer: Option<&'a dyn Observer>,
    /// A and B.
    pub factors: [Operand<'o, T>; 2],
    /// The steps of all parts of k before those of these operands.
    pub first_step: usize,
}

/// Elements of the memory for a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct RoomSize {
    /// The panels of A and of B.
    pub panels: [usize; 2],
    /// Messages that are packed, or that arrive apart from the panels.
    pub messages: usize,
}

impl RoomSize {
    /// Returns the room for the steps of these schedules, with panels of at most `width`.
    pub fn of(schedules: &[StepSchedule], width: usize) -> Self {
        let (mut panels, mut sent) = ([0; 2], 0);
        for schedule in schedules {
            let (c, needed) = (schedule.c(), schedule.needs_panels());
            for (side, across) in [(A, c.rows), (B, c.cols)] {
                panels[side] = panels[side].max(if needed[side] { across * width } else { 0 });
            }
            sent = sent.max(schedule.sent_across(A) + schedule.sent_across(B));
        }
        Self {
            panels,
            // All pieces that come may come apart from the panels.
            messages: panels[A] + panels[B] + sent * width,
        }
    }

    /// Returns the number of all elements.
    pub fn count(&self) -> usize {
        self.panels[A] + self.panels[B] + self.messages
    }

    /// Returns the room after a layout that needs this much: no less than before.
    pub fn grow_to(&self, needed: &Self) -> Self {
        Self {
            panels: [A, B].map(|side| grow(self.panels[side], needed.panels[side])),
            messages: grow(self.messages, needed.messages),
        }
    }
}

/// Grown room has room for one of this number of its elements more.
const MORE_ROOM: usize = 4;

fn grow(elements: usize, needed: usize) -> usize {
    if needed > elements { needed + needed / MORE_ROOM } else { elements }
}

/// Memory for a step: the panels of A and B, then the messages.
///
/// In one piece it lies in huge pages. These take a third of the time to make that the small pages of several pieces take.
#[derive(Debug)]
pub(super) struct PanelRoom<T> {
    memory: Vec<T>,
    size: RoomSize,
}

impl<T: Scalar> PanelRoom<T> {
    /// Allocates memory that is not written yet.
    ///
    /// # Errors
    /// Returns [`Error::Allocation`].
    pub fn allocate(size: RoomSize) -> Result<Self, Error> {
        let memory = try_zeros(size.count(), "the panels of a step")?;
        Ok(Self { memory, size })
    }

    /// Returns its size.
    pub fn size(&self) -> RoomSize {
        self.size
    }

    /// Returns `true` if it has room for this much.
    pub fn suffices_for(&self, needed: RoomSize) -> bool {
        self.size.grow_to(&needed) == self.size
    }

    /// Returns `true` if its memory is gone, as after a failed message.
    pub fn is_lost(&self) -> bool {
        self.memory.len() != self.size.count()
    }
}

/// The panels of one step, and their progress.
///
/// `A: rows×width` and `B: width×cols` are column-major without gaps. A panel that its rank holds whole is not copied: it
/// is then a part of the operand itself.
pub(super) struct StepPanels<'a, T> {
    /// It stays from step to step, since fresh memory would be faulted in every time. Empty while messages are under way.
    room: PanelRoom<T>,
    /// Elements of the room that the step has taken.
    taken: usize,
    coming: Option<ComingPanels<'a, T>>,
    /// The blocks of A and B that the panels hold.
    blocks: [Region; 2],
    /// For A and B, `true` if the panel is the operand's own memory.
    in_place: [bool; 2],
    /// Messages that arrive apart from the panels, since their places there are strided.
    staged: Vec<StagedPiece>,
    /// Number of the layout, in the order of changes, that there is room for.
    layout: usize,
    /// Inner dimension of the step, also if the panels are empty.
    k: usize,
}

/// Messages under way, with the memory.
struct ComingPanels<'a, T> {
    transfer: Transfer<'a, T>,
    /// The step, counted over all parts of k.
    step: usize,
    /// Told of the end; `None` if nothing travels.
    observer: Option<&'a dyn Observer>,
}

/// A message apart from the panels, and its place in one.
struct StagedPiece {
    /// Elements of the room.
    range: Range<usize>,
    side: usize,
    block: Region,
}

impl<'a, T: Scalar> StepPanels<'a, T> {
    /// Makes panels in this room.
    pub(super) fn new(room: PanelRoom<T>) -> Self {
        Self {
            room,
            taken: 0,
            coming: None,
            blocks: [Region::default(); 2],
            in_place: [false; 2],
            staged: Vec::new(),
            layout: 0,
            k: 0,
        }
    }

    /// Returns the room.
    pub(super) fn into_room(self) -> PanelRoom<T> {
        self.room
    }

    /// Returns the inner dimension of the step.
    pub(super) fn k(&self) -> usize {
        self.k
    }

    /// Returns the number of the layout, in the order of changes, that there is room for.
    pub(super) fn layout(&self) -> usize {
        self.layout
    }

    /// Enters another layout, with other room if it needs more. The panels must be here.
    pub(super) fn enter_layout(&mut self, layout: usize, room: Option<PanelRoom<T>>) {
        assert!(self.coming.is_none(), "panels get other room while they travel");
        self.layout = layout;
        if let Some(room) = room {
            self.room = room;
        }
    }

    /// Writes to the panel of A and to the room for the messages of these steps, so that no page is made while messages are
    /// under way. [`b_panel`](Self::b_panel) is for the devices to write.
    pub(super) fn prepare(&mut self, schedule: &StepSchedule, steps: impl Iterator<Item = usize>) {
        let RoomSize { panels, .. } = self.room.size;
        let messages = steps.map(|step| {
            let blocks = schedule.panel_blocks(step);
            [A, B]
                .map(|side| {
                    let transfers = schedule.step_transfers(step, side);
                    let is_copied = schedule.copied()[side];
                    count_messages(&transfers, &blocks[side], is_copied, panels[side])
                })
                .iter()
                .sum()
        });
        let messages = messages.max().unwrap_or(0);
        let (of_a, rest) = self.room.memory.split_at_mut(panels[A]);
        touch_pages(of_a);
        touch_pages(&mut rest[panels[B]..][..messages]);
    }

    /// Returns the room for the widest panel of B, over the columns of a part of C; `None` if there is none.
    pub(super) fn b_panel(&mut self, cols: usize) -> Option<ViewMut<'_, T>> {
        let RoomSize { panels, .. } = self.room.size;
        let width = panels[B] / cols.max(1);
        let memory = &mut self.room.memory[panels[A]..];
        (width > 0).then(|| ViewMut::new(memory, width, cols, width))
    }

    /// Sends the pieces of `step` that others need, copies those that this rank holds itself, and starts to receive the
    /// rest. Returns the messages that this rank sends, and those that it passes on.
    pub(super) fn start(
        &mut self,
        operands: &StepOperands<'a, '_, T>,
        schedule: &StepSchedule,
        step: usize,
    ) -> Result<Moved, Error> {
        assert!(self.coming.is_none(), "panels are sent for while they travel");
        self.staged.clear();
        self.blocks = schedule.panel_blocks(step);
        self.k = schedule.count_k(step);
        self.taken = self.room.size.panels.iter().sum();
        let (mut sends, mut recvs) = (Vec::new(), Vec::new());
        for (side, factor) in operands.factors.iter().enumerate() {
            let transfers = schedule.step_transfers(step, side);
            let (own, panel) = (transfers.own, self.blocks[side]);
            self.in_place[side] = is_in_place(&transfers, &panel, schedule.copied()[side]);
            let free = self.find_free(side);
            self.pack_pieces(factor, &transfers.sends, free, &mut sends);
            if let Some(own) = own.filter(|_| !self.in_place[side]) {
                let first = self.find_panel(side);
                let place = panel.view_part(&own, &mut self.room.memory[first..]);
                factor.copy(&own, place);
            }
            for piece in transfers.recvs {
                recvs.push(self.expect_piece(side, piece));
            }
        }
        let mut sent = Moved::default();
        sent.count_messages::<T>(sends.iter().map(|send| send.range.len()));
        for recv in &recvs {
            sent.count_messages::<T>(recv.forward.iter().map(|_| recv.range.len()));
        }
        tracing::trace!(k = self.blocks[A].col, messages = recvs.len(), "panels are sent for");
        let step = operands.first_step + step;
        let travels = !(sends.is_empty() && recvs.is_empty());
        let observer = operands.observer.filter(|_| travels);
        if let Some(observer) = observer {
            let count_bytes = |messages: &[Message]| {
                let elements = messages.iter().map(|message| message.range.len());
                elements.sum::<usize>() * size_of::<T>()
            };
            observer.observe(Progress::PanelsUnderWay {
                step,
                messages: recvs.len(),
                bytes: count_bytes(&recvs),
                sent_bytes: count_bytes(&sends),
            });
        }
        let memory = vec![std::mem::take(&mut self.room.memory)];
        self.coming = Some(ComingPanels {
            transfer: Transfer::start(operands.comm, memory, &sends, &recvs)?,
            step,
            observer,
        });
        Ok(sent)
    }

    /// Makes the messages progress and puts arrivals into place. Returns `true` once the panels are here.
    pub(super) fn progress(&mut self) -> Result<bool, Error> {
        if let Some(coming) = &mut self.coming
            && !coming.transfer.progress()?
        {
            return Ok(false);
        }
        if let Some(coming) = self.coming.take() {
            let step = coming.step;
            tell(coming.observer, Progress::PanelsHere { step });
            self.room.memory = coming.transfer.finish()?.pop().unwrap_or_default();
            self.unpack_staged();
        }
        Ok(true)
    }

    /// Copies the messages that arrived apart from the panels into them.
    fn unpack_staged(&mut self) {
        let panels = self.room.size.panels.iter().sum();
        let first = [A, B].map(|side| self.find_panel(side));
        let (panels, messages) = self.room.memory.split_at_mut(panels);
        for StagedPiece { range, side, block } in &self.staged {
            let data = &messages[range.start - panels.len()..][..range.len()];
            let mut place = self.blocks[*side].view_part(block, &mut panels[first[*side]..]);
            place.copy_from(View::new(data, block.rows, block.cols, block.rows));
        }
        tracing::trace!(k = self.blocks[A].col, "panels are here");
    }

    /// Returns the first element of a panel.
    fn find_panel(&self, side: usize) -> usize {
        [0, self.room.size.panels[A]][side]
    }

    /// Returns the panels of A and B, which must be here.
    pub(super) fn both_views<'s>(&'s self, operands: &StepOperands<'_, 's, T>) -> [View<'s, T>; 2] {
        assert!(self.coming.is_none(), "panels are asked for while they travel");
        [A, B].map(|side| {
            let panel = &self.blocks[side];
            let factor = &operands.factors[side];
            self.in_place[side].then(|| factor.in_place(panel)).flatten().unwrap_or_else(|| {
                let data = &self.room.memory[self.find_panel(side)..][..panel.len()];
                View::new(data, panel.rows, panel.cols, panel.rows.max(1))
            })
        })
    }

    /// Returns the elements of the room for a panel that is the operand's own memory: there is room for messages instead.
    fn find_free(&self, side: usize) -> Range<usize> {
        let first = self.find_panel(side);
        if self.in_place[side] { first..first + self.room.size.panels[side] } else { first..first }
    }

    /// Takes the next `len` elements for a message.
    fn take_elements(&mut self, len: usize) -> Range<usize> {
        let range = self.taken..self.taken + len;
        self.taken = range.end;
        range
    }

    /// Packs blocks for sending, each once, however many ranks read it: into these free elements while there are enough.
    fn pack_pieces(
        &mut self,
        factor: &Operand<'_, T>,
        pieces: &[PanelPiece],
        mut free: Range<usize>,
        sends: &mut Vec<Message>,
    ) {
        for block in distinct_blocks(pieces) {
            let range = if block.len() <= free.len() {
                let first = free.start;
                free.start += block.len();
                first..free.start
            } else {
                self.take_elements(block.len())
            };
            let place = block.view_part(block, &mut self.room.memory[range.clone()]);
            factor.copy(block, place);
            for piece in pieces.iter().filter(|piece| piece.block == *block) {
                sends.push(Message {
                    tag: piece.tag,
                    ..Message::plain(piece.rank, 0, range.clone())
                });
            }
        }
    }

    /// Makes the message that receives a piece of a panel: in the panel if its place there is contiguous, else apart from
    /// it.
    fn expect_piece(&mut self, side: usize, piece: PanelPiece) -> Message {
        let (panel, block) = (self.blocks[side], piece.block);
        let range = if is_contiguous(&block, &panel) {
            let first = self.find_panel(side) + (block.col - panel.col) * panel.rows;
            first..first + block.len()
        } else {
            let range = self.take_elements(block.len());
            self.staged.push(StagedPiece { range: range.clone(), side, block });
            range
        };
        Message { tag: piece.tag, forward: piece.forward, ..Message::plain(piece.rank, 0, range) }
    }
}

/// Counts the elements of the messages of a panel that are packed or arrive apart from it, and for which the panel's own
/// room is not free.
fn count_messages(
    transfers: &StepTransfers,
    panel: &Region,
    is_copied: bool,
    room: usize,
) -> usize {
    let mut free = if is_in_place(transfers, panel, is_copied) { room } else { 0 };
    let mut count = 0;
    for block in distinct_blocks(&transfers.sends) {
        if block.len() <= free { free -= block.len() } else { count += block.len() }
    }
    let apart = transfers
        .recvs
        .iter()
        .map(|piece| &piece.block)
        .filter(|block| !is_contiguous(block, panel));
    count + apart.map(Region::len).sum::<usize>()
}

/// Returns `true` if a panel is the operand's own memory.
fn is_in_place(transfers: &StepTransfers, panel: &Region, is_copied: bool) -> bool {
    transfers.own == Some(*panel) && !is_copied
}

/// Returns `true` if a block of a panel has all of its rows.
fn is_contiguous(block: &Region, panel: &Region) -> bool {
    block.row_range() == panel.row_range()
}

/// Writes to every page of memory that holds zeros, since the system makes a page at the first write to it.
fn touch_pages<T: Scalar>(zeros: &mut [T]) {
    const SMALLEST_PAGE: usize = 4096;
    for value in zeros.iter_mut().step_by(SMALLEST_PAGE / size_of::<T>()) {
        *value = T::ZERO;
    }
}

/// Returns the blocks of these pieces, each once.
fn distinct_blocks(pieces: &[PanelPiece]) -> Vec<&Region> {
    let mut blocks: Vec<&Region> = Vec::new();
    for PanelPiece { block, .. } in pieces {
        if !blocks.contains(&block) {
            blocks.push(block);
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use isochron_hierarchy::layout::columns;

    use super::*;
    use crate::matrix::Spread;
    use crate::plan::{Plan, Problem};

    #[test]
    fn a_room_suffices_for_less_unless_it_is_lost() {
        let [small, large] = [2, 3].map(|side| RoomSize { panels: [side; 2], messages: side });
        let mut room = PanelRoom::<f64>::allocate(large).unwrap();
        assert!(room.suffices_for(small) && room.suffices_for(large));
        let wider = RoomSize { messages: 4, ..small };
        assert!(!room.suffices_for(wider));
        assert!(!room.is_lost());
        room.memory = Vec::new();
        assert!(room.is_lost());
    }

    #[test]
    fn there_is_room_for_every_step() {
        let areas = [1.0, 3.0, 2.0, 2.0, 5.0];
        let (side, panel) = (60, 7);
        let problem = Problem::new(side, side, side, 4).unwrap();
        let problem = problem.with_panel(panel).unwrap();
        let (rows, cols) = problem.c_blocks();
        let layout = columns::br(&areas, rows, cols).unwrap();
        let c = Spread::on_layout(side, side, problem.block(), &layout);
        let (mut sent, mut saved) = (0, 0);
        let slices: Vec<_> = (0..areas.len()).map(|rank| vec![c.part(rank).cols]).collect();
        let plan = Plan::with_layout(problem, layout, &slices).unwrap();
        for rank in 0..areas.len() {
            let schedules = [StepSchedule::new(&plan, rank)];
            let room = RoomSize::of(&schedules, plan.panel());
            for step in 0..plan.steps(rank) {
                let blocks = schedules[0].panel_blocks(step);
                let needed = [false, true].map(|is_copied| {
                    [A, B]
                        .map(|side| {
                            let transfers = schedules[0].step_transfers(step, side);
                            count_messages(&transfers, &blocks[side], is_copied, room.panels[side])
                        })
                        .iter()
                        .sum::<usize>()
                });
                let [in_place, copied] = needed;
                assert!(copied <= room.messages, "step {step} of rank {rank}");
                assert!(in_place <= copied, "step {step} of rank {rank}");
                sent += copied;
                saved += copied - in_place;
            }
            for (panel, most) in schedules[0].panel_blocks(0).iter().zip(room.panels) {
                assert!(panel.len() <= most, "rank {rank}");
            }
        }
        assert!(sent > 0, "nothing travels at all");
        assert!(saved > 0, "no panel's room is free for messages");
    }
}
