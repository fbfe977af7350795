//! INPA over IDPA at scale, on a made-up cluster with cliffs and noise.

use isochron_hierarchy::balance::imbalance;
use isochron_support::simulated::SimulatedCluster;

/// Returns a side with enough blocks for each node that whole blocks are no coarser than noise.
fn side_for(n_nodes: usize) -> u64 {
    300 * (n_nodes as f64).sqrt() as u64
}

#[test]
fn ten_thousand_nodes_with_cliffs_and_noise_converge() {
    let mut cluster = SimulatedCluster::new(10_000, 5, side_for(10_000), 1);
    let balance = cluster.balance_nodes().unwrap();
    let times_s = cluster.times_s(&balance.layout);
    let (last_s, ideal_s) = (times_s.iter().copied().fold(0.0, f64::max), cluster.ideal_s());
    assert!(balance.outcome.converged, "{:?} {}", balance.outcome.why, balance.outcome.imbalance);
    // Ten per cent of the measured times, and two per cent of noise both ways.
    assert!(imbalance(&times_s) <= 0.15, "{}", imbalance(&times_s));
    assert!(last_s <= 1.1 * ideal_s, "{last_s} s, ideally {ideal_s} s");
}
