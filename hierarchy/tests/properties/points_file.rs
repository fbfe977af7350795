//! The points file against arbitrary input. `PROPTEST_CASES` sets the number of cases.

use isochron_hierarchy::model::{Fit, ModelError, ModelFile};
use proptest::prelude::*;
use strum::VariantArray as _;

/// A part of a line, valid or not.
fn any_token() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => (0..2000_u64).prop_map(|d| d.to_string()),
        1 => any::<u64>().prop_map(|d| d.to_string()),
        4 => any::<f64>().prop_map(|x| format!("{x:?}")),
        2 => (1e-6..1e3_f64).prop_map(|x| format!("{x}")),
        1 => prop::sample::select(vec![
            "nan", "inf", "-inf", "-0", "+1", "1e400", "1e-400", "0x1", "#", "# format:",
            "# format: isochron-points 1", "# format: isochron-points 2", "# host: a:b", "#:", "##",
            "\u{feff}", "\r", "\u{0}", "\u{2028}", "\u{85}", ",", "1,5", "١",
        ])
        .prop_map(str::to_owned),
        1 => "\\PC{0,6}",
    ]
}

fn any_line() -> impl Strategy<Value = String> {
    prop::collection::vec(any_token(), 0..6).prop_map(|tokens| tokens.join(" "))
}

/// Lines that are likely to be points, ascending.
fn good_lines() -> impl Strategy<Value = Vec<String>> {
    prop::collection::btree_map(any::<u64>(), (-110.0..110.0_f64, any::<u32>(), 0.0..1e3_f64), 0..6)
        .prop_map(|points| {
            let line =
                |(d, (log_t, reps, ci_s))| format!("{d} {:?} {reps} {ci_s:?}", 10_f64.powf(log_t));
            points.into_iter().map(line).collect()
        })
}

fn any_text() -> impl Strategy<Value = String> {
    let lines = prop_oneof![
        2 => prop::collection::vec(any_line(), 0..8),
        2 => good_lines(),
        1 => (good_lines(), any_line()).prop_map(|(mut lines, line)| { lines.push(line); lines }),
    ];
    let ends = prop::sample::select(vec!["\n", "\r\n", "\r", "\n\n"]);
    let structured = (any::<bool>(), lines, ends).prop_map(|(mark, lines, end)| {
        format!("{}{}", if mark { "\u{feff}" } else { "" }, lines.join(end))
    });
    prop_oneof![
        4 => structured,
        1 => prop::collection::vec(any::<u8>(), 0..200)
            .prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
    ]
}

proptest! {
    #[test]
    fn any_text_is_refused_by_line_or_reads_back_as_written(text in any_text()) {
        match ModelFile::parse(&text) {
            Err(ModelError::Syntax { line, reason }) => {
                prop_assert!((1..=text.lines().count()).contains(&line), "{line}: {reason}");
                prop_assert!(!reason.is_empty());
            }
            Err(other) => prop_assert!(false, "{other} names no line"),
            Ok(file) => {
                let written = file.to_string();
                prop_assert_eq!(ModelFile::parse(&written), Ok(file.clone()), "{}", written);
                for &fit in Fit::VARIANTS {
                    match fit.model(&file.points) {
                        Ok(model) => prop_assert!(model.speed(1.0) > 0.0),
                        Err(error) => prop_assert_eq!(error, ModelError::NoPoints),
                    }
                }
            }
        }
    }
}
