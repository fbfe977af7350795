//! Real clusters: their measured figures, and that nothing is left of them.
//!
//! Skipped if hosts cannot be emulated (without root, namespaces, control groups or iproute2);
//! `ISOCHRON_REQUIRE_CLUSTER=1` turns that into failure.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use isochron_cluster::{ClusterError, EmulatedCluster, Spec, check, cluster_names, take_down};

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_isochron-cluster"))
}

/// Tests of several checkouts may run at once.
fn unique_name(test: &str) -> String {
    format!("{test}-{}", std::process::id())
}

fn make_spec(test: &str, n_hosts: usize) -> Spec {
    Spec::new(&unique_name(test), n_hosts).unwrap()
}

/// `None` if the machine cannot have a cluster.
fn bring_up(spec: &Spec) -> Option<EmulatedCluster> {
    EmulatedCluster::bring_up_for_test(program(), spec)
}

fn run_on(cluster: &EmulatedCluster, host: &str, script: &str) -> Output {
    let words = ["sh", "-c", script].map(str::to_owned);
    cluster.command(host, &words).unwrap().output().unwrap()
}

fn read_output(output: Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// The networks of all processes of the machine.
fn list_networks() -> Vec<String> {
    std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| std::fs::read_link(entry.path().join("ns/net")).ok())
        .map(|link| link.to_string_lossy().into_owned())
        .collect()
}

/// Nothing is left: no file, no control group, and no process, on which a host's network and its card depend.
fn assert_gone(cluster: &str, hosts: &[isochron_cluster::EmulatedHost]) {
    assert!(!cluster_names().contains(&cluster.to_owned()));
    for mount in std::fs::read_to_string("/proc/self/mountinfo")
        .unwrap()
        .lines()
        .filter(|line| line.contains(" - cgroup"))
        .filter_map(|line| line.split(' ').nth(4))
    {
        let group = Path::new(mount).join(format!("isochron-cluster-{cluster}"));
        assert!(!group.exists(), "{}", group.display());
    }
    let networks = list_networks();
    for host in hosts {
        assert!(!networks.contains(&host.network), "a process is left on {}", host.name);
    }
}

#[test]
fn hosts_have_their_own_names_addresses_and_memory() {
    let Some(cluster) = bring_up(&make_spec("own", 2)) else { return };
    assert_eq!(read_output(run_on(&cluster, "iso-2", "hostname")), "iso-2");
    let reached = read_output(run_on(&cluster, "iso-1", "getent hosts iso-2"));
    assert!(reached.starts_with("10.77.0.2 "), "{reached}");
    read_output(run_on(&cluster, "iso-1", "touch /dev/shm/mine"));
    assert!(!run_on(&cluster, "iso-2", "test -e /dev/shm/mine").status.success());
    // The machine's own network is out of sight, and its files are not.
    let cards = read_output(run_on(&cluster, "iso-1", "ls /proc/sys/net/ipv4/conf"));
    assert_eq!(cards.split_whitespace().collect::<Vec<_>>(), ["all", "default", "eth0", "lo"]);
    let here = std::env::current_dir().unwrap();
    assert_eq!(read_output(run_on(&cluster, "iso-2", "pwd")), here.to_str().unwrap());
    assert_eq!(run_on(&cluster, "iso-2", "exit 7").status.code(), Some(7));
    assert!(matches!(cluster.command("iso-3", ["true"]), Err(ClusterError::Value { .. })));
}

/// One-sided, so that a busy machine cannot break it: never faster than asked for.
#[test]
fn latency_and_bandwidth_are_kept_by_the_switch_and_the_bridge() {
    // A link of the bridge may send 32 KiB at once after a pause: below a percent of the measured payload.
    for (test, n_hosts, latency, most) in
        [("switch", 3, "300us", 200e6), ("bridge", 2, "0us", 1.01 * 200e6)]
    {
        let mut spec = make_spec(test, n_hosts);
        spec.bandwidth = Some("200mbit".parse().unwrap());
        spec.latency = latency.parse().unwrap();
        let Some(cluster) = bring_up(&spec) else { return };
        let links = check::measure_links(&cluster).unwrap();
        assert_eq!(links.len(), n_hosts - 1);
        for link in links {
            assert!(link.latency_min_s >= spec.latency.duration().as_secs_f64(), "{link:?}");
            assert!(link.there_bits_per_s <= most, "{link:?}");
            assert!(link.back_bits_per_s <= most, "{link:?}");
        }
    }
}

#[test]
fn quotas_and_cores_are_kept_and_change_while_the_cluster_is_up() {
    let mut spec = make_spec("quota", 2);
    spec.quotas = vec!["none".parse().unwrap(), "25%".parse().unwrap()];
    spec.cpus = vec![first_cpu()];
    let Some(mut cluster) = bring_up(&spec) else { return };
    let speeds = check::measure_speeds(&cluster).unwrap();
    // A second has a hundred periods; one or two more than are due may fall into it.
    assert!(speeds[1].cores <= 0.28, "{speeds:?}");
    for host in ["iso-1", "iso-2"] {
        let cpus = read_output(run_on(&cluster, host, "grep Cpus_allowed_list /proc/self/status"));
        assert_eq!(cpus.split_whitespace().nth(1).unwrap(), first_cpu().to_string());
    }
    cluster.change_quota("iso-1", "25%".parse().unwrap()).unwrap();
    cluster.change_quota("iso-2", "none".parse().unwrap()).unwrap();
    let speeds = check::measure_speeds(&cluster).unwrap();
    assert!(speeds[0].cores <= 0.28, "{speeds:?}");
    let found = EmulatedCluster::find(program(), &spec.name).unwrap();
    assert_eq!([0, 1].map(|idx| found.state().spec.quota(idx)), [Some(0.25), None]);
    let unknown = cluster.change_quota("iso-3", "25%".parse().unwrap());
    assert!(matches!(unknown, Err(ClusterError::Value { .. })));
}

fn first_cpu() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .unwrap()
        .trim()
        .split([',', '-'])
        .next()
        .unwrap()
        .parse()
        .unwrap()
}

#[test]
fn nothing_is_left_of_a_cluster_with_everything_on_it() {
    let mut spec = make_spec("gone", 2);
    spec.latency = "50us".parse().unwrap();
    spec.quotas = vec!["50%".parse().unwrap()];
    let Some(cluster) = bring_up(&spec) else { return };
    let hosts = cluster.state().hosts.clone();
    // A process that has left its session and deafened itself, as a daemon does.
    let script = "trap '' TERM HUP; setsid sleep 1000 </dev/null >/dev/null 2>&1 & echo started";
    assert_eq!(read_output(run_on(&cluster, "iso-2", script)), "started");
    assert_eq!(cluster.n_processes().unwrap(), [0, 1]);
    drop(cluster);
    assert_gone(&spec.name, &hosts);
}

#[test]
fn a_second_cluster_needs_another_name_and_does_not_meet_the_first() {
    let (one, other) = (make_spec("one", 1), make_spec("other", 1));
    let Some(first) = bring_up(&one) else { return };
    let outcome = EmulatedCluster::bring_up(program(), &one);
    assert!(matches!(outcome, Err(ClusterError::UpAlready(name)) if name == one.name));
    let second = EmulatedCluster::bring_up(program(), &other).unwrap();
    assert_ne!(first.state().hosts[0].network, second.state().hosts[0].network);
    drop(second);
    assert_eq!(read_output(run_on(&first, "iso-1", "hostname")), "iso-1");
}

#[test]
fn a_cluster_goes_when_its_owner_is_killed() {
    let spec = make_spec("owner", 2);
    let Some(cluster) = bring_up(&spec) else { return };
    drop(cluster);
    // All that a keeper sees of its owner is the other end of its standard input.
    let text = serde_json::to_string(&spec).unwrap();
    let mut keeper = Command::new(program())
        .args(["keep", &text, "--tied"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut output = BufReader::new(keeper.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let hosts = EmulatedCluster::find(program(), &spec.name).unwrap().state().hosts.clone();
    drop(keeper.stdin.take());
    assert!(keeper.wait().unwrap().success());
    assert_gone(&spec.name, &hosts);
}

#[test]
fn the_remains_of_a_killed_keeper_are_removed() {
    let spec = make_spec("killed", 2);
    let Some(mut cluster) = bring_up(&spec) else { return };
    for by_up in [false, true] {
        let script = "setsid sleep 1000 </dev/null >/dev/null 2>&1 & echo started";
        read_output(run_on(&cluster, "iso-2", script));
        cluster.kill_keeper().unwrap();
        let hosts = cluster.state().hosts.clone();
        assert!(matches!(
            EmulatedCluster::find(program(), &spec.name),
            Err(ClusterError::NotUp(_))
        ));
        if by_up {
            cluster = EmulatedCluster::bring_up(program(), &spec).unwrap();
            let running = list_networks();
            assert!(hosts.iter().all(|host| !running.contains(&host.network)));
        } else {
            assert!(take_down(&spec.name).unwrap());
            assert_gone(&spec.name, &hosts);
            assert!(!take_down(&spec.name).unwrap());
            cluster = EmulatedCluster::bring_up(program(), &spec).unwrap();
        }
    }
    assert_eq!(read_output(run_on(&cluster, "iso-2", "hostname")), "iso-2");
}

#[test]
fn every_process_of_a_stopped_host_stands_still() {
    let Some(cluster) = bring_up(&make_spec("stop", 2)) else { return };
    let processes = ["iso-1", "iso-2"].map(|host| {
        let script = "setsid sleep 1000 </dev/null >/dev/null 2>&1 & echo $!";
        read_output(run_on(&cluster, host, script))
    });
    cluster.stop_host("iso-2").unwrap();
    let is_stopped = processes.map(|process| {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        status.contains("State:\tT (stopped)")
    });
    assert_eq!(is_stopped, [false, true]);
    assert!(matches!(cluster.stop_host("iso-3"), Err(ClusterError::Value { .. })));
}

#[test]
fn a_cut_link_carries_nothing() {
    let Some(cluster) = bring_up(&make_spec("link", 2)) else { return };
    cluster.cut_link("iso-2").unwrap();
    let is_cut = ["iso-1", "iso-2"].map(|host| {
        read_output(run_on(&cluster, host, "ip link show eth0")).contains("NO-CARRIER")
    });
    assert_eq!(is_cut, [false, true]);
    assert!(matches!(cluster.cut_link("iso-3"), Err(ClusterError::Value { .. })));
    drop(cluster);
    let mut spec = make_spec("far", 2);
    spec.latency = "100us".parse().unwrap();
    let cluster = EmulatedCluster::bring_up(program(), &spec).unwrap();
    assert!(matches!(cluster.cut_link("iso-2"), Err(ClusterError::Value { .. })));
}
