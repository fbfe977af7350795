//! The panels of one step of SUMMA, and the messages that bring them.

use std::ops::Range;

use isochron_devices::{Element, View, ViewMut, try_zeroed_matrix};

use super::schedule::{A, B, PanelPiece, StepSchedule, StepTransfers};
use crate::comm::{Comm, Message, Transfer};
use crate::error::Error;
use crate::matrix::{Operand, Region, try_zeros};

/// Messages and elements that one rank sent.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Volume {
    pub messages: u64,
    pub elements: u64,
}

impl Volume {
    pub(super) fn add(&mut self, other: Self) {
        self.messages += other.messages;
        self.elements += other.elements;
    }

    /// Counts the messages that leave this rank: its own, and those that it passes on.
    fn count_messages(sends: &[Message], recvs: &[Message]) -> Self {
        let mut volume = Self::default();
        let sent = sends.iter().map(|send| (1, send.range.len()));
        let passed_on = recvs
            .iter()
            .map(|recv| (recv.forward.len(), recv.range.len()));
        for (messages, elements) in sent.chain(passed_on) {
            volume.messages += messages as u64;
            volume.elements += (messages * elements) as u64;
        }
        volume
    }
}

/// The operands of a multiplication, read step by step.
pub(super) struct StepOperands<'a, 'o, T> {
    pub comm: &'a dyn Comm,
    pub schedule: &'o StepSchedule,
    /// A and B.
    pub factors: [Operand<'o, T>; 2],
    /// This rank's part of C.
    pub c: Region,
}

/// Room for the panels of one step, and their progress.
///
/// `A: rows×width` and `B: width×cols` are column-major without gaps. A panel that its rank holds whole is not copied: it
/// is then a part of the operand itself.
pub(super) struct StepPanels<'a, T> {
    state: PanelState<'a, T>,
    /// The blocks of A and B that the panels hold.
    blocks: [Region; 2],
    /// For A and B, `true` if the panel is the operand's own memory.
    in_place: [bool; 2],
    /// Messages that arrive in buffers of their own, since their places in the panels are strided.
    staged: Vec<StagedPiece>,
    /// The buffers after those of the panels, by use.
    spare: SpareBuffers,
}

/// The use of a buffer after those of the panels, the same in every step.
///
/// Messages sent and received, of A and of B, differ in size. Without uses every buffer would grow to the largest of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BufferUse {
    Send(usize),
    Receive(usize),
}

/// Buffers by index with their uses; those of one use are taken in order.
type SpareBuffers = Vec<(BufferUse, usize)>;

/// A message in a separate buffer, and its place in a panel.
struct StagedPiece {
    buffer: usize,
    side: usize,
    block: Region,
}

/// Buffers: first the panels of A and B, then those of messages.
enum PanelState<'a, T> {
    /// The messages are under way.
    Coming(Transfer<'a, T>),
    /// The panels are here, or there were none yet.
    Here(Vec<Vec<T>>),
}

impl<'a, T: Element> StepPanels<'a, T> {
    /// Allocates panels of at most `width` for a part of C; `needed` says if A and B need one.
    pub(super) fn new(c: &Region, width: usize, needed: [bool; 2]) -> Result<Self, Error> {
        let rows = if needed[A] { c.rows } else { 0 };
        let cols = if needed[B] { c.cols } else { 0 };
        let a = try_zeros(rows * width, "a panel of A")?;
        let b = try_zeros(cols * width, "a panel of B")?;
        Ok(Self {
            state: PanelState::Here(vec![a, b]),
            blocks: [Region::default(); 2],
            in_place: [false; 2],
            staged: Vec::new(),
            spare: SpareBuffers::new(),
        })
    }

    /// Allocates the message buffers that these steps need and writes to them and to the panels of A, so that no page is
    /// made while messages are under way.
    pub(super) fn prepare(&mut self, schedule: &StepSchedule, steps: impl Iterator<Item = usize>) {
        let PanelState::Here(all) = &mut self.state else {
            panic!("panels are prepared while they travel");
        };
        touch_pages(&mut all[A]);
        for step in steps {
            let mut buffers = StepBuffers::new(std::mem::take(all), &mut self.spare);
            for (side, panel) in schedule.panel_blocks(step).iter().enumerate() {
                let transfers = schedule.step_transfers(step, side);
                for block in distinct_blocks(&transfers.sends) {
                    buffers.take_buffer(BufferUse::Send(side), block.len());
                }
                for piece in &transfers.recvs {
                    if piece.block.row_range() != panel.row_range() {
                        buffers.take_buffer(BufferUse::Receive(side), piece.block.len());
                    }
                }
            }
            *all = buffers.all;
        }
    }

    /// Returns the room for the widest panel of B, over the columns of a part of C; `None` if there is none.
    pub(super) fn b_room(&mut self, cols: usize) -> Option<ViewMut<'_, T>> {
        let PanelState::Here(buffers) = &mut self.state else {
            panic!("panels are asked for while they travel");
        };
        let width = buffers[B].len() / cols.max(1);
        (width > 0).then(|| ViewMut::new(&mut buffers[B], width, cols, width))
    }

    /// Sends the pieces of `step` that others need, copies those that this rank holds itself, and starts to receive the
    /// rest.
    pub(super) fn start(&mut self, operands: &StepOperands<'a, '_, T>, step: usize) -> Volume {
        let PanelState::Here(buffers) = &mut self.state else {
            panic!("panels are sent for while others travel");
        };
        let mut buffers = StepBuffers::new(std::mem::take(buffers), &mut self.spare);
        self.staged.clear();
        self.blocks = operands.schedule.panel_blocks(step);
        let (mut sends, mut recvs) = (Vec::new(), Vec::new());
        for (side, factor) in operands.factors.iter().enumerate() {
            let StepTransfers {
                sends: sent,
                recvs: received,
                own,
            } = operands.schedule.step_transfers(step, side);
            let panel = &self.blocks[side];
            self.in_place[side] = own.as_ref() == Some(panel) && !factor.op().transposes();
            buffers.pack_pieces((side, factor), &sent, &mut sends);
            if let Some(own) = own.filter(|_| !self.in_place[side]) {
                let place = panel.view_part(&own, &mut buffers.all[side]);
                factor.copy(&own, place);
            }
            for piece in received {
                recvs.push(buffers.expect_piece(side, panel, piece, &mut self.staged));
            }
        }
        let buffers = buffers.all;
        let volume = Volume::count_messages(&sends, &recvs);
        tracing::trace!(
            k = self.first_k(),
            messages = recvs.len(),
            "panels are sent for"
        );
        self.state = PanelState::Coming(Transfer::start(operands.comm, buffers, &sends, &recvs));
        volume
    }

    /// Makes the messages progress and puts arrivals into place. Returns `true` once the panels are here.
    pub(super) fn progress(&mut self) -> bool {
        let PanelState::Coming(transfer) = &mut self.state else {
            return true;
        };
        if !transfer.progress() {
            return false;
        }
        self.unpack_messages();
        true
    }

    /// Takes the finished messages and copies those in buffers of their own into the panels.
    fn unpack_messages(&mut self) {
        let coming = std::mem::replace(&mut self.state, PanelState::Here(Vec::new()));
        let PanelState::Coming(transfer) = coming else {
            self.state = coming;
            return;
        };
        let mut buffers = transfer.finish();
        for StagedPiece {
            buffer,
            side,
            block,
        } in &self.staged
        {
            let data = std::mem::take(&mut buffers[*buffer]);
            let (rows, cols) = (block.rows, block.cols);
            let mut place = self.blocks[*side].view_part(block, &mut buffers[*side]);
            place.copy_from(View::new(&data, rows, cols, rows));
            buffers[*buffer] = data;
        }
        self.state = PanelState::Here(buffers);
        tracing::trace!(k = self.first_k(), "panels are here");
    }

    /// Returns the first index along k of the panels.
    fn first_k(&self) -> usize {
        self.blocks[A].col
    }

    /// Returns the panels of A and B, which must be here.
    pub(super) fn both_views<'s>(&'s self, operands: &StepOperands<'_, 's, T>) -> [View<'s, T>; 2] {
        let PanelState::Here(buffers) = &self.state else {
            panic!("panels are asked for while they travel");
        };
        [A, B].map(|side| {
            let panel = &self.blocks[side];
            let factor = &operands.factors[side];
            let in_place = self.in_place[side].then(|| factor.in_place(panel));
            in_place.flatten().unwrap_or_else(|| {
                let data = &buffers[side][..panel.len()];
                View::new(data, panel.rows, panel.cols, panel.rows.max(1))
            })
        })
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

/// The buffers of [`StepPanels`] while messages are made of them. They stay from step to step, since fresh memory would
/// be faulted in every time.
struct StepBuffers<'s, T> {
    all: Vec<Vec<T>>,
    spare: &'s mut SpareBuffers,
    /// Indices of the spare buffers in use.
    taken: Vec<usize>,
}

impl<'s, T: Element> StepBuffers<'s, T> {
    /// Takes the buffers, of which the first two are those of the panels.
    fn new(all: Vec<Vec<T>>, spare: &'s mut SpareBuffers) -> Self {
        Self {
            all,
            spare,
            taken: Vec::new(),
        }
    }

    /// Takes the next buffer for this use: its index and its range, `len` elements of any value.
    fn take_buffer(&mut self, wanted: BufferUse, len: usize) -> (usize, Range<usize>) {
        let free = self
            .spare
            .iter()
            .find(|(used_for, index)| *used_for == wanted && !self.taken.contains(index));
        let index = match free {
            Some(&(_, index)) => index,
            None => {
                self.all.push(Vec::new());
                self.spare.push((wanted, self.all.len() - 1));
                self.all.len() - 1
            }
        };
        self.taken.push(index);
        let buffer = &mut self.all[index];
        if buffer.capacity() < len {
            // Huge pages take less time to fault in. The old buffer is freed first.
            *buffer = Vec::new();
            *buffer = try_zeroed_matrix(len).unwrap_or_default();
            touch_pages(buffer);
        }
        buffer.resize(len, T::ZERO);
        (index, 0..len)
    }

    /// Packs blocks for sending, each once, however many ranks read it.
    fn pack_pieces(
        &mut self,
        (side, factor): (usize, &Operand<'_, T>),
        pieces: &[PanelPiece],
        sends: &mut Vec<Message>,
    ) {
        let mut packed: Vec<(&Region, usize)> = Vec::new();
        for PanelPiece {
            rank, block, tag, ..
        } in pieces
        {
            let buffer = match packed.iter().find(|(other, _)| *other == block) {
                Some((_, buffer)) => *buffer,
                None => {
                    let (buffer, _) = self.take_buffer(BufferUse::Send(side), block.len());
                    let place = block.view_part(block, &mut self.all[buffer]);
                    factor.copy(block, place);
                    packed.push((block, buffer));
                    buffer
                }
            };
            sends.push(Message {
                tag: *tag,
                ..Message::plain(*rank, buffer, 0..block.len())
            });
        }
    }

    /// Makes the message that receives a piece of `panel`: in the panel if its place there is contiguous, else in a
    /// staged buffer.
    fn expect_piece(
        &mut self,
        side: usize,
        panel: &Region,
        piece: PanelPiece,
        staged: &mut Vec<StagedPiece>,
    ) -> Message {
        let block = piece.block;
        let (buffer, range) = if block.row_range() == panel.row_range() {
            let first = (block.col - panel.col) * panel.rows;
            (side, first..first + block.len())
        } else {
            let (buffer, range) = self.take_buffer(BufferUse::Receive(side), block.len());
            staged.push(StagedPiece {
                buffer,
                side,
                block,
            });
            (buffer, range)
        };
        Message {
            tag: piece.tag,
            forward: piece.forward,
            ..Message::plain(piece.rank, buffer, range)
        }
    }
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
        for rank in 0..areas.len() {
            let width = c.part(rank).cols;
            let plan = Plan::with_layout(problem, layout.clone(), vec![width], rank).unwrap();
            let schedule = StepSchedule::new(&plan, rank);
            let mut panels = StepPanels::<f64>::new(&c.part(rank), panel, [true; 2]).unwrap();
            panels.prepare(&schedule, 0..plan.steps());
            let PanelState::Here(buffers) = &panels.state else {
                panic!("nothing travels");
            };
            for side in [A, B] {
                let prepared: usize = panels
                    .spare
                    .iter()
                    .filter(|(used_for, _)| *used_for == BufferUse::Send(side))
                    .map(|&(_, index)| buffers[index].capacity())
                    .sum();
                for step in 0..plan.steps() {
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
