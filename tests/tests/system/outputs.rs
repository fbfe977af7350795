//! Files that are read and written: nothing wrong gets a right name, and nothing right is lost.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use isochron_tests::launch::{HANGS, Outcome, SOON, cluster_configs, open_mpi, run};

use crate::command::{Folder, check_told, unshare};

const REAL: &str = "%%MatrixMarket matrix array real general\n";

/// Runs a line of `isochron`, with the paths of the files `@NAME`.
fn run_line(folder: &Folder, line: &str) -> Outcome {
    let mpi = open_mpi();
    let mut command = Command::new(&mpi.isochron);
    command.args(folder.words(line));
    run(command, HANGS)
}

fn points() -> String {
    let path = cluster_configs().join("models/cliff-60k.points");
    fs::read_to_string(path).expect("points")
}

#[test]
fn one_file_for_two_options_is_refused() {
    let folder = Folder::new();
    folder.write("a.mtx", &format!("{REAL}1 1\n2\n"));
    folder.write("a.points", &points());
    folder.write("p.toml", "schema = 1\n[[node]]\n");
    fs::hard_link(folder.path("a.mtx"), folder.path("hard.mtx")).expect("a link");
    symlink("new.npy", folder.path("link.npy")).expect("a link");
    symlink("a.points", folder.path("a.svg")).expect("a link");
    // Both names are `a_0` in a path.
    let [one, other] = ["a:0", "a/0"]
        .map(|name| format!("[[node.device]]\nname = \"{name}\"\ncores = [0]\npace = 2.0\n"));
    folder.write("alike.toml", &format!("schema = 1\n[[node]]\n{one}{other}"));
    let factors = "mxm --a @a.mtx --b @a.mtx";
    let bench = "measure mxm --block 64 --to 1 --points 1 --max-reps 3";
    for (line, options) in [
        (&*format!("{factors} --out @hard.mtx"), ["--out", "--a"]),
        (&format!("{factors} --c @p.toml --report @p.toml"), ["--report", "--c"]),
        (&format!("{factors} --out @new.npy --report @link.npy"), ["--out", "--report"]),
        ("mxm --size 9 --report @x --save-plan @x", ["--report", "--save-plan"]),
        ("mxm --size 9 --platform @p.toml --save-plan @p.toml", ["--platform", "--save-plan"]),
        ("mxm --load-plan @p.toml --report @p.toml", ["--load-plan", "--report"]),
        ("mxm --size 9 --report @x --trace @x", ["--report", "--trace"]),
        ("models show @a.points --svg @a.svg", ["FILE", "--svg"]),
        (&format!("{bench} --platform @p.toml --svg @p.toml"), ["--platform", "--svg"]),
        (&format!("{bench} --platform @alike.toml --out @models"), ["(a/0 of rank 0", "(a:0"]),
    ] {
        let told = run_line(&folder, line).failure(2);
        check_told(&told, &[options[0], options[1], "would write the file of"], line);
    }
    // A file may be read twice, and pipes and devices are no files.
    run_line(&folder, &format!("{factors} --report /dev/null --save-plan /dev/null")).success();
}

#[test]
fn inputs_that_are_no_files_are_refused_at_once() {
    let folder = Folder::new();
    folder.write("a.mtx", &format!("{REAL}1 1\n2\n"));
    for ending in ["npy", "mtx", "toml", "points", "xml", "so"] {
        folder.make_pipe(&format!("pipe.{ending}"));
    }
    let mpi = open_mpi();
    let pipe = "is a named pipe, not a file";
    for (ranks, line, reason) in [
        (1, "mxm --a @a.mtx --b @pipe.mtx", pipe),
        (1, "mxm --a @a.mtx --b @a.mtx --c @pipe.npy", pipe),
        (1, "mxm --size 9 --platform @pipe.toml", pipe),
        (1, "mxm --size 64 --blas @pipe.so", pipe),
        (1, "mxm --size 64 --blas /dev/zero", "it is a device, not a file"),
        (1, "measure @pipe.so --points 2 --unbound", pipe),
        (1, "measure /dev/zero --points 2 --unbound", "it is a device, not a file"),
        (1, "mxm --load-plan @pipe.toml", pipe),
        (1, "topology --file @pipe.xml", pipe),
        (1, "models show @pipe.points", pipe),
        (1, "partition --units 9 --models @pipe.points", pipe),
        (1, "layout --models @pipe.points", pipe),
        // All ranks leave.
        (2, "mxm --a @pipe.npy --b @a.mtx", pipe),
    ] {
        let told = run(mpi.command(ranks, &mpi.isochron, &folder.words(line)), SOON).failure(2);
        assert!(told.contains(reason), "{line}: {told}");
    }
}

#[test]
fn numbers_that_are_not_finite_are_found_on_all_ranks() {
    let folder = Folder::new();
    // Column by column: row 1, column 3 comes before row 2, column 0.
    folder.write(
        "nan.mtx",
        &format!("{REAL}4 4\n1\n1\nnan\n1\n{}1\n-inf\n1\nnan\n", "1\n".repeat(8)),
    );
    folder.write("wide.mtx", &format!("{REAL}4 4\n{}1e300\n", "1\n".repeat(15)));
    folder.write("ones.mtx", &format!("{REAL}4 4\n{}", "1\n".repeat(16)));
    let complex = REAL.replace("real", "complex");
    folder.write("complex.mtx", &format!("{complex}1 1\n1 inf\n"));
    let mpi = open_mpi();
    let words = folder.words("mxm --a @ones.mtx --b @nan.mtx --block 1 --out @out.npy");
    let found = "not finite as f64: 3; the first is -inf in row 1, column 3";
    check_told(&mpi.isochron(2, &words).failure(2), &["nan.mtx", found], "an error");
    let words = [words, folder.words("--verify none")].concat();
    let stdout = mpi.isochron(2, &words).success();
    let lines = stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    check_told(&lines, &["note: ", found], "a note");
    for (line, found) in [
        // The product, which is NaN in columns 0 and 3, is read back in place.
        ("--a @out.npy --b @ones.mtx", "f64: 8; the first is NaN in row 0, column 0"),
        ("--a @wide.mtx --b @ones.mtx --type f32", "f32: 1; the first is inf in row 3, column 3"),
        (
            "--a @ones.mtx --b @ones.mtx --c @nan.mtx",
            "f64: 3; the first is -inf in row 1, column 3",
        ),
        ("--a @complex.mtx --b @complex.mtx", "c64: 1; the first is 1+infi in row 0, column 0"),
    ] {
        let told = run_line(&folder, &format!("mxm {line}")).failure(2);
        assert!(told.contains(found), "{line}: {told}");
    }
    run_line(&folder, "mxm --a @wide.mtx --b @ones.mtx").success();
}

/// Runs commands of the shell in a mount namespace of their own, which may mount a file system at `$D`, and then `isochron`
/// with a line. Prints the file `$D/x.npy` and the number of partial files at the end. Returns `None` if the system allows no
/// such namespace.
fn run_on_file_system(folder: &Folder, setup: &str, line: &str) -> Option<Outcome> {
    let mut command = unshare(&["--map-root-user", "--mount"])?;
    let mpi = open_mpi();
    let script = format!(
        "D=$1; shift; {setup}\n\"$@\" >/dev/null; status=$?\ncat $D/x.npy; ls -A $D | grep -c partial; exit $status"
    );
    command.args(["sh", "-c", &script, "sh", &folder.path("D")]);
    command.arg(&mpi.isochron).args(folder.words(line));
    Some(run(command, HANGS))
}

#[test]
fn outputs_that_cannot_be_written_are_known_before_the_work() {
    let folder = Folder::new();
    fs::create_dir(folder.path("D")).expect("a folder");
    folder.write("a.points", &points());
    let mount = "mount -t tmpfs -o size=1m none $D; echo old > $D/x.npy;";
    let full = "head -c 2m /dev/zero > $D/fill 2> /dev/null;";
    let without_rights = "chmod 555 $D; set -- setpriv --bounding-set=-all --inh-caps=-all \"$@\";";
    for line in [
        "mxm --size 16 --out @",
        "mxm --size 16 --report @",
        "mxm --size 16 --save-plan @",
        "models show @a.points --svg @",
        "measure mxm --block 64 --to 1 --points 1 --max-reps 3 --svg @",
    ] {
        for (setup, file, reason) in [
            ("", "D/none/x.npy", "there is no folder"),
            ("mount -o remount,ro $D;", "D/x.npy", "Read-only file system"),
            (full, "D/x.npy", "bytes, and its file system has 0 free"),
            ("ulimit -f 1;", "D/x.npy", "more than `ulimit -f` allows"),
            (without_rights, "D/x.npy", "Permission denied"),
        ] {
            let line = format!("{line}{file}");
            let outcome = run_on_file_system(&folder, &format!("{mount}{setup}"), &line);
            let Some(outcome) = outcome else {
                return;
            };
            assert_eq!(outcome.stdout, "old\n0\n", "{line}: {setup}");
            check_told(&outcome.failure(2), &[reason, "x.npy"], &line);
        }
    }
}

#[test]
fn space_for_the_product_is_reserved_before_the_work() {
    let folder = Folder::new();
    fs::create_dir(folder.path("D")).expect("a folder");
    for (mount, status, told) in [
        ("mount -t tmpfs -o size=1m none $D;", 2, "needs 1280128 bytes, and its file system has "),
        ("mount -t tmpfs -o size=2m none $D;", 0, ""),
        // This file system cannot reserve.
        ("mount -t ramfs none $D;", 0, ""),
    ] {
        let setup = format!("{mount} echo old > $D/x.npy;");
        let outcome = run_on_file_system(&folder, &setup, "mxm --size 400 --out @D/x.npy");
        let Some(outcome) = outcome else {
            return;
        };
        assert_eq!(outcome.status, Some(status), "{mount} {outcome:?}");
        assert!(outcome.stderr.contains(told), "{mount} {}", outcome.stderr);
        let is_kept = outcome.stdout == "old\n0\n";
        assert!(is_kept == (status == 2) && outcome.stdout.ends_with("0\n"), "{mount}");
    }
}

#[test]
fn a_document_that_outgrows_the_space_keeps_the_older_one() {
    let folder = Folder::new();
    fs::create_dir(folder.path("D")).expect("a folder");
    // 16 KiB are reserved for a document. These are longer by the name of a device, and by the points of a plot.
    let device = format!("[[node.device]]\nname = \"{}\"\n", "x".repeat(200_000));
    folder.write("p.toml", &format!("schema = 1\n[[node]]\n{device}"));
    let many: String = (1..20_000).map(|d| format!("{d} {d}\n")).collect();
    folder.write("a.points", &many);
    let tight = "mount -t tmpfs -o size=128k none $D; echo old > $D/x.npy;";
    for line in [
        "mxm --size 16 --platform @p.toml --report @D/x.npy",
        "mxm --size 16 --platform @p.toml --save-plan @D/x.npy",
        "mxm --size 16 --platform @p.toml --trace @D/x.npy",
        "models show @a.points --svg @D/x.npy",
    ] {
        let Some(outcome) = run_on_file_system(&folder, tight, line) else {
            return;
        };
        assert_eq!(outcome.stdout, "old\n0\n", "{line}");
        check_told(&outcome.failure(1), &["cannot write", "x.npy", "No space left"], line);
    }
}
