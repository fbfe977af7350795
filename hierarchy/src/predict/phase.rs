//! The traffic through each part of a network.

use super::{Traffic, panel_traffic};
use crate::layout::{Layout, Rect};
use crate::network::{Network, PhaseTraffic, count_rounds};

/// Returns the traffic through each part of the network while C stays in place; [`panel_traffic()`] has it by node.
///
/// A piece that several ranks of a group need from outside passes its uplink once: one rank passes it on.
pub fn panel_phase(
    network: &Network,
    layout: &Layout,
    block: usize,
    k: usize,
    panel: usize,
) -> PhaseTraffic {
    if network.uplinks().is_empty() {
        return PhaseTraffic::of(panel_traffic(layout, block, k, panel));
    }
    let steps = k.div_ceil(panel.max(1)) as f64;
    let lines = [Axis::Rows, Axis::Cols].map(|axis| Lines { layout, axis });
    let of_line = k as f64 * block as f64;
    let received = (0..layout.rects().len()).map(|rank| {
        let mut before = Traffic::default();
        let mut levels = Vec::new();
        for set in list_sets(network, rank) {
            let mut outside = Traffic::default();
            for axis in &lines {
                let span = axis.span(rank);
                let (own, held) = (span.1 - span.0, axis.held_by(&set, span));
                if own > 0.0 {
                    outside.elements += of_line * (own - held);
                    outside.messages += steps * (1.0 - held / own);
                }
            }
            // What the set beyond this one does not hold was counted already.
            levels.push(Traffic {
                elements: (outside.elements - before.elements).max(0.0),
                messages: (outside.messages - before.messages).max(0.0),
            });
            before = outside;
        }
        levels
    });
    let tree = GroupTree::new(network, layout.rects().len());
    let through = network.uplinks().iter().enumerate().map(|(group, uplink)| {
        let [mut comes, mut goes] = [0.0; 2];
        for axis in &lines {
            comes += axis.needed_by(&uplink.ranks, |span| {
                span.1 - span.0 - axis.held_by(&uplink.ranks, span)
            });
            let others = tree.list_others(group);
            goes += others
                .map(|other| axis.needed_by(other, |span| axis.held_by(&uplink.ranks, span)))
                .sum::<f64>();
        }
        of_line * comes.max(goes)
    });
    PhaseTraffic { received: received.collect(), through: through.collect() }
}

/// Most readers of a piece that its holder sends it to itself; more relay it.
const DIRECT: usize = 2;

/// Returns the elements that the busiest node sends while C stays in place, for each part of k in turn, with the share of that part.
///
/// Where a node holds pieces of A or B, it sends each to one or two readers itself. More relay it, in a tree that the holder begins:
/// it sends it [once a round](count_rounds()).
pub fn panel_sends(layout: &Layout, block: usize, k: usize) -> Vec<(f64, f64)> {
    let [rows, cols] = [Axis::Rows, Axis::Cols].map(|axis| Lines { layout, axis });
    // From this part of k on a rank sends more copies of lines, or fewer.
    let mut changes: Vec<(f64, usize, f64)> = Vec::new();
    for (axis, across, all) in [(&rows, &cols, layout.cols()), (&cols, &rows, layout.rows())] {
        for (rank, copies) in axis.count_copies().into_iter().enumerate() {
            let (first, end) = across.span(rank);
            changes.push((first / all as f64, rank, copies));
            changes.push((end / all as f64, rank, -copies));
        }
    }
    changes.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut copies = vec![0.0; layout.rects().len()];
    let mut senders: Vec<usize> = Vec::new();
    let mut parts = Vec::new();
    for (place, &(from, rank, more)) in changes.iter().enumerate() {
        copies[rank] += more;
        senders.push(rank);
        let share = changes.get(place + 1).map_or(0.0, |next| next.0 - from);
        if share > 0.0 {
            senders.sort_unstable();
            senders.dedup();
            senders.retain(|&rank| copies[rank] > ROUNDING);
            let most = senders.iter().map(|&rank| copies[rank]).fold(0.0, f64::max);
            parts.push((share, share * most * k as f64 * block as f64));
        }
    }
    parts
}

/// Copies of lines that are left over by rounding.
const ROUNDING: f64 = 1e-6;

/// Returns the traffic through each part of the network if k is split. `layout` gives the holders of C, in blocks of
/// `block` elements a side; `computes` is `true` for the nodes with a share of k.
pub fn reduction_phase(
    network: &Network,
    layout: &Layout,
    block: usize,
    computes: &[bool],
) -> PhaseTraffic {
    let areas: Vec<f64> =
        layout.areas().into_iter().map(|area| area as f64 * (block * block) as f64).collect();
    let received = (0..areas.len()).map(|rank| {
        let mut levels = vec![Traffic::default(); network.count_levels()];
        for other in (0..areas.len()).filter(|&other| other != rank && computes[other]) {
            if areas[rank] > 0.0 {
                let level = &mut levels[network.level_of(rank, other)];
                level.elements += areas[rank];
                level.messages += 1.0;
            }
        }
        levels
    });
    let through = network.uplinks().iter().map(|uplink| {
        let [inside, outside]: [Vec<usize>; 2] = [true, false]
            .map(|is_in| (0..areas.len()).filter(|&rank| uplink.has(rank) == is_in).collect());
        let pass = |from: &[usize], to: &[usize]| {
            let parts = from.iter().filter(|&&rank| computes[rank]).count() as f64;
            parts * to.iter().map(|&rank| areas[rank]).sum::<f64>()
        };
        pass(&outside, &inside).max(pass(&inside, &outside))
    });
    PhaseTraffic { received: received.collect(), through: through.collect() }
}

/// Lists the sets of ranks around this one, from its outermost group to itself.
fn list_sets(network: &Network, rank: usize) -> Vec<Vec<usize>> {
    let groups = network.uplinks().iter().filter(|uplink| uplink.has(rank));
    groups.map(|uplink| uplink.ranks.clone()).chain([vec![rank]]).collect()
}

/// The groups of a network within each other.
struct GroupTree {
    /// For each group the one around it.
    around: Vec<Option<usize>>,
    /// The sets of ranks that lie in each group, and at last those in none: smaller groups, and single ranks.
    sets: Vec<Vec<Vec<usize>>>,
}

impl GroupTree {
    fn new(network: &Network, ranks: usize) -> Self {
        let groups = network.list_groups();
        // Each group comes before those within it.
        let mut innermost: Vec<Option<usize>> = vec![None; ranks];
        let mut sets = vec![Vec::new(); groups.len() + 1];
        let mut around = Vec::new();
        for (number, group) in groups.iter().enumerate() {
            let outer = innermost[group[0]];
            sets[outer.unwrap_or(groups.len())].push(group.to_vec());
            around.push(outer);
            group.iter().for_each(|&rank| innermost[rank] = Some(number));
        }
        for (rank, group) in innermost.into_iter().enumerate() {
            sets[group.unwrap_or(groups.len())].push(vec![rank]);
        }
        Self { around, sets }
    }

    /// Lists the sets of ranks outside a group, as far out as can be: each gets once what it needs from the group.
    fn list_others(&self, group: usize) -> impl Iterator<Item = &Vec<usize>> {
        let mut within = Some(group);
        let outwards = std::iter::from_fn(move || {
            let inner = within?;
            within = self.around[inner];
            Some((inner, within))
        });
        outwards.flat_map(|(inner, outer)| {
            let beside = &self.sets[outer.unwrap_or(self.around.len())];
            // Sets of one group are disjoint: the one that has its first rank is itself.
            let own = self.sets[inner].first().map_or(0, |set| set[0]);
            beside.iter().filter(move |set| !set.contains(&own))
        })
    }
}

#[derive(Debug, Clone, Copy)]
enum Axis {
    Rows,
    Cols,
}

/// The lines of C along an axis. A rank with a part of C needs the rows of A, or the columns of B, on its lines.
struct Lines<'l> {
    layout: &'l Layout,
    axis: Axis,
}

impl Lines<'_> {
    fn span_of(&self, rect: &Rect) -> (f64, f64) {
        let (first, count) = match self.axis {
            Axis::Rows => (rect.row, rect.rows),
            Axis::Cols => (rect.col, rect.cols),
        };
        (first as f64, if rect.is_empty() { first as f64 } else { (first + count) as f64 })
    }

    fn span(&self, rank: usize) -> (f64, f64) {
        self.span_of(&self.layout.rects()[rank])
    }

    /// Returns the lines of the factor that a set of ranks holds in a span; half a line counts as a half.
    fn held_by(&self, ranks: &[usize], span: (f64, f64)) -> f64 {
        let across = |rect: &Rect| match self.axis {
            Axis::Rows => rect.cols as f64 / self.layout.cols() as f64,
            Axis::Cols => rect.rows as f64 / self.layout.rows() as f64,
        };
        let rects = ranks.iter().map(|&rank| &self.layout.rects()[rank]);
        rects
            .filter(|rect| !rect.is_empty())
            .map(|rect| {
                let (start, end) = self.span_of(rect);
                (end.min(span.1) - start.max(span.0)).max(0.0) * across(rect)
            })
            .sum()
    }

    /// Counts the copies of lines that each rank sends where it holds them.
    fn count_copies(&self) -> Vec<f64> {
        let spans = (0..self.layout.rects().len()).map(|rank| self.span(rank));
        let spans: Vec<(f64, f64)> = spans.collect();
        let is_used = |span: &&(f64, f64)| span.1 > span.0;
        let mut ends: Vec<(f64, i64)> =
            spans.iter().filter(is_used).flat_map(|span| [(span.0, 1), (span.1, -1)]).collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        // From each end on, the ranks that have the lines.
        ends.iter_mut().fold(0, |ranks, end| {
            end.1 += ranks;
            end.1
        });
        let of_span = |span: &(f64, f64)| {
            let pieces = ends.windows(2).map(|pair| {
                let count = (pair[1].0.min(span.1) - pair[0].0.max(span.0)).max(0.0);
                let readers = (pair[0].1 - 1).max(0) as usize;
                let copies =
                    if readers > DIRECT { count_rounds(readers) as usize } else { readers };
                count * copies as f64
            });
            pieces.sum()
        };
        spans.iter().map(of_span).collect()
    }

    /// Sums over the spans of lines that a set of ranks needs.
    fn needed_by(&self, ranks: &[usize], of_span: impl Fn((f64, f64)) -> f64) -> f64 {
        let mut spans: Vec<(f64, f64)> = ranks.iter().map(|&rank| self.span(rank)).collect();
        spans.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut end = 0.0f64;
        let mut sum = 0.0;
        for span in spans {
            let start = span.0.max(end);
            if span.1 > start {
                sum += of_span((start, span.1));
                end = span.1;
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::layout::br;
    use crate::network::{MessageCurve, Uplink};

    /// Makes a layout of columns of these widths and heights.
    fn columns(rows: u64, cols: u64, of: &[(u64, &[u64])]) -> Layout {
        let mut rects = Vec::new();
        let mut col = 0;
        for &(width, heights) in of {
            let mut row = 0;
            for &height in heights {
                rects.push(Rect::new(row, col, height, width));
                row += height;
            }
            col += width;
        }
        Layout::new(rows, cols, rects).unwrap()
    }

    fn in_groups(groups: &[&[usize]]) -> Network {
        let levels = [1e-3, 1e-5].map(|latency_s| MessageCurve::line(latency_s, 1e9)).to_vec();
        let uplinks = groups.iter().map(|ranks| Uplink { ranks: ranks.to_vec(), bytes_per_s: 1e8 });
        Network::grouped(levels, uplinks.collect())
    }

    #[test]
    fn groups_side_by_side_need_half_of_one_factor_and_others_more() {
        // Two by two: ranks 0 and 1 in the first column.
        let layout = br(&[1.0; 4], 8, 8).unwrap();
        let [beside, across] = [[[0, 1], [2, 3]], [[0, 3], [1, 2]]].map(|[one, other]| {
            let groups = [&one[..], &other[..]];
            let phase = panel_phase(&in_groups(&groups), &layout, 10, 800, 100);
            (phase.through[0], phase.received[0].clone())
        });
        let half = 800.0 * 80.0 / 2.0;
        assert_eq!(beside.0, half);
        // On the diagonal each needs half of both factors from the other group.
        assert_eq!(across.0, 2.0 * half);
        let [far, near] = [0, 1].map(|level| beside.1[level]);
        assert_eq!((far.elements, far.messages, near.elements), (half / 2.0, 4.0, half / 2.0));
    }

    #[test]
    fn a_holder_sends_where_it_holds_and_begins_the_trees() {
        // Two columns of one and of two ranks: each line has one reader, and the first rank needs no B of others.
        let layout = columns(4, 4, &[(2, &[4]), (2, &[2, 2])]);
        let half = 800.0 * 10.0 / 2.0;
        // First rank 0 sends all rows of A, and then rank 2 its rows of A and its columns of B.
        let sends = panel_sends(&layout, 10, 800);
        assert_eq!(sends, [(0.5, half * 4.0), (0.5, half * (2.0 + 2.0))]);
        // One column of five relays its columns of B in three rounds.
        let layout = columns(10, 1, &[(1, &[2; 5])]);
        let all: f64 = panel_sends(&layout, 1, 10).iter().map(|(_, elements)| elements).sum();
        assert!((all - 10.0 * 3.0).abs() < 1e-9, "{all}");
    }

    proptest! {
        #[test]
        fn levels_add_up_and_uplinks_carry_no_more_than_their_ranks_receive(
            areas in prop::collection::vec(0.1f64..9.0, 4..9),
            cut in 1usize..3,
        ) {
            let layout = br(&areas, 40, 30).unwrap();
            let ranks: Vec<usize> = (0..areas.len()).collect();
            let network = in_groups(&[&ranks[..=cut], &ranks[cut + 1..]]);
            let computes = vec![true; areas.len()];
            let pairs = [
                (panel_phase(&network, &layout, 2, 100, 10), panel_traffic(&layout, 2, 100, 10)),
                (
                    reduction_phase(&network, &layout, 2, &computes),
                    reduction_phase(&Network::flat(0.0, 1.0), &layout, 2, &computes).received.concat(),
                ),
            ];
            for (phase, flat) in pairs {
                for (levels, node) in phase.received.iter().zip(&flat) {
                    let sum = Traffic::total(levels);
                    prop_assert!((sum.elements - node.elements).abs() < 1e-6 * node.elements.max(1.0));
                    prop_assert!((sum.messages - node.messages).abs() < 1e-6 * node.messages.max(1.0));
                }
                let far: f64 = phase.received.iter().map(|levels| levels[0].elements).sum();
                // Two groups: what goes out of one comes into the other.
                prop_assert!((phase.through[0] - phase.through[1]).abs() < 1e-6 * far.max(1.0));
                prop_assert!(phase.through[0] <= far * (1.0 + 1e-9));
                // A phase takes no less than its parts.
                let whole_s = network.phase_s(&phase, 8);
                for rank in 0..areas.len() {
                    let mut part = phase.clone();
                    part.received[rank] = vec![Traffic::default(); 2];
                    part.through[0] /= 2.0;
                    prop_assert!(network.phase_s(&part, 8) <= whole_s * (1.0 + 1e-9));
                }
            }
        }
    }
}
