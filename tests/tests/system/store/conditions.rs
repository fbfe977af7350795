//! Stored times that may not hold any more.

use super::*;

#[test]
fn other_conditions_cost_one_measurement() {
    let mpi = open_mpi();
    let folder = make_folder();
    multiply(&mpi, &folder, "");
    change_runs(&folder, |run| {
        run.key.conditions.state.governor = Some("other".to_owned());
        // As if all devices had been half as fast.
        scale_times(run, 2.0);
    });
    let report = multiply(&mpi, &folder, "");
    assert_eq!(list_known(&report), [KnownFrom::StoreAndProbe; 3]);
    assert_eq!(count_looks(&report), 1);
    assert_eq!(count_notices(&report, "other governor"), 3);
    assert_eq!(list_known(&multiply(&mpi, &folder, "")), [KnownFrom::Store; 3]);
}

#[test]
fn times_of_another_machine_of_the_same_name_are_checked() {
    let mpi = open_mpi();
    let folder = make_folder();
    multiply_by(&mpi, &folder, BRIEF);
    change_runs(&folder, |run| {
        run.key.conditions.state.machine = Some("another".to_owned());
    });
    let report = multiply_by(&mpi, &folder, BRIEF);
    assert_eq!(list_known(&report), [KnownFrom::StoreAndProbe; 3]);
    assert_eq!(count_notices(&report, "other machine"), 3);
    assert_eq!(report.network_known, Some(KnownFrom::Fresh));
}

#[test]
fn points_that_change_under_their_name_are_other_devices() {
    let mpi = open_mpi();
    let folder = make_folder();
    multiply(&mpi, &folder, "");
    folder.write("fast.points", "# block: 8\n1 0.002\n64 0.128\n");
    let known = list_known(&multiply(&mpi, &folder, ""));
    assert_eq!(known[0], KnownFrom::Fresh);
}

#[test]
fn a_model_that_three_runs_contradict_is_stale_and_told_of_once() {
    let mpi = open_mpi();
    let folder = make_folder();
    multiply_by(&mpi, &folder, BRIEF);
    let runs = read_runs(&folder);
    fs::remove_dir_all(folder.path("store")).expect("removable");
    let store = StoreFolder::new(folder.path("store").into(), true);
    // Two runs in half the time, and two of the three that contradict them; the next job is the third.
    for (number, factor) in [(1, 0.5), (2, 0.5), (3, 1.0), (4, 1.0)] {
        let writer = format!("w{number}");
        let mut of_job = runs.clone();
        for run in &mut of_job {
            (run.writer, run.run) = (writer.clone(), number);
            if matches!(run.key.identity, Identity::Device(_)) {
                scale_times(run, factor);
            }
        }
        store.write(&writer, &of_job).expect("written");
    }
    for told in [0, 3, 0] {
        let report = multiply_by(&mpi, &folder, BRIEF);
        assert_eq!(count_notices(&report, "are stale: 3 runs in a row"), told);
        assert_eq!(list_known(&report), [KnownFrom::Store; 3]);
    }
    let listed = models(&folder, "store", "list").success();
    assert_eq!(listed.matches(" renewed ").count(), 3, "{listed}");
}
