//! Timelines of runs, read back with the messages of Perfetto's own package.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use isochron_tests::launch::{
    HANGS, Mpi, SOON, cluster_configs, libraries, python, python_packages, run,
};
use serde_json::Value;

use crate::cluster;
use crate::command::{Folder, json};
use crate::learnt::{SLOW, make_folder};

/// Returns a folder with the messages of Perfetto for Python. It is made once for all tests.
fn install_messages() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("perfetto");
        let _ = std::fs::remove_dir_all(&folder);
        let tools = python_packages().with_file_name("python-tools");
        let mut command = Command::new(tools.join("bin/python"));
        command.args(["-m", "pip", "--quiet", "--disable-pip-version-check"]);
        command.args(["install", "--no-compile", "--no-index", "--find-links"]);
        command.arg(python_packages()).arg("--target").arg(&folder);
        command.arg("perfetto");
        run(command, HANGS).success();
        folder
    })
}

/// A trace as Perfetto's messages have it.
struct ReadTrace {
    tracks: BTreeMap<String, Value>,
    slices: Vec<Value>,
    counters: Vec<Value>,
}

impl ReadTrace {
    /// Reads a trace, and checks what holds for every one: each event is on a track with a name, slices have a length and do
    /// not overlap, flows have both ends, and no counter is negative.
    fn read(path: &str) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/system/trace/read.py");
        let mut command = Command::new(python());
        command.arg(script).arg(path);
        command.env("PYTHONPATH", install_messages());
        let mut found = json(&run(command, HANGS).success());
        assert_eq!(found["open"], 0, "slices without an end");
        let list = |value: Value| value.as_array().expect("a list").clone();
        let tracks = found["tracks"].as_object().expect("tracks").clone();
        let trace = Self {
            tracks: tracks.into_iter().collect(),
            slices: list(found["slices"].take()),
            counters: list(found["counters"].take()),
        };
        trace.check();
        trace
    }

    fn check(&self) {
        assert!(!self.slices.is_empty() && !self.counters.is_empty());
        for track in self.tracks.values() {
            assert_ne!(track["name"], "", "{track}");
        }
        let mut ends = BTreeMap::<(&str, u64), u64>::new();
        let (mut begun, mut ended) = (BTreeSet::new(), BTreeSet::new());
        for slice in &self.slices {
            let [begin_ns, end_ns, depth] =
                ["begin_ns", "end_ns", "depth"].map(|key| slice[key].as_u64().expect("a number"));
            assert!(begin_ns < end_ns, "{slice}");
            let is_nested = slice["category"].as_str() != Some("phase")
                && self.name_track(slice) == "phases and steps";
            assert!(is_nested || depth == 0, "{slice}");
            let before = ends.insert((text(&slice["track"]), depth), end_ns);
            assert!(before.is_none_or(|before| before <= begin_ns), "{slice}");
            for (key, flows) in [("flows", &mut begun), ("ended_flows", &mut ended)] {
                for flow in slice[key].as_array().expect("flows") {
                    assert!(flows.insert(text(flow)), "a flow twice: {slice}");
                }
            }
        }
        assert_eq!(begun, ended);
        for counter in &self.counters {
            let value = counter["value"].as_f64();
            assert!(value.is_some_and(|value| value >= 0.0), "{counter}");
            assert_eq!(self.tracks[text(&counter["track"])]["is_counter"], true);
        }
    }

    fn name_track(&self, event: &Value) -> &str {
        text(&self.tracks[text(&event["track"])]["name"])
    }

    /// Returns the process of a rank.
    fn find_process(&self, rank: usize) -> (&str, &Value) {
        let name = format!("rank {rank} on ");
        let is_of_rank = |track: &Value| text(&track["name"]).starts_with(&name);
        let mut found = self.tracks.iter().filter(|(_, track)| is_of_rank(track));
        let (number, track) = found.next().expect("the rank");
        (number, track)
    }

    /// Lists the slices of a rank on the tracks of this name.
    fn list_slices(&self, rank: usize, track: &str) -> Vec<&Value> {
        let (process, _) = self.find_process(rank);
        let slices = self.slices.iter();
        slices
            .filter(|slice| {
                let of = &self.tracks[text(&slice["track"])];
                of["process"] == process && text(&of["name"]) == track
            })
            .collect()
    }

    /// Lists the steps that a device has updated C in, in the order of time.
    fn list_steps(&self, rank: usize, device: &str, work: &str) -> Vec<u64> {
        let slices = self.list_slices(rank, device).into_iter();
        slices
            .filter(|slice| slice["name"] == work)
            .map(|slice| slice["step"].as_u64().expect("a step"))
            .collect()
    }

    fn list_names(&self, rank: usize) -> Vec<&str> {
        let slices = self.list_slices(rank, "phases and steps").into_iter();
        slices.map(|slice| text(&slice["name"])).collect()
    }
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

/// Runs `isochron` with the words of a line and a trace, which it returns.
fn trace_run(mpi: &Mpi, folder: &Folder, ranks: usize, line: &str) -> ReadTrace {
    let path = folder.path("t.pftrace");
    let words = folder.words(&format!("{line} --trace {path}"));
    let mut command = mpi.command(ranks, &mpi.isochron, &words);
    command.env("ISOCHRON_TEST_FORCED_CHANGES", "2");
    run(command, HANGS).success();
    ReadTrace::read(&path)
}

/// Names of the phases of every multiplication.
const PHASES: [&str; 7] = [
    "starting",
    "looking for devices",
    "measuring and planning",
    "reading or making matrices",
    "multiplying",
    "checking the result",
    "writing results",
];

#[test]
fn a_timeline_has_every_step_of_every_device() {
    let folder = Folder::new();
    let platform = cluster_configs().join("emulated-4.toml");
    let line = format!(
        "mxm --m 200 --n 250 --k 256 --block 16 --panel 32 --split c --strategy homogeneous --platform {}",
        platform.display()
    );
    for mpi in libraries() {
        let trace = trace_run(&mpi, &folder, 4, &line);
        for rank in 0..4 {
            let devices = if rank < 3 { 1 } else { 2 };
            for device in 0..devices {
                let steps = trace.list_steps(rank, &format!("cpu{device}"), "update");
                assert!(steps.iter().copied().eq(0..8), "{rank} {device} {steps:?}");
            }
            let names = trace.list_names(rank);
            let steps = names.iter().filter(|name| name.starts_with("step "));
            assert_eq!(steps.count(), 8, "{names:?}");
            for phase in PHASES {
                assert!(names.contains(&phase), "{phase}: {names:?}");
            }
            // Each device of the rank gets a flow of all panels that come by message.
            let panels = trace.list_slices(rank, "messages");
            let begun = panels.iter().map(|slice| slice["flows"].as_array());
            let begun = begun.map(|flows| flows.expect("flows").len());
            assert!(begun.clone().any(|flows| flows == devices), "{panels:?}");
        }
    }
}

#[test]
fn a_timeline_shows_looks_and_changes_of_the_division() {
    let folder = make_folder();
    for mpi in libraries() {
        let trace = trace_run(&mpi, &folder, 2, &format!("mxm {SLOW} --split c"));
        let names = [0, 1].map(|rank| trace.list_names(rank));
        for names in &names {
            assert!(names.contains(&"measurement 1"), "{names:?}");
            assert!(names.contains(&"waiting for the other ranks"), "{names:?}");
        }
        let changes = names.concat();
        let changes =
            changes.iter().filter(|name| ["moving C", "changing columns"].contains(*name));
        assert!(changes.count() > 0, "{names:?}");
        for (rank, devices) in [(0, &["a", "b"][..]), (1, &["c"])] {
            let mut steps = BTreeSet::new();
            for device in devices {
                let of_device = trace.list_steps(rank, device, "update");
                assert!(of_device.is_sorted_by(|a, b| a < b), "{of_device:?}");
                steps.extend(of_device);
                let slices = trace.list_slices(rank, device);
                let looks = slices.iter().filter(|slice| slice["name"] == "measurement");
                assert!(looks.count() > 0, "{device}: {slices:?}");
            }
            assert!(steps.into_iter().eq(0..12), "rank {rank}");
        }
        let trace = trace_run(&mpi, &folder, 2, &format!("mxm {SLOW} --split k"));
        let names = trace.list_names(1);
        assert!(names.contains(&"summing C"), "{names:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn clocks_of_several_hosts_are_compared() {
    let Some(cluster) = cluster::bring_up("trace", 2, cluster::LINKS, &[]) else {
        return;
    };
    let folder = Folder::new();
    let path = folder.path("t.pftrace");
    let line = format!(
        "mxm --size 256 --block 32 --panel 32 --split c --strategy homogeneous --store none --trace {path}"
    );
    run(cluster::line_command(&cluster, &[1, 2], &line), HANGS).success();
    let trace = ReadTrace::read(&path);
    let errors_ns = [0, 1, 2].map(|rank| {
        let (_, process) = trace.find_process(rank);
        let label = process["labels"].as_array().expect("labels").first();
        label.map_or(0.0, |label| {
            let words: Vec<&str> = text(label).split(' ').collect();
            let [.., error_us, "µs"] = words[..] else {
                panic!("{label}");
            };
            1e3 * error_us.parse::<f64>().expect("a number")
        })
    });
    assert!(errors_ns[0] == 0.0 && errors_ns[1] > 0.0, "{errors_ns:?}");
    assert_eq!(errors_ns[1], errors_ns[2], "ranks of a host share its clock");
    // The emulated hosts read one clock, so panels that arrive have been sent before, within what the comparison may be off.
    let times_of = |rank: usize, key: &str| -> BTreeMap<u64, f64> {
        let lanes = ["messages", "messages 2", "messages 3", "messages 4"];
        let slices = lanes.iter().flat_map(|lane| trace.list_slices(rank, lane));
        slices
            .map(|slice| (slice["step"].as_u64(), slice[key].as_f64()))
            .map(|(step, time)| (step.expect("a step"), time.expect("a time")))
            .collect()
    };
    let [first, second] = [0, 1].map(|rank| [times_of(rank, "begin_ns"), times_of(rank, "end_ns")]);
    let last = second[1].values().copied().fold(0.0, f64::max);
    let begun = first[0].values().copied().fold(f64::INFINITY, f64::min);
    // Half a microsecond was cut from the error that the label tells.
    assert!(last + errors_ns[1] + 100.0 >= begun, "{first:?} {second:?}");
}

#[test]
fn traces_that_cannot_be_written_are_refused_before_the_work() {
    let folder = Folder::new();
    let [mpi, _] = libraries();
    for (line, reason) in [
        ("mxm --size 64 --trace @", "is a folder"),
        ("mxm --size 64 --trace @missing/t.pftrace", "there is no folder"),
        ("mxm --size 64 --plan --trace @t.pftrace", "'--plan' cannot be used with '--trace"),
    ] {
        let stderr = run(mpi.command(2, &mpi.isochron, &folder.words(line)), SOON).failure(2);
        assert_eq!(stderr.matches(reason).count(), 1, "{stderr}");
    }
}
