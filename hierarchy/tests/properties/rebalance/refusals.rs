//! Settings and times that no loop can have.

use isochron_hierarchy::learn::AdaptiveError;
use isochron_hierarchy::rebalance::{LoopPart, Rebalance, RebalanceConfig};

fn refuse(config: RebalanceConfig, total: u64, parts: Vec<LoopPart>) -> String {
    Rebalance::new(config, total, parts).unwrap_err().to_string()
}

#[test]
fn what_cannot_be_balanced_is_refused_with_its_reason() {
    let part = LoopPart::default();
    let parts = vec![part.clone(); 2];
    let plain = RebalanceConfig::default();
    for (config, name) in [
        (RebalanceConfig { granule: 0, ..plain.clone() }, "granule"),
        (RebalanceConfig { trigger: f64::NAN, ..plain.clone() }, "trigger"),
        (RebalanceConfig { trigger: 0.9, ..plain.clone() }, "trigger"),
        (RebalanceConfig { window: 0, ..plain.clone() }, "window"),
        (RebalanceConfig { check_every: 0, ..plain.clone() }, "check_every"),
        (RebalanceConfig { max_move: -0.1, ..plain.clone() }, "max_move"),
        (RebalanceConfig { growth: 0.5, ..plain.clone() }, "growth"),
        (RebalanceConfig { move_unit_s: Some(-1.0), ..plain.clone() }, "move_unit_s"),
    ] {
        let text = refuse(config, 10, parts.clone());
        assert!(text.contains(name), "{text}");
    }
    assert!(refuse(plain.clone(), 10, Vec::new()).contains("no part"));
    let limited = LoopPart { max_local: Some(4), ..part.clone() };
    let text = refuse(plain.clone(), 10, vec![limited.clone(), limited]);
    assert!(text.contains("10 units") && text.contains('8'), "{text}");
    let weightless = LoopPart { weight: f64::NAN, ..part.clone() };
    assert!(refuse(plain.clone(), 10, vec![weightless]).contains("weight"));
    let functional = LoopPart { function: Some(vec![(10, 1.0)]), ..part.clone() };
    assert!(
        refuse(plain.clone(), 10, vec![functional, part.clone()])
            .contains("part 1 has no time function")
    );
    let broken = LoopPart { function: Some(vec![(10, f64::NAN)]), ..part };
    assert!(refuse(plain, 10, vec![broken]).contains("time function"));
    let mut machine = Rebalance::new(RebalanceConfig::default(), 10, parts).unwrap();
    let wrong = AdaptiveError::WrongLength { wanted: 2, got: 3 };
    assert_eq!(machine.observe(&[1.0; 3]), Err(wrong));
    assert!(machine.note_move(f64::NAN).is_err() && machine.note_move(-1.0).is_err());
}
