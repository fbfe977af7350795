//! The checks of a plan: its parts fit each other, and a document that was read holds nothing impossible.

use super::{LEAST_LOOKAHEAD, MAX_LOOKAHEAD};
use super::{Plan, PlanTuning};
use crate::error::Error;

impl Plan {
    /// Checks a plan that was read.
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] for an impossible multiplication, [`Error::Plan`] for the rest.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.problem.check()?;
        [
            Self::check_parts,
            Self::check_nodes,
            Self::check_measurements,
            Self::check_tuning,
            Self::check_look,
        ]
        .into_iter()
        .try_for_each(|check| check(self))
        .map_err(Error::Plan)
    }

    /// Checks that the parts of all ranks and devices make up the multiplication.
    pub(super) fn check_parts(&self) -> Result<(), String> {
        let (problem, layout) = (&self.problem, self.layout());
        let (rows, cols) = problem.c_blocks();
        if (layout.rows(), layout.cols()) != (rows, cols) {
            let found = format!("{}×{}", layout.rows(), layout.cols());
            return Err(format!("the layout has {found} blocks, C has {rows}×{cols}"));
        }
        let ranks = self.n_ranks();
        if let Some(shares) = self.division().shares() {
            let total = shares.iter().try_fold(0u64, |sum, &share| sum.checked_add(share));
            let wanted = problem.k_blocks();
            if total != Some(wanted) || shares.len() != ranks {
                return Err(format!(
                    "the shares {shares:?} do not make up the {wanted} blocks of k"
                ));
            }
        }
        if self.nodes.len() != ranks {
            let nodes = self.nodes.len();
            return Err(format!("it has {nodes} nodes, and parts for {ranks}"));
        }
        (0..ranks).try_for_each(|rank| self.check_slices(rank))
    }

    fn check_slices(&self, rank: usize) -> Result<(), String> {
        let slices = self.slices(rank).into_iter();
        let (found, wanted) = (slices.fold(0, usize::saturating_add), self.computed(rank).cols);
        if found != wanted {
            return Err(format!(
                "the slices of rank {rank} have {found} columns, its part has {wanted}"
            ));
        }
        Ok(())
    }

    /// Checks that the nodes are in the order of their ranks.
    fn check_nodes(&self) -> Result<(), String> {
        let mut nodes = self.nodes.iter().enumerate();
        match nodes.find(|(index, node)| node.rank != *index) {
            Some((index, node)) => Err(format!("its node {index} is of rank {}", node.rank)),
            None => Ok(()),
        }
    }

    /// Checks the numbers that were measured and predicted.
    fn check_measurements(&self) -> Result<(), String> {
        let (decision, ranks) = (&self.decision, self.n_ranks());
        let balance = decision.balance.as_ref();
        let times_s = balance.map_or(&[][..], |balance| &balance.times_s);
        let candidates = decision.candidates.iter().map(|candidate| candidate.wall_s);
        let mut left_out = decision.left_out.iter().flat_map(|left_out| &left_out.ranks);
        let is_sound = decision.kernel_width > 0
            && (balance.is_none() || times_s.len() == ranks)
            && times_s.iter().copied().chain(candidates).all(|time_s| time_s >= 0.0)
            && left_out.all(|&rank| rank < ranks);
        if !is_sound {
            return Err("its measurements make no sense".to_owned());
        }
        match self.network().and_then(|network| network.find_contradiction(ranks)) {
            Some(contradiction) => Err(format!("its network has {contradiction}")),
            None => Ok(()),
        }
    }

    /// Checks that what was seen before the run is of the devices.
    fn check_look(&self) -> Result<(), String> {
        let Some(look) = self.look() else {
            return Ok(());
        };
        let devices: usize = self.nodes.iter().map(|node| node.devices.len()).sum();
        let of_devices = look.parts.len() == devices;
        look.begin(0..devices, 0, 1, 1.0).ok().filter(|_| of_devices).map_or_else(
            || Err("what was seen of its devices makes no sense".to_owned()),
            |_| Ok(()),
        )
    }

    fn check_tuning(&self) -> Result<(), String> {
        let PlanTuning { panel, lookahead, k_parts, .. } = self.tuning;
        if panel == 0 {
            return Err("its panels are 0 columns wide".to_owned());
        }
        if !(LEAST_LOOKAHEAD..=MAX_LOOKAHEAD).contains(&lookahead) {
            let range = format!("{LEAST_LOOKAHEAD} to {MAX_LOOKAHEAD}");
            return Err(format!("its lookahead is {lookahead} steps, not {range}"));
        }
        let most = match self.division().shares() {
            None => self.steps(0).max(1),
            Some(_) => 1,
        };
        if !(1..=most).contains(&k_parts) {
            return Err(format!("it holds A and B in {k_parts} parts of k, not 1 to {most}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use isochron_hierarchy::layout::slice_cols;
    use isochron_hierarchy::network::Network;
    use serde_json::{Value, json};

    use super::*;
    use crate::plan::Problem;

    fn whole() -> Plan {
        let problem = Problem::new(40, 60, 900, 10).unwrap();
        let layout = slice_cols(4, &[2, 4]).unwrap();
        Plan::with_layout(problem, layout, &[vec![20], vec![30, 10]])
            .unwrap()
            .with_network(Network::flat(1e-6, 1e9).with_adapters(vec![1e9, 1e8]))
    }

    /// Returns the refusal of the plan with another value at this place of the document.
    fn refuse(place: &str, value: Value) -> String {
        let mut document = serde_json::to_value(whole()).unwrap();
        *document.pointer_mut(place).unwrap() = value;
        let read: Plan = match serde_json::from_value(document) {
            Ok(plan) => plan,
            Err(error) => return error.to_string(),
        };
        read.check().expect_err(place).to_string()
    }

    #[test]
    fn a_document_reads_back_as_it_was() {
        let text = serde_json::to_string(&whole()).unwrap();
        let read: Plan = serde_json::from_str(&text).unwrap();
        assert_eq!(read, whole());
        read.check().unwrap();
    }

    #[test]
    fn every_impossible_value_is_refused() {
        for (place, value, reason) in [
            ("/problem/block", json!(0), "a block needs at least one row"),
            ("/problem/n", json!(70), "the layout has 4×6 blocks, C has 4×7"),
            ("/decision/division/c/rects/0/cols", json!(3), "blocks"),
            (
                "/decision/division",
                json!({"k": {"shares": [80, 9], "held": whole().layout()}}),
                "make up the 90",
            ),
            (
                "/decision/division",
                json!({"k": {"shares": [u64::MAX, 91], "held": whole().layout()}}),
                "make up the 90",
            ),
            ("/decision/kernel_width", json!(0), "make no sense"),
            (
                "/decision/left_out",
                json!({"ranks": [2], "with_s": 1.0, "without_s": 1.0}),
                "make no sense",
            ),
            ("/decision/candidates", json!([{"way": "c", "wall_s": -1.0}]), "make no sense"),
            ("/tuning/network/adapters/1", json!(0.0), "a link that carries nothing"),
            ("/tuning/network/levels/0/points/1/time_s", json!(0.0), "fall with their bytes"),
            (
                "/tuning/network/uplinks",
                json!([{"ranks": [0, 2], "bytes_per_s": 1e9}]),
                "1 levels of messages for groups 1 deep",
            ),
            ("/tuning/panel", json!(0), "0 columns wide"),
            ("/tuning/lookahead", json!(1), "lookahead is 1 steps, not 2 to 8"),
            ("/tuning/k_parts", json!(0), "0 parts of k, not 1 to"),
            ("/tuning/k_parts", json!(901), "901 parts of k, not 1 to"),
            ("/nodes/1/rank", json!(0), "its node 1 is of rank 0"),
            (
                "/nodes/1/devices/0/columns",
                json!(31),
                "the slices of rank 1 have 41 columns, its part has 40",
            ),
            ("/nodes/1/devices/0/columns", json!(u64::MAX), "the slices of rank 1"),
            ("/nodes", json!([]), "it has 0 nodes, and parts for 2"),
        ] {
            let refusal = refuse(place, value);
            assert!(refusal.contains(reason), "{place}: {reason:?} in {refusal:?}");
        }
    }
}
