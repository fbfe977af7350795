//! A switch in user space: it forwards Ethernet frames between hosts with a given latency and rate.
//!
//! Every host has a link to the switch, of the same rate in each direction. A frame of `s` bits leaves its sender when
//! the sender's link has carried the frames before it. It has left entirely `s/rate` later, and after the latency it
//! has arrived at the switch's other side. There it takes its turn on the receiver's link with the frames of other
//! senders. It is sent on before it is complete, so a frame on idle links takes `s/rate + latency`, and not twice
//! `s/rate`. On its way it may pass the uplinks of two groups, and what a [flaw](Flaw) makes slower.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Read, Write};
use std::num::NonZeroU64;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::flaw::{Flaw, FlawKind};
use crate::spec::Spec;
use crate::units::{Latency, Rate};

/// Largest payload of a frame, in bytes: the hosts' MTU. With that of the Internet, 1500, the switch would be busy
/// at 1 Gbit/s with handling frames.
pub const MTU: usize = 9000;
/// Header of a frame.
const HEADER: usize = 14;
/// Bytes that a real link sends in addition: preamble, checksum and the gap between frames.
pub(crate) const OVERHEAD: usize = 24;
/// Frames of a host are read this long before its link is free: if the switch is late by less, the link does not stand
/// still. Other frames stay in the host's queue, as with a network card.
const READ_AHEAD_NS: u64 = 500_000;
/// Most bytes on the way to one host; further frames are lost.
const MAX_WAITING: usize = 64 << 20;
/// Frames read from one host before others have their turn.
const BURST: usize = 32;

/// The frames under way, without clocks and devices: the caller gives times in nanoseconds.
#[derive(Debug)]
pub struct Switch {
    latency_ns: u64,
    ports: Vec<Port>,
    /// Links that frames of several hosts pass.
    shared: Vec<SharedLink>,
    /// The shared links and the additional latency between two hosts, where there are some.
    ways: HashMap<(usize, usize), Way>,
    /// Numbers that look random.
    random: u64,
    known: HashMap<[u8; 6], usize>,
    n_accepted: u64,
}

/// A link on the way between hosts.
#[derive(Debug)]
struct SharedLink {
    rate: Option<Rate>,
    free_ns: u64,
}

/// What frames from one host to another pass besides the links of the two.
#[derive(Debug, Default)]
struct Way {
    shared: Vec<usize>,
    later_ns: u64,
    loss: f64,
}

#[derive(Debug, Default)]
struct Port {
    /// Rates of the link from the host and to it.
    out_rate: Option<Rate>,
    in_rate: Option<Rate>,
    /// Time at which the link from the host is free.
    from_host_free_ns: u64,
    /// Time at which the link to the host is free.
    to_host_free_ns: u64,
    /// Frames to the host, by their arrival on an idle link and by age.
    coming: BTreeMap<(u64, u64), Vec<u8>>,
    n_bytes: usize,
}

impl Switch {
    /// Makes a switch with `n_ports` hosts.
    pub fn new(n_ports: usize, rate: Option<Rate>, latency: Latency) -> Self {
        let port = || Port { out_rate: rate, in_rate: rate, ..Port::default() };
        Self {
            latency_ns: latency.ns(),
            ports: (0..n_ports).map(|_| port()).collect(),
            shared: Vec::new(),
            ways: HashMap::new(),
            random: 1,
            known: HashMap::new(),
            n_accepted: 0,
        }
    }

    /// Makes the switch of a cluster.
    pub fn of_spec(spec: &Spec) -> Self {
        let mut switch = Self::new(spec.n_hosts, spec.bandwidth, spec.latency);
        if !spec.groups.is_empty() {
            switch.add_uplinks(spec);
        }
        spec.flaws.iter().for_each(|flaw| switch.add_flaw(flaw));
        switch
    }

    /// Adds an uplink of each group, out and in.
    fn add_uplinks(&mut self, spec: &Spec) {
        let rate = spec.uplink.or(spec.bandwidth);
        let uplinks = (0..2 * spec.groups.len()).map(|_| SharedLink { rate, free_ns: 0 });
        self.shared.extend(uplinks);
        for (from, to) in list_ways(spec.n_hosts) {
            let [out, into] = [from, to].map(|host| spec.group(host));
            if out != into {
                self.way(from, to).shared.extend([2 * out, 2 * into + 1]);
            }
        }
    }

    fn add_flaw(&mut self, flaw: &Flaw) {
        let Flaw { host, other, kind } = *flaw;
        let is_on = |from: usize, to: usize| match other {
            Some(other) => [(host, other), (other, host)].contains(&(from, to)),
            None => from == host || to == host,
        };
        match (kind, other) {
            (FlawKind::Rate(rate), Some(_)) => {
                for (from, to) in list_ways(self.ports.len()).filter(|(from, to)| is_on(*from, *to))
                {
                    let link = self.shared.len();
                    self.shared.push(SharedLink { rate: Some(rate), free_ns: 0 });
                    self.way(from, to).shared.push(link);
                }
                return;
            }
            (FlawKind::Rate(rate), None) => {
                let port = &mut self.ports[host];
                (port.out_rate, port.in_rate) = (Some(rate), Some(rate));
            }
            (FlawKind::Out(rate), _) => self.ports[host].out_rate = Some(rate),
            (FlawKind::In(rate), _) => self.ports[host].in_rate = Some(rate),
            _ => {}
        }
        for (from, to) in list_ways(self.ports.len()).filter(|(from, to)| is_on(*from, *to)) {
            let way = self.way(from, to);
            match kind {
                FlawKind::Latency(time) => way.later_ns += time.ns(),
                FlawKind::Loss(part) => way.loss = part,
                FlawKind::Rate(_) | FlawKind::Out(_) | FlawKind::In(_) => {}
            }
        }
    }

    fn way(&mut self, from: usize, to: usize) -> &mut Way {
        self.ways.entry((from, to)).or_default()
    }

    /// Returns a number from 0 up to 1 that looks random: `SplitMix64`.
    fn draw(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns the time at which a frame that left its sender's link at `left_ns` has passed the way to another host, but for the
    /// latency of all; `None` if it is lost.
    fn pass_ns(&mut self, from: usize, to: usize, bytes: usize, left_ns: u64) -> Option<u64> {
        let drawn = self.draw();
        let Some(way) = self.ways.get(&(from, to)) else {
            return Some(left_ns);
        };
        if drawn < way.loss {
            return None;
        }
        let mut at_ns = left_ns;
        for &link in &way.shared {
            let link = &mut self.shared[link];
            at_ns = at_ns.max(link.free_ns + takes_ns(link.rate, bytes));
            link.free_ns = at_ns;
        }
        Some(at_ns + way.later_ns)
    }

    /// Returns the time from which on another frame may be taken from host `port`.
    pub fn reads_from_ns(&self, port: usize) -> u64 {
        self.ports[port].from_host_free_ns.saturating_sub(READ_AHEAD_NS)
    }

    /// Takes a frame that host `from` has sent at `now_ns`.
    pub fn accept(&mut self, from: usize, frame: &[u8], now_ns: u64) {
        let (Some(to), Some(source)) = (mac_address(frame, 0), mac_address(frame, 6)) else {
            return;
        };
        self.known.insert(source, from);
        let takes_ns = takes_ns(self.ports[from].out_rate, frame.len());
        let link_free_ns = &mut self.ports[from].from_host_free_ns;
        *link_free_ns = now_ns.max(*link_free_ns) + takes_ns;
        let left_ns = *link_free_ns;
        match self.known.get(&to) {
            Some(&port) if port != from => self.forward((from, port), frame, left_ns),
            Some(_) => {}
            // To all, or to a host that has not sent a frame yet.
            None => {
                (0..self.ports.len())
                    .filter(|port| *port != from)
                    .for_each(|port| self.forward((from, port), frame, left_ns));
            }
        }
    }

    fn forward(&mut self, (from, port): (usize, usize), frame: &[u8], left_ns: u64) {
        let Some(passed_ns) = self.pass_ns(from, port, frame.len(), left_ns) else {
            return;
        };
        let arrives_ns = passed_ns + self.latency_ns;
        self.n_accepted += 1;
        let age = self.n_accepted;
        let port = &mut self.ports[port];
        if port.n_bytes + frame.len() <= MAX_WAITING {
            port.n_bytes += frame.len();
            port.coming.insert((arrives_ns, age), frame.to_vec());
        }
    }

    /// Returns the time at which the next frame for host `port` has arrived entirely; `None` if there is none.
    pub fn due_ns(&self, port: usize) -> Option<u64> {
        let port = &self.ports[port];
        let (&(arrives_ns, _), frame) = port.coming.first_key_value()?;
        Some(arrives_ns.max(port.to_host_free_ns + takes_ns(port.in_rate, frame.len())))
    }

    /// Takes the next frame for host `port` if it has arrived by `now_ns`.
    pub fn deliver(&mut self, port: usize, now_ns: u64) -> Option<Vec<u8>> {
        let due_ns = self.due_ns(port).filter(|due_ns| *due_ns <= now_ns)?;
        let port = &mut self.ports[port];
        let (_, frame) = port.coming.pop_first()?;
        // Not `now_ns`: a late switch does not make the link slower.
        port.to_host_free_ns = due_ns;
        port.n_bytes -= frame.len();
        Some(frame)
    }
}

fn takes_ns(rate: Option<Rate>, bytes: usize) -> u64 {
    rate.map_or(0, |rate| rate.ns_for(bytes + OVERHEAD))
}

/// Lists the directed pairs of hosts.
fn list_ways(hosts: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..hosts)
        .flat_map(move |from| (0..hosts).map(move |to| (from, to)))
        .filter(|(from, to)| from != to)
}

fn mac_address(frame: &[u8], at: usize) -> Option<[u8; 6]> {
    frame.get(at..at + 6)?.try_into().ok()
}

/// Forwards frames between `devices`, one for each port, until one of them fails.
///
/// # Errors
/// Returns the system's error on a device.
pub fn serve_frames(mut switch: Switch, mut devices: Vec<File>) -> io::Result<()> {
    // The system may be late by the slack, 50 µs otherwise.
    rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?;
    let start = Instant::now();
    let mut frame = vec![0; HEADER + MTU + 64];
    loop {
        let readable = wait_for_ports(&switch, &devices, elapsed_ns(start))?;
        for port in readable {
            for _ in 0..BURST {
                if switch.reads_from_ns(port) > elapsed_ns(start) {
                    break;
                }
                match devices[port].read(&mut frame) {
                    Ok(length) => switch.accept(port, &frame[..length], elapsed_ns(start)),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                }
            }
        }
        for (port, device) in devices.iter_mut().enumerate() {
            while let Some(frame) = switch.deliver(port, elapsed_ns(start)) {
                match device.write_all(&frame) {
                    // The card of a host that is being set up, or taken down, receives nothing.
                    Err(error)
                        if error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => {}
                    outcome => outcome?,
                }
            }
        }
    }
}

/// Returns the nanoseconds since `start`; three hundred years of them fit.
fn elapsed_ns(start: Instant) -> u64 {
    start.elapsed().as_nanos() as u64
}

/// Waits until there is something to do, and returns the ports that have frames to read.
fn wait_for_ports(switch: &Switch, devices: &[File], now_ns: u64) -> io::Result<Vec<usize>> {
    let ports = 0..devices.len();
    let (open, closed): (Vec<_>, Vec<_>) =
        ports.clone().partition(|port| switch.reads_from_ns(*port) <= now_ns);
    let timeout = closed
        .iter()
        .map(|port| switch.reads_from_ns(*port))
        .chain(ports.filter_map(|port| switch.due_ns(port)))
        .min()
        .map(|at_ns| {
            let ns = at_ns.saturating_sub(now_ns);
            Timespec {
                tv_sec: (ns / 1_000_000_000).cast_signed(),
                tv_nsec: (ns % 1_000_000_000).cast_signed(),
            }
        });
    let mut polled: Vec<_> =
        open.iter().map(|port| PollFd::new(&devices[*port], PollFlags::IN)).collect();
    match poll(&mut polled, timeout.as_ref()) {
        Err(rustix::io::Errno::INTR) => return Ok(Vec::new()),
        outcome => outcome?,
    };
    Ok(open
        .iter()
        .zip(&polled)
        .filter(|(_, poll)| !poll.revents().is_empty())
        .map(|(port, _)| *port)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a frame that takes `us` microseconds at 1 Gbit/s, from host `from` to host `to`.
    fn frame(from: u8, to: u8, us: usize) -> Vec<u8> {
        let mut frame = vec![0; us * 125 - OVERHEAD];
        frame[..6].fill(to);
        frame[6..12].fill(from);
        frame
    }

    /// Makes three hosts that know each other, at 1 Gbit/s and 100 µs. Returns the time by which they do, too.
    fn switch() -> (Switch, u64) {
        let rate = Some("1gbit".parse().unwrap());
        let mut switch = Switch::new(3, rate, "100us".parse().unwrap());
        for port in 0..3 {
            switch.accept(port, &frame(port as u8, 0xff, 1), 0);
        }
        let later = 1_000_000_000;
        for port in 0..3 {
            for _ in 0..2 {
                assert!(switch.deliver(port, later).is_some());
            }
            assert!(switch.deliver(port, later).is_none());
        }
        (switch, later)
    }

    #[test]
    fn a_frame_takes_its_time_and_the_latency_once() {
        let (mut switch, t) = switch();
        switch.accept(0, &frame(0, 1, 10), t);
        assert_eq!(switch.due_ns(1), Some(t + 110_000));
        assert_eq!(switch.due_ns(2), None, "it is for host 1 only");
        assert!(switch.deliver(1, t + 109_999).is_none());
        assert_eq!(switch.deliver(1, t + 110_000), Some(frame(0, 1, 10)));
    }

    #[test]
    fn a_link_carries_one_frame_at_a_time() {
        let (mut switch, t) = switch();
        for _ in 0..3 {
            switch.accept(0, &frame(0, 1, 10), t);
        }
        for nth in 1..=3 {
            assert_eq!(switch.due_ns(1), Some(t + nth * 10_000 + 100_000));
            assert!(switch.deliver(1, t + 200_000).is_some());
        }
    }

    #[test]
    fn senders_share_the_link_of_their_receiver() {
        let (mut switch, t) = switch();
        switch.accept(0, &frame(0, 2, 10), t);
        switch.accept(1, &frame(1, 2, 10), t);
        switch.deliver(2, t + 110_000).unwrap();
        assert_eq!(switch.due_ns(2), Some(t + 120_000));
    }

    #[test]
    fn the_frame_that_arrives_first_is_first_even_if_read_last() {
        let (mut switch, t) = switch();
        for _ in 0..5 {
            switch.accept(0, &frame(0, 2, 10), t);
        }
        switch.accept(1, &frame(1, 2, 5), t + 1000);
        let first = switch.deliver(2, t + 1_000_000).unwrap();
        assert_eq!(first, frame(1, 2, 5));
    }

    #[test]
    fn a_switch_that_is_late_does_not_slow_the_link() {
        let (mut switch, t) = switch();
        switch.accept(0, &frame(0, 1, 10), t);
        switch.accept(0, &frame(0, 1, 10), t);
        let late = t + 500_000;
        assert!(switch.deliver(1, late).is_some() && switch.deliver(1, late).is_some());
        switch.accept(0, &frame(0, 1, 10), late);
        assert_eq!(switch.due_ns(1), Some(late + 110_000));
    }

    #[test]
    fn a_busy_link_is_not_read_from() {
        let (mut switch, t) = switch();
        assert!(switch.reads_from_ns(0) <= t);
        for _ in 0..60 {
            switch.accept(0, &frame(0, 1, 10), t);
        }
        assert_eq!(switch.reads_from_ns(0), t + 600_000 - READ_AHEAD_NS);
        assert!(switch.reads_from_ns(1) <= t);
    }

    #[test]
    fn without_a_rate_there_is_the_latency_alone() {
        let mut switch = Switch::new(2, None, "100us".parse().unwrap());
        switch.accept(0, &frame(0, 0xff, 10), 7);
        assert_eq!(switch.due_ns(1), Some(100_007));
        assert_eq!(switch.reads_from_ns(0), 0);
    }

    /// Makes the switch of four hosts at 1 Gbit/s and 100 µs with these groups and flaws, that know each other.
    fn switch_of(groups: &[usize], flaws: &[&str]) -> (Switch, u64) {
        let mut spec = Spec::new("x", 4).unwrap();
        spec.bandwidth = Some("1gbit".parse().unwrap());
        spec.latency = "100us".parse().unwrap();
        spec.groups = groups.to_vec();
        spec.uplink = Some("500mbit".parse().unwrap());
        spec.flaws = flaws.iter().map(|flaw| flaw.parse().unwrap()).collect();
        spec.validate().unwrap();
        let (mut switch, later) = (Switch::of_spec(&spec), 1_000_000_000);
        for port in 0..4 {
            switch.accept(port, &frame(port as u8, 0xff, 1), 0);
        }
        for port in 0..4 {
            while switch.deliver(port, later).is_some() {}
        }
        (switch, later)
    }

    /// Returns the microseconds until the second of two frames of 10 µs has arrived.
    fn time_frames(switch: &mut Switch, from: u8, to: u8, at_ns: u64) -> Option<u64> {
        let mut due_ns = None;
        for _ in 0..2 {
            switch.accept(usize::from(from), &frame(from, to, 10), at_ns);
        }
        while let Some(next_ns) = switch.due_ns(usize::from(to)) {
            switch.deliver(usize::from(to), next_ns);
            due_ns = Some(next_ns);
        }
        Some((due_ns? - at_ns) / 1000)
    }

    #[test]
    fn groups_share_their_uplinks() {
        let (mut switch, t) = switch_of(&[2, 2], &[]);
        assert_eq!(time_frames(&mut switch, 0, 1, t), Some(120));
        assert_eq!(time_frames(&mut switch, 0, 2, t + 1_000_000), Some(130));
        // Two of them at once: the second waits for the uplink.
        let now = t + 2_000_000;
        switch.accept(0, &frame(0, 2, 10), now);
        switch.accept(1, &frame(1, 3, 10), now);
        let due = [2, 3].map(|port| (switch.due_ns(port).unwrap() - now) / 1000);
        assert_eq!(due, [110, 130]);
    }

    #[test]
    fn flaws_are_of_the_links_that_they_name() {
        for (flaw, there, back, others) in [
            ("iso-1:rate=500mbit", 140, 130, 120),
            ("iso-1:out=500mbit", 140, 120, 120),
            ("iso-1:in=500mbit", 120, 130, 120),
            ("iso-1:latency=1ms", 1120, 1120, 120),
            ("iso-1+iso-2:latency=1ms", 1120, 1120, 120),
            ("iso-1+iso-2:rate=500mbit", 130, 130, 120),
        ] {
            let (mut switch, t) = switch_of(&[], &[flaw]);
            let times = [(0, 1), (1, 0), (2, 3)].map(|(from, to)| {
                time_frames(&mut switch, from, to, t + 10_000_000 * u64::from(from + 1)).unwrap()
            });
            assert_eq!(times, [there, back, others], "{flaw}");
        }
        let (mut switch, t) = switch_of(&[], &["iso-1:loss=100%"]);
        assert_eq!(time_frames(&mut switch, 0, 1, t), None);
    }

    #[test]
    fn bytes_that_are_no_frame_go_nowhere() {
        let mut switch = Switch::new(2, None, Latency::default());
        switch.accept(0, &[1; 11], 0);
        assert_eq!(switch.due_ns(1), None);
    }

    #[test]
    fn a_host_that_is_flooded_loses_frames_and_recovers() {
        let (mut switch, t) = switch();
        let big = frame(0, 2, 70);
        let mut accepted = 0;
        while switch.ports[2].n_bytes + big.len() <= MAX_WAITING {
            switch.accept(0, &big, t);
            accepted += 1;
        }
        switch.accept(0, &big, t);
        assert_eq!(switch.ports[2].coming.len(), accepted);
        while switch.deliver(2, u64::MAX).is_some() {}
        assert_eq!(switch.ports[2].n_bytes, 0);
    }
}
