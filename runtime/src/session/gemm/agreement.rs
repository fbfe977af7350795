//! Block-cyclic matrices that a product uses where they lie.
//!
//! A product is the same with its rows, its columns or its inner indices in another order. With indices numbered process
//! by process, a process holds one rectangle of a block-cyclic matrix. If A, B and C agree in their blocks, as those of PBLAS
//! calls do, what each rank has is then a division of the product, and nothing moves if that division is as fast as the
//! one that was planned and the moves that lead to it.

use isochron_hierarchy::predict::Traffic;

use crate::matrix::{Distribution, Numbering, Op, Region, Spread, volume};
use crate::multiply::{A, B, Plan};

/// Numbers the rows, the columns and the inner indices of a product so that what each rank holds of its matrices is one
/// rectangle, as far as the matrices agree.
pub(super) fn renumber([a, b, c]: [Distribution; 3], ops: [Op; 2]) -> [Distribution; 3] {
    let spreads = [&a, &b, &c].map(Distribution::only_spread);
    let [Some(of_a), Some(of_b), Some(of_c)] = spreads else {
        return [a, b, c];
    };
    let along_k = [
        turn(of_a, !ops[0].transposes()),
        turn(of_b, ops[1].transposes()),
    ];
    let numberings = [
        of_c.number_rows(),
        of_c.transposed().number_rows(),
        number_alike(&along_k),
    ];
    let [m, n, k] = numberings.each_ref().map(Option::as_ref);
    let lines = |lines: [_; 2], op: Op| match op.transposes() {
        true => [lines[1], lines[0]],
        false => lines,
    };
    [
        a.renumbered(lines([m, k], ops[0])),
        b.renumbered(lines([k, n], ops[1])),
        c.renumbered([m, n]),
    ]
}

/// Returns the spread of the matrix, or of its transpose.
fn turn(spread: &Spread, transposes: bool) -> Spread {
    match transposes {
        true => spread.transposed(),
        false => spread.clone(),
    }
}

/// Returns numbers that suit the rows of both.
fn number_alike(both: &[Spread; 2]) -> Option<Numbering> {
    let numberings = both.iter().filter_map(Spread::number_rows);
    let suits = |numbering: &Numbering| both.iter().all(|spread| spread.suits_rows(numbering));
    numberings.into_iter().find(suits)
}

/// The narrowest blocks that a product is planned in so that its matrices may stay where they are.
const LEAST_BLOCK: usize = 32;

/// Returns the largest block size that divides this one and the borders between the parts of C, or `block` itself if that is
/// too narrow.
pub(super) fn fit_block(block: usize, c: &Distribution) -> usize {
    let parts = c.only_spread().and_then(list_parts).unwrap_or_default();
    let starts = parts.iter().filter(|part| !part.is_empty());
    let fitted = starts.fold(block, |block, part| gcd(gcd(block, part.row), part.col));
    if fitted < LEAST_BLOCK { block } else { fitted }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Suits a plan to matrices that lie in memory. C is divided as it lies if that saves time. Factors stay where they are if no
/// rank then sends more than it would to move them and for the product.
pub(super) fn suit_plan(plan: Plan, on: &[Distribution; 3]) -> Plan {
    let mut plan = choose_division(plan, on);
    if plan.division().shares().is_none() {
        plan = leave_factor(plan, A, &on[A]);
        plan = leave_factor(plan, B, &on[B]);
    }
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

/// Divides C as it lies, unless the division that was planned is faster even with the moves that lead to it.
fn choose_division(plan: Plan, on: &[Distribution; 3]) -> Plan {
    let parts = on[2].only_spread().and_then(list_parts);
    let Some(lying) = parts.and_then(|parts| plan.divided_as(&parts)) else {
        return plan;
    };
    let saves = match (plan.predicted_s(), lying.predicted_s()) {
        (Some(planned_s), Some(lying_s)) => {
            let move_s = predict_move_s(&plan, &on[2]);
            tracing::debug!(planned_s, lying_s, move_s, "C as it lies");
            lying_s <= planned_s + move_s
        }
        // Nothing was measured.
        _ => lying.most_blocks() <= plan.most_blocks(),
    };
    if saves { lying } else { plan }
}

/// Returns the rectangle of each rank.
fn list_parts(c: &Spread) -> Option<Vec<Region>> {
    (0..c.n_ranks()).map(|rank| c.find_part(rank)).collect()
}

/// Predicts the seconds in which C moves from where the plan has it to where it lies.
fn predict_move_s(plan: &Plan, c: &Distribution) -> f64 {
    let Some(links) = plan.links() else {
        return 0.0;
    };
    let nodes = count_moved(c, &plan.c())
        .into_iter()
        .map(|elements| Traffic {
            elements: elements as f64,
            messages: 0.0,
        });
    links.longest_s(&nodes.collect::<Vec<_>>(), plan.problem().element().bytes())
}

/// Leaves a factor where it is, if every rank has one rectangle of it and that lets no rank send more.
fn leave_factor(plan: Plan, side: usize, on: &Distribution) -> Plan {
    let turns = plan.problem().ops()[side].transposes();
    let ranks = 0..plan.n_ranks();
    let Some(has) = on.only_spread() else {
        return plan;
    };
    let factor = turn(has, turns);
    let parts: Option<Vec<Region>> = ranks
        .clone()
        .map(|rank| factor.find_covered(rank))
        .collect();
    let Some(parts) = parts else {
        return plan;
    };
    let stored = if side == A { plan.a() } else { plan.b() };
    let planned = turn(&stored, turns);
    let planned_parts: Vec<Region> = ranks.map(|rank| planned.part(rank)).collect();
    let moved = count_moved(on, &stored).into_iter();
    let sent = moved.zip(plan.count_sent(side, &planned_parts));
    let most_planned = sent.map(|(moved, sent)| moved + sent).max();
    match plan.count_sent(side, &parts).into_iter().max() <= most_planned {
        true => plan.with_lying(side, &parts),
        false => plan,
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
