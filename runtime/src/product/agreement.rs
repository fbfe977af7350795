//! Block-cyclic matrices that a product uses where they lie.
//!
//! A product is the same with its rows, its columns or its inner indices in another order. With indices numbered process
//! by process, a process holds one rectangle of a block-cyclic matrix. If A, B and C agree in their blocks, as those of PBLAS
//! calls do, what each rank has is then a division of the product, and nothing moves if that division is as fast as the
//! one that was planned and the moves that lead to it.

use std::sync::Arc;

use isochron_hierarchy::network::{Network, PhaseTraffic, Traffic};
use isochron_hierarchy::predict::wall_s;

use crate::matrix::{Distribution, Numbering, Op, Region, Spread, volume};
use crate::plan::{A, B, Plan};

/// Numbers the rows, the columns and the inner indices of a product so that what each rank holds of its matrices is one
/// rectangle, as far as the matrices agree.
pub(super) fn renumber([a, b, c]: [Distribution; 3], ops: [Op; 2]) -> [Distribution; 3] {
    let spreads = [&a, &b, &c].map(Distribution::only_spread);
    let [Some(of_a), Some(of_b), Some(of_c)] = spreads else {
        return [a, b, c];
    };
    let (op_a, op_b) = (turn(of_a, ops[0].transposes()), turn(of_b, ops[1].transposes()));
    let numberings = [
        number_for(of_c, &op_a),
        number_for(&of_c.transposed(), &op_b.transposed()),
        number_for(&op_a.transposed(), &op_b).or_else(|| number_for(&op_b, &op_a.transposed())),
    ];
    let [m, n, k] = numberings.each_ref().map(Option::as_ref);
    let lines = |lines: [_; 2], op: Op| {
        if op.transposes() { [lines[1], lines[0]] } else { lines }
    };
    [a.renumbered(lines([m, k], ops[0])), b.renumbered(lines([k, n], ops[1])), c.renumbered([m, n])]
}

/// Returns the spread of the matrix, or of its transpose.
fn turn(spread: &Spread, transposes: bool) -> Spread {
    if transposes { spread.transposed() } else { spread.clone() }
}

/// Numbers the rows of a matrix, if that cuts those of another matrix into no more ranges.
fn number_for(one: &Spread, other: &Spread) -> Option<Numbering> {
    let numbering = one.number_rows();
    numbering.filter(|numbering| other.suits_rows(numbering))
}

/// The narrowest blocks that a product is planned in so that C may stay where it is.
const LEAST_BLOCK: usize = 16;

/// Returns the widest block of at most `block` that divides the borders between the parts of C. Returns `block` itself if it is
/// [too narrow](LEAST_BLOCK), or if there are no borders.
pub(super) fn fit_block(block: usize, c: &Distribution) -> usize {
    let parts = c.only_spread().and_then(list_parts).unwrap_or_default();
    let borders =
        parts.iter().flat_map(|part| if part.is_empty() { [0, 0] } else { [part.row, part.col] });
    let common = borders.fold(0, gcd);
    let least = LEAST_BLOCK.min(block);
    (least..=block).rev().find(|&width| common > 0 && common.is_multiple_of(width)).unwrap_or(block)
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Suits a plan to matrices that lie in memory. C is divided as it lies if that is predicted to save time. Factors stay where
/// they are if no rank then sends more than it would to move them and for the product.
pub(super) fn suit_plan(plan: Plan, on: &[Distribution; 3]) -> Plan {
    let parts = on[2].only_spread().and_then(list_parts);
    let lying = parts.and_then(|parts| plan.divided_as(&parts));
    let plan = leave_factors(plan, on);
    let plan = match lying.map(|lying| leave_factors(lying, on)) {
        Some(lying) if is_faster(&lying, &plan, on) => lying,
        _ => plan,
    };
    note_scattered(plan, on)
}

/// Notes which factors lie where the plan has them, but in another order in memory.
pub(super) fn note_scattered(plan: Plan, on: &[Distribution; 3]) -> Plan {
    let planned = [plan.a(), plan.b()];
    let scattered = [A, B].map(|side| {
        let (on, planned) = (&on[side], &planned[side]);
        on.covers(planned) && !on.is_like(planned)
    });
    plan.with_scattered(scattered)
}

/// Returns `true` if a plan that divides C as it lies is no slower than the other, with all moves that each needs. Without
/// measurements the larger part decides.
fn is_faster(lying: &Plan, plan: &Plan, on: &[Distribution; 3]) -> bool {
    let walls = [lying, plan].map(|plan| predict_wall_s(plan, on));
    tracing::debug!(?walls, "C as it lies, and as planned");
    match walls {
        [Some(lying_s), Some(planned_s)] => lying_s <= planned_s,
        _ => lying.most_blocks() <= plan.most_blocks(),
    }
}

/// Bytes per second of a network that was not measured: memory and networks are hardly faster.
const FASTEST: f64 = 1e10;

/// Predicts the seconds of a run: the arithmetic, the panels, and the move of every matrix that does not lie as the plan has it.
/// Between hosts panels travel during the arithmetic. `None` if nothing was measured.
fn predict_wall_s(plan: &Plan, on: &[Distribution; 3]) -> Option<f64> {
    let unmeasured = Network::flat(0.0, FASTEST);
    let network = plan.network().map_or(&unmeasured, Arc::as_ref);
    let bytes = plan.problem().element().bytes();
    let panels = (0..plan.n_ranks()).map(|rank| {
        let received = plan.count_received(rank);
        Traffic {
            elements: received.bytes as f64 / bytes as f64,
            messages: received.messages as f64,
        }
    });
    let panels_s = network.phase_s(&PhaseTraffic::of(panels), bytes);
    let moves_s = on
        .iter()
        .zip([plan.a(), plan.b(), plan.c()])
        .filter(|(on, planned)| !on.covers(planned))
        .map(|(on, planned)| {
            let nodes = count_moved(on, &planned).into_iter();
            let nodes = nodes.map(|elements| Traffic { elements: elements as f64, messages: 0.0 });
            network.phase_s(&PhaseTraffic::of(nodes), bytes)
        });
    let mut hosts = plan.nodes().iter().map(|node| &node.host);
    let first = hosts.next();
    let is_one_host = hosts.all(|host| Some(host) == first);
    let hidden = if is_one_host { 0.0 } else { 1.0 };
    let run_s = wall_s(plan.predicted_s()?, panels_s, hidden);
    Some(run_s + moves_s.sum::<f64>())
}

/// Returns the rectangle of each rank.
fn list_parts(c: &Spread) -> Option<Vec<Region>> {
    (0..c.n_ranks()).map(|rank| c.find_part(rank)).collect()
}

/// Leaves both factors where they are, as far as that [suits](leave_factor) the plan.
fn leave_factors(plan: Plan, on: &[Distribution; 3]) -> Plan {
    match plan.division().shares() {
        // Every rank needs its share of k.
        Some(_) => plan,
        None => leave_factor(leave_factor(plan, A, &on[A]), B, &on[B]),
    }
}

/// Leaves a factor where it is, if every rank has one rectangle of it and that lets no rank send more.
fn leave_factor(plan: Plan, side: usize, on: &Distribution) -> Plan {
    let turns = plan.problem().ops()[side].transposes();
    let ranks = 0..plan.n_ranks();
    let Some(has) = on.only_spread() else {
        return plan;
    };
    let factor = turn(has, turns);
    let parts: Option<Vec<Region>> = ranks.clone().map(|rank| factor.find_covered(rank)).collect();
    let Some(parts) = parts else {
        return plan;
    };
    let stored = if side == A { plan.a() } else { plan.b() };
    let planned = turn(&stored, turns);
    let planned_parts: Vec<Region> = ranks.map(|rank| planned.part(rank)).collect();
    let moved = count_moved(on, &stored).into_iter();
    let sent = moved.zip(plan.count_sent(side, &planned_parts));
    let most_planned = sent.map(|(moved, sent)| moved + sent).max();
    if plan.count_sent(side, &parts).into_iter().max() <= most_planned {
        plan.with_lying(side, &parts)
    } else {
        plan
    }
}

/// Counts the elements that each rank sends to bring a matrix to a spread.
fn count_moved(on: &Distribution, planned: &Spread) -> Vec<u64> {
    let mut moved = vec![0; planned.n_ranks()];
    for piece in on.pieces() {
        for (sum, elements) in moved.iter_mut().zip(volume(piece, planned)) {
            *sum += elements;
        }
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::{BlockCyclic, ProcessGrid};

    /// Returns a matrix in blocks of `width`, dealt to two ranks beside each other.
    fn dealt(rows: usize, cols: usize, width: usize) -> Distribution {
        let blocks = BlockCyclic::new(rows, cols, width, width).with_sources(0, 1);
        Distribution::block_cyclic(&blocks, ProcessGrid::by_rows(1, 2), 2).unwrap()
    }

    #[test]
    fn blocks_divide_the_borders_between_the_parts() {
        for (size, width, block, expected) in [
            (2048, 64, 128, 128),
            (2000, 100, 128, 125),
            (2000, 50, 128, 125),
            (2000, 40, 64, 50),
            (100, 24, 128, 48),
            (100, 24, 32, 24),
            (95, 19, 128, 38),
            (44, 11, 128, 22),
            (14, 7, 128, 128),
            (48, 8, 8, 8),
        ] {
            let c = dealt(size, size, width);
            let [.., on] = renumber([c.clone(), c.clone(), c], [Op::N; 2]);
            assert_eq!(fit_block(block, &on), expected, "{size} in blocks of {width}");
        }
        let whole = Distribution::on_one(9, 9, 0, 2).unwrap();
        assert_eq!(fit_block(128, &whole), 128);
    }

    #[test]
    fn lines_are_numbered_where_the_factors_agree() {
        let (c, b) = (dealt(90, 80, 8), dealt(70, 80, 8));
        let is_rectangles = |on: &Distribution| on.only_spread().and_then(list_parts).is_some();
        let a = dealt(90, 70, 8);
        let [a, b, c] = renumber([a, b, c], [Op::N; 2]);
        assert!(is_rectangles(&a) && is_rectangles(&c));
        // It has all of k, in the order of its memory.
        assert!(!is_rectangles(&b));
        let has = b.only_spread().unwrap();
        assert!((0..2).all(|rank| has.find_covered(rank).is_some()));
        // Columns of B in other blocks than those of C.
        let (a, b, c) = (dealt(90, 70, 8), dealt(70, 80, 5), dealt(90, 80, 8));
        let [a, _, c] = renumber([a, b, c], [Op::N; 2]);
        assert!(is_rectangles(&a) && !is_rectangles(&c));
    }
}
