//! Loops of a program's own, balanced over the ranks. Functions are as in [`cases`](crate::cases).

use std::sync::Arc;

use isochron::comm::{Comm, LocalComm};
use isochron::rebalance::{
    LoopPart, RebalanceConfig, Rebalancer, UnitArray, UnitMemory, measure_move_unit_s,
    migrate_units,
};
use isochron::{Error, ErrorClass};
use isochron_devices::internal::is_unwritten_memory_free;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Units of the loops, and elements of a unit.
const UNITS: u64 = 1997;
const LEN: usize = 3;

/// Noise of the made-up times.
const NOISE: f64 = 0.06;

/// Made-up seconds of a unit. Moves take real time, which is nothing beside a sweep, however busy the machine is.
const UNIT_S: f64 = 1e6;

fn make_balancer(comm: &Arc<dyn Comm>, config: &RebalanceConfig) -> Rebalancer {
    Rebalancer::new(Arc::clone(comm), UNITS, config, LoopPart::default()).unwrap()
}

/// Returns made-up seconds of a rank, of which the last is four times slower, with noise.
fn make_up_seconds(comm: &dyn Comm, sweep: u64, units: u64) -> f64 {
    let slower = if comm.rank() + 1 == comm.size() { 4.0 } else { 1.0 };
    let mut state = sweep * 1009 + comm.rank() as u64;
    let mut sum = -6.0;
    for _ in 0..12 {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        sum += (state >> 11) as f64 / (1_u64 << 53) as f64;
    }
    units as f64 * UNIT_S * slower * (1.0 + NOISE * sum)
}

fn observe_sweep(comm: &dyn Comm, balancer: &mut Rebalancer, sweep: u64) -> bool {
    let units = balancer.units()[comm.rank()];
    balancer.observe(make_up_seconds(comm, sweep, units)).unwrap()
}

/// Returns the elements of this rank's units: unit `u` has `u LEN` and the numbers after it.
fn list_elements(balancer: &Rebalancer) -> Vec<u64> {
    let part = balancer.part();
    (part.start * LEN as u64..part.end * LEN as u64).collect()
}

/// Returns a block for each of this rank's units: unit `u` has `u % 4` times its number.
fn list_blocks(balancer: &Rebalancer) -> Vec<Vec<u64>> {
    balancer.part().map(|unit| vec![unit; unit as usize % 4]).collect()
}

/// The cost of a move is the same on all ranks, and a loop of 12 sweeps moves where it is known to be small.
pub fn loops_of_a_few_sweeps(comm: &Arc<dyn Comm>) -> usize {
    let seconds = [8, 1 << 21].map(|bytes| measure_move_unit_s(&**comm, bytes).unwrap());
    let all = comm.gather(&seconds).unwrap();
    assert!(all.iter().all(|seconds| *seconds == all[0]), "{all:?}");
    let is_alone = comm.size() == 1;
    assert!(all[0].iter().all(|&seconds| (seconds > 0.0) != is_alone));
    assert_eq!(measure_move_unit_s(&**comm, 0).unwrap(), 0.0);
    let lengths = measure_move_unit_s(&**comm, 8 + comm.rank());
    assert_eq!(lengths.is_err(), !is_alone, "{lengths:?}");
    let config = RebalanceConfig {
        sweeps: Some(12),
        move_unit_s: Some(seconds[0]),
        ..RebalanceConfig::default()
    };
    let mut balancer = make_balancer(comm, &config);
    for sweep in 0..12 {
        observe_sweep(&**comm, &mut balancer, sweep);
    }
    assert_eq!(balancer.moves() > 0, !is_alone);
    2
}

/// Returns the place of this rank's elements in an array of all units.
fn find_elements(balancer: &Rebalancer) -> std::ops::Range<usize> {
    let part = balancer.part();
    part.start as usize * LEN..part.end as usize * LEN
}

/// Rows and blocks follow the speeds of the ranks, in a few moves, and are the same data all the time.
pub fn loops_that_move(comm: &Arc<dyn Comm>) -> usize {
    let config = RebalanceConfig::default();
    let mut balancer = make_balancer(comm, &config);
    let mut array = balancer.make_array(LEN).unwrap();
    array.copy_from_slice(&list_elements(&balancer));
    let (mut rows, mut blocks) = (list_elements(&balancer), list_blocks(&balancer));
    let mut plate = vec![0_u64; UNITS as usize * LEN];
    plate[find_elements(&balancer)].copy_from_slice(&rows);
    for sweep in 0..1000 {
        if !observe_sweep(&**comm, &mut balancer, sweep) {
            continue;
        }
        let wanted = list_elements(&balancer);
        balancer.migrate(&mut array).unwrap();
        let mut next = vec![0; wanted.len()];
        let (from, to) = (&rows[..], &mut next[..]);
        let apart = UnitMemory::Apart { from, to };
        balancer.migrate_memory(LEN, apart).unwrap();
        rows = next;
        let within = UnitMemory::Within { memory: &mut plate, first: 0 };
        balancer.migrate_memory(LEN, within).unwrap();
        balancer.migrate_blocks(&mut blocks).unwrap();
        let found = [&array[..], &rows, &plate[find_elements(&balancer)]];
        assert!(found.iter().all(|found| *found == wanted), "{sweep}");
        assert_eq!(blocks, list_blocks(&balancer));
    }
    let all = comm.gather(&balancer.units().to_vec()).unwrap();
    assert!(all.iter().all(|units| *units == all[0]));
    assert_eq!(all[0].iter().sum::<u64>(), UNITS);
    assert!((balancer.shares().iter().sum::<f64>() - 1.0).abs() < 1e-12);
    let rank = comm.rank();
    let next = (rank + 1 < comm.size()).then_some(rank + 1);
    assert_eq!(balancer.neighbours(), [rank.checked_sub(1), next]);
    let report = balancer.report().unwrap();
    assert_eq!((report.sweeps, report.changes.len() as u64), (1000, balancer.moves()));
    if comm.size() > 1 {
        assert!((1..=5).contains(&balancer.moves()), "{:?}", report.changes);
        let fair = UNITS as f64 / (comm.size() as f64 - 0.75);
        let last = balancer.units()[comm.size() - 1] as f64;
        assert!((last - 0.25 * fair).abs() < 0.05 * fair, "{:?}", balancer.units());
        assert!(report.moved.0 > 0 && report.moved.1 > 0.0, "{:?}", report.moved);
    }
    1
}

/// A loop that goes on from a checkpoint has the same parts, and decides as the original.
pub fn loops_from_checkpoints(comm: &Arc<dyn Comm>) -> usize {
    let saved_after = [0, 2, 5, 40];
    // The seconds of moves are measured; a cost that is given keeps the two alike.
    let config = RebalanceConfig { move_unit_s: Some(0.1 * UNIT_S), ..RebalanceConfig::default() };
    for &saved_after in &saved_after {
        let mut balancer = make_balancer(comm, &config);
        for sweep in 0..saved_after {
            observe_sweep(&**comm, &mut balancer, sweep);
        }
        let state = balancer.state().unwrap();
        assert!(comm.gather(&state).unwrap().iter().all(|other| *other == state));
        let mut restored = Rebalancer::restore(Arc::clone(comm), &state).unwrap();
        assert_eq!(restored.units(), balancer.units());
        for sweep in saved_after..saved_after + 100 {
            let moved = observe_sweep(&**comm, &mut balancer, sweep);
            assert_eq!(
                observe_sweep(&**comm, &mut restored, sweep),
                moved,
                "{saved_after} {sweep}"
            );
            assert_eq!(restored.units(), balancer.units());
        }
        assert_eq!(restored.report().unwrap(), balancer.report().unwrap());
    }
    saved_after.len()
}

/// Checks that all ranks have the same error, with all words in it. One rank has the original error.
fn check_error(comm: &dyn Comm, error: Option<Error>, words: &[&str]) {
    let error = error.expect("an error");
    let text = error.to_string();
    assert!(comm.gather(&text).unwrap().iter().all(|other| *other == text), "{text}");
    assert!(words.iter().all(|word| text.contains(word)), "{words:?} in {text}");
    assert!(matches!(error.class(), ErrorClass::Input | ErrorClass::Run));
}

/// Arguments that differ are told on every rank, by their names and ranks.
pub fn loops_of_unlike_arguments(comm: &Arc<dyn Comm>) -> usize {
    let (last, config) = (comm.size() - 1, RebalanceConfig::default());
    if last == 0 {
        return 0;
    }
    let on_rank = format!("on rank {last}");
    let is_last = comm.rank() == last;
    let total = UNITS + u64::from(is_last);
    let part = LoopPart::default();
    let error = Rebalancer::new(Arc::clone(comm), total, &config, part.clone()).err();
    check_error(&**comm, error, &["units is 1997", "1998", &on_rank]);
    let other = RebalanceConfig { trigger: if is_last { 1.5 } else { 1.1 }, ..config.clone() };
    let error = Rebalancer::new(Arc::clone(comm), UNITS, &other, part.clone()).err();
    check_error(&**comm, error, &["trigger is 1.1", "1.5", &on_rank]);
    let weightless = LoopPart { weight: if is_last { f64::NAN } else { 1.0 }, ..part.clone() };
    let error = Rebalancer::new(Arc::clone(comm), UNITS, &config, weightless).err();
    check_error(&**comm, error, &["weight", &format!("rank {last} on")]);
    let small = LoopPart { max_local: Some(10), ..part.clone() };
    let error = Rebalancer::new(Arc::clone(comm), UNITS, &config, small).err();
    check_error(&**comm, error, &["1997 units", &format!("{}", 10 * comm.size())]);
    let functional = LoopPart { function: is_last.then(|| vec![(UNITS, 1.0)]), ..part };
    let error = Rebalancer::new(Arc::clone(comm), UNITS, &config, functional).err();
    check_error(&**comm, error, &["part 0 has no time function"]);
    let mut balancer = make_balancer(comm, &config);
    let units = balancer.units()[comm.rank()] as usize;
    let len = LEN + usize::from(is_last);
    let (from, mut to) = (vec![7_u8; units * len], vec![7_u8; units * len]);
    let apart = UnitMemory::Apart { from: &from, to: &mut to };
    let error = balancer.migrate_memory(len, apart).err();
    check_error(&**comm, error, &["unit_len is 3", "4", &on_rank]);
    let apart = UnitMemory::Apart {
        from: &from[..units * LEN - usize::from(is_last)],
        to: &mut to[..units * LEN],
    };
    let error = balancer.migrate_memory(LEN, apart).err();
    check_error(&**comm, error, &["elements", &format!("rank {last} on")]);
    let error = balancer.make_array::<u8>(len).err();
    check_error(&**comm, error, &["unit_len is 3", "4", &on_rank]);
    let mut unlike = UnitArray::<u8>::zeros(&**comm, &vec![5; comm.size()], LEN).unwrap();
    let error = balancer.migrate(&mut unlike).err();
    check_error(&**comm, error, &["all units remain"]);
    assert_eq!(unlike.len(), 5 * LEN);
    let mut state = balancer.state().unwrap();
    state.truncate(state.len() - usize::from(is_last));
    let error = Rebalancer::restore(Arc::clone(comm), &state).err();
    check_error(&**comm, error, &["state is", &on_rank]);
    8
}

/// A checkpoint of one rank is none of several.
pub fn loops_from_other_checkpoints(comm: &Arc<dyn Comm>) -> usize {
    let alone: Arc<dyn Comm> = LocalComm::new().into();
    let state = make_balancer(&alone, &RebalanceConfig::default()).state().unwrap();
    let restored = Rebalancer::restore(Arc::clone(comm), &state);
    if comm.size() == 1 {
        assert_eq!(restored.unwrap().units(), [UNITS]);
    } else {
        let ranks = format!("has {}", comm.size());
        check_error(&**comm, restored.err(), &["of 1 ranks", &ranks]);
    }
    1
}

/// Invalid times are errors on every rank, and the loop goes on. Nothing is learnt from times that are too short.
pub fn loops_with_bad_times(comm: &Arc<dyn Comm>) -> usize {
    let last = comm.size() - 1;
    let is_last = comm.rank() == last;
    let config = RebalanceConfig { check_every: 1, ..RebalanceConfig::default() };
    for bad in [f64::NAN, -1.0, f64::INFINITY] {
        let mut balancer = make_balancer(comm, &config);
        let seconds = if is_last { bad } else { 1.0 };
        let words = ["seconds = ".to_owned() + &bad.to_string(), "at least 0".to_owned()];
        let words = [words[0].as_str(), words[1].as_str()];
        check_error(&**comm, balancer.observe(seconds).err(), &words);
        for sweep in 0..100 {
            observe_sweep(&**comm, &mut balancer, sweep);
        }
        assert_eq!(balancer.moves() > 0, comm.size() > 1);
    }
    let mut balancer = make_balancer(comm, &config);
    for _ in 0..100 {
        assert!(!balancer.observe(if is_last { 0.0 } else { 1.0 }).unwrap());
    }
    let report = balancer.report().unwrap();
    assert_eq!((report.unusable, report.last_unusable), (99, Some((last, 0.0))));
    let mut balancer = make_balancer(comm, &config);
    for sweep in 0..100 {
        // One rank alone knows that the sweep is unlike others; another is disturbed once.
        if is_last && sweep % 10 > 0 {
            balancer.ignore_sweep();
        }
        let factor = if sweep == 50 { 1000.0 } else { 1.0 };
        assert!(!balancer.observe(factor * balancer.part().count() as f64).unwrap());
    }
    assert_eq!(balancer.report().unwrap().unusable, 0);
    5
}

/// A program moves its rows by divisions of its own; unlike divisions are an error on every rank.
pub fn rows_of_own_divisions(comm: &Arc<dyn Comm>) -> usize {
    let (ranks, rank) = (comm.size(), comm.rank());
    let even = vec![12_u64; ranks];
    let mut last = vec![0; ranks];
    last[ranks - 1] = 12 * ranks as u64;
    let first = 12 * rank as u64;
    let mine: Vec<u64> = (first..first + 12).flat_map(|row| [row; LEN]).collect();
    let mut array = UnitArray::zeros(&**comm, &even, LEN).unwrap();
    array.copy_from_slice(&mine);
    migrate_units(&**comm, &last, &mut array).unwrap();
    let all: Vec<u64> = (0..12 * ranks as u64).flat_map(|row| [row; LEN]).collect();
    let wanted = if rank + 1 == ranks { all } else { Vec::new() };
    assert_eq!(array[..], wanted);
    migrate_units(&**comm, &even, &mut array).unwrap();
    assert_eq!(array[..], mine);
    let error = migrate_units(&**comm, &vec![11; ranks], &mut array).err();
    check_error(&**comm, error, &["all units remain"]);
    if ranks > 1 {
        let to = if rank == 0 { &even } else { &last };
        let error = migrate_units(&**comm, to, &mut array).err();
        check_error(&**comm, error, &["to is [12", "on rank 0"]);
    }
    assert_eq!(array[..], mine);
    2
}

/// Units that stay keep their memory while others come and leave on both sides.
pub fn rows_that_stay_in_place(comm: &Arc<dyn Comm>) -> usize {
    let (ranks, rank) = (comm.size() as u64, comm.rank() as u64);
    if ranks == 1 || !is_unwritten_memory_free() {
        return 0;
    }
    // A unit has more bytes than a page, so that those that leave give pages back.
    let len = 1000;
    let unit = |unit: u64| (0..len as u64).map(move |at| unit * 1000 + at);
    let mut array = UnitArray::zeros(&**comm, &vec![20; ranks as usize], len).unwrap();
    let elements: Vec<u64> = array.part().flat_map(unit).collect();
    array.copy_from_slice(&elements);
    // A unit in the middle of every part.
    let middle = 20 * rank + 10;
    let find_middle = |array: &UnitArray<u64>| {
        let at = (middle - array.part().start) as usize * len;
        array[at..].as_ptr()
    };
    let place = find_middle(&array);
    let changes = [8_i64, -8, 3, 0, 9];
    for shift in changes {
        // The borders between the parts move up and down in turns.
        let border = |at: u64| match at {
            0 => 0,
            at if at == ranks => 20 * ranks,
            at if at % 2 == 0 => (20 * at).saturating_add_signed(shift),
            at => (20 * at).saturating_add_signed(-shift),
        };
        let units: Vec<u64> = (0..ranks).map(|rank| border(rank + 1) - border(rank)).collect();
        migrate_units(&**comm, &units, &mut array).unwrap();
        assert_eq!(array.units(), units);
        let wanted: Vec<u64> = array.part().flat_map(unit).collect();
        assert_eq!(array[..], wanted, "{shift}");
        assert_eq!(find_middle(&array), place, "{shift}");
    }
    changes.len()
}

/// A limit on the address space of this process, until it is dropped.
struct AddressLimit(Rlimit);

impl AddressLimit {
    /// Leaves this number of MiB.
    fn leave(mib: u64) -> Self {
        let kib: u64 = std::fs::read_to_string("/proc/self/status")
            .unwrap()
            .lines()
            .find_map(|line| line.strip_prefix("VmSize:"))
            .unwrap()
            .trim()
            .trim_end_matches(" kB")
            .parse()
            .unwrap();
        let before = getrlimit(Resource::As);
        let current = Some((kib << 10) + (mib << 20));
        let limited = Rlimit { current, ..before };
        setrlimit(Resource::As, limited).unwrap();
        Self(before)
    }
}

impl Drop for AddressLimit {
    fn drop(&mut self) {
        setrlimit(Resource::As, self.0).unwrap();
    }
}

/// If the system has no memory for the rows of one rank, all ranks have the error and keep their rows.
pub fn rows_without_memory(comm: &Arc<dyn Comm>) -> usize {
    let (ranks, is_last) = (comm.size(), comm.rank() + 1 == comm.size());
    if ranks < 3 {
        // The room around the rows takes those of two ranks.
        return 0;
    }
    let (rows, len) = (64, 1 << 20);
    let even = vec![rows; ranks];
    let mut last = vec![0; ranks];
    last[ranks - 1] = rows * ranks as u64;
    let mut array = UnitArray::<u8>::zeros(&**comm, &even, len).unwrap();
    array[len] = 5;
    let limit = is_last.then(|| AddressLimit::leave(40));
    let moved = migrate_units(&**comm, &last, &mut array).err();
    drop(limit);
    let on_last = format!("rank {}", ranks - 1);
    check_error(&**comm, moved, &["the units of this rank", &on_last]);
    assert_eq!((array.units(), array[len]), (&even[..], 5));
    1
}

/// A loop with fewer units than ranks leaves ranks without work, and its units follow the speeds all the same.
pub fn loops_of_few_units(comm: &Arc<dyn Comm>) -> usize {
    let ranks = comm.size() as u64;
    for units in 0..ranks {
        let config = RebalanceConfig::default();
        let part = LoopPart::default();
        let mut balancer = Rebalancer::new(Arc::clone(comm), units, &config, part).unwrap();
        assert_eq!(balancer.units().iter().sum::<u64>(), units);
        assert!(balancer.units().iter().all(|&units| units <= 1));
        let mut array = balancer.make_array(LEN).unwrap();
        array.copy_from_slice(&list_elements(&balancer));
        for sweep in 0..300 {
            if observe_sweep(&**comm, &mut balancer, sweep) {
                balancer.migrate(&mut array).unwrap();
            }
            assert_eq!(balancer.units().iter().sum::<u64>(), units);
        }
        assert_eq!(array[..], list_elements(&balancer));
        let idle = balancer.part().is_empty();
        assert!(!idle || balancer.neighbours() == [None; 2]);
        // The last rank is four times slower, and another one is without work.
        assert_eq!(*balancer.units().last().unwrap(), 0, "{units}");
        let state = balancer.state().unwrap();
        let restored = Rebalancer::restore(Arc::clone(comm), &state).unwrap();
        assert_eq!(restored.units(), balancer.units());
    }
    ranks as usize
}
