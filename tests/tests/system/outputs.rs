//! Files that are read and written: nothing wrong gets a right name, and nothing right is lost.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use isochron_tests::launch::{
    HANGS, Outcome, Running, SOON, cluster_configs, libraries, processes, run,
};
use rustix::fs::OFlags;

use crate::command::Folder;

const REAL: &str = "%%MatrixMarket matrix array real general\n";

impl Folder {
    pub fn make_pipe(&self, name: &str) -> String {
        let path = self.path(name);
        let made = Command::new("mkfifo").arg(&path).status().expect("mkfifo");
        assert!(made.success());
        path
    }

    /// Replaces `@NAME` by the path of this name.
    fn words(&self, line: &str) -> Vec<String> {
        line.split_whitespace()
            .map(|word| match word.strip_prefix('@') {
                Some(name) => self.path(name),
                None => word.to_owned(),
            })
            .collect()
    }
}

fn isochron(words: &[String]) -> Outcome {
    let [mpi, _] = libraries();
    let mut command = Command::new(&mpi.isochron);
    command.args(words);
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
    fs::write(folder.path("host.xml"), "").expect("a file");
    let factors = "mxm --a @a.mtx --b @a.mtx";
    let bench = "measure mxm --block 64 --to 1 --points 1 --max-reps 3";
    for (line, options) in [
        (format!("{factors} --out @hard.mtx"), ["--out", "--a"]),
        (format!("{factors} --c @p.toml --report @p.toml"), ["--report", "--c"]),
        (format!("{factors} --out @new.npy --report @link.npy"), ["--out", "--report"]),
        ("mxm --size 9 --report @x --save-plan @x".to_owned(), ["--report", "--save-plan"]),
        (
            "mxm --size 9 --platform @p.toml --save-plan @p.toml".to_owned(),
            ["--platform", "--save-plan"],
        ),
        ("mxm --load-plan @p.toml --report @p.toml".to_owned(), ["--load-plan", "--report"]),
        ("mxm --size 9 --report @x --trace @x".to_owned(), ["--report", "--trace"]),
        ("models show @a.points --svg @a.svg".to_owned(), ["FILE", "--svg"]),
        (format!("{bench} --platform @p.toml --svg @p.toml"), ["--platform", "--svg"]),
    ] {
        let stderr = isochron(&folder.words(&line)).failure(2);
        let told = options.iter().all(|option| stderr.contains(option));
        assert!(told && stderr.contains("would write the file of"), "{line}: {stderr}");
    }
    // A file may be read twice, and pipes and devices are no files.
    isochron(&folder.words(&format!("{factors} --report /dev/null --save-plan /dev/null")))
        .success();
}

#[test]
fn points_files_of_two_devices_do_not_replace_each_other() {
    let folder = Folder::new();
    // Both names are `a_0` in a path.
    let [one, other] = ["a:0", "a/0"]
        .map(|name| format!("[[node.device]]\nname = \"{name}\"\ncores = [0]\npace = 2.0\n"));
    folder.write("p.toml", &format!("schema = 1\n[[node]]\n{one}{other}"));
    let line =
        "measure mxm --block 64 --to 1 --points 1 --max-reps 3 --platform @p.toml --out @models";
    let stderr = isochron(&folder.words(line)).failure(2);
    assert!(
        stderr.contains("--out (a/0 of rank 0 on ")
            && stderr.contains("would write the file of --out (a:0"),
        "{stderr}"
    );
}

#[test]
fn inputs_that_are_no_files_are_refused_at_once() {
    let folder = Folder::new();
    folder.write("a.mtx", &format!("{REAL}1 1\n2\n"));
    for ending in ["npy", "mtx", "toml", "points", "xml"] {
        folder.make_pipe(&format!("pipe.{ending}"));
    }
    let [mpi, _] = libraries();
    for line in [
        "mxm --a @pipe.npy --b @a.mtx",
        "mxm --a @a.mtx --b @pipe.mtx",
        "mxm --a @a.mtx --b @a.mtx --c @pipe.npy",
        "mxm --size 9 --platform @pipe.toml",
        "mxm --load-plan @pipe.toml",
        "topology --file @pipe.xml",
        "models show @pipe.points",
        "partition --units 9 --models @pipe.points",
        "layout --models @pipe.points",
    ] {
        let mut command = Command::new(&mpi.isochron);
        command.args(folder.words(line));
        let stderr = run(command, SOON).failure(2);
        assert!(stderr.contains("is a named pipe, not a file"), "{line}: {stderr}");
    }
    // All ranks leave.
    let words = folder.words("mxm --a @pipe.npy --b @a.mtx");
    let stderr = run(mpi.command(2, &mpi.isochron, &words), SOON).failure(2);
    assert!(stderr.contains("is a named pipe"), "{stderr}");
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
    let [mpi, _] = libraries();
    let words = folder.words("mxm --a @ones.mtx --b @nan.mtx --block 1 --out @out.npy");
    let stderr = mpi.isochron(2, &words).failure(2);
    let found = "elements that are not finite as f64: 3; the first is -inf in row 1, column 3 (counted from 0)";
    assert!(stderr.contains("nan.mtx") && stderr.contains(found), "{stderr}");
    let words =
        folder.words("mxm --a @ones.mtx --b @nan.mtx --block 1 --out @out.npy --verify none");
    let stdout = mpi.isochron(2, &words).success();
    let lines = stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(lines.contains("note: ") && lines.contains(found), "{stdout}");
    // The product, which is NaN in columns 0 and 3, is read back in place.
    let stderr = isochron(&folder.words("mxm --a @out.npy --b @ones.mtx")).failure(2);
    assert!(stderr.contains("f64: 8; the first is NaN in row 0, column 0"), "{stderr}");
    for (line, found) in [
        ("--a @wide.mtx --b @ones.mtx --type f32", "f32: 1; the first is inf in row 3, column 3"),
        (
            "--a @ones.mtx --b @ones.mtx --c @nan.mtx",
            "f64: 3; the first is -inf in row 1, column 3",
        ),
        ("--a @complex.mtx --b @complex.mtx", "c64: 1; the first is 1+infi in row 0, column 0"),
    ] {
        let stderr = isochron(&folder.words(&format!("mxm {line}"))).failure(2);
        assert!(stderr.contains(found), "{line}: {stderr}");
    }
    isochron(&folder.words("mxm --a @wide.mtx --b @ones.mtx")).success();
}

/// A mount namespace for everyone.
const NAMESPACE: [&str; 3] = ["unshare", "--map-root-user", "--mount"];
/// A mount namespace for root, who may mount files in it.
const NAMESPACE_OF_ROOT: [&str; 2] = ["unshare", "--mount"];

/// Makes a command that runs `script` in a mount namespace, with the folder `D` as its first argument.
fn in_namespace(namespace: &[&str], script: &str, folder: &Folder) -> Command {
    let mut command = Command::new(namespace[0]);
    command.args(&namespace[1..]).args(["sh", "-c", script, "sh"]);
    command.arg(folder.path("D"));
    command
}

/// Runs commands of the shell in a mount namespace of their own, with the file system of `$1` at `$D`, and then the
/// program. Returns `None` if the system allows no such namespace.
fn run_on_file_system(folder: &Folder, setup: &str, words: &[String]) -> Option<Outcome> {
    run_in_namespace(&NAMESPACE, folder, setup, words)
}

fn run_in_namespace(
    namespace: &[&str],
    folder: &Folder,
    setup: &str,
    words: &[String],
) -> Option<Outcome> {
    if !in_namespace(namespace, "true", folder).status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: no mount namespaces here");
        return None;
    }
    let [mpi, _] = libraries();
    let script = format!(
        "D=$1; shift; {setup}\n\"$@\" >/dev/null; status=$?\ncat $D/x.npy; ls -A $D | grep -c partial; exit $status"
    );
    let mut command = in_namespace(namespace, &script, folder);
    command.arg(&mpi.isochron).args(words);
    Some(run(command, HANGS))
}

#[test]
fn outputs_that_cannot_be_written_are_known_before_the_work() {
    let folder = Folder::new();
    fs::create_dir(folder.path("D")).expect("a folder");
    folder.write("a.points", &points());
    let mount = "mount -t tmpfs -o size=1m none $D; echo old > $D/x.npy;";
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
            (
                "head -c 2m /dev/zero > $D/fill 2> /dev/null;",
                "D/x.npy",
                "bytes, and its file system has 0 free",
            ),
            ("ulimit -f 1;", "D/x.npy", "more than `ulimit -f` allows"),
            (
                "chmod 555 $D; set -- setpriv --bounding-set=-all --inh-caps=-all \"$@\";",
                "D/x.npy",
                "Permission denied",
            ),
        ] {
            let words = folder.words(&format!("{line}{file}"));
            let Some(outcome) = run_on_file_system(&folder, &format!("{mount}{setup}"), &words)
            else {
                return;
            };
            assert_eq!(outcome.stdout, "old\n0\n", "{line}: {setup}");
            let stderr = outcome.failure(2);
            assert!(stderr.contains(reason), "{line}: {setup} {stderr}");
            assert!(stderr.contains("x.npy"), "{line}: {setup} {stderr}");
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
        let words = folder.words("mxm --size 400 --out @D/x.npy");
        let setup = format!("{mount} echo old > $D/x.npy;");
        let Some(outcome) = run_on_file_system(&folder, &setup, &words) else {
            return;
        };
        assert_eq!(outcome.status, Some(status), "{mount} {outcome:?}");
        assert!(outcome.stderr.contains(told), "{mount} {}", outcome.stderr);
        let is_kept = outcome.stdout == "old\n0\n";
        assert!(is_kept == (status == 2) && outcome.stdout.ends_with("0\n"), "{mount}");
    }
}

/// Mounts a file system with a quota of 1 MiB that holds for everyone.
const MOUNT_QUOTA: &str = "set -e; { truncate -s 200m $D.image; mkfs.btrfs -f $D.image; mount -o loop $D.image $D; \
    btrfs quota enable $D; btrfs qgroup limit 1m 0/5 $D; } > /dev/null; echo old > $D/x.npy; sync; set +e;";

/// Returns `true` if this system lets us set a quota.
fn has_quotas(folder: &Folder) -> bool {
    let script = format!("D=$1; {MOUNT_QUOTA}");
    let is_mounted = in_namespace(&NAMESPACE_OF_ROOT, &script, folder)
        .output()
        .is_ok_and(|output| output.status.success());
    if !is_mounted {
        eprintln!("skipped: a quota needs root and btrfs-progs");
    }
    is_mounted
}

#[test]
fn a_quota_is_known_before_the_work() {
    let folder = Folder::new();
    fs::create_dir(folder.path("D")).expect("a folder");
    folder.write("a.points", &points());
    if !has_quotas(&folder) {
        return;
    }
    let full = "head -c 2m /dev/zero > $D/fill 2> /dev/null;";
    for (line, fill, reason) in [
        ("mxm --size 400 --out @D/x.npy", "", "needs 1280128 bytes: Disk quota exceeded"),
        ("mxm --size 16 --out @D/x.npy", full, "Disk quota exceeded"),
        ("mxm --size 16 --report @D/x.npy", full, "Disk quota exceeded"),
        ("mxm --size 16 --save-plan @D/x.npy", full, "Disk quota exceeded"),
        ("mxm --size 16 --trace @D/x.npy", full, "Disk quota exceeded"),
        ("models show @a.points --svg @D/x.npy", full, "Disk quota exceeded"),
    ] {
        let setup = format!("{MOUNT_QUOTA}{fill}");
        let words = folder.words(line);
        let outcome = run_in_namespace(&NAMESPACE_OF_ROOT, &folder, &setup, &words);
        let outcome = outcome.expect("a namespace");
        assert_eq!(outcome.stdout, "old\n0\n", "{line}");
        let stderr = outcome.failure(2);
        assert!(stderr.contains(reason) && stderr.contains("x.npy"), "{line}: {stderr}");
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
    let quota = format!("{MOUNT_QUOTA} head -c 850k /dev/zero > $D/fill; sync;");
    let mut file_systems = vec![(&NAMESPACE[..], tight, "No space left on device")];
    if has_quotas(&folder) {
        file_systems.push((&NAMESPACE_OF_ROOT, &quota, "Disk quota exceeded"));
    }
    for (namespace, setup, reason) in file_systems {
        for line in [
            "mxm --size 16 --platform @p.toml --report @D/x.npy",
            "mxm --size 16 --platform @p.toml --save-plan @D/x.npy",
            "mxm --size 16 --platform @p.toml --trace @D/x.npy",
            "models show @a.points --svg @D/x.npy",
        ] {
            let words = folder.words(line);
            let Some(outcome) = run_in_namespace(namespace, &folder, setup, &words) else {
                return;
            };
            assert_eq!(outcome.stdout, "old\n0\n", "{line}: {reason}");
            let stderr = outcome.failure(1);
            let told = ["cannot write", "x.npy", reason];
            assert!(told.iter().all(|word| stderr.contains(word)), "{line}: {stderr}");
        }
    }
}

#[test]
fn a_folder_that_cannot_be_made_is_known_before_the_work() {
    let folder = Folder::new();
    folder.write("file", "");
    let bench = "measure mxm --block 64 --to 1 --points 1 --max-reps 3 --out @file/points";
    let stderr = isochron(&folder.words(bench)).failure(2);
    assert!(stderr.contains("file/points") && stderr.contains("Not a directory"), "{stderr}");
}

/// Replaces the standard error of the head rank by the pipe `$1`, and runs the program.
const TELL_PIPE: &str =
    r#"[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 0 ] && exec 2> "$1"; shift; exec "$@""#;

/// Opens a pipe for a writer that does not wait, and writes as much as it holds.
fn fill_pipe(path: &str) -> fs::File {
    let mut options = fs::File::options();
    let mut pipe = options
        .read(true)
        .write(true)
        .custom_flags(OFlags::NONBLOCK.bits() as i32)
        .open(path)
        .expect("a pipe");
    while pipe.write(b"\n").is_ok() {}
    pipe
}

/// Waits until a process of this program has a file in the folder open.
fn wait_for_open_file(program: &Path, folder: &str) {
    let begun = Instant::now();
    while !processes(program, folder).into_iter().any(|process| has_open_file(process, folder)) {
        assert!(begun.elapsed() < HANGS, "no file in {folder}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

fn has_open_file(process: u32, folder: &str) -> bool {
    let files = fs::read_dir(format!("/proc/{process}/fd"));
    let mut files = files.into_iter().flatten().flatten();
    files.any(|file| fs::read_link(file.path()).is_ok_and(|path| path.starts_with(folder)))
}

#[test]
fn a_folder_removed_during_the_run_makes_it_fail() {
    let planned = "isochron_core::session=debug";
    let platform = "mxm --size 16 --strategy fpm --platform @p.toml";
    for mpi in libraries() {
        for (line, event) in [
            (format!("{platform} --out"), planned),
            (format!("{platform} --report"), planned),
            (format!("{platform} --save-plan"), planned),
            (
                "measure mxm --block 64 --to 1 --points 1 --max-reps 3 --platform @p.toml --svg"
                    .to_owned(),
                "isochron_devices::measure=trace",
            ),
        ] {
            let folder = Folder::new();
            fs::create_dir(folder.path("D")).expect("a folder");
            let device = "[[node]]\n[[node.device]]\nname = \"cpu\"\ncores = 1\npace = 1.0\n";
            folder.write("p.toml", &format!("schema = 1\n{device}{device}"));
            // The head rank waits for a reader of its first event, after it has created its files.
            let (told, program) =
                (folder.make_pipe("told"), mpi.isochron.to_str().expect("a name"));
            let pipe = fill_pipe(&told);
            let words = folder.words(&format!("-c TELL sh @told {program} {line} @D/x.npy"));
            let words = words.iter().map(|word| if word == "TELL" { TELL_PIPE } else { word });
            let mut command = mpi.command(2, Path::new("sh"), &words.collect::<Vec<_>>());
            command.env("ISOCHRON_LOG", event);
            let running = Running::start(command);
            wait_for_open_file(&mpi.isochron, &folder.path("D"));
            fs::remove_dir_all(folder.path("D")).expect("a folder");
            let mut reader = fs::File::open(told).expect("a pipe");
            drop(pipe);
            let mut stderr = String::new();
            reader.read_to_string(&mut stderr).expect("events and a message");
            running.wait(HANGS).failure(1);
            assert!(
                stderr.contains("cannot write") && stderr.contains("D/x.npy"),
                "{line}: {stderr}"
            );
        }
    }
}

#[test]
fn a_replaced_file_keeps_its_mode_and_owner() {
    let folder = Folder::new();
    for (line, name) in [
        ("mxm --size 16 --out", "x.npy"),
        ("mxm --size 16 --out", "x.mtx"),
        ("mxm --size 16 --report", "x.json"),
    ] {
        let path = folder.write(name, "old");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("a mode");
        let is_root = std::os::unix::fs::chown(&path, Some(12), Some(34)).is_ok();
        let [mpi, _] = libraries();
        let words = folder.words(&format!("{line} @{name}"));
        mpi.isochron(2, &words).success();
        let found = access_of(&path);
        assert!(found.2 == 0o640 && (!is_root || found == (12, 34, 0o640)), "{line} {found:?}");
        if is_root {
            // Without the rights of root the file is the caller's, and another group gets no rights.
            let mut command = Command::new("setpriv");
            command.args(["--bounding-set=-chown", "--inh-caps=-chown"]);
            command.arg(&mpi.isochron).args(words);
            run(command, HANGS).success();
            assert_eq!(access_of(&path).2, 0o600, "{line}");
            assert_ne!(access_of(&path).0, 12, "{line}");
        }
    }
}

/// Returns user, group and mode.
fn access_of(path: impl AsRef<Path>) -> (u32, u32, u32) {
    let there = fs::metadata(path).expect("a file");
    (there.uid(), there.gid(), there.mode() & 0o777)
}
