//! The end of a planning: which way to divide is predicted to be the fastest.

use super::{Decision, Division, Planner, hold_evenly};
use crate::balance::{BalanceOutcome, DRIFT, EndReason, NodeBalance, Rule, imbalance};
use crate::layout::{Arrangement, Layout, LayoutError, Way};
use crate::network::Network;
use crate::partition::apportion;
use crate::predict::{Candidate, NodeRate, along_k, choose_way, in_place};
use crate::problem::{Problem, Split};
use crate::times::{Sample, shrink_alike};

/// Models of the nodes' speeds.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Models {
    /// The rectangles of C that the nodes were balanced in, with their times.
    pub balance: NodeBalance,
    /// The nodes' rates in these rectangles.
    pub rates: Vec<NodeRate>,
    /// Their times for all of C; `None` if they were not measured, and k is not to be divided.
    pub of_all_c: Option<AllOfC>,
}

/// The time of every node for an update of all of C, by which k is divided.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct AllOfC {
    times: Vec<Sample>,
    /// The rectangles of C that the nodes hold.
    held: Layout,
}

impl Planner {
    /// Decides on the division that is predicted to be the fastest. The same arguments give the same decision.
    ///
    /// The balanced layout is compared with its areas in slices if C `may_slice`, and with shares of k if their times are
    /// known. It stays if the network or a busy node's rate are unknown, or if one node has all the work.
    ///
    /// # Errors
    /// Returns [`LayoutError`] if C has more blocks than can be counted.
    pub(super) fn decide(
        &self,
        models: &Models,
        network: Option<&Network>,
        may_slice: bool,
    ) -> Result<Decision, LayoutError> {
        let balance = models.balance.clone();
        let Some(network) = network.filter(|_| models.can_be_compared()) else {
            return Ok(self.decide_in_place(balance, Vec::new()));
        };
        let mut divided =
            in_place(&self.problem, self.cluster, network, &balance.layout, &models.rates)?;
        // A caller who has chosen a layout wants no other.
        let has_choice =
            self.problem.split() == Split::Auto && self.config.layout == Arrangement::default();
        if !may_slice || !has_choice {
            divided.truncate(1);
        }
        let shares = models.of_all_c.as_ref().map(|whole| {
            let speeds = self.speeds_on_all_of_c(whole);
            along_k(&self.problem, network, &whole.held, &speeds)
        });
        let ways = self.choose_way(divided, shares);
        Ok(match &models.of_all_c {
            Some(whole) if ways.way == Way::K => self.decide_along_k(whole, ways.candidates),
            _ => self.decide_in_place(move_to_layout(balance, ways.layout), ways.candidates),
        })
    }

    /// Returns the nodes' speeds in blocks of C per second over all of k; 0 if unknown.
    pub(super) fn speeds_on_all_of_c(&self, whole: &AllOfC) -> Vec<f64> {
        let (rows, cols) = self.problem.c_blocks();
        let times_s: Vec<f64> = whole.times.iter().map(|time| time.seconds).collect();
        self.node_speeds(&vec![rows * cols; times_s.len()], &times_s)
    }

    /// Divides k in proportion to the nodes' speeds.
    pub(super) fn divide_k(&self, whole: &AllOfC) -> Division {
        let speeds: Vec<f64> = whole
            .times
            .iter()
            .map(|time| {
                if self.config.rule() == Rule::Even {
                    1.0
                } else if time.seconds > 0.0 {
                    1.0 / time.seconds
                } else {
                    0.0
                }
            })
            .collect();
        Division::K {
            shares: apportion(self.problem.k_blocks(), &speeds),
            held: whole.held.clone(),
        }
    }

    /// Makes the decision to divide C as it is balanced.
    fn decide_in_place(&self, balance: NodeBalance, candidates: Vec<Candidate>) -> Decision {
        Decision {
            division: Division::C(balance.layout),
            balance: Some(balance.outcome),
            candidates,
            left_out: None,
            config: self.config,
            kernel_width: self.kernel_width,
        }
    }

    /// Makes the decision to divide k by these times.
    pub(super) fn decide_along_k(&self, whole: &AllOfC, candidates: Vec<Candidate>) -> Decision {
        let division = self.divide_k(whole);
        let blocks = self.problem.k_blocks().max(1) as f64;
        let times_s: Vec<f64> = division
            .shares()
            .unwrap_or_default()
            .iter()
            .zip(&whole.times)
            .map(|(&share, time)| time.seconds * share as f64 / blocks)
            .collect();
        let (iterations, why) = if times_s.iter().any(|&time_s| time_s > 0.0) {
            (1, EndReason::Predicted)
        } else {
            (0, EndReason::NotMeasured)
        };
        let balance = BalanceOutcome {
            imbalance: imbalance(&times_s),
            times_s,
            iterations,
            converged: false,
            why,
            history: Vec::new(),
            falling: Vec::new(),
        };
        Decision {
            division,
            balance: Some(balance),
            candidates,
            left_out: None,
            config: self.config,
            kernel_width: self.kernel_width,
        }
    }

    /// Chooses the best among ways to divide C, the first of which was measured, and k in shares if that
    /// was considered.
    fn choose_way(
        &self,
        mut divided: Vec<(Candidate, Layout)>,
        shares: Option<Candidate>,
    ) -> ComparedWays {
        let mut candidates: Vec<Candidate> =
            divided.iter().map(|(way, _)| *way).chain(shares).collect();
        let weighed: Vec<Candidate> = candidates.iter().map(|&way| self.weigh(way)).collect();
        let chosen = choose_way(&weighed);
        let way = candidates[chosen].way;
        let index = if chosen < divided.len() { chosen } else { 0 };
        let layout = divided.swap_remove(index).1;
        candidates.sort_by(|a, b| a.wall_s.total_cmp(&b.wall_s));
        if candidates.len() < 2 {
            candidates.clear();
        }
        ComparedWays { way, candidates, layout }
    }
}

impl Models {
    /// Returns `true` if several nodes have work, and the rate of each of these is known.
    pub fn can_be_compared(&self) -> bool {
        let known = self.rates.iter().filter(|node| node.speed > 0.0);
        let mut nodes = self.balance.layout.rects().iter().zip(&self.rates);
        known.count() > 1 && nodes.all(|(rect, node)| rect.is_empty() || node.speed > 0.0)
    }
}

impl AllOfC {
    /// Takes the nodes' times for an update of all of C, by node.
    ///
    /// # Errors
    /// Returns [`LayoutError`] if C has more blocks than can be counted.
    pub fn new(problem: &Problem, times: &[Sample]) -> Result<Self, LayoutError> {
        Ok(Self {
            times: shrink_alike(times, DRIFT),
            held: hold_evenly(problem.c_blocks(), times.len())?,
        })
    }
}

/// The ways to divide that were compared.
struct ComparedWays {
    /// The way to use.
    way: Way,
    /// All ways, in order of their predicted seconds; empty if there was only one.
    candidates: Vec<Candidate>,
    /// The layout of C if C is divided.
    layout: Layout,
}

/// Moves a balance to another layout: the nodes' times change in proportion to their areas.
fn move_to_layout(balance: NodeBalance, layout: Layout) -> NodeBalance {
    if balance.layout == layout {
        return balance;
    }
    let times_s: Vec<f64> = balance
        .layout
        .areas()
        .into_iter()
        .zip(layout.areas())
        .zip(&balance.outcome.times_s)
        .map(|((was, is), &time_s)| time_s * is as f64 / was.max(1) as f64)
        .collect();
    NodeBalance {
        layout,
        fixed_s: balance.fixed_s,
        outcome: BalanceOutcome {
            imbalance: imbalance(&times_s),
            times_s,
            converged: false,
            why: EndReason::Predicted,
            ..balance.outcome
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::planner::tests::small;
    use super::*;
    use crate::balance::Strategy;
    use crate::layout::{br, slice_cols, slice_rows};

    fn planner(strategy: Strategy, hidden: f64) -> Planner {
        let mut case = small(4, 64);
        case.config.strategy = strategy;
        case.cluster.hidden = hidden;
        case.planner()
    }

    fn choose(divided: Vec<(Candidate, Layout)>, shares: Option<Candidate>) -> ComparedWays {
        planner(Strategy::Fpm, 0.0).choose_way(divided, shares)
    }

    fn divided(seconds: [f64; 3]) -> Vec<(Candidate, Layout)> {
        let layouts = [
            br(&[1.0; 4], 8, 8).unwrap(),
            slice_rows(8, &[2; 4]).unwrap(),
            slice_cols(8, &[2; 4]).unwrap(),
        ];
        seconds
            .into_iter()
            .zip(layouts)
            .map(|(wall_s, layout)| {
                let way = Way::of(&layout);
                (Candidate { way, wall_s }, layout)
            })
            .collect()
    }

    fn order(ways: &ComparedWays) -> Vec<Way> {
        ways.candidates.iter().map(|way| way.way).collect()
    }

    #[test]
    fn the_balanced_layout_stays_unless_another_is_clearly_faster() {
        let ways = choose(divided([1.0, 0.98, 1.2]), None);
        assert_eq!((ways.way, Way::of(&ways.layout)), (Way::C, Way::C));
        assert_eq!(order(&ways), [Way::M, Way::C, Way::N]);
        let ways = choose(divided([1.0, 1.1, 0.9]), None);
        assert_eq!((ways.way, Way::of(&ways.layout)), (Way::N, Way::N));
    }

    #[test]
    fn shares_of_k_leave_the_layout_as_it_is() {
        let shares = Candidate { way: Way::K, wall_s: 0.5 };
        let ways = choose(divided([1.0, 0.9, 1.2]), Some(shares));
        assert_eq!((ways.way, Way::of(&ways.layout)), (Way::K, Way::C));
        assert_eq!(order(&ways), [Way::K, Way::M, Way::C, Way::N]);
        let slower = Candidate { wall_s: 0.95, ..shares };
        let ways = choose(divided([1.0, 0.9, 1.2]), Some(slower));
        assert_eq!(ways.way, Way::M);
    }

    #[test]
    fn between_hosts_a_run_that_learns_divides_k_only_if_that_is_much_faster() {
        let cases = [(1.0, 0.85, Way::M), (1.0, 0.8, Way::K), (0.0, 0.85, Way::K)];
        for (hidden, wall_s, way) in cases {
            let shares = Candidate { way: Way::K, wall_s };
            let ways = planner(Strategy::Adaptive, hidden)
                .choose_way(divided([1.0, 0.9, 1.2]), Some(shares));
            assert_eq!((ways.way, ways.candidates[0].way), (way, Way::K));
        }
    }

    #[test]
    fn one_way_is_compared_with_nothing() {
        let mut only = divided([1.0, 1.1, 1.2]);
        only.truncate(1);
        let ways = choose(only, None);
        assert_eq!((ways.way, ways.candidates), (Way::C, Vec::new()));
    }

    #[test]
    fn times_go_with_the_areas_when_a_layout_is_replaced() {
        let balanced = NodeBalance {
            layout: br(&[1.0, 3.0], 8, 8).unwrap(),
            fixed_s: vec![0.0; 2],
            outcome: BalanceOutcome {
                times_s: vec![1.0, 1.0],
                imbalance: 0.0,
                iterations: 2,
                converged: true,
                why: EndReason::Balanced,
                history: Vec::new(),
                falling: Vec::new(),
            },
        };
        let same = balanced.layout.clone();
        assert_eq!(move_to_layout(balanced.clone(), same), balanced);
        let moved = move_to_layout(balanced, slice_rows(8, &[4, 4]).unwrap());
        // From 16 and 48 blocks to 32 and 32.
        assert_eq!(moved.layout.areas(), [32, 32]);
        let moved = moved.outcome;
        assert_eq!(moved.times_s, [2.0, 2.0 / 3.0]);
        assert_eq!((moved.converged, moved.why), (false, EndReason::Predicted));
        assert!((moved.imbalance - 2.0).abs() < 1e-12);
    }
}
