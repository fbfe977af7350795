//! Ranks on several emulated hosts, over TCP.

use std::process::Command;

use isochron_cluster::{EmulatedCluster, MpiFamily, MpiLauncher, Spec};
use isochron_tests::launch::{HANGS, Mpi, Running, cluster_program, libraries, run};
use serde_json::Value;

/// Describes `hosts` hosts with links like these.
pub fn spec(test: &str, hosts: usize, bandwidth: &str, latency: &str) -> Spec {
    let name = format!("{test}-{}", std::process::id());
    let mut spec = Spec::new(&name, hosts).expect("a specification");
    spec.bandwidth = Some(bandwidth.parse().expect("a bandwidth"));
    spec.latency = latency.parse().expect("a latency");
    spec
}

/// Three hosts of unlike speed; `None` where they cannot be had.
fn hosts(test: &str) -> Option<EmulatedCluster> {
    let mut spec = spec(test, 3, "1gbit", "100us");
    spec.quotas = ["none", "none", "50%"].map(|text| text.parse().expect("a quota")).into();
    EmulatedCluster::bring_up_for_test(&cluster_program(), &spec)
}

pub fn launcher(mpi: &Mpi, library: MpiFamily) -> MpiLauncher {
    MpiLauncher { mpi: library, mpirun: mpi.mpirun().to_owned() }
}

/// Bytes that a host has sent through its network card.
fn sent(cluster: &EmulatedCluster, host: &str) -> u64 {
    let words = ["cat", "/proc/net/dev"].map(str::to_owned);
    let text = run(cluster.command(host, &words).expect("a host"), HANGS).success();
    let numbers: Vec<_> = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("eth0:"))
        .expect("a card")
        .split_whitespace()
        .collect();
    numbers[8].parse().expect("a number of bytes")
}

#[test]
fn ranks_multiply_exactly_on_three_hosts() {
    let Some(cluster) = hosts("multiply") else {
        return;
    };
    let [mpi, _] = libraries();
    let before = sent(&cluster, "iso-2");
    let ranks = [2, 1, 1];
    let mut command = cluster
        .mpirun_command(&launcher(&mpi, MpiFamily::OpenMpi), &ranks)
        .expect("ranks for each host");
    command.arg(&mpi.isochron).args(["mxm", "--size", "768"]);
    command.args(["--block", "32", "--verify", "exact", "--json"]);
    // So small a product is faster on one host; here everybody is to take part.
    command.args(["--strategy", "homogeneous"]);
    let report: Value = serde_json::from_str(&run(command, HANGS).success()).expect("a report");
    assert_eq!(report["verified"], true);
    let places: Vec<_> = report["nodes"]
        .as_array()
        .expect("nodes")
        .iter()
        .map(|node| node["host"].as_str().expect("a host"))
        .collect();
    assert_eq!(places, ["iso-1", "iso-1", "iso-2", "iso-3"]);
    // Its part of an operand, the smallest of them 1/100 of 768 x 768 x 8 bytes, has to leave the host.
    let through_card = sent(&cluster, "iso-2") - before;
    assert!(through_card > 47_000, "{through_card} bytes went over the network");
}

#[test]
fn a_quota_is_taken_out_of_measured_times_and_named() {
    let Some(cluster) = hosts("measure") else {
        return;
    };
    let [mpi, _] = libraries();
    let launcher = launcher(&mpi, MpiFamily::OpenMpi);
    for line in [
        "measure jacobi --width 64 --to 9 --points 2 --max-reps 3 --json",
        "measure mxm --block 8 --to 9 --points 2 --max-reps 3 --json",
    ] {
        let mut command =
            cluster.mpirun_command(&launcher, &[0, 1, 1]).expect("ranks for each host");
        command.arg(&mpi.isochron).args(line.split(' '));
        let found: Value = serde_json::from_str(&run(command, HANGS).success()).expect("models");
        let quotas: Vec<&Value> = found["ranks"]
            .as_array()
            .expect("models")
            .iter()
            .map(|model| &model["quota_cores"])
            .collect();
        assert_eq!(quotas.first(), Some(&&Value::Null), "{found}");
        assert_eq!(quotas.last(), Some(&&Value::from(0.5)), "{found}");
    }
}

/// Runs `isochron` with the words of a line on a rank of each of two hosts, and returns the document that it prints.
fn read_document(cluster: &EmulatedCluster, line: &str) -> Value {
    let [mpi, _] = libraries();
    let mut command = cluster
        .mpirun_command(&launcher(&mpi, MpiFamily::OpenMpi), &[1, 1])
        .expect("a rank a host");
    command.arg(&mpi.isochron).args(line.split(' '));
    serde_json::from_str(&run(command, HANGS).success()).expect("a document")
}

/// Returns the hosts that a list of a document names.
fn list_hosts<'a>(list: &'a Value, key: &str) -> Vec<&'a str> {
    list.as_array()
        .expect("a list")
        .iter()
        .map(|entry| entry[key].as_str().expect("a host"))
        .collect()
}

#[test]
fn a_platform_file_and_a_balance_are_of_both_hosts() {
    let spec = spec("tools", 2, "1gbit", "100us");
    let Some(cluster) = EmulatedCluster::bring_up_for_test(&cluster_program(), &spec) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let platform = folder.path().join("platform.toml").display().to_string();
    let found = read_document(&cluster, &format!("config --json --out {platform}"));
    assert_eq!(list_hosts(&found["node"], "host"), ["iso-1", "iso-2"]);
    let line = format!("mxm --size 64 --plan --json --platform {platform}");
    let plan = read_document(&cluster, &line);
    assert_eq!(plan["nodes"].as_array().map(Vec::len), Some(2), "{plan}");
    // In the other order, each rank still gets the node of its host.
    let nodes = [("second", "iso-2"), ("first", "iso-1")];
    let nodes = nodes.map(|(name, host)| format!("[[node]]\nname = {name:?}\nhost = {host:?}\n"));
    let text = format!("schema = 1\n{}", nodes.concat());
    std::fs::write(&platform, text).expect("a writable folder");
    let plan = read_document(&cluster, &line);
    assert_eq!(list_hosts(&plan["nodes"], "name"), ["first", "second"]);
    let line = "balance jacobi --units 301 --width 64 --max-reps 3 --max-iterations 2 --json";
    let found = read_document(&cluster, line);
    assert_eq!(list_hosts(&found["ranks"], "host"), ["iso-1", "iso-2"]);
    let units = found["ranks"].as_array().expect("ranks").iter();
    let units = units.map(|rank| rank["units"].as_u64().expect("units"));
    assert_eq!(units.sum::<u64>(), 301, "{found}");
}

#[test]
fn a_campaign_tells_how_its_hosts_differ() {
    let mut spec = spec("campaign", 2, "1gbit", "100us");
    spec.quotas = ["none", "50%"].map(|text| text.parse().expect("a quota")).into();
    let Some(cluster) = EmulatedCluster::bring_up_for_test(&cluster_program(), &spec) else {
        return;
    };
    let [mpi, _] = libraries();
    let mpirun = cluster
        .mpirun_command(&launcher(&mpi, MpiFamily::OpenMpi), &[1, 1])
        .expect("a rank a host");
    let words = [mpirun.get_program()].into_iter().chain(mpirun.get_args());
    let launch = words.map(|word| format!("'{}' ", word.display()));
    let text = format!(
        "name = \"hosts\"\n[[contender]]\nname = \"multiplies\"\nlaunch = \"{}\"\n\
         command = \"'{}' mxm --size 64 --store none --quiet\"\n[repeat]\nmin = 1\nmax = 1\nagain = 0\n",
        launch.collect::<String>(),
        mpi.isochron.display()
    );
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("hosts.toml");
    std::fs::write(&file, text).expect("a writable folder");
    let results = folder.path().join("results");
    let mut command = Command::new(&mpi.isochron);
    command.args(["campaign", "run"]).arg(&file);
    command.arg("--dir").arg(&results);
    run(command, HANGS).success();
    let environments = std::fs::read_dir(results.join("env")).expect("environments");
    let [environment] = &environments.flatten().collect::<Vec<_>>()[..] else {
        panic!("not one environment");
    };
    let facts = std::fs::read(environment.path()).expect("a description");
    let facts: Value = serde_json::from_slice(&facts).expect("a description");
    assert_eq!(facts["hosts"], "iso-1 iso-2");
    assert_eq!(facts["unlike_hosts"], serde_json::json!({"iso-2": {"cpu quota_cores": 0.5}}));
}

/// The launcher alone: a job of MPICH as Debian builds it may hang in MPI_Finalize wherever its ranks talk over TCP,
/// also on one host.
#[test]
fn mpich_starts_its_processes_on_the_hosts() {
    let Some(cluster) = hosts("mpich") else {
        return;
    };
    let [_, mpi] = libraries();
    let mut command = cluster
        .mpirun_command(&launcher(&mpi, MpiFamily::Mpich), &[2, 0, 1])
        .expect("ranks for each host");
    command.arg("hostname");
    let output = run(command, HANGS).success();
    let mut names: Vec<_> = output.split_whitespace().collect();
    names.sort_unstable();
    assert_eq!(names, ["iso-1", "iso-1", "iso-3"]);
}

#[test]
fn a_host_whose_help_does_not_pay_gets_nothing() {
    let spec = spec("alone", 2, "10mbit", "1ms");
    let Some(cluster) = EmulatedCluster::bring_up_for_test(&cluster_program(), &spec) else {
        return;
    };
    let [mpi, _] = libraries();
    let launcher = launcher(&mpi, MpiFamily::OpenMpi);
    let mut command = cluster.mpirun_command(&launcher, &[1, 1]).expect("a rank a host");
    // Half of a factor takes a second to travel, and the whole product a two-hundredth of that to compute by these models:
    // so much that a link need not be measured well, which lets short messages pass faster.
    let models = tempfile::tempdir().expect("a folder");
    for rank in [0, 1] {
        let file = models.path().join(format!("rank{rank}-gemm.points"));
        let points = "# block: 50\n# element: f64\n# kernel: gemm\n1 3e-6\n144 432e-6\n";
        std::fs::write(file, points).expect("a writable folder");
    }
    command.arg(&mpi.isochron).args(["mxm", "--size", "600"]);
    command.args(["--block", "50", "--verify", "exact", "--json"]);
    command.arg("--models").arg(models.path());
    let report: Value = serde_json::from_str(&run(command, HANGS).success()).expect("a report");
    let left_out = &report["balance"]["left_out"];
    let [without_s, with_s] = ["without_s", "with_s"]
        .map(|key| left_out[key].as_f64().unwrap_or_else(|| panic!("no prediction in {report}")));
    assert!(without_s < with_s, "{left_out}");
    let cols: Vec<_> = report["nodes"]
        .as_array()
        .expect("nodes")
        .iter()
        .map(|node| node["cols"].as_u64())
        .collect();
    assert!(cols.contains(&Some(0)) && cols.contains(&Some(600)), "{cols:?}");
    assert_eq!((&report["verified"], &report["bytes"]), (&true.into(), &0.into()));
}

#[test]
fn a_silent_host_is_named_by_the_others() {
    let spec = spec("silent", 2, "1gbit", "100us");
    let Some(cluster) = EmulatedCluster::bring_up_for_test(&cluster_program(), &spec) else {
        return;
    };
    let [mpi, _] = libraries();
    // The second victim is the head rank, for which the other one speaks.
    let jobs = [1, 0].map(|victim| {
        let mut command = cluster
            .mpirun_command(&launcher(&mpi, MpiFamily::OpenMpi), &[1, 1])
            .expect("a rank a host");
        let stop = format!("ISOCHRON_TEST_STOPPED_AT=step:{victim}");
        command.arg("env").arg(stop).arg(&mpi.isochron);
        let line =
            "mxm --size 256 --block 32 --panel 32 --split c --strategy homogeneous --store none";
        command.args(line.split(' ')).args(["--stall-timeout", "10"]);
        (Running::start(command), victim)
    });
    for (job, victim) in jobs {
        let told = job.wait(HANGS).failure(1);
        let (rank, host) = (victim, victim + 1);
        let silent = format!("isochron: rank {rank} on iso-{host} has been silent for ");
        let line =
            told.lines().find(|line| line.starts_with(&silent)).unwrap_or_else(|| panic!("{told}"));
        assert!(line.contains("it was multiplying"), "{told}");
        let end =
            " (stopped, or its host or link is gone); the job ends, after 10 s without progress";
        assert!(line.ends_with(end), "{told}");
        assert_eq!(told.matches("isochron: ").count(), 1, "{told}");
    }
}
