//! Destinations of answers: standard output that fails, and paths that are no files.

use std::fs::OpenOptions;
use std::io::Read as _;
use std::process::{Command, Stdio};

use isochron_tests::launch::{HANGS, libraries, open_mpi, run};

use super::{Folder, points, run_line};

/// Runs a line with this standard output; returns its status and standard error.
fn into(stdout: Stdio, line: &str) -> (Option<i32>, String) {
    let mpi = open_mpi();
    let mut command = Command::new(&mpi.isochron);
    command.args(line.split_whitespace()).stdin(Stdio::null());
    command.stdout(stdout).stderr(Stdio::piped());
    let output = command.spawn().expect("starts").wait_with_output().expect("ends");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn standard_output_that_fails_makes_no_panic() {
    let file = points("cliff-60k.points");
    for line in [
        &format!("models show {file}"),
        &format!("models show {file} --json"),
        &format!("partition --units 9 --models {file}"),
        "layout 4 2 1",
        "layout 4 2 1 --json",
        "topology",
        "mxm --size 50",
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        assert_eq!(into(writer.into(), line), (Some(0), String::new()), "{line}");
        let full = OpenOptions::new().write(true).open("/dev/full");
        let (status, told) = into(full.expect("a full device").into(), line);
        assert_eq!((status, told.lines().count()), (Some(1), 1), "{line}: {told}");
        assert!(told.contains("cannot write to standard output: "), "{line}: {told}");
    }
}

#[test]
fn plots_go_through_links_and_into_pipes() {
    let folder = Folder::new();
    let file = points("cliff-60k.points");
    let (plot, link) = (folder.write("plot.svg", "old"), folder.path("link.svg"));
    std::os::unix::fs::symlink("plot.svg", &link).expect("a link");
    run_line(&format!("models show {file} --svg {link}")).success();
    assert!(std::fs::read_to_string(&plot).expect("a plot").ends_with("</svg>\n"));
    assert!(std::path::Path::new(&link).is_symlink());

    let pipe = folder.make_pipe("pipe.svg");
    std::thread::scope(|threads| {
        let reader = threads.spawn(|| std::fs::read_to_string(&pipe));
        run_line(&format!("models show {file} --svg {pipe}")).success();
        let drawn = reader.join().expect("no panic").expect("a plot");
        assert!(drawn.ends_with("</svg>\n"), "{drawn}");
    });
    // Standard output, being a pipe here, gets the plot before the table.
    let text = run_line(&format!("models show {file} --svg /dev/stdout")).success();
    assert!(text.starts_with("<svg ") && text.contains("units/s"), "{text}");
    let files = std::fs::read_dir(folder.0.path()).expect("a folder");
    assert_eq!(files.count(), 3, "nothing else is left behind");
}

#[test]
fn a_product_goes_into_a_pipe() {
    let folder = Folder::new();
    let pipe = folder.make_pipe("product.npy");
    std::thread::scope(|threads| {
        let reader = threads.spawn(|| {
            let mut bytes = Vec::new();
            let mut file = std::fs::File::open(&pipe).expect("a pipe");
            file.read_to_end(&mut bytes).map(|_| bytes)
        });
        run_line(&format!("mxm --size 50 --out {pipe}")).success();
        let bytes = reader.join().expect("no panic").expect("a matrix");
        assert!(bytes.starts_with(b"\x93NUMPY") && bytes.len() > 50 * 50 * 8);
    });
}

#[test]
fn a_limit_on_files_makes_standard_output_fail() {
    let folder = Folder::new();
    let (file, answer) = (points("cliff-60k.points"), folder.path("answer"));
    let mpi = open_mpi();
    let isochron = mpi.isochron.to_str().expect("a path");
    let shown = format!("models show {file}");
    for line in ["--help", &shown, "topology", "mxm --size 50 --json"] {
        let mut shell = Command::new("sh");
        shell.args(["-c", "ulimit -f 0; out=$1; shift; exec \"$@\" > $out", "sh"]);
        shell.args([&answer, isochron]).args(line.split(' '));
        let told = run(shell, HANGS).failure(1);
        assert!(told.contains("cannot write to standard output: File too large"), "{line}: {told}");
    }
}

#[test]
fn a_file_that_is_standard_output_is_refused() {
    let folder = Folder::new();
    let path = folder.write("answer", "");
    std::fs::hard_link(&path, folder.path("hard")).expect("a link");
    let file = points("cliff-60k.points");
    let shown = format!("models show {file} --svg");
    for (line, name) in [
        "mxm --size 16 --json --report",
        "mxm --size 16 --out",
        "mxm --size 16 --plan --save-plan",
        &shown,
    ]
    .into_iter()
    .flat_map(|line| [(line, "answer"), (line, "hard")])
    {
        let stdout = OpenOptions::new().append(true).open(&path).expect("a file");
        let (status, told) = into(stdout.into(), &format!("{line} {}", folder.path(name)));
        let option = line.rsplit(' ').next().expect("an option");
        let reason = format!("{option} would write the file of standard output");
        assert!(status == Some(2) && told.contains(&reason), "{line}: {told}");
    }
    // Other names of standard output lead to the stream, not to the file.
    let stdout = std::fs::File::create(&path).expect("a file");
    let line = "mxm --size 16 --quiet --report /dev/stdout";
    assert_eq!(into(stdout.into(), line).0, Some(0));
    let text = std::fs::read_to_string(&path).expect("text");
    assert!(text.starts_with('{') && text.contains("}\n16×16×16 f64: "), "{text}");
}

#[test]
fn log_lines_name_their_rank_and_have_no_colours_in_a_file() {
    for mpi in libraries() {
        let mut command = mpi.line_command(2, "mxm --size 64");
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
    let help = run_line("--help").success();
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
