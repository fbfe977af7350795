//! Links of made-up times.

use super::*;

/// Climbs on a made-up network, and returns the seconds spent, the longest exchange of them, and the links.
fn climb(ladder: &mut LinkLadder, run_s: f64, network: Links) -> (f64, f64, Links) {
    let (mut spent_s, mut longest_s) = (0.0, 0.0f64);
    ladder
        .climb_by(run_s, &mut |attempt| {
            let (bytes, tries) = (LENGTHS[attempt.index], attempt.tries);
            let time_s = network.latency_s + 2.0 * bytes as f64 / network.bytes_per_s;
            spent_s += tries as f64 * time_s;
            longest_s = longest_s.max(time_s);
            Ok([time_s, tries as f64 * time_s, 0.0])
        })
        .unwrap();
    (spent_s, longest_s, ladder.links().unwrap())
}

fn network(latency_s: f64, bytes_per_s: f64) -> Links {
    Links { latency_s, bytes_per_s }
}

#[test]
fn a_single_rank_has_no_links() {
    let comm = super::super::LocalComm::new();
    let mut ladder = LinkLadder::default();
    ladder.climb(&comm, 1.0).unwrap();
    assert_eq!(ladder.links(), None);
    assert_eq!(ladder.measure_core_s(&comm).unwrap(), [0.0]);
}

#[test]
fn measuring_the_links_takes_a_200th_of_the_run_but_20_ms_to_1_s() {
    let budgets_s = [0.0, 1.9, 50.0, 1e9].map(|run_s| budget_s(run_s, 1e-3));
    assert_eq!(budgets_s, [0.02, 0.02, 0.25, 1.0]);
    assert_eq!([5e-3, 0.5].map(|first_s| budget_s(0.0, first_s)), [0.1, 0.25]);
    for latency_s in [0.0, 1e-6, 1e-4, 1e-3, 5e-3] {
        for bytes_per_s in [7e3, 125e3, 1e7, 1e8, 1e10] {
            for run_s in [0.0, 10.0, 1000.0] {
                let network = network(latency_s, bytes_per_s);
                let mut ladder = LinkLadder::default();
                let (spent_s, longest_s, _) = climb(&mut ladder, run_s, network);
                let first_s = latency_s + 2.0 / bytes_per_s;
                // One length above the latency has to be tried.
                let mut second_s = latency_s + 1024.0 / bytes_per_s;
                if second_s <= TIME_SLICE_S {
                    // Slow, or stalled by a busy host: another length tells.
                    second_s = latency_s + 8192.0 / bytes_per_s;
                }
                assert!(
                    spent_s <= budget_s(run_s, first_s) + 2.0 * second_s,
                    "{network:?}: {spent_s}"
                );
                let bound_s = budget_s(run_s, first_s).max(second_s);
                assert!(longest_s <= bound_s, "{network:?}");
            }
        }
    }
}

#[test]
fn latency_and_bandwidth_are_found_on_fast_and_slow_links() {
    for (latency_s, bytes_per_s) in [(1e-6, 1e10), (2e-5, 1e9), (1e-4, 1.2e8), (1e-3, 1.2e7)] {
        let (.., found) = climb(&mut LinkLadder::default(), 0.0, network(latency_s, bytes_per_s));
        assert!((found.latency_s / latency_s - 1.0).abs() < 0.01, "{found:?}");
        assert!((found.bytes_per_s / bytes_per_s - 1.0).abs() < 0.01, "{found:?}");
    }
    let (.., found) = climb(&mut LinkLadder::default(), 0.0, network(1e-4, 125e3));
    assert!((found.bytes_per_s / 125e3 - 1.0).abs() < 0.05, "{found:?}");
}

#[test]
fn a_message_slower_than_the_budget_ends_it() {
    let mut ladder = LinkLadder::default();
    let slow = network(0.5, 1e6);
    let (spent_s, _, links) = climb(&mut ladder, 0.0, slow);
    assert_eq!((spent_s, ladder.rungs.len()), (0.5 + 2e-6, 1));
    assert!(links.is_sound() && (links.latency_s - 0.5).abs() < 1e-4);
}

#[test]
fn a_link_that_carries_only_the_first_bytes_fast_is_slow() {
    let (mut ladder, mut burst) = (LinkLadder::default(), 32768.0);
    ladder
        .climb_by(2.0, &mut |attempt| {
            let (bytes, tries) = (LENGTHS[attempt.index], attempt.tries);
            let mut times_s = Vec::new();
            for _ in 0..tries {
                burst -= 2.0 * bytes as f64;
                times_s.push(1e-4 + f64::max(-burst, 0.0) / 125e3);
                burst = burst.max(0.0);
            }
            Ok([times_s.iter().copied().fold(1.0, f64::min), times_s.iter().sum(), 0.0])
        })
        .unwrap();
    let found = ladder.links().unwrap();
    assert!((1.0..2.0).contains(&(found.bytes_per_s / 125e3)), "{found:?}");
}

#[test]
fn a_stall_is_no_slow_link() {
    for stalled in 0..12 {
        let (mut ladder, mut count) = (LinkLadder::default(), 0);
        ladder
            .climb_by(0.0, &mut |attempt| {
                let (bytes, tries) = (LENGTHS[attempt.index], attempt.tries);
                let time_s = 1e-6 + 2.0 * bytes as f64 / 1e10;
                let stall_s = if count == stalled { 0.03 } else { 0.0 };
                count += 1;
                Ok([time_s + stall_s, tries as f64 * time_s + stall_s, 0.0])
            })
            .unwrap();
        let found = ladder.links().unwrap();
        assert!((found.bytes_per_s / 1e10 - 1.0).abs() < 0.01, "{stalled}: {found:?}");
    }
}

/// A rank with a quota of CPU time in each period of 10 ms.
struct Throttled {
    now_s: f64,
    period: u64,
    left_s: f64,
    quota_s: f64,
    stall_s: f64,
}

impl Throttled {
    /// Computes for so long, and stands still whenever the quota is used up.
    fn compute(&mut self, cpu_s: f64) {
        let mut cpu_s = cpu_s;
        loop {
            self.start_period();
            let done_s = cpu_s.min(self.left_s);
            self.now_s += done_s;
            self.left_s -= done_s;
            cpu_s -= done_s;
            if cpu_s <= 0.0 {
                return;
            }
            let next_s = 0.01 * (self.period + 1) as f64 + 1e-9;
            self.stall_s = self.stall_s.max(next_s - self.now_s);
            self.now_s = next_s;
        }
    }

    fn start_period(&mut self) {
        let period = (self.now_s / 0.01) as u64;
        if period > self.period {
            (self.period, self.left_s) = (period, self.quota_s);
        }
    }
}

#[test]
fn a_host_with_a_quota_is_no_slow_link() {
    for percent in [12.5, 25.0, 50.0] {
        for begin in 0..100 {
            let mut host = Throttled {
                now_s: 1e-4 * f64::from(begin),
                period: 0,
                left_s: 0.0,
                quota_s: 1e-4 * percent,
                stall_s: 0.0,
            };
            let mut ladder = LinkLadder::default();
            ladder
                .climb_by(1.5, &mut |attempt| {
                    let start_s = host.now_s;
                    host.stall_s = 0.0;
                    host.now_s += attempt.rest.as_secs_f64();
                    host.compute(2e-4);
                    let mut times_s = Vec::new();
                    for _ in 0..attempt.tries {
                        let begin_s = host.now_s;
                        host.compute(1e-4 + 2.0 * LENGTHS[attempt.index] as f64 / 1e9);
                        times_s.push(host.now_s - begin_s);
                    }
                    host.compute(1e-4);
                    Ok([
                        times_s.into_iter().fold(f64::INFINITY, f64::min),
                        host.now_s - start_s,
                        host.stall_s,
                    ])
                })
                .unwrap();
            let found = ladder.links().unwrap();
            assert!(found.bytes_per_s > 1e8, "{percent} {begin}: {found:?}");
            assert!(ladder.rungs.len() >= 3, "{percent} {begin}: {ladder:?}");
        }
    }
}

#[test]
fn a_rank_that_always_stands_still_ends_the_measurement_all_the_same() {
    for took_s in [1e-3, 0.05, 0.3] {
        let (mut ladder, mut spent_s) = (LinkLadder::default(), 0.0);
        ladder
            .climb_by(0.0, &mut |_| {
                spent_s += took_s;
                Ok([took_s, took_s, took_s + STALL_S])
            })
            .unwrap();
        assert!(spent_s <= MOST_STALLED_S + 3.0 * took_s + 0.25, "{took_s}: {spent_s}");
    }
}

#[test]
fn a_slow_link_is_found_though_its_latency_takes_most_of_the_time() {
    // Latency and bandwidth in both directions, with a switch that lets the first bytes through.
    for burst in [0.0, 8192.0] {
        for late_s in [0.0, 1.5e-3] {
            let (mut ladder, mut count) = (LinkLadder::default(), 0);
            ladder
                .climb_by(0.0, &mut |attempt| {
                    let (bytes, tries) = (LENGTHS[attempt.index], attempt.tries);
                    count += 1;
                    let late_s = if count % 2 == 0 { late_s } else { 0.0 };
                    let sent = f64::max(2.0 * bytes as f64 - burst, 0.0);
                    let time_s = 2e-3 + late_s + sent / 1.25e6;
                    Ok([time_s, tries as f64 * time_s, 0.0])
                })
                .unwrap();
            let found = ladder.links().unwrap();
            assert!(found.bytes_per_s < 3e6, "{burst} {late_s}: {found:?}");
        }
    }
}

#[test]
fn a_busy_host_is_no_slow_link() {
    let mut ladder = LinkLadder::default();
    ladder
        .climb_by(0.4, &mut |attempt| {
            let (bytes, tries) = (LENGTHS[attempt.index], attempt.tries);
            // Only the very first message finds both ranks at work.
            let time_s = if bytes == 1 { 3e-5 } else { 4e-3 };
            Ok([time_s, tries as f64 * time_s, 0.0])
        })
        .unwrap();
    let found = ladder.links().unwrap();
    assert!(found.bytes_per_s > 1e6 && found.latency_s > 1e-3, "{found:?}");
}

#[test]
fn a_longer_run_goes_on_where_a_short_one_ended() {
    let mut ladder = LinkLadder::default();
    let slow = network(1e-3, 1e7);
    climb(&mut ladder, 0.0, slow);
    let lengths = ladder.rungs.len();
    let (spent_s, _, links) = climb(&mut ladder, 1000.0, slow);
    assert!(ladder.rungs.len() > lengths && spent_s > 0.0);
    assert!((links.bytes_per_s / 1e7 - 1.0).abs() < 0.01, "{links:?}");
    let (spent_s, ..) = climb(&mut ladder, 1000.0, slow);
    assert_eq!(spent_s, 0.0);
}

#[test]
fn times_of_an_earlier_job_are_checked_if_that_is_cheap_and_forgotten_if_they_are_off() {
    let mut first = LinkLadder::default();
    let (.., links) = climb(&mut first, 0.0, network(1e-4, 1e9));
    let recall = || LinkLadder::recall(&first.list_times(), vec![1e-9]).unwrap();
    assert_eq!(LinkLadder::recall(&[(512, 1e-4)], Vec::new()).map(|_| ()), None);
    // The second network is as the first, and the third ten times as slow.
    for (run_s, latency_s, origin) in [
        (0.0, 1e-3, LinkOrigin::Recalled),
        (1.0, 1e-3, LinkOrigin::Recalled),
        (100.0, 1e-4, LinkOrigin::Checked),
        (100.0, 1e-3, LinkOrigin::Measured),
    ] {
        let mut ladder = recall();
        assert_eq!(ladder.is_settled(run_s), origin == LinkOrigin::Recalled);
        let now = network(latency_s, 1e5 / latency_s);
        let (spent_s, _, found) = climb(&mut ladder, run_s, now);
        assert_eq!(ladder.origin(), origin, "{run_s} {latency_s}");
        match origin {
            LinkOrigin::Measured => assert!(found.bytes_per_s < 2e8, "{found:?}"),
            LinkOrigin::Checked => assert!(spent_s < 1e-3 * run_s && found == links),
            LinkOrigin::Recalled => assert_eq!((spent_s, found), (0.0, links)),
        }
        let is_kept = origin != LinkOrigin::Measured;
        assert_eq!(ladder.core_s() == [1e-9], is_kept);
        assert!(ladder.is_settled(run_s));
        // One check is enough.
        let (spent_s, ..) = climb(&mut ladder, run_s, now);
        assert_eq!(spent_s, 0.0);
    }
}

#[test]
fn only_long_messages_show_the_cpu_time_of_a_byte() {
    for ((bytes, time_s), wanted) in [
        ((4 << 10, 1e-4), Some((64 << 10, TRIES))),
        ((4 << 10, 1e-3), Some((64 << 10, 1))),
        // 64 KiB would take longer than all links may.
        ((4 << 10, 1e-2), None),
        ((256 << 10, 1e-3), Some((256 << 10, TRIES))),
        // They were timed: there is time for one.
        ((256 << 10, 1.0), Some((256 << 10, 1))),
    ] {
        let last = Rung { bytes, time_s, attempts: 1 };
        let ladder = LinkLadder { rungs: vec![last], ..LinkLadder::default() };
        assert_eq!(ladder.core_messages(), wanted, "{bytes} {time_s}");
    }
}

#[test]
fn a_disturbed_message_makes_no_link_infinitely_fast() {
    let bytes = 2 * LENGTHS[LENGTHS.len() - 1];
    let sound = fit_links(1e-4, bytes, 5.1e-3);
    assert_eq!(sound.latency_s, 1e-4);
    assert!((sound.bytes_per_s - bytes as f64 / 5e-3).abs() < 1.0);
    for short_s in [1e-4, 2e-4, 1.0] {
        let disturbed = fit_links(short_s, bytes, 1.5e-4);
        assert!(disturbed.bytes_per_s <= 2.0 * bytes as f64 / 1.5e-4);
        assert!(disturbed.latency_s > 0.0 && disturbed.latency_s <= 7.5e-5);
    }
    assert!(fit_links(0.0, bytes, 0.0).bytes_per_s.is_finite());
}
