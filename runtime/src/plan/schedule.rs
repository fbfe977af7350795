//! The messages of one SUMMA step: each rank's sends and receives.
//!
//! In step `s` every rank needs pivot columns of A, in the rows of its part of C, and pivot rows of B, in its columns.
//! A piece goes once from its holder to each rank that needs it. Per step the volume is therefore the half perimeters
//! of the parts, less the share that a rank holds itself. Ranks that need the same piece pass it on in a
//! [tree] if the measured network makes that faster than sending it to one after the other. The pivot is as
//! wide as the panels, whatever the block size, so several ranks may hold a part of it.
//!
//! Steps go through k in an [order](super::order) that spreads them over its holders. All ranks share one order if pieces
//! may be passed on; otherwise each rank has its own.
//!
//! The ranks hold A and B as the plan spreads them. They compute the parts of C that the plan gives them, or other ones from
//! some step on: only the readers of a piece change then, not its holder.

use std::cell::OnceCell;
use std::cmp::Reverse;
use std::ops::Range;
use std::sync::Arc;

use isochron_hierarchy::network::{Network, count_rounds};

use super::Plan;
use super::order::{StepOrder, most_at_once};
use super::tree;
use crate::comm::MAX_TAG;
use crate::matrix::redistribute::Moved;
use crate::matrix::{Region, intersect};

/// Index of factor A.
pub(crate) const A: usize = 0;
/// Index of factor B.
pub(crate) const B: usize = 1;

/// Ranks that may need the same lines of a factor, the holder included, without relays. Two receivers get a piece no
/// sooner from a relay than from its holder, unless they are both behind an uplink.
const MOST_WITHOUT_RELAYS: usize = 3;

/// A block on its way between this rank and another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PanelPiece {
    /// The other rank.
    pub rank: usize,
    pub block: Region,
    /// 0 for a piece that comes straight from its holder, in order. A relayed piece has a number that no other piece under
    /// way has.
    pub tag: u32,
    /// The ranks to which the receiver passes it on.
    pub forward: Vec<usize>,
}

/// One rank's share of one step, for one factor. It sends what its readers need in their step of the same number, which
/// may be for other indices along k.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct StepTransfers {
    pub sends: Vec<PanelPiece>,
    pub recvs: Vec<PanelPiece>,
    /// The block that this rank both needs and holds.
    pub own: Option<Region>,
}

/// One rank's transfers in every step.
#[derive(Debug)]
pub(crate) struct StepSchedule {
    rank: usize,
    width: usize,
    /// The indices along k over which this rank computes.
    k: Range<usize>,
    /// `true` if each rank begins with a piece that it holds.
    own_orders: bool,
    /// Made on first use, since many questions need no order.
    order: OnceCell<StepOrder>,
    /// Every rank's part of each factor.
    factors: [Vec<Region>; 2],
    /// The part of C that every rank computes with panels of this rank's k.
    c_parts: Vec<Region>,
    /// For A and B, `true` if even panels of this rank's own elements are [copies](Plan::copies_panels).
    copied: [bool; 2],
    /// Sets of panels that exist at a time.
    sets: usize,
    /// Measured network, which decides if a piece is passed on. Without it, the number of rounds decides.
    network: Option<Arc<Network>>,
    element_bytes: usize,
}

impl StepSchedule {
    /// Makes the schedule of ranks that compute the parts of the plan.
    pub(crate) fn new(plan: &Plan, rank: usize) -> Self {
        let parts: Vec<Region> = (0..plan.n_ranks()).map(|rank| plan.computed(rank)).collect();
        Self::on_parts(plan, &parts, rank)
    }

    /// Makes the schedule of ranks that hold A and B as planned and compute these parts of C.
    pub(crate) fn on_parts(plan: &Plan, parts: &[Region], rank: usize) -> Self {
        let ranks = 0..plan.n_ranks();
        let factors =
            plan.factors().map(|factor| ranks.clone().map(|rank| factor.part(rank)).collect());
        let c_parts: Vec<Region> = ranks
            .map(|other| match plan.division().shares() {
                // If k is split, no other rank computes with this rank's share of the factors.
                Some(_) if other != rank => Region::default(),
                _ => parts[other],
            })
            .collect();
        let has_groups = plan.network().is_some_and(|network| !network.uplinks().is_empty());
        let without_relays = if has_groups { 2 } else { MOST_WITHOUT_RELAYS };
        Self {
            rank,
            width: plan.panel(),
            k: plan.k_range(rank),
            own_orders: [Region::row_range, Region::col_range]
                .into_iter()
                .all(|lines| most_at_once(c_parts.iter().map(lines)) <= without_relays),
            order: OnceCell::new(),
            factors,
            c_parts,
            copied: plan.copies_panels(),
            sets: plan.panel_sets(),
            network: plan.network().cloned(),
            element_bytes: plan.problem().element().bytes(),
        }
    }

    /// Returns the part of C that this rank computes.
    pub(crate) fn c(&self) -> Region {
        self.c_parts[self.rank]
    }

    /// Returns, for A and B, `true` if even panels of this rank's own elements are copies.
    pub(crate) fn copied(&self) -> [bool; 2] {
        self.copied
    }

    /// Returns, for A and B, `true` if this rank needs panels: others hold a part of what it reads, or its own part must be
    /// copied.
    pub(crate) fn needs_panels(&self) -> [bool; 2] {
        let needed = self.needed_by(self.rank, &self.k);
        [A, B].map(|side| {
            let (held, needed) = (self.factors[side][self.rank], needed[side]);
            let is_held = held.intersection(&needed) == needed;
            !needed.is_empty() && (self.copied[side] || !is_held)
        })
    }

    /// Returns the most rows of A, or columns of B, that this rank packs for others in a step. Each piece counts once, or
    /// once per reader if readers may want different pieces of k.
    pub(crate) fn sent_across(&self, side: usize) -> usize {
        let pieces = self.readers_by_block(side, self.rank, |_| self.k.clone());
        pieces
            .iter()
            .map(|(block, readers)| {
                let lines = if side == A { block.rows } else { block.cols };
                lines * if self.own_orders { readers.len() } else { 1 }
            })
            .sum()
    }

    /// Counts the messages that this rank receives in all steps, and their bytes: each piece of k that another rank holds
    /// of its rows of A, or of its columns of B, comes once.
    pub(crate) fn count_received(&self) -> Moved {
        let mut received = Moved::default();
        for (side, holder) in (0..self.c_parts.len()).flat_map(|rank| [(A, rank), (B, rank)]) {
            let shared = self.shared_block(side, &self.k, holder, self.rank);
            let Some(block) = shared.filter(|_| holder != self.rank) else {
                continue;
            };
            let lines = if side == A { block.col_range() } else { block.row_range() };
            let [first, last] =
                [lines.start, lines.end - 1].map(|k| (k - self.k.start) / self.width);
            received.messages += (last - first + 1) as u64;
            received.bytes += (block.len() * self.element_bytes) as u64;
        }
        received
    }

    /// Adds a span of steps, after which all ranks have computed with the same pieces of k. Without any, all steps are one.
    pub(crate) fn add_span(&mut self, steps: Range<usize>) {
        let order = self.order.take();
        let mut order = order.unwrap_or_else(|| StepOrder::new(self.piece_count()));
        self.order_span(&mut order, steps);
        self.order = OnceCell::from(order);
    }

    fn order_span(&self, order: &mut StepOrder, steps: Range<usize>) {
        order.add_span(steps, self.c_parts.len(), |rank, pieces| {
            if self.own_orders { self.find_fullest(rank, pieces) } else { 0 }
        });
    }

    /// Returns the number of indices along k of this rank's step.
    pub(crate) fn count_k(&self, step: usize) -> usize {
        self.pivot_range(self.rank, step).len()
    }

    /// Returns the indices along k of a rank's step.
    fn pivot_range(&self, rank: usize, step: usize) -> Range<usize> {
        let order = self.order.get_or_init(|| {
            let mut order = StepOrder::new(self.piece_count());
            self.order_span(&mut order, 0..self.piece_count());
            order
        });
        self.piece_range(order.piece_at(rank, step))
    }

    /// Returns the number of pieces of k: this rank's steps.
    pub(crate) fn piece_count(&self) -> usize {
        self.k.len().div_ceil(self.width)
    }

    /// Returns the indices along k of a piece; pieces are counted in order of k.
    fn piece_range(&self, index: usize) -> Range<usize> {
        let start = self.k.start + index * self.width;
        start..(start + self.width).min(self.k.end)
    }

    /// Returns the place of the first piece along k of which a rank holds at least as much as of any other of these.
    fn find_fullest(&self, rank: usize, pieces: &[usize]) -> usize {
        let places = 0..pieces.len();
        places
            .max_by_key(|&place| {
                let piece = pieces[place];
                (self.held_elements(rank, piece), Reverse(piece))
            })
            .unwrap_or(0)
    }

    /// Returns the elements of both factors that a rank holds of a piece of k.
    fn held_elements(&self, rank: usize, piece: usize) -> usize {
        let (of_a, of_b) = (&self.factors[A][rank], &self.factors[B][rank]);
        let k = self.piece_range(piece);
        intersect(&of_a.col_range(), &k).len() * of_a.rows
            + intersect(&of_b.row_range(), &k).len() * of_b.cols
    }

    /// Returns the blocks of A and B that this rank needs in a step.
    pub(crate) fn panel_blocks(&self, step: usize) -> [Region; 2] {
        self.needed_by(self.rank, &self.pivot_range(self.rank, step))
    }

    /// Returns the blocks of A and B that a rank needs for these indices along k.
    fn needed_by(&self, rank: usize, k: &Range<usize>) -> [Region; 2] {
        let part = &self.c_parts[rank];
        if part.is_empty() {
            return [Region::default(); 2];
        }
        let of_a = Region::new(part.row_range(), k.clone());
        let of_b = Region::new(k.clone(), part.col_range());
        [of_a, of_b]
    }

    /// Returns this rank's sends and receives of one factor in a step.
    pub(crate) fn step_transfers(&self, step: usize, side: usize) -> StepTransfers {
        let me = self.rank;
        let pivot = self.pivot_range(me, step);
        let mut transfers = StepTransfers {
            own: self.shared_block(side, &pivot, me, me),
            ..StepTransfers::default()
        };
        for holder in 0..self.c_parts.len() {
            if holder != me && self.shared_block(side, &pivot, holder, me).is_none() {
                continue;
            }
            let blocks =
                self.readers_by_block(side, holder, |reader| self.pivot_range(reader, step));
            for (block, readers) in blocks {
                let route = self.route_block(step, side, holder, block, readers);
                if holder == me {
                    transfers.sends.extend(route.sent_pieces());
                } else {
                    transfers.recvs.extend(route.received_piece(me));
                }
            }
        }
        transfers
    }

    /// Returns the block that `reader` needs for these indices along k and `holder` holds.
    fn shared_block(
        &self,
        side: usize,
        pivot: &Range<usize>,
        holder: usize,
        reader: usize,
    ) -> Option<Region> {
        let block = self.factors[side][holder].intersection(&self.needed_by(reader, pivot)[side]);
        (!block.is_empty()).then_some(block)
    }

    /// Returns the blocks of the holder's part that others need, each with its readers. `k_of` gives each reader's indices
    /// along k.
    fn readers_by_block(
        &self,
        side: usize,
        holder: usize,
        k_of: impl Fn(usize) -> Range<usize>,
    ) -> Vec<(Region, Vec<usize>)> {
        let mut all: Vec<(Region, Vec<usize>)> = Vec::new();
        for reader in (0..self.c_parts.len()).filter(|&rank| rank != holder) {
            let Some(block) = self.shared_block(side, &k_of(reader), holder, reader) else {
                continue;
            };
            match all.iter_mut().find(|(other, _)| *other == block) {
                Some((_, readers)) => readers.push(reader),
                None => all.push((block, vec![reader])),
            }
        }
        all
    }

    /// Returns the route of a block from its holder to its readers, the same on every rank that asks.
    fn route_block(
        &self,
        step: usize,
        side: usize,
        holder: usize,
        block: Region,
        mut readers: Vec<usize>,
    ) -> PieceRoute {
        let ranks = self.c_parts.len();
        // Each holder's tree begins after it, so that relaying is shared by all ranks.
        let before = readers.partition_point(|&rank| rank < holder);
        readers.rotate_left(before);
        // A set of panels is used again only when its messages are done, so no two steps under way share a number. The
        // largest number is that of letters.
        let tag = ((step % self.sets) * 2 + side) * ranks + holder + 1;
        let tag = u32::try_from(tag).ok().filter(|&tag| tag < MAX_TAG);
        let members: Vec<usize> = std::iter::once(holder).chain(readers).collect();
        let mut senders = vec![0; members.len()];
        if tag.is_some() && members.len() > 2 {
            let all: Vec<usize> = (0..members.len()).collect();
            self.spread(&all, &members, block.len(), 0, &mut senders);
        }
        let is_relayed = senders.iter().any(|&sender| sender > 0);
        PieceRoute { block, members, senders, tag: tag.filter(|_| is_relayed).unwrap_or(0) }
    }

    /// Finds the sender of each of these members, the first of which has the block. Groups of ranks that lie within `depth` others get
    /// it once, by a tree if that is faster, and each spreads it further.
    fn spread(
        &self,
        some: &[usize],
        members: &[usize],
        elements: usize,
        depth: usize,
        senders: &mut [usize],
    ) {
        let group_of = |member: usize| self.network.as_ref()?.group_of(members[member], depth);
        let mut units: Vec<(Option<usize>, Vec<usize>)> = Vec::new();
        for &member in some {
            let group = group_of(member);
            match units.iter_mut().find(|(other, _)| group.is_some() && *other == group) {
                Some((_, unit)) => unit.push(member),
                None => units.push((group, vec![member])),
            }
        }
        if self.favours_relays(depth, elements, units.len() - 1) {
            for unit in 1..units.len() {
                senders[units[unit].1[0]] = units[tree::parent(unit).unwrap_or(0)].1[0];
            }
        } else {
            units[1..].iter().for_each(|(_, unit)| senders[unit[0]] = some[0]);
        }
        for (_, unit) in units.iter().filter(|(_, unit)| unit.len() > 1) {
            self.spread(unit, members, elements, depth + 1, senders);
        }
    }

    fn favours_relays(&self, depth: usize, elements: usize, receivers: usize) -> bool {
        let bytes = (elements * self.element_bytes) as f64;
        match &self.network {
            Some(network) => network.favour_relays(depth, bytes, receivers),
            None => (count_rounds(receivers) as usize) < receivers,
        }
    }
}

/// The way of a block from its holder to all its readers.
struct PieceRoute {
    block: Region,
    /// The holder, then the readers in ascending order.
    members: Vec<usize>,
    /// The sender of each of them, by its place among them.
    senders: Vec<usize>,
    /// The [number](PanelPiece::tag) of a block that is passed on in a tree; 0 if the holder sends it to each reader.
    tag: u32,
}

impl PieceRoute {
    /// Returns the messages that the holder sends.
    fn sent_pieces(&self) -> impl Iterator<Item = PanelPiece> {
        self.receivers_from(0).into_iter().map(|rank| PanelPiece {
            rank,
            block: self.block,
            tag: self.tag,
            forward: Vec::new(),
        })
    }

    /// Returns the message that `reader` receives, with the ranks to which it passes it on.
    fn received_piece(&self, reader: usize) -> Option<PanelPiece> {
        let member = self.members.iter().position(|&rank| rank == reader)?;
        Some(PanelPiece {
            rank: self.members[self.senders[member]],
            block: self.block,
            tag: self.tag,
            forward: self.receivers_from(member),
        })
    }

    /// Returns the ranks to which a member sends the block.
    fn receivers_from(&self, member: usize) -> Vec<usize> {
        let others = (1..self.members.len()).filter(|&other| self.senders[other] == member);
        others.map(|other| self.members[other]).collect()
    }
}

#[cfg(test)]
mod tests {
    use isochron_hierarchy::layout::columns;
    use isochron_hierarchy::network::{MessageCurve, Uplink};
    use proptest::prelude::*;

    use super::*;
    use crate::matrix::Spread;
    use crate::plan::Problem;

    /// Returns every rank's schedule for a layout of these areas.
    fn schedules(areas: &[f64], shape: [usize; 3], panel: usize) -> Vec<StepSchedule> {
        schedules_on([areas; 2], shape, panel, false)
    }

    /// Returns every rank's schedule where A and B are held for a layout of the first areas, and computed on one of the
    /// second. Ranks may be in two groups, each second one in the same.
    fn schedules_on(
        areas: [&[f64]; 2],
        [m, n, k]: [usize; 3],
        panel: usize,
        in_groups: bool,
    ) -> Vec<StepSchedule> {
        let problem = Problem::new(m, n, k, 3).unwrap().with_panel(panel).unwrap();
        let (rows, cols) = problem.c_blocks();
        let [held, computed] = areas.map(|areas| columns::br(areas, rows, cols).unwrap());
        let [on_held, on_computed] =
            [&held, &computed].map(|layout| Spread::on_layout(m, n, problem.block(), layout));
        let ranks = 0..areas[0].len();
        let slices: Vec<_> = ranks.clone().map(|rank| vec![on_held.part(rank).cols]).collect();
        let mut plan = Plan::with_layout(problem, held, &slices).unwrap();
        if in_groups {
            let uplinks = [0, 1].map(|first| Uplink {
                ranks: ranks.clone().skip(first).step_by(2).collect(),
                bytes_per_s: 1e8,
            });
            let levels = vec![MessageCurve::line(1e-5, 1e9); 2];
            plan = plan.with_network(Network::grouped(levels, uplinks.to_vec()));
        }
        let parts: Vec<Region> = ranks.clone().map(|rank| on_computed.part(rank)).collect();
        ranks.map(|rank| StepSchedule::on_parts(&plan, &parts, rank)).collect()
    }

    /// Sender, receiver, tag and block of a message.
    type SentPiece = (usize, usize, u32, Region);

    fn sort_key(piece: &SentPiece) -> (usize, usize, u32, usize, usize) {
        let (from, to, tag, block) = piece;
        (*from, *to, *tag, block.row, block.col)
    }

    /// Counts the elements of both factors that a rank holds and needs over these indices along k.
    fn count_held(schedule: &StepSchedule, k: &Range<usize>) -> usize {
        [A, B]
            .into_iter()
            .filter_map(|side| schedule.shared_block(side, k, schedule.rank, schedule.rank))
            .map(|block| block.len())
            .sum()
    }

    proptest! {
        #[test]
        fn what_is_sent_or_passed_on_is_what_is_received(
            areas in prop::collection::vec((0.1f64..5.0, 0.1f64..5.0), 1..12),
            shape in [1usize..60, 1usize..60, 1usize..40], panel in 1usize..20,
            moves: bool, in_groups: bool, span in 1usize..9,
        ) {
            let (held, mut computed): (Vec<f64>, Vec<f64>) = areas.into_iter().unzip();
            if !moves {
                computed.clone_from(&held);
            }
            let mut schedules = schedules_on([&held, &computed], shape, panel, in_groups);
            let steps = schedules[0].piece_count();
            for first in (0..steps).step_by(span) {
                for schedule in &mut schedules {
                    schedule.add_span(first..(first + span).min(steps));
                }
            }
            for (step, side) in (0..shape[2].div_ceil(panel)).flat_map(|step| [(step, A), (step, B)]) {
                let all: Vec<StepTransfers> = schedules.iter().map(|s| s.step_transfers(step, side)).collect();
                let (mut sent, mut received) = (Vec::new(), Vec::new());
                for (rank, transfers) in all.iter().enumerate() {
                    for piece in &transfers.sends {
                        sent.push((rank, piece.rank, piece.tag, piece.block));
                    }
                    let mut elements = transfers.own.as_ref().map_or(0, Region::len);
                    for piece in &transfers.recvs {
                        received.push((piece.rank, rank, piece.tag, piece.block));
                        let passed = piece.forward.iter();
                        sent.extend(passed.map(|&to| (rank, to, piece.tag, piece.block)));
                        elements += piece.block.len();
                    }
                    prop_assert_eq!(elements, schedules[rank].panel_blocks(step)[side].len());
                }
                sent.sort_by_key(sort_key);
                received.sort_by_key(sort_key);
                prop_assert_eq!(&sent, &received);
                if in_groups {
                    let crossing = sent.iter().filter(|piece| piece.0 % 2 != piece.1 % 2);
                    let mut blocks: Vec<_> = crossing.map(|piece| (piece.1 % 2, piece.3)).collect();
                    let count = blocks.len();
                    blocks.sort_by_key(|(to, block)| (*to, block.row, block.col, block.rows, block.cols));
                    blocks.dedup();
                    prop_assert_eq!(blocks.len(), count, "a piece crosses twice");
                }
                // No two numbered messages of one pair of ranks share a number.
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
                let mut seen: Vec<_> = (0..shape[2].div_ceil(width)).map(|step| schedule.panel_blocks(step)[A].col_range()).collect();
                if schedule.c().is_empty() {
                    continue;
                }
                if schedule.own_orders {
                    let most = seen.iter().map(|k| count_held(&schedule, k)).max();
                    prop_assert_eq!(Some(count_held(&schedule, &seen[0])), most);
                }
                seen.sort_by_key(|k| k.start);
                let all: Vec<usize> = seen.into_iter().flatten().collect();
                prop_assert_eq!(all, (0..shape[2]).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn relayed_pieces_that_are_under_way_together_have_numbers_of_their_own() {
        // All ranks of one row need the same part of A, so every piece is passed on. One rank holds most of them.
        let areas = [20.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
        let schedules = schedules(&areas, [4, 81, 60], 3);
        let sets = schedules[0].sets;
        for first in 0..20 - sets {
            let mut numbers: Vec<_> = (first..first + sets)
                .flat_map(|step| schedules[1].step_transfers(step, A).recvs)
                .map(|piece| piece.tag)
                .collect();
            let count = numbers.len();
            numbers.sort_unstable();
            numbers.dedup();
            assert!(numbers.len() == count && count > 1, "{numbers:?}");
            assert!(!numbers.contains(&0), "{numbers:?}");
        }
    }

    #[test]
    fn two_equal_ranks_wait_for_nothing_and_then_send_to_each_other() {
        for schedule in schedules(&[1.0, 1.0], [12, 24, 24], 3) {
            let [now, next] = [0, 1].map(|step| schedule.step_transfers(step, A));
            assert!(now.recvs.is_empty() && now.sends.is_empty());
            assert!(next.recvs.len() == 1 && next.sends.len() == 1);
        }
    }

    /// Returns how many pieces the first of `ranks` in a row sends of A, and `true` if one of them is relayed.
    fn count_sent(ranks: usize) -> (usize, bool) {
        let schedules = schedules(&vec![1.0; ranks], [4, 3 * ranks, 24], 3);
        let sent: Vec<PanelPiece> =
            (0..8).flat_map(|step| schedules[0].step_transfers(step, A).sends).collect();
        (sent.len(), sent.iter().any(|piece| piece.tag > 0))
    }

    #[test]
    fn few_receivers_are_sent_to_and_many_pass_it_on() {
        // All ranks of one row need the same part of A.
        assert_eq!(count_sent(3), (6, false));
        assert_eq!(count_sent(8), (3, true));
    }
}
