//! The store of jobs that are killed or write at once, of broken segments, and on file systems that take nothing more.

use super::*;
use crate::command::unshare;

/// Copies the store to a file system of its own at `$D`, changes that by `change`, and multiplies with it. Returns the report
/// and the names in the store's folder; `None` if the system allows no mount namespaces.
fn multiply_on_file_system(folder: &Folder, change: &str) -> Option<(Report, Vec<String>)> {
    let mut start = unshare(&["--map-root-user", "--mount"])?;
    let mpi = open_mpi();
    let script = format!(
        "D=$1 S=$2; shift 2; mount -t tmpfs -o size=1m none $D && cp -r $S/. $D && {change} || exit 9\n\
         \"$@\"; status=$?; ls -A $D/v4 | sed \"s/^/there is /\" >&2; exit $status"
    );
    let (mounted, store) = (folder.path("mounted"), folder.path("store"));
    let _ = fs::create_dir(&mounted);
    let job = command(&mpi, folder, BRIEF);
    start.args(["sh", "-c", &script, "sh", &mounted, &store]);
    start.arg(job.get_program()).args(job.get_args());
    start.envs(job.get_envs().filter_map(|(name, value)| Some((name, value?))));
    use_store(&mut start, &mounted);
    let outcome = run(start, HANGS);
    let names = outcome.stderr.lines().filter_map(|line| line.strip_prefix("there is "));
    let names = names.map(str::to_owned).collect();
    Some((read_report(outcome), names))
}

#[test]
fn a_job_whose_store_takes_nothing_more_uses_it_and_says_so() {
    let mpi = open_mpi();
    let folder = make_folder();
    multiply_by(&mpi, &folder, BRIEF);
    let fill = "{ head -c 2m /dev/zero > $D/fill 2> /dev/null; true; }";
    let read_only = "echo '{' > $D/v4/x.segment && mount -o remount,ro $D";
    for (change, told, files) in [
        (fill, &["its file system has 0 free"][..], 1),
        (read_only, &["Read-only file system", "x.segment is not read"], 2),
    ] {
        let Some((report, names)) = multiply_on_file_system(&folder, change) else {
            return;
        };
        assert_eq!(list_known(&report), [KnownFrom::Store; 3]);
        assert_eq!(count_notices(&report, "models are not kept"), 1);
        for part in told {
            let notices = list_notices(&report);
            assert_eq!(count_notices(&report, part), 1, "{part}: {notices:?}");
        }
        assert_eq!(names.len(), files, "{names:?}");
    }
}

#[test]
fn a_broken_store_is_told_and_ends_no_run() {
    for mpi in libraries() {
        let folder = make_folder();
        multiply(&mpi, &folder, "");
        let whole = segments(&folder).remove(0);
        let text = fs::read(&whole).expect("a segment");
        fs::write(whole.with_file_name("cut.segment"), &text[..text.len() / 2]).expect("written");
        let newer = "{\"format\":\"isochron-models\",\"version\":5}\n";
        fs::write(whole.with_file_name("newer.segment"), newer).expect("written");
        let report = multiply(&mpi, &folder, "");
        assert_eq!(list_known(&report), [KnownFrom::Store; 3]);
        let notices = list_notices(&report);
        for part in ["cut.segment is set aside", "newer.segment is not read"] {
            assert!(notices.iter().any(|notice| notice.contains(part)), "{notices:?}");
        }
        // A file where the folder should be.
        let folder = make_folder();
        folder.write("store", "");
        let report = multiply(&mpi, &folder, "");
        let notices = list_notices(&report);
        for part in ["are not read", "models are not kept"] {
            assert!(notices.iter().any(|notice| notice.contains(part)), "{notices:?}");
        }
    }
}

#[test]
fn eight_jobs_at_once_lose_nothing_though_one_is_killed_while_it_writes() {
    for mpi in libraries() {
        let folder = make_folder();
        multiply(&mpi, &folder, "");
        std::thread::scope(|threads| {
            for _ in 0..7 {
                threads.spawn(|| multiply(&mpi, &folder, ""));
            }
            threads.spawn(|| {
                let mut killed = command(&mpi, &folder, SLOW);
                killed.env("ISOCHRON_TEST_KILLED_AT", "half");
                assert_ne!(run(killed, HANGS).status, Some(0));
            });
        });
        let told = models(&folder, "store", "verify").success();
        assert!(told.contains("8 segments whole, 0 broken"), "{told}");
        assert_eq!(segments(&folder).len(), 8);
        let runs = read_runs(&folder);
        let of_devices = runs.iter().filter(|run| matches!(run.key.identity, Identity::Device(_)));
        assert_eq!(of_devices.count(), 24);
        let report = multiply(&mpi, &folder, "");
        assert_eq!(list_known(&report), [KnownFrom::Store; 3]);
    }
}
