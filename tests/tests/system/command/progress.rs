//! The line of progress of the tools: on a terminal, and nowhere else.

use std::ffi::OsStr;
use std::process::Command;

use isochron_tests::launch::{HANGS, Mpi, libraries, run};

use super::{Folder, write_platform};

/// Makes the words of a command under `mpirun` for a shell.
fn write_words(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<&str> = words.filter_map(OsStr::to_str).collect();
    words.join(" ")
}

/// Runs `isochron` on two ranks on a terminal of this width, with `redirection` behind the command. Returns what the
/// terminal shows.
fn show_on_terminal(mpi: &Mpi, columns: usize, line: &str, redirection: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let command = mpi.command(2, &mpi.isochron, &words);
    let shell = format!(
        "stty cols {columns}; {} {redirection}",
        write_words(&command)
    );
    let mut terminal = Command::new("script");
    terminal.args(["-qec", &shell, "/dev/null"]);
    let variables = command.get_envs();
    terminal.envs(variables.filter_map(|(name, value)| Some((name, value?))));
    terminal.env("TERM", "xterm");
    run(terminal, HANGS).success()
}

/// The commands, with what their lines say and what follows these.
fn list_cases(platform: &str) -> [(String, &'static [&'static str], &'static str); 4] {
    [
        (
            "measure jacobi --width 64 --max-reps 3 --to 40 --points 4".to_owned(),
            &[
                "measuring: 0 of about 4 points",
                "measuring: 3 of about 4 points",
                " s left, ±",
            ],
            "units/s",
        ),
        (
            "balance jacobi --units 301 --width 64 --max-reps 3 --max-iterations 3".to_owned(),
            &["balancing: 1 of at most 3 divisions", " s left"],
            "units/s",
        ),
        (
            "devices bench --sizes 32 --block 32 --max-reps 4 --group node".to_owned(),
            &["measuring: 1 of ", " s left", "the peak of"],
            "% peak",
        ),
        (
            format!(
                "mxm --m 64 --n 64 --k 256 --block 8 --panel 8 --split c --platform {platform}"
            ),
            &[
                "measuring: iteration 1",
                "multiplying: step 1 of 32, expected slowest: node",
                " s left",
            ],
            "imbalance",
        ),
    ]
}

#[test]
fn every_tool_shows_its_progress_on_the_terminal_of_its_launcher() {
    let folder = Folder::new();
    let platform = write_platform(&folder);
    for mpi in libraries() {
        for (case, (line, parts, after)) in list_cases(&platform).into_iter().enumerate() {
            for columns in mpi.take_turns([[60, 200], [200, 60]][case % 2]) {
                let shown = show_on_terminal(&mpi, columns, &line, "");
                for part in parts {
                    assert!(shown.contains(part), "{part} in {shown:?}");
                }
                // Each state of the line fits, and the last one is cleared.
                let states = shown
                    .split('\r')
                    .filter_map(|text| text.split_once("\x1b[K"));
                for (state, _) in states {
                    assert!(state.chars().count() < columns, "{state:?} of {shown:?}");
                }
                // The launcher forwards the result and the line in any order.
                assert!(shown.contains("\r\x1b[K"), "{shown:?}");
                assert!(shown.contains(after), "{shown:?}");
            }
        }
    }
}

#[test]
fn the_slowest_node_is_named_once_its_steps_were_seen() {
    for mpi in libraries() {
        let folder = Folder::new();
        let platform = write_platform(&folder);
        let line = format!("mxm --m 64 --n 64 --k 512 --block 8 --panel 8 --platform {platform}");
        let shown = show_on_terminal(&mpi, 120, &line, "");
        assert!(shown.contains(" GFLOP/s, slowest: node "), "{shown:?}");
    }
}

#[test]
fn nothing_is_shown_where_standard_error_is_no_terminal() {
    let folder = Folder::new();
    let platform = write_platform(&folder);
    let errors = folder.path("errors");
    for mpi in libraries() {
        for (line, ..) in mpi.take_turns(list_cases(&platform)) {
            let words: Vec<&str> = line.split(' ').collect();
            let quiet = mpi.isochron(2, &words);
            assert_eq!(quiet.stderr, "", "{line}");
            quiet.success();
            // Standard output alone is a terminal.
            let shown = show_on_terminal(&mpi, 80, &line, &format!("2> {errors}"));
            assert!(!shown.contains("\x1b[K"), "{shown:?}");
            let errors = std::fs::read_to_string(&errors).expect("a file");
            assert_eq!(errors, "", "{line}");
        }
    }
}
