//! Segments in folders that are shared, full, broken or read while they change.

use std::process::Command;

use rustix::io::Errno;
use tempfile::TempDir;

use super::super::segment::tests::stored;
use super::*;
use crate::fault::injected::{Fault, run_with};

const STAGES: [&str; 6] = ["create", "half", "written", "synced", "linked", "named"];

fn open(folder: &TempDir) -> StoreFolder {
    StoreFolder::new(folder.path().to_owned(), true)
}

/// Reads the store, and returns the writers of its runs and the words.
fn read(store: &StoreFolder) -> (Vec<String>, Vec<String>) {
    let mut words = Vec::new();
    let runs =
        store.read_all(&mut words).into_iter().filter_map(|segment| segment.runs.ok()).flatten();
    (runs.map(|run| run.writer).collect(), words)
}

fn write(store: &StoreFolder, writer: &str) -> Result<PathBuf, Error> {
    store.write(writer, &[stored(writer, 1, &[(10, &[0.5])])])
}

#[test]
fn a_segment_is_copied_to_a_store_that_lacks_it() {
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [one, other] =
        folders.each_ref().map(|folder| StoreFolder::new(folder.path().to_owned(), true));
    let mut last = None;
    for seconds in [0.5, 0.25] {
        let runs = [stored("w", 1, &[(10, &[seconds])])];
        let segment = one.make_segment("w", &runs).unwrap();
        one.write_segment(&segment).unwrap();
        assert_ne!(last.replace(segment.clone()), Some(segment.clone()));
        // The second time in place of what the job wrote before.
        for written in [true, false] {
            assert_eq!(other.copy_segment(&segment).unwrap(), written);
            let found = other.find_all().unwrap();
            assert_eq!(found.len(), 1);
            assert_eq!(found[0].runs, Ok(runs.to_vec()));
        }
        assert!(!one.copy_segment(&segment).unwrap());
    }
}

#[test]
fn a_store_that_is_not_there_is_empty() {
    let folder = tempfile::tempdir().unwrap();
    let store = StoreFolder::new(folder.path().join("not/there"), true);
    assert_eq!(read(&store), (vec![], vec![]));
    write(&store, "a").unwrap();
    assert_eq!(read(&store), (vec!["a".to_owned()], vec![]));
}

/// Writes to the store that the environment names, and is killed at the stage that it names. Without them it does nothing.
#[test]
fn killed_writer() {
    let [Ok(folder), Ok(stage)] = ["STORE_TEST_FOLDER", "STORE_TEST_STAGE"].map(std::env::var)
    else {
        return;
    };
    let store = StoreFolder::new(folder.into(), true);
    let stage = STAGES.into_iter().find(|known| *known == stage).unwrap();
    let _ = run_with(stage, Fault::Death, || write(&store, "killed"));
}

#[test]
fn a_writer_killed_at_any_point_loses_nothing_and_leaves_nothing_half() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    write(&store, "before").unwrap();
    for stage in STAGES {
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "store::folder::tests::killed_writer"])
            .env("STORE_TEST_FOLDER", folder.path())
            .env("STORE_TEST_STAGE", stage)
            .output()
            .unwrap()
            .status;
        assert!(!status.success(), "{stage} was not reached");
        let (writers, words) = read(&store);
        let expected: &[&str] = match stage {
            "named" => &["before", "killed"],
            _ => &["before"],
        };
        assert!(writers == expected && words.is_empty(), "{stage} {writers:?} {words:?}");
    }
    write(&store, "later").unwrap();
    assert_eq!(read(&store).0, ["before", "killed", "later"]);
}

#[test]
fn a_full_disk_at_any_point_is_told_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    write(&store, "before").unwrap();
    for stage in &STAGES[..5] {
        let fault = Fault::Refusal(Errno::NOSPC);
        let text = run_with(stage, fault, || write(&store, "refused")).unwrap_err().to_string();
        assert!(text.contains("refused.segment") && text.contains("space"), "{text}");
        assert_eq!(read(&store), (vec!["before".to_owned()], vec![]));
        let left = fs::read_dir(folder.path().join("v4")).unwrap().count();
        assert_eq!(left, 1, "{stage}");
    }
}

#[test]
fn a_store_that_cannot_be_written_is_read() {
    let folder = tempfile::tempdir().unwrap();
    write(&open(&folder), "before").unwrap();
    fs::write(folder.path().join("v4/x.segment"), "{").unwrap();
    let site = StoreFolder::new(folder.path().to_owned(), false);
    let refused = run_with("set aside", Fault::Refusal(Errno::ROFS), || read(&open(&folder)));
    for (writers, words) in [read(&site), refused, read(&site)] {
        assert_eq!(writers, ["before"]);
        assert!(words.len() == 1 && words[0].contains("x.segment is not read"), "{words:?}");
    }
    // A file in the place of a folder.
    fs::write(folder.path().join("file"), "").unwrap();
    let store = StoreFolder::new(folder.path().join("file"), true);
    let (writers, words) = read(&store);
    assert!(writers.is_empty() && words.len() == 1, "{words:?}");
    assert!(write(&store, "a").is_err());
}

#[test]
fn broken_segments_are_set_aside_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let [whole, cut] = ["a", "b"].map(|writer| write(&store, writer).unwrap());
    let text = fs::read(&cut).unwrap();
    fs::write(&cut, &text[..text.len() / 2]).unwrap();
    fs::write(whole.with_file_name("c.segment"), b"\xff\xfe").unwrap();
    let (writers, words) = read(&store);
    assert_eq!(writers, ["a"]);
    assert!(words.len() == 2 && words[0].contains("b.segment is set aside"), "{words:?}");
    assert_eq!(read(&store), (vec!["a".to_owned()], vec![]));
    let kept = fs::read(cut.with_extension(SET_ASIDE)).unwrap();
    assert_eq!(kept, &text[..text.len() / 2]);
}

#[test]
fn newer_versions_are_ignored_with_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let newer = write(&store, "a").unwrap().with_file_name("new.segment");
    fs::write(&newer, "{\"format\":\"isochron-models\",\"version\":5}\n").unwrap();
    fs::create_dir(folder.path().join("v5")).unwrap();
    let (writers, words) = read(&store);
    assert_eq!(writers, ["a"]);
    assert!(words.len() == 2 && words.iter().any(|word| word.contains("version 5")));
    assert!(newer.exists());
}

#[test]
fn a_segment_that_was_replaced_since_it_was_read_is_not_removed() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    for gone in [false, true] {
        write(&store, "a").unwrap();
        let found = store.find_all().unwrap().remove(0);
        if !gone {
            write(&store, "a").unwrap();
        }
        assert_eq!(store.remove_found(&found).unwrap(), gone);
        assert_eq!(read(&store).0.len(), usize::from(!gone));
        assert_eq!(store.find_leftovers().unwrap(), [] as [PathBuf; 0]);
    }
}

#[test]
fn what_is_no_file_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let pipe = write(&store, "a").unwrap().with_file_name("pipe.segment");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let (writers, words) = read(&store);
    assert_eq!((writers.len(), words.len()), (1, 1), "{words:?}");
    assert!(pipe.exists());
}

#[test]
fn segments_that_are_merged_while_they_are_read_are_not_missed() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    for writer in ["a", "b"] {
        write(&store, writer).unwrap();
    }
    let old = store.find_all().unwrap();
    let mut listings = 0;
    let found = read_listed(|| {
        let paths = store.list_files();
        listings += 1;
        if listings == 1 {
            let runs = old.iter().flat_map(|segment| segment.runs.clone().unwrap());
            store.write("merged", &runs.collect::<Vec<_>>()).unwrap();
            for segment in &old {
                assert!(store.remove_found(segment).unwrap());
            }
        }
        paths
    });
    let found = found.unwrap();
    let runs = found[0].runs.as_ref().unwrap();
    assert_eq!((found.len(), runs.len(), listings), (1, 2, 2));
}

#[test]
fn a_segment_that_could_not_be_read_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let mut run = stored("w", 1, &[(10, &[0.5])]);
    run.samples[0].seconds = vec![0.123_456_789_012_345_67; LARGEST_BYTES as usize / 20];
    let refused = store.write("w", &[run]).unwrap_err().to_string();
    assert!(refused.contains("w.segment") && refused.contains("bytes"), "{refused}");
    assert_eq!(read(&store), (vec![], vec![]));
}

#[test]
fn many_writers_of_one_host_name_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    std::thread::scope(|threads| {
        for _ in 0..8 {
            threads.spawn(|| {
                for _ in 0..20 {
                    let writer = name_writer("same.host/x");
                    write(&store, &writer).unwrap();
                    let (writers, words) = read(&store);
                    assert!(writers.contains(&writer) && words.is_empty(), "{words:?}");
                }
            });
        }
    });
    let (writers, _) = read(&store);
    assert_eq!(writers.len(), 160);
}
