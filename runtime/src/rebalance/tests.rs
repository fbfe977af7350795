//! One rank. The multi-rank cases are in `isochron-tests`.

use std::sync::Arc;

use super::*;
use crate::comm::LocalComm;
use crate::error::ErrorClass;

fn begin(total: u64, config: &RebalanceConfig, mine: LoopPart) -> Result<Rebalancer, Error> {
    Rebalancer::new(LocalComm::new(), total, config, mine)
}

#[test]
fn one_rank_keeps_everything() {
    let mut balancer = begin(100, &RebalanceConfig::default(), LoopPart::default()).unwrap();
    assert_eq!((balancer.units(), balancer.part()), (&[100][..], 0..100));
    assert_eq!((balancer.shares(), balancer.neighbours()), (vec![1.0], [None; 2]));
    let mut data = balancer.make_array(3).unwrap();
    data.copy_from_slice(&(0..300).collect::<Vec<u32>>());
    for sweep in 0..100 {
        balancer.begin();
        balancer.end();
        balancer.record(10, f64::from(sweep));
        assert!(!balancer.balance().unwrap());
    }
    balancer.migrate(&mut data).unwrap();
    assert!(data.iter().copied().eq(0..300));
    assert_eq!((balancer.part_before(), data.unit_len()), (0..100, 3));
    assert_eq!(balancer.report().unwrap().sweeps, 100);
}

#[test]
fn nothing_to_divide_is_divided() {
    let mut balancer = begin(0, &RebalanceConfig::default(), LoopPart::default()).unwrap();
    for _ in 0..20 {
        assert!(!balancer.observe(0.0).unwrap());
    }
    assert_eq!((balancer.part(), balancer.shares()), (0..0, vec![1.0]));
}

#[test]
fn invalid_settings_and_parts_are_wrong_input() {
    let coarse = RebalanceConfig { granule: 0, ..RebalanceConfig::default() };
    let small = LoopPart { max_local: Some(99), ..LoopPart::default() };
    let rugged = LoopPart { function: Some(vec![(10, -1.0)]), ..LoopPart::default() };
    let usual = RebalanceConfig::default();
    for (config, part, word) in [
        (&coarse, LoopPart::default(), "granule"),
        (&usual, small, "can take 99"),
        (&usual, rugged, "time function"),
    ] {
        let error = begin(100, config, part).err().unwrap();
        assert_eq!(error.class(), ErrorClass::Input, "{error}");
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[test]
fn a_wrong_time_is_an_error_of_the_next_decision_only() {
    let config = RebalanceConfig { check_every: 1, ..RebalanceConfig::default() };
    let mut balancer = begin(100, &config, LoopPart::default()).unwrap();
    for bad in [-1.0, f64::NAN, f64::INFINITY] {
        let text = balancer.observe(bad).unwrap_err().to_string();
        assert!(text.contains("seconds") && text.contains("at least 0"), "{text}");
        balancer.observe(1.0).unwrap();
        balancer.note_move(bad);
        let text = balancer.observe(1.0).unwrap_err().to_string();
        assert!(text.contains(&format!("seconds = {bad}")), "{text}");
        balancer.note_move(f64::MAX);
        balancer.note_move(f64::MAX);
        balancer.observe(1.0).unwrap();
    }
}

/// 2⁴⁵ units of 8 bytes are more than a process can address.
#[test]
fn units_beyond_all_memory_are_an_error_and_end_nothing() {
    let config = RebalanceConfig::default();
    let mut balancer = begin(1 << 45, &config, LoopPart::default()).unwrap();
    let (from, to) = (&[0_u64; 0], &mut [0; 0]);
    let apart = UnitMemory::Apart { from, to };
    balancer.migrate_memory(0, apart).unwrap();
    balancer.make_array::<u64>(0).unwrap();
    let text = balancer.make_array::<u64>(9).unwrap_err().to_string();
    assert!(text.contains("the units of this rank"), "{text}");
    let mut blocks: Vec<Vec<u64>> = Vec::new();
    let text = balancer.migrate_blocks(&mut blocks).unwrap_err().to_string();
    assert!(text.contains("0 elements"), "{text}");
    assert!(format!("{balancer:?}").contains("units: [35184372088832]"));
}

#[test]
fn data_of_another_length_are_refused() {
    let mut balancer = begin(100, &RebalanceConfig::default(), LoopPart::default()).unwrap();
    let to = &mut [0.0_f64; 300];
    let from = &[0.0; 299];
    let text = balancer.migrate_memory(3, UnitMemory::Apart { from, to }).unwrap_err().to_string();
    assert!(text.contains("299 elements") && text.contains("100 units"), "{text}");
    let (memory, first) = (&mut [0_u8; 7][..], 0);
    let within = UnitMemory::Within { memory, first };
    assert!(balancer.migrate_memory(usize::MAX, within).is_err());
    assert!(balancer.migrate_blocks(&mut vec![vec![1_u8]; 99]).is_err());
    let mut blocks = vec![vec![1_u8]; 100];
    balancer.migrate_blocks(&mut blocks).unwrap();
    assert_eq!(blocks, vec![vec![1]; 100]);
}

#[test]
fn broken_states_are_refused_with_their_reason() {
    let comm: Arc<dyn Comm> = LocalComm::new().into();
    let mut balancer = begin(100, &RebalanceConfig::default(), LoopPart::default()).unwrap();
    let state = balancer.state().unwrap();
    assert_eq!(Rebalancer::restore(Arc::clone(&comm), &state).unwrap().units(), [100]);
    let text = String::from_utf8(state.clone()).unwrap();
    let changed = text.replacen("100", "101", 1);
    let newer = text.replacen("\"version\":2", "\"version\":3", 1);
    for (bytes, reason) in [
        (&state[..state.len() / 2], "EOF"),
        (b"", "EOF"),
        (changed.as_bytes(), "checksum"),
        (newer.as_bytes(), "rebalancer 3"),
    ] {
        let error = Rebalancer::restore(Arc::clone(&comm), bytes).err().unwrap().to_string();
        assert!(error.contains("state") && error.contains(reason), "{reason}: {error}");
    }
}

#[test]
fn an_invalid_part_is_refused() {
    let mine = LoopPart { weight: f64::NAN, ..LoopPart::default() };
    let error = begin(100, &RebalanceConfig::default(), mine).err().unwrap();
    assert!(error.to_string().contains("weight"), "{error}");
}
