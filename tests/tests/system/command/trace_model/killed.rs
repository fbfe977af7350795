//! Readings that are killed, and go on.

use std::fs::{self, File};
use std::io::{Seek as _, Write as _};
use std::process::Command;

use isochron_tests::launch::{HANGS, libraries, run};
use serde_json::Value;

use super::{chrome_sized, list_points};
use crate::command::{Folder, json};

/// Bytes of traces after which the command writes the state of its reading.
const KEPT_BYTES: u64 = 256 << 20;

/// Ends a part of a trace by comments as long as the state of the reading is kept for. They are holes in the file.
fn write_comments(file: &mut File) {
    let line = 32 << 20;
    for _ in 0..=KEPT_BYTES / line {
        file.write_all(b"#").expect("space");
        file.seek_relative(line as i64).expect("a file");
        file.write_all(b"\n").expect("space");
    }
}

/// Writes lines of a trace.
fn write_records(file: &mut File, records: &str) {
    file.write_all(records.as_bytes()).expect("space");
}

/// Writes a trace of four iterations. The state is kept within the second one and the third one.
fn write_huge_trace(path: &str) {
    let mut file = File::create(path).expect("a writable folder");
    write_records(&mut file, "#Paraver (a):900_ns:1(1):1:1(1:1),0\n");
    write_records(&mut file, "2:1:1:1:1:10:7:1:8:40\n2:1:1:1:1:40:50000001:3\n");
    write_records(&mut file, "2:1:1:1:1:50:50000001:0\n2:1:1:1:1:93:7:2:8:50\n");
    write_records(&mut file, "2:1:1:1:1:100:50000001:3\n");
    write_comments(&mut file);
    write_records(&mut file, "2:1:1:1:1:117:50000001:0\n2:1:1:1:1:300:7:3:8:40\n");
    write_comments(&mut file);
    write_records(&mut file, "2:1:1:1:1:371:7:4:8:40\n2:1:1:1:1:900:7:0\n");
}

/// Makes a command that reads these traces.
fn read_events(traces: &[String], out: &str) -> Command {
    let [mpi, _] = libraries();
    let mut command = Command::new(&mpi.isochron);
    command.arg("trace-model").args(traces);
    command.args(["--event", "7", "--size", "8", "--json", "--out", out]);
    command
}

/// A reading of three traces that is killed. The state is kept twice in the first one, twice in the second one, and points are
/// written to two files.
struct KilledReading {
    folder: Folder,
    traces: [String; 3],
    out: String,
}

impl KilledReading {
    /// Kills a command that reads the traces when it writes the state of its reading for the time `killed`.
    fn start(killed: u32) -> Self {
        let folder = Folder::new();
        let traces = ["a.prv", "b.prv", "c.json"].map(|name| folder.path(name));
        for path in &traces[..2] {
            write_huge_trace(path);
        }
        let chrome = chrome_sized("40").replace("\"dur\": 2", "\"dur\": 0.3");
        fs::write(&traces[2], chrome).expect("a writable folder");
        let out = folder.path("models");
        let reading = Self { folder, traces, out };
        let mut command = reading.command(&reading.out, &[]);
        command.env("ISOCHRON_TEST_KILLED_AT", format!("synced:{killed}"));
        assert_eq!(run(command, HANGS).status, None, "killed");
        reading
    }

    fn command(&self, out: &str, more: &[&str]) -> Command {
        let mut command = read_events(&self.traces, out);
        command.args(more);
        command
    }

    /// Runs the command again; returns its notes, and what it has found and written.
    fn go_on(&self, more: &[&str]) -> (String, Value, Vec<(String, String)>) {
        self.read(&self.out, more)
    }

    /// Reads the traces from their beginnings.
    fn read_anew(&self) -> (String, Value, Vec<(String, String)>) {
        self.read(&self.folder.path("anew"), &[])
    }

    fn read(&self, out: &str, more: &[&str]) -> (String, Value, Vec<(String, String)>) {
        let outcome = run(self.command(out, more), HANGS);
        let notes = outcome.stderr.clone();
        let mut found = json(&outcome.success());
        for model in found["models"].as_array_mut().expect("models") {
            model["file"].take();
        }
        let files = fs::read_dir(out).expect("a folder").map(|entry| {
            let path = entry.expect("a file").path();
            let text = fs::read_to_string(&path).expect("a text");
            let lines = text.lines().filter(|line| !line.starts_with("# date"));
            let name = path.file_name().expect("a name").display().to_string();
            (name, lines.collect::<Vec<_>>().join("\n"))
        });
        let mut files: Vec<_> = files.collect();
        files.sort();
        (notes, found, files)
    }

    /// Changes the first record of a trace: the first iteration has no size any more.
    fn spoil(&self, path: &str, keep_time: bool) {
        let modified = fs::metadata(path).and_then(|there| there.modified());
        let mut file = File::options().write(true).open(path).expect("a trace");
        file.write_all(b"#Paraver (a):900_ns:1(1):1:1(1:1),0\n2:1:1:1:1:10:7:1:9:40\n")
            .expect("space");
        if keep_time {
            file.set_modified(modified.expect("a time")).expect("our file");
        }
    }
}

#[test]
fn a_reading_that_is_killed_goes_on_where_it_was_and_finds_the_same() {
    for killed in 1..=6 {
        let reading = KilledReading::start(killed);
        let whole = reading.read_anew();
        let points = [("process0", 40, 300), ("rank0", 40, 224), ("rank0", 50, 190)];
        let points = points.map(|(name, d, ns)| (name.to_owned(), d, ns));
        let found = list_points(&whole.1).into_iter();
        let found: Vec<_> = found.map(|(name, d, ns, _)| (name, d, ns)).collect();
        assert_eq!((&*whole.0, found), ("", points.to_vec()));
        // The records before the state that was kept are not read again: they would be refused.
        let [first, second, _] = &reading.traces;
        let known = [0, 0, 1, 1, 2, 2, 2][killed as usize];
        for spoilt in [first, second].into_iter().take(known) {
            reading.spoil(spoilt, true);
        }
        let (notes, found, files) = reading.go_on(&[]);
        assert_eq!(notes.matches("an earlier command has read").count(), known);
        assert_eq!((found, &files), (whole.1, &whole.2), "{killed}");
        assert_eq!(files.len(), 2, "no state is left behind: {files:?}");
    }
}

#[test]
fn a_trace_that_has_changed_is_read_again_and_so_are_all_for_other_options() {
    let reading = KilledReading::start(4);
    let [first, second, _] = &reading.traces;
    // The first trace stays as it was read, though its content would be refused now.
    reading.spoil(first, true);
    let file = File::options().write(true).open(second).expect("a trace");
    file.set_modified(std::time::UNIX_EPOCH).expect("our file");
    let (notes, found, _) = reading.go_on(&[]);
    assert!(notes.contains(&format!("{second}: has changed since")), "{notes}");
    assert_eq!(notes.matches("an earlier command has read").count(), 1, "{notes}");
    assert_eq!(found, {
        write_huge_trace(first);
        reading.read_anew().1
    });

    let reading = KilledReading::start(4);
    let (notes, found, files) = reading.go_on(&["--per", "thread"]);
    assert!(notes.contains("7.reading: is of a command with other options"), "{notes}");
    assert_eq!(found["models"][1]["name"], "rank0-thread1", "{found}");
    assert_eq!(files.len(), 2, "{files:?}");
}

#[test]
fn readings_of_other_traces_stay_until_these_are_read() {
    let reading = KilledReading::start(4);
    let [.., last] = &reading.traces;
    let other = read_events(std::slice::from_ref(last), &reading.out);
    let outcome = run(other, HANGS);
    assert_eq!(outcome.stderr, "");
    outcome.success();
    let (notes, found, files) = reading.go_on(&[]);
    let known = notes.matches("an earlier command has read").count();
    assert_eq!(known, 2, "{notes}");
    let (_, whole, whole_files) = reading.read_anew();
    assert_eq!((found, files), (whole, whole_files));
}

#[test]
fn a_reading_that_cannot_be_kept_is_a_note() {
    let folder = Folder::new();
    let (trace, out) = (folder.path("a.prv"), folder.path("models"));
    write_huge_trace(&trace);
    // A folder has the name of the file.
    fs::create_dir_all(format!("{out}/7.reading/taken")).expect("a writable folder");
    let outcome = run(read_events(&[trace], &out), HANGS);
    let note = "7.reading: ";
    assert!(outcome.stderr.contains(note), "{}", outcome.stderr);
    let note = "a killed command will begin again";
    assert_eq!(outcome.stderr.matches(note).count(), 1, "{}", outcome.stderr);
    outcome.success();
}
