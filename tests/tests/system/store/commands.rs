//! `isochron models`, and the commands that take stored models by name.

use super::*;
use crate::command::check_told;

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
    models(folder, "store", "list")
        .success()
        .lines()
        .filter(|row| row.contains(word))
        .filter_map(|row| row.split(' ').next())
        .map(str::to_owned)
        .collect()
}

/// Divides units by these stored models; returns the message that refuses it.
fn refuse_division(folder: &Folder, names: [&str; 2]) -> String {
    let mpi = open_mpi();
    let mut command = Command::new(&mpi.isochron);
    command.args(["partition", "--units", "9", "--stored", "--models"]);
    command.args(names);
    use_store(&mut command, &folder.path("store"));
    run(command, HANGS).failure(2)
}

#[test]
fn units_go_to_models_of_devices_at_the_same_work() {
    let mpi = open_mpi();
    let folder = make_folder();
    multiply_by(&mpi, &folder, BRIEF);
    multiply_by(&mpi, &folder, "--m 64 --n 64 --k 16 --block 8 --panel 8 --type f32 --json");
    let doubles = list_names(&folder, "gemm-update f64");
    let singles = list_names(&folder, "gemm-update f32");
    let links = list_names(&folder, "pair");
    assert_eq!([doubles.len(), singles.len()], [3, 3]);
    let told = refuse_division(&folder, [&doubles[0], &singles[0]]);
    check_told(&told, &["unlike work", &doubles[0], &singles[0]], "unlike work");
    let told = refuse_division(&folder, [&doubles[0], &links[0]]);
    check_told(&told, &[&links[0], "neither of a device nor of a kernel"], "links");
}

#[test]
fn models_that_are_not_read_are_named() {
    let mpi = open_mpi();
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
    for line in ["list", &format!("show {name}"), &format!("export {file}"), "compact"] {
        let outcome = models(&folder, "store", line);
        for part in [
            "cut.segment is not read: it is broken",
            "newer.segment is not read",
            "v5 is of a newer",
        ] {
            assert_eq!(outcome.stderr.matches(part).count(), 1, "{line}: {outcome:?}");
        }
        outcome.success();
    }
    fs::rename(whole.with_file_name("cut.segment"), whole.with_file_name("cut.broken"))
        .expect("renamed");
    fs::write(whole.with_file_name(".left"), "").expect("written");
    let told = models(&folder, "store", "verify").success();
    let counts = "1 segment whole, 0 broken, 1 not read; 1 set aside, 1 leftover";
    assert!(told.contains(counts) && told.contains("v5 is of a newer"), "{told}");
    let told = models(&folder, "store", &format!("import {}", newer_file.display())).failure(2);
    assert!(told.contains("by that isochron"), "{told}");
    let told = models(&folder, "gone", "verify").failure(1);
    assert!(told.contains("gone does not exist"), "{told}");
}

#[test]
fn models_are_listed_compared_moved_and_removed() {
    let mpi = open_mpi();
    let folder = make_folder();
    for _ in 0..2 {
        multiply(&mpi, &folder, "");
    }
    let text = models(&folder, "store", "list").success();
    let names: Vec<&str> =
        text.lines().skip(1).take(3).filter_map(|line| line.split(' ').next()).collect();
    assert!(text.contains("2 segments") && names.iter().all(|name| name.len() == 8), "{text}");
    let shown = models(&folder, "store", &format!("show {}", names[0])).success();
    assert!(shown.contains("2 runs, of which 2 count") && shown.contains("corunners"), "{shown}");
    // Each run has a line with its date, and its repetitions on request.
    let with_runs = models(&folder, "store", &format!("show {} --runs", names[0])).success();
    let dates = shown.lines().filter(|line| line.contains(" UTC on "));
    assert!(dates.count() == 2 && with_runs.len() > shown.len(), "{with_runs}");
    let same = models(&folder, "store", &format!("diff {0} {0}", names[0])).success();
    assert!(same.contains("both names are those of"), "{same}");
    let compared = models(&folder, "store", &format!("diff {} {}", names[0], names[1])).success();
    assert!(compared.contains("corunners") && compared.contains("ratio"), "{compared}");
    let line = format!("partition --units 1000 --models {} {} --stored", names[0], names[1]);
    let mut command = mpi.line_command(1, &line);
    use_store(&mut command, &folder.path("store"));
    assert!(run(command, HANGS).success().contains(names[0]));
    models(&folder, "store", &format!("show {} --at 100", names[0])).success();
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
    assert_eq!(list_known(&multiply(&mpi, &folder, "")), [KnownFrom::Store; 3]);
    let told = models(&folder, "store", &format!("prune --model {}", names[0])).success();
    assert!(told.contains("removed 3 runs"), "{told}");
    let told = models(&folder, "store", "prune --older-than 1").success();
    assert!(told.contains("removed 0 runs"), "{told}");
    models(&folder, "store", "verify").success();
    fs::write(folder.path("store/v4/x.segment"), "x").expect("written");
    let told = models(&folder, "store", "verify").failure(1);
    assert!(told.contains("x.segment") && told.contains("1 broken"), "{told}");
}

#[test]
fn a_model_of_sizes_that_were_given_up_has_bounds_alone() {
    let mpi = open_mpi();
    let folder = make_folder();
    multiply_by(&mpi, &folder, BRIEF);
    change_runs(&folder, |run| {
        for sample in &mut run.samples {
            sample.at_least = true;
        }
    });
    let svg = folder.path("plot.svg");
    for run in read_runs(&folder) {
        let line = format!("show {} --svg {svg}", run.key.name());
        let shown = models(&folder, "store", &line).success();
        assert!(shown.contains(" units take at least "), "{shown}");
        let line = format!("show {} --json", run.key.name());
        let shown = models(&folder, "store", &line).success();
        assert!(shown.contains("\"points\":[]"), "{shown}");
    }
}

#[test]
fn wrong_names_and_files_of_models_are_told() {
    let folder = make_folder();
    folder.write("no.models", "x");
    for (line, part) in [
        ("show 12345678", "there is no model 12345678"),
        ("diff 1 2", "there is no model 1"),
        ("import /not/there", "/not/there"),
        (&*format!("import {}", folder.path("no.models")), "no.models: is no file of models"),
        ("prune", "--older-than"),
    ] {
        let told = models(&folder, "store", line).failure(2);
        assert!(told.contains(part), "{line}: {told}");
    }
    let mpi = open_mpi();
    for (store, part) in [
        (String::new(), "there is no store"),
        (folder.path("no.models"), "no.models: is not a folder"),
    ] {
        let mut command = Command::new(&mpi.isochron);
        command.args(["models", "list"]).env("ISOCHRON_STORE", store);
        let told = run(command, HANGS).failure(2);
        assert!(told.contains(part), "{told}");
    }
}
