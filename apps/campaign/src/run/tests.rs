use std::fs;
use std::path::PathBuf;

use super::*;
use crate::folder::{FILE, POINTS, read_document};
use crate::report::{CampaignReport, ContenderStanding, GoalOutcome};
use crate::schedule::PointEnd;
use crate::status::State;

/// A campaign in a folder of its own, whose contenders are scripts.
struct Trial {
    folder: tempfile::TempDir,
}

impl Trial {
    /// Writes a campaign of these tables. Its repetitions are not repeated, however busy the host is.
    fn new(tables: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let text = format!("name = \"trial\"\nseed = 7\n{tables}");
        fs::write(folder.path().join("trial.toml"), text).unwrap();
        Self { folder }
    }

    fn campaign(&self) -> Campaign {
        Campaign::read(&self.folder.path().join("trial.toml")).unwrap()
    }

    fn results(&self) -> PathBuf {
        self.folder.path().join("results")
    }

    fn run(&self) -> Result<CampaignStatus, CampaignError> {
        run(&self.campaign(), &self.results(), &[], &AtomicBool::new(false), &mut |_| {})
    }

    /// Returns the lines of `points.jsonl`.
    fn run_job(&self, nodes: u32) -> Result<CampaignStatus, CampaignError> {
        let (campaign, results) = (self.campaign(), self.results());
        run_nodes(&campaign, &results, nodes, &[], &AtomicBool::new(false), &mut |_| {})
    }

    fn lines(&self) -> Vec<Repetition> {
        let text = fs::read_to_string(self.results().join(POINTS)).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// Two contenders at two sizes. The second contender prints twice the value of the first.
const TWO: &str = r#"
[sweep]
size = [10, 20]
[[contender]]
name = "one"
command = "echo '{{\"wall_s\": {size}}}'"
result = { json = ["wall_s"] }
[[contender]]
name = "two"
command = "sh -c 'echo took $((2 * {size})) s'"
result = { regex = 'took (?P<wall_s>[0-9]+) s' }
[repeat]
min = 2
max = 8
again = 0
[[goal]]
ratio = ["two.wall_s", "one.wall_s"]
at_most = 2.5
"#;

#[test]
fn every_contender_runs_every_point_once_a_round_until_the_intervals_are_narrow() {
    let trial = Trial::new(TWO);
    let status = trial.run().unwrap();
    // An interval at 95 % takes six rounds, and all ratios are alike.
    assert_eq!((status.state, status.points_ended), (State::Ended, 2));
    let lines = trial.lines();
    assert_eq!(lines.len(), 6 * 4);
    let orders: Vec<Vec<(String, String)>> = lines
        .chunks(4)
        .enumerate()
        .map(|(round, lines)| {
            assert!(lines.iter().all(|line| line.round == Some(round as u32)), "{lines:#?}");
            lines.iter().map(|line| (line.point.clone(), line.contender.clone())).collect()
        })
        .collect();
    for order in &orders {
        let mut sorted = order.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!(sorted.len(), 4, "{order:?}");
    }
    assert!(orders.iter().any(|order| *order != orders[0]), "{orders:?}");
    let report = CampaignReport::read(&trial.results()).unwrap();
    let two = &report.rows[1];
    assert_eq!((two.value.unwrap().median, two.ratio.unwrap().median), (20.0, 2.0));
    assert_eq!(two.end, Some(PointEnd::Precise));
    assert!(report.goals.iter().all(|goal| goal.outcome == GoalOutcome::Met));
    report.write(&trial.results()).unwrap();
    let markdown = fs::read_to_string(trial.results().join("report.md")).unwrap();
    assert!(markdown.contains("| 10 | two | `wall_s` | 6 | 20.00 (20.00 to 20.00) | 2.000 (2.000 to 2.000) | precise |"), "{markdown}");
    let csv = fs::read_to_string(trial.results().join("points.csv")).unwrap();
    assert!(csv.contains("10,two,6,wall_s,20,20,20,2,2,2,"), "{csv}");
    // Nothing is left, and nothing runs again.
    trial.run().unwrap();
    assert_eq!(trial.lines().len(), 24);
}

/// A speed beside a time.
const SPEED: &str = r#"
[[contender]]
name = "time"
command = "echo 10"
result = { regex = '(?P<wall_s>[0-9]+)' }
[[contender]]
name = "speed"
command = "echo 5"
result = { regex = '(?P<speed>[0-9]+)' }
better = "more"
[repeat]
min = 2
max = 8
again = 0
"#;

#[test]
fn a_speed_beside_times_is_compared_with_nothing() {
    let trial = Trial::new(SPEED);
    trial.run().unwrap();
    let report = CampaignReport::read(&trial.results()).unwrap();
    let speed = &report.rows[1];
    assert_eq!((speed.ratio, speed.standing), (None, None));
    // Its own interval ends the point.
    assert_eq!((speed.value.unwrap().n, speed.end), (6, Some(PointEnd::Precise)));
    let text = report.format_markdown();
    let row = "| speed | `speed` | 6 | 5.000 (5.000 to 5.000) | - | precise |";
    assert!(text.contains(row), "{text}");
}

#[test]
fn documents_are_kept_where_the_file_says_so() {
    let trial = Trial::new(&TWO.replacen("result", "keep = true\nresult", 1));
    trial.run().unwrap();
    for line in trial.lines() {
        let kept = line
            .document
            .as_ref()
            .map(|name| read_document(&[trial.results()], name).unwrap().expect("a document"));
        let printed = serde_json::json!({"wall_s": line.parameters["size"]});
        assert_eq!(kept, (line.contender == "one").then_some(printed));
    }
    let rows = CampaignReport::read(&trial.results()).unwrap().rows;
    let documents: Vec<_> = rows.into_iter().map(|row| row.document).collect();
    let printed = |size| Some(serde_json::json!({"wall_s": size}));
    assert_eq!(documents, [printed(10), None, printed(20), None]);
    // The sizes are two, and so are the documents, however many repetitions print them.
    let documents = fs::read_dir(trial.results().join("documents")).unwrap();
    assert_eq!(documents.count(), 2);
}

#[test]
fn what_a_first_run_writes_into_the_folder_of_results_is_read_in_the_rounds() {
    let trial = Trial::new(
        r#"
        [[contender]]
        name = "reader"
        command = "cat {folder}/made"
        result = { regex = '(?P<wall_s>[0-9]+) s' }
        [[contender]]
        name = "maker"
        command = "sh -c 'echo {seconds} s | tee \"{folder}/made\"'"
        result = { regex = '(?P<wall_s>[0-9]+) s' }
        tune = { seconds = [5] }
        [repeat]
        min = 1
        max = 1
        again = 0
        "#,
    );
    let status = trial.run().unwrap();
    assert_eq!((status.state, status.failures.len()), (State::Ended, 0));
    let lines = trial.lines();
    assert_eq!((lines.len(), lines[0].round), (3, None));
    assert!(lines.iter().all(|line| line.values["wall_s"] == 5.0));
    let report = CampaignReport::read(&trial.results()).unwrap();
    assert_eq!(report.rows[0].command, "cat '{folder}/made'");
}

#[test]
fn a_stopped_campaign_goes_on_where_it_was() {
    let trial = Trial::new(TWO);
    let whole = Trial::new(TWO);
    whole.run().unwrap();
    // Stopped before each repetition in turn.
    for number in 0..24 {
        let stop = AtomicBool::new(false);
        let mut seen = 0;
        let stopped = run(&trial.campaign(), &trial.results(), &[], &stop, &mut |_| {
            seen += 1;
            stop.store(seen == 2, Ordering::Relaxed);
        });
        match stopped {
            Err(CampaignError::Stopped) => assert!(number < 23),
            stopped => assert!(number == 23 && stopped.is_ok()),
        }
        assert_eq!(trial.lines().len(), number + 1);
    }
    let order = |trial: &Trial| -> Vec<(Option<u32>, String, String)> {
        trial.lines().into_iter().map(|line| (line.round, line.point, line.contender)).collect()
    };
    assert_eq!(order(&trial), order(&whole));
}

#[test]
fn a_line_that_was_cut_off_is_measured_again() {
    let trial = Trial::new(TWO);
    trial.run().unwrap();
    let path = trial.results().join(POINTS);
    let text = fs::read_to_string(&path).unwrap();
    let last = text[..text.len() - 1].rfind('\n').unwrap() + 1;
    for end in [last + 1, last + 100, text.len() - 2] {
        fs::write(&path, &text[..end]).unwrap();
        let status = CampaignStatus::read(&trial.results()).unwrap();
        assert_eq!(status.repetitions, 23, "a reader beside the engine");
        trial.run().unwrap();
        assert_eq!(trial.lines().len(), 24, "{end}");
    }
    fs::write(&path, text.replacen("\"round\":2", "\"round\":\"x\"", 1)).unwrap();
    let refused = trial.run().unwrap_err();
    assert!(matches!(refused, CampaignError::Line { line, .. } if line > 1), "{refused}");
}

#[test]
fn failures_are_results_and_end_after_two_rounds() {
    let trial = Trial::new(
        r#"
[[contender]]
name = "good"
command = "true"
[[contender]]
name = "bad"
command = "sh -c 'echo working; echo no such matrix >&2; echo ------ >&2; exit 3'"
[[contender]]
name = "silent"
command = "true"
result = { json = ["wall_s"] }
[[contender]]
name = "missing"
command = "/no/such/program"
[repeat]
max = 4
again = 0
"#,
    );
    let status = trial.run().unwrap();
    assert_eq!(status.state, State::Ended);
    let reasons: Vec<(String, String, usize)> = status
        .failures
        .iter()
        .map(|failed| (failed.contender.clone(), failed.reason.clone(), failed.of))
        .collect();
    assert_eq!(reasons.len(), 3);
    assert_eq!(reasons[0], ("bad".to_owned(), "exit status 3: no such matrix".to_owned(), 2));
    assert_eq!(reasons[1].1, "no result: it prints no JSON document");
    assert!(reasons[2].1.contains("/no/such/program: No such file"), "{reasons:?}");
    assert!(status.failures.iter().all(|failed| failed.is_given_up));
    let good = trial.lines().into_iter().filter(|line| line.contender == "good");
    assert_eq!(good.count(), 4);
}

#[test]
fn a_hanging_contender_is_killed_and_the_campaign_goes_on() {
    let trial = Trial::new(
        r#"
[[contender]]
name = "hangs"
command = "sh -c 'echo waiting; sleep 1000'"
limit_s = 0.2
[[contender]]
name = "good"
command = "true"
[repeat]
max = 3
again = 0
"#,
    );
    let status = trial.run().unwrap();
    assert_eq!(status.failures.len(), 1);
    assert!(status.failures[0].reason.ends_with(": waiting"), "{:?}", status.failures);
    let lines = trial.lines();
    assert_eq!(lines.iter().filter(|line| line.status == Status::TimedOut).count(), 2);
    assert_eq!(lines.iter().filter(|line| line.is_done()).count(), 3);
}

#[test]
fn the_best_of_the_tuned_values_is_searched_first() {
    let trial = Trial::new(
        r#"
[sweep]
size = [1, 2]
[[contender]]
name = "tuned"
command = "sh -c 'test {width} != 9 && echo speed $(({size} * (10 - ({width} - 4) * ({width} - 4))))'"
result = { regex = 'speed (?P<gflops>[-0-9.]+)' }
tune = { width = [2, 4, 6, 9] }
better = "more"
[repeat]
min = 1
max = 1
again = 0
"#,
    );
    trial.run().unwrap();
    let lines = trial.lines();
    assert_eq!(lines.len(), 2 * 4 + 2);
    assert!(lines[..8].iter().all(|line| line.round.is_none()));
    for line in &lines[8..] {
        assert_eq!(line.tuned["width"].to_string(), "4");
    }
    let report = CampaignReport::read(&trial.results()).unwrap();
    assert!(
        report.format_markdown().contains("tuned: width=4; 1 failed"),
        "{}",
        report.format_markdown()
    );
    // The choice stays when the trials are gone.
    let text = fs::read_to_string(trial.results().join(POINTS)).unwrap();
    let rounds: String = text.lines().skip(8).map(|line| format!("{line}\n")).collect();
    fs::write(trial.results().join(POINTS), rounds).unwrap();
    assert_eq!(trial.run().unwrap().state, State::Ended);
    assert_eq!(trial.lines().len(), 2);
}

/// A reference, and contenders for some of the points.
const SOME: &str = r#"
about = "Two sizes."
[sweep]
size = [10, 20, 30]
[values]
speed = "size / wall_s"
half = "speed / 2"
cost = "wall_s + price"
[[contender]]
name = "one"
command = "echo '{{\"wall_s\": {size}}}'"
result = { json = ["wall_s"] }
value = "speed"
better = "more"
[[contender]]
name = "large"
when = "size >= 20"
command = "echo '{{\"wall_s\": [1, {size}, 90], \"price\": 5, \"width\": {width}}}'"
result = { json = ["wall_s", "price", "width"] }
tune = { width = [2, 4, 20] }
tune_when = "width < size"
value = "speed"
better = "more"
[repeat]
max = 3
again = 0
[[goal]]
name = "costs"
when = "size == 30"
ratio = ["large.cost", "size"]
at_most = 1.5
[[goal]]
value = "one.half"
at_least = 1
"#;

#[test]
fn contenders_and_goals_are_of_some_points_and_values_are_computed() {
    let trial = Trial::new(SOME);
    trial.run().unwrap();
    let lines = trial.lines();
    let trials = lines.iter().filter(|line| line.round.is_none()).count();
    assert_eq!((trials, lines.len()), (2 + 3, 2 + 3 + 3 * (3 + 2)));
    let report = CampaignReport::read(&trial.results()).unwrap();
    assert_eq!(report.rows.len(), 5);
    let large = &report.rows[2];
    assert_eq!(large.value.unwrap().median, 1.0);
    assert_eq!(large.results["half"].median, 0.5);
    assert_eq!(large.results["cost"].median, 25.0);
    assert_eq!(report.rows[0].results.get("cost"), None);
    let goals: Vec<(&str, f64)> =
        report.goals.iter().map(|goal| (goal.goal.as_str(), goal.ratio.unwrap().median)).collect();
    let half = ("one.half at least 1", 0.5);
    assert_eq!(goals, [half, half, ("costs at most 1.5", 35.0 / 30.0), half]);
    let text = report.format_markdown();
    for part in [
        "# trial\n\nTwo sizes.\n\nState",
        "| size | contender | value | rounds | median | ratio | half | cost | end | notes |",
        "| 20 | large | `speed` | 3 | 1.000 | 1.000 | 0.5000 | 25.00 | most rounds | tuned: width=2",
        "| 30 | costs at most 1.5 | 1.167 | unclear, met by the median |",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn the_contenders_at_a_point_follow_each_other() {
    let trial = Trial::new(TWO);
    trial.run().unwrap();
    for pair in trial.lines().chunks(2) {
        assert_eq!(pair[0].point, pair[1].point);
    }
}

#[test]
fn the_time_of_the_campaign_ends_it() {
    let trial = Trial::new(
        r#"
[[contender]]
name = "slow"
command = "sleep 0.05"
[repeat]
max = 1000
precision = 1e-9
seconds = 0.12
again = 0
"#,
    );
    let status = trial.run().unwrap();
    assert_eq!(status.state, State::Budget);
    assert!((1..=3).contains(&status.repetitions), "{status:?}");
    assert_eq!(CampaignReport::read(&trial.results()).unwrap().rows[0].end, Some(PointEnd::Budget));
    trial.run().unwrap();
    assert_eq!(trial.lines().len(), status.repetitions);
}

#[test]
fn a_campaign_may_grow_but_its_contenders_stay_the_same() {
    let trial = Trial::new(TWO);
    trial.run().unwrap();
    let path = trial.folder.path().join("trial.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("[10, 20]", "[10, 20, 30]", 1)).unwrap();
    trial.run().unwrap();
    assert_eq!(trial.lines().len(), 36);
    let kept = fs::read_to_string(trial.results().join(FILE)).unwrap();
    assert!(kept.contains("[10, 20, 30]"));
    fs::write(&path, text.replacen("2 * {size}", "3 * {size}", 1)).unwrap();
    let refused = trial.run().unwrap_err();
    assert!(refused.to_string().contains("another contender `two`"), "{refused}");
    let third = "[[contender]]\nname = \"three\"\ncommand = \"true\"\n[repeat]";
    fs::write(&path, text.replacen("[repeat]", third, 1)).unwrap();
    let refused = trial.run().unwrap_err();
    assert!(refused.to_string().contains("without the contender `three`"), "{refused}");
    fs::write(&path, text.replacen("\"trial\"", "\"other\"", 1)).unwrap();
    let refused = trial.run().unwrap_err();
    assert!(refused.to_string().contains("holds the campaign `trial`"), "{refused}");
}

#[test]
fn a_second_engine_is_refused_by_the_name_of_the_first() {
    let trial = Trial::new(TWO);
    let refused =
        run(&trial.campaign(), &trial.results(), &[], &AtomicBool::new(false), &mut |_| {
            let refused = trial.run().unwrap_err();
            let expected = format!("process {} on ", std::process::id());
            assert!(refused.to_string().contains(&expected), "{refused}");
            let status = CampaignStatus::read(&trial.results()).unwrap();
            assert_eq!(status.state, State::Running);
            assert_eq!(
                status.engines.first().map(|engine| engine.process),
                Some(std::process::id())
            );
        });
    assert!(refused.is_ok());
    assert_eq!(CampaignStatus::read(&trial.results()).unwrap().state, State::Ended);
}

#[test]
fn disturbed_repetitions_are_kept_and_repeated_at_most_twice() {
    let trial = Trial::new(&TWO.replace("again = 0", "again = 2"));
    let campaign = trial.campaign();
    trial.run().unwrap();
    let mut lines: Vec<Repetition> =
        trial.lines().into_iter().filter(|line| line.attempt == 0).collect();
    let cell = crate::history::Cell { point: 0, contender: 0 };
    let place = lines
        .iter()
        .position(|line| {
            line.point == campaign.points[0].id && line.contender == "one" && line.round == Some(1)
        })
        .unwrap();
    let mut history = History::default();
    let task = RoundTask { cell, round: Some(1), tuned: Default::default() };
    let mut attempt = lines.remove(place);
    attempt.warnings = vec!["disturbed".to_owned()];
    for (number, value) in [(0, 30.0), (1, 20.0), (2, 25.0)] {
        assert!(campaign.needs_attempt(&history, &task), "{number}");
        attempt.attempt = number;
        attempt.values.insert("wall_s".to_owned(), value);
        history.add(cell, attempt.clone());
        // Without an undisturbed one, the last one counts.
        assert_eq!(campaign.value_in(&history, cell, 1), Some(value));
    }
    assert!(!campaign.needs_attempt(&history, &task));
}

#[test]
fn a_clock_that_jumps_does_no_harm() {
    let trial = Trial::new(TWO);
    trial.run().unwrap();
    let path = trial.results().join(POINTS);
    let mut lines = trial.lines();
    // Back to 1970, and far into the future.
    lines[3].start_s = 0.0;
    lines[5].start_s = 1e12;
    let text: String =
        lines.iter().map(|line| serde_json::to_string(line).unwrap() + "\n").collect();
    fs::write(&path, text).unwrap();
    let status = trial.run().unwrap();
    assert_eq!((status.state, trial.lines().len()), (State::Ended, 24));
}

/// Two points that need one node, and one that needs two.
const NODES: &str = r#"
nodes = "ranks // 2"
[sweep]
ranks = [2, 3, 4]
[[contender]]
name = "one"
command = "echo {ranks}"
result = { regex = '(?P<ranks_s>[0-9]+)' }
[repeat]
min = 2
max = 2
again = 0
"#;

#[test]
fn jobs_of_two_sizes_share_a_campaign() {
    let trial = Trial::new(NODES);
    let status = trial.run_job(1).unwrap();
    assert_eq!((status.state, status.points, status.repetitions), (State::Ended, 2, 4));
    let read = || CampaignStatus::read(&trial.results()).unwrap();
    assert_eq!((read().state, read().points_ended, read().left.most), (State::Open, 2, 2));
    // Both may run at the same time.
    let (part, _) =
        CampaignFolder::open(&find_part(&trial.results(), 1), &trial.campaign()).unwrap();
    let refused = trial.run_job(1).unwrap_err();
    assert!(matches!(refused, CampaignError::Held { .. }), "{refused}");
    assert_eq!(read().engines.len(), 1);
    trial.run_job(2).unwrap();
    drop(part);
    assert_eq!((read().state, read().points_ended, read().repetitions), (State::Ended, 3, 6));
    let report = CampaignReport::read(&trial.results()).unwrap();
    let values = report.rows.iter().map(|row| row.value.unwrap().median);
    assert_eq!(values.collect::<Vec<_>>(), [2.0, 3.0, 4.0]);
    assert_eq!(report.environments.len(), 1);
    // A run in one job has nothing left to do.
    assert_eq!(trial.run().unwrap().repetitions, 6);
    let refused = trial.run_job(3).unwrap_err();
    assert_eq!(refused.to_string(), "no point needs 3 nodes: known are 1, 2");
}

#[test]
fn each_number_of_nodes_has_the_time_of_the_campaign() {
    let trial = Trial::new(&NODES.replace("again = 0", "again = 0\nseconds = 1e-9"));
    let status = trial.run().unwrap();
    assert_eq!((status.state, status.repetitions), (State::Budget, 2));
}

#[test]
fn measurements_of_each_number_of_nodes_and_of_all_together_do_not_meet() {
    let whole = NODES.replace("nodes = \"ranks // 2\"\n", "");
    for (before, after, reason) in [
        (NODES, &*whole, "no longer has `nodes`"),
        (&whole, NODES, "from before the file said how many nodes"),
    ] {
        let trial = Trial::new(before);
        trial.run().unwrap();
        let file = trial.folder.path().join("trial.toml");
        fs::write(file, format!("name = \"trial\"\nseed = 7\n{after}")).unwrap();
        let refused = trial.run().unwrap_err().to_string();
        assert!(refused.contains(reason), "{refused}");
    }
}

#[test]
fn a_contender_that_changes_is_refused_for_every_number_of_nodes() {
    let trial = Trial::new(NODES);
    trial.run_job(1).unwrap();
    let text = fs::read_to_string(trial.folder.path().join("trial.toml")).unwrap();
    let changed = text.replace("echo {ranks}", "echo 1{ranks}");
    fs::write(trial.folder.path().join("trial.toml"), changed).unwrap();
    let refused = trial.run_job(2).unwrap_err().to_string();
    assert!(refused.contains("another contender `one`"), "{refused}");
    assert_eq!(fs::read_to_string(trial.results().join(FILE)).unwrap(), text);
}

#[test]
fn contenders_and_goals_of_some_points_stay_so_for_every_number_of_nodes() {
    let some = "[[contender]]\nname = \"some\"\nwhen = \"ranks == 4\"\ncommand = \"echo {ranks}\"\n\
                result = { regex = '(?P<ranks_s>[0-9]+)' }\n[[goal]]\nwhen = \"ranks == 4\"\nvalue = \"some.ranks_s\"\nat_most = 4\n[repeat]";
    let trial = Trial::new(&NODES.replace("[repeat]", some));
    let status = trial.run().unwrap();
    assert_eq!((status.state, status.repetitions), (State::Ended, 6 + 2));
    let report = CampaignReport::read(&trial.results()).unwrap();
    let found = |row: &crate::report::ReportRow| row.value.map(|value| (value.median, value.n));
    let some = report.rows.iter().filter(|row| row.contender == "some");
    assert_eq!(some.map(found).collect::<Vec<_>>(), [Some((4.0, 2))]);
    assert_eq!(report.goals[0].meets_by_median, Some(true));
}

/// Returns a contender that prints these values, one in each round.
fn print_values(name: &str, values: &[f64], better: &str) -> String {
    let values: Vec<String> = values.iter().map(f64::to_string).collect();
    let list = format!("set -- {}", values.join(" "));
    format!(
        "[[contender]]\nname = \"{name}\"\nbetter = \"{better}\"\nresult = {{ regex = 'found (?P<found>.+)' }}\n\
         command = \"sh -c '{list}; echo >> {name}; shift $(($(wc -l < {name}) - 1)); echo found $1'\"\n"
    )
}

#[test]
fn negative_values_are_never_better_in_the_wrong_direction() {
    // Each value of the second is better if less.
    for (first, second) in
        [(-1.0, -2.0), (1.0, -2.0), (-1.0, -1.5), (0.0, -1.0), (2.0, 0.0), (2.0, 1.0)]
    {
        for better in ["less", "more"] {
            let values = [first, second].map(|value| {
                let noise = |round: i32| 0.01 * f64::from(round % 3);
                (0..8).map(|round| value + noise(round)).collect::<Vec<_>>()
            });
            let rows =
                print_values("a", &values[0], better) + &print_values("b", &values[1], better);
            let goals = "[[goal]]\nratio = [\"b.found\", \"a.found\"]\nat_most = 1\n";
            let trial =
                Trial::new(&format!("{rows}[repeat]\nmin = 6\nmax = 8\nagain = 0\n{goals}"));
            trial.run().unwrap();
            let report = CampaignReport::read(&trial.results()).unwrap();
            let wrong =
                if better == "less" { ContenderStanding::Worse } else { ContenderStanding::Better };
            assert_ne!(report.rows[1].standing, Some(wrong), "{first} {second} {better}");
            assert_ne!(report.goals[0].outcome, GoalOutcome::Missed, "{first} {second}");
            let is_told = report.rows[1].standing.is_some();
            assert_eq!(is_told, first > 0.0 && second >= 0.0, "{first} {second}");
        }
    }
}

/// Two programs at two sizes, which a script stands for.
const SCRIPTS: &str = r#"
[sweep]
x = [1, 2]
[[contender]]
name = "a"
command = "sh prog a {x}"
result = { regex = "t (?P<t_s>.)" }
[[contender]]
name = "b"
command = "sh prog b {x}"
result = { regex = "t (?P<t_s>.)" }
[repeat]
min = 6
max = 6
again = 0
"#;

#[test]
fn a_program_that_fails_now_or_is_lost_is_named_by_a_comparison() {
    let measure = |script: &str, change: (&str, &str)| {
        let trial = Trial::new(&SCRIPTS.replace(change.0, change.1));
        fs::write(trial.folder.path().join("prog"), script).unwrap();
        trial.run().unwrap();
        trial
    };
    let same = ("", "");
    let good = "echo t 1";
    let b = SCRIPTS.find("[[contender]]\nname = \"b\"").unwrap();
    let b = &SCRIPTS[b..SCRIPTS.find("[repeat]").unwrap()];
    let old = measure(good, same);
    for (script, change, verdicts, note) in [
        (good, same, "same same same same", ""),
        (
            "test $1 = b || kill -SEGV $$; echo t 1",
            same,
            "failed same failed same",
            "`a` has failed in ",
        ),
        ("test $1$2 = a2 && exit 3; echo t 1", same, "same same failed same", ": exit status 3"),
        ("echo x", same, "failed failed failed failed", "no result"),
        (good, (b, ""), "same same", "`b` has 2 points in "),
        (good, ("x = [1, 2]", "x = [1]"), "same same", "`a` has 1 points in "),
        (
            good,
            ("name = \"b\"", "name = \"b\"\nwhen = \"x == 1\""),
            "same same same",
            "`b` has 1 points in ",
        ),
        (
            good,
            ("x = [1, 2]", "x = [1, 2, 3]"),
            "same same same same",
            "that are not in the baseline",
        ),
        (
            good,
            ("name = \"b\"", "name = \"b\"\nbetter = \"more\""),
            "same inconclusive same inconclusive",
            "in another direction",
        ),
        (
            good,
            ("name = \"b\"", "name = \"b\"\nvalue = \"took_s\""),
            "same inconclusive same inconclusive",
            "another value",
        ),
    ] {
        let new = measure(script, change);
        let compared = crate::CampaignComparison::read(&[old.results()], &new.results()).unwrap();
        let found = serde_json::to_value(&compared.points).unwrap();
        let found =
            found.as_array().unwrap().iter().map(|point| point["verdict"].as_str().unwrap());
        assert_eq!(
            found.collect::<Vec<_>>().join(" "),
            verdicts,
            "{script} {change:?}: {:#?}",
            compared.notes
        );
        let is_named = compared.notes.iter().any(|it| it.contains(note));
        assert!(
            is_named || note.is_empty() && compared.notes.is_empty(),
            "{note}: {:#?}",
            compared.notes
        );
        // A failure is the first that a reader learns.
        if verdicts.contains("failed") {
            assert!(compared.notes[0].contains("has failed"), "{:#?}", compared.notes);
            let reasons = compared.points.iter().filter_map(|point| point.reason.as_ref());
            assert_eq!(reasons.count(), verdicts.matches("failed").count());
        }
    }
}

#[test]
fn what_failed_before_is_no_failure_of_the_compared_campaign() {
    let trial = Trial::new(
        "[[contender]]\nname = \"a\"\ncommand = \"sh prog\"\n[repeat]\nmin = 2\nmax = 2\nagain = 0\n",
    );
    let program = trial.folder.path().join("prog");
    let old = trial.folder.path().join("old");
    fs::write(&program, "exit 1").unwrap();
    trial.run().unwrap();
    fs::rename(trial.results(), &old).unwrap();
    fs::write(&program, "exit 0").unwrap();
    trial.run().unwrap();
    let compared = crate::CampaignComparison::read(&[old], &trial.results()).unwrap();
    assert!(compared.notes[0].contains("`a` has failed in "), "{:#?}", compared.notes);
    assert_eq!(compared.points[0].verdict, crate::PointVerdict::Inconclusive);
}

#[test]
fn every_column_has_a_name_of_its_own() {
    let trial = Trial::new(SOME);
    trial.run().unwrap();
    let report = CampaignReport::read(&trial.results()).unwrap();
    let [csv, markdown] = [report.format_csv(), report.format_markdown()];
    let lines = markdown.lines().zip(markdown.lines().skip(1));
    let tables = lines.filter(|(_, ruler)| ruler.starts_with("|--"));
    let headings = csv.lines().take(1).chain(tables.map(|(line, _)| line));
    let names = headings.flat_map(|line| line.split([',', '|'])).map(str::trim);
    let own = ["size", "half", "cost", "speed", "one", "large"];
    let names: std::collections::BTreeSet<&str> =
        names.filter(|name| crate::template::is_name(name) && !own.contains(name)).collect();
    assert!(names.contains("rounds") && names.contains("value_of"), "{names:?}");
    for name in names.into_iter().chain(["n", "m", "took_s"]) {
        for list in ["[sweep]", "[[zip]]"] {
            let trial = Trial::new(&format!(
                "{list}\n{name} = [1024]\n[[contender]]\nname = \"a\"\ncommand = \"echo {{{name}}}\"\n"
            ));
            let read = Campaign::read(&trial.folder.path().join("trial.toml"));
            assert_eq!(read.is_ok(), ["n", "m"].contains(&name), "{name}: {read:?}");
        }
    }
}

#[test]
fn numbers_reach_commands_as_the_file_writes_them() {
    let trial = Trial::new(
        r#"
[sweep]
v = [1, 1.0, 3.9, 3.10, 1e3, -0.50, 1_0.5]
[[contender]]
name = "a"
command = "sh -c 'echo is {v}, {w}'"
tune = { w = [2.50] }
result = { regex = 'is (?P<v>[^,]+), 2.50$' }
better = "less"
[repeat]
min = 2
max = 2
again = 0
"#,
    );
    let words = "1, 2.50|1.0, 2.50|3.9, 2.50|3.10, 2.50|1e3, 2.50|-0.50, 2.50|10.5, 2.50";
    let stop = AtomicBool::new(false);
    // The second run reads the tuned values from records.
    for seen in [8, 0] {
        let mut left = seen;
        let ended = run(&trial.campaign(), &trial.results(), &[], &stop, &mut |_| {
            left -= 1;
            stop.store(left == 0, Ordering::Relaxed);
        });
        assert_eq!(ended.is_err(), seen > 0);
        stop.store(false, Ordering::Relaxed);
    }
    assert_eq!(trial.lines().len(), 3 * 7);
    assert!(trial.lines().iter().all(Repetition::is_done));
    let rows = CampaignReport::read(&trial.results()).unwrap().rows;
    let shown: Vec<_> = rows
        .iter()
        .map(|row| row.command.trim_start_matches("sh -c 'echo is ").trim_end_matches('\''))
        .collect();
    assert_eq!(shown.join("|"), words);
}

#[test]
fn every_task_has_a_value_before_a_disturbed_one_is_repeated() {
    let trial = Trial::new(&TWO.replace("again = 0", "again = 2"));
    trial.run().unwrap();
    let path = trial.results().join(POINTS);
    let line = |line: &Repetition, attempt: u32| {
        let warnings = vec!["disturbed: others".to_owned()];
        serde_json::to_string(&Repetition { warnings, attempt, ..line.clone() }).unwrap() + "\n"
    };
    let lines: Vec<_> = trial
        .lines()
        .into_iter()
        .filter(|line| line.round == Some(0) && line.attempt == 0)
        .collect();
    // The attempts of the four cells so far, and the cell that is next.
    for (attempts, next) in [
        ([1, 0, 0, 0], 1),
        ([1, 1, 0, 0], 2),
        ([1, 1, 1, 1], 0),
        ([2, 1, 1, 1], 1),
        ([2, 2, 2, 2], 0),
        ([3, 3, 2, 2], 2),
    ] {
        let text: String = lines
            .iter()
            .zip(attempts)
            .flat_map(|(of, attempts)| (0..attempts).map(|it| line(of, it)))
            .collect();
        fs::write(&path, text).unwrap();
        let stop = AtomicBool::new(false);
        let campaign = trial.campaign();
        let mut begun = Vec::new();
        let _ = run(&campaign, &trial.results(), &[], &stop, &mut |progress| {
            begun.push((
                campaign.points[progress.point].id.clone(),
                campaign.contenders[progress.contender].name.clone(),
            ));
            stop.store(true, Ordering::Relaxed);
        });
        let expected = &lines[next];
        assert_eq!(begun[0], (expected.point.clone(), expected.contender.clone()), "{attempts:?}");
    }
}

#[test]
fn what_the_time_did_not_suffice_for_is_not_measured() {
    let trial = Trial::new(&TWO.replace("again = 0", "again = 0\nseconds = 1e-9"));
    let status = trial.run().unwrap();
    assert_eq!((status.state, status.points_ended, status.repetitions), (State::Budget, 0, 1));
    let rows = CampaignReport::read(&trial.results()).unwrap().rows;
    let mut ends: Vec<_> = rows
        .iter()
        .map(|row| (row.value.map_or(0, |value| value.n), row.end.unwrap().describe()))
        .collect();
    ends.sort_unstable();
    let empty = (0, "not measured");
    assert_eq!(ends, [empty, empty, empty, (1, "time used up")]);
}

/// Two tuned contenders at two points, each with three trials.
const TUNED: &str = r#"
[sweep]
size = [1, 2]
[[contender]]
name = "one"
command = "echo {size}{width}"
result = { regex = '(?P<wall_s>[0-9]+)' }
tune = { width = [2, 4, 6] }
[[contender]]
name = "two"
command = "echo {size}{width}"
result = { regex = '(?P<wall_s>[0-9]+)' }
tune = { width = [2, 4, 6] }
[repeat]
min = 2
max = 2
again = 2
"#;

#[test]
fn disturbed_trials_are_not_repeated_before_each_cell_has_a_value() {
    let trial = Trial::new(TUNED);
    trial.run().unwrap();
    let path = trial.results().join(POINTS);
    let lines = trial.lines();
    let trials: Vec<_> = lines.into_iter().filter(|it| it.round.is_none()).collect();
    assert_eq!(trials.len(), 12);
    for disturbed in 0..=12 {
        let text: String = trials
            .iter()
            .enumerate()
            .map(|(number, line)| {
                let mut line = line.clone();
                line.warnings.clear();
                if number < disturbed {
                    line.warnings.push("disturbed: others".to_owned());
                }
                serde_json::to_string(&line).unwrap() + "\n"
            })
            .collect();
        fs::write(&path, text).unwrap();
        let stop = AtomicBool::new(false);
        let mut begun = Vec::new();
        let _ = run(&trial.campaign(), &trial.results(), &[], &stop, &mut |progress| {
            begun.push((progress.round, progress.point, progress.contender));
            stop.store(begun.len() == 4, Ordering::Relaxed);
        });
        begun.sort_unstable();
        let cells = [(0, 0), (0, 1), (1, 0), (1, 1)];
        let expected = cells.map(|(point, contender)| (Some(0), point, contender));
        assert_eq!(begun, expected, "{disturbed}");
    }
}

#[test]
fn a_trial_of_tuning_is_no_measured_value() {
    let trial = Trial::new(&TUNED.replace("again = 2", "again = 2\nseconds = 1e9"));
    trial.run().unwrap();
    let path = trial.results().join(POINTS);
    let lines = trial.lines();
    for (seconds, kept, expected) in [(1e9, 12, 0), (1.0, 12, 2), (1.0, 14, 1), (1.0, 16, 0)] {
        let text: String = lines[..kept]
            .iter()
            .map(|line| {
                let line = Repetition { took_s: 1.0, ..line.clone() };
                serde_json::to_string(&line).unwrap() + "\n"
            })
            .collect();
        fs::write(&path, text).unwrap();
        let copy = trial.results().join(FILE);
        let file = fs::read_to_string(trial.folder.path().join("trial.toml")).unwrap();
        fs::write(&copy, file.replace("1e9", &format!("{seconds:?}"))).unwrap();
        let report = CampaignReport::read(&trial.results()).unwrap();
        let ends = report.rows.iter().filter(|row| row.contender == "one");
        let ends: Vec<_> = ends.map(|row| row.end).collect();
        let empty = ends.iter().filter(|it| **it == Some(PointEnd::NotMeasured));
        assert_eq!(empty.count(), expected, "{seconds} {kept}: {ends:?}");
    }
}

#[test]
fn a_contender_that_fails_in_every_round_is_given_up_however_few_they_are() {
    for rounds in ["max = 1\nmin = 1", "exact = true", "max = 2\nmin = 1", "max = 5"] {
        let again = if rounds.contains("exact") { "" } else { "again = 0\n" };
        let trial = Trial::new(&format!(
            "[[contender]]\nname = \"a\"\ncommand = \"false\"\n[[contender]]\nname = \"b\"\ncommand = \"true\"\n\
             [repeat]\n{again}{rounds}\n"
        ));
        let status = trial.run().unwrap();
        assert_eq!(status.state, State::Ended, "{rounds}");
        let [failed] = &status.failures[..] else {
            panic!("one failure");
        };
        assert!(failed.is_given_up && failed.contender == "a", "{rounds}");
    }
}

#[test]
fn work_that_may_be_the_commands_own_is_marked_and_not_repeated() {
    let trial = Trial::new(&TWO.replace("again = 0", "again = 2"));
    trial.run().unwrap();
    let mut line = trial.lines().remove(0);
    for (warning, is_disturbed) in
        [("unclear: a service", false), ("disturbed: others", true), ("throttled: heat", true)]
    {
        line.warnings = vec![warning.to_owned()];
        assert_eq!(line.is_disturbed(), is_disturbed, "{warning}");
        assert_eq!(crate::history::is_final(&[line.clone()], 2), !is_disturbed, "{warning}");
    }
}

#[test]
fn a_line_that_could_not_be_read_again_is_not_written_and_empty_ones_are_no_lines() {
    let trial = Trial::new(TWO);
    trial.run().unwrap();
    let path = trial.results().join(POINTS);
    let before = fs::read_to_string(&path).unwrap();
    let mut bad = trial.lines().remove(0);
    let (mut folder, _) = CampaignFolder::open(&trial.results(), &trial.campaign()).unwrap();
    for number in [f64::NAN, f64::INFINITY] {
        bad.took_s = number;
        assert!(folder.append(&bad).is_err());
        bad.took_s = 1.0;
        bad.values.insert("wall_s".to_owned(), number);
        assert!(folder.append(&bad).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), before);
    }
    drop(folder);
    fs::write(&path, before.replacen('\n', "\n\n\r\n", 2) + "\n").unwrap();
    assert_eq!(CampaignStatus::read(&trial.results()).unwrap().repetitions, 24);
}

#[test]
fn environments_that_differ_within_a_campaign_are_counted() {
    let trial = Trial::new(&TWO.replace("sh -c 'echo took $((2 * {size})) s'", "sh prog {size}"));
    let program = trial.folder.path().join("prog");
    fs::write(&program, "echo took $((2 * $1)) s\n").unwrap();
    assert_eq!(trial.run().unwrap().environments, 1);
    let path = trial.results().join(POINTS);
    let text = fs::read_to_string(&path).unwrap();
    let some: String = text.split_inclusive('\n').take(20).collect();
    fs::write(&path, some).unwrap();
    fs::write(&program, "echo took $((2 * $1)) s # built anew\n").unwrap();
    assert_eq!(trial.run().unwrap().environments, 2);
}

#[test]
fn an_output_that_is_not_kept_whole_is_told() {
    let trial = Trial::new(
        "[[contender]]\nname = \"a\"\ncommand = \"sh -c 'echo t 1; head -c 25000000 /dev/zero'\"\n\
         result = { regex = 't (?P<t_s>.)' }\n[repeat]\nmin = 1\nmax = 1\nagain = 0\n",
    );
    let reason = trial.run().unwrap().failures.remove(0).reason;
    assert!(reason.ends_with(" in the last 16 MB of it"), "{reason}");
}
