//! Measuring a device that gathers several updates before it computes.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is the report of a test")]

use isochron_devices::measure::{UpdateOperands, repeat_alone};
use isochron_devices::{
    Depth, DeviceClock, DeviceError, DeviceInfo, DeviceKind, DeviceTeam, JobNeeds, JobShape,
    MeasureConfig, PanelPair, Scalar, UpdateTime, Updates, ViewMut, Worker, measure_team,
};

/// Gathers four updates, or what the job has left, and says that each of them took a second.
struct MeasuredGatherer {
    info: DeviceInfo,
    depth: Depth,
    gathered: usize,
    left: usize,
}

impl Worker for MeasuredGatherer {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn job_needs(&self, job: &JobShape) -> JobNeeds {
        JobNeeds { updates_per_visit: job.depth.updates().min(4), ..JobNeeds::default() }
    }

    fn copies_ahead(&self) -> bool {
        true
    }
}

impl<T: Scalar> Updates<T> for MeasuredGatherer {
    fn begin(&mut self, _: ViewMut<'_, T>, depth: Depth) -> Result<UpdateTime, DeviceError> {
        (self.depth, self.gathered, self.left) = (depth, 0, depth.updates());
        Ok(UpdateTime::default())
    }

    fn update_ahead(
        &mut self,
        _: T,
        _: PanelPair<'_, T>,
        _: Option<PanelPair<'_, T>>,
        _: ViewMut<'_, T>,
    ) -> Result<UpdateTime, DeviceError> {
        self.gathered += 1;
        self.left -= 1;
        let mut busy_s = 0.0;
        if self.gathered == 4 || self.left == 0 {
            busy_s = self.gathered as f64;
            self.gathered = 0;
        }
        if self.left == 0 {
            self.left = self.depth.updates();
        }
        Ok(UpdateTime { busy_s, cpu_s: 0.0 })
    }

    fn finish(&mut self, _: ViewMut<'_, T>) -> Result<UpdateTime, DeviceError> {
        Ok(UpdateTime::default())
    }
}

/// Repetitions have the same number of visits, whatever the job's number of updates is.
#[test]
fn a_repetition_is_whole_visits() {
    for updates in [1, 3, 4, 10, 11, 16, 1000] {
        let worker = MeasuredGatherer {
            info: DeviceInfo::new("cuda0", DeviceKind::Cuda, DeviceClock::Accelerator),
            depth: Depth::of(1, 1),
            gathered: 0,
            left: 1,
        };
        let mut team = DeviceTeam::new(vec![Box::new(worker)]).unwrap();
        let config = MeasureConfig {
            min_reps: 8,
            max_reps: 20,
            max_seconds: 1e9,
            ..MeasureConfig::default()
        };
        let (depth, mut operands) = (Depth::of(2, updates), UpdateOperands::<f64>::default());
        let measured =
            measure_team(&mut team, 40, &[40], depth, &config, &mut operands, &mut repeat_alone)
                .unwrap();
        let found = (measured[0].sample.seconds, measured[0].ci_s, measured[0].outliers);
        assert_eq!(found, (1.0, 0.0, 0), "{updates} updates");
    }
}
