//! A binomial tree of message relays: in each round every member that has the message sends it once.
//!
//! Members are numbered from the holder, 0. In round `r` member `i < 2^r` sends to member `i + 2^r`.

/// Returns the member that sends the message to this one; `None` for the holder.
pub(super) fn parent(member: usize) -> Option<usize> {
    let round = member.checked_ilog2()?;
    Some(member - (1 << round))
}

#[cfg(test)]
mod tests {
    use isochron_hierarchy::network::count_rounds;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_member_has_it_soon(members in 1usize..200) {
            // The round in which each member gets the message; the holder has it before the first.
            let mut has = vec![0; members];
            for member in 1..members {
                let sender = parent(member).expect("not the holder");
                let sent = (1..member).filter(|&other| parent(other) == Some(sender)).count() as u32;
                has[member] = has[sender] + sent + 1;
            }
            prop_assert!(has.iter().all(|&round| round <= count_rounds(members - 1)), "{has:?}");
        }
    }
}
