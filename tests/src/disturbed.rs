//! Devices that fail in a call, or tell other times than their own.

use isochron::comm::Comm;
use isochron_devices::{
    Depth, DeviceError, DeviceInfo, DeviceTeam, JobNeeds, JobShape, PanelPair, Scalar, UpdateTime,
    Updates, ViewMut, Worker,
};

use crate::cases::cpu;

/// A call of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceCall {
    /// The beginning of a multiplication.
    Begin,
    /// An update, counted over all multiplications.
    Update(usize),
    /// The end of a multiplication.
    Finish,
}

/// Decides before each call: an error makes it fail, a number is told as its busy time.
pub type Disturb = Box<dyn FnMut(DeviceCall) -> Result<Option<f64>, DeviceError> + Send>;

/// A device that is disturbed.
struct DisturbedWorker {
    inner: Box<dyn Worker>,
    disturb: Disturb,
    updates: usize,
}

impl Worker for DisturbedWorker {
    fn info(&self) -> &DeviceInfo {
        self.inner.info()
    }

    fn job_needs(&self, job: &JobShape) -> JobNeeds {
        self.inner.job_needs(job)
    }
}

impl<T: Scalar> Updates<T> for DisturbedWorker {
    fn begin(&mut self, c: ViewMut<'_, T>, depth: Depth) -> Result<UpdateTime, DeviceError> {
        let told = (self.disturb)(DeviceCall::Begin)?;
        let time = T::updates(self.inner.as_mut()).begin(c, depth)?;
        Ok(replace_time(time, told))
    }

    fn update_ahead(
        &mut self,
        alpha: T,
        panels: PanelPair<'_, T>,
        next: Option<PanelPair<'_, T>>,
        c: ViewMut<'_, T>,
    ) -> Result<UpdateTime, DeviceError> {
        let told = (self.disturb)(DeviceCall::Update(self.updates))?;
        self.updates += 1;
        let time = T::updates(self.inner.as_mut()).update_ahead(alpha, panels, next, c)?;
        Ok(replace_time(time, told))
    }

    fn finish(&mut self, c: ViewMut<'_, T>) -> Result<UpdateTime, DeviceError> {
        let told = (self.disturb)(DeviceCall::Finish)?;
        let time = T::updates(self.inner.as_mut()).finish(c)?;
        Ok(replace_time(time, told))
    }
}

fn replace_time(time: UpdateTime, told: Option<f64>) -> UpdateTime {
    UpdateTime {
        busy_s: told.unwrap_or(time.busy_s),
        ..time
    }
}

/// Makes two devices; the second one of the middle rank is disturbed.
pub fn disturbed_team(comm: &dyn Comm, disturb: Disturb) -> DeviceTeam {
    let mut workers = [cpu("first"), cpu("second")];
    if comm.rank() == comm.size() / 2 {
        let [first, inner] = workers;
        let second = DisturbedWorker {
            inner,
            disturb,
            updates: 0,
        };
        workers = [first, Box::new(second)];
    }
    DeviceTeam::new(workers.into()).unwrap()
}

/// Makes two devices; the second one of the middle rank fails at this call.
pub fn failing_team(comm: &dyn Comm, at: DeviceCall) -> DeviceTeam {
    disturbed_team(
        comm,
        Box::new(move |call| {
            if call == at {
                Err(DeviceError::Panic("made to fail".to_owned()))
            } else {
                Ok(None)
            }
        }),
    )
}
