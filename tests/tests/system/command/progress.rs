//! The line of progress of the tools: on a terminal, and nowhere else.

use std::ffi::OsStr;
use std::process::Command;

use isochron_tests::launch::{HANGS, Mpi, libraries, open_mpi, run};

use super::{Folder, check_told, run_line, write_platform};

/// Runs `isochron` on two ranks on a terminal of this width, with `redirection` behind the command. Returns what the
/// terminal shows.
fn show_on_terminal(mpi: &Mpi, columns: usize, line: &str, redirection: &str) -> String {
    let command = mpi.line_command(2, line);
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<&str> = words.filter_map(OsStr::to_str).collect();
    let shell = format!("stty cols {columns}; {} {redirection}", words.join(" "));
    let mut terminal = Command::new("script");
    terminal.args(["-qec", &shell, "/dev/null"]);
    let variables = command.get_envs();
    terminal.envs(variables.filter_map(|(name, value)| Some((name, value?))));
    terminal.env("TERM", "xterm");
    run(terminal, HANGS).success()
}

/// A command, with its line of progress and the text after it.
type ProgressCase = (String, &'static [&'static str], &'static str);

/// Lists the commands. The first one needs two ranks.
fn list_cases(folder: &Folder) -> [ProgressCase; 3] {
    let platform = write_platform(folder);
    [
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
        (
            "measure jacobi --width 64 --max-reps 3 --to 40 --points 4".to_owned(),
            &["measuring: 0 of about 4 points", "measuring: 3 of about 4 points", " s left, ±"],
            "units/s",
        ),
        (
            "balance jacobi --units 301 --width 64 --max-reps 3 --max-iterations 3".to_owned(),
            &[
                "balancing: 0 of at most 3 divisions",
                "balancing: 1 of at most 3 divisions",
                " s left",
            ],
            "units/s",
        ),
    ]
}

/// Checks that each state of the line fits the terminal, and that the last one is cleared.
fn check_states(shown: &str, columns: usize) {
    let states = shown.split('\r').filter_map(|text| text.split_once("\x1b[K"));
    for (state, _) in states {
        assert!(state.chars().count() < columns, "{state:?} of {shown:?}");
    }
    assert!(shown.contains("\r\x1b[K"), "{shown:?}");
}

#[test]
fn every_tool_shows_its_progress_on_the_terminal_of_its_launcher() {
    let folder = Folder::new();
    for mpi in libraries() {
        for (case, (line, parts, after)) in mpi.take_turns(list_cases(&folder)).enumerate() {
            for columns in mpi.take_turns([[60, 200], [200, 60]][case % 2]) {
                let shown = show_on_terminal(&mpi, columns, &line, "");
                check_told(&shown, parts, &line);
                check_states(&shown, columns);
                // The launcher forwards the result and the line in any order.
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
    let errors = folder.path("errors");
    let mpi = open_mpi();
    for (case, (line, ..)) in list_cases(&folder).into_iter().enumerate() {
        // One rank starts faster. A launcher, which has a terminal of its own to offer, is asked once.
        let quiet = match case {
            0 => mpi.run_line(2, &line),
            _ => run_line(&line),
        };
        assert_eq!(quiet.stderr, "", "{line}");
        quiet.success();
    }
    // Standard output alone is a terminal.
    for (line, ..) in list_cases(&folder).into_iter().take(2) {
        let shown = show_on_terminal(&mpi, 80, &line, &format!("2> {errors}"));
        assert!(!shown.contains("\x1b[K"), "{shown:?}");
        let errors = std::fs::read_to_string(&errors).expect("a file");
        assert_eq!(errors, "", "{line}");
    }
}
