use super::*;

/// The sign of a rank in the steps, after `quiet_s` without progress.
fn sign(waits: bool, quiet_s: f64) -> Sign {
    Sign {
        phase: RankPhase::Multiply,
        step: 41,
        steps: 96,
        waits,
        quiet_s,
        patience_s: QUIET_S,
        step_s: 0.25,
        ..Sign::default()
    }
}

/// A job with made-up signs: each rank's, or `None` while it is silent.
struct Job {
    judges: Vec<(usize, Judge)>,
    signs: Vec<Option<Sign>>,
    /// What each judge has said, and when.
    said: Vec<(usize, f64, Said)>,
    now_s: f64,
    state: ProcessState,
}

impl Job {
    /// Makes a job with ranks on these hosts, judged by some of them.
    fn new(hosts: &[&str], judges: &[usize], timeout_s: f64) -> Self {
        let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        let judges = judges.iter();
        let judges = judges.map(|&me| (me, Judge::new(&hosts, me, timeout_s)));
        Self {
            judges: judges.collect(),
            signs: vec![Some(sign(false, 0.0)); hosts.len()],
            said: Vec::new(),
            now_s: 0.0,
            state: ProcessState::Unknown,
        }
    }

    /// Lets seconds pass, in which ranks that wait or are quiet stay so. A silent rank's judge does not run.
    fn pass(&mut self, seconds: u32) -> &mut Self {
        for _ in 0..seconds {
            self.now_s += 1.0;
            for sign in self.signs.iter_mut().flatten() {
                sign.quiet_s += f64::from(u8::from(sign.waits || sign.quiet_s > 0.0));
            }
            let heard: Vec<_> = self.signs.iter().copied().enumerate().collect();
            for (me, judge) in &mut self.judges {
                if self.signs[*me].is_none() {
                    continue;
                }
                for &(rank, sign) in &heard {
                    if let Some(sign) = sign {
                        judge.hear(rank, sign);
                    }
                }
                let state = self.state;
                let said = judge.advance(1.0, &mut |_| state).into_iter();
                self.said.extend(said.map(|said| (*me, self.now_s, said)));
            }
        }
        self
    }

    /// Lets seconds of a flood pass.
    fn flood(&mut self, seconds: u32) -> &mut Self {
        for _ in 0..seconds {
            for (_, judge) in &mut self.judges {
                judge.excuse_silence(1.0);
            }
            self.pass(1);
        }
        self
    }

    /// All ranks but these wait from now on.
    fn wait_but(&mut self, others: &[usize]) -> &mut Self {
        for (rank, place) in self.signs.iter_mut().enumerate() {
            if !others.contains(&rank) {
                *place = Some(sign(true, 0.0));
            }
        }
        self
    }

    fn set(&mut self, rank: usize, sign: Option<Sign>) -> &mut Self {
        self.signs[rank] = sign;
        self
    }

    /// Returns what was said since the last time: by which rank, and the words.
    fn take_said(&mut self) -> Vec<(usize, String)> {
        let said = std::mem::take(&mut self.said).into_iter();
        said.map(|(me, _, said)| match said {
            Said::Line(line) => (me, line),
            Said::End(line) => (me, format!("END {line}")),
        })
        .collect()
    }
}

/// Returns `true` if one of the lines starts so.
fn has(said: &[(usize, String)], start: &str) -> bool {
    said.iter().any(|(_, line)| line.starts_with(start))
}

/// Checks that one line was said, by this rank, with this start.
fn check_only(said: &[(usize, String)], by: usize, start: &str) {
    assert!(said.len() == 1 && said[0].0 == by && has(said, start), "{said:?}");
}

#[test]
fn no_rank_is_silent_for_the_time_of_a_flood() {
    for seconds in [5, 50, 900] {
        let mut job = Job::new(&["a", "b", "c"], &[0, 1], 600.0);
        job.wait_but(&[2]).pass(3).set(2, None).flood(seconds);
        assert_eq!(job.take_said(), []);
        check_only(&job.pass(12).take_said(), 0, "rank 2 on c has been silent");
    }
}

#[test]
fn a_stopped_rank_is_named_and_its_victims_are_not() {
    let mut job = Job::new(&["a", "b", "b"], &[0, 1, 2], 600.0);
    job.pass(20).set(2, None).wait_but(&[2]).pass(15);
    let line = "rank 2 on b has been silent for 10 s: it was multiplying, step 41 of 96 (stopped, or its host or link is gone)";
    assert_eq!(job.take_said(), [(0, line.to_owned())]);
}

#[test]
fn the_state_of_a_process_of_this_host_is_told() {
    for (state, words) in [
        (ProcessState::Stopped, "(its process is stopped)"),
        (ProcessState::Gone, "(its process is gone)"),
    ] {
        let mut job = Job::new(&["a", "a"], &[0], f64::INFINITY);
        job.state = state;
        let said = job.pass(1).set(1, None).wait_but(&[1]).pass(12).take_said();
        assert!(said[0].1.ends_with(words), "{said:?}");
    }
}

#[test]
fn lines_come_after_pauses_that_grow_and_one_when_it_goes_on() {
    let mut job = Job::new(&["a", "b"], &[0], f64::INFINITY);
    job.pass(1).set(1, None).wait_but(&[1]).pass(1300);
    let times: Vec<_> = job.said.iter().map(|(_, now_s, _)| *now_s).collect();
    assert_eq!(times, [10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0, 960.0, 1280.0]);
    job.said.clear();
    job.set(1, Some(sign(false, 0.0))).set(0, Some(sign(false, 0.0))).pass(50);
    assert_eq!(job.take_said(), [(0, "rank 1 on b goes on after 1301 s".to_owned())]);
}

#[test]
fn the_ranks_of_a_host_that_is_gone_are_named_together() {
    let mut job = Job::new(&["a", "b", "b", "b", "b", "b"], &[0], f64::INFINITY);
    job.pass(1).set(3, None).pass(1);
    for rank in [1, 2, 4, 5] {
        job.set(rank, None);
    }
    let said = job.wait_but(&[1, 2, 3, 4, 5]).pass(12).take_said();
    check_only(&said, 0, "ranks 1, 2, 3 and 2 others on b have been silent for");
}

#[test]
fn the_first_rank_of_each_host_speaks_for_a_silent_head() {
    let mut job = Job::new(&["a", "a", "b", "b"], &[0, 1, 2, 3], 30.0);
    let said = job.pass(5).set(0, None).wait_but(&[0]).pass(12).take_said();
    let speakers: Vec<_> = said.iter().map(|(me, _)| *me).collect();
    assert_eq!(speakers, [1, 2], "{said:?}");
    assert!(said.iter().all(|(_, line)| line.starts_with("rank 0 on a has been silent for 10 s")));
    assert!(has(&job.pass(20).take_said(), "END rank 0"));
}

#[test]
fn a_rank_that_computes_without_end_is_named_and_ended() {
    let mut job = Job::new(&["a", "b"], &[0, 1], 60.0);
    job.pass(5).wait_but(&[1]).set(1, Some(sign(false, 0.5))).pass(12);
    let line = "rank 1 on b makes no progress for 10 s: it is multiplying, step 41 of 96 (the steps before took 0.25 s each; it \
                uses no processor)";
    assert_eq!(job.take_said(), [(0, line.to_owned())]);
    let said = job.pass(60).take_said();
    assert!(has(&said, "END rank 1"), "{said:?}");
    assert!(said.iter().all(|(me, _)| *me == 0), "{said:?}");
}

#[test]
fn a_rank_that_may_take_long_is_not_named_and_one_of_unknown_length_is_not_ended() {
    let long = Sign { patience_s: 100.0, bound_s: f64::MAX, is_busy: true, ..sign(false, 0.5) };
    let mut job = Job::new(&["a", "b"], &[0, 1], 200.0);
    job.pass(5).wait_but(&[1]).set(1, Some(long));
    assert_eq!(job.pass(90).take_said(), []);
    let said = job.pass(1000).take_said();
    assert!(!said.is_empty());
    assert!(!has(&said, "END"), "{said:?}");
}

#[test]
fn ranks_that_all_wait_for_long_are_a_standstill() {
    let mut job = Job::new(&["a", "b"], &[0, 1], 80.0);
    let said = job.pass(5).wait_but(&[]).pass(62).take_said();
    check_only(&said, 0, "all ranks have waited for messages for 60 s: rank ");
    let said = job.pass(20).take_said();
    assert!(has(&said, "END all ranks"), "{said:?}");
    job.set(0, Some(sign(false, 0.0))).set(1, Some(sign(true, 0.0)));
    assert_eq!(job.pass(1).take_said(), [(0, "the ranks go on after 82 s".to_owned())]);
}

#[test]
fn a_suspended_job_just_goes_on() {
    let hosts = ["a", "b"].map(str::to_owned);
    let mut judge = Judge::new(&hosts, 0, 60.0);
    let mut beat = |seconds: f64, is_heard: bool| {
        judge.hear(0, sign(true, 2.0));
        if is_heard {
            judge.hear(1, sign(false, 0.0));
        }
        judge.advance(seconds, &mut |_| ProcessState::Unknown)
    };
    for _ in 0..5 {
        assert_eq!(beat(1.0, true), []);
    }
    // All processes were stopped for an hour; this one is the first to run again.
    assert_eq!(beat(3600.0, false), []);
    assert_eq!(beat(1.0, false), []);
    assert_eq!(beat(1.0, true), []);
}

#[test]
fn a_silent_rank_that_holds_up_nobody_is_not_named() {
    let mut job = Job::new(&["a", "b"], &[0], 60.0);
    // Its datagrams are lost, and the others make progress.
    job.pass(1).set(1, None);
    assert_eq!(job.pass(100).take_said(), []);
}

#[test]
fn ranks_that_have_ended_are_not_missed() {
    let ended = Sign { has_ended: true, ..sign(false, 0.0) };
    let mut job = Job::new(&["a", "b"], &[0, 1], 60.0);
    job.pass(1).set(1, Some(ended)).pass(1).set(1, None);
    job.wait_but(&[1]);
    // What the head rank itself does is judged on.
    let said = job.pass(20).take_said();
    assert!(said.iter().all(|(_, line)| !line.contains("rank 1")), "{said:?}");
}

#[test]
fn nothing_ends_under_a_debugger() {
    for state in [ProcessState::Traced, ProcessState::Unknown] {
        let mut job = Job::new(&["a", "a", "a"], &[0], 20.0);
        job.state = state;
        let traced = Sign { is_traced: state == ProcessState::Unknown, ..sign(true, 0.0) };
        job.pass(1).wait_but(&[1]).set(2, Some(traced)).set(1, None);
        let said = job.pass(100).take_said();
        assert!(!said.is_empty());
        assert!(!has(&said, "END"), "{said:?}");
    }
}

#[test]
fn a_rank_that_was_never_heard_is_told_once_and_is_not_taken_for_a_silent_one() {
    let mut job = Job::new(&["a", "b", "c", "c"], &[0, 1], 60.0);
    job.set(2, None).set(3, None);
    let line = "rank 0 on a gets no signs of ranks 2 and 3 on c (a firewall may drop UDP): it cannot tell whether they stand still";
    assert_eq!(job.pass(300).take_said(), [(0, line.to_owned())]);
    // The others wait for it, which may be at work.
    assert_eq!(job.wait_but(&[2, 3]).pass(300).take_said(), []);
    // Ranks that are heard are judged as before.
    let said = job.set(1, None).pass(80).take_said();
    for start in ["rank 1 on b has been silent for 10 s", "END rank 1 on b"] {
        assert!(has(&said, start), "{said:?}");
    }
}

#[test]
fn a_short_timeout_names_and_ends_at_once() {
    let mut job = Job::new(&["a", "b"], &[0], 4.0);
    let said = job.pass(5).set(1, None).wait_but(&[1]).pass(6).take_said();
    assert!(has(&said[..1], "END rank 1 on b has been silent for 4 s"), "{said:?}");
    assert!(said[0].1.ends_with("; the job ends, after 4 s without progress"), "{said:?}");
}
