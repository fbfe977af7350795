//! Devices that fail in a call, or tell other times than their own.
//!
//! All of their times are made up, so that no decision depends on how busy the machine is.

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

/// Made-up seconds of a product of two numbers.
const PRODUCT_S: f64 = 1e-7;

/// A device with made-up times that may be disturbed.
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
        T::updates(self.inner.as_mut()).begin(c, depth)?;
        Ok(make_time(0, told))
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
        let products = c.rows() * c.cols() * panels.0.cols();
        T::updates(self.inner.as_mut()).update_ahead(alpha, panels, next, c)?;
        Ok(make_time(products, told))
    }

    fn finish(&mut self, c: ViewMut<'_, T>) -> Result<UpdateTime, DeviceError> {
        let told = (self.disturb)(DeviceCall::Finish)?;
        T::updates(self.inner.as_mut()).finish(c)?;
        Ok(make_time(0, told))
    }
}

/// Makes up the time of a call with this number of products, unless another one is told.
fn make_time(products: usize, told: Option<f64>) -> UpdateTime {
    let made_up_s = products as f64 * PRODUCT_S;
    UpdateTime { busy_s: told.unwrap_or(made_up_s), cpu_s: made_up_s }
}

fn disturb_device(name: &str, disturb: Disturb) -> Box<dyn Worker> {
    Box::new(DisturbedWorker { inner: cpu(name), disturb, updates: 0 })
}

/// Makes two devices with made-up times.
pub fn made_up_team() -> DeviceTeam {
    let devices = ["first", "second"].map(|name| disturb_device(name, Box::new(|_| Ok(None))));
    DeviceTeam::new(devices.into()).unwrap()
}

/// Makes two devices with made-up times; the second one of the middle rank is disturbed.
pub fn disturbed_team(comm: &dyn Comm, disturb: Disturb) -> DeviceTeam {
    if comm.rank() != comm.size() / 2 {
        return made_up_team();
    }
    let first = disturb_device("first", Box::new(|_| Ok(None)));
    DeviceTeam::new(vec![first, disturb_device("second", disturb)]).unwrap()
}

/// Makes two devices; the second one of the middle rank fails at this call.
pub fn failing_team(comm: &dyn Comm, at: DeviceCall) -> DeviceTeam {
    disturbed_team(
        comm,
        Box::new(move |call| {
            if call == at { Err(DeviceError::Panic("made to fail".to_owned())) } else { Ok(None) }
        }),
    )
}
