use isochron_devices::DeviceKind;
use tempfile::TempDir;

use super::*;
use crate::store::{StoreFolder, StoredRun, make_test_source, read_clock_s, vary_fields};

/// Makes the times of a device with steps of this number of sizes, and of some that were stopped.
fn make_times(sizes: u64, stopped: usize) -> SteadyTimes {
    SteadyTimes {
        by_units: (0..sizes).map(|units| (units, vec![1.0])).collect(),
        stopped,
        ..SteadyTimes::default()
    }
}

#[test]
fn devices_of_which_no_step_is_kept_are_explained() {
    let names = ["a", "b", "c", "d", "e"].map(str::to_owned);
    // Kept, stopped in every step, in some steps, without work, and stopped in every step.
    let steady = [(2, 0), (0, 3), (1, 2), (0, 0), (0, 1)];
    let steady = steady.map(|(sizes, stopped)| make_times(sizes, stopped));
    let told = explain_losses(&names, &steady, &[false; 5]);
    let stopped = "the store keeps no times of this run of b and of 1 other device: other programs";
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with(stopped), "{told:?}");
    let told = explain_losses(&names, &steady[..1], &[true]);
    assert_eq!(
        told,
        ["the store keeps no times of this run of a: heat made it slower"]
    );
    assert!(explain_losses(&names, &steady[..1], &[false]).is_empty());
}

#[test]
fn repetitions_are_capped_evenly() {
    let mut samples = Vec::new();
    for first in [0, 100, 200] {
        let sample = StoredSample {
            seconds: (first..first + 100).map(f64::from).collect(),
            ..time_message(7, 0.0)
        };
        add_sample(&mut samples, sample);
    }
    add_sample(&mut samples, time_message(9, 1.0));
    assert_eq!(samples.len(), 2);
    let seconds = &samples[0].seconds;
    assert_eq!(seconds.len(), REPETITIONS);
    assert!(seconds.is_sorted() && seconds[0] < 10.0 && seconds[REPETITIONS - 1] > 250.0);
}

/// Returns a run with one size of 100 units.
fn store_time(key: &StoreKey, run: u64, seconds: f64) -> StoredRun {
    StoredRun {
        writer: format!("w{run}"),
        run,
        at_s: read_clock_s(),
        key: key.clone(),
        samples: vec![StoredSample {
            units: 100,
            seconds: vec![seconds],
            at_least: false,
        }],
    }
}

/// Opens the store of a job with a rank on each of these sources, after these runs.
fn open_store(sources: &[KeySource], runs: &[StoredRun]) -> (TempDir, JobStore) {
    let folder = tempfile::tempdir().unwrap();
    let user = folder.path().to_owned();
    let written = StoreFolder::new(user.clone(), true).write("w", runs);
    written.unwrap();
    let places = StorePlaces {
        user,
        sites: Vec::new(),
    };
    let store = JobStore {
        store: ModelStore::open(StoreMode::Read, Some(places)).unwrap(),
        mpi: "Open MPI v4.1.4".to_owned(),
        sources: sources.iter().map(|source| vec![source.clone()]).collect(),
        writer: None,
        seen: BTreeMap::new(),
    };
    (folder, store)
}

/// Returns a problem with panels of this width, and its work.
fn make_problem(width: usize) -> (Problem, KeyedWork) {
    let problem = Problem::new(64, 64, 1024, 8).unwrap();
    let problem = problem.with_panel(width).unwrap();
    (problem, key_work(&problem, width))
}

/// Looks for a device with panels of `wanted` columns in a store that knows it with panels of `stored`.
fn find_by_width(source: &KeySource, stored: usize, wanted: usize) -> (KnownDevice, Vec<String>) {
    let key = source.make_key(make_problem(stored).1, &[]);
    let (_folder, store) = open_store(
        std::slice::from_ref(source),
        &[store_time(&key, 1, stored as f64)],
    );
    let (devices, words) = store.find_devices(&make_problem(wanted).0, wanted);
    (devices.concat().remove(0), words)
}

#[test]
fn times_of_other_panels_are_checked_unless_updates_of_both_are_alike() {
    let cores = make_test_source();
    let mut gpu = cores.clone();
    gpu.device.kind = DeviceKind::Cuda;
    for (source, stored, wanted, from) in [
        (&cores, 16, 16, KnownFrom::Store),
        (&cores, 20, 16, KnownFrom::StoreAndProbe),
        (&cores, 32, 16, KnownFrom::StoreAndProbe),
        (&cores, 8, 16, KnownFrom::StoreAndProbe),
        (&cores, 33, 16, KnownFrom::Fresh),
        (&cores, 7, 16, KnownFrom::Fresh),
        (&cores, 128, 256, KnownFrom::Store),
        (&cores, 513, 256, KnownFrom::Fresh),
        (&gpu, 256, 256, KnownFrom::Store),
        (&gpu, 128, 256, KnownFrom::StoreAndProbe),
    ] {
        let (known, words) = find_by_width(source, stored, wanted);
        assert_eq!(known.from, from, "{stored} for {wanted}");
        match from {
            KnownFrom::Fresh => assert!(known.points.is_empty()),
            _ => assert!((known.points[0].t_s / wanted as f64 - 1.0).abs() < 1e-9),
        }
        let is_told = words.iter().any(|word| word.contains("panels of"));
        assert_eq!(is_told, from == KnownFrom::StoreAndProbe, "{words:?}");
    }
}

#[test]
fn bounds_alone_are_no_knowledge() {
    let source = make_test_source();
    let (problem, work) = make_problem(16);
    let mut run = store_time(&source.make_key(work, &[]), 1, 60.0);
    run.samples[0].at_least = true;
    let (_folder, store) = open_store(&[source], &[run]);
    let known = store.find_devices(&problem, 16).0.concat();
    assert_eq!(known, [KnownDevice::fresh()]);
}

#[test]
fn stale_models_are_told_of_once() {
    let source = make_test_source();
    let (problem, work) = make_problem(16);
    let key = source.make_key(work, &[]);
    for (times_s, told) in [
        (&[0.5, 0.5, 1.0, 1.0][..], false),
        (&[0.5, 0.5, 1.0, 1.0, 1.0], true),
        (&[0.5, 0.5, 1.0, 1.0, 1.0, 1.0], false),
    ] {
        let runs = (1..).zip(times_s);
        let runs: Vec<StoredRun> = runs
            .map(|(run, &seconds)| store_time(&key, run, seconds))
            .collect();
        let (_folder, store) = open_store(std::slice::from_ref(&source), &runs);
        let (devices, words) = store.find_devices(&problem, 16);
        let word = "older models of cpu0 of a are stale: 3 runs in a row took 2.00 times as long as the 2 before";
        assert_eq!(words, if told { vec![word] } else { vec![] }, "{times_s:?}");
        assert_eq!(devices.concat()[0].from, KnownFrom::Store);
    }
}

#[test]
fn links_are_found_by_their_key_unless_a_fact_differs() {
    let sources = ["a", "b"].map(|host| KeySource {
        host: host.to_owned(),
        ..make_test_source()
    });
    let class = sources[0].class.clone();
    let (_folder, empty) = open_store(&sources, &[]);
    for times in [LinkTimes::Exchange, LinkTimes::CpuOf(&class)] {
        let key = empty.make_link_key(times);
        let Identity::Links(identity) = &key.identity else {
            panic!("{key:?}");
        };
        let identities = vary_fields(identity).into_iter().map(|(field, identity)| {
            let identity = Identity::Links(identity);
            (
                field,
                StoreKey {
                    identity,
                    ..key.clone()
                },
            )
        });
        let conditions = vary_fields(&key.conditions).into_iter();
        let conditions = conditions.map(|(field, conditions)| {
            (
                field,
                StoreKey {
                    conditions,
                    ..key.clone()
                },
            )
        });
        let own = [(String::new(), key.clone())];
        for (field, stored) in own.into_iter().chain(identities).chain(conditions) {
            let (_folder, store) = open_store(&sources, &[store_time(&stored, 1, 0.5)]);
            let found = store.find_fresh(times);
            assert_eq!(found.is_some(), field.is_empty(), "{field}");
        }
        let mut old = store_time(&key, 1, 0.5);
        old.at_s -= LINKS_KEPT_S + 60;
        let (_folder, store) = open_store(&sources, &[old]);
        assert_eq!(store.find_fresh(times), None);
    }
}
