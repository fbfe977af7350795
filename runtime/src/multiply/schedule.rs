//! Who sends what to whom in one step of SUMMA.
//!
//! In step `s` every rank needs the rows of its part of C from the pivot columns of A, and the columns of its part from
//! the pivot rows of B. A piece goes from the rank that holds it to each rank that needs it, once, so the volume is what the
//! layout says it is: per step, the half perimeters of the parts less what a rank holds itself. Where several ranks need
//! the very same piece, they pass it on in a [tree](super::tree) if the links make that faster than sending it to one after
//! the other. The pivot is as wide as the panels, whatever the blocks are, so that several ranks may hold a part of it.
//!
//! Steps go through k in an [order](super::order) that spreads them over those who hold it: the same for all ranks where
//! pieces may be passed on, and otherwise each rank's own.

use std::cell::OnceCell;
use std::ops::Range;

use isochron_devices::ViewMut;
use isochron_hierarchy::predict::{Links, rounds};

use super::order::{StepOrder, most_at_once};
use super::plan::{Plan, Split};
use super::tree;
use crate::comm::MAX_TAG;
use crate::matrix::{Part, intersect};

/// The factors of a product, as indices.
pub(super) const A: usize = 0;
pub(super) const B: usize = 1;

/// So many ranks may need the same lines of a factor, its holder among them, without any passing it on: two others have it as
/// soon when it is sent to both, whatever the links are.
const MOST_WITHOUT_RELAYS: usize = 3;

/// Rows and columns of a factor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Block {
    pub rows: Range<usize>,
    pub cols: Range<usize>,
}

impl Block {
    fn of(part: &Part) -> Self {
        Self {
            rows: part.row_range(),
            cols: part.col_range(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len() * self.cols.len()
    }

    fn intersection(&self, other: &Self) -> Self {
        Self {
            rows: intersect(&self.rows, &other.rows),
            cols: intersect(&self.cols, &other.cols),
        }
    }

    /// Where `part` of this block lies in a buffer that holds the block column after column.
    pub(super) fn place<'b, T>(&self, part: &Block, buffer: &'b mut [T]) -> ViewMut<'b, T> {
        let (rows, cols) = (self.rows.len(), self.cols.len());
        let from = |range: &Range<usize>, start: usize| range.start - start..range.end - start;
        ViewMut::new(buffer, rows, cols, rows.max(1)).into_block(
            from(&part.rows, self.rows.start),
            from(&part.cols, self.cols.start),
        )
    }
}

/// A block on its way between this rank and another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PanelPiece {
    /// The other rank.
    pub rank: usize,
    pub block: Block,
    /// 0 for one that comes straight from its holder, in order; for one that is passed on, a number that no other piece on
    /// its way has.
    pub tag: u32,
    /// The ranks that this one passes it on to.
    pub forward: Vec<usize>,
}

/// One rank's share of one step, for one factor: what it sends is what the readers need in that step of theirs.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct StepTransfers {
    pub sends: Vec<PanelPiece>,
    pub recvs: Vec<PanelPiece>,
    /// What this rank holds itself of what it needs.
    pub own: Option<Block>,
}

/// One rank's transfers in every step.
#[derive(Debug)]
pub(super) struct StepSchedule {
    rank: usize,
    width: usize,
    /// The indices along k that this rank computes over.
    k: Range<usize>,
    /// Whether each rank begins with what it holds.
    own_orders: bool,
    /// Made when it is asked for the first time: much is known without.
    order: OnceCell<StepOrder>,
    /// What every rank holds of each factor.
    factors: [Vec<Part>; 2],
    /// The part of C that every rank computes with panels of this rank's k.
    c_parts: Vec<Part>,
    /// How many steps' panels there are at a time.
    sets: usize,
    relays: Relays,
}

impl StepSchedule {
    pub(super) fn new(plan: &Plan, rank: usize) -> Self {
        let ranks = 0..plan.n_ranks();
        // Where k is split, nobody else computes with what this rank holds.
        let computed = |other: usize| match plan.split() {
            Split::K(_) if other != rank => Part::default(),
            _ => plan.computed(other),
        };
        let factors = plan.factors().map(|factor| {
            let parts = ranks.clone().map(|rank| factor.part(rank));
            parts.collect()
        });
        let c_parts: Vec<Part> = ranks.map(computed).collect();
        Self {
            rank,
            width: plan.panel(),
            k: plan.k_range(rank),
            own_orders: [Part::row_range, Part::col_range]
                .into_iter()
                .all(|lines| most_at_once(c_parts.iter().map(lines)) <= MOST_WITHOUT_RELAYS),
            order: OnceCell::new(),
            factors,
            c_parts,
            sets: plan.sets(),
            relays: Relays {
                links: plan.links().copied(),
                element_bytes: plan.problem().element().bytes(),
            },
        }
    }

    /// The part of C that this rank computes.
    pub(super) fn c(&self) -> Part {
        self.c_parts[self.rank]
    }

    /// Whether this rank needs panels of A, and of B, that it does not hold itself, in any step.
    pub(super) fn needs_panels(&self) -> [bool; 2] {
        let needed = self.needed_by(self.rank, &self.k);
        [A, B].map(|side| {
            let held = Block::of(&self.factors[side][self.rank]);
            needed[side].len() > 0 && held.intersection(&needed[side]) != needed[side]
        })
    }

    /// Whether this rank reads a factor at all.
    pub(super) fn reads(&self, side: usize) -> bool {
        self.needed_by(self.rank, &self.k)[side].len() > 0
    }

    /// How many rows of A, or columns of B, this rank packs for others in a step, at most: those of each piece once, or once
    /// for each who needs it where these may want different pieces of k.
    pub(super) fn sent_across(&self, side: usize) -> usize {
        let pieces = self.readers(side, |_| self.k.clone()).into_iter();
        let across = |(block, readers): (Block, Vec<usize>)| {
            let lines = match side {
                A => block.rows.len(),
                _ => block.cols.len(),
            };
            lines * if self.own_orders { readers.len() } else { 1 }
        };
        pieces.map(across).sum()
    }

    /// The indices along k of a rank's step.
    fn pivot(&self, rank: usize, step: usize) -> Range<usize> {
        let order = self.order.get_or_init(|| {
            let first = |rank| {
                if self.own_orders {
                    self.fullest_piece(rank)
                } else {
                    0
                }
            };
            StepOrder::new(self.pieces(), (0..self.c_parts.len()).map(first))
        });
        self.piece(order.piece(rank, step))
    }

    fn pieces(&self) -> usize {
        self.k.len().div_ceil(self.width)
    }

    /// The indices along k of a piece, counted in order of k.
    fn piece(&self, index: usize) -> Range<usize> {
        let start = self.k.start + index * self.width;
        start..(start + self.width).min(self.k.end)
    }

    /// A piece of k of which a rank holds as much as of any.
    fn fullest_piece(&self, rank: usize) -> usize {
        let [of_a, of_b] = [A, B].map(|side| Block::of(&self.factors[side][rank]));
        let held = |piece: usize| {
            let k = self.piece(piece);
            let columns = intersect(&of_a.cols, &k).len();
            let rows = intersect(&of_b.rows, &k).len();
            columns * of_a.rows.len() + rows * of_b.cols.len()
        };
        // It is the first whole one of A's, of B's or of both's, if there is a whole one.
        let starts = [
            of_a.cols.start,
            of_b.rows.start,
            of_a.cols.start.max(of_b.rows.start),
        ];
        let pieces = starts.into_iter().flat_map(|start| {
            let before = start.saturating_sub(self.k.start) / self.width;
            [before, before + 1]
        });
        let last = self.pieces().saturating_sub(1);
        let pieces = pieces.map(|piece| piece.min(last));
        pieces
            .max_by_key(|&piece| (held(piece), std::cmp::Reverse(piece)))
            .unwrap_or(0)
    }

    /// What this rank needs of each factor in one step.
    pub(super) fn panels(&self, step: usize) -> [Block; 2] {
        self.needed_by(self.rank, &self.pivot(self.rank, step))
    }

    /// What a rank needs of each factor for these indices along k.
    fn needed_by(&self, rank: usize, k: &Range<usize>) -> [Block; 2] {
        let part = &self.c_parts[rank];
        let of_a = Block {
            rows: part.row_range(),
            cols: k.clone(),
        };
        let of_b = Block {
            rows: k.clone(),
            cols: part.col_range(),
        };
        if part.is_empty() {
            return [Block::default(), Block::default()];
        }
        [of_a, of_b]
    }

    /// What of a factor comes and goes in one step.
    pub(super) fn transfers(&self, step: usize, side: usize) -> StepTransfers {
        let me = self.rank;
        let shared = |holder, reader| self.shared(side, &self.pivot(reader, step), holder, reader);
        let mut transfers = StepTransfers {
            own: shared(me, me),
            ..StepTransfers::default()
        };
        for (block, readers) in self.readers(side, |reader| self.pivot(reader, step)) {
            let route = self.route(step, side, me, (&block, readers));
            transfers.sends.extend(route.sent(block));
        }
        for holder in self.others(me) {
            let Some(block) = shared(holder, me) else {
                continue;
            };
            let same = |&reader: &usize| shared(holder, reader).as_ref() == Some(&block);
            let readers = self.others(holder).filter(same).collect();
            let route = self.route(step, side, holder, (&block, readers));
            transfers.recvs.extend(route.received(me, block));
        }
        transfers
    }

    fn others(&self, rank: usize) -> impl Iterator<Item = usize> + use<> {
        (0..self.c_parts.len()).filter(move |&other| other != rank)
    }

    /// What `reader` needs of what `holder` holds.
    fn shared(
        &self,
        side: usize,
        pivot: &Range<usize>,
        holder: usize,
        reader: usize,
    ) -> Option<Block> {
        let held = Block::of(&self.factors[side][holder]);
        let block = held.intersection(&self.needed_by(reader, pivot)[side]);
        (block.len() > 0).then_some(block)
    }

    /// The blocks that others need, over what is theirs of k, of what this rank holds, each with those who need it.
    fn readers(
        &self,
        side: usize,
        k_of: impl Fn(usize) -> Range<usize>,
    ) -> Vec<(Block, Vec<usize>)> {
        let mut all: Vec<(Block, Vec<usize>)> = Vec::new();
        for reader in self.others(self.rank) {
            let Some(block) = self.shared(side, &k_of(reader), self.rank, reader) else {
                continue;
            };
            match all.iter_mut().find(|(other, _)| *other == block) {
                Some((_, readers)) => readers.push(reader),
                None => all.push((block, vec![reader])),
            }
        }
        all
    }

    /// How a block gets from its holder to its readers: the same on every rank that asks.
    fn route(
        &self,
        step: usize,
        side: usize,
        holder: usize,
        (block, readers): (&Block, Vec<usize>),
    ) -> PieceRoute {
        let ranks = self.c_parts.len();
        // A set of panels is used again when its messages are done, so that no two steps under way have the same number.
        let tag = ((step % self.sets) * 2 + side) * ranks + holder + 1;
        let tag = u32::try_from(tag).ok().filter(|&tag| tag <= MAX_TAG);
        let relayed = self.relays.favour(block.len(), readers.len());
        PieceRoute {
            members: std::iter::once(holder).chain(readers).collect(),
            tag: tag.filter(|_| relayed),
        }
    }
}

/// When pieces are passed on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Relays {
    /// What the links were measured to carry; where nobody knows, the bytes are what counts.
    pub links: Option<Links>,
    pub element_bytes: usize,
}

impl Relays {
    fn favour(&self, elements: usize, receivers: usize) -> bool {
        match &self.links {
            Some(links) => links.favour_relays((elements * self.element_bytes) as f64, receivers),
            None => (rounds(receivers) as usize) < receivers,
        }
    }
}

/// How a block gets from its holder to all who need it.
struct PieceRoute {
    /// The holder, and the others in ascending order.
    members: Vec<usize>,
    /// Of one that is passed on in a tree.
    tag: Option<u32>,
}

impl PieceRoute {
    /// What the holder sends.
    fn sent(&self, block: Block) -> impl Iterator<Item = PanelPiece> {
        let (tag, members) = (self.tag.unwrap_or(0), self.members.len());
        let to: Vec<usize> = match self.tag {
            Some(_) => tree::children(0, members).collect(),
            None => (1..members).collect(),
        };
        to.into_iter().map(move |member| PanelPiece {
            rank: self.members[member],
            block: block.clone(),
            tag,
            forward: Vec::new(),
        })
    }

    /// What `reader` receives and passes on.
    fn received(&self, reader: usize, block: Block) -> Option<PanelPiece> {
        let member = self
            .members
            .iter()
            .skip(1)
            .position(|&rank| rank == reader)?
            + 1;
        let rank_of = |member: usize| self.members[member];
        Some(match self.tag {
            None => PanelPiece {
                rank: self.members[0],
                block,
                tag: 0,
                forward: Vec::new(),
            },
            Some(tag) => PanelPiece {
                rank: rank_of(tree::parent(member)?),
                block,
                tag,
                forward: tree::children(member, self.members.len())
                    .map(rank_of)
                    .collect(),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use isochron_hierarchy::layout::columns;
    use proptest::prelude::*;

    use super::*;
    use crate::matrix::Distribution;
    use crate::multiply::Problem;

    /// Every rank's schedule for a layout of these areas.
    fn schedules(areas: &[f64], [m, n, k]: [usize; 3], panel: usize) -> Vec<StepSchedule> {
        let problem = Problem::new(m, n, k, 3).unwrap().with_panel(panel).unwrap();
        let (rows, cols) = problem.c_blocks();
        let layout = columns::br(areas, rows, cols).unwrap();
        let c = Distribution::new(m, n, problem.block(), Arc::new(layout.clone()));
        let plan = Plan::with_layout(problem, layout, vec![c.part(0).cols], 0).unwrap();
        (0..areas.len())
            .map(|rank| StepSchedule::new(&plan, rank))
            .collect()
    }

    proptest! {
        #[test]
        fn what_is_sent_or_passed_on_is_what_is_received(
            areas in prop::collection::vec(0.1f64..5.0, 1..12),
            shape in [1usize..60, 1usize..60, 1usize..40], panel in 1usize..20,
        ) {
            let schedules = schedules(&areas, shape, panel);
            for (step, side) in (0..shape[2].div_ceil(panel)).flat_map(|step| [(step, A), (step, B)]) {
                let all: Vec<StepTransfers> = schedules.iter().map(|s| s.transfers(step, side)).collect();
                let (mut sent, mut received) = (Vec::new(), Vec::new());
                for (rank, transfers) in all.iter().enumerate() {
                    for piece in &transfers.sends {
                        sent.push((rank, piece.rank, piece.tag, piece.block.clone()));
                    }
                    let mut elements = transfers.own.as_ref().map_or(0, Block::len);
                    for piece in &transfers.recvs {
                        received.push((piece.rank, rank, piece.tag, piece.block.clone()));
                        let passed = piece.forward.iter();
                        sent.extend(passed.map(|&to| (rank, to, piece.tag, piece.block.clone())));
                        elements += piece.block.len();
                    }
                    prop_assert_eq!(elements, schedules[rank].panels(step)[side].len());
                }
                let key = |piece: &(usize, usize, u32, Block)| {
                    (piece.0, piece.1, piece.2, piece.3.rows.start, piece.3.cols.start)
                };
                sent.sort_by_key(key);
                received.sort_by_key(key);
                prop_assert_eq!(&sent, &received);
                // What has a number is alone with it on its way.
                let numbered: Vec<_> = sent.iter().filter(|piece| piece.2 > 0).collect();
                for pair in numbered.windows(2) {
                    prop_assert_ne!((pair[0].0, pair[0].1, pair[0].2), (pair[1].0, pair[1].1, pair[1].2));
                }
            }
        }
    }

    proptest! {
        #[test]
        fn every_rank_goes_through_all_of_k_and_begins_with_its_own(
            areas in prop::collection::vec(0.1f64..5.0, 1..5),
            shape in [8usize..60, 8usize..60, 1usize..40], panel in 1usize..20,
        ) {
            let width = panel.min(shape[2]);
            for schedule in schedules(&areas, shape, panel) {
                let steps = (0..shape[2].div_ceil(width)).map(|step| schedule.panels(step)[A].cols.clone());
                let mut seen: Vec<_> = steps.collect();
                if schedule.c().is_empty() {
                    continue;
                }
                let held = |k: &Range<usize>| {
                    let own = |side| schedule.shared(side, k, schedule.rank, schedule.rank);
                    [A, B].into_iter().filter_map(own).map(|block| block.len()).sum::<usize>()
                };
                if schedule.own_orders {
                    prop_assert_eq!(Some(held(&seen[0])), seen.iter().map(held).max());
                }
                seen.sort_by_key(|k| k.start);
                let all: Vec<usize> = seen.into_iter().flatten().collect();
                prop_assert_eq!(all, (0..shape[2]).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn two_equal_ranks_wait_for_nothing_and_then_send_to_each_other() {
        for schedule in schedules(&[1.0, 1.0], [12, 24, 24], 3) {
            let [now, next] = [0, 1].map(|step| schedule.transfers(step, A));
            assert!(now.recvs.is_empty() && now.sends.is_empty());
            assert!(next.recvs.len() == 1 && next.sends.len() == 1);
        }
    }

    #[test]
    fn few_receivers_are_sent_to_and_many_pass_it_on() {
        let relayed = |areas: usize| {
            let schedules = schedules(&vec![1.0; areas], [4, 3 * areas, 24], 3);
            let sent = (0..8).flat_map(|step| schedules[0].transfers(step, A).sends);
            let sent: Vec<PanelPiece> = sent.collect();
            (sent.len(), sent.iter().any(|piece| piece.tag > 0))
        };
        // One row of ranks, who all need the same of A.
        assert_eq!(relayed(3), (6, false));
        assert_eq!(relayed(8), (3, true));
    }
}
