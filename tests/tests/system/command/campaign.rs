//! `isochron campaign`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use isochron_tests::launch::{HANGS, Outcome, Running, is_whole, open_mpi, run};
use serde_json::Value;

use super::{Folder, check_told, json, path_text, read_json, refused, run_line};
use crate::docs::write_program;

/// Starts two ranks, and fails if one of them fails.
const LAUNCHER: &str = "#!/bin/sh
\"$@\" 0 & first=$!
\"$@\" 1 & second=$!
wait $first && wait $second
";

/// A rank that works for a moment; the first one prints the result.
const RANK: &str = "#!/bin/sh
sleep 0.03
[ \"$2\" = 1 ] || echo \"twice $((2 * $1))\"
";

/// Stands for NVIDIA's management library: heat slows the only GPU down all the time, and another program computes on it.
const HOT_GPU: &str = "
#include <stdio.h>
static unsigned long long slowed_ns;
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 1; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **gpu) { *gpu = &slowed_ns; return index ? 2 : 0; }
int nvmlDeviceGetName(void *gpu, char *name, unsigned length)
{
    return snprintf(name, length, \"Hot GPU\") < 0 || gpu != &slowed_ns;
}
int nvmlDeviceGetViolationStatus(void *gpu, int policy, unsigned long long times[2])
{
    slowed_ns += 1000000000000;
    times[0] = 0;
    times[1] = policy == 1 ? slowed_ns : 0;
    return gpu != &slowed_ns;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *gpu, unsigned *count, void *processes)
{
    *count = 1;
    return processes || gpu != &slowed_ns ? 2 : 7;
}
";

/// Kills that the campaign of 24 points must survive.
const KILLS: usize = 10;

/// Writes a campaign with scripts for launcher and ranks; returns the name of its file.
fn write_campaign(folder: &Folder, tables: &str) -> String {
    for (name, script) in [("launcher", LAUNCHER), ("rank", RANK)] {
        write_program(folder.path(name).as_ref(), script);
    }
    folder.write("trial.toml", &format!("name = \"trial\"\nseed = 3\n{tables}"))
}

/// 24 points, three rounds, two ranks.
fn write_24_points(folder: &Folder) -> String {
    let (launch, command, result) = if is_whole() {
        let mpi = open_mpi();
        let mpirun = mpi.mpirun().display();
        (
            format!("{mpirun} --oversubscribe --bind-to none -n 2"),
            format!(
                "{} mxm --size {{size}} --block {{factor}} --store none --json",
                mpi.isochron.display()
            ),
            "json = ['gflops', 'm']".to_owned(),
        )
    } else {
        (
            "./launcher".to_owned(),
            "./rank {size}{factor}".to_owned(),
            "regex = 'twice (?P<twice>[0-9]+)'".to_owned(),
        )
    };
    write_campaign(
        folder,
        &format!(
            r#"
[sweep]
size = [8, 16, 24, 32, 40, 48]
factor = [1, 2, 3, 4]
[[contender]]
name = "ranks"
launch = "{launch}"
command = "{command}"
result = {{ {result} }}
value = "took_s"
[repeat]
min = 3
max = 3
again = 0
"#
        ),
    )
}

/// Makes the command that runs a campaign.
fn run_command(file: &str, dir: &str) -> Command {
    let mpi = open_mpi();
    let mut command = Command::new(&mpi.isochron);
    command
        .args(["campaign", "run", file, "--dir", dir])
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command
}

fn run_campaign(file: &str, dir: &str) -> Outcome {
    run(run_command(file, dir), HANGS)
}

/// Returns the whole lines of `points.jsonl`.
fn read_lines(dir: &str) -> Vec<Value> {
    let text = fs::read_to_string(Path::new(dir).join("points.jsonl")).unwrap_or_default();
    text.split_inclusive('\n').filter(|line| line.ends_with('\n')).map(json).collect()
}

/// Lists the processes of a campaign's repetition, each with its words.
fn list_repetition(dir: &str) -> Vec<(u32, String)> {
    let mark = format!("ISOCHRON_CAMPAIGN={dir}:");
    let processes = fs::read_dir("/proc").expect("/proc").flatten();
    processes
        .filter_map(|entry| {
            let process = entry.file_name().to_str()?.parse().ok()?;
            let environment = fs::read(entry.path().join("environ")).ok()?;
            let is_marked = environment
                .split(|&byte| byte == 0)
                .any(|entry| entry.starts_with(mark.as_bytes()));
            let words = fs::read(entry.path().join("cmdline")).ok()?;
            is_marked.then(|| (process, String::from_utf8_lossy(&words).replace('\0', " ")))
        })
        .collect()
}

/// Waits until a repetition runs.
fn wait_for_repetition(dir: &str) {
    while list_repetition(dir).is_empty() {
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn send_signal(signal: &str, process: u32) {
    // It may have ended.
    let _ = Command::new("kill").args([&format!("-{signal}"), &process.to_string()]).status();
}

/// Makes the folder of a campaign's results, and returns its name as the system has it.
fn make_results(folder: &Folder) -> String {
    let dir = folder.path("results");
    fs::create_dir(&dir).expect("a writable folder");
    path_text(&fs::canonicalize(dir).expect("a folder"))
}

/// Checks that the lines are those of a campaign that was never killed: for each point the rounds from 0 to the last one, each
/// once, and all of them unless the point failed twice.
fn check_whole(lines: &[Value]) {
    let mut rounds: BTreeMap<&str, BTreeMap<u64, &Value>> = BTreeMap::new();
    for line in lines {
        let (point, round) =
            (line["point"].as_str().expect("a point"), line["round"].as_u64().expect("a round"));
        let doubled = rounds.entry(point).or_default().insert(round, line);
        assert!(doubled.is_none(), "measured twice: {line}");
        assert_eq!(line["attempt"], 0, "{line}");
        if line["status"] == "done" && !is_whole() {
            let parameters = &line["parameters"];
            let number: u64 = format!("{}{}", parameters["size"], parameters["factor"])
                .parse()
                .expect("a number");
            assert_eq!(line["values"]["twice"].as_f64(), Some(2.0 * number as f64), "{line}");
        }
    }
    assert_eq!(rounds.len(), 24);
    for (point, rounds) in rounds {
        let numbers: Vec<u64> = rounds.keys().copied().collect();
        let has_failed_twice = rounds.values().filter(|line| line["status"] != "done").count() == 2;
        assert!(
            numbers == [0, 1, 2] || (numbers == [0, 1] && has_failed_twice),
            "{point}: {numbers:?}"
        );
    }
}

#[test]
fn the_hosts_of_launchers_and_the_state_of_gpus_are_noted() {
    let mpi = open_mpi();
    let folder = Folder::new();
    let source = folder.write("hot.c", HOT_GPU);
    let library = folder.path("libnvidia-ml.so.1");
    let mut compiler = Command::new(mpi.compiler());
    compiler.args(["-shared", "-fPIC", "-o", &library, &source]);
    run(compiler, HANGS).success();
    let mpirun = mpi.mpirun().display();
    let file = write_campaign(
        &folder,
        &format!(
            "[[contender]]\nname = \"ranks\"\nlaunch = \"{mpirun} --oversubscribe --bind-to none -n 2\"\ncommand = \"true\"\n\
             [repeat]\nmin = 1\nmax = 1\nagain = 0\n"
        ),
    );
    let dir = folder.path("results");
    let mut command = run_command(&file, &dir);
    let others = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
    command.env("LD_LIBRARY_PATH", format!("{}:{others}", folder.path("")));
    run(command, HANGS).success();
    let [line] = &read_lines(&dir)[..] else {
        panic!("one line");
    };
    let warnings = line["warnings"].to_string();
    for warning in [
        "disturbed: another program computes on GPU 0",
        "throttled: heat slowed GPU 0 down for 100 % of the time",
    ] {
        assert!(warnings.contains(warning), "{warnings}");
    }
    let name = line["environment"].as_str().expect("a name");
    let facts = fs::read_to_string(format!("{dir}/env/{name}.json")).expect("a description");
    let facts = json(&facts);
    assert_eq!(facts["gpus"][0]["name"], "Hot GPU");
    assert_eq!(facts["hosts"], facts["host"]);
    assert_eq!(facts["unlike_hosts"], serde_json::json!({}));
    assert_eq!(facts["hosts_unknown_of"], Value::Null);
}

#[test]
fn a_campaign_killed_ten_times_loses_and_doubles_nothing() {
    let folder = Folder::new();
    let file = write_24_points(&folder);
    let dir = make_results(&folder);
    let mut engine = Running::start(run_command(&file, &dir));
    let mut killed_engines = 0;
    for number in 0..KILLS {
        // A moment of the repetitions under way, and the processes of that moment.
        std::thread::sleep(Duration::from_millis(number as u64 * 67 % 200));
        let repetition = list_repetition(&dir);
        let launcher = repetition
            .iter()
            .find(|(_, words)| words.contains("launcher") || words.contains("mpirun"));
        let ranks: Vec<_> =
            repetition.iter().filter(|process| Some(*process) != launcher).collect();
        match (number % 3, launcher, ranks.first()) {
            (1, Some((launcher, _)), _) => send_signal("KILL", *launcher),
            (2, _, Some((rank, _))) => send_signal("KILL", *rank),
            _ => {
                send_signal("KILL", engine.process());
                engine.wait(HANGS);
                killed_engines += 1;
                engine = Running::start(run_command(&file, &dir));
            }
        }
    }
    engine.wait(HANGS).success();
    assert!(killed_engines >= 4);
    let lines = read_lines(&dir);
    check_whole(&lines);
    assert!(list_repetition(&dir).is_empty());
    // Nothing is left to do.
    run_campaign(&file, &dir).success();
    assert_eq!(read_lines(&dir).len(), lines.len());
    let status = read_json(&format!("campaign status {dir}"));
    assert_eq!((&status["state"], &status["points_ended"]), (&"ended".into(), &24.into()));
}

/// A campaign of many short repetitions.
const SHORT: &str = r#"
[sweep]
size = [1, 2, 3, 4]
[[contender]]
name = "one"
command = "sh -c 'sleep 0.01; echo {size}'"
result = { regex = '(?P<value>[0-9]+)' }
better = "more"
[repeat]
min = 30
max = 30
again = 0
"#;

#[test]
fn a_full_disk_leaves_a_campaign_that_goes_on() {
    let folder = Folder::new();
    let file = write_campaign(&folder, SHORT);
    let dir = folder.path("results");
    let command = run_command(&file, &dir);
    let mut limited = Command::new("sh");
    limited
        .args(["-c", "ulimit -f 32; exec \"$@\"", "sh"])
        .arg(command.get_program())
        .args(command.get_args());
    let stderr = run(limited, HANGS).failure(1);
    assert!(stderr.contains("points.jsonl: File too large"), "{stderr}");
    assert!(stderr.contains("run the campaign again"), "{stderr}");
    let kept = fs::read_to_string(Path::new(&dir).join("points.jsonl")).expect("lines");
    assert!(kept.ends_with('\n') && kept.len() <= 32 << 10, "{kept}");
    run_campaign(&file, &dir).success();
    let all = fs::read_to_string(Path::new(&dir).join("points.jsonl")).expect("lines");
    assert!(all.starts_with(&kept));
    let places: BTreeSet<String> = read_lines(&dir)
        .iter()
        .map(|line| format!("{} {}", line["point"], line["round"]))
        .collect();
    assert_eq!((places.len(), read_lines(&dir).len()), (120, 120));
}

#[test]
fn two_engines_in_one_folder_are_one_too_many() {
    let folder = Folder::new();
    let file = write_campaign(&folder, &SHORT.replace("sleep 0.01", "sleep 100"));
    let dir = make_results(&folder);
    let first = Running::start(run_command(&file, &dir));
    wait_for_repetition(&dir);
    let stderr = run_campaign(&file, &dir).failure(2);
    assert!(stderr.contains(&format!("process {} on ", first.process())), "{stderr}");
    let shown = run_line(&format!("campaign status {dir}")).success();
    assert!(shown.contains(&format!("running (process {} on ", first.process())), "{shown}");
    // A polite signal ends it, and what it has started.
    send_signal("TERM", first.process());
    let stderr = first.wait(HANGS).failure(1);
    assert!(stderr.contains("the same command goes on where it was"), "{stderr}");
    assert!(list_repetition(&dir).is_empty());
    assert!(read_lines(&dir).is_empty());
}

#[test]
fn a_signal_that_ends_the_engine_ends_its_contender() {
    let folder = Folder::new();
    let file = write_campaign(&folder, &SHORT.replace("sleep 0.01", "sleep 100"));
    let dir = make_results(&folder);
    // Tests that run in the background ignore some signals, and hand that on.
    let start = |before: &[&str]| {
        let command = run_command(&file, &dir);
        let mut engine = Command::new(before[0]);
        engine.args(&before[1..]).arg(command.get_program()).args(command.get_args());
        let engine = Running::start(engine);
        wait_for_repetition(&dir);
        engine
    };
    for signal in
        ["HUP", "INT", "QUIT", "USR1", "USR2", "ALRM", "TERM", "XCPU", "VTALRM", "PROF", "IO"]
    {
        let engine = start(&["env", "--default-signal"]);
        send_signal(signal, engine.process());
        let stderr = engine.wait(HANGS).failure(1);
        assert!(stderr.contains("the same command goes on"), "{signal}: {stderr}");
        assert!(list_repetition(&dir).is_empty(), "{signal}");
    }
    // As under `nohup`.
    let engine = start(&["sh", "-c", "trap '' HUP; exec \"$@\"", "sh"]);
    for signal in ["HUP", "TERM"] {
        assert!(!list_repetition(&dir).is_empty(), "{signal}");
        send_signal(signal, engine.process());
    }
    engine.wait(HANGS).failure(1);
}

#[test]
fn scripts_learn_of_a_bad_answer_when_they_ask() {
    let folder = Folder::new();
    let tables = |command: &str, bound: &str| {
        format!(
            "[[contender]]\nname = \"a program\"\ncommand = \"true\"\n[[contender]]\nname = \"one\"\ncommand = \"{command}\"\n\
             result = {{ regex = 'took (?P<t_s>[0-9.]+)' }}\n[repeat]\nmin = 6\nmax = 6\nagain = 0\n\
             [[goal]]\nvalue = \"one.t_s\"\nat_most = {bound}\n"
        )
    };
    let campaigns =
        [("good", "echo took 1", "2"), ("slow", "echo took 3", "2"), ("bad", "false", "2")];
    for ((name, command, bound), statuses) in
        campaigns.into_iter().zip([[0, 0, 0], [0, 3, 3], [3, 0, 3]])
    {
        let file = write_campaign(&folder, &tables(command, bound));
        let [dir, good] = [name, "good"].map(|name| folder.path(name));
        for (line, status) in [
            (format!("run {file} --dir {dir}"), statuses[0]),
            (format!("report {dir}"), statuses[1]),
            (format!("compare {good} {dir}"), statuses[2]),
        ] {
            for (check, status) in [("", 0), ("--check", status)] {
                let outcome = run_line(&format!("campaign {line} {check}"));
                assert_eq!(outcome.status, Some(status), "{line}: {outcome:?}");
                let page = format!("to look at: {dir}/report.html");
                assert!(!line.starts_with("report") || outcome.stderr.contains(&page), "{line}");
            }
        }
    }
    // However few rounds there are.
    for (number, rounds) in
        ["max = 1\nmin = 1\n", "exact = true\n", "max = 2\nmin = 1\n"].into_iter().enumerate()
    {
        let tables = "[[contender]]\nname = \"one\"\ncommand = \"false\"\n[repeat]\n";
        let file = write_campaign(&folder, &format!("{tables}{rounds}"));
        let dir = folder.path(&format!("few-{number}"));
        let outcome = run_line(&format!("campaign run {file} --dir {dir} --check"));
        assert_eq!(outcome.status, Some(3), "{rounds}");
    }
    let [good, bad] = ["good", "bad"].map(|name| folder.path(name));
    let shown = run_line(&format!("campaign compare {good} {bad}")).success();
    let [failure, table] =
        ["note: `one` has failed in ", "failed: exit status 1"].map(|part| shown.find(part));
    assert!(failure.is_some() && failure < table, "{shown}");
}

#[test]
fn a_folder_that_one_may_only_read_and_a_file_without_an_extension_do() {
    let folder = Folder::new();
    let file = write_campaign(&folder, &SHORT.replace("= 30", "= 1"));
    let plain = folder.path("plain");
    fs::copy(&file, &plain).expect("a writable folder");
    let mpi = open_mpi();
    let mut command = Command::new(&mpi.isochron);
    command.args(["campaign", "run", &plain]).current_dir(folder.path(""));
    run(command, HANGS).success();
    let dir = folder.path("plain.results");
    // A folder takes the place of a page, which nobody can write then, root included.
    fs::create_dir(Path::new(&dir).join("report.html")).expect("a writable folder");
    let outcome = run_line(&format!("campaign report {dir} --json"));
    assert!(outcome.stderr.contains("cannot be written"), "{outcome:?}");
    assert_eq!(json(&outcome.success())["rows"].as_array().map(Vec::len), Some(4));
    run_line(&format!("campaign report {dir}")).failure(2);
}

#[test]
fn files_and_folders_that_are_none_of_a_campaign_are_refused_with_a_way_out() {
    let folder = Folder::new();
    let file = write_campaign(&folder, SHORT);
    let wrong = format!("name = 'wrong'{}", SHORT.replace("[repeat]", "[repaet]"));
    let wrong = folder.write("wrong.toml", &wrong);
    let [empty, other, begun, missing, data, blank] =
        ["empty", "other", "begun", "missing", "data", "blank"].map(|name| folder.path(name));
    for dir in [&empty, &other, &begun] {
        fs::create_dir(dir).expect("a writable folder");
    }
    fs::write(&data, [0xff, 0xfe]).expect("a writable folder");
    folder.write("blank", "");
    folder.write("other/campaign.toml", "title = 1\n");
    fs::copy(&file, folder.path("begun/campaign.toml")).expect("a writable folder");
    for (dir, reason) in [
        (&missing, "missing: is not there: name a folder that `isochron campaign run FILE` has"),
        (&file, "trial.toml: is a file: name a folder"),
        (&empty, "empty: is no folder of a campaign, because it has no campaign.toml"),
        (&other, "other/campaign.toml:1: unknown key `title`"),
    ] {
        for line in ["campaign status", "campaign report", "campaign compare --json"] {
            let dirs = [dir.as_str(), &missing];
            let n_dirs = if line.contains("compare") { 2 } else { 1 };
            refused(line, &dirs[..n_dirs], &[reason]);
        }
    }
    for (file, reason) in [
        (&missing, "missing: is not there: name a campaign file, in TOML"),
        (&empty, "empty: is a folder: name a campaign file, in TOML"),
        (&data, "data: is no text: name a campaign file, in TOML"),
        (&blank, "blank:1: missing key `name`"),
        (&wrong, "wrong.toml:9: unknown key `repaet`: did you mean `repeat`?"),
    ] {
        for line in ["campaign plan", "campaign run", "campaign script"] {
            refused(line, &[file], &[reason]);
        }
    }
    for (line, reason) in [
        (format!("plan {file} --dir {data}"), "data: is a file: name a folder"),
        (format!("run {file} --dir {data}"), "data: is a file: name a folder"),
        (format!("compare {begun} {begun}"), "begun: has no measurements yet: run its campaign"),
        (format!("run {file} --dir /proc/none"), "/proc/none: cannot be made: No such file"),
    ] {
        refused(&format!("campaign {line}"), &[], &[reason]);
    }
}

#[test]
fn campaigns_are_planned_reported_and_compared() {
    let folder = Folder::new();
    let file = write_campaign(&folder, SHORT);
    let dirs = ["first", "second"].map(|name| folder.path(name));
    let line = format!("campaign plan {file} --dir {}", dirs[0]);
    let plan = read_json(&line);
    assert_eq!((&plan["points"], &plan["left"]["most"]), (&4.into(), &120.into()), "{plan}");
    // Nothing has run: 120 repetitions of at most 600 s.
    assert!(plan["left"]["least_s"].is_null(), "{plan}");
    assert_eq!(plan["left"]["most_s"], 72_000.0, "{plan}");
    for dir in &dirs {
        run_campaign(&file, dir).success();
    }
    let text = run_line(&line).success();
    let parts =
        ["size=3\n  one: sh -c 'sleep 0.01; echo 3'\n", "nothing is left", "about 0 B more"];
    check_told(&text, &parts, &line);
    let report = read_json(&format!("campaign report {}", dirs[0]));
    assert_eq!(report["rows"][3]["value"]["median"], 4.0, "{report}");
    for name in ["report.md", "points.csv"] {
        assert!(Path::new(&dirs[0]).join(name).exists(), "{name}");
    }
    let line = format!("campaign compare {} {}", dirs[0], dirs[1]);
    let compared = read_json(&line);
    assert_eq!(compared["environment"], Value::Array(Vec::new()), "{compared}");
    for point in compared["points"].as_array().expect("points") {
        assert_eq!((&point["verdict"], &point["ratio"]), (&"same".into(), &1.0.into()), "{point}");
    }
    let text = run_line(&line).success();
    assert!(text.starts_with("The environments are alike.\n"), "{text}");
    assert_eq!(text.matches("same within 2 %").count(), 4, "{text}");
}
