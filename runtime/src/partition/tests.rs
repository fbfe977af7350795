//! One rank. The division over several is tested by the multi-rank cases.

use std::sync::Arc;

use isochron_devices::kernel::{Interrupt, KernelError};
use isochron_devices::{DeviceError, MeasureConfig};

use super::*;
use crate::comm::LocalComm;

/// Counts its calls; fails from a number of runs on.
#[derive(Default)]
struct Counting {
    prepared: Vec<u64>,
    runs: u32,
    freed: u32,
    fails_from: Option<u32>,
}

impl Kernel for Counting {
    fn complexity(&self, d: u64) -> f64 {
        d as f64
    }

    fn initialize(&mut self, d: u64) -> Result<(), KernelError> {
        self.prepared.push(d);
        Ok(())
    }

    fn execute(&mut self, _: &Interrupt) -> Result<(), KernelError> {
        self.runs += 1;
        match self.fails_from {
            Some(first) if self.runs >= first => Err(KernelError::Code(7)),
            _ => Ok(()),
        }
    }

    fn finalize(&mut self) -> Result<(), KernelError> {
        self.freed += 1;
        Ok(())
    }

    fn explain_failure(&mut self) -> Option<String> {
        Some("the tape is full".to_owned())
    }
}

fn begin(
    total: u64,
    config: &PartitionConfig,
    models: Vec<Box<dyn TimeModel>>,
) -> Result<DynamicPartition, Error> {
    let comm = Arc::new(LocalComm::new());
    DynamicPartition::begin(comm, KernelSeat::default(), total, config, models)
}

#[test]
fn a_kernel_is_prepared_once_run_as_often_as_asked_and_freed() {
    let mut kernel = Counting::default();
    // No precision is reached by noise, so all repetitions are made, and at most half as many more. Three times that the clock
    // cannot tell apart are enough.
    let measure = MeasureConfig { precision: 1e-300, max_reps: 4, ..MeasureConfig::default() };
    let config = BenchmarkConfig { measure, unbound: true };
    let found = KernelSeat::default().measure(&LocalComm::new(), &mut kernel, 9, &config).unwrap();
    let point = found.to_point(9);
    assert_eq!((&kernel.prepared[..], kernel.freed), (&[9][..], 1));
    // One run warms up.
    assert_eq!(kernel.runs, 1 + found.sample.reps + found.outliers);
    assert!((3..=6).contains(&(kernel.runs - 1)), "{}", kernel.runs);
    assert!(point.d == 9 && point.t_s > 0.0 && point.ci_s >= 0.0, "{point:?}");
}

#[test]
fn one_rank_has_all_units_and_a_failure_leaves_them_to_be_measured_again() {
    let mut kernel = Counting { fails_from: Some(2), ..Counting::default() };
    let mut partition = begin(30, &PartitionConfig::default(), Vec::new()).unwrap();
    assert_eq!((partition.units(), partition.times_s()), (&[30][..], &[0.0][..]));
    let error = partition.iterate(&mut kernel).unwrap_err();
    assert!(matches!(error, Error::Device(DeviceError::Kernel { .. })), "{error:?}");
    let text = "kernel of the program: execute of 30 units failed: the tape is full";
    assert_eq!(error.to_string(), text);
    assert_eq!(kernel.freed, 1);
    kernel.fails_from = None;
    assert!(!partition.has_ended() && partition.iterate(&mut kernel).unwrap());
    let runs = kernel.runs;
    assert!(partition.iterate(&mut kernel).unwrap(), "it has ended");
    assert_eq!(kernel.runs, runs);
    assert_eq!(partition.units(), [30]);
    assert!(partition.result().unwrap().converged && partition.times_s()[0] > 0.0);
}

#[test]
fn nothing_to_divide_has_ended_at_once() {
    let partition = begin(0, &PartitionConfig::default(), Vec::new()).unwrap();
    assert!(partition.has_ended());
    assert_eq!(partition.units(), [0]);
}

/// Takes no points.
struct Constant;

impl TimeModel for Constant {
    fn time_s(&mut self, units: f64) -> Result<f64, String> {
        Ok(units)
    }

    fn update(&mut self, _: &Point) -> Result<(), String> {
        Ok(())
    }
}

#[test]
fn settings_out_of_range_are_refused_by_name() {
    use isochron_hierarchy::model::Fit;
    use isochron_hierarchy::partition::Partitioner;
    let good = PartitionConfig::default();
    let measure = MeasureConfig { min_reps: 1, ..good.measure };
    for (name, n_models, config) in [
        ("epsilon", 0, PartitionConfig { epsilon: 0.0, ..good.clone() }),
        ("max_iterations", 0, PartitionConfig { max_iterations: 0, ..good.clone() }),
        ("granule", 0, PartitionConfig { granule: 0, ..good.clone() }),
        ("min_reps", 0, PartitionConfig { measure, ..good.clone() }),
        ("partitioner", 0, PartitionConfig { partitioner: Partitioner::Hpopta, ..good.clone() }),
        ("models = 2", 2, good.clone()),
        ("leave fit", 1, PartitionConfig { fit: Fit::Akima, ..good.clone() }),
    ] {
        let models = (0..n_models).map(|_| Box::new(Constant) as _).collect();
        let error = begin(9, &config, models).unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
        assert_eq!(error.class(), crate::ErrorClass::Input, "{error}");
    }
}

#[test]
fn settings_have_flat_names() {
    let text = serde_json::to_value(PartitionConfig::default()).unwrap();
    for name in ["epsilon", "granule", "min_reps", "unbound"] {
        assert!(text.get(name).is_some(), "{name}: {text}");
    }
    let read: PartitionConfig = serde_json::from_str("{\"min_reps\":5,\"fit\":\"cpm\"}").unwrap();
    assert_eq!(read.measure.min_reps, 5);
    for text in ["{\"epsilom\":1}", "{\"fit\":\"cpm\",\"width\":3}"] {
        assert!(serde_json::from_str::<PartitionConfig>(text).is_err(), "{text}");
        assert!(serde_json::from_str::<BenchmarkConfig>(text).is_err(), "{text}");
    }
}
