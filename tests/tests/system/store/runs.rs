//! Runs that begin with the times of earlier ones, and what each leaves to the next.

use super::*;

#[test]
fn a_second_run_starts_where_the_first_one_ended() {
    for mpi in libraries() {
        let folder = make_folder();
        let first = multiply(&mpi, &folder, "");
        assert_eq!(list_known(&first), [KnownFrom::Fresh; 3]);
        assert_eq!(first.network_known, Some(KnownFrom::Fresh));
        assert!(count_looks(&first) > 0);
        assert_eq!(segments(&folder).len(), 1, "one segment a job");
        for run in read_runs(&folder) {
            if matches!(run.key.identity, Identity::Device(_)) {
                let largest = run.samples.iter().map(|sample| sample.units).max();
                let small = run.samples.iter().filter(|sample| Some(2 * sample.units) < largest);
                assert!(small.count() > 0, "what was looked at is kept: {:?}", run.samples);
            }
        }
        let [second, third] = [(); 2].map(|()| multiply(&mpi, &folder, ""));
        assert_eq!(list_known(&second), [KnownFrom::Store; 3]);
        assert!(second.network.is_some() && second.network_known != Some(KnownFrom::Fresh));
        assert_eq!(count_looks(&second), 0, "nothing is looked at");
        check_division(&second);
        assert!(list_notices(&second).iter().all(|notice| !notice.contains("model")));
        // Warm runs divide alike.
        let [one, other] = [&second, &third].map(list_units);
        let all: f64 = one.iter().sum();
        let mut devices = one.iter().zip(&other);
        assert!(devices.all(|(one, other)| (one - other).abs() <= 0.02 * all), "{one:?} {other:?}");
        // Links are measured again if their conditions change.
        change_runs(&folder, |run| {
            if matches!(run.key.identity, Identity::Links(_)) {
                run.key.conditions.host = "others".to_owned();
            }
        });
        let elsewhere = multiply(&mpi, &folder, "");
        assert_eq!(elsewhere.network_known, Some(KnownFrom::Fresh));
        assert_eq!(list_known(&elsewhere), [KnownFrom::Store; 3]);
    }
}

#[test]
fn links_leave_the_network_to_the_next_run() {
    let mpi = open_mpi();
    let folder = make_folder();
    let mut links = mpi.line_command(2, "links");
    use_store(&mut links, &folder.path("store"));
    run(links, HANGS).success();
    let first = multiply(&mpi, &folder, "");
    assert_eq!(list_known(&first), [KnownFrom::Fresh; 3]);
    assert!(first.network.is_some() && first.network_known != Some(KnownFrom::Fresh));
}

#[test]
fn a_run_that_ends_before_its_first_decision_is_kept() {
    let mpi = open_mpi();
    let folder = make_folder();
    let first = multiply_by(&mpi, &folder, BRIEF);
    let learnt = first.learning.as_ref().expect("a run that learns");
    assert_eq!(learnt.decisions, 0);
    let second = multiply_by(&mpi, &folder, BRIEF);
    assert_eq!(list_known(&second), [KnownFrom::Store; 3]);
}

#[test]
fn the_store_is_read_and_written_as_asked() {
    let mpi = open_mpi();
    let folder = make_folder();
    for (options, known, stored) in [
        ("--store none", KnownFrom::Fresh, 0),
        ("--store read", KnownFrom::Fresh, 0),
        ("--store read-write", KnownFrom::Fresh, 1),
        ("--store read", KnownFrom::Store, 1),
        ("--store none", KnownFrom::Fresh, 1),
    ] {
        assert_eq!(list_known(&multiply(&mpi, &folder, options)), [known; 3], "{options}");
        assert_eq!(segments(&folder).len(), stored, "{options}");
    }
}

#[test]
fn strategies_that_measure_before_the_run_use_the_store_too() {
    for mpi in libraries() {
        let folder = make_folder();
        let first = multiply(&mpi, &folder, "--strategy fpm");
        assert_eq!(list_known(&first), [KnownFrom::Fresh; 3]);
        assert!(count_measurements(&first) > 0);
        for strategy in ["fpm", "single-cpm", "multi-cpm", "adaptive"] {
            let later = multiply(&mpi, &folder, &format!("--strategy {strategy}"));
            assert_eq!(list_known(&later), [KnownFrom::Store; 3], "{strategy}");
            assert_eq!(count_measurements(&later), 0, "{strategy}");
            let units = list_units(&later);
            assert!(units[0] > 2.0 * units[1], "{strategy} {units:?}");
        }
    }
}

#[test]
fn a_plan_keeps_what_it_measured() {
    let mpi = open_mpi();
    let folder = make_folder();
    let planned = format!("{SLOW} --strategy fpm --plan");
    run(command(&mpi, &folder, &planned), HANGS).success();
    let report = multiply(&mpi, &folder, "--strategy fpm");
    assert_eq!(list_known(&report), [KnownFrom::Store; 3]);
    assert_eq!(count_measurements(&report), 0);
}

#[test]
fn fpm_measures_again_under_other_conditions_but_starts_with_what_is_known() {
    let mpi = open_mpi();
    let folder = make_folder();
    let first = multiply(&mpi, &folder, "--strategy fpm");
    change_runs(&folder, |run| {
        run.key.conditions.state.governor = Some("other".to_owned());
    });
    let later = multiply(&mpi, &folder, "--strategy fpm");
    assert_eq!(list_known(&later), [KnownFrom::StoreAndProbe; 3]);
    let [first, later] = [&first, &later].map(count_measurements);
    assert!(0 < later && later < first, "{later} of {first}");
}
