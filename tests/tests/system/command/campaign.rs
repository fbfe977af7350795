//! `isochron campaign`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use isochron_tests::launch::{HANGS, Outcome, Running, is_whole, libraries, run};
use serde_json::Value;

use super::{Folder, isochron, json};

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
        let path = folder.path(name);
        fs::write(&path, script).expect("a writable folder");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a file of ours");
    }
    let file = folder.path("trial.toml");
    fs::write(&file, format!("name = \"trial\"\nseed = 3\n{tables}")).expect("a writable folder");
    file
}

/// 24 points, three rounds, two ranks.
fn write_24_points(folder: &Folder) -> String {
    let (launch, command, result) = if is_whole() {
        let [mpi, _] = libraries();
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
    let [mpi, _] = libraries();
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

fn kill(process: u32) {
    // It may have ended.
    let _ = Command::new("kill").args(["-KILL", &process.to_string()]).status();
}

/// Returns a number below `most` that differs from call to call.
fn draw(state: &mut u64, most: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % most
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
    let [mpi, _] = libraries();
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
    let dir = folder.path("results");
    fs::create_dir(&dir).expect("a writable folder");
    let dir = fs::canonicalize(dir).expect("a folder").to_str().expect("a name").to_owned();
    let mut engine = Running::start(run_command(&file, &dir));
    let mut state = 5;
    let mut killed_engines = 0;
    for number in 0..KILLS {
        // A moment of the repetitions under way, and the processes of that moment.
        std::thread::sleep(Duration::from_millis(draw(&mut state, 200)));
        let repetition = list_repetition(&dir);
        let launcher = repetition
            .iter()
            .find(|(_, words)| words.contains("launcher") || words.contains("mpirun"));
        let ranks: Vec<_> =
            repetition.iter().filter(|process| Some(*process) != launcher).collect();
        match (number % 3, launcher, ranks.first()) {
            (1, Some((launcher, _)), _) => kill(*launcher),
            (2, _, Some((rank, _))) => kill(*rank),
            _ => {
                kill(engine.process());
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
    let status = json(&isochron(&["campaign", "status", &dir, "--json"]).success());
    assert_eq!(
        (&status["state"], &status["points_ended"]),
        (&"ended".into(), &24.into()),
        "{status}"
    );
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
fn a_file_system_that_is_full_is_told() {
    let namespace = ["--map-root-user", "--mount"];
    let trial = Command::new("unshare").args(namespace).arg("true").status();
    if !trial.is_ok_and(|status| status.success()) {
        eprintln!("skipped: no mount namespaces here");
        return;
    }
    let folder = Folder::new();
    let file = write_campaign(&folder, SHORT);
    let dir = folder.path("results");
    fs::create_dir(&dir).expect("a writable folder");
    let script = "D=$1; shift; mount -t tmpfs -o size=32k none $D || exit 9; \"$@\"; status=$?; tail -c 1 $D/points.jsonl | od -c; \
                  mount -o remount,size=1m $D; \"$@\" --json; wc -l < $D/points.jsonl; exit $status";
    let command = run_command(&file, &dir);
    let mut mounted = Command::new("unshare");
    mounted.args(namespace).args(["sh", "-c", script, "sh", &dir]);
    mounted.arg(command.get_program()).args(command.get_args());
    let outcome = run(mounted, HANGS);
    assert_eq!(outcome.status, Some(1), "{outcome:#?}");
    assert!(outcome.stderr.contains("points.jsonl: No space left on device"), "{}", outcome.stderr);
    for part in ["0000000  \\n", "\"state\":\"ended\"", "120\n"] {
        assert!(outcome.stdout.contains(part), "{part}: {}", outcome.stdout);
    }
}

#[test]
fn two_engines_in_one_folder_are_one_too_many() {
    let folder = Folder::new();
    let file = write_campaign(&folder, &SHORT.replace("sleep 0.01", "sleep 100"));
    let dir = folder.path("results");
    let first = Running::start(run_command(&file, &dir));
    while list_repetition(
        &fs::canonicalize(&dir).map_or(String::new(), |dir| dir.display().to_string()),
    )
    .is_empty()
    {
        std::thread::sleep(Duration::from_millis(5));
    }
    let stderr = run_campaign(&file, &dir).failure(2);
    assert!(stderr.contains(&format!("process {} on ", first.process())), "{stderr}");
    // In a container the number of a process is that of another one, or of none.
    let namespace = ["--map-root-user", "--pid", "--fork", "--mount-proc"];
    let trial = Command::new("unshare").args(namespace).arg("true").status();
    if trial.is_ok_and(|status| status.success()) {
        let command = run_command(&file, &dir);
        let mut contained = Command::new("unshare");
        contained.args(namespace).arg(command.get_program());
        contained.args(command.get_args());
        let stderr = run(contained, HANGS).failure(2);
        let waits = "engine.json: waiting for a sign of its engine, at most 20s\n";
        for part in ["runs this campaign already", waits] {
            assert!(stderr.contains(part), "{stderr}");
        }
    }
    let shown = isochron(&["campaign", "status", &dir]).success();
    assert!(shown.contains(&format!("running (process {} on ", first.process())), "{shown}");
    // A polite signal ends it, and what it has started.
    let _ = Command::new("kill").args(["-TERM", &first.process().to_string()]).status();
    let stderr = first.wait(HANGS).failure(1);
    assert!(stderr.contains("the same command goes on where it was"), "{stderr}");
    assert!(list_repetition(&dir).is_empty());
    assert!(read_lines(&dir).is_empty());
}

#[test]
fn a_signal_that_ends_the_engine_ends_its_contender() {
    let folder = Folder::new();
    let file = write_campaign(&folder, &SHORT.replace("sleep 0.01", "sleep 100"));
    let dir = folder.path("results");
    let real =
        |dir: &str| fs::canonicalize(dir).map_or(String::new(), |it| it.display().to_string());
    for signal in
        ["HUP", "INT", "QUIT", "USR1", "USR2", "ALRM", "TERM", "XCPU", "VTALRM", "PROF", "IO"]
    {
        // Tests that run in the background ignore some of these, and hand that on.
        let command = run_command(&file, &dir);
        let mut with_defaults = Command::new("env");
        with_defaults.arg("--default-signal").arg(command.get_program()).args(command.get_args());
        let engine = Running::start(with_defaults);
        while list_repetition(&real(&dir)).is_empty() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = Command::new("kill")
            .args([&format!("-{signal}"), &engine.process().to_string()])
            .status();
        let stderr = engine.wait(HANGS).failure(1);
        assert!(stderr.contains("the same command goes on"), "{signal}: {stderr}");
        assert!(list_repetition(&real(&dir)).is_empty(), "{signal}");
    }
    // As under `nohup`.
    let command = run_command(&file, &dir);
    let mut ignoring = Command::new("sh");
    ignoring
        .args(["-c", "trap '' HUP; exec \"$@\"", "sh"])
        .arg(command.get_program())
        .args(command.get_args());
    let engine = Running::start(ignoring);
    while list_repetition(&real(&dir)).is_empty() {
        std::thread::sleep(Duration::from_millis(5));
    }
    for signal in ["-HUP", "-TERM"] {
        assert!(!list_repetition(&real(&dir)).is_empty(), "{signal}");
        let _ = Command::new("kill").args([signal, &engine.process().to_string()]).status();
    }
    engine.wait(HANGS).failure(1);
}

#[test]
fn a_shell_that_has_the_variable_of_a_campaign_goes_on() {
    let folder = Folder::new();
    let file = write_campaign(
        &folder,
        &SHORT.replace("= 30", "= 1").replace("sleep 0.01", "env -i setsid sleep 4323 &"),
    );
    let dir = folder.path("results");
    fs::create_dir(&dir).expect("a writable folder");
    let command = run_command(&file, &dir);
    let mut shell = Command::new("bash");
    let script = "set -m; sleep 60 & other=$!; \"$@\" > /dev/null; kill $other && echo goes on";
    shell.args(["-c", script, "bash"]).arg(command.get_program()).args(command.get_args());
    shell.env("ISOCHRON_CAMPAIGN", &dir);
    assert_eq!(run(shell, HANGS).success(), "goes on\n");
    let left = Command::new("pgrep").args(["-f", "sleep 4323"]).output().expect("pgrep");
    assert_eq!(String::from_utf8_lossy(&left.stdout), "");
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
        for (words, status) in [
            (vec!["run", &file, "--dir", &dir], statuses[0]),
            (vec!["report", &dir], statuses[1]),
            (vec!["compare", &good, &dir], statuses[2]),
        ] {
            for (check, status) in [(None, 0), (Some("--check"), status)] {
                let words: Vec<&str> =
                    ["campaign"].into_iter().chain(words.iter().copied()).chain(check).collect();
                let outcome = isochron(&words);
                assert_eq!(outcome.status, Some(status), "{words:?}: {outcome:?}");
                if words[1] == "report" {
                    assert!(
                        outcome.stderr.contains(&format!("to look at: {dir}/report.html")),
                        "{outcome:?}"
                    );
                }
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
        let words = ["campaign", "run", &file, "--dir", &dir, "--check"];
        assert_eq!(isochron(&words).status, Some(3), "{rounds}");
    }
    let shown =
        isochron(&["campaign", "compare", &folder.path("good"), &folder.path("bad")]).success();
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
    let mut command = run_command(&plain, "unused");
    let program = command.get_program().to_owned();
    command = Command::new(program);
    command.args(["campaign", "run", &plain]).current_dir(folder.path(""));
    run(command, HANGS).success();
    let dir = folder.path("plain.results");
    // A folder takes the place of a page, which nobody can write then, root included.
    fs::create_dir(Path::new(&dir).join("report.html")).expect("a writable folder");
    let outcome = isochron(&["campaign", "report", &dir, "--json"]);
    assert!(outcome.stderr.contains("cannot be written"), "{outcome:?}");
    assert_eq!(json(&outcome.success())["rows"].as_array().map(Vec::len), Some(4));
    isochron(&["campaign", "report", &dir]).failure(2);
}

#[test]
fn mistakes_in_a_campaign_file_have_a_line() {
    let folder = Folder::new();
    let file = write_campaign(&folder, &SHORT.replace("[repeat]", "[repaet]"));
    for command in ["plan", "run"] {
        let stderr = isochron(&["campaign", command, &file]).failure(2);
        let expected = format!("{file}:11: unknown key `repaet`: did you mean `repeat`?");
        assert!(stderr.contains(&expected), "{stderr}");
    }
}

#[test]
fn a_folder_that_is_none_of_a_campaign_is_refused_with_a_way_out() {
    let folder = Folder::new();
    let file = write_campaign(&folder, SHORT);
    let [empty, other, missing] = ["empty", "other", "missing"].map(|name| folder.path(name));
    for dir in [&empty, &other] {
        fs::create_dir(dir).expect("a writable folder");
    }
    fs::write(Path::new(&other).join("campaign.toml"), "title = 1\n").expect("a writable folder");
    let made = "name a folder that `isochron campaign run FILE` has made";
    for (dir, reason) in [
        (&missing, format!("{missing}: is not there: {made}")),
        (&file, format!("{file}: is a file: {made}")),
        (
            &empty,
            format!("{empty}: is no folder of a campaign, because it has no campaign.toml: {made}"),
        ),
        (&other, format!("{other}/campaign.toml:1: unknown key `title`")),
    ] {
        for words in [
            &["status", dir][..],
            &["report", dir],
            &["compare", dir, &missing],
            &["compare", dir, dir, "--json"],
        ] {
            let words = [&["campaign"], words].concat();
            let stderr = isochron(&words).failure(2);
            assert!(stderr.contains(&reason), "{words:?}: {stderr}");
        }
    }
}

#[test]
fn a_file_that_is_none_of_a_campaign_is_refused_with_a_way_out() {
    let folder = Folder::new();
    let file = write_campaign(&folder, SHORT);
    let [dir, data, empty, missing] =
        ["dir", "data", "empty", "missing"].map(|name| folder.path(name));
    fs::create_dir(&dir).expect("a writable folder");
    fs::write(&data, [0xff, 0xfe]).expect("a writable folder");
    fs::write(&empty, "").expect("a writable folder");
    for (file, reason) in [
        (&missing, "missing: is not there: name a campaign file, in TOML"),
        (&dir, "dir: is a folder: name a campaign file, in TOML"),
        (&data, "data: is no text: name a campaign file, in TOML"),
        (&empty, "empty:1: missing key `name`"),
    ] {
        for command in ["plan", "run", "script"] {
            let stderr = isochron(&["campaign", command, file]).failure(2);
            assert!(stderr.contains(reason), "{command}: {stderr}");
        }
    }
    for command in ["plan", "run"] {
        let stderr = isochron(&["campaign", command, &file, "--dir", &data]).failure(2);
        let reason = "data: is a file: name a folder for the measurements by --dir";
        assert!(stderr.contains(reason), "{command}: {stderr}");
    }
    fs::copy(&file, Path::new(&dir).join("campaign.toml")).expect("a writable folder");
    let stderr = isochron(&["campaign", "compare", &dir, &dir]).failure(2);
    let reason = "dir: has no measurements yet: run its campaign first";
    assert!(stderr.contains(reason), "{stderr}");
    let stderr = isochron(&["campaign", "run", &file, "--dir", "/proc/none"]).failure(2);
    assert!(
        stderr.contains("/proc/none: cannot be made: No such file or directory (os error 2): name another folder by --dir"),
        "{stderr}"
    );
}

#[test]
fn campaigns_are_planned_reported_and_compared() {
    let folder = Folder::new();
    let file = write_campaign(&folder, SHORT);
    let dirs = ["first", "second"].map(|name| folder.path(name));
    let plan = json(&isochron(&["campaign", "plan", &file, "--dir", &dirs[0], "--json"]).success());
    assert_eq!((&plan["points"], &plan["left"]["most"]), (&4.into(), &120.into()), "{plan}");
    // Nothing has run: 120 repetitions of at most 600 s.
    assert!(plan["left"]["least_s"].is_null(), "{plan}");
    assert_eq!(plan["left"]["most_s"], 72_000.0, "{plan}");
    for dir in &dirs {
        run_campaign(&file, dir).success();
    }
    let text = isochron(&["campaign", "plan", &file, "--dir", &dirs[0]]).success();
    assert!(text.contains("size=3\n  one: sh -c 'sleep 0.01; echo 3'\n"), "{text}");
    assert!(text.contains("nothing is left"), "{text}");
    assert!(text.contains(" taken, about 0 B more; "), "{text}");
    let report = json(&isochron(&["campaign", "report", &dirs[0], "--json"]).success());
    assert_eq!(report["rows"][3]["value"]["median"], 4.0, "{report}");
    for name in ["report.md", "points.csv"] {
        assert!(Path::new(&dirs[0]).join(name).exists(), "{name}");
    }
    let compared =
        json(&isochron(&["campaign", "compare", &dirs[0], &dirs[1], "--json"]).success());
    assert_eq!(compared["environment"], Value::Array(Vec::new()), "{compared}");
    for point in compared["points"].as_array().expect("points") {
        assert_eq!((&point["verdict"], &point["ratio"]), (&"same".into(), &1.0.into()), "{point}");
    }
    let text = isochron(&["campaign", "compare", &dirs[0], &dirs[1]]).success();
    assert!(text.starts_with("The environments are alike.\n"), "{text}");
    assert_eq!(text.matches("same within 2 %").count(), 4, "{text}");
}
