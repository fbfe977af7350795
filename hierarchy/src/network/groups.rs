//! Groups of members, found from the times of messages between them.

use super::table::PairTable;

/// Gaps between times that are tried, the widest first.
const TRIED_GAPS: usize = 8;

/// Most groups within each other.
const MOST_LEVELS: usize = 4;

/// Finds the groups of each member, the outermost first. Members of a group reach each other clearly faster than members of
/// others do; a group has at least two members that are faster with each other. A member that is slow with all belongs to the
/// group with which it is least slow. Two kinds of pairs have a gap of at least the ratio `gap` between their times, and medians that are
/// `apart` times as far.
pub(super) fn find_groups(
    members: usize,
    table: &PairTable,
    [gap, apart]: [f64; 2],
) -> Vec<Vec<usize>> {
    let mut groups = vec![Vec::new(); members];
    let all: Vec<usize> = (0..members).collect();
    split_on(&all, table, [gap.ln(), apart.ln()], &mut groups, 0);
    groups
}

fn split_on(
    members: &[usize],
    table: &PairTable,
    least: [f64; 2],
    groups: &mut [Vec<usize>],
    depth: usize,
) {
    if depth == MOST_LEVELS {
        return;
    }
    let Some(parts) = split(members, table, least) else {
        return;
    };
    for (number, part) in parts.into_iter().enumerate() {
        part.iter().for_each(|&member| groups[member].push(number));
        split_on(&part, table, least, groups, depth + 1);
    }
}

/// Splits members into groups; `None` if all pairs are of one kind.
fn split(members: &[usize], table: &PairTable, least: [f64; 2]) -> Option<Vec<Vec<usize>>> {
    let mut pairs = Vec::new();
    for (place, &a) in members.iter().enumerate() {
        let others = members[place + 1..].iter();
        pairs.extend(others.filter_map(|&b| Some((table.log_both((a, b))?, a, b))));
    }
    pairs.sort_unstable_by(|one, next| one.0.total_cmp(&next.0));
    let mut gaps: Vec<usize> =
        (1..pairs.len()).filter(|&next| pairs[next].0 - pairs[next - 1].0 > least[0]).collect();
    let width = |next: &usize| pairs[*next].0 - pairs[next - 1].0;
    gaps.sort_by(|one, next| width(next).total_cmp(&width(one)));
    gaps.into_iter().take(TRIED_GAPS).find_map(|next| {
        let mut parts = connect(members, &pairs[..next]);
        let (mut groups, alone): (Vec<_>, Vec<_>) =
            parts.drain(..).partition(|part: &Vec<usize>| part.len() > 1);
        let [fast, slow] = [&pairs[..next], &pairs[next..]].map(|kind| kind[kind.len() / 2].0);
        let are_groups = slow - fast > least[1]
            && groups.len() > 1
            && groups.iter().all(|part| is_close(part, &pairs, next));
        are_groups.then(|| {
            for member in alone.into_iter().flatten() {
                join_nearest(member, &mut groups, table);
            }
            groups.iter_mut().for_each(|part| part.sort_unstable());
            groups.sort();
            groups
        })
    })
}

/// Lists the parts of members that these pairs connect.
fn connect(members: &[usize], pairs: &[(f64, usize, usize)]) -> Vec<Vec<usize>> {
    let mut part_of: Vec<usize> = (0..members.len()).collect();
    let place = |member: usize| members.partition_point(|&other| other < member);
    for &(_, a, b) in pairs {
        let [kept, merged] = [a, b].map(|member| part_of[place(member)]);
        part_of.iter_mut().filter(|part| **part == merged).for_each(|part| *part = kept);
    }
    let mut parts = vec![Vec::new(); members.len()];
    for (&member, part) in members.iter().zip(part_of) {
        parts[part].push(member);
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// Returns `true` if most pairs within a part are among the faster ones: a chain of members is no group.
fn is_close(part: &[usize], pairs: &[(f64, usize, usize)], next: usize) -> bool {
    let is_within = |pair: &&(f64, usize, usize)| {
        [pair.1, pair.2].iter().all(|member| part.binary_search(member).is_ok())
    };
    let [fast, slow] =
        [&pairs[..next], &pairs[next..]].map(|kind| kind.iter().filter(is_within).count());
    fast >= 2 * slow
}

/// Adds a member to the group that it reaches fastest.
fn join_nearest(member: usize, groups: &mut [Vec<usize>], table: &PairTable) {
    let distance = |part: &Vec<usize>| {
        let known = part.iter().filter_map(|&other| table.log_both((member, other)));
        known.fold(f64::INFINITY, f64::min)
    };
    let nearest = groups.iter_mut().min_by(|one, next| distance(one).total_cmp(&distance(next)));
    nearest.into_iter().for_each(|part| part.push(member));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a table in which pairs take the time of the innermost group that they share.
    fn table_of(paths: &[&[usize]], times_s: &[f64]) -> PairTable {
        let mut table = PairTable::new(paths.len());
        for (a, one) in paths.iter().enumerate() {
            for (b, other) in paths.iter().enumerate().filter(|(b, _)| *b != a) {
                let shared = one.iter().zip(*other).take_while(|(one, other)| one == other).count();
                // Times of equal pairs differ by 5 %.
                let noise = 1.0 + 0.05 * ((a * 7 + b * 3) % 11) as f64 / 10.0;
                table.set((a, b), times_s[shared] * noise);
            }
        }
        table
    }

    #[test]
    fn groups_within_groups_are_found() {
        let paths: Vec<Vec<usize>> =
            (0..16).map(|member| vec![member / 8, member % 8 / 4]).collect();
        let paths: Vec<&[usize]> = paths.iter().map(Vec::as_slice).collect();
        assert_eq!(find_groups(16, &table_of(&paths, &[8.0, 2.0, 1.0]), [1.3; 2]), paths);
        // Equal times are one level.
        let flat = find_groups(16, &table_of(&paths, &[1.0; 3]), [1.3; 2]);
        assert!(flat.iter().all(Vec::is_empty));
        let outer = find_groups(16, &table_of(&paths, &[8.0, 1.0, 1.0]), [1.3; 2]);
        assert!(outer.iter().zip(&paths).all(|(found, path)| found[..] == path[..1]));
    }

    #[test]
    fn a_slow_member_or_pair_is_no_group() {
        let paths: Vec<Vec<usize>> = (0..6).map(|member| vec![member / 3]).collect();
        let paths: Vec<&[usize]> = paths.iter().map(Vec::as_slice).collect();
        let mut flat = table_of(&paths, &[1.0, 1.0]);
        for other in 1..6 {
            flat.set((0, other), 2.0);
            flat.set((other, 0), 2.0);
        }
        flat.set((2, 3), 3.0);
        assert!(find_groups(6, &flat, [1.3; 2]).iter().all(Vec::is_empty));
        // It belongs to the group that is nearest.
        let mut grouped = table_of(&paths, &[4.0, 1.0]);
        for other in 1..3 {
            grouped.set((0, other), 2.0);
            grouped.set((other, 0), 2.0);
        }
        assert_eq!(find_groups(6, &grouped, [1.3; 2]), paths);
    }
}
