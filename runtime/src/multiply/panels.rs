//! The panels of one step of SUMMA, and the messages that bring them.

use isochron_devices::{Element, View, ViewMut, try_zeroed_matrix};

use super::schedule::{A, B, Block, PanelPiece, StepSchedule};
use crate::comm::{Comm, Message, Transfer};
use crate::error::Error;
use crate::matrix::{Operand, Part, try_zeros};

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
}

/// The operands of a multiplication, read step by step.
pub(super) struct StepOperands<'a, 'o, T> {
    pub comm: &'a dyn Comm,
    pub schedule: &'o StepSchedule,
    /// A and B.
    pub factors: [Operand<'o, T>; 2],
    /// This rank's part of C.
    pub c: Part,
}

/// Room for the panels of one step, and how far they are.
///
/// `A: rows×width` and `B: width×cols` are column-major without gaps. What a rank holds whole is not copied: the
/// panel is then a part of the operand itself.
pub(super) struct StepPanels<'a, T> {
    state: PanelState<'a, T>,
    /// What the panels hold.
    blocks: [Block; 2],
    /// Whether each panel is the operand's own memory.
    in_place: [bool; 2],
    /// Messages that arrive in buffers of their own, since their places in the panels are strided.
    staged: Vec<Staged>,
    /// The buffers behind those of the panels, by their use.
    spare: Spare,
}

/// What a buffer behind those of the panels is used for, in every step alike: what is sent of A and what of B, and what arrives
/// of either, are of unlike sizes, and there would be room for the largest of all in each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Send(usize),
    Receive(usize),
}

/// Buffers with their uses; those of one use are used in their order.
type Spare = Vec<(Use, usize)>;

/// A message in a buffer of its own, and where it belongs.
struct Staged {
    buffer: usize,
    side: usize,
    block: Block,
}

/// The buffers are those of the panels of A and B, and behind them the messages that need a place of their own.
enum PanelState<'a, T> {
    /// The messages are on their way.
    Coming(Transfer<'a, T>),
    /// The panels are here, or there never were any.
    Here(Vec<Vec<T>>),
}

impl<'a, T: Element> StepPanels<'a, T> {
    /// Room for panels of at most `width` for a part of C, of A and of B where they are needed.
    pub(super) fn new(c: &Part, width: usize, needed: [bool; 2]) -> Result<Self, Error> {
        let [rows, cols] = [
            c.rows * usize::from(needed[A]),
            c.cols * usize::from(needed[B]),
        ];
        let a = try_zeros(rows * width, "a panel of A")?;
        let b = try_zeros(cols * width, "a panel of B")?;
        Ok(Self {
            state: PanelState::Here(vec![a, b]),
            blocks: [Block::default(), Block::default()],
            in_place: [false; 2],
            staged: Vec::new(),
            spare: Spare::new(),
        })
    }

    /// Takes the buffers that these steps need behind the panels, and writes the panels of A, so that no page of either is
    /// made while messages are under way.
    pub(super) fn prepare(&mut self, schedule: &StepSchedule, steps: impl Iterator<Item = usize>) {
        let PanelState::Here(all) = &mut self.state else {
            panic!("panels are prepared while they travel");
        };
        touch(&mut all[A]);
        for step in steps {
            let mut buffers = Buffers::new(std::mem::take(all), &mut self.spare);
            let panels = schedule.panels(step);
            for (side, panel) in panels.iter().enumerate() {
                let transfers = schedule.transfers(step, side);
                let mut packed: Vec<&Block> = Vec::new();
                for PanelPiece { block, .. } in &transfers.sends {
                    if !packed.contains(&block) {
                        packed.push(block);
                        buffers.fresh(Use::Send(side), block.len());
                    }
                }
                let staged = |piece: &&PanelPiece| piece.block.rows != panel.rows;
                for piece in transfers.recvs.iter().filter(staged) {
                    buffers.fresh(Use::Receive(side), piece.block.len());
                }
            }
            *all = buffers.all;
        }
    }

    /// The room for the widest panel of B, of the columns of a part of C; `None` where none is needed.
    pub(super) fn b_room(&mut self, cols: usize) -> Option<ViewMut<'_, T>> {
        let PanelState::Here(buffers) = &mut self.state else {
            panic!("panels are asked for while they travel");
        };
        let width = buffers[B].len() / cols.max(1);
        (width > 0).then(|| ViewMut::new(&mut buffers[B], width, cols, width))
    }

    /// Sends what others need for `step`, copies what this rank holds itself, and starts to receive the rest.
    pub(super) fn start(&mut self, operands: &StepOperands<'a, '_, T>, step: usize) -> Volume {
        let PanelState::Here(buffers) = &mut self.state else {
            panic!("panels are sent for while others travel");
        };
        let mut buffers = Buffers::new(std::mem::take(buffers), &mut self.spare);
        self.staged.clear();
        self.blocks = operands.schedule.panels(step);
        let (mut sends, mut recvs) = (Vec::new(), Vec::new());
        for (side, factor) in operands.factors.iter().enumerate() {
            let transfers = operands.schedule.transfers(step, side);
            let panel = &self.blocks[side];
            let is_whole = transfers.own.as_ref() == Some(panel);
            self.in_place[side] = is_whole && !factor.op().transposes();
            buffers.pack((side, factor), &transfers.sends, &mut sends);
            if let Some(own) = transfers.own.filter(|_| !self.in_place[side]) {
                let place = panel.place(&own, &mut buffers.all[side]);
                factor.copy(&own.rows, &own.cols, place);
            }
            for piece in transfers.recvs {
                let block = piece.block;
                let (buffer, range) = if block.rows == panel.rows {
                    // In the panel its place is in one piece.
                    let first = (block.cols.start - panel.cols.start) * panel.rows.len();
                    (side, first..first + block.len())
                } else {
                    let place = buffers.fresh(Use::Receive(side), block.len());
                    let buffer = place.0;
                    self.staged.push(Staged {
                        buffer,
                        side,
                        block,
                    });
                    place
                };
                recvs.push(Message {
                    tag: piece.tag,
                    forward: piece.forward,
                    ..Message::plain(piece.rank, buffer, range)
                });
            }
        }
        let buffers = buffers.all;
        let mut volume = Volume::default();
        let sent = sends.iter().map(|send| (1, send.range.len()));
        let passed_on = recvs
            .iter()
            .map(|recv| (recv.forward.len(), recv.range.len()));
        for (messages, elements) in sent.chain(passed_on) {
            volume.add(Volume {
                messages: messages as u64,
                elements: (messages * elements) as u64,
            });
        }
        tracing::trace!(
            k = self.first_k(),
            messages = recvs.len(),
            "panels are sent for"
        );
        self.state = PanelState::Coming(Transfer::start(operands.comm, buffers, &sends, &recvs));
        volume
    }

    /// Makes the messages progress, and puts what has come into its place; whether the panels are here.
    pub(super) fn progress(&mut self) -> bool {
        let PanelState::Coming(transfer) = &mut self.state else {
            return true;
        };
        if !transfer.progress() {
            return false;
        }
        self.arrive();
        true
    }

    /// Takes the messages, which are done, and puts what they brought into its place.
    fn arrive(&mut self) {
        let coming = std::mem::replace(&mut self.state, PanelState::Here(Vec::new()));
        let PanelState::Coming(transfer) = coming else {
            self.state = coming;
            return;
        };
        let mut buffers = transfer.finish();
        for Staged {
            buffer,
            side,
            block,
        } in &self.staged
        {
            let data = std::mem::take(&mut buffers[*buffer]);
            let (rows, cols) = (block.rows.len(), block.cols.len());
            let mut place = self.blocks[*side].place(block, &mut buffers[*side]);
            place.copy_from(View::new(&data, rows, cols, rows));
            buffers[*buffer] = data;
        }
        self.state = PanelState::Here(buffers);
        tracing::trace!(k = self.first_k(), "panels are here");
    }

    /// The first index along k that the panels are of.
    fn first_k(&self) -> usize {
        self.blocks[A].cols.start
    }

    /// The panel of A and that of B; they are here.
    pub(super) fn both<'s>(&'s self, operands: &StepOperands<'_, 's, T>) -> [View<'s, T>; 2] {
        let PanelState::Here(buffers) = &self.state else {
            panic!("panels are asked for while they travel");
        };
        [A, B].map(|side| {
            let Block { rows, cols } = &self.blocks[side];
            let factor = &operands.factors[side];
            let in_place = self.in_place[side].then(|| factor.in_place(rows, cols));
            in_place.flatten().unwrap_or_else(|| {
                let data = &buffers[side][..rows.len() * cols.len()];
                View::new(data, rows.len(), cols.len(), rows.len().max(1))
            })
        })
    }
}

/// Writes to every page of memory that holds zeros: pages are made when somebody first writes there.
fn touch<T: Element>(zeros: &mut [T]) {
    const SMALLEST_PAGE: usize = 4096;
    for value in zeros.iter_mut().step_by(SMALLEST_PAGE / size_of::<T>()) {
        *value = T::ZERO;
    }
}

/// The buffers of [`StepPanels`] while messages are made of them. They are kept from step to step, since fresh memory would be
/// faulted in every time.
struct Buffers<'s, T> {
    all: Vec<Vec<T>>,
    spare: &'s mut Spare,
    /// Those of the spare ones that are in use.
    taken: Vec<usize>,
}

impl<'s, T: Element> Buffers<'s, T> {
    /// The first two are those of the panels.
    fn new(all: Vec<Vec<T>>, spare: &'s mut Spare) -> Self {
        Self {
            all,
            spare,
            taken: Vec::new(),
        }
    }

    /// The next buffer for this use, and all of it: `len` elements of any value.
    fn fresh(&mut self, wanted: Use, len: usize) -> (usize, std::ops::Range<usize>) {
        let is_free =
            |(used_for, index): &&(Use, usize)| *used_for == wanted && !self.taken.contains(index);
        let found = self.spare.iter().find(is_free).map(|&(_, index)| index);
        let index = found.unwrap_or_else(|| {
            self.all.push(Vec::new());
            self.spare.push((wanted, self.all.len() - 1));
            self.all.len() - 1
        });
        self.taken.push(index);
        let buffer = &mut self.all[index];
        if buffer.capacity() < len {
            // In large pages, which it takes less time to fault in; the old ones are given back first.
            *buffer = Vec::new();
            *buffer = try_zeroed_matrix(len).unwrap_or_default();
            touch(buffer);
        }
        buffer.resize(len, T::ZERO);
        (index, 0..len)
    }

    /// Packs blocks for sending, each once however many ranks want it.
    fn pack(
        &mut self,
        (side, factor): (usize, &Operand<'_, T>),
        pieces: &[PanelPiece],
        sends: &mut Vec<Message>,
    ) {
        let mut packed: Vec<(&Block, usize)> = Vec::new();
        for PanelPiece {
            rank, block, tag, ..
        } in pieces
        {
            let same = packed.iter().find(|(other, _)| *other == block);
            let buffer = match same {
                Some((_, buffer)) => *buffer,
                None => {
                    let (buffer, _) = self.fresh(Use::Send(side), block.len());
                    let place = block.place(block, &mut self.all[buffer]);
                    factor.copy(&block.rows, &block.cols, place);
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
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use isochron_hierarchy::layout::columns;

    use super::*;
    use crate::matrix::Distribution;
    use crate::multiply::{Plan, Problem};

    #[test]
    fn what_is_prepared_is_what_every_step_needs() {
        let areas = [1.0, 3.0, 2.0, 2.0, 5.0];
        let (side, panel) = (60, 7);
        let problem = Problem::new(side, side, side, 4).unwrap();
        let problem = problem.with_panel(panel).unwrap();
        let (rows, cols) = problem.c_blocks();
        let layout = columns::br(&areas, rows, cols).unwrap();
        let c = Distribution::new(side, side, problem.block(), Arc::new(layout.clone()));
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
                let used = |wanted: Use| {
                    let of_use = panels
                        .spare
                        .iter()
                        .filter(|(used_for, _)| *used_for == wanted);
                    of_use
                        .map(|&(_, index)| buffers[index].capacity())
                        .sum::<usize>()
                };
                let prepared = used(Use::Send(side));
                for step in 0..plan.steps() {
                    let mut blocks: Vec<Block> = Vec::new();
                    for piece in schedule.transfers(step, side).sends {
                        if !blocks.contains(&piece.block) {
                            blocks.push(piece.block);
                        }
                    }
                    let needed: usize = blocks.iter().map(Block::len).sum();
                    assert!(needed <= prepared, "step {step} of rank {rank}");
                    sent += needed;
                }
            }
        }
        assert!(sent > 0, "nothing travels at all");
    }
}
