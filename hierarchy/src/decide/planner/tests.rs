//! Decisions about clusters of made-up speeds.

use super::*;
use crate::balance::{EndReason, Strategy};
use crate::layout::Way;
use crate::network::{MessageCurve, Uplink};
use crate::predict::{Candidate, panel_phase};
use crate::problem::Split;

/// A problem on a cluster, to be planned.
#[derive(Clone, Copy)]
pub(in crate::decide) struct Case {
    pub problem: Problem,
    pub cluster: Cluster,
    pub config: BalanceConfig,
}

/// 64 × 64 blocks of one element.
pub(in crate::decide) fn small(nodes: usize, k: usize) -> Case {
    let problem = Problem::new(64, 64, k, 1).unwrap();
    Case {
        problem: problem.with_panel(k.clamp(1, 8)).unwrap(),
        cluster: Cluster { nodes, hidden: 0.0 },
        config: BalanceConfig {
            strategy: Strategy::Fpm,
            steps: k as u64,
            ..BalanceConfig::default()
        },
    }
}

impl Case {
    pub fn planner(&self) -> Planner {
        Planner::new(self.problem, self.cluster, self.config, 1).unwrap()
    }

    /// Makes a planner that knows the seconds of a byte of a message on each node.
    pub fn planner_with(&self, byte_s: &[f64]) -> Planner {
        let mut planner = self.planner();
        planner.known.byte_s = Some(byte_s.to_vec());
        planner
    }

    fn with_split(self, split: Split) -> Self {
        Self { problem: self.problem.with_split(split), ..self }
    }

    fn with_strategy(mut self, strategy: Strategy) -> Self {
        self.config.strategy = strategy;
        if strategy == Strategy::Adaptive {
            // Models answer at once.
            self.config.steps = 0;
        }
        self
    }
}

/// Nodes of made-up speeds, in blocks of one element per second of an update.
struct MadeUp {
    speeds: Vec<f64>,
    byte_s: Vec<f64>,
    network: Network,
    /// Returns `true` for a division that fits the memory.
    has_room: fn(&Division) -> bool,
    /// The requests so far.
    asked: Vec<PlanRequest>,
}

impl MadeUp {
    fn new(speeds: &[f64], bytes_per_s: f64) -> Self {
        Self {
            speeds: speeds.to_vec(),
            byte_s: vec![0.0; speeds.len()],
            network: Network::flat(0.0, bytes_per_s),
            has_room: |_| true,
            asked: Vec::new(),
        }
    }

    fn answer(&self, request: &PlanRequest) -> PlanAnswer {
        match request {
            PlanRequest::MessageCosts => PlanAnswer::MessageCosts(self.byte_s.clone()),
            PlanRequest::Network { .. } => PlanAnswer::Network(self.network.clone()),
            PlanRequest::Room(division) => PlanAnswer::Room((self.has_room)(division)),
            PlanRequest::Times { extents, .. } => {
                let times =
                    extents.iter().zip(&self.speeds).map(|(extent, speed)| match extent.area() {
                        0 => Sample::default(),
                        area => Sample::measured(area, area as f64 / speed, 3, 0.0),
                    });
                PlanAnswer::Times(times.collect())
            }
        }
    }

    fn decide(&mut self, case: Case) -> Decision {
        let mut planner = case.planner();
        loop {
            match planner.step() {
                BalanceStep::Done(decision) => return decision,
                BalanceStep::Measure(request) => {
                    planner.observe(self.answer(&request)).unwrap();
                    self.asked.push(request);
                }
            }
        }
    }

    fn measures_all_of_c(&self) -> bool {
        let mut asked = self.asked.iter();
        asked.any(|request| matches!(request, PlanRequest::Times { along_k: true, .. }))
    }
}

fn list_ways(candidates: &[Candidate]) -> Vec<Way> {
    candidates.iter().map(|candidate| candidate.way).collect()
}

#[test]
fn unlike_nodes_get_unlike_rectangles() {
    let mut cluster = MadeUp::new(&[1e4, 3e4], 1e12);
    let decision = cluster.decide(small(2, 64));
    assert_eq!(decision.division.layout().areas(), [1024, 3072]);
    assert_eq!((decision.left_out, decision.kernel_width), (None, 1));
    let balance = decision.balance.unwrap();
    assert!(balance.converged && balance.times_s.iter().all(|&time_s| time_s > 0.0));
    assert!(!cluster.measures_all_of_c(), "{:?}", cluster.asked);
}

#[test]
fn the_settings_are_those_of_the_caller() {
    let mut case = small(2, 64).with_strategy(Strategy::Homogeneous);
    case.config.reps = 9;
    let mut cluster = MadeUp::new(&[1e4, 3e4], 1e12);
    let decision = cluster.decide(case);
    assert_eq!(decision.config, case.config);
    assert_eq!(decision.division.layout().areas(), [2048, 2048]);
    let mut asked = cluster.asked.iter();
    assert!(!asked.any(|request| matches!(request, PlanRequest::Times { .. })));
}

#[test]
fn a_long_k_is_divided_if_much_less_travels_and_there_is_room() {
    let long = small(2, 1 << 16);
    let mut cluster = MadeUp::new(&[1e7, 3e7], 1e8);
    let decision = cluster.decide(long);
    assert_eq!(decision.division.shares(), Some(&[1 << 14, 3 << 14][..]));
    assert_eq!(list_ways(&decision.candidates)[0], Way::K);
    assert_eq!(decision.balance.unwrap().why, EndReason::Predicted);
    // An even share fits, and the larger one does not: k is no candidate.
    cluster.has_room = |division| division.shares().is_none_or(|shares| shares[0] == shares[1]);
    let decision = cluster.decide(long);
    assert_eq!(decision.division.shares(), None);
    assert!(!list_ways(&decision.candidates).contains(&Way::K), "{decision:?}");
    // Not even that fits: nothing is measured for it.
    let mut short = MadeUp { has_room: |_| false, ..MadeUp::new(&[1e7, 3e7], 1e8) };
    short.decide(long);
    assert!(!short.measures_all_of_c());
    let decision = MadeUp::new(&[1e7, 3e7], 1e8).decide(long.with_split(Split::C));
    assert_eq!((decision.division.shares(), decision.candidates), (None, Vec::new()));
}

/// Returns `true` if k is divided over such links between hosts, which hide little.
fn divides_k(strategy: Strategy, bytes_per_s: f64) -> bool {
    let mut case = small(4, 1 << 16).with_strategy(strategy);
    case.cluster.hidden = 0.1;
    MadeUp::new(&[1e6; 4], bytes_per_s).decide(case).division.shares().is_some()
}

#[test]
fn between_hosts_a_run_that_learns_divides_k_only_if_that_is_much_faster() {
    let links = (0..40).map(|step| 1e6 * f64::powf(1.3, f64::from(step)));
    let found: Vec<[bool; 2]> = links
        .map(|links| [Strategy::Fpm, Strategy::Adaptive].map(|of| divides_k(of, links)))
        .collect();
    assert_eq!(found[0], [true; 2], "{found:?}");
    assert!(found.contains(&[true, false]) && !found.contains(&[false, true]), "{found:?}");
}

#[test]
fn k_is_divided_if_the_caller_wants_it() {
    let asked = small(3, 64).with_split(Split::K);
    let decision = MadeUp::new(&[1e4, 1e4, 2e4], 1e12).decide(asked);
    assert_eq!(decision.division.shares(), Some(&[16, 16, 32][..]));
    let even = asked.with_strategy(Strategy::Homogeneous);
    let decision = MadeUp::new(&[0.0; 3], 1e12).decide(even);
    // No time is known.
    assert_eq!(decision.division.shares().unwrap().iter().sum::<u64>(), 64);
}

#[test]
fn a_node_that_costs_more_than_it_helps_is_left_out() {
    let case = small(3, 64).with_split(Split::C);
    let mut cluster = MadeUp::new(&[1e6, 1e6, 5e4], 1e9);
    cluster.network = Network::flat(5e-3, 1e9);
    let decision = cluster.decide(case);
    let left_out = decision.left_out.unwrap();
    assert!(left_out.ranks == [2] && left_out.without_s < left_out.with_s);
    let areas = decision.division.layout().areas();
    assert_eq!((areas[2], areas.iter().sum::<u64>()), (0, 4096));
    assert_eq!(decision.balance.unwrap().times_s[2], 0.0);
    let fast = MadeUp::new(&[1e7, 1e7, 1e7], 1e12).decide(case);
    assert_eq!(fast.left_out, None);
}

#[test]
fn no_node_is_left_out_for_links_that_were_disturbed_once() {
    let slow = MadeUp::new(&[1e4, 1e4, 100.0], 1e6);
    let fast = MadeUp::new(&[1e4, 1e4, 100.0], 1e12);
    let mut planner = small(3, 10).planner();
    let mut lengths_s = Vec::new();
    let decision = loop {
        let request = match planner.step() {
            BalanceStep::Done(decision) => break decision,
            BalanceStep::Measure(request) => request,
        };
        let is_first = match request {
            PlanRequest::Network { run_s } => {
                lengths_s.push(run_s);
                lengths_s.len() == 1
            }
            _ => false,
        };
        let cluster = if is_first { &slow } else { &fast };
        planner.observe(cluster.answer(&request)).unwrap();
    };
    assert_eq!(decision.left_out, None, "{lengths_s:?}");
    // The second time four times as long as the arithmetic asks for.
    assert_eq!(lengths_s, [0.0, 4.0 * 0.512]);
}

#[test]
fn a_node_whose_messages_cost_computing_time_gets_less() {
    let mut case = small(2, 64).with_split(Split::C);
    case.cluster.hidden = 1.0;
    let mut cluster = MadeUp::new(&[1e6, 1e6], 1e12);
    cluster.byte_s[1] = 1e-6;
    let areas = cluster.decide(case).division.layout().areas();
    assert!(areas[1] < areas[0] && areas[1] > 0, "{areas:?}");
}

#[test]
fn another_layout_than_the_balanced_one_needs_room() {
    // In two rows and two columns half of the long A would travel, and slices of rows keep it.
    let case = Case {
        problem: Problem::new(512, 32, 32, 8).unwrap().with_panel(8).unwrap(),
        ..small(4, 32)
    };
    let planner = case.planner_with(&[0.0; 4]);
    let balance = NodeBalance {
        layout: crate::layout::kl(&[1.0; 4], &[vec![0, 1], vec![2, 3]], 64, 4).unwrap(),
        fixed_s: vec![0.0; 4],
        outcome: BalanceOutcome {
            times_s: vec![1e-3; 4],
            imbalance: 0.0,
            iterations: 1,
            converged: true,
            why: EndReason::Balanced,
            history: Vec::new(),
            falling: Vec::new(),
        },
    };
    let rates = planner.node_rates(&balance.layout, &balance.outcome.times_s);
    let models = Models { balance, rates, of_all_c: None };
    let network = Network::flat(1e-6, 1e4);
    let network = Some(&network);
    let free = planner.decide(&models, network, true).unwrap();
    assert_eq!((free.division.way(), free.candidates.len()), (Way::M, 3));
    assert_eq!(free, planner.decide(&models, network, true).unwrap());
    let bound = planner.decide(&models, network, false).unwrap();
    assert_eq!((bound.division.layout(), bound.candidates.len()), (&models.balance.layout, 0));
    assert_eq!(planner.decide(&models, None, false).unwrap(), bound);
}

#[test]
fn ten_thousand_nodes_are_planned_the_same_twice() {
    let speeds: Vec<f64> = (0..10_000).map(|node| 1e6 * (1 + node % 7) as f64).collect();
    let case = Case {
        problem: Problem::new(4000, 4000, 4000, 2).unwrap().with_panel(8).unwrap(),
        ..small(10_000, 4000)
    };
    let decisions = [0, 1].map(|_| MadeUp::new(&speeds, 1e15).decide(case));
    assert_eq!(decisions[0], decisions[1]);
    let areas = decisions[0].division.layout().areas();
    assert_eq!(areas.iter().sum::<u64>(), 2000 * 2000);
    // A fast node has about seven times as much as a slow one.
    let of = |kind: usize| areas.iter().skip(kind).step_by(7).sum::<u64>() as f64;
    let ratio = of(6) / of(0);
    assert!((6.0..8.5).contains(&ratio), "{ratio}");
}

#[test]
fn answers_that_were_not_asked_for_are_refused() {
    let mut planner = small(2, 64).planner();
    assert_eq!(planner.step(), BalanceStep::Measure(PlanRequest::MessageCosts));
    for wrong in [PlanAnswer::Room(true), PlanAnswer::MessageCosts(vec![0.0])] {
        assert!(planner.observe(wrong).is_err());
    }
    planner.observe(PlanAnswer::MessageCosts(vec![0.0; 2])).unwrap();
    let mut done = small(1, 64).with_strategy(Strategy::Homogeneous).planner();
    assert!(matches!(done.step(), BalanceStep::Done(_)));
    let refused = done.observe(PlanAnswer::Room(true)).unwrap_err();
    assert_eq!(refused, BalanceError::NotMeasuring.into());
}

#[test]
fn a_thousand_hosts_in_groups_are_planned_by_groups() {
    let count = 1024;
    let mut case = small(count, 4096);
    case.problem = Problem::new(32_768, 32_768, 4096, 64).unwrap().with_panel(64).unwrap();
    case.cluster.hidden = 1.0;
    case.config.steps = 64;
    let speeds: Vec<f64> = (0..count).map(|host| 1e6 * (1.0 + (host % 7) as f64 / 10.0)).collect();
    let uplinks = (0..32).map(|group| Uplink {
        ranks: (0..count).filter(|host| host % 32 == group).collect(),
        bytes_per_s: 1e8,
    });
    let levels = [1e-4, 1e-5].map(|latency_s| MessageCurve::line(latency_s, 1e9));
    let mut cluster = MadeUp::new(&speeds, 1e9);
    cluster.network = Network::grouped(levels.to_vec(), uplinks.collect());
    let decision = cluster.decide(case);
    let layout = decision.division.layout();
    let travel_s = |layout: &Layout| {
        let panels = panel_phase(&cluster.network, layout, 64, 4096, 64);
        cluster.network.phase_s(&panels, 8)
    };
    let areas: Vec<f64> = layout.areas().iter().map(|&area| area as f64).collect();
    let in_columns = crate::layout::br(&areas, layout.rows(), layout.cols()).unwrap();
    let [grouped_s, in_columns_s] = [travel_s(layout), travel_s(&in_columns)];
    assert!(1.5 * grouped_s < in_columns_s, "{grouped_s} {in_columns_s}");
}
