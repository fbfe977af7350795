//! `isochron trace-model`.

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::Path;

use serde_json::Value;

use super::{Folder, answer, check_told, json, path_text, read_json, refused, run_limited, total};

const BY_BODIES: &str = "--event Iteration --size Bodies";

/// Returns the path of a trace that comes with the sources.
fn trace(name: &str) -> String {
    path_text(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../apps/tests/traces").join(name))
}

/// Returns name, size, nanoseconds and repetitions of each point.
fn list_points(found: &Value) -> Vec<(String, u64, u64, u64)> {
    let mut points = Vec::new();
    for model in found["models"].as_array().expect("models") {
        let name = model["name"].as_str().expect("a name");
        for point in model["points"].as_array().expect("points") {
            let ns = 1e9 * point["t_s"].as_f64().expect("a time");
            let [d, reps] = ["d", "reps"].map(|key| point[key].as_u64().expect("a number"));
            points.push((name.to_owned(), d, ns.round() as u64, reps));
        }
    }
    points
}

fn point(name: &str, d: u64, ns: u64, reps: u64) -> (String, u64, u64, u64) {
    (name.to_owned(), d, ns, reps)
}

#[test]
fn a_trace_of_extrae_makes_a_model_of_each_process() {
    let file = trace("nbody.prv");
    let ranks = [
        point("rank0", 3000, 31_200, 2),
        point("rank1", 2000, 21_400, 2),
        point("rank2", 1000, 12_400, 2),
    ];
    for options in [BY_BODIES, "--event 1000 --size 2000"] {
        let found = answer(&["trace-model"], &[&file], options);
        assert_eq!(list_points(&found), ranks, "{options}");
        assert_eq!(found["notices"].as_array().map(Vec::len), Some(0), "{found}");
        // Student's t of 31000 and 31400 ns: 12.706 · 200 ns.
        let ci_s = found["models"][0]["points"][0]["ci_s"].as_f64().expect("an interval");
        assert!((ci_s - 2541.2e-9).abs() < 1e-10, "{ci_s}");
    }
    // Value 2 begins the second iteration only. With all calls it takes as long everywhere.
    let line = "--event Iteration:2 --units 7 --exclude none";
    let found = answer(&["trace-model"], &[&file], line);
    assert_eq!(list_points(&found)[1], point("rank1", 7, 35_000, 1));
}

#[test]
fn a_hardware_counter_tells_the_size() {
    let file = trace("nbody.prv");
    let words = ["trace-model", &file, "--counter", "PAPI_TOT_INS [Instr completed]"];
    let line = "--event Iteration --per-unit 1000";
    let found = answer(&words, &[], line);
    // 30040 and 30060 instructions.
    assert_eq!(list_points(&found)[0], point("rank0", 30, 31_200, 2));
}

#[test]
fn a_trace_of_chrome_makes_the_same_models() {
    let file = trace("nbody.json");
    let line = "--event iteration --size bodies";
    let found = answer(&["trace-model"], &[&file], &format!("{line} --per-unit 1"));
    // An iteration may have its size at its end.
    let missing = format!("{file}: line 10: ");
    refused("trace-model --event forces --size bodies", &[&file], &[&missing]);
    let processes = [point("process0", 3000, 31_200, 2), point("process2", 1000, 12_400, 2)];
    assert_eq!(list_points(&found), processes);
    // An array alone may lack its end.
    let text = fs::read_to_string(&file).expect("a trace");
    let (_, array) = text.split_once("\"traceEvents\": ").expect("an array");
    let (array, _) = array.split_once("\n  ],").expect("its end");
    let folder = Folder::new();
    for end in ["\n]\n", "", ",\n", ",\n]"] {
        let file = folder.write("array.json", &format!("{array}{end}"));
        assert_eq!(list_points(&answer(&["trace-model"], &[&file], line)), processes);
    }
}

#[test]
fn runs_with_other_divisions_add_points_to_the_files() {
    let folder = Folder::new();
    let first = trace("nbody.prv");
    let text = fs::read_to_string(&first).expect("a trace");
    let second = folder.write("second.prv", &text.replace(":2000:3000", ":2000:2500"));
    let out = folder.path("models");
    let words = ["trace-model", "--event", "1000", "--size", "2000", "--out", &out];
    let found = answer(&words, &[&first, &second, &first], "");
    let first_rank = [point("rank0", 2500, 31_200, 2), point("rank0", 3000, 31_200, 4)];
    assert_eq!(list_points(&found)[..2], first_rank);
    let files = found["models"].as_array().expect("models").iter();
    let files: Vec<&str> = files.map(|model| model["file"].as_str().expect("a file")).collect();
    assert_eq!(files[0], format!("{out}/rank0-1000.points"));
    let text = fs::read_to_string(files[0]).expect("a points file");
    let headers = ["# format: isochron-points 1", "# kernel: 1000", "# traces: "];
    check_told(&text, &headers, files[0]);
    let divided = answer(&["partition", "--models"], &files, "--units 6000");
    assert_eq!(total(&divided["units"]), 6000, "{divided}");
}

/// Two applications, as Extrae heads them, a pair of communicators, and a collective operation of its predecessors.
const TWO_APPLICATIONS: &str = "#Paraver (21/01/2022 at 16:37):90_ns:1(20):2:2(1:1,1:1),1(1:1),3\n\
    c:1:1:2:1:2\ni:1:3:1:1:2:1\n\
    2:1:1:1:1:10:7:1:9:5\n2:3:2:1:1:12:7:1:9:6\n4:1:1:1:1:13:91:4:4:11:0\n\
    3:1:1:1:1:51:52:2:1:2:1:51:53:4096:7\n2:3:2:1:1:60:9:400\n\
    2:1:1:1:1:70:7:0:9:800\n2:3:2:1:1:90:7:0:9:1\n";

#[test]
fn applications_behind_a_comma_and_pairs_of_communicators_are_read() {
    let folder = Folder::new();
    let file = folder.write("a.prv", TWO_APPLICATIONS);
    let found = answer(&["trace-model"], &[&file], "--event 7 --counter 9");
    let points = [point("application2-rank0", 401, 78, 1), point("rank0", 800, 60, 1)];
    assert_eq!(list_points(&found), points);
    assert_eq!(found["notices"].as_array().map(Vec::len), Some(0), "{found}");
}

#[test]
fn flushes_do_not_count_and_bursts_and_unread_counters_are_named() {
    let folder = Folder::new();
    let flush = "2:1:1:1:1:20:40000003:1\n2:1:1:1:1:50:40000003:0\n3:1:1:1:1:51";
    let unread = TWO_APPLICATIONS.replace("90:7:0:9:1", "90:7:0");
    let bursts = TWO_APPLICATIONS.replace("10:7:1", "10:40000018:2:7:1");
    for (text, options, t_ns, notice) in [
        (TWO_APPLICATIONS, "--units 1", 30, None),
        (&*unread, "--counter 9", 30, Some("at both ends of 1 iteration,")),
        (&*bursts, "--units 1", 30, Some("in burst mode, without MPI's calls")),
        (&*bursts, "--units 1 --exclude none", 60, None),
    ] {
        let file = folder.write("a.prv", &text.replace("3:1:1:1:1:51", flush));
        let found = answer(&["trace-model"], &[&file], &format!("--event 7 {options}"));
        assert_eq!(list_points(&found)[1].2, t_ns, "{found}");
        let notices = found["notices"].as_array().expect("notices");
        assert_eq!(notices.len(), usize::from(notice.is_some()), "{found}");
        assert!(found["notices"].to_string().contains(notice.unwrap_or("")), "{found}");
    }
}

/// Returns a trace of Paraver with a state, an event and this record in line 4.
fn paraver(record: &str) -> String {
    format!("#Paraver (a):90_ns:1(1):1:1(1:1),0\n1:1:1:1:1:0:5:1\n2:1:1:1:1:5:7:1\n{record}")
}

/// Returns a trace of Chrome with these events, from line 2.
fn chrome(events: &str) -> String {
    format!("{{\"traceEvents\": [\n{events}\n]}}")
}

/// Returns a trace of Chrome with an iteration of this size.
fn chrome_sized(size: &str) -> String {
    chrome(&format!(
        "{{\"name\": \"7\", \"ph\": \"X\", \"ts\": 1, \"dur\": 2, \"args\": {{\"8\": {size}}}}}"
    ))
}

/// Returns a trace of Chrome with the beginning of an iteration, and its end in line 3.
fn chrome_ended(end: &str) -> String {
    chrome(&format!(
        "{{\"name\": \"7\", \"ph\": \"B\", \"ts\": 5, \"args\": {{\"8\": 3}}}},\n{{\"ph\": \"E\"{end}}}"
    ))
}

#[test]
fn what_is_no_trace_and_broken_ones_are_refused_with_their_line() {
    let header = "#Paraver (a):90_ns:1(1):1:1(1:1)\n";
    let good = chrome_sized("3");
    let folder = Folder::new();
    for (text, parts) in [
        (String::new(), "is empty"),
        ("hello\n".to_owned(), "line 1|neither"),
        ("#Paraver 2.0\n".to_owned(), "line 1|of a known version"),
        (header.replace("ns", "ps"), "line 1|unit of time \"ps\""),
        (header.trim_end().to_owned(), "line 1|truncated"),
        (header.to_owned(), "no event 7, and no other events"),
        ("{\"a\": 1}".to_owned(), "line 1|no array `traceEvents`"),
        (paraver("2:1:1:1:1:9:7:"), "line 4|no end: the trace is trunc"),
        (paraver("2:1:1:1:1:9:7:\n"), "line 4|\"\" is no whole number"),
        (paraver("2:1:1:1:1:9:7\n"), "line 4|7 fields"),
        (paraver("5:1:1:1:1:9:7:0\n"), "line 4|5 is no kind of record"),
        (paraver("2:1:1:0:1:9:7:0\n"), "line 4|task and thread are numbers from 1"),
        (paraver("2:1:1:1:1:4:7:0\n"), "line 4|4 after 5|backwards"),
        (paraver("2:1:1:1:1:9:7:0\n"), "line 4|has no size: no event 8"),
        (paraver("2:1:1:1:1:9:7:0:8:-3\n"), "line 4|size -3"),
        (paraver("2:1:1:1:1:5:7:0:8:3\n"), "line 4|took no time"),
        (paraver("2:1:1:1:1:9:8:3\n"), "no iteration of event 7 ended"),
        (paraver("").replace(":7:1", ":9:1"), "no event 7; its most|are 9"),
        (chrome(""), "no event 7, and no other"),
        (chrome_sized("0"), "line 2|size 0, which must be above 0"),
        (chrome_sized("NaN"), "line 2|no NaN"),
        (chrome_sized("null"), "line 2|is null"),
        (chrome_sized("0.3"), "line 2|0 units of 1"),
        (good.replace("\"dur\": 2", "\"rud\": 2"), "line 2|`dur` null"),
        (good.replace("\"dur\": 2", "\"dur\": -2"), "line 2|ends at -1"),
        (good.replace("]}", ""), "truncated"),
        (good[..50].to_owned(), "line 2|truncated"),
        (chrome_ended(", \"ts\": 4"), "no iteration of event 7 ended"),
        (chrome_ended(", \"name\": \"x\", \"ts\": 6"), "no iteration of event 7 ended"),
        (chrome_ended(""), "line 3|`ts` null"),
        (chrome("[1]"), "no event 7"),
    ] {
        let file = folder.write("a.prv", &text);
        let parts: Vec<&str> = parts.split('|').chain([file.as_str()]).collect();
        refused("trace-model --event 7 --size 8", &[&file], &parts);
    }
}

#[test]
fn events_that_have_nothing_to_do_with_the_question_stop_no_trace() {
    let good = ["10", "20"].map(|ts| {
        format!("{{\"name\": \"step\", \"ph\": \"X\", \"ts\": {ts}, \"dur\": 5, \"pid\": 1, \"tid\": 1}}")
    });
    let others = [
        "\"ph\": \"E\", \"ts\": 1, \"name\": \"other\"",
        "\"ph\": \"E\", \"ts\": 1",
        "\"ph\": \"X\", \"ts\": 1, \"dur\": -3, \"name\": \"other\"",
        "\"ph\": \"X\", \"ts\": 1, \"name\": \"other\"",
        "\"ph\": \"B\", \"name\": \"other\"",
        "\"name\": \"other\"",
        "\"ph\": \"B\", \"ts\": 9, \"name\": \"a\"},{\"ph\": \"B\", \"ts\": 3, \"name\": \"b\"},{\"ph\": \"E\", \"ts\": 11, \"name\": \"b\"},{\"ph\": \"E\", \"ts\": 12, \"name\": \"a\"",
        "\"ph\": \"C\"",
    ];
    let folder = Folder::new();
    for thread in [1, 2] {
        for other in others {
            let other =
                other.replace("\"ph\": ", &format!("\"pid\": 1, \"tid\": {thread}, \"ph\": "));
            let file =
                folder.write("t.json", &format!("[\n{},\n{{{other}}},\n{}]", good[0], good[1]));
            let found = answer(&["trace-model"], &[&file], "--event step --units 100");
            assert_eq!(list_points(&found), [point("process1", 100, 5_000, 2)], "{other}");
            assert_eq!(found["notices"].as_array().map(Vec::len), Some(0), "{found}");
        }
    }
}

#[test]
fn numbered_events_are_one() {
    let folder = Folder::new();
    let steps = [0, 10, 20].map(|ts| {
        format!("{{\"name\": \"Step#{}\", \"ph\": \"X\", \"ts\": {ts}, \"dur\": 5}}", ts / 10)
    });
    let path = folder.write("t.json", &format!("[{}]", steps.join(",")));
    let find = |event: &str| read_json(&format!("trace-model {path} --event {event} --units 9"));
    assert_eq!(list_points(&find("Step")), [point("process0", 9, 5_000, 3)]);
    assert_eq!(list_points(&find("Step#1")), [point("process0", 9, 5_000, 1)]);
    let told = "no event Stop; its most frequent events are Step";
    refused("trace-model --event Stop --units 9", &[&path], &[told]);
}

#[test]
fn options_that_do_not_fit_the_trace_are_refused() {
    let (paraver, chrome) = (trace("nbody.prv"), trace("nbody.json"));
    for (file, line, part) in [
        (&paraver, "--event Iterations --units 1", "names Bodies, Iteration"),
        (&paraver, "--event Iteration:x --units 1", "no such value"),
        (&paraver, "--event Iteration", "--size <EVENT>"),
        (&paraver, "--event Iteration --units 1 --size Bodies", "--size"),
        (&paraver, "--event Iteration --units 0", "from 1 to"),
        (&paraver, "--event Iteration --size Bodies --per-unit 0", "above 0"),
        (
            &paraver,
            "--event Iteration --size Bodies --out Cargo.toml",
            "Cargo.toml: is not a folder",
        ),
        (&paraver, "--event Iteration --size Bodies --per-unit 1e7", "0 units of 10000000"),
        (&chrome, "--event iteration --counter bodies", "--counter: only for Paraver"),
    ] {
        refused(&format!("trace-model {file} {line}"), &[], &[part]);
    }
    let missing = "/no/such.prv: No such file";
    refused("trace-model --event 1 --units 1 /no/such.prv", &[], &[missing]);
    refused("trace-model --event 1 --units 1 /", &[], &["/: Is a directory"]);
}

/// Writes a trace of `iterations` of four ranks.
fn write_long_trace(path: &str, iterations: u64) {
    let mut file = BufWriter::new(File::create(path).expect("a writable folder"));
    let end = 100 * iterations;
    writeln!(file, "#Paraver (a):{end}_ns:1(4):1:4(1:1,1:1,1:1,1:1),0").expect("space");
    for begin in (0..end).step_by(100) {
        for task in 1..=4 {
            let [mpi, done] = [60, 99].map(|offset| begin + offset + task - 4);
            let who = format!("{task}:1:{task}:1");
            let size = 100 + begin / 100 % 5;
            writeln!(file, "2:{who}:{begin}:7:1:8:{size}\n1:{who}:{begin}:{mpi}:1").expect("space");
            writeln!(
                file,
                "2:{who}:{mpi}:50000001:3\n2:{who}:{done}:50000001:0\n2:{who}:{done}:7:0"
            )
            .expect("space");
        }
    }
}

#[test]
fn a_long_trace_of_paraver_takes_little_memory() {
    let folder = Folder::new();
    let long = folder.path("long.prv");
    write_long_trace(&long, 100_000);
    let bytes = fs::metadata(&long).expect("a file").len();
    assert!(bytes > 50_000_000, "{bytes}");
    let found = run_limited(64, &format!("trace-model {long} --event 7 --size 8 --json"));
    let reps = list_points(&json(&found.success())).iter().map(|point| point.3).sum::<u64>();
    assert_eq!(reps, 400_000);
}
