//! Multiplications with operations on the factors, and with k divided.

use std::sync::Arc;

use isochron::comm::Comm;
use isochron::matrix::Op;
use isochron::plan::Problem;
use isochron::product::Scalars;
use isochron_hierarchy::network::{Network, Traffic};
use isochron_hierarchy::predict::reduction_phase;

use crate::cases::{Case, assert_counted, integers, open, plan_shares, scale};

const SHAPES: [(usize, usize, usize); 6] =
    [(1, 1, 1), (37, 41, 43), (64, 3, 50), (5, 90, 17), (9, 8, 300), (6, 7, 0)];

const OPS: [Op; 3] = [Op::N, Op::T, Op::C];

const SCALARS: [Scalars; 3] = [scale(1.0, 0.0), scale(-2.0, 3.0), scale(0.0, 1.0)];

/// Shares of k: even, lopsided with some of nothing, and all of it on one rank.
fn shares_of(blocks: u64, ranks: usize) -> [Vec<u64>; 3] {
    let n = ranks as u64;
    let even = (0..n).map(|rank| blocks / n + u64::from(rank < blocks % n));
    let mut lopsided = vec![0; ranks];
    lopsided[0] = blocks.div_ceil(3);
    lopsided[ranks - 1] += blocks - blocks.div_ceil(3);
    let mut last = vec![0; ranks];
    last[ranks - 1] = blocks;
    [even.collect(), lopsided, last]
}

/// k divided over the ranks: results, and the bytes that travel are those that are predicted.
pub fn along_k(shared: &Arc<dyn Comm>) -> usize {
    let comm = shared.as_ref();
    let mut session = open(shared);
    let mut count = 0;
    for (m, n, k) in SHAPES {
        for block in [1, 8] {
            let problem = Problem::new(m, n, k, block).unwrap();
            for shares in shares_of(problem.k_blocks(), comm.size()) {
                let ops = [OPS[count % 3], OPS[count / 3 % 3]];
                let problem = problem.with_ops(ops).with_panel(7).unwrap();
                let computes: Vec<bool> = shares.iter().map(|&share| share > 0).collect();
                let plan = plan_shares(problem, shares, 3);
                let network = Network::flat(0.0, 1.0);
                let sum = reduction_phase(&network, plan.layout(), block, &computes);
                let predicted = Traffic::total(&sum.received.concat()).elements;
                let mut case: Case = Case::new(comm, plan, integers);
                let done = case.multiply_exactly(&mut session, SCALARS[count % 3]);
                assert_counted(comm, &case.plan, &done);
                let mut sent = [done.bytes];
                comm.sum_u64(&mut sent).unwrap();
                if (m % block, n % block) == (0, 0) {
                    assert_eq!(sent[0] as f64, 8.0 * predicted, "{problem:?}");
                }
                count += 1;
            }
        }
    }
    count
}
