//! The texts about runs that learn.

use isochron_tests::launch::{HANGS, Mpi, open_mpi, run};

use crate::command::{Folder, check_told};

/// Two nodes with three devices, each so slow that no message counts, whatever else the machine does.
pub const SLOW: &str = "--platform @slow.toml --m 64 --n 64 --k 96 --block 8 --panel 8";

/// Makes a folder with the platform of [`SLOW`].
pub fn make_folder() -> Folder {
    let folder = Folder::new();
    folder.write("s.points", "# block: 8\n1 0.002\n64 0.128\n");
    let device =
        |name| format!("[[node.device]]\nname = \"{name}\"\ncores = 1\npoints = \"s.points\"\n");
    let (a, b, c) = (device("a"), device("b"), device("c"));
    folder.write("slow.toml", &format!("schema = 1\n[[node]]\n{a}{b}[[node]]\n{c}"));
    folder
}

/// Prints a run of 40 steps whose division changes after every `every` steps.
fn print_run(mpi: &Mpi, folder: &Folder, every: u64) -> String {
    let line = format!("{SLOW} --k 320 --split c").replace("--k 96 ", "");
    let mut command = mpi.command(2, &mpi.isochron, &folder.words(&format!("mxm {line}")));
    command.env("ISOCHRON_TEST_FORCED_CHANGES", every.to_string());
    let text = run(command, HANGS).success();
    let widths = text.lines().map(|line| line.chars().count());
    assert!(widths.max() <= Some(80), "{text}");
    text
}

#[test]
fn what_was_learnt_is_said() {
    let folder = make_folder();
    let mpi = open_mpi();
    let plan = mpi.isochron(2, &folder.words(&format!("mxm {SLOW} --split c --plan")));
    let plan = plan.success().split_whitespace().collect::<Vec<_>>().join(" ");
    check_told(&plan, &["left to the run: the borders", "known now: "], "the plan");
    let few = print_run(&mpi, &folder, 7);
    let many = print_run(&mpi, &folder, 1);
    for text in [&few, &many] {
        let parts = ["  learnt  ", "±", "\nlooked at all devices in ", "\nchanged in the run "];
        check_told(text, &parts, "the text");
        check_told(text, &["  forced  ", "\nlearning in the run cost "], "the text");
    }
    assert!(many.contains(" more changes ") && !few.contains(" more changes "), "{many}{few}");
}
