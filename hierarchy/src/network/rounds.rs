//! Rounds of disjoint pairs, in which all members exchange messages at once.

/// Members up to which every pair meets.
const MEETING_ALL: usize = 256;

/// Distances at which more members meet, each in two rounds.
const DISTANCES: usize = 16;

/// Lists the rounds in which `members` meet: each in at most one pair a round, and no pair twice. After the last one every pair
/// has met. Beyond 256 members 32 rounds are listed, with neighbours as well as members that are far apart: members of one
/// group should have neighbouring numbers.
///
/// # References
/// The circle method for tournaments: one member stays while the others move around it.
///
/// ```
/// use isochron_hierarchy::network::list_rounds;
///
/// assert_eq!(list_rounds(4), [[(3, 0), (1, 2)], [(3, 1), (2, 0)], [(3, 2), (0, 1)]]);
/// assert_eq!(list_rounds(1024).len(), 32);
/// ```
pub fn list_rounds(members: usize) -> Vec<Vec<(usize, usize)>> {
    if members > MEETING_ALL {
        return list_distant(members);
    }
    // With an odd number one rests: the one that would meet the last.
    let even = members.next_multiple_of(2);
    let meeting = |round| meet_around(even, round).filter(|(a, b)| *a.max(b) < members).collect();
    (0..even.saturating_sub(1)).map(meeting).filter(|round: &Vec<_>| !round.is_empty()).collect()
}

/// Lists the pairs of a round of an even number of members.
fn meet_around(even: usize, round: usize) -> impl Iterator<Item = (usize, usize)> {
    let around = even - 1;
    let others =
        (1..even / 2).map(move |step| ((round + step) % around, (round + around - step) % around));
    std::iter::once((around, round)).chain(others)
}

/// Lists rounds in which members meet those at some distances, from neighbours to half of all.
fn list_distant(members: usize) -> Vec<Vec<(usize, usize)>> {
    let most = members as f64 / 2.0;
    let mut distance = 0;
    let distances = (0..DISTANCES).map(|index| {
        let part = index as f64 / (DISTANCES - 1) as f64;
        distance = (most.powf(part) as usize).max(distance + 1);
        distance
    });
    let rounds = distances.flat_map(|distance| {
        [0, 1].map(|parity| {
            (0..members - distance)
                .filter(|first| first / distance % 2 == parity)
                .map(|first| (first, first + distance))
                .collect()
        })
    });
    rounds.collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Returns the pairs that meet, and checks that no member is in two at once and no pair meets twice.
    fn meet(members: usize) -> BTreeSet<(usize, usize)> {
        let mut met = BTreeSet::new();
        for round in list_rounds(members) {
            let mut busy = BTreeSet::new();
            for (a, b) in round {
                assert!(a < members && b < members && busy.insert(a) && busy.insert(b));
                assert!(met.insert((a.min(b), a.max(b))), "{members}: {a} and {b} twice");
            }
        }
        met
    }

    #[test]
    fn every_pair_meets_once() {
        for members in 0..=33 {
            assert_eq!(meet(members).len(), members * members.saturating_sub(1) / 2);
            assert!(list_rounds(members).len() <= members);
        }
    }

    #[test]
    fn many_members_meet_some_near_and_far() {
        for members in [257, 1000, 1024] {
            let met = meet(members);
            assert_eq!(list_rounds(members).len(), 2 * DISTANCES);
            for member in 0..members {
                let of_member = met.iter().filter(|(a, b)| *a == member || *b == member);
                let distances: BTreeSet<usize> = of_member.map(|(a, b)| b - a).collect();
                assert!(distances.len() >= DISTANCES - 1, "{member} of {members}");
            }
        }
    }
}
