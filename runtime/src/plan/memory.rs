//! The memory that a plan needs, its lookahead, and leaner plans with the same shares.

use std::sync::Arc;

use isochron_devices::{ElementType, leading_dimension};
use isochron_hierarchy::network::{Network, PhaseTraffic, Traffic};
use isochron_hierarchy::predict::{panel_phase, reduction_phase};
use num_complex::Complex64;

use super::reduction;
use super::{LEAST_LOOKAHEAD, MAX_LOOKAHEAD};
use super::{Plan, PlanTuning};
use crate::plan::schedule::{A, B, StepSchedule};
use crate::verify;

/// The narrowest panel that is tried to save memory.
const NARROWEST: usize = 8;

impl Plan {
    /// Returns the same plan with the panels of `steps` steps here or under way while one is computed: from 2 to 8.
    #[must_use]
    pub fn with_lookahead(self, steps: usize) -> Self {
        let mut plan = self.without_fit();
        plan.tuning.lookahead = steps.clamp(LEAST_LOOKAHEAD, MAX_LOOKAHEAD);
        plan
    }

    /// Returns the same plan for this network, which decides if ranks pass on pieces that several of them need.
    /// It must be the same on every rank.
    #[must_use]
    pub fn with_network(self, network: Network) -> Self {
        let mut plan = self.without_fit();
        plan.tuning.network = Some(Arc::new(network));
        plan
    }

    /// Chooses the panel width and the lookahead that suit the network. If it or the time of the arithmetic are
    /// unknown, both keep their defaults.
    pub(super) fn tune_for_network(mut self) -> Self {
        let known = self.network().cloned().zip(self.predicted_s());
        let Some((network, compute_s)) = known.filter(|_| self.division().shares().is_none())
        else {
            return self;
        };
        let bytes = self.problem.element().bytes();
        let travel_s = network.phase_s(&self.phase(&network), bytes);
        self.tuning.panel = self.problem.best_panel(compute_s, travel_s);
        let steps = self.problem.k().div_ceil(self.panel()).max(1) as f64;
        let of_step = |traffic: &Traffic| Traffic {
            elements: traffic.elements / steps,
            messages: traffic.messages / steps,
        };
        let all = self.phase(&network);
        let received = all.received.iter().map(|levels| levels.iter().map(of_step).collect());
        let step = PhaseTraffic {
            received: received.collect(),
            through: all.through.iter().map(|elements| elements / steps).collect(),
        };
        let most = network.lookahead(&step, bytes, compute_s / steps);
        self.with_lookahead(most)
    }

    /// Returns what the panels of all steps bring through the network, or the sum if k is divided.
    pub(super) fn phase(&self, network: &Network) -> PhaseTraffic {
        let (problem, layout) = (&self.problem, self.layout());
        match self.division().shares() {
            None => panel_phase(network, layout, problem.block(), problem.k(), self.panel()),
            Some(shares) => {
                let computes: Vec<bool> = shares.iter().map(|&share| share > 0).collect();
                reduction_phase(network, layout, problem.block(), &computes)
            }
        }
    }

    /// Returns a plan with the same shares that needs less memory, or `None` if there is none. It has fewer steps under
    /// way, then A and B in more parts if they may be in parts, and then narrower panels.
    pub(crate) fn make_leaner(&self) -> Option<Self> {
        let mut leaner = self.clone().without_fit();
        let in_parts = self.problem.may_be_in_parts() && self.division().shares().is_none();
        let PlanTuning { lookahead, k_parts, .. } = self.tuning;
        if lookahead > LEAST_LOOKAHEAD {
            leaner.tuning.lookahead -= 1;
        } else if in_parts && k_parts < self.steps(0) {
            leaner.tuning.k_parts = (2 * k_parts).min(self.steps(0));
        } else {
            let panel = self.panel() / 2;
            leaner.tuning.panel = panel;
            return (panel >= NARROWEST).then_some(leaner);
        }
        Some(leaner)
    }

    /// Number of sets of panels: one per step ahead, and one to compute with.
    pub(crate) fn panel_sets(&self) -> usize {
        self.lookahead() + 1
    }

    /// Returns the bytes of host memory that `rank` needs.
    ///
    /// These are its parts of the matrices (of A and B those held at a time), the panels and messages of the steps under
    /// way, and the vectors of the result check. If k is split, its contribution to all of C counts too.
    pub fn memory_bytes(&self, rank: usize) -> u64 {
        if self.k_parts() > 1 {
            return self
                .unlike_parts()
                .into_iter()
                .map(|(part, _)| part.plan().memory_bytes(rank))
                .max()
                .unwrap_or(0);
        }
        let problem = &self.problem;
        let parts: usize = [self.a(), self.b(), self.c()]
            .iter()
            .map(|matrix| {
                let part = matrix.part(rank);
                self.leading_dimension(part.rows) * part.cols
            })
            .sum();
        let mut travelling = self.panel_elements(rank);
        if self.division().shares().is_some() {
            let mine = self.computed(rank);
            travelling += self.leading_dimension(mine.rows) * mine.cols;
            travelling += reduction::elements_under_way(self, rank);
        }
        let check = verify::count_bytes(problem);
        (problem.element().bytes() * (parts + travelling) + check) as u64
    }

    /// Counts the elements of all sets of panels, of received pieces that are copied into them, and of packed messages.
    /// There are no messages if k is split.
    fn panel_elements(&self, rank: usize) -> usize {
        let schedule = StepSchedule::new(self, rank);
        let [of_a, of_b] = schedule.needs_panels().map(usize::from);
        let copies = if self.division().shares().is_none() { 2 } else { 1 };
        let panels = copies * (of_a * schedule.c().rows + of_b * schedule.c().cols);
        let sent = schedule.sent_across(A) + schedule.sent_across(B);
        self.panel_sets() * self.panel() * (panels + sent)
    }

    fn leading_dimension(&self, rows: usize) -> usize {
        match self.problem.element() {
            ElementType::F32 => leading_dimension::<f32>(rows),
            ElementType::F64 | ElementType::C32 => leading_dimension::<f64>(rows),
            ElementType::C64 => leading_dimension::<Complex64>(rows),
        }
    }
}

#[cfg(test)]
mod tests {
    use isochron_hierarchy::layout::slice_cols;
    use isochron_hierarchy::learn::FirstLook;

    use super::*;
    use crate::plan::Problem;

    /// One device on each of two ranks.
    const SLICES: [[usize; 1]; 2] = [[200], [400]];

    #[test]
    fn matrices_the_contribution_to_c_and_the_check_are_counted() {
        // A single rank needs no panels.
        let problem = Problem::new(30, 40, 50, 10).unwrap();
        let matrices = 8 * (30 * 50 + 50 * 40 + 30 * 40);
        let check = 8 * (12 * 30 + 8 * 50 + 4 * 40);
        let layout = slice_cols(3, &[4]).unwrap();
        let of_c = Plan::with_layout(problem, layout, &[vec![40]]).unwrap();
        assert_eq!(of_c.memory_bytes(0), matrices + check);
        let of_k = Plan::along_k(problem, vec![5], &[vec![40]]).unwrap();
        assert_eq!(of_k.memory_bytes(0), matrices + check + 8 * 30 * 40);
    }

    #[test]
    fn panels_are_narrow_only_where_the_run_can_change_a_division() {
        let problem = Problem::new(8, 40, 1 << 16, 8).unwrap();
        let panels = [1, 2].map(|devices| {
            let slices = vec![vec![40 / devices; devices]; 2];
            Plan::along_k(problem, vec![4096; 2], &slices)
                .unwrap()
                .with_look(Some(FirstLook::default()))
                .panel()
        });
        assert_eq!(panels, [problem.panel(1), problem.learning_panel()]);
        assert!(panels[0] > panels[1]);
    }

    #[test]
    fn leaner_plans_need_less_and_less_and_divide_the_same() {
        let problem = Problem::new(400, 600, 900, 20).unwrap();
        let layout = slice_cols(20, &[10, 20]).unwrap();
        let mut plan = Plan::with_layout(problem, layout, &SLICES.map(Vec::from)).unwrap();
        plan.tuning.lookahead = MAX_LOOKAHEAD;
        let held = plan.memory_bytes(0) - 8 * plan.panel_elements(0) as u64;
        let mut seen = Vec::new();
        while let Some(leaner) = plan.make_leaner() {
            assert!(leaner.memory_bytes(0) < plan.memory_bytes(0));
            assert_eq!((leaner.layout(), leaner.nodes()), (plan.layout(), plan.nodes()));
            plan = leaner;
            seen.push((plan.lookahead(), plan.panel()));
        }
        assert_eq!(seen[0].0, MAX_LOOKAHEAD - 1);
        assert!(seen.len() > 1 && plan.panel() < 2 * NARROWEST, "{seen:?}");
        // Only the matrices are left.
        assert!(plan.memory_bytes(0) < held + held / 10);
    }

    #[test]
    fn a_and_b_are_held_in_ever_smaller_parts_where_they_may_be() {
        let problem = Problem::new(400, 600, 9000, 20).unwrap().in_parts();
        let layout = slice_cols(20, &[10, 20]).unwrap();
        let mut plan = Plan::with_layout(problem, layout, &SLICES.map(Vec::from)).unwrap();
        let whole = plan.memory_bytes(0);
        while plan.k_parts() < plan.steps(0) {
            let leaner = plan.make_leaner().unwrap();
            assert_eq!(leaner.panel(), plan.panel());
            assert!(leaner.memory_bytes(0) <= plan.memory_bytes(0));
            plan = leaner;
        }
        assert!(plan.memory_bytes(0) < whole / 3);
        assert!(plan.make_leaner().unwrap().panel() < plan.panel());
    }
}
