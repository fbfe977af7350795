//! The panels of one step of SUMMA, and the messages that bring them.

use isochron_devices::{Element, View, ViewMut, try_zeroed_matrix};

use super::course::PanelRoom;
use super::schedule::{A, B, PanelPiece, StepSchedule};
use crate::comm::{Comm, Message, Transfer};
use crate::error::Error;
use crate::matrix::redistribute::Moved;
use crate::matrix::{Operand, Region, try_zeros};

/// The operands of a multiplication, read step by step.
pub(super) struct StepOperands<'a, 'o, T> {
    pub comm: &'a dyn Comm,
    /// A and B.
    pub factors: [Operand<'o, T>; 2],
}

/// Room for the panels of one step, and their progress.
///
/// `A: rows×width` and `B: width×cols` are column-major without gaps. A panel that its rank holds whole is not copied: it
/// is then a part of the operand itself.
pub(super) struct StepPanels<'a, T> {
    /// The panels of A and B, then the spare buffers. They stay from step to step, since fresh memory would be faulted in
    /// every time. Empty while messages are under way.
    buffers: Vec<Vec<T>>,
    /// The messages under way, with the buffers.
    coming: Option<Transfer<'a, T>>,
    /// The blocks of A and B that the panels hold.
    blocks: [Region; 2],
    /// For A and B, `true` if the panel is the operand's own memory.
    in_place: [bool; 2],
    /// Messages that arrive in buffers of their own, since their places in the panels are strided.
    staged: Vec<StagedPiece>,
    /// The use of each spare buffer, and `true` if the step has taken it. Those of one use are taken in order.
    spare: Vec<(BufferUse, bool)>,
    /// Number of the layout, in the order of changes, that the panels have room for.
    layout: usize,
    /// Inner dimension of the step, also if the panels are empty.
    k: usize,
}

/// The use of a spare buffer, the same in every step.
///
/// Messages sent and received, of A and of B, differ in size. Without uses every buffer would grow to the largest of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BufferUse {
    Send(usize),
    Receive(usize),
}

/// A message in a separate buffer, and its place in a panel.
struct StagedPiece {
    buffer: usize,
    side: usize,
    block: Region,
}

impl<'a, T: Element> StepPanels<'a, T> {
    /// Allocates panels of at most `width` for a part of C; `needed` says if A and B need one.
    pub(super) fn new(c: &Region, width: usize, needed: [bool; 2]) -> Result<Self, Error> {
        let rows = if needed[A] { c.rows } else { 0 };
        let cols = if needed[B] { c.cols } else { 0 };
        let a = try_zeros(rows * width, "a panel of A")?;
        let b = try_zeros(cols * width, "a panel of B")?;
        Ok(Self {
            buffers: vec![a, b],
            coming: None,
            blocks: [Region::default(); 2],
            in_place: [false; 2],
            staged: Vec::new(),
            spare: Vec::new(),
            layout: 0,
            k: 0,
        })
    }

    /// Returns the inner dimension of the step.
    pub(super) fn k(&self) -> usize {
        self.k
    }

    /// Returns the number of the layout, in the order of changes, that the panels have room for.
    pub(super) fn layout(&self) -> usize {
        self.layout
    }

    /// Gives the panels, which must be here, the room that another layout needs, as far as it is more than theirs; `None` if they
    /// have enough.
    pub(super) fn enter_layout(&mut self, layout: usize, room: Option<PanelRoom<T>>) {
        assert!(
            self.coming.is_none(),
            "panels get other room while they travel"
        );
        self.layout = layout;
        for (panel, room) in self.buffers.iter_mut().zip(room.into_iter().flatten()) {
            // Panels that have been written cost less than new ones.
            if room.len() > panel.len() {
                *panel = room;
            }
        }
    }

    /// Allocates the message buffers that these steps need and writes to them and to the panels of A, so that no page is
    /// made while messages are under way.
    pub(super) fn prepare(&mut self, schedule: &StepSchedule, steps: impl Iterator<Item = usize>) {
        touch_pages(&mut self.buffers[A]);
        for step in steps {
            self.release_buffers();
            for (side, panel) in schedule.panel_blocks(step).iter().enumerate() {
                let transfers = schedule.step_transfers(step, side);
                for block in distinct_blocks(&transfers.sends) {
                    self.take_buffer(BufferUse::Send(side), block.len());
                }
                for piece in &transfers.recvs {
                    if piece.block.row_range() != panel.row_range() {
                        self.take_buffer(BufferUse::Receive(side), piece.block.len());
                    }
                }
            }
        }
    }

    /// Returns the room for the widest panel of B, over the columns of a part of C; `None` if there is none.
    pub(super) fn b_room(&mut self, cols: usize) -> Option<ViewMut<'_, T>> {
        let width = self.buffers[B].len() / cols.max(1);
        (width > 0).then(|| ViewMut::new(&mut self.buffers[B], width, cols, width))
    }

    /// Sends the pieces of `step` that others need, copies those that this rank holds itself, and starts to receive the
    /// rest. Returns the messages that this rank sends, and those that it passes on.
    pub(super) fn start(
        &mut self,
        operands: &StepOperands<'a, '_, T>,
        schedule: &StepSchedule,
        step: usize,
    ) -> Moved {
        self.release_buffers();
        self.staged.clear();
        self.blocks = schedule.panel_blocks(step);
        self.k = schedule.count_k(step);
        let (mut sends, mut recvs) = (Vec::new(), Vec::new());
        for (side, factor) in operands.factors.iter().enumerate() {
            let transfers = schedule.step_transfers(step, side);
            let (own, panel) = (transfers.own, self.blocks[side]);
            self.in_place[side] = own == Some(panel) && !factor.op().transposes();
            self.pack_pieces((side, factor), &transfers.sends, &mut sends);
            if let Some(own) = own.filter(|_| !self.in_place[side]) {
                let place = panel.view_part(&own, &mut self.buffers[side]);
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
        tracing::trace!(
            k = self.blocks[A].col,
            messages = recvs.len(),
            "panels are sent for"
        );
        let buffers = std::mem::take(&mut self.buffers);
        self.coming = Some(Transfer::start(operands.comm, buffers, &sends, &recvs));
        sent
    }

    /// Makes the messages progress and puts arrivals into place. Returns `true` once the panels are here.
    pub(super) fn progress(&mut self) -> bool {
        let coming = self.coming.as_mut();
        if coming.is_some_and(|transfer| !transfer.progress()) {
            return false;
        }
        if let Some(transfer) = self.coming.take() {
            self.buffers = transfer.finish();
            self.unpack_staged();
        }
        true
    }

    /// Copies the messages that arrived in buffers of their own into the panels.
    fn unpack_staged(&mut self) {
        for staged in &self.staged {
            let data = std::mem::take(&mut self.buffers[staged.buffer]);
            let (side, Region { rows, cols, .. }) = (staged.side, staged.block);
            let mut place = self.blocks[side].view_part(&staged.block, &mut self.buffers[side]);
            place.copy_from(View::new(&data, rows, cols, rows));
            self.buffers[staged.buffer] = data;
        }
        tracing::trace!(k = self.blocks[A].col, "panels are here");
    }

    /// Returns the panels of A and B, which must be here.
    pub(super) fn both_views<'s>(&'s self, operands: &StepOperands<'_, 's, T>) -> [View<'s, T>; 2] {
        assert!(
            self.coming.is_none(),
            "panels are asked for while they travel"
        );
        [A, B].map(|side| {
            let panel = &self.blocks[side];
            let factor = &operands.factors[side];
            let in_place = self.in_place[side].then(|| factor.in_place(panel));
            in_place.flatten().unwrap_or_else(|| {
                let data = &self.buffers[side][..panel.len()];
                View::new(data, panel.rows, panel.cols, panel.rows.max(1))
            })
        })
    }

    /// Makes all spare buffers free for a step.
    fn release_buffers(&mut self) {
        assert!(
            self.coming.is_none(),
            "buffers are asked for while they travel"
        );
        self.spare.iter_mut().for_each(|(_, taken)| *taken = false);
    }

    /// Takes the next spare buffer for this use and gives it `len` elements of any value. Returns its index.
    fn take_buffer(&mut self, wanted: BufferUse, len: usize) -> usize {
        let free = self
            .spare
            .iter()
            .position(|spare| *spare == (wanted, false));
        let spare = free.unwrap_or_else(|| {
            self.buffers.push(Vec::new());
            self.spare.push((wanted, false));
            self.spare.len() - 1
        });
        self.spare[spare].1 = true;
        // The panels of A and B come first.
        let index = 2 + spare;
        let buffer = &mut self.buffers[index];
        if buffer.capacity() < len {
            // Huge pages take less time to fault in. The old buffer is freed first.
            *buffer = Vec::new();
            *buffer = try_zeroed_matrix(len).unwrap_or_default();
            touch_pages(buffer);
        }
        buffer.resize(len, T::ZERO);
        index
    }

    /// Packs blocks for sending, each once, however many ranks read it.
    fn pack_pieces(
        &mut self,
        (side, factor): (usize, &Operand<'_, T>),
        pieces: &[PanelPiece],
        sends: &mut Vec<Message>,
    ) {
        for block in distinct_blocks(pieces) {
            let buffer = self.take_buffer(BufferUse::Send(side), block.len());
            let place = block.view_part(block, &mut self.buffers[buffer]);
            factor.copy(block, place);
            for piece in pieces.iter().filter(|piece| piece.block == *block) {
                sends.push(Message {
                    tag: piece.tag,
                    ..Message::plain(piece.rank, buffer, 0..block.len())
                });
            }
        }
    }

    /// Makes the message that receives a piece of a panel: in the panel if its place there is contiguous, else in a spare
    /// buffer.
    fn expect_piece(&mut self, side: usize, piece: PanelPiece) -> Message {
        let (panel, block) = (self.blocks[side], piece.block);
        let (buffer, first) = if block.row_range() == panel.row_range() {
            (side, (block.col - panel.col) * panel.rows)
        } else {
            let buffer = self.take_buffer(BufferUse::Receive(side), block.len());
            self.staged.push(StagedPiece {
                buffer,
                side,
                block,
            });
            (buffer, 0)
        };
        Message {
            tag: piece.tag,
            forward: piece.forward,
            ..Message::plain(piece.rank, buffer, first..first + block.len())
        }
    }
}

/// Writes to every page of memory that holds zeros, since the system makes a page at the first write to it.
fn touch_pages<T: Element>(zeros: &mut [T]) {
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
    use crate::multiply::{Plan, Problem};

    #[test]
    fn what_is_prepared_is_what_every_step_needs() {
        let areas = [1.0, 3.0, 2.0, 2.0, 5.0];
        let (side, panel) = (60, 7);
        let problem = Problem::new(side, side, side, 4).unwrap();
        let problem = problem.with_panel(panel).unwrap();
        let (rows, cols) = problem.c_blocks();
        let layout = columns::br(&areas, rows, cols).unwrap();
        let c = Spread::on_layout(side, side, problem.block(), &layout);
        let mut sent = 0;
        let slices: Vec<_> = (0..areas.len())
            .map(|rank| vec![c.part(rank).cols])
            .collect();
        let plan = Plan::with_layout(problem, layout, &slices).unwrap();
        for rank in 0..areas.len() {
            let schedule = StepSchedule::new(&plan, rank);
            let mut panels = StepPanels::<f64>::new(&c.part(rank), panel, [true; 2]).unwrap();
            panels.prepare(&schedule, 0..plan.steps(rank));
            for side in [A, B] {
                let spare = panels.spare.iter().zip(&panels.buffers[2..]);
                let prepared: usize = spare
                    .filter(|((used_for, _), _)| *used_for == BufferUse::Send(side))
                    .map(|(_, buffer)| buffer.capacity())
                    .sum();
                for step in 0..plan.steps(rank) {
                    let sends = schedule.step_transfers(step, side).sends;
                    let blocks = distinct_blocks(&sends).into_iter();
                    let needed: usize = blocks.map(Region::len).sum();
                    assert!(needed <= prepared, "step {step} of rank {rank}");
                    sent += needed;
                }
            }
        }
        assert!(sent > 0, "nothing travels at all");
    }
}
