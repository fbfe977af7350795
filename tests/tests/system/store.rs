//! Runs that begin with what earlier ones have seen: the model store under `mxm` and `isochron models`.

mod faults;
mod hosts;
mod kernels;
mod namespaces;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use isochron::session::{KnownFrom, Report};
use isochron::store::{Identity, LibraryIdentity, StoreFolder, StoredRun, StoredSample};
use isochron_tests::launch::{HANGS, Mpi, Outcome, libraries, run};

use crate::command::{Folder, write_platform};

/// Two nodes with three devices of unlike paces, each so slow that nothing else counts.
const SLOW: &str = "--m 64 --n 64 --k 256 --block 8 --panel 8 --json";

/// The same in two steps, of which the store keeps the times too.
const BRIEF: &str = "--m 64 --n 64 --k 16 --block 8 --panel 8 --json";

fn make_folder() -> Folder {
    let folder = Folder::new();
    write_platform(&folder);
    folder
}

fn command(mpi: &Mpi, folder: &Folder, options: &str) -> Command {
    let mut words = vec![
        "mxm".to_owned(),
        "--platform".to_owned(),
        folder.path("slow.toml"),
    ];
    words.extend(options.split_whitespace().map(str::to_owned));
    let mut command = mpi.command(2, &mpi.isochron, &words);
    use_store(&mut command, &folder.path("store"));
    command
}

/// Lets a command use the store at this path, with one BLAS: which library is the fastest may differ from run to
/// run, and with it the identity of the devices.
fn use_store(command: &mut Command, path: &str) {
    command
        .env("ISOCHRON_STORE", path)
        .env("ISOCHRON_BLAS", "embedded");
}

/// Multiplies in the usual size with more options.
fn multiply(mpi: &Mpi, folder: &Folder, options: &str) -> Report {
    multiply_by(mpi, folder, &format!("{SLOW} {options}"))
}

fn multiply_by(mpi: &Mpi, folder: &Folder, options: &str) -> Report {
    read_report(run(command(mpi, folder, options), HANGS))
}

fn read_report(outcome: Outcome) -> Report {
    let report: Report = serde_json::from_str(&outcome.success()).expect("a report");
    assert_eq!(report.verified, Some(true));
    report
}

/// Returns what was known of every device.
fn list_known(report: &Report) -> Vec<KnownFrom> {
    let devices = report.nodes.iter().flat_map(|node| &node.devices);
    devices
        .map(|device| device.known.expect("a run that learns"))
        .collect()
}

fn list_units(report: &Report) -> Vec<f64> {
    let devices = report.nodes.iter().flat_map(|node| &node.devices);
    devices.map(|device| device.units).collect()
}

/// Checks that the first device has more than twice the units of each of the others, which are three times as slow.
fn check_division(report: &Report) {
    let units = list_units(report);
    let others = units[1..].iter();
    assert!(
        others.copied().all(|other| units[0] > 2.0 * other),
        "{units:?}"
    );
}

fn count_looks(report: &Report) -> u32 {
    report.balance.as_ref().expect("a balance").iterations
}

/// Returns all notices of a report.
fn list_notices(report: &Report) -> Vec<&String> {
    report.nodes.iter().flat_map(|node| &node.notices).collect()
}

fn segments(folder: &Folder) -> Vec<PathBuf> {
    let found = fs::read_dir(Path::new(&folder.path("store")).join("v4"));
    let paths = found
        .into_iter()
        .flatten()
        .map(|entry| entry.expect("an entry").path());
    paths
        .filter(|path| path.extension().is_some_and(|end| end == "segment"))
        .collect()
}

fn read_runs(folder: &Folder) -> Vec<StoredRun> {
    let store = StoreFolder::new(folder.path("store").into(), false);
    let found = store.find_all().expect("a folder").into_iter();
    found
        .flat_map(|segment| segment.runs.expect("a whole segment"))
        .collect()
}

#[test]
fn a_second_run_starts_where_the_first_one_ended() {
    for mpi in libraries() {
        let folder = make_folder();
        let first = multiply(&mpi, &folder, "");
        assert_eq!(list_known(&first), [KnownFrom::Fresh; 3]);
        assert!(count_looks(&first) > 0);
        assert_eq!(segments(&folder).len(), 1, "one segment a job");
        let second = multiply(&mpi, &folder, "");
        assert_eq!(list_known(&second), [KnownFrom::Store; 3]);
        assert_eq!(count_looks(&second), 0, "nothing is looked at");
        check_division(&second);
        assert!(
            list_notices(&second)
                .iter()
                .all(|notice| !notice.contains("model"))
        );
    }
}

/// Multiplies in the usual size with the BLAS that `--blas auto` takes.
fn multiply_by_auto(mpi: &Mpi, folder: &Folder, options: &str) -> Report {
    let mut command = command(mpi, folder, &format!("{SLOW} {options}"));
    command.env("ISOCHRON_BLAS", "");
    read_report(run(command, HANGS))
}

/// Returns the origin of each node's choice of a BLAS.
fn list_choices(report: &Report) -> Vec<Option<KnownFrom>> {
    report.nodes.iter().map(|node| node.blas_known).collect()
}

/// Changes all runs of the store, each with its key.
fn change_runs(folder: &Folder, change: impl FnMut(&mut StoredRun)) {
    let mut runs = read_runs(folder);
    fs::remove_dir_all(folder.path("store")).expect("removable");
    runs.iter_mut().for_each(change);
    let store = StoreFolder::new(folder.path("store").into(), true);
    store.write("changed", &runs).expect("written");
}

/// Changes the stored times of libraries, each with its key.
fn change_libraries(folder: &Folder, change: fn(&mut LibraryIdentity, &mut Vec<StoredSample>)) {
    change_runs(folder, |run| {
        if let Identity::Library(library) = &mut run.key.identity {
            change(library, &mut run.samples);
        }
    });
}

fn count_library_runs(folder: &Folder) -> usize {
    let runs = read_runs(folder);
    let of_libraries = runs.iter().map(|run| &run.key.identity);
    of_libraries
        .filter(|identity| matches!(identity, Identity::Library(_)))
        .count()
}

#[test]
fn auto_takes_the_library_of_the_first_run_without_measuring() {
    for mpi in libraries() {
        let folder = make_folder();
        let first = multiply_by_auto(&mpi, &folder, "");
        assert_eq!(list_choices(&first), [Some(KnownFrom::Fresh); 2]);
        let stored = count_library_runs(&folder);
        assert!(stored > 0);
        // Times by which another run would choose the embedded library.
        change_libraries(&folder, |library, samples| {
            let is_embedded = library.library.contains("embedded");
            samples[0].seconds = vec![if is_embedded { 1e-6 } else { 1.0 }];
        });
        for (options, chosen) in [
            ("", Some(KnownFrom::Store)),
            ("--store read", Some(KnownFrom::Store)),
            ("--store none", Some(KnownFrom::Fresh)),
            ("--blas embedded", None),
        ] {
            let later = multiply_by_auto(&mpi, &folder, options);
            assert_eq!(list_choices(&later), [chosen; 2], "{options}");
            assert_eq!(count_library_runs(&folder), stored, "{options}");
            let mut devices = later.nodes.iter().flat_map(|node| &node.devices);
            assert!(
                options == "--store none" || devices.all(|device| device.blas.contains("embedded"))
            );
        }
        let last = multiply_by_auto(&mpi, &folder, "");
        assert_eq!(list_known(&last), [KnownFrom::Store; 3]);
        let listed = models(&folder, "store", "list").success();
        assert!(listed.contains(" chosen "), "{listed}");
    }
}

#[test]
fn a_library_that_is_gone_is_told_and_another_one_chosen() {
    let [mpi, _] = libraries();
    let folder = make_folder();
    multiply_by_auto(&mpi, &folder, "");
    change_libraries(&folder, |library, _| {
        library.libraries.push("Gone 1.0 (gone.so)".to_owned());
    });
    let anew = multiply_by_auto(&mpi, &folder, "");
    assert_eq!(list_choices(&anew), [Some(KnownFrom::Fresh); 2]);
    let notices = list_notices(&anew);
    let word = "the BLAS is chosen anew: Gone 1.0 (gone.so) is gone";
    let told = notices.iter().filter(|notice| **notice == word).count();
    assert_eq!(told, 1, "{notices:?}");
    let later = multiply_by_auto(&mpi, &folder, "");
    assert_eq!(list_choices(&later), [Some(KnownFrom::Store); 2]);
    assert!(!list_notices(&later).iter().any(|notice| *notice == word));
}

#[test]
fn warm_runs_divide_alike() {
    for mpi in libraries() {
        let folder = make_folder();
        multiply(&mpi, &folder, "");
        let [one, other] = [(); 2].map(|()| list_units(&multiply(&mpi, &folder, "")));
        let all: f64 = one.iter().sum();
        let mut devices = one.iter().zip(&other);
        assert!(
            devices.all(|(one, other)| (one - other).abs() <= 0.02 * all),
            "{one:?} {other:?}"
        );
    }
}

#[test]
fn a_run_that_ends_before_its_first_decision_is_kept() {
    let [mpi, _] = libraries();
    let folder = make_folder();
    let first = multiply_by(&mpi, &folder, BRIEF);
    let learnt = first.learning.as_ref().expect("a run that learns");
    assert_eq!(learnt.decisions, 0);
    let second = multiply_by(&mpi, &folder, BRIEF);
    assert_eq!(list_known(&second), [KnownFrom::Store; 3]);
}

#[test]
fn links_are_measured_once_unless_their_conditions_change() {
    for mpi in libraries() {
        let folder = make_folder();
        let measured = multiply(&mpi, &folder, "");
        assert_eq!(measured.links_known, Some(KnownFrom::Fresh));
        let recalled = multiply(&mpi, &folder, "");
        assert_ne!(recalled.links_known, Some(KnownFrom::Fresh));
        assert!(recalled.links.is_some());
        let without = multiply(&mpi, &folder, "--store none");
        assert_eq!(without.links_known, Some(KnownFrom::Fresh));
        change_runs(&folder, |run| {
            if matches!(run.key.identity, Identity::Links(_)) {
                run.key.conditions.host = "others".to_owned();
            }
        });
        let elsewhere = multiply(&mpi, &folder, "");
        assert_eq!(elsewhere.links_known, Some(KnownFrom::Fresh));
        assert_eq!(list_known(&elsewhere), [KnownFrom::Store; 3]);
    }
}

#[test]
fn a_run_begins_with_the_models_that_were_measured_before() {
    for mpi in libraries() {
        let folder = make_folder();
        let line = "measure mxm --block 8 --panel 8 --to 64 --points 3 --max-reps 3 --platform";
        let platform = folder.path("slow.toml");
        let words: Vec<&str> = line.split(' ').chain([platform.as_str()]).collect();
        for (options, segments_written) in [("none", 0), ("read", 0), ("read-write", 1)] {
            let words = [&words[..], &["--store", options]].concat();
            let mut command = mpi.command(2, &mpi.isochron, &words);
            use_store(&mut command, &folder.path("store"));
            run(command, HANGS).success();
            assert_eq!(segments(&folder).len(), segments_written, "{options}");
        }
        let runs = read_runs(&folder);
        assert_eq!(runs.len(), 3, "one for each device");
        for run in runs {
            let units: Vec<u64> = run.samples.iter().map(|sample| sample.units).collect();
            assert_eq!(units, [64, 32 * 64, 64 * 64]);
            assert!(run.samples.iter().all(|sample| sample.seconds.len() >= 2));
        }
        let report = multiply(&mpi, &folder, "");
        assert_eq!(list_known(&report), [KnownFrom::Store; 3]);
        assert_eq!(count_looks(&report), 0, "nothing is looked at");
    }
}

#[test]
fn a_campaign_that_is_killed_keeps_the_repetitions_of_every_size() {
    let [mpi, _] = libraries();
    let folder = make_folder();
    let line =
        "measure mxm --block 8 --panel 8 --from 2 --to 6 --points 3 --min-reps 2 --max-reps 3";
    let (platform, out) = (folder.path("slow.toml"), folder.path("out"));
    let files = ["--platform", &platform, "--out", &out];
    let words: Vec<&str> = line.split(' ').chain(files).collect();
    // The head rank is killed when the store has the last size, which the points files do not have yet.
    for (killed_at, sizes) in [(Some("named:3"), 3), (None, 4)] {
        let mut command = mpi.command(2, &mpi.isochron, &words);
        use_store(&mut command, &folder.path("store"));
        if let Some(stage) = killed_at {
            command.env("ISOCHRON_TEST_KILLED_AT", stage);
        }
        let outcome = run(command, HANGS);
        assert_eq!(outcome.status == Some(0), killed_at.is_none());
        let runs = read_runs(&folder);
        let samples: Vec<&StoredSample> = runs.iter().flat_map(|run| &run.samples).collect();
        assert_eq!(samples.len(), 3 * sizes, "of each device");
        assert!(samples.iter().all(|sample| sample.seconds.len() >= 2));
        let largest = samples.iter().map(|sample| sample.units).max();
        assert_eq!(largest, Some(6 * 64));
    }
}

#[test]
fn the_store_is_read_and_written_as_asked() {
    let [mpi, _] = libraries();
    let folder = make_folder();
    for (options, known, stored) in [
        ("--store none", KnownFrom::Fresh, 0),
        ("--store read", KnownFrom::Fresh, 0),
        ("--store read-write", KnownFrom::Fresh, 1),
        ("--store read", KnownFrom::Store, 1),
        ("--store none", KnownFrom::Fresh, 1),
    ] {
        assert_eq!(
            list_known(&multiply(&mpi, &folder, options)),
            [known; 3],
            "{options}"
        );
        assert_eq!(segments(&folder).len(), stored, "{options}");
    }
}

#[test]
fn other_conditions_cost_one_measurement() {
    let [mpi, _] = libraries();
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
    assert_eq!(
        list_known(&multiply(&mpi, &folder, "")),
        [KnownFrom::Store; 3]
    );
}

/// Multiplies all times of a run.
fn scale_times(run: &mut StoredRun, factor: f64) {
    let times_s = run.samples.iter_mut();
    for time_s in times_s.flat_map(|sample| &mut sample.seconds) {
        *time_s *= factor;
    }
}

/// Returns the number of notices that have this part.
fn count_notices(report: &Report, part: &str) -> usize {
    let notices = list_notices(report).into_iter();
    notices.filter(|notice| notice.contains(part)).count()
}

#[test]
fn a_model_that_three_runs_contradict_is_stale_and_told_of_once() {
    let [mpi, _] = libraries();
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

#[test]
fn times_of_another_machine_of_the_same_name_are_checked() {
    let [mpi, _] = libraries();
    let folder = make_folder();
    multiply_by(&mpi, &folder, BRIEF);
    change_runs(&folder, |run| {
        run.key.conditions.state.machine = Some("another".to_owned());
    });
    let report = multiply_by(&mpi, &folder, BRIEF);
    assert_eq!(list_known(&report), [KnownFrom::StoreAndProbe; 3]);
    assert_eq!(count_notices(&report, "other machine"), 3);
    assert_eq!(report.links_known, Some(KnownFrom::Fresh));
}

#[test]
fn points_that_change_under_their_name_are_other_devices() {
    let [mpi, _] = libraries();
    let folder = make_folder();
    multiply(&mpi, &folder, "");
    folder.write("fast.points", "# block: 8\n1 0.002\n64 0.128\n");
    let known = list_known(&multiply(&mpi, &folder, ""));
    assert_eq!(known[0], KnownFrom::Fresh);
}

#[test]
fn a_broken_store_is_told_and_ends_no_run() {
    for mpi in libraries() {
        let folder = make_folder();
        multiply(&mpi, &folder, "");
        let whole = segments(&folder).remove(0);
        let text = fs::read(&whole).expect("a segment");
        fs::write(whole.with_file_name("cut.segment"), &text[..text.len() / 2]).expect("written");
        let newer = "{\"format\":\"isochron-models\",\"version\":5}\n";
        fs::write(whole.with_file_name("newer.segment"), newer).expect("written");
        let report = multiply(&mpi, &folder, "");
        assert_eq!(list_known(&report), [KnownFrom::Store; 3]);
        let notices = list_notices(&report);
        for part in ["cut.segment is set aside", "newer.segment is not read"] {
            assert!(
                notices.iter().any(|notice| notice.contains(part)),
                "{notices:?}"
            );
        }
        // A file where the folder should be.
        let folder = make_folder();
        folder.write("store", "");
        let report = multiply(&mpi, &folder, "");
        let notices = list_notices(&report);
        for part in ["are not read", "models are not kept"] {
            assert!(
                notices.iter().any(|notice| notice.contains(part)),
                "{notices:?}"
            );
        }
    }
}

#[test]
fn eight_jobs_at_once_lose_nothing_though_one_is_killed_while_it_writes() {
    for mpi in libraries() {
        let folder = make_folder();
        multiply(&mpi, &folder, "");
        std::thread::scope(|threads| {
            for _ in 0..7 {
                threads.spawn(|| multiply(&mpi, &folder, ""));
            }
            threads.spawn(|| {
                let mut killed = command(&mpi, &folder, SLOW);
                killed.env("ISOCHRON_TEST_KILLED_AT", "half");
                assert_ne!(run(killed, HANGS).status, Some(0));
            });
        });
        let told = models(&folder, "store", "verify").success();
        assert!(told.contains("8 segments whole, 0 broken"), "{told}");
        assert_eq!(segments(&folder).len(), 8);
        let runs = read_runs(&folder);
        let of_devices = runs
            .iter()
            .filter(|run| matches!(run.key.identity, Identity::Device(_)));
        assert_eq!(of_devices.count(), 24);
        let report = multiply(&mpi, &folder, "");
        assert_eq!(list_known(&report), [KnownFrom::Store; 3]);
    }
}

#[test]
fn what_was_looked_at_is_kept() {
    let [mpi, _] = libraries();
    let folder = make_folder();
    let report = multiply(&mpi, &folder, "");
    assert!(count_looks(&report) > 0);
    for run in read_runs(&folder) {
        if matches!(run.key.identity, Identity::Device(_)) {
            let largest = run.samples.iter().map(|sample| sample.units).max();
            let small = run
                .samples
                .iter()
                .filter(|sample| Some(2 * sample.units) < largest);
            assert!(small.count() > 0, "{:?}", run.samples);
        }
    }
}

/// Returns the number of times that a node was measured, over all nodes.
fn count_measurements(report: &Report) -> u64 {
    let nodes = report.nodes.iter();
    nodes.map(|node| node.measured.measurements).sum()
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
    let [mpi, _] = libraries();
    let folder = make_folder();
    let planned = format!("{SLOW} --strategy fpm --plan");
    run(command(&mpi, &folder, &planned), HANGS).success();
    let report = multiply(&mpi, &folder, "--strategy fpm");
    assert_eq!(list_known(&report), [KnownFrom::Store; 3]);
    assert_eq!(count_measurements(&report), 0);
}

#[test]
fn fpm_measures_again_under_other_conditions_but_starts_with_what_is_known() {
    let [mpi, _] = libraries();
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

/// Writes models of the devices: the second is three times as slow as the first, and the third as slow as the second.
fn write_models(folder: &Folder) {
    fs::create_dir(folder.path("models")).expect("a new folder");
    let header = "# block: 8\n# element: f64\n# kernel: gemm";
    for (name, factor) in [
        ("rank0-a-together", 1.0),
        ("rank0-b-alone", 3.0),
        ("rank1-gemm", 3.0),
    ] {
        let points = [(1, 0.001), (64, 0.064)].map(|(d, t_s)| format!("{d} {}", factor * t_s));
        folder.write(
            &format!("models/{name}.points"),
            &format!("{header}\n{}\n", points.join("\n")),
        );
    }
}

#[test]
fn models_given_by_hand_replace_measuring() {
    for mpi in libraries() {
        let folder = make_folder();
        write_models(&folder);
        let given = format!("--store none --models {}", folder.path("models"));
        for strategy in [
            "adaptive",
            "fpm",
            "fpm --fit akima --partitioner npa",
            "single-cpm",
        ] {
            let report = multiply(&mpi, &folder, &format!("{given} --strategy {strategy}"));
            assert_eq!(list_known(&report), [KnownFrom::Models; 3], "{strategy}");
            assert_eq!(count_measurements(&report), 0, "{strategy}");
            check_division(&report);
        }
        let options = format!("{} {given}", SLOW.replace(" --json", ""));
        let told = run(command(&mpi, &folder, &options), HANGS).success();
        assert!(told.contains("3 known from given models"), "{told}");
    }
}

#[test]
fn models_that_were_measured_are_given_as_they_are() {
    for mpi in libraries() {
        let folder = make_folder();
        let models = folder.path("models");
        let line = "measure mxm --block 8 --panel 16 --to 64 --points 2 --max-reps 2 --out";
        let words: Vec<&str> = line.split(' ').chain([models.as_str()]).collect();
        let platform = folder.path("slow.toml");
        let words = [&words[..], &["--platform", &platform]].concat();
        mpi.isochron(2, &words).success();
        let report = multiply(&mpi, &folder, &format!("--store none --models {models}"));
        assert_eq!(list_known(&report), [KnownFrom::Models; 3]);
        check_division(&report);
    }
}

/// Checks that the options are refused with a message that has this part.
fn check_refusal(mpi: &Mpi, folder: &Folder, options: &str, part: &str) {
    let told = run(command(mpi, folder, &format!("{SLOW} {options}")), HANGS).failure(2);
    assert!(told.contains(part), "{options}: {told}");
}

#[test]
fn models_that_cannot_be_used_are_named_on_all_ranks() {
    for mpi in libraries() {
        let folder = make_folder();
        write_models(&folder);
        let models = folder.path("models");
        for (options, part) in [
            ("--models /not/there", "/not/there"),
            (
                "--models Cargo.toml",
                "Cargo.toml: is not a folder: full models",
            ),
            (
                &format!("--models {models} --strategy homogeneous"),
                "divides evenly",
            ),
            (
                &format!("--models {models} --type f32"),
                "rank0-a-together.points",
            ),
        ] {
            check_refusal(&mpi, &folder, options, part);
        }
        folder.write(
            "models/rank1-gemm.points",
            "# block: 8\n# kernel: jacobi\n1 1\n",
        );
        let given = format!("--models {models}");
        check_refusal(&mpi, &folder, &given, "kernel jacobi");
        folder.write("models/rank1-gemm.points", "# block: 8\nx\n");
        check_refusal(&mpi, &folder, &given, "rank1-gemm.points");
        fs::remove_file(folder.path("models/rank1-gemm.points")).expect("removable");
        check_refusal(&mpi, &folder, &given, "device c of rank 1");
    }
}

fn models(folder: &Folder, store: &str, line: &str) -> Outcome {
    let [mpi, _] = libraries();
    let mut command = Command::new(&mpi.isochron);
    command.arg("models").args(line.split_whitespace());
    use_store(&mut command, &folder.path(store));
    run(command, HANGS)
}

/// Imports a run of which the store has fewer sizes: the others are added.
fn check_longer_import(folder: &Folder) {
    let mut run = read_runs(folder).remove(0);
    let longer = StoreFolder::new(folder.path("longer").into(), true);
    let path = longer.write("longer", &[run.clone()]).expect("written");
    assert!(run.samples.len() > 1, "{run:?}");
    run.samples.truncate(1);
    let shorter = StoreFolder::new(folder.path("shorter").into(), true);
    shorter.write("shorter", &[run]).expect("written");
    let line = format!("import {}", path.display());
    for imported in [1, 0] {
        let told = models(folder, "shorter", &line).success();
        assert!(told.contains(&format!("imported {imported} run")), "{told}");
    }
}

/// Prunes a model that a folder of the site has too: that is never written, and the command says so.
fn check_site(folder: &Folder, name: &str) {
    let stores = format!("third:{}", folder.path("second"));
    let told = models(folder, &stores, &format!("prune --model {name}")).success();
    let words = "removed 0 runs and 0 leftovers\n2 runs of it in folders of the site stay";
    assert!(told.starts_with(words), "{told}");
}

/// Returns the names of models that have this word in their row of the list.
fn list_names(folder: &Folder, word: &str) -> Vec<String> {
    let text = models(folder, "store", "list").success();
    let rows = text.lines().filter(|row| row.contains(word));
    let names = rows.filter_map(|row| row.split(' ').next());
    names.map(str::to_owned).collect()
}

/// Divides units by these stored models; returns the message that refuses it.
fn refuse_division(folder: &Folder, names: [&str; 2]) -> String {
    let [mpi, _] = libraries();
    let mut command = Command::new(&mpi.isochron);
    command.args(["partition", "--units", "9", "--stored", "--models"]);
    command.args(names);
    use_store(&mut command, &folder.path("store"));
    run(command, HANGS).failure(2)
}

#[test]
fn units_go_to_models_of_devices_at_the_same_work() {
    let [mpi, _] = libraries();
    let folder = make_folder();
    multiply_by(&mpi, &folder, BRIEF);
    multiply_by(
        &mpi,
        &folder,
        "--m 64 --n 64 --k 16 --block 8 --panel 8 --type f32 --json",
    );
    let doubles = list_names(&folder, "gemm-update f64");
    let singles = list_names(&folder, "gemm-update f32");
    let links = list_names(&folder, "exchange");
    assert_eq!([doubles.len(), singles.len()], [3, 3]);
    let told = refuse_division(&folder, [&doubles[0], &singles[0]]);
    let both = [&doubles[0], &singles[0]];
    assert!(
        told.contains("unlike work") && both.iter().all(|name| told.contains(&***name)),
        "{told}"
    );
    let told = refuse_division(&folder, [&doubles[0], &links[0]]);
    assert!(
        told.contains(&links[0]) && told.contains("neither of a device nor of a kernel"),
        "{told}"
    );
    check_rows(&folder);
}

/// Checks that the list tells all models apart by more than their names.
fn check_rows(folder: &Folder) {
    let text = models(folder, "store", "list --json").success();
    let list: serde_json::Value = serde_json::from_str(&text).expect("a list");
    let listed = list["models"].as_array().expect("models").iter();
    let facts = ["host", "class", "work", "pace", "cores", "differs"];
    let mut rows: Vec<String> = listed
        .map(|model| facts.map(|fact| model[fact].to_string()).join(" "))
        .collect();
    let all = rows.len();
    rows.sort();
    rows.dedup();
    assert!(
        rows.len() == all && text.contains("\"differs\":[\""),
        "{text}"
    );
}

#[test]
fn models_that_are_not_read_are_named() {
    let [mpi, _] = libraries();
    let folder = make_folder();
    multiply_by(&mpi, &folder, BRIEF);
    let name = read_runs(&folder)[0].key.name();
    let whole = segments(&folder).remove(0);
    let text = fs::read(&whole).expect("a segment");
    fs::write(whole.with_file_name("cut.segment"), &text[..text.len() / 2]).expect("written");
    let newer = "{\"format\":\"isochron-models\",\"version\":5}\n";
    let newer_file = whole.with_file_name("newer.segment");
    fs::write(&newer_file, newer).expect("written");
    fs::create_dir(folder.path("store/v5")).expect("a new folder");
    let file = folder.path("all.models");
    for line in [
        "list",
        &format!("show {name}"),
        &format!("diff {name} {name}"),
        &format!("export {file}"),
        &format!("import {file}"),
        "compact",
        "prune --older-than 1000",
    ] {
        let outcome = models(&folder, "store", line);
        for part in [
            "cut.segment is not read: it is broken",
            "newer.segment is not read",
            "v5 is of a newer",
        ] {
            assert_eq!(
                outcome.stderr.matches(part).count(),
                1,
                "{line}: {outcome:?}"
            );
        }
        outcome.success();
    }
    fs::rename(
        whole.with_file_name("cut.segment"),
        whole.with_file_name("cut.broken"),
    )
    .expect("renamed");
    fs::write(whole.with_file_name(".left"), "").expect("written");
    let told = models(&folder, "store", "verify").success();
    let counts = "1 segment whole, 0 broken, 1 not read; 1 set aside, 1 leftover";
    assert!(
        told.contains(counts) && told.contains("v5 is of a newer"),
        "{told}"
    );
    let told = models(
        &folder,
        "store",
        &format!("import {}", newer_file.display()),
    )
    .failure(2);
    assert!(told.contains("by a newer isochron"), "{told}");
    // A folder that was named and is not there.
    let listed = models(&folder, "gone", "list").success();
    assert!(
        listed.contains("(read and written): does not exist"),
        "{listed}"
    );
    let exported = models(&folder, "gone", &format!("export {file}"));
    assert!(
        exported.stderr.contains("gone does not exist"),
        "{exported:?}"
    );
    let told = models(&folder, "gone", "verify").failure(1);
    assert!(told.contains("gone does not exist"), "{told}");
    let json = models(&folder, "gone", "verify --json");
    assert!(
        json.status == Some(1) && json.stdout.contains("\"is_sound\":false"),
        "{json:?}"
    );
}

#[test]
fn models_are_listed_compared_moved_and_removed() {
    let [mpi, _] = libraries();
    let folder = make_folder();
    for _ in 0..2 {
        multiply(&mpi, &folder, "");
    }
    let text = models(&folder, "store", "list").success();
    let names: Vec<&str> = text
        .lines()
        .skip(1)
        .take(3)
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert!(
        text.contains("2 segments") && names.iter().all(|name| name.len() == 8),
        "{text}"
    );
    let shown = models(&folder, "store", &format!("show {}", names[0])).success();
    assert!(
        shown.contains("2 runs, of which 2 count") && shown.contains("corunners"),
        "{shown}"
    );
    // Each run has a line with its date, and its repetitions on request.
    let with_runs = models(&folder, "store", &format!("show {} --runs", names[0])).success();
    let dates = shown.lines().filter(|line| line.contains(" UTC on "));
    assert!(
        dates.count() == 2 && with_runs.len() > shown.len(),
        "{with_runs}"
    );
    let same = models(&folder, "store", &format!("diff {0} {0}", names[0])).success();
    assert!(same.contains("both names are those of"), "{same}");
    let compared = models(&folder, "store", &format!("diff {} {}", names[0], names[1])).success();
    assert!(
        compared.contains("corunners") && compared.contains("ratio"),
        "{compared}"
    );
    for line in [
        format!(
            "partition --units 1000 --models {} {} --stored",
            names[0], names[1]
        ),
        format!("model {} --stored --at 100", names[0]),
    ] {
        let mut command = Command::new(&mpi.isochron);
        command.args(line.split(' '));
        use_store(&mut command, &folder.path("store"));
        let told = run(command, HANGS).success();
        assert!(told.contains(names[0]), "{told}");
    }
    let file = folder.path("all.models");
    models(&folder, "store", &format!("export {file}")).success();
    let told = models(&folder, "second", &format!("import {file}")).success();
    assert!(told.contains("imported 7 runs"), "{told}");
    let told = models(&folder, "second", &format!("import {file}")).success();
    assert!(told.contains("imported 0 runs"), "{told}");
    check_longer_import(&folder);
    check_site(&folder, names[0]);
    let told = models(&folder, "store", "compact").success();
    assert!(told.contains("2 segments with 7 runs are one"), "{told}");
    assert_eq!((segments(&folder).len(), read_runs(&folder).len()), (1, 7));
    assert_eq!(
        list_known(&multiply(&mpi, &folder, "")),
        [KnownFrom::Store; 3]
    );
    let told = models(&folder, "store", &format!("prune --model {}", names[0])).success();
    assert!(told.contains("removed 3 runs"), "{told}");
    let told = models(&folder, "store", "prune --older-than 1").success();
    assert!(told.contains("removed 0 runs"), "{told}");
    models(&folder, "store", "verify").success();
    fs::write(folder.path("store/v4/x.segment"), "x").expect("written");
    let told = models(&folder, "store", "verify").failure(1);
    assert!(
        told.contains("x.segment") && told.contains("1 broken"),
        "{told}"
    );
}

#[test]
fn wrong_names_and_files_of_models_are_told() {
    let folder = make_folder();
    folder.write("no.models", "x");
    for (line, part) in [
        ("show 12345678", "there is no model 12345678"),
        ("diff 1 2", "there is no model 1"),
        ("import /not/there", "/not/there"),
        (
            &*format!("import {}", folder.path("no.models")),
            "no.models: is no file of models",
        ),
        ("prune", "--older-than"),
    ] {
        let told = models(&folder, "store", line).failure(2);
        assert!(told.contains(part), "{line}: {told}");
    }
    let [mpi, _] = libraries();
    for (store, part) in [
        (String::new(), "there is no store"),
        (folder.path("no.models"), "no.models: is not a folder"),
    ] {
        let mut command = Command::new(&mpi.isochron);
        command
            .args(["models", "list"])
            .env("ISOCHRON_STORE", store);
        let told = run(command, HANGS).failure(2);
        assert!(told.contains(part), "{told}");
    }
}
