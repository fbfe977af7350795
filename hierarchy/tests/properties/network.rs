//! Checks of simulated networks: what is slow is found with its cause, and nothing else is.

use isochron_hierarchy::balance::BalanceStep;
use isochron_hierarchy::network::{
    LinkCause, LinkCheck, LinkPart, LinkPass, LinkReport, MessageTimes, list_lossy,
};
use isochron_support::simulated::SplitMix;

/// A network of members in groups of `group`.
#[derive(Clone)]
struct Simulated {
    members: usize,
    group: usize,
    /// Relative standard deviation of a message, and the part of messages that take three times as long.
    noise: f64,
    outliers: f64,
    /// Repetitions of which the median counts.
    repetitions: usize,
    random: SplitMix,
    fault: Fault,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    /// An adapter that sends and receives so many times as slowly.
    Adapter(usize, f64, f64),
    /// Seconds that each message to and from a member takes longer.
    Late(usize, f64),
    /// A pair, one way.
    Route(usize, usize, f64),
    /// Times that messages between two groups take, alone and when others cross too.
    Uplink(f64, f64),
    /// A member whose messages take longer while it computes.
    Progress(usize, f64),
}

const LATENCY_S: f64 = 20e-6;
const LONG_S: f64 = 1e-3;

impl Simulated {
    fn new(members: usize, noise: f64, seed: u64, fault: Fault) -> Self {
        let random = SplitMix::new(seed);
        Self { members, group: members, noise, outliers: 0.02, repetitions: 5, random, fault }
    }

    /// Returns a number that is about normally distributed.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.random.uniform(-0.5, 0.5)).sum()
    }

    fn message_s(
        &mut self,
        (from, to): (usize, usize),
        pass: LinkPass,
        crossing: usize,
        is_long: bool,
    ) -> f64 {
        let mut long_s = if is_long { LONG_S } else { 0.0 };
        let mut latency_s = LATENCY_S;
        match self.fault {
            Fault::Adapter(member, sends, _) if member == from => long_s *= sends,
            Fault::Adapter(member, _, receives) if member == to => long_s *= receives,
            Fault::Late(member, more_s) if [from, to].contains(&member) => latency_s += more_s,
            Fault::Route(a, b, times) if (a, b) == (from, to) => long_s *= times,
            Fault::Uplink(alone, shared) if from / self.group != to / self.group => {
                long_s *= if crossing > 1 { shared } else { alone };
            }
            Fault::Progress(member, times)
                if pass == LinkPass::Computing && [from, to].contains(&member) =>
            {
                latency_s *= times;
                long_s *= times;
            }
            _ => {}
        }
        let mut times: Vec<f64> = (0..self.repetitions)
            .map(|_| {
                let outlier = if self.random.uniform(0.0, 1.0) < self.outliers { 3.0 } else { 1.0 };
                (latency_s + long_s) * (1.0 + self.noise * self.normal()).max(0.3) * outlier
            })
            .collect();
        times.sort_unstable_by(f64::total_cmp);
        times[self.repetitions / 2]
    }

    fn check(&mut self) -> LinkReport {
        let mut check = LinkCheck::new(self.members, true);
        loop {
            match check.step() {
                BalanceStep::Done(report) => return report,
                BalanceStep::Measure(request) => {
                    let crossing = request.pairs.iter();
                    let crossing =
                        crossing.filter(|(a, b)| a / self.group != b / self.group).count();
                    let times: Vec<_> = request
                        .pairs
                        .iter()
                        .map(|&(a, b)| {
                            [(a, b), (b, a)].map(|pair| MessageTimes {
                                short_s: self.message_s(pair, request.pass, crossing, false),
                                long_s: self.message_s(pair, request.pass, crossing, true),
                            })
                        })
                        .collect();
                    check.observe(&times);
                }
            }
        }
    }
}

/// Returns what was found.
fn list_found(report: &LinkReport) -> Vec<(LinkPart, LinkCause)> {
    report.findings.iter().map(|found| (found.part.clone(), found.cause)).collect()
}

#[test]
fn each_fault_is_found_with_its_cause() {
    let member = |member, sends, receives| LinkPart::Member { member, sends, receives };
    for seed in 0..20 {
        for members in [4, 6, 8, 17] {
            let slow = seed as usize % members;
            let other = (slow + 1) % members;
            let (adapter, latency) = (LinkCause::Adapter, LinkCause::Latency);
            for (fault, part, cause) in [
                (Fault::Adapter(slow, 2.0, 2.0), member(slow, true, true), adapter),
                (Fault::Adapter(slow, 2.0, 1.0), member(slow, true, false), adapter),
                (Fault::Adapter(slow, 1.0, 2.0), member(slow, false, true), adapter),
                (Fault::Late(slow, 1e-3), member(slow, true, true), latency),
                (
                    Fault::Route(slow, other, 3.0),
                    LinkPart::Pair { from: slow, to: other },
                    LinkCause::Route,
                ),
                (Fault::Progress(slow, 2.0), member(slow, true, true), LinkCause::Progress),
            ] {
                // Of few pairs the scatter is known less.
                let noise = if members > 4 { 0.05 } else { 0.02 };
                let report = Simulated::new(members, noise, seed, fault).check();
                assert_eq!(list_found(&report), [(part, cause)], "{fault:?} {members} {seed}");
            }
        }
        for members in [4, 6, 8, 16] {
            for (fault, cause) in [
                (Fault::Uplink(4.0, 4.0), LinkCause::Uplink),
                (Fault::Uplink(1.0, 4.0), LinkCause::Contention),
            ] {
                let mut network = Simulated::new(members, 0.05, seed, fault);
                network.group = members / 2;
                let report = network.check();
                let halves =
                    [0, 1].map(|half| (half * members / 2..(half + 1) * members / 2).collect());
                assert_eq!(
                    list_found(&report),
                    [(LinkPart::Groups(halves), cause)],
                    "{members} {seed}"
                );
            }
        }
    }
}

#[test]
fn nothing_is_found_in_sound_networks() {
    for seed in 0..10_000 {
        let members = [2, 3, 4, 6, 8, 12][seed as usize % 6];
        let noise = [0.005, 0.02, 0.05, 0.16][seed as usize / 6 % 4];
        // Groups behind uplinks that several share, as networks are built: two, three, or one.
        let fault = if seed % 3 > 0 { Fault::Uplink(1.0, 1.6) } else { Fault::None };
        let mut network = Simulated::new(members, noise, seed, fault);
        network.group = members.div_ceil(1 + seed as usize % 3);
        let report = network.check();
        assert_eq!(list_found(&report), [], "{seed} {members} {noise} {:?}", report.groups);
    }
}

/// Two groups of 512 hosts.
#[test]
fn many_members_are_checked_in_little_time() {
    let mut network = Simulated::new(1024, 0.02, 1, Fault::Uplink(2.0, 2.0));
    network.group = 512;
    let report = network.check();
    let groups: Vec<usize> = report.groups.iter().map(|groups| groups[0]).collect();
    assert!(
        groups[..512].iter().all(|group| *group == 0)
            && groups[512..].iter().all(|group| *group == 1)
    );
    assert_eq!(list_found(&report).len(), 1);
}

#[test]
fn a_loss_is_told_from_those_of_all() {
    let sent = |lost: [u64; 6]| lost.map(|lost| Some([20_000, lost]));
    let found =
        |lost| list_lossy(&sent(lost)).iter().map(|(member, _)| *member).collect::<Vec<_>>();
    assert_eq!(found([10, 11, 9, 50, 10, 12]), [3]);
    assert_eq!(found([40, 41, 39, 50, 40, 42]), [0; 0]);
    assert_eq!(found([0, 0, 0, 15, 0, 0]), [0; 0]);
    assert_eq!(list_lossy(&[None, Some([1000, 500])]), []);
}
