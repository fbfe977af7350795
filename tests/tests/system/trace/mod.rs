//! Timelines of runs, read back.

use std::collections::{BTreeMap, BTreeSet};

use isochron_tests::launch::{HANGS, Mpi, SOON, cluster_configs, libraries, open_mpi, run};
use serde_json::Value;

use crate::command::Folder;
use crate::learnt::{SLOW, make_folder};
use isochron_tests::cluster;

/// A trace, with its times in nanoseconds.
struct ReadTrace {
    /// The name and the labels of each process, by its number.
    processes: BTreeMap<u64, (String, String)>,
    /// The name of each track, by the numbers of its process and of itself.
    tracks: BTreeMap<(u64, u64), String>,
    slices: Vec<Slice>,
    counters: Vec<Value>,
}

/// A slice of a trace.
#[derive(Debug)]
struct Slice {
    track: (u64, u64),
    name: String,
    begin_ns: f64,
    end_ns: f64,
    event: Value,
    flows: Vec<u64>,
    ended_flows: Vec<u64>,
}

fn number(event: &Value, key: &str) -> u64 {
    event[key].as_u64().unwrap_or_else(|| panic!("{key} of {event}"))
}

impl ReadTrace {
    /// Reads a trace, and checks what holds for every one: each event is on a track with a name, slices have a length and do
    /// not overlap, flows have both ends, and no counter is negative.
    fn read(path: &str) -> Self {
        let text = std::fs::read_to_string(path).expect("the trace");
        let found: Value = serde_json::from_str(&text).expect("JSON");
        let mut trace = Self {
            processes: BTreeMap::new(),
            tracks: BTreeMap::new(),
            slices: Vec::new(),
            counters: Vec::new(),
        };
        for event in found["traceEvents"].as_array().expect("events") {
            trace.add(event);
        }
        trace.check();
        trace
    }

    fn add(&mut self, event: &Value) {
        let process = number(event, "pid");
        let kind = text(&event["ph"]);
        if kind == "C" {
            return self.counters.push(event.clone());
        }
        let track = (process, number(event, "tid"));
        let name = text(&event["name"]).to_owned();
        match (kind, name.as_str()) {
            ("M", "process_name") => {
                self.processes.entry(process).or_default().0 =
                    text(&event["args"]["name"]).to_owned();
            }
            ("M", "process_labels") => {
                self.processes.entry(process).or_default().1 =
                    text(&event["args"]["labels"]).to_owned();
            }
            ("M", "thread_name") => {
                self.tracks.insert(track, text(&event["args"]["name"]).to_owned());
            }
            ("X", _) => {
                let [at_us, took_us] =
                    ["ts", "dur"].map(|key| event[key].as_f64().expect("a time"));
                self.slices.push(Slice {
                    track,
                    name,
                    begin_ns: (1e3 * at_us).round(),
                    end_ns: (1e3 * at_us).round() + (1e3 * took_us).round(),
                    event: event.clone(),
                    flows: Vec::new(),
                    ended_flows: Vec::new(),
                });
            }
            ("s" | "f", _) => {
                // A flow is bound to the slice of its track that has just begun.
                let slice = self.slices.last_mut().expect("a slice");
                let at_ns = event["ts"].as_f64().map(|at_us| (1e3 * at_us).round());
                assert_eq!((slice.track, Some(slice.begin_ns)), (track, at_ns), "{event}");
                let flows = if kind == "s" { &mut slice.flows } else { &mut slice.ended_flows };
                flows.push(number(event, "id"));
            }
            ("M", "process_sort_index" | "thread_sort_index") | ("i", _) => {}
            _ => panic!("{event}"),
        }
    }

    fn check(&self) {
        assert!(!self.slices.is_empty() && !self.counters.is_empty());
        let mut open = BTreeMap::<(u64, u64), Vec<f64>>::new();
        let (mut begun, mut ended) = (BTreeSet::new(), BTreeSet::new());
        for slice in &self.slices {
            assert!(slice.begin_ns < slice.end_ns, "{slice:?}");
            let around = open.entry(slice.track).or_default();
            around.retain(|end_ns| *end_ns > slice.begin_ns);
            let is_nested =
                self.tracks[&slice.track] == "phases and steps" && slice.event["cat"] != "phase";
            assert!(is_nested || around.is_empty(), "{slice:?}");
            assert!(around.iter().all(|end_ns| slice.end_ns <= *end_ns), "{slice:?}");
            around.push(slice.end_ns);
            for (flows, all) in [(&slice.flows, &mut begun), (&slice.ended_flows, &mut ended)] {
                assert!(flows.iter().all(|flow| all.insert(*flow)), "a flow twice: {slice:?}");
            }
        }
        assert_eq!(begun, ended);
        for counter in &self.counters {
            let args = counter["args"].as_object().expect("values");
            let value = args.values().next().and_then(Value::as_f64);
            assert!(value.is_some_and(|value| value >= 0.0), "{counter}");
        }
    }

    /// Returns the number of the process of a rank, and its labels.
    fn find_process(&self, rank: usize) -> (u64, &str) {
        let beginning = format!("rank {rank} on ");
        let mut found = self.processes.iter();
        let found = found.find(|(_, (name, _))| name.starts_with(&beginning));
        let (number, (_, labels)) = found.expect("the rank");
        (*number, labels)
    }

    /// Lists the slices of a rank on the tracks of this name.
    fn list_slices(&self, rank: usize, track: &str) -> Vec<&Slice> {
        let (process, _) = self.find_process(rank);
        let slices = self.slices.iter();
        slices
            .filter(|slice| slice.track.0 == process && self.tracks[&slice.track] == track)
            .collect()
    }

    /// Lists the steps that a device has updated C in, in the order of time.
    fn list_steps(&self, rank: usize, device: &str, work: &str) -> Vec<u64> {
        let slices = self.list_slices(rank, device).into_iter();
        slices
            .filter(|slice| slice.name == work)
            .map(|slice| number(&slice.event["args"], "step"))
            .collect()
    }

    fn list_names(&self, rank: usize) -> Vec<&str> {
        let slices = self.list_slices(rank, "phases and steps").into_iter();
        slices.map(|slice| slice.name.as_str()).collect()
    }
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

/// Runs `isochron` with the words of a line and a trace, which it returns.
fn trace_run(mpi: &Mpi, folder: &Folder, ranks: usize, line: &str) -> ReadTrace {
    let path = folder.path("t.json");
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
            assert!(panels.iter().any(|slice| slice.flows.len() == devices), "{panels:?}");
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
                let looks = slices.iter().filter(|slice| slice.name == "measurement");
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
    let path = folder.path("t.json");
    let line = format!(
        "mxm --size 256 --block 32 --panel 32 --split c --strategy homogeneous --store none --trace {path}"
    );
    run(cluster::line_command(&cluster, &[1, 2], &line), HANGS).success();
    let trace = ReadTrace::read(&path);
    let errors_ns = [0, 1, 2].map(|rank| {
        let (_, label) = trace.find_process(rank);
        let words: Vec<&str> = label.split(' ').collect();
        match words[..] {
            [""] => 0.0,
            [.., error_us, "µs"] => 1e3 * error_us.parse::<f64>().expect("a number"),
            _ => panic!("{label}"),
        }
    });
    assert!(errors_ns[0] == 0.0 && errors_ns[1] > 0.0, "{errors_ns:?}");
    assert_eq!(errors_ns[1], errors_ns[2], "ranks of a host share its clock");
    // The emulated hosts read one clock, so panels that arrive have been sent before, within what the comparison may be off.
    let times_of = |rank: usize, find: fn(&Slice) -> f64| -> BTreeMap<u64, f64> {
        let lanes = ["messages", "messages 2", "messages 3", "messages 4"];
        let slices = lanes.iter().flat_map(|lane| trace.list_slices(rank, lane));
        slices.map(|slice| (number(&slice.event["args"], "step"), find(slice))).collect()
    };
    let [first, second] = [0, 1]
        .map(|rank| [times_of(rank, |slice| slice.begin_ns), times_of(rank, |slice| slice.end_ns)]);
    let last = second[1].values().copied().fold(0.0, f64::max);
    let begun = first[0].values().copied().fold(f64::INFINITY, f64::min);
    // Half a microsecond was cut from the error that the label tells.
    assert!(last + errors_ns[1] + 100.0 >= begun, "{first:?} {second:?}");
}

#[test]
fn traces_that_cannot_be_written_are_refused_before_the_work() {
    let folder = Folder::new();
    let mpi = open_mpi();
    for (line, reason) in [
        ("mxm --size 64 --trace @", "is a folder"),
        ("mxm --size 64 --trace @missing/t.json", "there is no folder"),
        ("mxm --size 64 --plan --trace @t.json", "'--plan' cannot be used with '--trace"),
    ] {
        let stderr = run(mpi.command(2, &mpi.isochron, &folder.words(line)), SOON).failure(2);
        assert_eq!(stderr.matches(reason).count(), 1, "{stderr}");
    }
}
