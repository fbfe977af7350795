//! The store of jobs on two hosts, which are two names of this machine with folders of their own.

use super::namespaces::start_by_script;
use super::*;

/// Starts the second rank on a host as `$CHANGE` makes it, which sees the store at `$D`, and lists the segments that this host
/// has in the end. The launcher, which knows of one host, does not tell the ranks their places there.
const RANK: &str = "\
    unset OMPI_COMM_WORLD_LOCAL_RANK MPI_LOCALRANKID\n\
    [ ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} = 1 ] || exec \"$@\"\n\
    unshare --mount --uts sh -c 'eval $CHANGE || exit 9\n\
    \"$@\"; status=$?; cd $D/v4 && grep -H crc32 *.segment | sed \"s/^/other has /\" >&2; exit $status' sh \"$@\"";

/// Makes the second rank's host another machine of the same name, with a store in the folder `other`. Jobs of Open MPI alone run
/// there: between such hosts MPICH talks over TCP, and releases before 4.2 may wait for ever in `MPI_Finalize`. From
/// pmodels/mpich#6596 we take it that ranks in the last barrier answer no disconnect; we did not reproduce it.
const CLONE: &str =
    "mount --bind $D/../boot /proc/sys/kernel/random/boot_id && mount --bind $D/../other $D";

/// Runs a command of `isochron` on two hosts. Returns its end, and the segments of the second host, each with its checksum;
/// `None` if the system allows no namespaces.
fn run_on_two_hosts(
    mpi: &Mpi,
    folder: &Folder,
    change: &str,
    words: &[&str],
) -> Option<(Outcome, Vec<String>)> {
    let mut command = start_by_script(mpi, folder, RANK, words)?;
    let store = folder.path("store");
    fs::create_dir_all(format!("{store}/v4")).expect("a folder");
    command.env("D", &store).env("CHANGE", change);
    let outcome = run(command, HANGS);
    let segments = outcome.stderr.lines().filter_map(|line| line.strip_prefix("other has "));
    let segments = segments.map(str::to_owned).collect();
    Some((outcome, segments))
}

/// Multiplies on two hosts, the second of which is named `other`. Returns the report, and the segments of the second host.
fn multiply_on_two_hosts(
    mpi: &Mpi,
    folder: &Folder,
    change: &str,
) -> Option<(Report, Vec<String>)> {
    let change = format!("hostname other && {change}");
    let platform = folder.path("slow.toml");
    let (outcome, segments) = run_on_two_hosts(mpi, folder, &change, &list_words(&platform))?;
    let report = read_report(outcome);
    let hosts = list_hosts(&report);
    assert!(hosts[0] != "other" && hosts[1] == "other", "{hosts:?}");
    Some((report, segments))
}

/// Returns the words of a multiplication on the nodes of a platform file.
fn list_words(platform: &str) -> Vec<&str> {
    ["mxm", "--platform", platform].into_iter().chain(BRIEF.split(' ')).collect()
}

fn list_hosts(report: &Report) -> Vec<&str> {
    report.nodes.iter().map(|node| &*node.host).collect()
}

/// Returns the segments of the head rank's host, each with its checksum.
fn list_checksums(folder: &Folder) -> Vec<String> {
    let found = segments(folder).into_iter().map(|path| {
        let text = fs::read_to_string(&path).expect("a segment");
        let name = path.file_name().expect("a name").display().to_string();
        format!("{name}:{}", text.lines().last().expect("a checksum"))
    });
    let mut found: Vec<String> = found.collect();
    found.sort();
    found
}

#[test]
fn every_host_keeps_the_segment_of_a_job_or_says_why_not() {
    for mpi in native_libraries() {
        for (change, n_copies) in [
            // A folder of its own, the one of the head rank's host, and one that it cannot write.
            ("mount -t tmpfs none $D && mkdir $D/v4", 1),
            ("true", 1),
            ("mount -t tmpfs -o ro none $D", 0),
        ] {
            let folder = make_folder();
            let Some((report, copies)) = multiply_on_two_hosts(&mpi, &folder, change) else {
                return;
            };
            let of_head = list_checksums(&folder);
            assert_eq!((copies.len(), of_head.len()), (n_copies, 1), "{copies:?}");
            assert!(copies.iter().all(|copy| of_head.contains(copy)), "{copies:?} {of_head:?}");
            let names = fs::read_dir(folder.path("store/v4")).expect("a folder");
            assert_eq!(names.count(), 1, "nothing else is left behind");
            let told = list_notices(&report).into_iter().filter(|notice| {
                notice.starts_with("models are not kept on other: ")
                    && notice.contains("Read-only file system")
            });
            assert_eq!(told.count(), 1 - n_copies, "{:?}", list_notices(&report));
        }
    }
}

#[test]
fn devices_of_hosts_of_one_name_are_checked_before_their_times_are_used() {
    let mpi = open_mpi();
    let folder = make_folder();
    // Another identity of a running kernel, and a store.
    folder.write("boot", "11111111-2222-3333-4444-555555555555\n");
    fs::create_dir_all(folder.path("other/v4")).expect("a folder");
    let device = "name = \"a\"\ncores = 1\npoints = \"fast.points\"\n";
    let node = format!("[[node]]\n[[node.device]]\n{device}");
    let platform = folder.write("twins.toml", &format!("schema = 1\n{node}{node}"));
    for (known, looks) in [(KnownFrom::Fresh, None), (KnownFrom::StoreAndProbe, Some(1))] {
        let words = list_words(&platform);
        let Some((outcome, copies)) = run_on_two_hosts(&mpi, &folder, CLONE, &words) else {
            return;
        };
        let report = read_report(outcome);
        let [one, other] = list_hosts(&report)[..] else {
            panic!("{report:?}");
        };
        let names = (one.strip_suffix(" (1)"), other.strip_suffix(" (2)"));
        assert!(names.0.is_some() && names.0 == names.1, "{one} {other}");
        assert_eq!(list_known(&report), [known; 2]);
        assert!(looks.is_none_or(|looks| count_looks(&report) == looks));
        let doubts = count_notices(&report, "another host has an equal device and the same name");
        assert_eq!(doubts, if known == KnownFrom::Fresh { 0 } else { 2 });
        let of_head = list_checksums(&folder);
        let both = copies.iter().filter(|copy| of_head.contains(copy));
        assert_eq!(both.count(), 1, "{copies:?} {of_head:?}");
        let units = list_units(&report);
        assert!(units[0] < 2.0 * units[1] && units[1] < 2.0 * units[0], "{units:?}");
        // As if both devices had been half as fast.
        change_runs(&folder, |run| scale_times(run, 2.0));
    }
}
