use isochron_devices::{DeviceKind, ElementType};
use tempfile::TempDir;

use super::super::copier::SegmentCopier;
use super::super::key::Keyed;
use super::*;
use crate::comm::LocalComm;
use crate::store::{KEPT_S, StoreFolder, StoredRun, make_test_source, read_clock_s, vary_fields};

const MPI: &str = "Open MPI v4.1.4";

#[test]
fn devices_of_which_no_step_is_kept_are_explained() {
    let names = ["a", "b", "c", "d", "e"].map(str::to_owned);
    // Kept, stopped in every step, in some steps, without work, and stopped in every step.
    let stopped = [false, true, true, false, true];
    let series = [2, 0, 1, 0, 0].map(|sizes| {
        let sizes = 0..sizes;
        let series = sizes.map(|units| Series::measured(units, vec![1.0]));
        series.collect::<Vec<_>>()
    });
    let told = explain_losses(&names, &series, &stopped, &[false; 5]);
    let reason = "the store keeps no times of this run of b and of 1 other device: other programs";
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with(reason), "{told:?}");
    let first = |slowed| explain_losses(&names[..1], &series, &stopped, &[slowed]);
    assert_eq!(first(true), ["the store keeps no times of this run of a: heat made it slower"]);
    assert!(first(false).is_empty());
}

#[test]
fn times_of_hosts_of_one_name_are_not_mixed() {
    let key = make_test_source().make_key(make_problem(8).1, Vec::new());
    let times = |first: u64| (first..first + 2).map(|units| time_message(units as usize, 1.0));
    // Two kernels that share all cores of a host may have one key.
    for places in [["a (1)", "a (2)"], ["b", "b"]] {
        let sources = places.map(|place| (key.clone(), place));
        let mut store = open_store::<KeySource>(&[], &[]).1.store.unwrap();
        store.keep(sources.into_iter(), [times(1), times(10)]);
        let sizes = store.seen[&key].iter().map(|sample| sample.units);
        let sizes: Vec<u64> = sizes.collect();
        if places[0] == places[1] {
            assert_eq!(sizes, [1, 2, 10, 11])
        } else {
            assert_eq!(sizes, [1, 2])
        }
    }
}

/// Returns a run with one size of 100 units.
fn store_time(key: &StoreKey, run: u64, seconds: f64) -> StoredRun {
    StoredRun {
        writer: format!("w{run}"),
        run,
        at_s: read_clock_s(),
        key: key.clone(),
        samples: vec![Series { units: 100, seconds: vec![seconds], at_least: false }],
    }
}

/// Opens the store in a folder for a job with a rank on each of these sources.
pub(in crate::store) fn open_folder<S: Clone>(folder: &TempDir, sources: &[S]) -> JobStore<S> {
    let places = StorePlaces { user: folder.path().to_owned(), sites: Vec::new() };
    JobStore {
        store: ModelStore::open(StoreMode::ReadWrite, Some(places)),
        sources: sources.iter().map(|source| vec![source.clone()]).collect(),
        copier: SegmentCopier::default(),
    }
}

/// Opens the store of a job with a rank on each of these sources, after these runs.
pub(in crate::store) fn open_store<S: Clone>(
    sources: &[S],
    runs: &[StoredRun],
) -> (TempDir, JobStore<S>) {
    let folder = tempfile::tempdir().unwrap();
    let user = folder.path().to_owned();
    StoreFolder::new(user, true).write("w", runs).unwrap();
    let store = open_folder(&folder, sources);
    (folder, store)
}

/// Returns a problem with panels of this width, and its work.
fn make_problem(width: usize) -> (Problem, KeyedWork) {
    let problem = Problem::new(64, 64, 1024, 8).unwrap();
    let problem = problem.with_panel(width).unwrap();
    (problem, key_work(&problem, width))
}

/// Looks for a device with panels of `wanted` columns in a store that knows it with panels of `stored`.
fn find_by_width(source: &KeySource, stored: usize, wanted: usize) -> (KnownTimes, Vec<String>) {
    let key = source.make_key(make_problem(stored).1, Vec::new());
    let (_folder, store) =
        open_store(std::slice::from_ref(source), &[store_time(&key, 1, stored as f64)]);
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
fn a_k_of_less_than_a_panel_is_known_by_its_own_width() {
    let source = make_test_source();
    let problem = Problem::new(960, 800, 48, 64).unwrap();
    let key = source.make_key(key_work(&problem, problem.panel(2)), Vec::new());
    let (_folder, store) = open_store(&[source], &[store_time(&key, 1, 60.0)]);
    let known = store.find_devices(&problem, 48).0.concat();
    assert_eq!(known[0].from, KnownFrom::Store);
}

#[test]
fn a_width_of_bounds_alone_does_not_hide_a_measured_one() {
    let source = make_test_source();
    let mut runs = [16, 20].map(|width| {
        let key = source.make_key(make_problem(width).1, Vec::new());
        store_time(&key, 1, 60.0)
    });
    runs[0].samples[0].at_least = true;
    let (_folder, store) = open_store(&[source], &runs);
    let known = store.find_devices(&make_problem(16).0, 16).0.concat();
    assert_eq!(known[0].from, KnownFrom::StoreAndProbe);
}

#[test]
fn old_times_of_a_device_are_checked() {
    let source = make_test_source();
    let (problem, work) = make_problem(16);
    let mut run = store_time(&source.make_key(work, Vec::new()), 1, 60.0);
    run.at_s -= KEPT_S + 60;
    let (_folder, store) = open_store(&[source], &[run]);
    let (known, words) = store.find_devices(&problem, 16);
    assert_eq!(known.concat()[0].from, KnownFrom::StoreAndProbe);
    assert!(words[0].contains("older than 30 days"), "{words:?}");
}

#[test]
fn a_job_that_saves_again_is_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let source = make_test_source();
    let (_, work) = make_problem(16);
    let mut job = open_folder(&folder, &[source]);
    for units in [1, 2, 3] {
        job.keep_series(work, [[time_message(units, 0.5)]]);
        assert!(job.save(&LocalComm::new()).unwrap().is_empty());
    }
    let found = StoreFolder::new(folder.path().to_owned(), true).find_all();
    let found = found.unwrap();
    let runs = found[0].runs.as_ref().unwrap();
    assert_eq!((found.len(), runs.len(), runs[0].samples.len()), (1, 1, 3));
}

#[test]
fn bounds_alone_are_no_knowledge() {
    let source = make_test_source();
    let (problem, work) = make_problem(16);
    let mut run = store_time(&source.make_key(work, Vec::new()), 1, 60.0);
    run.samples[0].at_least = true;
    let (_folder, store) = open_store(&[source], &[run]);
    let known = store.find_devices(&problem, 16).0.concat();
    assert_eq!(known, [KnownTimes::fresh()]);
}

#[test]
fn stale_models_are_told_of_once() {
    let source = make_test_source();
    let (problem, work) = make_problem(16);
    let key = source.make_key(work, Vec::new());
    for (times_s, told) in [
        (&[0.5, 0.5, 1.0, 1.0][..], false),
        (&[0.5, 0.5, 1.0, 1.0, 1.0], true),
        (&[0.5, 0.5, 1.0, 1.0, 1.0, 1.0], false),
    ] {
        let runs = (1..).zip(times_s);
        let runs: Vec<StoredRun> =
            runs.map(|(run, &seconds)| store_time(&key, run, seconds)).collect();
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
        place: host.to_owned(),
        ..make_test_source()
    });
    let class = sources[0].class.clone();
    let (_folder, empty) = open_store(&sources, &[]);
    for times in [LinkTimes::Pair(["a", "b"]), LinkTimes::CpuOf(&class)] {
        let key = empty.make_link_key(MPI, times);
        let Identity::Links(identity) = &key.identity else {
            panic!("{key:?}");
        };
        let identities = vary_fields(identity).into_iter().map(|(field, identity)| {
            let identity = Identity::Links(identity);
            (field, StoreKey { identity, ..key.clone() })
        });
        let conditions = vary_fields(&key.conditions).into_iter();
        let conditions =
            conditions.map(|(field, conditions)| (field, StoreKey { conditions, ..key.clone() }));
        for (field, stored) in
            [(String::new(), key.clone())].into_iter().chain(identities).chain(conditions)
        {
            let (_folder, store) = open_store(&sources, &[store_time(&stored, 1, 0.5)]);
            let found = store.find_fresh(MPI, times);
            assert_eq!(found.is_some(), field.is_empty(), "{field}");
        }
        let mut old = store_time(&key, 1, 0.5);
        old.at_s -= KEPT_S + 60;
        let (_folder, store) = open_store(&sources, &[old]);
        assert_eq!(store.find_fresh(MPI, times), None);
    }
}

/// Returns two devices of one host: no field of their keys is empty then.
fn make_neighbours() -> [KeySource; 2] {
    let one = make_test_source();
    let mut other = one.clone();
    other.device.cores = vec![2, 3];
    [one, other]
}

/// Returns the origin of what is known of each device for this problem, and the words about it.
fn find_origins(store: &JobStore<KeySource>, problem: &Problem) -> (Vec<KnownFrom>, Vec<String>) {
    let (devices, words) = store.find_devices(problem, problem.learning_panel());
    let origins = devices.concat().into_iter().map(|device| device.from);
    (origins.collect(), words)
}

#[test]
fn every_field_of_a_key_decides_if_a_device_is_known() {
    let sources = make_neighbours();
    let (problem, work) = make_problem(16);
    let keys = open_store(&sources, &[]).1.make_keys(work);
    let Identity::Device(own) = &keys[0].identity else {
        panic!("{keys:?}");
    };
    let mut stored = vec![(String::new(), keys[0].clone(), KnownFrom::Store)];
    for (field, mut identity) in vary_fields(own) {
        // Times of a near width are used after a check.
        if field == "width" {
            identity.width *= 3;
        }
        let identity = Identity::Device(identity);
        let key = StoreKey { identity, ..keys[0].clone() };
        stored.push((field, key, KnownFrom::Fresh));
    }
    for (field, conditions) in vary_fields(&keys[0].conditions) {
        let key = StoreKey { conditions, ..keys[0].clone() };
        stored.push((field, key, KnownFrom::StoreAndProbe));
    }
    for (field, key, origin) in stored {
        let runs = [&key, &keys[1]].map(|key| store_time(key, 1, 0.5));
        let (_folder, store) = open_store(&sources, &runs);
        let (origins, words) = find_origins(&store, &problem);
        assert_eq!(origins[0], origin, "{field}");
        let is_told = words.iter().any(|word| word.ends_with(&format!("other {field}")));
        assert_eq!(is_told, origin == KnownFrom::StoreAndProbe, "{field}: {words:?}");
        // Devices of a host are measured together.
        assert_eq!(origins[1] == KnownFrom::Store, field.is_empty(), "{field}");
    }
}

/// Returns the origin of a device's model if this fact has another value than in the store.
///
/// # Panics
/// For a fact that the keys were not taught.
fn expect_origin(fact: &str) -> KnownFrom {
    match fact {
        "class" | "place" | "device.kind" | "device.blas" | "device.paced" | "device.cores"
        | "device.pinned" => KnownFrom::Fresh,
        "host" => KnownFrom::StoreAndProbe,
        _ if fact.starts_with("conditions.") => KnownFrom::StoreAndProbe,
        // A name tells nothing. The pace says more than the clock, and a GPU's number more than its address.
        "device.name" | "device.clock" | "device.bus_id" => KnownFrom::Store,
        _ => panic!("{fact} has no place in the keys of the store"),
    }
}

/// Returns copies of a device with one fact changed, each with the name of that fact.
fn vary_source(source: &KeySource) -> Vec<(String, KeySource)> {
    let mut varied = vary_fields(source);
    varied.extend(vary_fields(&source.device).into_iter().map(|(field, device)| {
        let source = KeySource { device, ..source.clone() };
        (format!("device.{field}"), source)
    }));
    let conditions = vary_fields(&source.conditions).into_iter();
    varied.extend(conditions.map(|(field, conditions)| {
        let source = KeySource { conditions, ..source.clone() };
        (format!("conditions.{field}"), source)
    }));
    varied
}

#[test]
fn what_a_job_writes_is_found_unless_a_fact_about_the_device_differs() {
    let folder = tempfile::tempdir().unwrap();
    let sources = make_neighbours();
    let (problem, work) = make_problem(16);
    let mut written = open_folder(&folder, &sources);
    written.keep_series(work, [0.5, 0.25].map(|time_s| [time_message(100, time_s)]));
    assert!(written.save(&LocalComm::new()).unwrap().is_empty());
    let found = open_folder(&folder, &sources);
    assert_eq!(find_origins(&found, &problem), (vec![KnownFrom::Store; 2], vec![]));
    let times = found.find_devices(&problem, 16).0.concat();
    let times = times.iter().map(|device| device.points[0].t_s);
    assert!(times.zip([0.5, 0.25]).all(|(found, kept)| (found / kept - 1.0).abs() < 1e-9));
    for (fact, changed) in vary_source(&sources[0]) {
        let store = open_folder(&folder, &[changed, sources[1].clone()]);
        let (origins, _) = find_origins(&store, &problem);
        assert_eq!(origins[0], expect_origin(&fact), "{fact}");
    }
    // A fact of the work that is new has to be taken up here.
    let KeyedWork { element: ElementType::F64, width: 16 } = work else {
        panic!("{work:?}");
    };
    // The block size is none: the times are those of an area.
    let of_blocks = Problem::new(64, 64, 1024, 16).unwrap();
    let (origins, _) = find_origins(&found, &of_blocks.with_panel(16).unwrap());
    assert_eq!(origins, [KnownFrom::Store; 2]);
    for other in [problem.with_element(ElementType::F32), make_problem(64).0] {
        let (origins, _) = find_origins(&found, &other);
        assert_eq!(origins, [KnownFrom::Fresh; 2], "{other:?}");
    }
}

/// Returns a device of each of two hosts of one name, with these ids of their machines.
fn make_namesakes(machines: [Option<&str>; 2]) -> [KeySource; 2] {
    let mut sources =
        [1, 2].map(|number| KeySource { place: format!("a ({number})"), ..make_test_source() });
    for (source, machine) in sources.iter_mut().zip(machines) {
        source.conditions.machine = machine.map(str::to_owned);
    }
    sources
}

#[test]
fn hosts_of_one_name_are_not_taken_for_one() {
    let [one, other] = make_namesakes([Some("1"), Some("2")]);
    let (problem, work) = make_problem(16);
    let sources = [one.clone(), other.clone()];
    let keys = open_store(&sources, &[]).1.make_keys(work);
    let runs = [(&keys[0], 0.5), (&keys[1], 0.25)].map(|(key, time_s)| store_time(key, 1, time_s));
    for order in [[&one, &other], [&other, &one]] {
        let (_folder, store) = open_store(&order.map(KeySource::clone), &runs);
        for (device, source) in store.find_devices(&problem, 16).0.concat().iter().zip(order) {
            assert_eq!(device.from, KnownFrom::Store);
            let time_s = if source == &one { 0.5 } else { 0.25 };
            assert!((device.points[0].t_s / time_s - 1.0).abs() < 1e-9);
        }
        let Identity::Links(links) = store.make_link_key(MPI, LinkTimes::Pair(["a", "b"])).identity
        else {
            panic!("the key of links is one of links");
        };
        assert_eq!((links.hosts, links.ranks), (2, vec![1, 1]));
    }
    // Doubt about one of them is none about the other.
    let (_folder, store) = open_store(&sources, &runs[..1]);
    let (origins, words) = find_origins(&store, &problem);
    assert_eq!(origins, [KnownFrom::Store, KnownFrom::StoreAndProbe]);
    assert!(words[0].contains("cpu0 of a (2)"), "{words:?}");
    // Without ids, the times may be the other one's.
    let sources = make_namesakes([None, None]);
    let keys = open_store(&sources, &[]).1.make_keys(work);
    let (_folder, store) = open_store(&sources, &[store_time(&keys[0], 1, 0.5)]);
    let (origins, words) = find_origins(&store, &problem);
    assert_eq!(origins, [KnownFrom::StoreAndProbe; 2]);
    assert!(words.iter().all(|word| word.contains("another host")) && words.len() == 2);
}

#[test]
fn a_job_says_that_there_is_no_place_for_a_store_unless_none_is_wanted() {
    let comm = LocalComm::new();
    for (mode, reason, is_told) in [
        (StoreMode::ReadWrite, NoStorePlace::Homeless, true),
        (StoreMode::Read, NoStorePlace::Homeless, true),
        (StoreMode::None, NoStorePlace::Homeless, false),
        (StoreMode::ReadWrite, NoStorePlace::Declined, false),
    ] {
        let mut notices = Vec::new();
        assert!(read_store(&comm, mode, Err(reason), &mut notices).is_none());
        let told = [
            "the model store is not used: there is no home folder; set ISOCHRON_STORE to a folder",
        ];
        assert_eq!(notices, &told[..usize::from(is_told)], "{mode}");
    }
}
