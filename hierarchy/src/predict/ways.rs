//! The ways to divide a multiplication, what each is predicted to take, and which one to use.
//!
//! What travels while C stays is least in nearly square rectangles where C is, and in slices where it is long and thin: then
//! the short factor goes to everybody, and the long one stays. [`br()`](crate::layout::br()) finds that by itself: a single
//! column of nodes are slices of rows, and as many columns as nodes are slices of columns, so that both are among what it
//! chooses from. On 65536×512 and 512×65536 in blocks of 128, on 2, 3, 4 and 6 nodes, alike or 1 : 2 : 4 : 8, its layout *is*
//! those slices; and from 4×4 to 512×4 blocks on 2 to 6 nodes there was no case in which slices bring less to the busiest node,
//! as long as every node has a part. What is left to slices is to be rounded better, where C has few blocks.
//!
//! So the layout that was balanced is taken unless another way is predicted to be [clearly faster](choose_way()).

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Multiplication, NodeRate, panel_traffic, reduction_traffic, wall_s};
use crate::layout::{Layout, LayoutError, slice_cols, slice_rows};
use crate::partition::apportion;

/// What is divided among the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// m and n: C in rectangles; every node receives rows of A and columns of B.
    #[default]
    C,
    /// m alone: C in slices of rows; everybody receives all of B.
    M,
    /// n alone: C in slices of columns; everybody receives all of A.
    N,
    /// k: every node computes all of C over its share, and the parts are summed.
    K,
}

impl Way {
    /// The way that a layout is while C stays: [`M`](Self::M) where all rectangles are as wide as C, [`N`](Self::N) where all
    /// are as high, [`C`](Self::C) otherwise and where one node has everything.
    #[must_use]
    pub fn of(layout: &Layout) -> Self {
        let rects = || layout.rects().iter().filter(|rect| !rect.is_empty());
        let wide = rects().all(|rect| rect.cols == layout.cols());
        let high = rects().all(|rect| rect.rows == layout.rows());
        match (wide, high) {
            (true, false) => Self::M,
            (false, true) => Self::N,
            _ => Self::C,
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::C => "c",
            Self::M => "m",
            Self::N => "n",
            Self::K => "k",
        })
    }
}

/// A way to divide a multiplication, and what it would take.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// What would be divided.
    pub way: Way,
    /// Predicted seconds of the whole: arithmetic, and the messages that it does not hide.
    pub wall_s: f64,
}

/// The ways to divide C: in this layout, and with its areas in slices of rows and of columns, where the layout is not such
/// slices itself, and every node that has a part gets a line of blocks: [`choose_nodes()`] says whom to leave out. The speeds are
/// those that were measured with these areas: slices in proportion to them would be another balancing, by the luck of the last
/// measurement.
///
/// [`choose_nodes()`]: super::choose_nodes()
///
/// # Errors
/// [`LayoutError`] when there are no nodes, or C has more blocks than can be counted.
///
/// # Example
/// ```
/// use isochron_hierarchy::layout::br;
/// use isochron_hierarchy::predict::{Links, NodeRate, Way, Multiplication, in_place};
///
/// let work = Multiplication {
///     blocks: (512, 4),
///     block: 128,
///     k: 512,
///     panel: 256,
///     element_bytes: 8,
///     links: Links { latency_s: 1e-4, bytes_per_s: 117e6 },
///     hidden: 0.0,
/// };
/// // 65536×512: the layout is slices of rows, and slices of columns would have half of the long A sent to either node.
/// let layout = br(&[1.0, 1.0], 512, 4)?;
/// let ways = in_place(&work, &layout, &[NodeRate::from(1000.0); 2])?;
/// assert_eq!(ways.iter().map(|(way, _)| way.way).collect::<Vec<_>>(), [Way::M, Way::N]);
/// assert!(ways[1].0.wall_s > 2.0 * ways[0].0.wall_s);
/// # Ok::<(), isochron_hierarchy::layout::LayoutError>(())
/// ```
pub fn in_place(
    work: &Multiplication,
    layout: &Layout,
    nodes: &[NodeRate],
) -> Result<Vec<(Candidate, Layout)>, LayoutError> {
    let (rows, cols) = work.blocks;
    let areas: Vec<f64> = layout.areas().iter().map(|&area| area as f64).collect();
    let slices = [
        slice_rows(cols, &apportion(rows, &areas))?,
        slice_cols(rows, &apportion(cols, &areas))?,
    ];
    let mut ways = vec![(in_layout(work, layout, nodes), layout.clone())];
    for slices in slices {
        let mut lines = slices.areas().into_iter().zip(&areas);
        let everybody = lines.all(|(slice, &area)| slice > 0 || area == 0.0);
        let other = in_layout(work, &slices, nodes);
        // One node with everything is no slice.
        if everybody && other.way != Way::C && other.way != ways[0].0.way {
            ways.push((other, slices));
        }
    }
    Ok(ways)
}

/// C stays in this layout.
fn in_layout(work: &Multiplication, layout: &Layout, nodes: &[NodeRate]) -> Candidate {
    let messages = work.messages_s(layout, nodes).into_iter();
    let all = layout.areas().into_iter().zip(nodes).zip(messages);
    let busy = all.filter(|((area, _), _)| *area > 0);
    let times = busy.map(|((area, node), messages_s)| area as f64 / node.speed + messages_s);
    let compute_s = times.fold(0.0, f64::max);
    let received = panel_traffic(layout, work.block, work.k, work.panel);
    let travel_s = work.links.longest_s(&received, work.element_bytes);
    Candidate {
        way: Way::of(layout),
        wall_s: wall_s(compute_s, travel_s, work.hidden),
    }
}

/// k in shares in proportion to the nodes' `speeds` on all of C, in blocks of C per second over all of k, whose parts are
/// summed where `held` says. Nothing hides that, so that what it costs the cores is in the time that it travels.
///
/// # Panics
/// When there are not as many speeds as nodes in the layout.
#[must_use]
pub fn along_k(work: &Multiplication, held: &Layout, speeds: &[f64]) -> Candidate {
    let (rows, cols) = work.blocks;
    let blocks = work.k.div_ceil(work.block.max(1)) as u64;
    let shares = apportion(blocks, speeds);
    let all_of_c = rows as f64 * cols as f64;
    let busy = shares.iter().zip(speeds).filter(|(share, _)| **share > 0);
    let times = busy.map(|(&share, &speed)| share as f64 / blocks as f64 * all_of_c / speed);
    let compute_s = times.fold(0.0, f64::max);
    let computes: Vec<bool> = shares.iter().map(|&share| share > 0).collect();
    let received = reduction_traffic(held, work.block, &computes);
    Candidate {
        way: Way::K,
        wall_s: wall_s(
            compute_s,
            work.links.longest_s(&received, work.element_bytes),
            0.0,
        ),
    }
}

/// How much less time must be predicted for another way than for the first: its rectangles have other shapes than those that
/// were measured, on which a node's speed depends by about as much. INPA keeps the columns that it has measured for the
/// same reason and within the same bounds.
const CLEARLY_FASTER: f64 = 0.97;

/// The index of the way to use: the fastest, or the first unless that is slower by more than 3 %; 0 where there is none.
///
/// # Example
/// ```
/// use isochron_hierarchy::predict::{Candidate, Way, choose_way};
///
/// let measured = Candidate { way: Way::C, wall_s: 1.0 };
/// let other = |wall_s| Candidate { way: Way::M, wall_s };
/// assert_eq!(choose_way(&[measured, other(0.98)]), 0);
/// assert_eq!(choose_way(&[measured, other(0.96), other(0.95)]), 2);
/// ```
#[must_use]
pub fn choose_way(ways: &[Candidate]) -> usize {
    let by_time = |&a: &usize, &b: &usize| ways[a].wall_s.total_cmp(&ways[b].wall_s);
    let fastest = (0..ways.len()).min_by(by_time).unwrap_or(0);
    let clearly = |first: &Candidate| ways[fastest].wall_s < CLEARLY_FASTER * first.wall_s;
    if ways.first().is_some_and(clearly) {
        fastest
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{br, kl};
    use crate::predict::Links;

    fn work(blocks: (u64, u64), k: usize) -> Multiplication {
        Multiplication {
            blocks,
            block: 128,
            k,
            panel: 256.min(k),
            element_bytes: 8,
            links: Links {
                latency_s: 1e-4,
                bytes_per_s: 117e6,
            },
            hidden: 0.0,
        }
    }

    fn nodes(speeds: &[f64]) -> Vec<NodeRate> {
        speeds.iter().copied().map(NodeRate::from).collect()
    }

    /// Of nodes, alike and unlike.
    fn speeds() -> Vec<Vec<f64>> {
        let mut all: Vec<Vec<f64>> = [2, 3, 4, 6].map(|nodes| vec![1e4; nodes]).into();
        for speeds in [&[1e4, 2e4][..], &[1e4, 2e4, 4e4], &[1e4, 2e4, 4e4, 8e4]] {
            all.push(speeds.to_vec());
        }
        all.push(vec![1e4, 1e4, 2e4, 2e4, 4e4, 8e4]);
        all
    }

    #[test]
    fn of_what_is_long_and_thin_the_layout_is_slices_already() {
        for (blocks, way) in [((512, 4), Way::M), ((4, 512), Way::N)] {
            let work = work(blocks, 512);
            for speeds in speeds() {
                let layout = br(&speeds, blocks.0, blocks.1).unwrap();
                assert_eq!(Way::of(&layout), way, "{speeds:?}");
                let ways = in_place(&work, &layout, &nodes(&speeds)).unwrap();
                let slower = ways[1..].iter().all(|(other, _)| {
                    // Slices of the other kind: the long factor travels.
                    other.way != way && other.wall_s > 10.0 * ways[0].0.wall_s
                });
                // The short side has four lines: more nodes, or slow ones, would get none.
                let others = usize::from(apportion(4, &speeds).iter().all(|&lines| lines > 0));
                assert!(ways.len() == 1 + others && slower, "{speeds:?}: {ways:?}");
            }
        }
    }

    #[test]
    fn slices_bring_the_busiest_node_no_less_where_everybody_has_a_part() {
        for blocks in [(64, 64), (128, 64), (64, 128), (32, 16), (256, 64), (16, 4)] {
            let work = work(blocks, 1024);
            for speeds in speeds() {
                let layout = br(&speeds, blocks.0, blocks.1).unwrap();
                let busiest = |layout: &Layout| {
                    let received = panel_traffic(layout, work.block, work.k, work.panel);
                    received
                        .iter()
                        .map(|node| node.elements)
                        .fold(0.0, f64::max)
                };
                let ways = in_place(&work, &layout, &nodes(&speeds)).unwrap();
                for (other, slices) in &ways[1..] {
                    if slices.areas().contains(&0) {
                        continue;
                    }
                    let (least, found) = (busiest(&layout), busiest(slices));
                    assert!(found >= least * (1.0 - 1e-12), "{other:?} {speeds:?}");
                }
            }
        }
    }

    #[test]
    fn a_layout_that_does_not_suit_gives_way_to_slices_of_its_areas() {
        // 8192×512 in two rows and two columns: half of the long A would travel.
        let work = work((64, 4), 512);
        let grid = kl(&[1.0; 4], &[vec![0, 1], vec![2, 3]], 64, 4).unwrap();
        // What a node showed last does not change its area.
        let speeds = [1000.0, 1000.0, 1010.0, 990.0];
        let ways = in_place(&work, &grid, &nodes(&speeds)).unwrap();
        let candidates: Vec<Candidate> = ways.iter().map(|(way, _)| *way).collect();
        let order: Vec<Way> = candidates.iter().map(|way| way.way).collect();
        assert_eq!(order, [Way::C, Way::M, Way::N]);
        assert_eq!(choose_way(&candidates), 1);
        assert!(ways.iter().all(|(_, layout)| layout.areas() == [64; 4]));
        assert!(
            candidates[1].wall_s < candidates[0].wall_s
                && candidates[0].wall_s < candidates[2].wall_s
        );
    }

    #[test]
    fn a_long_k_is_cheaper_to_divide_and_a_short_one_is_not() {
        let speeds = [300.0, 100.0];
        let seconds = |k| {
            let work = work((8, 8), k);
            let layout = br(&speeds, 8, 8).unwrap();
            let held = br(&[1.0, 1.0], 8, 8).unwrap();
            let stays = in_place(&work, &layout, &nodes(&speeds)).unwrap()[0]
                .0
                .wall_s;
            (stays, along_k(&work, &held, &speeds).wall_s)
        };
        let (stays, summed) = seconds(65536);
        // The arithmetic is the same: 64 blocks by 400 a second. Then half of C travels either way.
        let sum_s = 1e-4 + 512.0 * 1024.0 * 8.0 / 117e6;
        assert!((summed - (0.16 + sum_s)).abs() < 1e-9, "{summed}");
        assert!(stays > 10.0 * summed);
        let (stays, summed) = seconds(512);
        assert!(stays < summed);
    }

    #[test]
    fn whole_blocks_of_k_make_the_slowest_node_slower() {
        let mut work = work((8, 8), 3 * 128);
        work.links.bytes_per_s = f64::INFINITY;
        work.links.latency_s = 0.0;
        let held = br(&[1.0, 1.0], 8, 8).unwrap();
        // Two of three blocks for one of two alike nodes.
        let found = along_k(&work, &held, &[64.0, 64.0]).wall_s;
        assert!((found - 2.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn who_has_no_speed_gets_nothing() {
        let work = work((8, 8), 1024);
        let speeds = [0.0, 64.0, 0.0];
        let layout = br(&speeds, 8, 8).unwrap();
        let ways = in_place(&work, &layout, &nodes(&speeds)).unwrap();
        // All of it on one node: there are no other ways, and nothing travels.
        assert_eq!(ways.len(), 1);
        assert_eq!((ways[0].0.way, ways[0].0.wall_s), (Way::C, 1.0));
        assert!(along_k(&work, &layout, &speeds).wall_s.is_finite());
    }

    #[test]
    fn ways_read_back() {
        let candidate = Candidate {
            way: Way::K,
            wall_s: 1.5,
        };
        let json = serde_json::to_string(&candidate).unwrap();
        assert_eq!(json, r#"{"way":"k","wall_s":1.5}"#);
        assert_eq!(serde_json::from_str::<Candidate>(&json).unwrap(), candidate);
    }
}
