//! A device without hardware: it replays a recorded model on a virtual clock.

use crate::contract::{
    Depth, DeviceClock, DeviceError, DeviceInfo, DeviceKind, JobCheck, PanelPair, Scalar,
    UpdateTime, Updates, ViewMut, Worker,
};
use crate::paced::model_time::{check_model, model_time_s};
use isochron_hierarchy::model::PiecewiseFpm;

/// A worker without arithmetic: an update returns at once and leaves C unchanged. Its time is the model's, `t(d)·k/b`
/// seconds with `d = rows·cols/b²` units.
///
/// It serves planning and simulation: the balancing algorithms run against it as against a real device, for clusters
/// that are not available. It gives no results, and [`DeviceInfo::paced`] says so in every report.
pub struct RecordedWorker {
    info: DeviceInfo,
    model: PiecewiseFpm,
    block: u64,
    job: JobCheck,
}

impl RecordedWorker {
    /// Makes a device called `name` with the times of `model`, for a block size `b = block`.
    ///
    /// # Errors
    /// Returns [`DeviceError::Config`] for a block size of 0 or a model without points.
    pub fn new(
        name: &str,
        kind: DeviceKind,
        model: PiecewiseFpm,
        block: u64,
    ) -> Result<Self, DeviceError> {
        check_model(&model, block)
            .map_err(|reason| DeviceError::Config { device: name.to_owned(), reason })?;
        Ok(Self {
            info: DeviceInfo {
                paced: Some("recorded, without arithmetic".to_owned()),
                ..DeviceInfo::new(name, kind, DeviceClock::Prescribed)
            },
            model,
            block,
            job: JobCheck::default(),
        })
    }
}

impl From<RecordedWorker> for Box<dyn Worker> {
    // A crate that boxed the device itself would compile the arithmetic of all element types again.
    #[inline(never)]
    fn from(worker: RecordedWorker) -> Self {
        Box::new(worker)
    }
}

impl Worker for RecordedWorker {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }
}

impl<T: Scalar> Updates<T> for RecordedWorker {
    /// Takes no time: the model has times of updates only.
    fn begin(&mut self, c: ViewMut<'_, T>, depth: Depth) -> Result<UpdateTime, DeviceError> {
        self.job.begin(&c, depth);
        Ok(UpdateTime::default())
    }

    /// Takes no time and leaves `c` unchanged; `busy_s` is the recorded time, `cpu_s` is 0.
    fn update_ahead(
        &mut self,
        _alpha: T,
        (a, b): PanelPair<'_, T>,
        _next: Option<PanelPair<'_, T>>,
        c: ViewMut<'_, T>,
    ) -> Result<UpdateTime, DeviceError> {
        self.job.update(&a, &b, &c)?;
        Ok(UpdateTime {
            busy_s: model_time_s(&self.model, self.block, c.rows(), c.cols(), a.cols()),
            cpu_s: 0.0,
        })
    }

    /// Takes no time, as `begin`.
    fn finish(&mut self, c: ViewMut<'_, T>) -> Result<UpdateTime, DeviceError> {
        self.job.finish(&c)?;
        Ok(UpdateTime::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::View;
    use isochron_hierarchy::model::Point;

    #[test]
    fn the_recorded_time_is_returned_and_c_stays() {
        let points = [(2, 1.0), (8, 16.0)].map(|(d, t_s)| Point { d, t_s, reps: 1, ci_s: 0.0 });
        let model = PiecewiseFpm::from_points(points.into()).unwrap();
        let mut worker = RecordedWorker::new("phi", DeviceKind::Cpu, model, 2).unwrap();
        let (a, b, mut c) = ([1.0; 8 * 2], [1.0; 2 * 4], [7.0; 8 * 4]);
        // 8 × 4 and 8 × 1 with blocks of 2 are 8 and 2 units; half the inner dimension is half the work.
        for (cols, k, busy_s) in [(4, 2, 16.0), (1, 2, 1.0), (4, 1, 8.0), (0, 2, 0.0)] {
            let mut c = ViewMut::new(&mut c, 8, cols, 8);
            let begun = worker.begin(c.reborrow(), Depth::of(2, 1)).unwrap();
            let (a, b) = (View::new(&a, 8, k, 8), View::new(&b, k, cols, 2));
            let time = worker.update(1.0, a, b, c.reborrow()).unwrap();
            let ended = worker.finish(c).unwrap();
            assert_eq!([begun, ended], [UpdateTime::default(); 2]);
            assert_eq!(time.busy_s, busy_s);
        }
        assert_eq!(c, [7.0; 32]);
    }
}
