//! Destinations of answers: standard output that fails, and paths that are no files.

use std::fs::OpenOptions;
use std::io::Read as _;
use std::process::{Command, Output, Stdio};

use isochron_tests::launch::{HANGS, libraries, run};

use super::{Folder, isochron, points};

/// The command with this standard output.
fn into(stdout: Stdio, arguments: &[&str]) -> Output {
    let [mpi, _] = libraries();
    let mut command = Command::new(&mpi.isochron);
    command.args(arguments).stdin(Stdio::null());
    command.stdout(stdout).stderr(Stdio::piped());
    command.spawn().expect("starts").wait_with_output().expect("ends")
}

#[test]
fn standard_output_that_fails_makes_no_panic() {
    let file = points("cliff-60k.points");
    let commands: [&[&str]; 8] = [
        &["models", "show", &file],
        &["models", "show", &file, "--json"],
        &["partition", "--units", "9", "--models", &file],
        &["partition", "--units", "9", "--models", &file, "--json"],
        &["layout", "4", "2", "1"],
        &["layout", "4", "2", "1", "--json"],
        &["topology"],
        &["mxm", "--size", "50"],
    ];
    for command in commands {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = into(writer.into(), command);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{command:?}: {stderr}");
        assert_eq!(stderr, "", "{command:?}");

        let full = OpenOptions::new().write(true).open("/dev/full");
        let output = into(full.expect("a full device").into(), command);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{command:?}: {stderr}");
        let message = "isochron: cannot write to standard output: ";
        assert!(stderr.starts_with(message), "{command:?}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{command:?}: {stderr}");
    }
}

#[test]
fn plots_go_through_links_and_into_pipes() {
    let folder = Folder::new();
    let file = points("cliff-60k.points");
    let (plot, link) = (folder.write("plot.svg", "old"), folder.path("link.svg"));
    std::os::unix::fs::symlink("plot.svg", &link).expect("a link");
    isochron(&["models", "show", &file, "--svg", &link]).success();
    assert!(std::fs::read_to_string(&plot).expect("a plot").ends_with("</svg>\n"));
    assert!(std::path::Path::new(&link).is_symlink());

    let pipe = folder.path("pipe.svg");
    let made = Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
    assert!(made.success());
    std::thread::scope(|threads| {
        let reader = threads.spawn(|| std::fs::read_to_string(&pipe));
        isochron(&["models", "show", &file, "--svg", &pipe]).success();
        let drawn = reader.join().expect("no panic").expect("a plot");
        assert!(drawn.ends_with("</svg>\n"), "{drawn}");
    });
    // Standard output, being a pipe here, gets the plot before the table.
    let text = isochron(&["models", "show", &file, "--svg", "/dev/stdout"]).success();
    assert!(text.starts_with("<svg ") && text.contains("units/s"), "{text}");
    let files = std::fs::read_dir(folder.0.path()).expect("a folder");
    assert_eq!(files.count(), 3, "nothing else is left behind");
}

#[test]
fn a_product_goes_into_a_pipe() {
    let folder = Folder::new();
    let pipe = folder.path("product.npy");
    let made = Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
    assert!(made.success());
    std::thread::scope(|threads| {
        let reader = threads.spawn(|| {
            let mut bytes = Vec::new();
            let mut file = std::fs::File::open(&pipe).expect("a pipe");
            file.read_to_end(&mut bytes).map(|_| bytes)
        });
        isochron(&["mxm", "--size", "50", "--out", &pipe]).success();
        let bytes = reader.join().expect("no panic").expect("a matrix");
        assert!(bytes.starts_with(b"\x93NUMPY") && bytes.len() > 50 * 50 * 8);
    });
}

#[test]
fn a_limit_on_files_makes_standard_output_fail() {
    let folder = Folder::new();
    let (file, answer) = (points("cliff-60k.points"), folder.path("answer"));
    let [mpi, _] = libraries();
    let isochron = mpi.isochron.to_str().expect("a path");
    let commands: [&[&str]; 4] = [
        &["--help"],
        &["models", "show", &file],
        &["topology"],
        &["mxm", "--size", "50", "--json"],
    ];
    for command in commands {
        let mut shell = Command::new("sh");
        shell.args(["-c", "ulimit -f 0; out=$1; shift; exec \"$@\" > $out", "sh"]);
        shell.args([&answer, isochron]).args(command);
        let output = shell.output().expect("a shell");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{command:?}: {stderr}");
        let message = "isochron: cannot write to standard output: File too large";
        assert!(stderr.starts_with(message), "{command:?}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{command:?}: {stderr}");
    }
}

#[test]
fn a_file_that_is_standard_output_is_refused() {
    let folder = Folder::new();
    let path = folder.write("answer", "");
    std::fs::hard_link(&path, folder.path("hard")).expect("a link");
    let file = points("cliff-60k.points");
    let commands: [&[&str]; 4] = [
        &["mxm", "--size", "16", "--json", "--report"],
        &["mxm", "--size", "16", "--out"],
        &["mxm", "--size", "16", "--plan", "--save-plan"],
        &["models", "show", &file, "--svg"],
    ];
    for (command, name) in
        commands.into_iter().flat_map(|words| [(words, "answer"), (words, "hard")])
    {
        let stdout = OpenOptions::new().append(true).open(&path).expect("a file");
        let path = folder.path(name);
        let words = [command, &[&path]].concat();
        let output = into(stdout.into(), &words);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {stderr}");
        let option = command.last().expect("an option");
        let reason = format!("{option} would write the file of standard output");
        assert!(stderr.contains(&reason), "{words:?}: {stderr}");
    }
    // Other names of standard output lead to the stream, not to the file.
    let stdout = std::fs::File::create(&path).expect("a file");
    let words = ["mxm", "--size", "16", "--quiet", "--report", "/dev/stdout"];
    assert_eq!(into(stdout.into(), &words).status.code(), Some(0));
    let text = std::fs::read_to_string(&path).expect("text");
    assert!(text.starts_with('{') && text.contains("}\n16×16×16 f64: "), "{text}");
}

#[test]
fn log_lines_name_their_rank_and_have_no_colours_in_a_file() {
    for mpi in libraries() {
        let mut command = mpi.command(2, &mpi.isochron, &["mxm", "--size", "64"]);
        command.env("ISOCHRON_LOG", "isochron=info");
        let outcome = run(command, HANGS);
        assert!(!outcome.stderr.contains('\x1b'), "{outcome:#?}");
        for rank in ["rank 0 20", "rank 1 20"] {
            let of_rank = outcome.stderr.lines().filter(|line| line.starts_with(rank));
            assert!(of_rank.count() > 0, "{rank}: {outcome:#?}");
        }
        outcome.success();
    }
}

#[test]
fn the_help_names_every_variable_that_is_read() {
    let help = isochron(&["--help"]).success();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let mut grep = Command::new("grep");
    grep.args(["-rhoE", "\"ISOCHRON_[A-Z_]+\"", "--include=*.rs"]);
    let rooms = ["apps/src", "runtime/src", "runtime/front/src", "devices/src"];
    grep.args(rooms.map(|room| format!("{root}/{room}")));
    let found = run(grep, HANGS).success();
    assert!(found.lines().count() > 2, "{found}");
    let names = found.lines().map(|name| name.trim_matches('"'));
    // A bundle's launcher sets the last one, and no user.
    let hidden = ["ISOCHRON_TEST_", "ISOCHRON_BUNDLE"];
    for name in names.filter(|name| !hidden.iter().any(|start| name.starts_with(start))) {
        assert!(help.contains(name), "{name}: {help}");
    }
}
