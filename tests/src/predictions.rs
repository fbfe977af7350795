//! Platforms of all ranks, and groups of some. Functions are as in [`cases`](crate::cases).

use std::sync::Arc;

use isochron::ErrorClass;
use isochron::comm::Comm;
use isochron::hierarchy::predict::Stencil;
use isochron::partition::BenchmarkConfig;
use isochron::predict::{choose, make_group, timeof};

use crate::cases::open;
use crate::partitions::{Nothing, check_error};

/// Every rank gets the same platform of all, predicts the same by it, and chooses the same. A kernel that fails, and
/// sizes that are wrong or differ, are errors on all.
pub fn platforms(comm: &Arc<dyn Comm>) -> usize {
    let (ranks, last) = (comm.size(), comm.rank() + 1 == comm.size());
    let mut session = open(comm);
    let config = BenchmarkConfig::default();
    let platform = session.recon(&mut Nothing, &[2, 50], &config).unwrap();
    assert_eq!((platform.speeds.len(), platform.network.find_contradiction(ranks)), (ranks, None));
    let make =
        |count: usize| Stencil { rows: vec![24 / count as u64; count], row_bytes: 1e4, sweeps: 3 };
    let places: Vec<usize> = (0..ranks).rev().collect();
    let whole = timeof(&make(ranks), &platform, &places).unwrap();
    let choice = choose((1..=ranks + 1).map(make), &platform).unwrap();
    // A message, and the work of each process.
    let has_messages = whole.seconds > 1.0001 * whole.compute_s;
    assert!(whole.compute_s > 0.0 && has_messages == (ranks > 1), "{whole:?}");
    assert!(choice.seconds[ranks] == f64::INFINITY && choice.run.seconds <= 1.01 * whole.seconds);
    let mine = (whole.seconds, choice.places, choice.seconds[..ranks].to_vec());
    assert!(comm.gather(&mine).unwrap().iter().all(|other| *other == mine), "{mine:?}");
    let failed = session.recon(&mut Nothing, &[5, 13], &config);
    check_error(&**comm, failed, ErrorClass::Run, &["initialize of 13 units found no memory"]);
    for wrong in [&[][..], &[3, 0]] {
        let refused = session.recon(&mut Nothing, wrong, &config);
        check_error(&**comm, refused, ErrorClass::Input, &["sizes = [", "each above 0"]);
    }
    if ranks > 1 {
        let unlike = session.recon(&mut Nothing, &[3, 4 + u64::from(last)], &config);
        check_error(
            &**comm,
            unlike,
            ErrorClass::Input,
            &["sizes is [3,4] on rank", "[3,5] on rank"],
        );
    }
    session.recon(&mut Nothing, &[5], &config).unwrap();
    6
}

/// A group has its ranks in the order of the places, and outlives another one of the same ranks. Places that do not exist, come twice
/// or differ are errors on all ranks.
pub fn groups(comm: &Arc<dyn Comm>) -> usize {
    let (rank, ranks) = (comm.rank(), comm.size());
    let backwards: Vec<usize> = (0..ranks).rev().collect();
    let all = make_group(&**comm, &backwards).unwrap().unwrap();
    assert_eq!(all.gather(&rank).unwrap(), backwards);
    assert_eq!(all.host(), comm.host());
    let places: Vec<usize> = backwards.iter().copied().step_by(2).collect();
    let some = make_group(&**comm, &places).unwrap();
    assert_eq!(some.is_some(), places.contains(&rank));
    drop(all);
    if let Some(some) = some {
        assert_eq!((some.size(), places[some.rank()]), (places.len(), rank));
        let mut ones = [1, rank as u64];
        some.sum_u64(&mut ones).unwrap();
        assert_eq!(ones, [places.len() as u64, places.iter().sum::<usize>() as u64]);
        // A group of the group.
        let first = make_group(&*some, &[0]).unwrap();
        assert_eq!(first.map(|first| first.size()), (some.rank() == 0).then_some(1));
    }
    assert!(make_group(&**comm, &[]).unwrap().is_none());
    for wrong in [vec![0, ranks], vec![0, 0]] {
        let refused = make_group(&**comm, &wrong).map(drop);
        let words = format!("give different ranks, each below {ranks}");
        check_error(&**comm, refused, ErrorClass::Input, &["places = [0,", &words]);
    }
    if ranks > 1 {
        let unlike = make_group(&**comm, &[usize::from(rank > 0)]).map(drop);
        check_error(&**comm, unlike, ErrorClass::Input, &["places is [0] on rank 0, [1] on rank"]);
    }
    6
}
