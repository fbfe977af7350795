//! Work divided by benchmarks of a program's own kernel. Functions are as in [`cases`](crate::cases).

use std::cell::RefCell;
use std::hint::black_box;
use std::rc::Rc;
use std::sync::Arc;

use isochron::comm::Comm;
use isochron::devices::kernel::{Interrupt, Kernel, KernelError, KernelRun, RunEnd};
use isochron::hierarchy::model::Point;
use isochron::partition::{BenchmarkConfig, DynamicPartition, PartitionConfig, TimeModel};
use isochron::{Error, ErrorClass};
use isochron_devices::DeviceError;
use isochron_hierarchy::partition::imbalance;

use crate::cases::open;

/// Seconds of this rank's units, which decide, however busy the machine is.
struct MadeUpRun {
    time_s: Box<dyn Fn(u64) -> f64>,
    d: u64,
    fails: bool,
}

impl KernelRun for MadeUpRun {
    fn name(&self) -> &str {
        "made up"
    }

    fn complexity(&mut self, d: u64) -> Result<f64, DeviceError> {
        Ok(d as f64)
    }

    fn initialize(&mut self, d: u64) -> Result<(), DeviceError> {
        self.d = d;
        Ok(())
    }

    fn execute(&mut self) -> Result<RunEnd, DeviceError> {
        if self.fails {
            let reason = format!("no tape for {} units", self.d);
            return Err(DeviceError::Kernel { kernel: self.name().to_owned(), reason });
        }
        Ok(RunEnd::Done((self.time_s)(self.d)))
    }

    fn finalize(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
}

fn make_up(time_s: impl Fn(u64) -> f64 + 'static) -> MadeUpRun {
    MadeUpRun { time_s: Box::new(time_s), d: 0, fails: false }
}

/// Settings under which passing time ends nothing.
fn configure() -> PartitionConfig {
    let mut config = PartitionConfig::default();
    config.measure.max_seconds = f64::INFINITY;
    config
}

/// Checks that all ranks have the same answer, of all units.
fn check_division(comm: &dyn Comm, partition: &DynamicPartition, total: u64) {
    assert_eq!(partition.units().iter().sum::<u64>(), total);
    let mine = (partition.units().to_vec(), partition.times_s().to_vec(), partition.has_ended());
    assert!(comm.gather(&mine).unwrap().iter().all(|other| *other == mine), "{mine:?}");
}

/// Iterates to the end; returns the number of divisions.
fn finish(comm: &dyn Comm, partition: &mut DynamicPartition, run: &mut MadeUpRun) -> usize {
    let total = partition.units().iter().sum();
    while !partition.iterate_run(run).unwrap() {
        check_division(comm, partition, total);
    }
    check_division(comm, partition, total);
    partition.result().unwrap().history.len()
}

/// Kernels of unlike speed: rank `r` needs `r + 1` ms for a unit, and the last one pages beyond 300 units. Units come in
/// granules, and one rank may be so slow that it gets none.
pub fn kernels_of_unlike_speed(comm: &Arc<dyn Comm>) -> usize {
    let (rank, ranks) = (comm.rank() as u64, comm.size() as u64);
    let mut session = open(comm);
    let linear = move |d: u64| (rank + 1) as f64 * d as f64 * 1e-3;
    let paging = move |d: u64| {
        linear(d) + if rank + 1 == ranks { d.saturating_sub(300) as f64 } else { 0.0 }
    };
    // The cliff may be found by half only.
    let cases = [(1, false, 1.05), (7, false, 1.05), (1, true, 1.1), (7, true, 1.1)];
    for (granule, pages, tolerance) in cases {
        let mut run = make_up(move |d| if pages { paging(d) } else { linear(d) });
        let config = PartitionConfig { granule, ..configure() };
        let mut partition = session.partition(1000, &config, Vec::new()).unwrap();
        finish(&**comm, &mut partition, &mut run);
        let result = partition.result().unwrap();
        let off = result.units.iter().filter(|&units| units % granule > 0).count();
        assert!(off <= 1, "{result:?}");
        let least = 1000.0 / (1..=ranks).map(|rank| 1.0 / rank as f64).sum::<f64>() * 1e-3;
        let slack = (granule * ranks) as f64 * 1e-3;
        let longest = result.times_s.iter().copied().fold(0.0, f64::max);
        assert!(ranks == 1 || longest <= tolerance * least + slack, "{least}: {result:?}");
    }
    let start_up = move |d: u64| if rank == 1 { 1e3 } else { 1e-3 * d as f64 };
    let mut partition = session.partition(1000, &configure(), Vec::new()).unwrap();
    finish(&**comm, &mut partition, &mut make_up(start_up));
    if ranks > 1 {
        assert_eq!(partition.units()[1], 0, "{partition:?}");
    }
    5
}

/// The model of a rank whose time grows with the square of its units. It takes its factor from the first point.
struct Square {
    factor: Option<f64>,
    points: Rc<RefCell<Vec<u64>>>,
    /// What it does wrong.
    wrong: Option<&'static str>,
}

impl TimeModel for Square {
    fn time_s(&mut self, units: f64) -> Result<f64, String> {
        let time_s = self.factor.ok_or("no point")? * units * units;
        match self.wrong {
            Some("falls") => Ok(1e6 - time_s),
            Some("fails") => Err("the table has a hole".to_owned()),
            _ => Ok(time_s),
        }
    }

    fn update(&mut self, point: &Point) -> Result<(), String> {
        if self.wrong == Some("refuses") {
            return Err("no such point".to_owned());
        }
        self.points.borrow_mut().push(point.d);
        self.factor.get_or_insert(point.t_s / (point.d as f64).powi(2));
        Ok(())
    }
}

fn make_squares(
    ranks: usize,
    points: &Rc<RefCell<Vec<u64>>>,
    wrong: Option<&'static str>,
) -> Vec<Box<dyn TimeModel>> {
    // The last one is wrong.
    let wrong = (0..ranks).map(|rank| wrong.filter(|_| rank + 1 == ranks));
    wrong
        .map(|wrong| Box::new(Square { factor: None, points: points.clone(), wrong }) as _)
        .collect()
}

/// Models of the program know the shape of the times, so the second division is the right one. Every rank's copies get all points.
pub fn models_of_ones_own(comm: &Arc<dyn Comm>) -> usize {
    let (rank, ranks) = (comm.rank(), comm.size());
    let total = 840 * (1..=ranks as u64).sum::<u64>();
    let mut session = open(comm);
    let points = Rc::default();
    let models = make_squares(ranks, &points, None);
    let config = PartitionConfig { epsilon: 1e-3, ..configure() };
    let mut partition = session.partition(total, &config, models).unwrap();
    // Equal times at units of 1 : 2 : 3 ...
    let square = move |d: u64| (d as f64 / (rank + 1) as f64).powi(2);
    let divisions = finish(&**comm, &mut partition, &mut make_up(square));
    let wanted: Vec<u64> = (1..=ranks as u64).map(|share| 840 * share).collect();
    let result = partition.result().unwrap();
    assert_eq!(result.units, wanted);
    assert!(result.converged && imbalance(&result.times_s) < 1e-9, "{result:?}");
    assert_eq!(divisions, if ranks == 1 { 1 } else { 2 });
    let even = total / ranks as u64;
    let both = [vec![even; ranks], wanted].concat();
    assert_eq!(*points.borrow(), both[..divisions * ranks]);
    1
}

/// Checks that all ranks have the same error, of this class and with these words.
pub(crate) fn check_error<T: std::fmt::Debug>(
    comm: &dyn Comm,
    outcome: Result<T, Error>,
    class: ErrorClass,
    words: &[&str],
) {
    let error = outcome.expect_err("an error");
    let text = error.to_string();
    assert!(comm.gather(&text).unwrap().iter().all(|other| *other == text), "{text}");
    assert!(words.iter().all(|word| text.contains(word)), "{words:?} in {text}");
    assert_eq!(error.class(), class, "{text}");
}

/// A kernel that fails on one rank, models that fail, fall or refuse, and arguments that differ are errors on all ranks. The
/// same division is measured again afterwards.
pub fn failing_partitions(comm: &Arc<dyn Comm>) -> usize {
    let (rank, last) = (comm.rank(), comm.size() - 1);
    let mut session = open(comm);
    let mut partition = session.partition(60, &configure(), Vec::new()).unwrap();
    let mut run = make_up(|d| d as f64);
    run.fails = rank == last;
    let units = 60 / comm.size();
    let words = format!("no tape for {units} units");
    let failed = partition.iterate_run(&mut run);
    check_error(&**comm, failed, ErrorClass::Run, &[&words]);
    run.fails = false;
    finish(&**comm, &mut partition, &mut run);
    assert!(partition.iterate_run(&mut run).unwrap());
    let wrongs =
        [("falls", "its times fall"), ("fails", "has a hole"), ("refuses", "no such point")];
    for (wrong, words) in wrongs {
        let models = make_squares(comm.size(), &Rc::default(), Some(wrong));
        let mut partition = session.partition(60, &configure(), models).unwrap();
        let failed = partition.iterate_run(&mut run);
        let model = format!("the model of rank {last}");
        check_error(&**comm, failed, ErrorClass::Run, &[&model, words]);
    }
    if last == 0 {
        return 4;
    }
    let mine = if rank == last { 61 } else { 60 };
    let unlike = session.partition(mine, &configure(), Vec::new());
    let on_last = format!("61 on rank {last}");
    check_error(&**comm, unlike, ErrorClass::Input, &["units is 60 on rank", &on_last]);
    let granule = if rank == last { 2 } else { 1 };
    let config = PartitionConfig { granule, ..configure() };
    let unlike = session.partition(60, &config, Vec::new());
    check_error(&**comm, unlike, ErrorClass::Input, &["granule is 1 on rank"]);
    let config = BenchmarkConfig { unbound: rank == last, ..BenchmarkConfig::default() };
    let unlike = session.benchmark(&mut Nothing, 3, &config);
    check_error(&**comm, unlike, ErrorClass::Input, &["unbound is false on rank"]);
    7
}

/// A kernel without work; it fails if it has 13 units.
pub(crate) struct Nothing;

impl Kernel for Nothing {
    fn complexity(&self, d: u64) -> f64 {
        d as f64
    }

    fn initialize(&mut self, d: u64) -> Result<(), KernelError> {
        if d == 13 { Err(KernelError::NoMemory) } else { Ok(()) }
    }

    fn execute(&mut self, _: &Interrupt) -> Result<(), KernelError> {
        // A clock may not see less.
        for number in 0..1000 {
            black_box(number);
        }
        Ok(())
    }

    fn finalize(&mut self) -> Result<(), KernelError> {
        Ok(())
    }
}

/// Every rank measures its own units in step: all repeat as often as the one that needs most, and one without units waits.
pub fn benchmarks(comm: &Arc<dyn Comm>) -> usize {
    let mut session = open(comm);
    let d = comm.rank() as u64;
    let mut config = BenchmarkConfig::default();
    // No noise is below it.
    (config.measure.precision, config.measure.max_seconds) = (1e-300, f64::INFINITY);
    let point = session.benchmark(&mut Nothing, d, &config).unwrap();
    assert_eq!((point.d, point.reps > 0, point.t_s > 0.0), (d, d > 0, d > 0));
    let reps = comm.gather(&point.reps).unwrap();
    let most = reps.iter().max().unwrap();
    assert!(reps.len() == 1 || *most >= config.measure.min_reps, "{reps:?}");
    let last = comm.size() - 1;
    let d = if comm.rank() == last { 13 } else { 5 };
    let failed = session.benchmark(&mut Nothing, d, &config);
    check_error(&**comm, failed, ErrorClass::Run, &["initialize of 13 units found no memory"]);
    session.benchmark(&mut Nothing, 5, &config).unwrap();
    3
}
