//! The store of jobs on two hosts, which are two names of this machine with folders of their own.

use super::*;

/// Names the second rank's host `other`, lets it see the store at `$D` as `$CHANGE` makes it, and lists the segments that it
/// has in the end.
const RANK: &str = "\
    [ ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} = 1 ] || exec \"$@\"\n\
    unshare --mount --uts sh -c 'hostname other && eval $CHANGE || exit 9\n\
    \"$@\"; status=$?; cd $D/v4 && grep -H crc32 *.segment | sed \"s/^/other has /\" >&2; exit $status' sh \"$@\"";

/// Multiplies on two hosts. Returns the report, and the segments of the second host, each with its checksum; `None` if the
/// system allows no namespaces.
fn multiply_on_two_hosts(
    mpi: &Mpi,
    folder: &Folder,
    change: &str,
) -> Option<(Report, Vec<String>)> {
    let namespaces = ["--map-root-user", "--mount", "--uts"];
    let mut trial = Command::new("unshare");
    let trial = trial.args(namespaces).arg("true").status();
    if !trial.is_ok_and(|status| status.success()) {
        eprintln!("skipped: no namespaces here");
        return None;
    }
    folder.write("rank.sh", RANK);
    let store = folder.path("store");
    fs::create_dir_all(format!("{store}/v4")).expect("a folder");
    let [script, platform] = ["rank.sh", "slow.toml"].map(|name| folder.path(name));
    let isochron = mpi.isochron.display().to_string();
    let mut words = vec![&*script, &isochron, "mxm", "--platform", &platform];
    words.extend(BRIEF.split(' '));
    let job = mpi.command(2, Path::new("sh"), &words);
    let mut command = Command::new("unshare");
    command.args(namespaces).arg(job.get_program());
    command.args(job.get_args());
    for (name, value) in job.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    command.env("D", &store).env("CHANGE", change);
    use_store(&mut command, &store);
    let outcome = run(command, HANGS);
    let lines = outcome.stderr.lines();
    let segments = lines.filter_map(|line| line.strip_prefix("other has "));
    let segments = segments.map(str::to_owned).collect();
    let report = read_report(outcome);
    let hosts: Vec<&str> = report.nodes.iter().map(|node| &*node.host).collect();
    assert!(hosts[0] != "other" && hosts[1] == "other", "{hosts:?}");
    Some((report, segments))
}

/// Returns the segments of the head rank's host, each with its checksum.
fn list_checksums(folder: &Folder) -> Vec<String> {
    let found = segments(folder).into_iter().map(|path| {
        let text = fs::read_to_string(&path).expect("a segment");
        let name = path.file_name().expect("a name").display().to_string();
        format!("{name}:{}", text.lines().last().expect("a checksum"))
    });
    found.collect()
}

#[test]
fn every_host_with_a_folder_of_its_own_keeps_the_segment_of_a_job() {
    for mpi in libraries() {
        let folder = make_folder();
        let change = "mount -t tmpfs none $D && mkdir $D/v4";
        let Some((report, copies)) = multiply_on_two_hosts(&mpi, &folder, change) else {
            return;
        };
        assert_eq!(copies, list_checksums(&folder));
        assert_eq!(copies.len(), 1, "{copies:?}");
        assert_eq!(count_notices(&report, "models are not kept"), 0);
    }
}

#[test]
fn hosts_with_one_folder_keep_one_segment_of_a_job() {
    let [mpi, _] = libraries();
    let folder = make_folder();
    let Some((report, seen)) = multiply_on_two_hosts(&mpi, &folder, "true") else {
        return;
    };
    assert_eq!(seen, list_checksums(&folder));
    assert_eq!(seen.len(), 1, "{seen:?}");
    let names = fs::read_dir(folder.path("store/v4")).expect("a folder");
    assert_eq!(names.count(), 1, "nothing else is left behind");
    assert_eq!(count_notices(&report, "models are not kept"), 0);
}

#[test]
fn a_host_that_cannot_keep_the_segment_is_named_and_ends_no_job() {
    let [mpi, _] = libraries();
    let folder = make_folder();
    let change = "mount -t tmpfs -o ro none $D";
    let Some((report, copies)) = multiply_on_two_hosts(&mpi, &folder, change) else {
        return;
    };
    assert_eq!(copies.len(), 0, "{copies:?}");
    let notices = list_notices(&report);
    let told = notices.iter().filter(|notice| {
        notice.starts_with("models are not kept on other: ")
            && notice.contains("Read-only file system")
    });
    assert_eq!(told.count(), 1, "{notices:?}");
    assert_eq!(segments(&folder).len(), 1);
}
