//! The pace of a device that gathers several updates before it computes.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is the report of a test")]

use isochron_devices::{
    Depth, DeviceClock, DeviceError, DeviceInfo, DeviceKind, JobNeeds, JobShape, Pace, PacedWorker,
    PanelPair, Scalar, UpdateTime, Updates, View, ViewMut, Worker,
};
use isochron_hierarchy::model::{PiecewiseFpm, Point};

/// Makes a model with blocks of 4, in which four units take `t_s` seconds.
fn pace_of(t_s: f64) -> Pace {
    let point = Point { d: 4, t_s, reps: 3, ci_s: 0.0 };
    Pace::Points {
        name: "four.points".to_owned(),
        model: PiecewiseFpm::from_points(vec![point]).unwrap(),
        block: 4,
    }
}

/// A GPU that gathers four updates: three of 0.1 ms, and a visit of 16 ms.
struct PacedGatherer {
    info: DeviceInfo,
    updates: usize,
}

impl Worker for PacedGatherer {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn job_needs(&self, _: &JobShape) -> JobNeeds {
        JobNeeds { updates_per_visit: 4, ..JobNeeds::default() }
    }
}

impl<T: Scalar> Updates<T> for PacedGatherer {
    fn begin(&mut self, _: ViewMut<'_, T>, _: Depth) -> Result<UpdateTime, DeviceError> {
        Ok(UpdateTime::default())
    }

    fn update_ahead(
        &mut self,
        _: T,
        _: PanelPair<'_, T>,
        _: Option<PanelPair<'_, T>>,
        _: ViewMut<'_, T>,
    ) -> Result<UpdateTime, DeviceError> {
        self.updates += 1;
        let is_visit = self.updates.is_multiple_of(4);
        Ok(UpdateTime { busy_s: if is_visit { 0.016 } else { 0.0001 }, cpu_s: 0.0 })
    }

    fn finish(&mut self, _: ViewMut<'_, T>) -> Result<UpdateTime, DeviceError> {
        Ok(UpdateTime::default())
    }
}

#[test]
fn a_device_that_gathers_is_paced_by_its_visits() {
    let info = DeviceInfo::new("cuda0", DeviceKind::Cuda, DeviceClock::Accelerator);
    // 8 × 8 with blocks of 4 is 4 units; a visit of four updates with k = 4 should take 4, 24 or 12 ms, and takes
    // 16.3 ms.
    for (update_s, visit_s) in [(0.001, 0.0163), (0.006, 0.024), (0.003, 0.0163)] {
        let inner = PacedGatherer { info: info.clone(), updates: 0 };
        let pace = pace_of(update_s);
        let mut paced = PacedWorker::new(Box::new(inner), pace).unwrap();
        let (a, b, mut c) = (vec![0.0; 32], vec![0.0; 32], vec![0.0; 64]);
        paced.begin(ViewMut::new(&mut c, 8, 8, 8), Depth::of(4, 8)).unwrap();
        for _ in 0..2 {
            let busy_s: f64 = (0..4)
                .map(|_| {
                    let (a, b) = (View::new(&a, 8, 4, 8), View::new(&b, 4, 8, 4));
                    let c = ViewMut::new(&mut c, 8, 8, 8);
                    paced.update(1.0, a, b, c).unwrap().busy_s
                })
                .sum();
            assert!((busy_s - visit_s).abs() < 1e-12, "{busy_s} s, not {visit_s}");
        }
        paced.finish(ViewMut::new(&mut c, 8, 8, 8)).unwrap();
    }
}
