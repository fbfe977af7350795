//! Devices that tell times which are none. Functions are as in [`cases`](crate::cases).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use isochron::comm::Comm;
use isochron::plan::Problem;
use isochron::session::Session;
use isochron_devices::DeviceTeam;

use crate::cases::{Case, integers, plan_along_k, plan_on_nth};
use crate::changes::scalars;
use crate::covering::{Coverage, LIBRARIES};
use crate::disturbed::{DeviceCall, disturbed_team};
use crate::learning::{leave_to_run, name_devices};

/// The times that the second device of a rank tells in turn; `None` for the right one.
const TIMES: [&[Option<f64>]; 5] = [
    &[Some(0.0), None],
    &[None, None, Some(f64::NAN)],
    &[None, Some(-1.0)],
    &[Some(f64::INFINITY), None],
    &[Some(f64::NAN), Some(0.0), Some(-1.0), Some(f64::NEG_INFINITY)],
];

/// Makes two devices; the second one of one rank tells the times with this number.
fn misled_team(comm: &dyn Comm, number: &Arc<AtomicUsize>) -> DeviceTeam {
    let number = number.clone();
    disturbed_team(
        comm,
        Box::new(move |call| {
            let times_s = TIMES[number.load(Ordering::Relaxed)];
            Ok(match call {
                DeviceCall::Update(update) => times_s[update % times_s.len()],
                _ => None,
            })
        }),
    )
}

/// Learns with a device whose times are zero, negative, infinite or no number in some steps, or in all: every element
/// is right, and what was learnt names the device.
pub fn bad_times(shared: &Arc<dyn Comm>) -> usize {
    let comm = shared.as_ref();
    let misled = comm.size() / 2;
    let told = Arc::new(AtomicUsize::new(0));
    let mut session = Session::of_team(Arc::clone(shared), misled_team(comm, &told));
    let rows = Coverage::Pairs.rows_of_library(comm, [TIMES.len(), 2, LIBRARIES.len()]);
    for &[number, splits, _] in &rows {
        told.store(number, Ordering::Relaxed);
        let problem = Problem::new(37, 41, 280, 4).unwrap().with_panel(4).unwrap();
        let divides_k = splits == 1;
        let plan =
            if divides_k { plan_along_k(comm, problem) } else { plan_on_nth(comm, problem, 0) };
        let mut case: Case = Case::new(comm, name_devices(&leave_to_run(plan, 3)), integers);
        let (learnt, changes) = case.learn_exactly(&mut session, scalars(number % 2));
        let Some(learnt) = learnt else {
            continue;
        };
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
