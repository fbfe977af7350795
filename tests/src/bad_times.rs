//! Devices that tell times which are none. Functions are as in [`cases`](crate::cases).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use isochron::comm::Comm;
use isochron::multiply::Problem;
use isochron_devices::{
    Depth, DeviceError, DeviceInfo, DeviceTeam, Element, JobNeeds, JobShape, PanelPair, UpdateTime,
    Updates, ViewMut, Worker,
};

use crate::cases::{Case, cpu, integers, plan_along_k, plan_on_nth};
use crate::changes::scalars;
use crate::covering::{Coverage, LIBRARIES};
use crate::learning::{leave_to_run, name_devices};

/// A device whose times are wrong in steps of its own.
struct Misleading {
    inner: Box<dyn Worker>,
    /// Number of the [`TIMES`] that it tells in turn.
    number: Arc<AtomicUsize>,
    updates: usize,
}

impl Worker for Misleading {
    fn info(&self) -> &DeviceInfo {
        self.inner.info()
    }

    fn job_needs(&self, job: &JobShape) -> JobNeeds {
        self.inner.job_needs(job)
    }
}

impl<T: Element> Updates<T> for Misleading {
    fn begin(&mut self, c: ViewMut<'_, T>, depth: Depth) -> Result<UpdateTime, DeviceError> {
        T::updates(self.inner.as_mut()).begin(c, depth)
    }

    fn update_ahead(
        &mut self,
        alpha: T,
        panels: PanelPair<'_, T>,
        next: Option<PanelPair<'_, T>>,
        c: ViewMut<'_, T>,
    ) -> Result<UpdateTime, DeviceError> {
        let time = T::updates(self.inner.as_mut()).update_ahead(alpha, panels, next, c)?;
        let times_s = TIMES[self.number.load(Ordering::Relaxed)];
        let told = times_s[self.updates % times_s.len()];
        self.updates += 1;
        Ok(UpdateTime {
            busy_s: told.unwrap_or(time.busy_s),
            ..time
        })
    }

    fn finish(&mut self, c: ViewMut<'_, T>) -> Result<UpdateTime, DeviceError> {
        T::updates(self.inner.as_mut()).finish(c)
    }
}

/// The times that the second device of a rank tells in turn; `None` for the right one.
const TIMES: [&[Option<f64>]; 5] = [
    &[Some(0.0), None],
    &[None, None, Some(f64::NAN)],
    &[None, Some(-1.0)],
    &[Some(f64::INFINITY), None],
    &[
        Some(f64::NAN),
        Some(0.0),
        Some(-1.0),
        Some(f64::NEG_INFINITY),
    ],
];

/// Makes two devices; the second one of one rank is misleading.
fn misled_team(comm: &dyn Comm, number: &Arc<AtomicUsize>) -> DeviceTeam {
    let mut workers = [cpu("first"), cpu("second")];
    if comm.rank() == comm.size() / 2 {
        let [first, inner] = workers;
        let second = Misleading {
            inner,
            number: number.clone(),
            updates: 0,
        };
        workers = [first, Box::new(second)];
    }
    DeviceTeam::new(workers.into()).unwrap()
}

/// Learns with a device whose times are zero, negative, infinite or no number in some steps, or in all: every element is
/// right, and what was learnt names the device.
pub fn bad_times(comm: &dyn Comm) -> usize {
    let misled = comm.size() / 2;
    let told = Arc::new(AtomicUsize::new(0));
    let mut team = misled_team(comm, &told);
    let rows = Coverage::Pairs.rows_of_library(comm, [TIMES.len(), 2, LIBRARIES.len()]);
    for &[number, splits, _] in &rows {
        told.store(number, Ordering::Relaxed);
        let problem = Problem::new(37, 41, 140, 4).unwrap().with_panel(4).unwrap();
        let divides_k = splits == 1;
        let plan = match divides_k {
            false => plan_on_nth(comm, problem, 0),
            true => plan_along_k(comm, problem),
        };
        let mut case: Case = Case::new(comm, name_devices(&leave_to_run(plan, 3)), integers);
        let (learnt, changes) = case.learn_exactly(comm, &mut team, scalars(number % 2));
        if comm.rank() != 0 {
            continue;
        }
        let notices = &learnt.notices;
        assert_eq!(notices.len(), 1, "{notices:?}");
        let named = format!("device second of rank {misled} gave ");
        assert!(notices[0].contains(&named), "{notices:?}");
        let mut devices = learnt.devices.iter().filter(|device| device.rank == misled);
        let is_known = devices.any(|device| device.model.is_some());
        assert_eq!(is_known, number < 4, "{notices:?}");
        assert_eq!(changes > 0, number < 4 || (divides_k && comm.size() > 1));
    }
    rows.len()
}
