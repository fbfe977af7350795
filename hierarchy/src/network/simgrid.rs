//! A network as a platform of SimGrid, whose engine then replays messages on it.
//!
//! [`Network::phase_s`] adds up the bytes through each resource, and the latencies of messages that come one after another.
//! SimGrid shares a link max-min fairly between the messages that are under way, and their latencies pass at the same time.
//!
//! Functions of the bytes are not all expressible. SimGrid has one table of factors for all messages, here by the outermost
//! level: at the other levels they multiply the latency and the rate of the longest messages. No message is faster than the
//! rate of the longest ones, and no line begins below 0 seconds.
//!
//! # References
//! Clauss, Stillwell, Genaud, Suter, Casanova and Quinson, "Single node on-line simulation of MPI applications with SMPI",
//! IPDPS 2011.

use std::fmt::Write as _;

use super::{MessageCurve, Network};

/// Flop per second of each host, so that a computation of `t` seconds has `t` times this many.
pub const REPLAY_FLOPS: f64 = 1e9;

/// Bytes per second of a link that takes no time.
const FASTEST: f64 = 1e18;

/// Describes hosts `0` to `ranks - 1` with this network between them, as a platform file of SimGrid 3.32 or newer.
///
/// Each rank has a link for each level and one of its adapter, each group has one, and all carry both ways at once. Messages
/// of processes on one host take no time.
///
/// # Example
/// ```
/// use isochron_hierarchy::network::{Network, describe_platform};
///
/// let text = describe_platform(&Network::flat(1e-4, 1e8), 2);
/// assert!(text.contains(r#"<link id="rank1-level0" bandwidth="100000000Bps" latency="0.00005s""#));
/// ```
pub fn describe_platform(network: &Network, ranks: usize) -> String {
    let mut text = String::from(
        "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n<platform version=\"4.1\">\n<config>\n",
    );
    let [latency, bandwidth] = list_factors(network.level(0));
    for (name, value) in [
        ("smpi/lat-factor", latency.as_str()),
        ("smpi/bw-factor", bandwidth.as_str()),
        ("network/crosstraffic", "0"),
        ("network/TCP-gamma", "1e30"),
        ("network/weight-S", "0"),
    ] {
        text += &format!("<prop id=\"{name}\" value=\"{value}\"/>\n");
    }
    text += "</config>\n<zone id=\"network\" routing=\"Full\">\n";
    for rank in 0..ranks {
        text += &format!("<host id=\"{rank}\" speed=\"{REPLAY_FLOPS}f\"/>\n");
    }
    text += &format!(
        "<link id=\"own\" bandwidth=\"{FASTEST}Bps\" latency=\"0s\" sharing_policy=\"FATPIPE\"/>\n"
    );
    let mut add_link = |id: String, bytes_per_s: f64, latency_s: f64| {
        let bytes_per_s = bytes_per_s.min(FASTEST);
        let rates = format!("bandwidth=\"{bytes_per_s:.0}Bps\" latency=\"{latency_s}s\"");
        text += &format!("<link id=\"{id}\" {rates} sharing_policy=\"SPLITDUPLEX\"/>\n");
    };
    for rank in 0..ranks {
        for common in 0..network.count_levels() {
            let level = network.level(common);
            // A message passes the links of two ranks.
            add_link(name_level(rank, common), level.bytes_per_s(), level.latency_s() / 2.0);
        }
        if network.adapter(rank).is_finite() {
            add_link(format!("rank{rank}-adapter"), network.adapter(rank), 0.0);
        }
    }
    for (place, uplink) in network.uplinks().iter().enumerate() {
        add_link(format!("group{place}"), uplink.bytes_per_s, 0.0);
    }
    for from in 0..ranks {
        for to in 0..ranks {
            text += &format!("<route src=\"{from}\" dst=\"{to}\" symmetrical=\"NO\">");
            text += &list_links(network, from, to);
            text += "</route>\n";
        }
    }
    text + "</zone>\n</platform>\n"
}

fn name_level(rank: usize, common: usize) -> String {
    format!("rank{rank}-level{common}")
}

/// Lists the links that a message passes.
fn list_links(network: &Network, from: usize, to: usize) -> String {
    if from == to {
        return "<link_ctn id=\"own\"/>".to_owned();
    }
    let mut links = String::new();
    for (rank, other, way) in [(from, to, "UP"), (to, from, "DOWN")] {
        let mut ids = vec![name_level(rank, network.level_of(rank, other))];
        if network.adapter(rank).is_finite() {
            ids.push(format!("rank{rank}-adapter"));
        }
        let groups = network.uplinks().iter().enumerate();
        let left = groups.filter(|(_, uplink)| uplink.has(rank) && !uplink.has(other));
        ids.extend(left.map(|(place, _)| format!("group{place}")));
        for id in ids {
            let _ = write!(links, "<link_ctn id=\"{id}\" direction=\"{way}\"/>");
        }
    }
    links
}

/// Lists the factors of latency and of bandwidth by the bytes beyond which they hold.
fn list_factors(curve: &MessageCurve) -> [String; 2] {
    let (latency_s, rate) = (curve.latency_s(), curve.bytes_per_s().min(FASTEST));
    let lines: Vec<[f64; 3]> = curve.list_lines().collect();
    let join = |factor: &dyn Fn([f64; 3]) -> f64| {
        // SimGrid reads bytes as an `int`.
        let factors = lines.iter().map(|&line| format!("{}:{}", line[0] as i32, factor(line)));
        factors.collect::<Vec<_>>().join(";")
    };
    [
        join(&|[_, first_s, _]| if latency_s > 0.0 { first_s.max(0.0) / latency_s } else { 1.0 }),
        join(&|[.., bytes_per_s]| (bytes_per_s / rate).min(1.0)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::Uplink;

    #[test]
    fn messages_pass_adapters_and_the_uplinks_between_them() {
        let levels = [4e-5, 2e-6].map(|latency_s| MessageCurve::line(latency_s, 1e9)).to_vec();
        let uplinks = [vec![0, 1], vec![2]].map(|ranks| Uplink { ranks, bytes_per_s: 5e8 });
        let network = Network::grouped(levels, uplinks.to_vec());
        let text = describe_platform(&network.with_adapters(vec![f64::INFINITY, 1e8, 1e8]), 3);
        let has = |part: &str| assert!(text.contains(part), "{part} in {text}");
        has(r#"<host id="2" speed="1000000000f"/>"#);
        has(r#"<link id="rank1-level1" bandwidth="1000000000Bps" latency="0.000001s""#);
        has(
            r#"<link id="group1" bandwidth="500000000Bps" latency="0s" sharing_policy="SPLITDUPLEX"/>"#,
        );
        assert!(!text.contains("rank0-adapter"));
        let route = |from: usize, to: usize| {
            let (_, after) = text.split_once(&format!("src=\"{from}\" dst=\"{to}\"")).unwrap();
            let links = after.split_once("</route>").unwrap().0.split("link_ctn id=\"").skip(1);
            links.map(|link| link.split('"').next().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(route(0, 1), ["rank0-level1", "rank1-level1", "rank1-adapter"]);
        let crossed = ["rank0-level0", "group0", "rank2-level0", "rank2-adapter", "group1"];
        assert_eq!(route(0, 2), crossed);
        assert_eq!(route(1, 1), ["own"]);
    }

    #[test]
    fn lines_of_the_function_are_factors() {
        // 50 µs and 100 MB/s, then 100 µs more and 200 MB/s.
        let curve =
            MessageCurve::new([(0.0, 5e-5), (1000.0, 6e-5), (1001.0, 1.6e-4), (2001.0, 1.65e-4)]);
        let [latency, bandwidth] = list_factors(&curve);
        let read = |table: &str| -> Vec<(f64, f64)> {
            let pairs = table.split(';').map(|pair| pair.split_once(':').unwrap());
            pairs.map(|(bytes, factor)| (bytes.parse().unwrap(), factor.parse().unwrap())).collect()
        };
        let (latencies, rates) = (read(&latency), read(&bandwidth));
        for bytes in [1.0, 500.0, 999.0, 1100.0, 1e6] {
            let factor =
                |table: &[(f64, f64)]| table.iter().rfind(|(from, _)| *from < bytes).unwrap().1;
            let found_s = 5e-5 * factor(&latencies) + bytes / (2e8 * factor(&rates));
            assert!(
                (found_s / curve.message_s(bytes) - 1.0).abs() < 1e-9,
                "{bytes}: {latency} {bandwidth}"
            );
        }
    }
}
