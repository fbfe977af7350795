//! The ways to divide the work that a plan has compared, for people.

use isochron_hierarchy::layout::Way;
use isochron_hierarchy::predict::Candidate;

/// Names a way.
fn name_way(way: Way) -> &'static str {
    match way {
        Way::C => "C in rectangles",
        Way::M => "m in slices of rows",
        Way::N => "n in slices of columns",
        Way::K => "k in shares",
    }
}

/// Describes a way, as the beginning of a sentence.
pub(super) fn describe_way(way: Way) -> &'static str {
    match way {
        Way::C => "C is divided",
        Way::M => "m is divided, C in slices of rows",
        Way::N => "n is divided, C in slices of columns",
        Way::K => "k is divided, and the parts of C are summed",
    }
}

/// Lists all ways with their seconds in a line; empty if none were compared.
pub(super) fn compare_candidates(candidates: &[Candidate]) -> String {
    if candidates.is_empty() {
        return String::new();
    }
    let all: Vec<String> = candidates
        .iter()
        .map(|candidate| format!("{} {:.3} s", name_way(candidate.way), candidate.wall_s))
        .collect();
    format!("predicted with messages: {}\n", all.join(", "))
}

/// Explains why another way than rectangles of C was taken.
///
/// `None` for rectangles, if nothing was compared, or if the way is not the fastest: then no other was clearly faster than
/// the one that was balanced.
pub(super) fn explain_way(way: Way, candidates: &[Candidate]) -> Option<String> {
    let taken = candidates.iter().find(|candidate| candidate.way == way)?;
    // They are in order of their seconds: this is the best of the others.
    let other = candidates.iter().find(|candidate| candidate.way != way)?;
    (way != Way::C && taken.wall_s < other.wall_s).then(|| {
        format!(
            "{way} is divided: predicted {:.3} s, against {:.3} s for {}",
            taken.wall_s,
            other.wall_s,
            name_way(other.way)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARES: Candidate = Candidate { way: Way::K, wall_s: 1.2 };
    const RECTANGLES: Candidate = Candidate { way: Way::C, wall_s: 1.85 };
    const ROWS: Candidate = Candidate { way: Way::M, wall_s: 2.0 };

    #[test]
    fn another_way_than_rectangles_is_explained_once() {
        let all = [SHARES, RECTANGLES, ROWS];
        let said = explain_way(Way::K, &all).unwrap();
        assert_eq!(said, "k is divided: predicted 1.200 s, against 1.850 s for C in rectangles");
        assert!(explain_way(Way::K, &[SHARES, ROWS]).unwrap().ends_with("for m in slices of rows"));
        assert_eq!(explain_way(Way::M, &all), None);
        assert_eq!(explain_way(Way::C, &all), None);
        assert_eq!(explain_way(Way::K, &[]), None);
        assert_eq!(explain_way(Way::K, &[SHARES]), None);
    }

    #[test]
    fn all_ways_are_listed_in_their_order() {
        assert_eq!(
            compare_candidates(&[SHARES, RECTANGLES, ROWS]),
            "predicted with messages: k in shares 1.200 s, C in rectangles 1.850 s, m in slices of rows 2.000 s\n"
        );
        assert_eq!(compare_candidates(&[]), "");
    }
}
