//! The command line: every user's mistake ends with one line and status 2.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::process::{Command, Output};

fn run_command(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_isochron-cluster"));
    command.args(args).output().unwrap()
}

fn assert_refused(args: &[&str], message: &str) {
    let output = run_command(args);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
    assert_eq!(stderr.lines().count(), 1, "{args:?}: {stderr}");
    assert!(stderr.contains(message), "{args:?}: {stderr}");
}

#[test]
fn wrong_hosts_and_limits_are_named_in_one_line() {
    let long = format!("up 2 --name {}", "x".repeat(41));
    for (line, message) in [
        ("up 0", "number of hosts `0`: there must be 1 to 250"),
        ("up 251", "number of hosts `251`"),
        ("up three", "number of hosts `three`: write a whole number"),
        ("up 2 --bandwidth fast", "bandwidth `fast`"),
        ("up 2 --latency 100", "latency `100`"),
        ("up 2 --quota 25", "quota `25`"),
        ("quota iso-1 a", "quota `a`"),
        ("up 3 --quota 100%,25%", "quota `100%,25%`: give one for all hosts"),
        ("up 2 --cpus 1023", "CPU `1023`: this process may not run on it"),
        ("up 2 --cpus 99999", "CPU `99999`: this process may not run on it"),
        ("up 2 --name a/b", "name `a/b`: use 1 to 40 letters"),
        ("up 2 --name ..", "name `..`"),
        ("up 2 --name=", "name ``"),
        (&long, "name `xxx"),
    ] {
        assert_refused(&line.split_whitespace().collect::<Vec<_>>(), message);
    }
}

#[test]
fn without_a_cluster_there_is_nothing_to_run_on_and_nothing_to_remove() {
    let name = format!("none-{}", std::process::id());
    let message = format!("no cluster `{name}` is up");
    assert_refused(&["run", "--name", &name, "--", "true"], &message);
    assert_refused(&["exec", "iso-1", "--name", &name, "--", "true"], &message);
    assert_refused(&["check", "--name", &name], &message);
    assert_refused(&["quota", "iso-1", "25%", "--name", &name], &message);
    let output = run_command(&["down", "--name", &name]);
    assert!(output.status.success());
    assert_eq!(String::from_utf8(output.stdout).unwrap(), message + "\n");
}
