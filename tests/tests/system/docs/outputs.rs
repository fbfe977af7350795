//! What the command prints and reads, against the schemas.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::slice;
use std::time::Duration;

use isochron_tests::launch::{HANGS, Running, cluster_configs, open_mpi, run};
use serde_json::Value;
use tempfile::TempDir;

use super::pages::{find_root, read_file};
use super::schema::Schema;
use crate::command::json;

/// Checks documents against a schema, and that it is strict.
fn check_documents(name: &str, documents: &[Value]) {
    check_open_documents(name, documents, None);
}

/// Checks documents against a schema, and that it is strict but for what is at the place `open`.
fn check_open_documents(name: &str, documents: &[Value], open: Option<&str>) {
    let schema = Schema::new(name);
    for document in documents {
        if let Err(reason) = schema.check(document) {
            panic!("{name}: {reason}\n{document:#}");
        }
    }
    schema.check_strictness(&documents[0], open);
}

/// Runs the command in the repository and reads the JSON that it prints.
fn run_json(line: &str) -> Value {
    json(&run(isochron(line), HANGS).success())
}

/// Returns the command in the repository that prints JSON.
fn isochron(line: &str) -> Command {
    let mpi = open_mpi();
    let mut command = Command::new(&mpi.isochron);
    command.args(line.split_whitespace()).arg("--json").current_dir(find_root());
    command
}

/// Multiplies on two devices with a change of the division every two steps, and reads the JSON that it prints.
fn run_forced(options: &str) -> Value {
    let mut command = isochron(&format!("{FORCED} {options}"));
    command.env("ISOCHRON_TEST_FORCED_CHANGES", "2");
    json(&run(command, HANGS).success())
}

/// Runs the command on several ranks and reads the JSON that it prints.
fn run_on_ranks(ranks: usize, line: &str) -> Value {
    let mpi = open_mpi();
    let platform = cluster_configs().join("emulated-4.toml");
    let line = format!("{line} --platform {} --json", platform.display());
    json(&mpi.run_line(ranks, &line).success())
}

#[test]
fn platform_files_are_as_their_schema_says() {
    let paths = fs::read_dir(cluster_configs())
        .expect("the platform files")
        .map(|entry| entry.expect("an entry").path());
    let mut texts: Vec<String> = paths
        .filter(|path| path.extension().is_some_and(|end| end == "toml"))
        .map(read_file)
        .collect();
    let formats = super::pages::read_pages();
    let blocks = formats.iter().flat_map(super::pages::Page::blocks);
    texts.extend(
        blocks
            .filter(|block| block.language == "toml" && block.code.contains("[[node]]"))
            .map(|block| block.code),
    );
    let documents: Vec<Value> = texts
        .iter()
        .map(|text| toml::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}")))
        .collect();
    check_documents("platform", &documents);
}

#[test]
fn reports_are_as_their_schema_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let plan = folder.path().join("plan.json");
    let plan = plan.to_str().expect("a name");
    run_json(&format!("mxm --size 200 --plan --save-plan {plan}"));
    check_documents(
        "report",
        &[
            run_on_ranks(4, "mxm --m 300 --n 200 --k 250 --block 32"),
            run_forced("--verify none"),
            run_on_ranks(2, "mxm --m 64 --n 64 --k 4000 --block 32 --split k"),
            run_json("mxm --size 200 --verify exact --type c32 --strategy homogeneous"),
            run_json(&format!("mxm --load-plan {plan}")),
        ],
    );
}

/// A run on two devices.
const FORCED: &str = "mxm --m 300 --n 200 --k 250 --block 32 --panel 16 \
                      --platform cluster-configs/emulated-hybrid.toml";

#[test]
fn plans_are_as_their_schema_says() {
    check_documents(
        "plan",
        &[
            run_on_ranks(4, "mxm --m 300 --n 200 --k 250 --block 32 --plan"),
            run_on_ranks(4, "mxm --size 768 --block 32 --plan --strategy fpm --split c"),
            run_on_ranks(2, "mxm --m 64 --n 64 --k 4000 --block 32 --split k --plan"),
            run_json("mxm --size 200 --plan"),
        ],
    );
}

const MODELS: &str = "--models cluster-configs/models/cliff-60k.points \
                      cluster-configs/models/cliff-30k.points";

/// Makes a surface file, and returns its name.
fn write_surface(folder: &TempDir) -> String {
    let path = folder.path().join("node.surface");
    let text = "# format: isochron-surface 1\n8 2 0.5\n8 6 1.5\n16 2 4.0\n16 6 12.0\n";
    fs::write(&path, text).expect("a writable folder");
    path.display().to_string()
}

#[test]
fn documents_of_one_process_are_as_their_schemas_say() {
    let folder = tempfile::tempdir().expect("a folder");
    let falling = folder.path().join("falling.points");
    fs::write(&falling, "1 2\n10 20\n20 3\n").expect("points");
    let (falling, surface) = (falling.display(), write_surface(&folder));
    for (name, lines) in [
        (
            "topology",
            "topology
             topology --file devices/tests/topologies/gpu-on-second-socket.xml
             topology --file devices/tests/topologies/hybrid.xml"
                .to_owned(),
        ),
        (
            "measure",
            "measure jacobi --to 4 --points 2 --width 64 --max-reps 3
             measure mxm --surface --block 8 --to 2 --points 2 --max-reps 3"
                .to_owned(),
        ),
        ("balance", "balance jacobi --units 4 --width 64 --max-reps 3".to_owned()),
        (
            "partition",
            format!(
                "partition {MODELS} --units 3000 --algorithm even
                 partition {MODELS} --units 3000 --algorithm gpa
                 partition {MODELS} --units 3000 --algorithm npa
                 partition {MODELS} --units 3000 --algorithm continuous
                 partition {MODELS} --units 3000 --algorithm hpopta --estimate upper
                 partition {MODELS} --units 3000 --algorithm hpopta-search
                 partition {MODELS} --units 3000 --algorithm hipopta --nodes 2
                 partition --units 25 --models {falling} --algorithm gpa --fit akima"
            ),
        ),
        (
            "layout",
            format!(
                "layout 3 2 1
                 layout {MODELS}
                 layout {MODELS} --method cartesian --dividing npa
                 layout --method fpm-kl --rows 16 --cols 16 --models {surface}"
            ),
        ),
    ] {
        let documents: Vec<Value> = lines.lines().map(run_json).collect();
        check_documents(name, &documents);
    }
}

#[test]
fn checks_of_health_are_as_their_schema_says() {
    let mpi = open_mpi();
    // A device of each model has nothing to be compared with.
    let line = "health --seconds 1 --store none --json";
    let unknown = mpi.run_line(1, line);
    assert_eq!(unknown.status, Some(3), "{unknown:?}");
    // Paces of 2 to 8: unlike devices, slow or not.
    let platform = cluster_configs().join("emulated-4.toml");
    let paced = mpi.run_line(4, &format!("{line} --platform {}", platform.display()));
    check_documents("health", &[json(&unknown.stdout), json(&paced.stdout)]);
}

#[test]
fn traced_models_are_as_their_schema_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().display();
    let line = "trace-model apps/tests/traces/nbody.prv --event Iteration";
    check_documents(
        "trace-model",
        &[
            run_json(&format!("{line} --size Bodies --out {out}")),
            run_json(&format!("{line}:2 --units 1")),
        ],
    );
}

#[test]
fn result_checks_are_as_their_schema_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let [out, report] =
        ["c.npy", "c.json"].map(|name| folder.path().join(name).display().to_string());
    run_json(&format!("mxm --size 30 --strategy homogeneous --out {out} --report {report}"));
    let document = run_json(&format!("check {out} --report {report}"));
    check_documents("check", slice::from_ref(&document));
}

/// Shows the models of files.
fn show_files() -> [Value; 3] {
    let folder = tempfile::tempdir().expect("a folder");
    let points = folder.path().join("odd.points");
    fs::write(&points, "100 1\n200 2\n300 30\n400 4\n500 5\n").expect("a writable folder");
    [
        run_json("models show cluster-configs/models/cliff-paging.points --at 1000"),
        run_json(&format!("models show {}", points.display())),
        run_json(&format!("models show {}", write_surface(&folder))),
    ]
}

#[test]
fn stored_models_are_as_their_schemas_say() {
    let mpi = open_mpi();
    let folder = tempfile::tempdir().expect("a folder");
    let platform = cluster_configs().join("emulated-4.toml");
    for (ranks, line) in [
        (2, &*format!("mxm --size 256 --block 32 --platform {}", platform.display())),
        (1, "balance jacobi --units 4 --width 64"),
    ] {
        let mut command = mpi.line_command(ranks, line);
        command.env("ISOCHRON_STORE", folder.path());
        run(command, HANGS).success();
    }
    let list = list_stored(folder.path(), "list");
    let models = list["models"].as_array().expect("the models");
    let names: Vec<&str> =
        models.iter().map(|model| model["name"].as_str().expect("a name")).collect();
    let shown = names.iter().map(|name| list_stored(folder.path(), &format!("show {name}")));
    let shown: Vec<Value> = shown.chain(show_files()).collect();
    let difference = list_stored(folder.path(), &format!("diff {} {}", names[0], names[1]));
    check_documents("models-show", &shown);
    check_documents("models-diff", slice::from_ref(&difference));
    check_documents("models-list", slice::from_ref(&list));
    let checked = list_stored(folder.path(), "verify");
    assert_eq!(checked["is_sound"], true, "{checked}");
    check_documents("models-verify", slice::from_ref(&checked));
    let segments = fs::read_dir(folder.path().join("v4")).expect("the segments");
    let lines: Vec<Value> = segments
        .map(|entry| read_file(entry.expect("an entry").path()))
        .flat_map(|text| text.lines().map(json).collect::<Vec<Value>>())
        .collect();
    check_documents("segment", &lines);
    let file = folder.path().join("all.models").display().to_string();
    let changes = [
        format!("export {file}"),
        format!("import {file}"),
        "compact".to_owned(),
        format!("prune --model {}", names[0]),
    ]
    .map(|line| list_stored(folder.path(), &line));
    check_documents("models-edit", &changes);
}

/// Runs `isochron models` on this store and reads the JSON that it prints.
fn list_stored(store: &Path, line: &str) -> Value {
    let mpi = open_mpi();
    let mut command = Command::new(&mpi.isochron);
    command.arg("models").args(line.split(' ')).arg("--json");
    command.env("ISOCHRON_STORE", store);
    json(&run(command, HANGS).success())
}

/// A campaign whose contenders end in every way.
const ENDS: &str = r#"
name = "ends"
[sweep]
size = [1, 2.5]
name = ["a"]
last = [true]
[[contender]]
name = "done"
command = "echo {size} {name} {last} {width}"
result = { regex = '^(?P<size_s>[0-9.]+)' }
tune = { width = [1, 2] }
[[contender]]
name = "failed"
command = "sh -c 'echo no memory; exit 3'"
[[contender]]
name = "killed"
command = "sh -c 'kill -9 $$'"
[[contender]]
name = "hangs"
command = "sleep 1000"
limit_s = 0.01
[repeat]
min = 1
max = 1
"#;

#[test]
fn campaigns_are_as_their_schemas_say() {
    let folder = tempfile::tempdir().expect("a folder");
    let [file, results, others] =
        ["ends.toml", "results", "others"].map(|name| folder.path().join(name));
    fs::write(&file, ENDS).expect("a writable folder");
    let [file, dir, other] = [&file, &results, &others].map(|path| path.display().to_string());
    let plan = |dir: &str| run_json(&format!("campaign plan {file} --dir {dir}"));
    let before = plan(&dir);
    let run = |dir: &str| run_json(&format!("campaign run {file} --dir {dir}"));
    let ran = run(&dir);
    check_documents("campaign-plan", &[before, plan(&dir)]);
    let lines = read_file(results.join("points.jsonl"));
    let lines: Vec<Value> = lines.lines().map(json).collect();
    check_documents("repetition", &lines);
    let shown = run_json(&format!("campaign status {dir}"));
    assert_eq!(ran, shown);
    check_documents("campaign-status", &[shown, show_running(folder.path())]);
    let report = run_json(&format!("campaign report {dir}"));
    check_open_documents("campaign-report", slice::from_ref(&report), Some("/environments"));
    run(&other);
    let compared = run_json(&format!("campaign compare {dir} {other}"));
    check_documents("campaign-compare", slice::from_ref(&compared));
}

/// Returns the status of a campaign while an engine runs it.
fn show_running(folder: &Path) -> Value {
    let [file, dir] = ["sleep.toml", "running"].map(|name| folder.join(name));
    let text = "name = 'sleep'\n[[contender]]\nname = 'sleep'\ncommand = 'sleep 1000'\n";
    fs::write(&file, text).expect("a writable folder");
    let [file, dir] = [file, dir].map(|path| path.display().to_string());
    let engine = Running::start(isochron(&format!("campaign run {file} --dir {dir}")));
    while !Path::new(&dir).join("campaign.toml").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let status = run_json(&format!("campaign status {dir}"));
    let _ = Command::new("kill").args(["-TERM", &engine.process().to_string()]).status();
    engine.wait(HANGS).failure(1);
    status
}
