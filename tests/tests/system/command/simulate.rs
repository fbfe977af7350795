//! Plans that SimGrid replays.
//!
//! `cargo xtask test --all` installs SimGrid.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{Folder, check_told, json, refused, run_line};
use isochron_tests::launch::{HANGS, is_whole, open_mpi, run};

const GIGABIT: &str = "[network]\nlevels = [{ points = [{ bytes = 0, time_s = 5e-5 }, { bytes = 1250000, time_s = 1.005e-2 }] }]\n";

/// Writes a platform of four nodes, each half as fast as the one before it.
fn write_cluster(folder: &Folder) -> String {
    let nodes = (0..4).map(|node| {
        // 2·64³ flop a block, at 80 GFLOP/s and less.
        let time_s = 2.0 * 64.0_f64.powi(3) / 80e9 * f64::from(1 << node);
        let lines = [1, 1000, 100_000].map(|d| format!("{d} {}\n", f64::from(d) * time_s));
        folder.write(&format!("{node}.points"), &format!("# block: 64\n{}", lines.concat()));
        format!("[[node]]\nhost = \"h{node}\"\n[[node.device]]\nname = \"cpu0\"\npoints = \"{node}.points\"\n")
    });
    let nodes: String = nodes.collect();
    folder.write("cluster.toml", &format!("schema = 1\n{nodes}{GIGABIT}"))
}

#[test]
fn a_plan_is_written_for_simgrid_and_told_without_it() {
    let folder = Folder::new();
    let platform = write_cluster(&folder);
    let out = folder.path("out");
    let mpi = open_mpi();
    let mut command = Command::new(&mpi.isochron);
    let line = format!("simulate --platform {platform} --size 2048 --block 64 --out {out} --json");
    command.args(line.split(' ')).args(["--layout", "kl in 2x2"]).env("PATH", "");
    let outcome = run(command, HANGS);
    assert_eq!(outcome.status, Some(3), "{outcome:?}");
    check_told(&outcome.stderr, &["smpirun is not installed", "libsimgrid-dev"], &line);
    let found = json(&outcome.stdout);
    assert_eq!(
        (&found["simulated_s"], &found["candidate"]["layout"]),
        (&Value::Null, &"kl in 2x2".into())
    );
    let read = |name: &str| std::fs::read_to_string(Path::new(&out).join(name)).expect("a file");
    assert!(read("platform.xml").contains("bandwidth=\"125000000Bps\" latency=\"0.000025s\""));
    let traces = read("traces");
    assert_eq!(traces.lines().count(), read("hosts").lines().count());
    let actions: String = traces.lines().map(read).collect();
    let count =
        |word: &str| actions.lines().filter(|line| line.split(' ').nth(1) == Some(word)).count();
    assert!(count("irecv") > 0 && count("irecv") == count("isend"), "{actions}");
    assert!(count("recv") == count("send") && count("init") == traces.lines().count());
    refused(
        &format!("simulate --platform {platform} --size 64 --out {out}"),
        &[],
        &["out", "is not empty"],
    );
}

#[test]
fn what_a_simulation_lacks_is_named() {
    let folder = Folder::new();
    let out = folder.path("out");
    let line = format!("simulate --platform {} --size 64", write_cluster(&folder));
    refused(&line, &[], &["--out"]);
    refused(
        &format!("{line} --out {out} --layout fpm-kl"),
        &[],
        &["--strategy, --layout: no candidate of `isochron plan` has both"],
    );
    assert!(!Path::new(&out).exists());
}

#[test]
fn simgrid_replays_four_unlike_nodes_in_the_predicted_time() {
    if !is_whole() {
        return;
    }
    let folder = Folder::new();
    let platform = write_cluster(&folder);
    let line = format!("simulate --platform {platform} --json");
    for (number, rest) in
        ["--size 8192", "--size 16384", "--m 512 --n 512 --k 65536"].iter().enumerate()
    {
        let out = folder.path(&number.to_string());
        let found = json(&run_line(&format!("{line} --block 64 {rest} --out {out}")).success());
        let ratio = found["ratio"].as_f64().expect("a ratio");
        assert!((ratio - 1.0).abs() < 0.1, "{rest}: {found}");
    }
}
