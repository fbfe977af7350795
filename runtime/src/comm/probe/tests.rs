//! Networks of made-up times.

use super::*;

/// Numbers from 0 to 1 that look drawn.
struct Drawn(u64);

impl Drawn {
    fn next(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// A network between hosts with a rank each, whose messages take a latency and their bytes over a rate.
#[derive(Clone, Copy, Debug)]
struct MadeUp {
    hosts: usize,
    latency_s: f64,
    bytes_per_s: f64,
    /// The part of messages in which a host stands still, and the seconds of that.
    stalls: (f64, f64),
}

const GIGABIT: MadeUp =
    MadeUp { hosts: 4, latency_s: 1e-4, bytes_per_s: 1.2e8, stalls: (0.0, 0.0) };

impl MadeUp {
    fn message_s(&self, bytes: usize) -> f64 {
        self.latency_s + bytes as f64 / self.bytes_per_s
    }

    fn probe(&self) -> NetworkProbe {
        NetworkProbe::on((0..self.hosts).collect())
    }

    /// Measures for a run of these seconds, and returns the seconds spent.
    fn measure(&self, probe: &mut NetworkProbe, run_s: f64, random: &mut Drawn) -> f64 {
        let rounds = list_rank_rounds(&probe.hosts.clone());
        let mut spent_s = 0.0;
        probe
            .measure_by(run_s, &mut |sweep| {
                let mut took_s = 0.0;
                let mut times_s = Vec::new();
                let first = if sweep.is_check { rounds.len() - 1 } else { 0 };
                for pairs in &rounds[first..] {
                    let mut of_pairs = Vec::new();
                    let mut longest_s = 0.0f64;
                    for _ in pairs {
                        let mut one_s = || {
                            let stands = random.next() < self.stalls.0;
                            self.message_s(sweep.bytes) + if stands { self.stalls.1 } else { 0.0 }
                        };
                        let all: Vec<f64> = (0..sweep.tries).map(|_| one_s()).collect();
                        longest_s = longest_s.max(self.message_s(1) + all.iter().sum::<f64>());
                        let two = all.windows(2).map(|two| (two[0] + two[1]) / 2.0);
                        of_pairs.push(two.reduce(f64::min).unwrap_or(all[0]));
                    }
                    took_s += longest_s;
                    times_s.push(of_pairs);
                }
                spent_s += took_s;
                Ok((times_s, took_s))
            })
            .unwrap();
        spent_s
    }
}

#[test]
fn a_single_rank_has_no_network() {
    let comm = super::super::LocalComm::new();
    let mut probe = NetworkProbe::on(vec![0]);
    probe.measure(&comm, 1.0).unwrap();
    assert_eq!(probe.network(), None);
    assert_eq!(probe.measure_core_s(&comm).unwrap(), [0.0]);
}

#[test]
fn measuring_takes_a_part_of_the_run_and_finds_the_network() {
    let mut random = Drawn(1);
    for latency_s in [1e-6, 1e-4, 1e-3] {
        for bytes_per_s in [125e3, 1e7, 1.2e8, 1e10] {
            for (run_s, hosts) in [(0.0, 2), (0.0, 4), (10.0, 4), (1000.0, 16)] {
                let network = MadeUp { hosts, latency_s, bytes_per_s, ..GIGABIT };
                let mut probe = network.probe();
                let spent_s = network.measure(&mut probe, run_s, &mut random);
                let budget_s = (BUDGET_SHARE * run_s).clamp(LEAST_BUDGET_S, LARGEST_BUDGET_S);
                // One length above the latency is tried in any case, up to three times.
                let rounds = probe.survey.rounds.len() as f64;
                let least_s =
                    rounds * (6.0 * network.message_s(1) + 3.0 * network.message_s(4 << 10));
                assert!(spent_s <= budget_s.max(least_s) * 1.001, "{network:?} {run_s}: {spent_s}");
                assert!(probe.is_settled(run_s));
                let level = probe.network().unwrap().level(0).clone();
                assert!((level.latency_s() / network.message_s(1) - 1.0).abs() < 0.01);
                let is_shown = *probe.survey.lengths.last().unwrap() >= latency_s * bytes_per_s;
                let found = level.bytes_per_s() / bytes_per_s;
                assert!(!is_shown || (0.99..1.01).contains(&found), "{network:?}: {found}");
                let spent_s = network.measure(&mut probe, run_s, &mut random);
                assert_eq!(spent_s, 0.0, "{network:?}");
            }
        }
    }
}

#[test]
fn hosts_that_stand_still_at_times_make_no_link_slow() {
    let mut random = Drawn(2);
    for hosts in [3, 4, 8] {
        let network = MadeUp { hosts, stalls: (0.05, 0.01), ..GIGABIT };
        let found = (0..100).map(|_| {
            let mut probe = network.probe();
            network.measure(&mut probe, 5.0, &mut random);
            let found = probe.network().unwrap();
            let level = found.level(0);
            found.uplinks().is_empty()
                && level.latency_s() < 2.0 * network.message_s(1)
                && (6e7..2.4e8).contains(&level.bytes_per_s())
        });
        let right = found.filter(|&is_right| is_right).count();
        assert!(right >= 95, "{hosts} hosts: {right}");
    }
}

#[test]
fn a_longer_run_goes_on_where_a_short_one_ended() {
    let mut random = Drawn(3);
    let slow = MadeUp { latency_s: 1e-3, bytes_per_s: 1e7, ..GIGABIT };
    let mut probe = slow.probe();
    slow.measure(&mut probe, 0.0, &mut random);
    let lengths = probe.survey.lengths.len();
    assert!(slow.measure(&mut probe, 100.0, &mut random) > 0.0);
    assert!(probe.survey.lengths.len() > lengths);
    assert_eq!(slow.measure(&mut probe, 100.0, &mut random), 0.0);
}

#[test]
fn times_of_an_earlier_job_are_checked_if_that_is_cheap_and_forgotten_if_they_are_off() {
    let mut random = Drawn(4);
    let mut first = GIGABIT.probe();
    GIGABIT.measure(&mut first, 0.0, &mut random);
    for (run_s, slower, origin) in [
        (0.0, 10.0, NetworkOrigin::Recalled),
        (1.0, 10.0, NetworkOrigin::Recalled),
        (100.0, 1.0, NetworkOrigin::Checked),
        (100.0, 10.0, NetworkOrigin::Measured),
    ] {
        let mut probe = GIGABIT.probe().recall(first.survey.clone(), vec![1e-9]);
        assert_eq!(probe.is_settled(run_s), origin == NetworkOrigin::Recalled);
        let now = MadeUp {
            latency_s: slower * GIGABIT.latency_s,
            bytes_per_s: GIGABIT.bytes_per_s / slower,
            ..GIGABIT
        };
        let spent_s = now.measure(&mut probe, run_s, &mut random);
        assert_eq!(probe.origin(), origin, "{run_s} {slower}");
        let is_kept = origin != NetworkOrigin::Measured;
        assert_eq!(probe.network() == first.network(), is_kept);
        assert_eq!(probe.core_s() == [1e-9], is_kept);
        assert!(!is_kept || spent_s <= CHECK_SHARE * run_s);
        assert!(probe.is_settled(run_s));
    }
}

#[test]
fn only_long_messages_show_the_cpu_time_of_a_byte() {
    for (bytes, time_s, wanted) in [
        (16 << 10, 1e-4, Some((MANY_BYTES, CORE_TRIES))),
        // 64 KiB would take longer than all of the network may.
        (16 << 10, 1e-1, None),
        (256 << 10, 1e-3, Some((256 << 10, CORE_TRIES))),
        // They were timed: there is time for one.
        (256 << 10, 1.0, Some((256 << 10, 1))),
    ] {
        let pair = SurveyedPair { hosts: (0, 1), times_s: vec![1e-5, time_s], spread: 0.0 };
        let survey = Survey { lengths: vec![1.0, bytes as f64], rounds: vec![vec![pair]] };
        let probe = NetworkProbe::on(vec![0, 1]).recall(survey, Vec::new());
        assert_eq!(probe.core_messages(), wanted, "{bytes} {time_s}");
    }
}

#[test]
fn ranks_of_a_host_meet_before_the_hosts_do() {
    let rounds = list_rank_rounds(&[0, 0, 0, 1, 1]);
    assert_eq!(rounds, [vec![(0, 1), (3, 4)], vec![(3, 0)]]);
    assert_eq!(list_rank_rounds(&[0]), Vec::<Vec<(usize, usize)>>::new());
    let thousand = list_rank_rounds(&[0; 1000]);
    assert_eq!(thousand.iter().map(Vec::len).collect::<Vec<_>>(), [500]);
}
