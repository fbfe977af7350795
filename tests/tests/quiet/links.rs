//! `isochron links` and flaws of emulated hosts.

use isochron_cluster::Spec;
use isochron_tests::cluster::{bring_up_with, line_command};
use isochron_tests::command::{Folder, json};
use isochron_tests::launch::{HANGS, run};
use serde_json::{Value, json};

use crate::take_turn;

/// Measures links until one of three tries finds this cause at these hosts, and this depth of groups. All hosts share the
/// cores of a machine on which something else may run.
fn check_links(cause: &str, hosts: &[&str], depth: usize, set: impl Fn(&mut Spec)) {
    let links = Some(["400mbit", "100us"]);
    let Some(cluster) = bring_up_with("links", 5, links, set) else {
        return;
    };
    let folder = Folder::new();
    let map = folder.path("map.svg");
    let line = format!("links --json --svg {map}");
    let mut tries = Vec::new();
    let is_found = (0..3).any(|_| {
        let outcome = run(line_command(&cluster, &[1; 5], &line), HANGS);
        let found = json(&outcome.stdout);
        let levels = found["levels"].as_array().expect("a list");
        assert!(
            levels.iter().all(|level| list(&level["function"]["points"]).len() == 12),
            "{found}"
        );
        assert!(std::fs::read_to_string(&map).is_ok_and(|text| text.starts_with("<svg")));
        let findings = list(&found["findings"]);
        assert_eq!(outcome.status, Some(i32::from(!findings.is_empty())), "{found}");
        let is_expected =
            |finding: &Value| finding["cause"] == cause && finding["members"] == json!(hosts);
        let is_found =
            findings.iter().any(is_expected) && list(&found["members"][0]["groups"]).len() == depth;
        tries.push(outcome.stdout);
        is_found
    });
    assert!(is_found, "{tries:?}");
}

/// The entries of a list.
fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

#[test]
fn a_slow_adapter_is_named() {
    let _turn = take_turn();
    check_links("adapter", &["iso-2"], 0, |spec| {
        spec.flaws = vec!["iso-2:rate=100mbit".parse().expect("a flaw")];
    });
}

#[test]
fn a_slow_uplink_is_named_and_its_groups_are_found() {
    let _turn = take_turn();
    check_links("uplink", &["iso-1", "iso-2", "iso-3", "iso-4", "iso-5"], 1, |spec| {
        spec.groups = vec![2, 3];
        spec.uplink = Some("100mbit".parse().expect("a bandwidth"));
    });
}
