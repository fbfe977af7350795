//! Platform files, right and wrong.

use isochron_devices::{DeviceClock, Grouping, Pace};
use isochron_hierarchy::model::Point;

use super::*;

fn parse(source: &str) -> Result<PlatformSpec, String> {
    PlatformSpec::parse(source, Path::new("."))
}

#[test]
fn nodes_and_devices_are_read() {
    let source =
        "schema = 1\n[[node]]\n[[node.device]]\ncores = 2\npace = 4.0\n[[node]]\nname = \"b\"\n";
    let platform = parse(source).unwrap();
    let slow = DeviceSpec::default().on_cores(Cores::Count(2)).slowed(4.0);
    assert_eq!(platform.nodes, [NodeSpec::default().with_device(slow), NodeSpec::new("b")]);
    let gpu = "schema = 1\n[[node]]\n[[node.device]]\nkind = \"cuda\"\ngpu = 1\nmemory_limit = 1000\nhost_limit = 500\nshare = true\n";
    let device =
        DeviceSpec::gpu("").numbered(1).shared().within_memory(1000).within_host_memory(500);
    assert_eq!(parse(gpu).unwrap().nodes[0].devices(), [device]);
    let alike = "schema = 1\n[[node]]\nname = \"a\"\ncount = 3\n[[node]]\nname = \"b\"\n";
    assert_eq!(parse(alike).unwrap().nodes, ["a", "a", "a", "b"].map(NodeSpec::new));
    for count in ["0", "65537"] {
        let text = parse(&alike.replace('3', count)).unwrap_err();
        assert!(text.contains(&format!("node 0: count = {count}")), "{text}");
    }
    let grouped = parse("schema = 1\n[[node]]\ngroup = \"numa\"\n").unwrap();
    assert_eq!(grouped.nodes[0].grouping(), Some(Grouping::Numa));
}

#[test]
fn nodes_in_memory_are_checked_as_those_of_files() {
    let comm = crate::comm::LocalComm::new();
    let device = DeviceSpec::new("slow").on_cores(Cores::Count(2)).slowed(4.0);
    let node = NodeSpec::new("a").with_device(device);
    let text = "schema = 1\n[[node]]\nname = \"a\"\n[[node.device]]\nname = \"slow\"\ncores = 2\npace = 4.0\n";
    assert_eq!(parse(text).unwrap().nodes, std::slice::from_ref(&node));
    for source in [
        PlatformSource::Whole(PlatformSpec::new(vec![node.clone()])),
        PlatformSource::Whole(PlatformSpec::from_toml(text, Path::new(".")).unwrap()),
        PlatformSource::Own(node.clone()),
    ] {
        assert_eq!(source.find_node(&comm).unwrap(), node);
    }
    let here = node.clone().on_host(comm.host_name());
    assert_eq!(PlatformSource::Own(here.clone()).find_node(&comm).unwrap(), here);
    let there = PlatformSource::Own(node.clone().on_host("elsewhere"));
    let text = there.find_node(&comm).unwrap_err().to_string();
    assert!(text.contains("on the host elsewhere, but rank 0 is on"), "{text}");
    let fast = DeviceSpec::new("fast").slowed(0.5);
    let wrong = node.with_device(fast);
    let text = PlatformSource::Own(wrong).find_node(&comm).unwrap_err();
    let reason = "node 0, device 1: pace = 0.5";
    assert!(text.to_string().contains(reason), "{text}");
    let text = PlatformSource::Whole(PlatformSpec::new(Vec::new()))
        .find_node(&comm)
        .unwrap_err()
        .to_string();
    assert!(text.contains("0 nodes, but there are 1 ranks"), "{text}");
    let text = PlatformSpec::from_toml("schema = 7", Path::new(".")).unwrap_err();
    assert!(matches!(text, Error::Parameter { .. }), "{text}");
}

#[test]
fn slowed_devices_of_a_node_are_one_slowed_core() {
    let [slow, slower] = [12.0, 24.0].map(|factor| DeviceSpec::new("cpu").slowed(factor));
    let node = NodeSpec::new("mixed").with_device(slow).with_device(slower);
    assert!(matches!(node.pace_of_core(), Ok(Some(Pace::Slowdown(8.0)))));
    let plain = NodeSpec::new("a").with_device(DeviceSpec::new("cpu"));
    for node in [NodeSpec::default(), plain.clone(), plain.with_device(DeviceSpec::new("b"))] {
        assert!(matches!(node.pace_of_core(), Ok(None)), "{node:?}");
    }
    let point = Point { d: 10, t_s: 1.0, reps: 1, ci_s: 0.0 };
    let old = DeviceSpec::new("old").following(vec![point], 8);
    let alone = NodeSpec::new("a").with_device(old.clone());
    assert!(matches!(alone.pace_of_core(), Ok(Some(Pace::Points { block: 8, .. }))));
    let gpu = NodeSpec::new("b").with_device(DeviceSpec::gpu("card"));
    for (node, reason) in [(node.with_device(old), "follows points"), (gpu, "has a GPU")] {
        let text = node.pace_of_core().unwrap_err().to_string();
        assert!(text.contains(reason), "{text}");
    }
}

#[test]
fn points_in_memory_prescribe_times() {
    let points = [(10, 1.0), (20, 2.0)].map(|(d, t_s)| Point { d, t_s, reps: 1, ci_s: 0.0 });
    let device = DeviceSpec::new("old").following(points.to_vec(), 8);
    assert_eq!(NodeSpec::new("a").with_device(device.clone()).check(0), Ok(()));
    assert_eq!(device.clock(), DeviceClock::Prescribed);
    assert!(matches!(device.pace().unwrap(), Some(Pace::Points { block: 8, .. })));
    let both = NodeSpec::new("a").with_device(device.slowed(2.0));
    assert!(both.check(0).is_err());
}

#[test]
fn errors_name_the_reason() {
    let wrong = [
        ("schema = 1\n[[node]]\nspeed = 3\n", "line 3 (`speed = 3`): unknown field `speed`"),
        ("schema = 2\nnode = []\n", "schema = 2"),
        ("schema = 1\n[[node]]\n[[node.device]]\npace = 0.5\n", "pace = 0.5"),
        ("schema = 1\n[[node]]\n[[node.device]]\ncores = 0\n", "at least one core"),
        ("schema = 1\n[[node]]\n[[node.device]]\npace = 2.0\npoints = \"x\"\n", "not both"),
        ("schema = 1\n[[node]]\n[[node.device]]\npoints = \"no-such.points\"\n", "no-such.points"),
        ("schema = 1\n[[node]]\n[[node.device]]\ncores = \"all\"\n", "a number of cores or a list"),
        ("schema = 1\n[[node]]\n[[node.device]]\ncores = [1, 0, 1]\n", "1 is listed twice"),
        (
            "schema = 1\n[[node]]\n[[node.device]]\ncores = [1]\n[[node.device]]\ncores = [0, 1]\n",
            "core 1 is listed for two devices",
        ),
        ("schema = 1\n[[node]]\ngroup = \"socket\"\n", "unknown variant `socket`"),
        ("schema = 1\n[[node]]\ngroup = \"numa\"\n[[node.device]]\n", "either `group` or devices"),
        ("schema = 1\n[[node]]\n[[node.device]]\ngpu = 0\n", "are for kind = \"cuda\""),
        (
            "schema = 1\n[[node]]\n[[node.device]]\nhost_limit = 5\n",
            "`host_limit` are for kind = \"cuda\"",
        ),
        ("schema = 1\n[[node]]\n[[node.device]]\nshare = true\n", "are for kind = \"cuda\""),
        ("schema = 1\n[[node]]\n[[node.device]]\nkind = \"tpu\"\n", "unknown variant `tpu`"),
        ("schema = 1\n[[node\n", "line 2 (`[[node`): unclosed array table, expected `]]`"),
    ];
    assert_refused(&wrong);
}

#[test]
fn names_with_control_characters_and_numbers_out_of_range_are_refused() {
    assert_refused(&[
        ("schema = 1\nname = \"a\\tb\"\n[[node]]\n", "name = \"a\\tb\": control characters"),
        (
            "schema = 1\n[[node]]\n[[node]]\nname = \"\\u001b[31m\"\n",
            "node 1: name = \"\\u{1b}[31m\": control",
        ),
        (
            "schema = 1\n[[node]]\n[[node.device]]\n[[node.device]]\nname = \"a\\nb\"\n",
            "node 0, device 1: name = \"a\\nb\": control",
        ),
        (
            "schema = 1\n[[node]]\n[[node.device]]\ncores = 1000000000\npace = 2.0\n",
            "node 0, device 0: cores = 1000000000: a device has at most 65536",
        ),
        ("schema = 1\n[[node]]\n[[node.device]]\ncores = 99999999999999999999\n", "cores"),
        ("schema = 1\n[[node]]\n[[node.device]]\ncores = [-1]\n", "a number of cores or a list"),
        ("schema = 1\n[[node]]\n[[node.device]]\nkind = \"cuda\"\ngpu = -1\n", "-1"),
        ("schema = 1\n[[node]]\n[[node.device]]\npace = nan\n", "pace = NaN"),
        ("schema = 1\n[[node]]\n[[node.device]]\npace = inf\n", "pace = inf"),
        ("schema = 1\n[[node]]\n[[node.device]]\npace = -2.0\n", "pace = -2"),
        ("schema = 1\n[[node]]\n[[node.device]]\npace = 0.0\n", "pace = 0"),
    ]);
}

fn assert_refused(wrong: &[(&str, &str)]) {
    for &(source, reason) in wrong {
        let error = parse(source).unwrap_err();
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(error.contains(reason), "{error:?} should contain {reason:?}");
    }
}

/// Returns a platform with a node on each of these hosts, which has the name of its place in the list.
fn place_nodes(hosts: &[&str]) -> PlatformSpec {
    let nodes = hosts.iter().enumerate();
    let nodes = nodes.map(|(index, host)| NodeSpec::new(index.to_string()).on_host(*host));
    PlatformSpec::new(nodes.collect())
}

/// Returns the names of the nodes that ranks on these hosts get, or the reason why one gets none.
fn arrange(mut platform: PlatformSpec, hosts: &[&str]) -> Result<Vec<String>, String> {
    let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
    platform.arrange(&hosts)?;
    Ok(platform.nodes.iter().take(hosts.len()).map(|node| node.name().to_owned()).collect())
}

#[test]
fn ranks_get_the_nodes_of_their_hosts_in_whatever_order_they_start() {
    let platform = place_nodes(&["a", "a", "b", "c"]);
    for (hosts, names) in [
        (&["a", "a", "b", "c"][..], &["0", "1", "2", "3"][..]),
        (&["c", "a", "b", "a"], &["3", "0", "2", "1"]),
        (&["b", "a"], &["2", "0"]),
    ] {
        let found = arrange(platform.clone(), hosts).unwrap();
        assert_eq!(found, names, "{hosts:?}");
    }
    // Names are no hosts.
    let named = PlatformSpec::new(["x", "a"].map(NodeSpec::new).to_vec());
    assert_eq!(arrange(named, &["a", "b"]).unwrap(), ["x", "a"]);
}

#[test]
fn a_platform_of_other_hosts_is_refused_with_both() {
    for (hosts, part) in [
        (&["a", "d"][..], "the hosts a, b, c, but rank 1 is on d and"),
        (&["b", "a", "b"], "the hosts a, b, c, but rank 2 is on b and"),
        (&["a"; 4], "describes 3 nodes, but there are 4 ranks"),
    ] {
        let refused = arrange(place_nodes(&["a", "b", "c"]), hosts).unwrap_err();
        assert!(refused.contains(part), "{refused}");
    }
    let mut mixed = place_nodes(&["a", "b"]);
    mixed.nodes[1] = NodeSpec::new("1");
    let refused = arrange(mixed, &["a", "b"]).unwrap_err();
    assert!(refused.contains("node 1 has no `host`"), "{refused}");
}
