//! Names from outside in all that the command prints: of files, devices, kernels, GPUs, hosts, models and settings.

use std::fs;
use std::process::Command;

use isochron_tests::launch::{HANGS, Outcome, open_mpi, run};
use serde_json::Value;

use super::measure::compile;
use super::{Folder, json};

/// Characters of no width, that turn the direction of the text, that end lines and that control terminals.
const HIDDEN: &str = "a\u{200b}b\u{202e}c\u{2028}d\u{ad}e\u{feff}f\u{1b}[31m\u{7}\u{7f}\u{e0001}";

/// The beginning of such a name, as people see it.
const SHOWN: &str = "a\\u{200b}b\\u{202e}";

/// Makes a name of hidden characters that is longer than a line.
fn make_name() -> String {
    format!("{HIDDEN}{}", "x".repeat(120))
}

/// Files whose names, and whose names within, are hostile. `@` in a line stands for the name of each.
struct HostileFiles {
    folder: Folder,
}

impl HostileFiles {
    fn new() -> Self {
        let files = Self { folder: Folder::new() };
        let name = serde_json::to_string(&make_name()).expect("a string");
        // A device, and a GPU in XML, cannot have control characters in its name.
        let printable = make_name().replace(|c: char| c.is_control(), "");
        let device = format!("[[node.device]]\nname = \"{printable}\"\ncores = 1\npace = 1.0\n");
        files.write("toml", &format!("schema = 1\n[[node]]\n{device}"));
        files.write("points", "1 1\n2 2\n8 9\n");
        files.write("broken", &format!("1 1\n2 {}\n", make_name()));
        let head = "%%MatrixMarket matrix array real general\n";
        files.write("mtx", &format!("{head}2 2\n4\n1\n1\n4\n"));
        let event = format!(
            "{{\"name\": {name}, \"ph\": \"X\", \"ts\": 1, \"dur\": 2, \"pid\": 0, \"tid\": 0}}"
        );
        files.write("trace", &format!("[{event}]"));
        files.write("xml", &name_gpu(&printable));
        let kernel = compile(&files.folder, "kernel", "(void)d;");
        fs::rename(kernel, files.path("so")).expect("a kernel");
        files
    }

    /// Returns the path of the file with this ending.
    fn path(&self, ending: &str) -> String {
        self.folder.path(&format!("{}.{ending}", make_name()))
    }

    fn write(&self, ending: &str, text: &str) {
        fs::write(self.path(ending), text).expect("a writable folder");
    }

    /// Runs a line, in which `@ENDING` is the path of a file and `@` alone the name.
    fn run(&self, line: &str) -> Outcome {
        let mpi = open_mpi();
        let words = line.split(' ').map(|word| match word.strip_prefix('@') {
            Some("") => make_name(),
            Some(ending) => self.path(ending),
            None => word.to_owned(),
        });
        let mut command = Command::new(&mpi.isochron);
        command.args(words);
        command.env("ISOCHRON_STORE", self.folder.path("store"));
        run(command, HANGS)
    }
}

/// Returns the saved topology of a host whose GPU has this name.
fn name_gpu(hostile: &str) -> String {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../devices/tests/topologies");
    let text = fs::read_to_string(format!("{root}/gpu-on-second-socket.xml"));
    let text = text.expect("a topology");
    let name = "GA100 [A100 PCIe 80GB]";
    assert!(text.contains(name), "{text}");
    text.replace(name, hostile)
}

/// Checks that no line holds a hidden character.
fn check_lines(outcome: &Outcome, what: &str) {
    for text in [&outcome.stdout, &outcome.stderr] {
        let hidden = text
            .chars()
            .find(|&c| c != '\n' && (c.is_control() || (!c.is_ascii() && HIDDEN.contains(c))));
        assert_eq!(hidden, None, "{what}: {text:?}");
    }
}

/// Lines that are right, each with the part of the name that its answer has to show.
const RIGHT: [(&str, bool); 14] = [
    ("models show @points", true),
    ("partition --units 9 --models @points", true),
    ("layout --models @points", false),
    ("mxm --size 64 --store none --platform @toml", true),
    ("mxm --size 64 --store none --platform @toml --plan", true),
    ("mxm --a @mtx --b @mtx --out @result.mtx --report @report", false),
    ("check @result.mtx --report @report", true),
    ("mxm --size 64 --platform @toml --save-plan @plan --plan", true),
    ("mxm --load-plan @plan --plan --platform @toml", true),
    ("topology --file @xml", true),
    ("trace-model @trace --event @ --units 4 --out @traced", true),
    ("measure @so --to 2 --points 2 --max-reps 2 --out @measured", true),
    ("balance @so --units 4 --max-reps 2", true),
    ("measure mxm --platform @toml --alone --to 1 --points 1 --max-reps 2", true),
];

#[test]
fn right_lines_do_their_work_and_show_no_hidden_character() {
    let files = HostileFiles::new();
    for (line, is_named) in RIGHT {
        let outcome = files.run(line);
        check_lines(&outcome, line);
        let text = outcome.success();
        assert!(!is_named || text.contains(SHOWN), "{line}: {text}");
        let line = format!("{line} --json");
        let outcome = files.run(&line);
        check_lines(&outcome, &line);
        // Programs get the true name.
        let found = json(&outcome.success()).to_string();
        let is_told = found.contains("a\u{200b}b\u{202e}");
        // A partition has no names.
        let has_none = !is_named || line.starts_with("partition");
        assert!(has_none || is_told, "{line}: {found}");
    }
    let line = "models show @points --plot --svg @svg";
    let outcome = files.run(line);
    check_lines(&outcome, line);
    outcome.success();
    let picture = fs::read_to_string(files.path("svg")).expect("a picture");
    assert!(!picture.contains('\u{200b}') && picture.contains(SHOWN), "{line}");
    check_store(&files);
}

/// Checks the commands about the store, which has the times of a kernel with a hostile name.
fn check_store(files: &HostileFiles) {
    let listed = json(&files.run("models list --json").success());
    let models = listed["models"].as_array().expect("models");
    let of_kernel = |model: &&Value| model["work"].to_string().contains('\u{200b}');
    let name = models.iter().find(of_kernel).expect("the kernel")["name"].as_str();
    let name = name.expect("a name");
    for line in [
        "models list",
        &format!("models show {name}"),
        &format!("models show {name} --plot"),
        &format!("models diff {name} {name}"),
        "models export @exported",
        "models import @exported",
        "models verify",
        "models compact",
    ] {
        let outcome = files.run(line);
        check_lines(&outcome, line);
        outcome.success();
    }
}

/// Lines that are wrong.
const WRONG: [&str; 24] = [
    "models show @none",
    "models show @broken",
    "models show @",
    "partition --units 9 --models @none",
    "partition --units 9 --models @broken",
    "layout --models @broken",
    "check @none --report @none",
    "check @mtx --report @mtx",
    "mxm --size 9 --platform @none",
    "mxm --size 9 --platform @points",
    "mxm --load-plan @points",
    "mxm --a @none --b @mtx",
    "mxm --size 9 --blas @",
    "mxm --size 9 --type @",
    "mxm --size @",
    "mxm --size 9 --out @none/x.npy",
    "topology --file @none",
    "topology --synthetic @",
    "trace-model @none --event @ --units 4",
    "measure @none",
    "measure @points",
    "models diff @ @",
    "models import @points",
    "@",
];

#[test]
fn messages_about_wrong_lines_show_no_hidden_character() {
    let files = HostileFiles::new();
    for line in WRONG {
        let outcome = files.run(line);
        check_lines(&outcome, line);
        assert!(
            matches!(outcome.status, Some(1 | 2)) && outcome.stderr.contains("a\\u{200b}b"),
            "{line}: {outcome:?}"
        );
    }
    let mpi = open_mpi();
    for variable in ["ISOCHRON_LOG", "ISOCHRON_BLAS", "ISOCHRON_COMM", "ISOCHRON_STORE"] {
        for line in ["mxm --size 9", "models list", "topology"] {
            let mut command = Command::new(&mpi.isochron);
            command.args(line.split(' '));
            command.env(variable, format!("/{}", make_name()));
            check_lines(&run(command, HANGS), &format!("{variable}: {line}"));
        }
    }
    let mut command = Command::new(&mpi.isochron);
    command.args(["mxm", "--size", "64", "--store", "none", "--platform", &files.path("toml")]);
    command.env("ISOCHRON_LOG", "isochron=debug");
    let logged = run(command, HANGS);
    check_lines(&logged, "the log");
    logged.success();
}

/// A name in a document, whose second line looks like one of the command.
const FORGED: &str = "a\nisochron: verified by probe";

/// Checks that no line is the second one of [`FORGED`].
fn check_forged(outcome: &Outcome, what: &str) {
    let mut lines = outcome.stdout.lines().chain(outcome.stderr.lines());
    let forged = lines.any(|line| line.starts_with("isochron: verified"));
    assert!(!forged, "{what}: {outcome:?}");
}

/// Returns copies of a document, each with another text forged. Of a list only the first element is.
fn forge(document: &Value) -> Vec<Value> {
    match document {
        Value::Object(fields) => {
            let mut all = Vec::new();
            for (name, value) in fields {
                all.extend(forge(value).into_iter().map(|value| {
                    let mut fields = fields.clone();
                    fields.insert(name.clone(), value);
                    Value::Object(fields)
                }));
            }
            all
        }
        Value::Array(items) => {
            let firsts = items.first().map_or_else(Vec::new, forge);
            let rest = items.get(1..).unwrap_or_default();
            let with_rest = |first| Value::Array([&[first], rest].concat());
            firsts.into_iter().map(with_rest).collect()
        }
        Value::String(_) => vec![FORGED.into()],
        Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}

#[test]
fn ends_of_lines_in_names_and_documents_make_no_lines() {
    let mpi = open_mpi();
    let folder = Folder::new();
    let isochron = |line: &str| {
        let mut command = Command::new(&mpi.isochron);
        command.args(line.split(' ').map(|word| match word.strip_prefix('@') {
            Some("") => FORGED.to_owned(),
            Some("file") => folder.path(&format!("{FORGED}.npy")),
            Some(name) => folder.path(name),
            None => word.to_owned(),
        }));
        command.env("ISOCHRON_STORE", folder.path("store"));
        run(command, HANGS)
    };
    isochron("mxm --size 4 --store none --out @file --report @report").success();
    let checked = isochron("check @file --report @report").success();
    assert_eq!(checked.lines().count(), 1, "{checked}");
    isochron("mxm --size 5 --store none --out @other.npy").success();
    for line in [
        "mxm --store none --a @file --b @other.npy",
        "check @other.npy --report @file",
        "models show @file",
        "partition --units 9 --models @file",
        "mxm --size 4 --load-plan @file",
        "mxm --size 4 --platform @file",
        "measure @file",
        "topology --file @file",
        "trace-model @file --event e --units 4",
    ] {
        let told = isochron(line);
        check_forged(&told, line);
        assert!(told.failure(2).contains("\\n"), "{line}");
    }
    let write = |name: &str, text: &str| {
        fs::write(folder.path(name), text).expect("a writable folder");
    };
    let device = |name: &str, rest: &str| {
        let name = serde_json::to_string(name).expect("a string");
        format!("[[node.device]]\nname = {name}\ncores = 1\n{rest}\n")
    };
    let forged = serde_json::to_string(FORGED).expect("a string");
    let two = [device("first", "pace = 5.0"), device("second", "pace = 9.0")].concat();
    write("toml", &format!("schema = 1\n[[node]]\n{two}"));
    isochron("mxm --size 64 --save-plan @plan --plan").success();
    isochron("mxm --size 256 --platform @toml --report @report --out @c.npy").success();
    for (name, line) in
        [("plan", "mxm --load-plan @forged --plan"), ("report", "check @c.npy --report @forged")]
    {
        let document = fs::read_to_string(folder.path(name)).expect("a document");
        let document: Value = serde_json::from_str(&document).expect("JSON");
        let mut all = forge(&document);
        for (field, value) in [("schema", FORGED.into()), (FORGED, 1.into())] {
            let mut fields = document.as_object().expect("fields").clone();
            fields.insert(field.to_owned(), value);
            all.push(Value::Object(fields));
        }
        for forged in all {
            write("forged", &forged.to_string());
            check_forged(&isochron(line), &format!("{line}: {forged}"));
        }
    }
    for text in [
        format!("schema = {forged}\n"),
        format!("schema = 1\n{forged} = 2\n"),
        format!("schema = 1\n[[node]]\nhost = {forged}\n{two}"),
        format!("schema = 1\n[[node]]\n{}", device(FORGED, "")),
        format!("schema = 1\n[[node]]\n{}", device("a", &format!("points = {forged}"))),
        format!("schema = 1\n[[node]]\n{}", device("a", &format!("gpu = {forged}"))),
    ] {
        write("forged", &text);
        for line in ["mxm --size 9 --platform @forged", "measure mxm --alone --platform @forged"] {
            let outcome = isochron(line);
            check_forged(&outcome, &text);
            outcome.failure(2);
        }
    }
    let event = |name: &str, process: &str| {
        format!(
            "{{\"name\": {name}, \"ph\": \"X\", \"ts\": 1, \"dur\": 2, \"pid\": {process}, \"tid\": 0}}"
        )
    };
    for text in [event(&forged, "0"), event(&forged, &forged)] {
        write("forged", &format!("[{text}]"));
        for line in [
            "trace-model @forged --event e --units 4",
            "trace-model @forged --event @ --units 4",
            "trace-model @forged --event @ --units 4 --out @traced",
        ] {
            check_forged(&isochron(line), line);
        }
    }
    write("forged", &name_gpu(&FORGED.replace('\n', "&#10;")));
    let line = "topology --file @forged";
    let outcome = isochron(line);
    check_forged(&outcome, line);
    assert!(outcome.success().contains("a\\nisochron: verified"), "{line}");
}
