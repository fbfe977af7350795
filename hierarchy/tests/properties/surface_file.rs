//! The surface file against arbitrary input. `PROPTEST_CASES` sets the number of cases.

use isochron_hierarchy::layout::SpeedSurface;
use isochron_hierarchy::model::{ModelError, Surface, SurfaceFile, SurfacePoint};
use proptest::prelude::*;

const HEAD: &str = "# format: isochron-surface 1\n";

fn any_token() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => (0..200_u64).prop_map(|m| m.to_string()),
        1 => any::<u64>().prop_map(|m| m.to_string()),
        3 => any::<f64>().prop_map(|x| format!("{x:?}")),
        1 => prop::sample::select(vec!["nan", "inf", "-0", "1e400", "#", "# a: b", "\r", "\n", "١"])
            .prop_map(str::to_owned),
        1 => "\\PC{0,6}",
    ]
}

fn any_line() -> impl Strategy<Value = String> {
    prop::collection::vec(any_token(), 0..7).prop_map(|tokens| tokens.join(" "))
}

fn any_text() -> impl Strategy<Value = String> {
    let lines = prop::collection::vec(any_line(), 0..8).prop_map(|lines| lines.join("\n"));
    (any::<bool>(), lines).prop_map(|(head, lines)| {
        let head = if head { HEAD } else { "" };
        format!("{head}{lines}")
    })
}

/// A point of at most `max × max` blocks.
fn any_point(max: u64) -> impl Strategy<Value = SurfacePoint> {
    (1..=max, 1..=max, 1e-100..1e100, any::<u32>(), 0.0..1e100)
        .prop_map(|(m, n, t_s, reps, ci_s)| SurfacePoint { m, n, t_s, reps, ci_s })
}

proptest! {
    #[test]
    fn nothing_panics_and_every_refusal_names_its_line(text in any_text()) {
        match SurfaceFile::parse(&text) {
            Ok(file) => {
                let read = Surface::from_points(file.points.clone());
                prop_assert_eq!(read.is_ok(), !file.points.is_empty());
            }
            Err(ModelError::Syntax { line, .. }) => {
                prop_assert!((1..=text.lines().count()).contains(&line));
            }
            Err(other) => prop_assert!(false, "{other}"),
        }
    }

    #[test]
    fn a_written_file_is_read_back(points in prop::collection::vec(any_point(u64::MAX), 0..20)) {
        let file = SurfaceFile { points, ..SurfaceFile::default() };
        let read = SurfaceFile::parse(&file.to_string()).expect("our own");
        prop_assert_eq!(read, file);
    }

    #[test]
    fn every_width_has_a_section(
        points in prop::collection::vec(any_point(9999), 1..20),
        width in 1..=9999_u64,
        m in 1..=9999_u64,
    ) {
        let surface = Surface::from_points(points).expect("valid");
        let (m, n) = (m as f64, width as f64);
        let time_s = surface.section(width).time_s(m);
        prop_assert!(time_s > 0.0 && time_s.is_finite());
        prop_assert!((time_s / surface.time_s(m, n) - 1.0).abs() < 1e-9);
    }
}
