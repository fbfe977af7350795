//! The ways to divide that a plan has compared, for people.

use isochron_hierarchy::predict::{Candidate, Way};

/// What is divided, and how.
fn in_words(way: Way) -> &'static str {
    match way {
        Way::C => "C in rectangles",
        Way::M => "m in slices of rows",
        Way::N => "n in slices of columns",
        Way::K => "k in shares",
    }
}

/// What is divided, as a sentence begins.
pub(super) fn divided(way: Way) -> &'static str {
    match way {
        Way::C => "C is divided",
        Way::M => "m is divided, C in slices of rows",
        Way::N => "n is divided, C in slices of columns",
        Way::K => "k is divided, and the parts of C are summed",
    }
}

/// All ways with their seconds, as a line; nothing where none were compared.
pub(super) fn compared(candidates: &[Candidate]) -> String {
    if candidates.is_empty() {
        return String::new();
    }
    let each = |candidate: &Candidate| {
        let Candidate { way, wall_s } = *candidate;
        format!("{} {wall_s:.3} s", in_words(way))
    };
    let all: Vec<String> = candidates.iter().map(each).collect();
    format!("predicted with messages: {}\n", all.join(", "))
}

/// Why another way than rectangles of C was taken; `None` where it was not, nothing was compared, or it is taken as it was
/// balanced, since no other is clearly faster.
pub(super) fn why(way: Way, candidates: &[Candidate]) -> Option<String> {
    let taken = candidates.iter().find(|candidate| candidate.way == way)?;
    // In order of their seconds: the best of the others.
    let other = candidates.iter().find(|candidate| candidate.way != way)?;
    (way != Way::C && taken.wall_s < other.wall_s).then(|| {
        format!(
            "{way} is divided: predicted {:.3} s, against {:.3} s for {}",
            taken.wall_s,
            other.wall_s,
            in_words(other.way)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARES: Candidate = Candidate {
        way: Way::K,
        wall_s: 1.2,
    };
    const RECTANGLES: Candidate = Candidate {
        way: Way::C,
        wall_s: 1.85,
    };
    const ROWS: Candidate = Candidate {
        way: Way::M,
        wall_s: 2.0,
    };

    #[test]
    fn another_way_than_rectangles_is_explained_once() {
        let all = [SHARES, RECTANGLES, ROWS];
        let said = why(Way::K, &all).unwrap();
        assert_eq!(
            said,
            "k is divided: predicted 1.200 s, against 1.850 s for C in rectangles"
        );
        assert!(
            why(Way::K, &[SHARES, ROWS])
                .unwrap()
                .ends_with("for m in slices of rows")
        );
        assert_eq!(why(Way::M, &all), None);
        assert_eq!(why(Way::C, &all), None);
        assert_eq!(why(Way::K, &[]), None);
        assert_eq!(why(Way::K, &[SHARES]), None);
    }

    #[test]
    fn all_ways_are_listed_in_their_order() {
        assert_eq!(
            compared(&[SHARES, RECTANGLES, ROWS]),
            "predicted with messages: k in shares 1.200 s, C in rectangles 1.850 s, m in slices of rows 2.000 s\n"
        );
        assert_eq!(compared(&[]), "");
    }
}
