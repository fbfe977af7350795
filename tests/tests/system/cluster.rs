//! Ranks on several emulated hosts, over TCP.

use std::process::Command;

use isochron_cluster::EmulatedCluster;
use isochron_tests::cluster::{LINKS, bring_up, command, line_command};
use isochron_tests::command::{Folder, json};
use isochron_tests::launch::{HANGS, Running, native_libraries, open_mpi, run};
use serde_json::Value;

/// Three hosts of unlike speed.
fn hosts(test: &str) -> Option<EmulatedCluster> {
    bring_up(test, 3, LINKS, &["none", "none", "50%"])
}

/// Returns the document that ranks of `isochron` print.
fn read_document(cluster: &EmulatedCluster, ranks: &[usize], line: &str) -> Value {
    json(&run(line_command(cluster, ranks, line), HANGS).success())
}

/// Returns the entries of a list of a document under a key.
fn list<'a>(list: &'a Value, key: &str) -> Vec<&'a Value> {
    list.as_array().expect("a list").iter().map(|entry| &entry[key]).collect()
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
    let before = sent(&cluster, "iso-2");
    // So small a product is faster on one host; here everybody is to take part.
    let line = "mxm --size 768 --block 32 --verify exact --json --strategy homogeneous";
    let report = read_document(&cluster, &[2, 1, 1], line);
    assert_eq!(report["verified"], true);
    assert_eq!(list(&report["nodes"], "host"), ["iso-1", "iso-1", "iso-2", "iso-3"]);
    // Its part of an operand, the smallest of them 1/100 of 768 x 768 x 8 bytes, has to leave the host.
    let through_card = sent(&cluster, "iso-2") - before;
    assert!(through_card > 47_000, "{through_card} bytes went over the network");
}

#[test]
fn a_quota_is_taken_out_of_measured_times_and_named() {
    let Some(cluster) = hosts("measure") else {
        return;
    };
    for line in [
        "measure jacobi --width 64 --to 9 --points 2 --max-reps 3 --json",
        "measure mxm --block 8 --to 9 --points 2 --max-reps 3 --json",
    ] {
        let found = read_document(&cluster, &[0, 1, 1], line);
        let quotas = list(&found["ranks"], "quota_cores");
        assert_eq!(quotas.first(), Some(&&Value::Null), "{found}");
        assert_eq!(quotas.last(), Some(&&Value::from(0.5)), "{found}");
    }
}

#[test]
fn a_platform_file_and_a_balance_are_of_both_hosts() {
    let Some(cluster) = bring_up("tools", 2, LINKS, &[]) else {
        return;
    };
    let folder = Folder::new();
    let platform = folder.path("platform.toml");
    let read = |line: &str| read_document(&cluster, &[1, 1], line);
    let found = read(&format!("config --json --out {platform}"));
    assert_eq!(list(&found["node"], "host"), ["iso-1", "iso-2"]);
    let line = format!("mxm --size 64 --plan --json --platform {platform}");
    let plan = read(&line);
    assert_eq!(plan["nodes"].as_array().map(Vec::len), Some(2), "{plan}");
    // In the other order, each rank still gets the node of its host.
    let nodes = [("second", "iso-2"), ("first", "iso-1")];
    let nodes = nodes.map(|(name, host)| format!("[[node]]\nname = {name:?}\nhost = {host:?}\n"));
    folder.write("platform.toml", &format!("schema = 1\n{}", nodes.concat()));
    let plan = read(&line);
    assert_eq!(list(&plan["nodes"], "name"), ["first", "second"]);
    let found =
        read("balance jacobi --units 301 --width 64 --max-reps 3 --max-iterations 2 --json");
    assert_eq!(list(&found["ranks"], "host"), ["iso-1", "iso-2"]);
    let units = list(&found["ranks"], "units").into_iter().map(|units| units.as_u64());
    assert_eq!(units.sum::<Option<u64>>(), Some(301), "{found}");
}

#[test]
fn a_campaign_tells_how_its_hosts_differ() {
    let Some(cluster) = bring_up("campaign", 2, LINKS, &["none", "50%"]) else {
        return;
    };
    let mpi = open_mpi();
    let mpirun = command(&cluster, &mpi, &[1, 1]);
    let words = [mpirun.get_program()].into_iter().chain(mpirun.get_args());
    let launch = words.map(|word| format!("'{}' ", word.display()));
    let text = format!(
        "name = \"hosts\"\n[[contender]]\nname = \"multiplies\"\nlaunch = \"{}\"\n\
         command = \"'{}' mxm --size 64 --store none --quiet\"\n[repeat]\nmin = 1\nmax = 1\nagain = 0\n",
        launch.collect::<String>(),
        mpi.isochron.display()
    );
    let folder = Folder::new();
    let (file, results) = (folder.write("hosts.toml", &text), folder.path("results"));
    let mut command = Command::new(&mpi.isochron);
    command.args(["campaign", "run", &file, "--dir", &results]);
    run(command, HANGS).success();
    let environments = std::fs::read_dir(folder.path("results/env")).expect("environments");
    let [environment] = &environments.flatten().collect::<Vec<_>>()[..] else {
        panic!("not one environment");
    };
    let facts = json(&std::fs::read_to_string(environment.path()).expect("a description"));
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
    let [_, mpi] = native_libraries();
    let mut command = command(&cluster, &mpi, &[2, 0, 1]);
    command.arg("hostname");
    let output = run(command, HANGS).success();
    let mut names: Vec<_> = output.split_whitespace().collect();
    names.sort_unstable();
    assert_eq!(names, ["iso-1", "iso-1", "iso-3"]);
}

#[test]
fn a_host_whose_help_does_not_pay_gets_nothing() {
    let Some(cluster) = bring_up("alone", 2, Some(["10mbit", "1ms"]), &[]) else {
        return;
    };
    // Half of a factor takes a second to travel, and the whole product a two-hundredth of that to compute by these models:
    // so much that a link need not be measured well, which lets short messages pass faster.
    let models = Folder::new();
    for rank in [0, 1] {
        let points = "# block: 50\n# element: f64\n# kernel: gemm\n1 3e-6\n144 432e-6\n";
        models.write(&format!("rank{rank}-gemm.points"), points);
    }
    let line =
        format!("mxm --size 600 --block 50 --verify exact --json --models {}", models.path(""));
    let report = read_document(&cluster, &[1, 1], &line);
    let left_out = &report["balance"]["left_out"];
    let [without_s, with_s] = ["without_s", "with_s"]
        .map(|key| left_out[key].as_f64().unwrap_or_else(|| panic!("no prediction in {report}")));
    assert!(without_s < with_s, "{left_out}");
    let cols = list(&report["nodes"], "cols");
    assert!(cols.contains(&&0.into()) && cols.contains(&&600.into()), "{cols:?}");
    assert_eq!((&report["verified"], &report["bytes"]), (&true.into(), &0.into()));
}

#[test]
fn a_silent_host_is_named_by_the_others() {
    let Some(cluster) = bring_up("silent", 2, LINKS, &[]) else {
        return;
    };
    let mpi = open_mpi();
    // The second victim is the head rank, for which the other one speaks.
    let jobs = [1, 0].map(|victim| {
        let mut command = command(&cluster, &mpi, &[1, 1]);
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
