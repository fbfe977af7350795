//! Decisions about clusters of made-up speeds.

use super::super::work::tests::small;
use super::super::{SplitChoice, decide};
use super::*;
use crate::balance::EndReason;
use crate::predict::{Candidate, Way};

/// Nodes of made-up speeds, in blocks of one element per second of an update.
struct Cluster {
    speeds: Vec<f64>,
    byte_s: Vec<f64>,
    links: Links,
    /// Returns `true` for a division that fits the memory.
    has_room: fn(&Division) -> bool,
    /// The requests so far.
    asked: Vec<PlanRequest>,
}

impl Cluster {
    fn new(speeds: &[f64], bytes_per_s: f64) -> Self {
        Self {
            speeds: speeds.to_vec(),
            byte_s: vec![0.0; speeds.len()],
            links: Links {
                latency_s: 0.0,
                bytes_per_s,
            },
            has_room: |_| true,
            asked: Vec::new(),
        }
    }

    fn answer(&self, request: &PlanRequest) -> PlanAnswer {
        match request {
            PlanRequest::MessageCosts => PlanAnswer::MessageCosts(self.byte_s.clone()),
            PlanRequest::Links { .. } => PlanAnswer::Links(self.links),
            PlanRequest::Room(division) => PlanAnswer::Room((self.has_room)(division)),
            PlanRequest::Times { extents, .. } => {
                let times =
                    extents
                        .iter()
                        .zip(&self.speeds)
                        .map(|(extent, speed)| match extent.area() {
                            0 => Observation::default(),
                            area => Observation::measured(area as f64 / speed, 3, 0.0),
                        });
                PlanAnswer::Times(times.collect())
            }
        }
    }

    fn decide(&mut self, work: Work) -> Decision {
        let mut planner = Planner::new(work).unwrap();
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
    let mut cluster = Cluster::new(&[1e4, 3e4], 1e12);
    let decision = cluster.decide(small(2, 64));
    assert_eq!(decision.division.layout().areas(), [1024, 3072]);
    assert_eq!((decision.left_out, decision.kernel_width), (None, 1));
    let balance = decision.balance.unwrap();
    assert!(balance.converged && balance.times_s.iter().all(|&time_s| time_s > 0.0));
    assert!(!cluster.measures_all_of_c(), "{:?}", cluster.asked);
}

#[test]
fn the_settings_are_those_of_the_caller() {
    let mut work = small(2, 64);
    work.config.steps = 7;
    work.config.reps = 9;
    work.strategy = Strategy::Homogeneous;
    let config = work.config;
    let mut cluster = Cluster::new(&[1e4, 3e4], 1e12);
    let decision = cluster.decide(work);
    assert_eq!(decision.config, config);
    assert_eq!(decision.division.layout().areas(), [2048, 2048]);
    let mut asked = cluster.asked.iter();
    assert!(!asked.any(|request| matches!(request, PlanRequest::Times { .. })));
}

#[test]
fn a_long_k_is_divided_if_much_less_travels_and_there_is_room() {
    let long = small(2, 1 << 16);
    let mut cluster = Cluster::new(&[1e7, 3e7], 1e8);
    let decision = cluster.decide(long);
    assert_eq!(decision.division.shares(), Some(&[1 << 14, 3 << 14][..]));
    assert_eq!(list_ways(&decision.candidates)[0], Way::K);
    assert_eq!(decision.balance.unwrap().why, EndReason::Predicted);
    // An even share fits, and the larger one does not: k is no candidate.
    cluster.has_room = |division| {
        division
            .shares()
            .is_none_or(|shares| shares[0] == shares[1])
    };
    let decision = cluster.decide(long);
    assert_eq!(decision.division.shares(), None);
    assert!(
        !list_ways(&decision.candidates).contains(&Way::K),
        "{decision:?}"
    );
    // Not even that fits: nothing is measured for it.
    let mut short = Cluster {
        has_room: |_| false,
        ..Cluster::new(&[1e7, 3e7], 1e8)
    };
    short.decide(long);
    assert!(!short.measures_all_of_c());
    let c = Work {
        split: SplitChoice::C,
        ..long
    };
    let decision = Cluster::new(&[1e7, 3e7], 1e8).decide(c);
    assert_eq!(
        (decision.division.shares(), decision.candidates),
        (None, Vec::new())
    );
}

/// Returns `true` if k is divided over such links between hosts, which hide little.
fn divides_k(strategy: Strategy, bytes_per_s: f64) -> bool {
    let work = Work {
        strategy,
        hidden: 0.1,
        ..small(4, 1 << 16)
    };
    Cluster::new(&[1e6; 4], bytes_per_s)
        .decide(work)
        .division
        .shares()
        .is_some()
}

#[test]
fn between_hosts_a_run_that_learns_divides_k_only_if_that_is_much_faster() {
    let links = (0..40).map(|step| 1e6 * f64::powf(1.3, f64::from(step)));
    let found: Vec<[bool; 2]> = links
        .map(|links| [Strategy::Fpm, Strategy::Adaptive].map(|of| divides_k(of, links)))
        .collect();
    assert_eq!(found[0], [true; 2], "{found:?}");
    assert!(
        found.contains(&[true, false]) && !found.contains(&[false, true]),
        "{found:?}"
    );
}

#[test]
fn k_is_divided_if_the_caller_wants_it() {
    let asked = Work {
        split: SplitChoice::K,
        ..small(3, 64)
    };
    let decision = Cluster::new(&[1e4, 1e4, 2e4], 1e12).decide(asked);
    assert_eq!(decision.division.shares(), Some(&[16, 16, 32][..]));
    let even = Work {
        strategy: Strategy::Homogeneous,
        ..asked
    };
    let decision = Cluster::new(&[0.0; 3], 1e12).decide(even);
    // Nobody knows a time.
    assert_eq!(decision.division.shares().unwrap().iter().sum::<u64>(), 64);
}

#[test]
fn a_node_that_costs_more_than_it_helps_is_left_out() {
    let work = Work {
        split: SplitChoice::C,
        ..small(3, 64)
    };
    let mut cluster = Cluster::new(&[1e6, 1e6, 5e4], 1e9);
    cluster.links.latency_s = 5e-3;
    let decision = cluster.decide(work);
    let left_out = decision.left_out.unwrap();
    assert!(left_out.ranks == [2] && left_out.without_s < left_out.with_s);
    let areas = decision.division.layout().areas();
    assert_eq!((areas[2], areas.iter().sum::<u64>()), (0, 4096));
    assert_eq!(decision.balance.unwrap().times_s[2], 0.0);
    let fast = Cluster::new(&[1e7, 1e7, 1e7], 1e12).decide(work);
    assert_eq!(fast.left_out, None);
}

#[test]
fn no_node_is_left_out_for_links_that_were_disturbed_once() {
    let slow = Cluster::new(&[1e4, 1e4, 100.0], 1e6);
    let fast = Cluster::new(&[1e4, 1e4, 100.0], 1e12);
    let mut planner = Planner::new(small(3, 10)).unwrap();
    let mut lengths_s = Vec::new();
    let decision = loop {
        let request = match planner.step() {
            BalanceStep::Done(decision) => break decision,
            BalanceStep::Measure(request) => request,
        };
        let is_first = match request {
            PlanRequest::Links { run_s } => {
                lengths_s.push(run_s);
                lengths_s.len() == 1
            }
            _ => false,
        };
        let cluster = if is_first { &slow } else { &fast };
        planner.observe(cluster.answer(&request)).unwrap();
    };
    assert_eq!(decision.left_out, None, "{lengths_s:?}");
    assert_eq!(lengths_s.len(), 2, "{lengths_s:?}");
    assert!(lengths_s[1] >= 4.0 * lengths_s[0], "{lengths_s:?}");
}

#[test]
fn a_node_whose_messages_cost_computing_time_gets_less() {
    let work = Work {
        split: SplitChoice::C,
        hidden: 1.0,
        ..small(2, 64)
    };
    let mut cluster = Cluster::new(&[1e6, 1e6], 1e12);
    cluster.byte_s[1] = 1e-6;
    let areas = cluster.decide(work).division.layout().areas();
    assert!(areas[1] < areas[0] && areas[1] > 0, "{areas:?}");
}

#[test]
fn another_layout_than_the_balanced_one_needs_room() {
    // In two rows and two columns half of the long A would travel, and slices of rows keep it.
    let mut work = Work {
        m: 512,
        n: 32,
        k: 32,
        block: 8,
        ..small(4, 32)
    };
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
    let rates = work.node_rates(&balance.layout, &balance.outcome.times_s, &[0.0; 4]);
    let models = Models {
        balance,
        rates,
        of_all_c: None,
    };
    let links = Some(Links {
        latency_s: 1e-6,
        bytes_per_s: 1e4,
    });
    let free = decide(&models, links, &work).unwrap();
    assert_eq!((free.division.way(), free.candidates.len()), (Way::M, 3));
    assert_eq!(free, decide(&models, links, &work).unwrap());
    work.may_slice = false;
    let bound = decide(&models, links, &work).unwrap();
    assert_eq!(
        (bound.division.layout(), bound.candidates.len()),
        (&models.balance.layout, 0)
    );
    assert_eq!(decide(&models, None, &work).unwrap(), bound);
}

#[test]
fn ten_thousand_nodes_are_planned_the_same_twice() {
    let speeds: Vec<f64> = (0..10_000)
        .map(|node| 1e6 * (1 + node % 7) as f64)
        .collect();
    let work = Work {
        m: 4000,
        n: 4000,
        k: 4000,
        block: 2,
        ..small(10_000, 4000)
    };
    let decisions = [0, 1].map(|_| Cluster::new(&speeds, 1e15).decide(work));
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
    let mut planner = Planner::new(small(2, 64)).unwrap();
    assert_eq!(
        planner.step(),
        BalanceStep::Measure(PlanRequest::MessageCosts)
    );
    for wrong in [PlanAnswer::Room(true), PlanAnswer::MessageCosts(vec![0.0])] {
        assert!(planner.observe(wrong).is_err());
    }
    planner
        .observe(PlanAnswer::MessageCosts(vec![0.0; 2]))
        .unwrap();
    let one = Work {
        nodes: 1,
        ..small(1, 64)
    };
    let mut done = Planner::new(Work {
        strategy: Strategy::Homogeneous,
        ..one
    })
    .unwrap();
    assert!(matches!(done.step(), BalanceStep::Done(_)));
    let refused = done.observe(PlanAnswer::Room(true)).unwrap_err();
    assert_eq!(refused, BalanceError::NotMeasuring.into());
}
