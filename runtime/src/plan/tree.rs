//! A binomial tree of message relays: in each round every member that has the message sends it once.
//!
//! Members are numbered from the holder, 0. In round `r` member `i < 2^r` sends to member `i + 2^r`.

/// Returns the member that sends the message to this one; `None` for the holder.
pub(super) fn parent(member: usize) -> Option<usize> {
    let round = member.checked_ilog2()?;
    Some(member - (1 << round))
}

/// Returns the members to which this one passes the message on, in that order, in a tree of `members`.
pub(super) fn children(member: usize, members: usize) -> impl Iterator<Item = usize> {
    let first = member.checked_ilog2().map_or(0, |round| round + 1);
    (first..usize::BITS)
        .map(move |round| member.saturating_add(1 << round))
        .take_while(move |&child| child < members)
}

#[cfg(test)]
mod tests {
    use isochron_hierarchy::predict::count_rounds;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_member_has_it_once_and_soon(members in 1usize..200) {
            // The round in which each member gets the message; the holder has it before the first.
            let mut has = vec![None; members];
            has[0] = Some(0);
            for member in 0..members {
                let mut round = has[member].expect("earlier members have it first");
                for child in children(member, members) {
                    prop_assert_eq!(parent(child), Some(member));
                    prop_assert_eq!(has[child], None);
                    round += 1;
                    has[child] = Some(round);
                }
            }
            prop_assert!(has.iter().flatten().all(|&round| round <= count_rounds(members - 1)));
            prop_assert!(has.iter().all(Option::is_some));
        }
    }
}
