use super::*;
use crate::file::Better;
use crate::point::{Parameter, Parameters};
use crate::report::{ChartedRepetition, GoalRow, Runs};
use crate::statistics::MedianInterval;
use crate::status::{Failed, State};

/// A name that would end elements, attributes and scripts, and turn the text after it around.
const HOSTILE: &str = "</script><script>alert('1')</script>\"><b>&\u{202e}<!--";

fn interval(median: f64) -> MedianInterval {
    MedianInterval { median, low: Some(0.9 * median), high: Some(1.1 * median), n: 6 }
}

/// Makes a report of these contenders, each with six repetitions at each point.
fn make_report(points: i64, contenders: &[&str]) -> CampaignReport {
    let cells = (0..points).flat_map(|size| contenders.iter().map(move |name| (size, *name)));
    let rows: Vec<ReportRow> = cells
        .map(|(size, contender)| {
            let is_first = contender == contenders[0];
            ReportRow {
                point: format!("{size:016x}"),
                parameters: [("size".to_owned(), Parameter::Whole(size))].into(),
                contender: contender.to_owned(),
                command: format!("mpirun -n 4 program-of-{contender} --size {size} --json"),
                tuned: Parameters::new(),
                value_of: "gflops".to_owned(),
                better: Better::More,
                value: Some(interval(100.0)),
                ratio: (!is_first).then(|| interval(1.2)),
                standing: (!is_first).then_some(ContenderStanding::Better),
                results: [("gflops".to_owned(), interval(100.0))].into(),
                disturbed: 0,
                failed: 0,
                end: Some(PointEnd::Precise),
                document: None,
            }
        })
        .collect();
    let repetitions = (0..rows.len()).flat_map(|row| {
        (0..6).map(move |round| ChartedRepetition {
            row,
            round: Some(round),
            start_s: 1.7e9 + f64::from(round),
            took_s: 0.5,
            value: Some(100.0),
            mark: PointMark::Counted,
            note: String::new(),
            environment: "e".to_owned(),
        })
    });
    CampaignReport {
        schema: 1,
        name: "a campaign".to_owned(),
        about: None,
        values: Vec::new(),
        state: State::Ended,
        confidence: 0.95,
        parameters: vec!["size".to_owned()],
        reference: contenders
            .first()
            .filter(|_| contenders.len() > 1)
            .map(|&first| first.to_owned()),
        repetitions: repetitions.collect(),
        rows,
        goals: Vec::new(),
        failures: Vec::new(),
        environments: [("e".to_owned(), json!({"host": "node01"}))].into(),
        runs: Runs::default(),
    }
}

/// Returns the document in a page.
fn read_data(page: &str) -> Value {
    let (_, rest) = page.split_once("<script id=\"data\"").unwrap();
    let (_, rest) = rest.split_once('>').unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn a_page_refers_to_no_network_and_no_other_file() {
    let page = make_report(2, &["one", "two"]).format_html().unwrap();
    for reference in [
        "http:",
        "https:",
        "WebSocket",
        "//cdn",
        "url(",
        "@import",
        " src=",
        "import(",
        "fetch(",
        "XMLHttp",
    ] {
        assert!(!page.contains(reference), "{reference}");
    }
    for (_, rest) in
        page.match_indices("href=\"").map(|(at, found)| page.split_at(at + found.len()))
    {
        assert!(rest.starts_with('#') || rest.starts_with("data:,"), "{}", &rest[..40]);
    }
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn hostile_texts_stay_texts() {
    let mut report = make_report(1, &["one", "two"]);
    report.name = HOSTILE.to_owned();
    report.rows[1].command = HOSTILE.to_owned();
    report.rows[1].parameters = [(HOSTILE.to_owned(), Parameter::Text(HOSTILE.to_owned()))].into();
    report.repetitions[0].note = HOSTILE.to_owned();
    report.environments =
        [(HOSTILE.to_owned(), json!({"host": HOSTILE, "cpu": {HOSTILE: HOSTILE}}))].into();
    report.failures.push(Failed {
        parameters: report.rows[1].parameters.clone(),
        contender: HOSTILE.to_owned(),
        failed: 1,
        of: 6,
        reason: HOSTILE.to_owned(),
        is_given_up: true,
    });
    report.about = Some(HOSTILE.to_owned());
    report.goals.push(GoalRow {
        parameters: report.rows[1].parameters.clone(),
        goal: HOSTILE.to_owned(),
        ratio: None,
        outcome: GoalOutcome::Unclear,
        meets_by_median: None,
    });
    let page = report.format_html().unwrap();
    assert_eq!(page.matches("<script").count(), 2);
    assert_eq!(page.matches("</script").count(), 2);
    assert!(!page.contains("<b>") && !page.contains("\"><b") && !page.contains("<!--"));
    assert!(!page.contains('\u{202e}'));
    let shown = escape(HOSTILE);
    assert_eq!(read_data(&page)["rows"][1]["command"], *shown);
    assert_eq!(read_data(&page)["repetitions"][0][6], *shown);
}

#[test]
fn numbers_that_json_lacks_are_missing() {
    let mut report = make_report(1, &["one", "two"]);
    report.rows[1].ratio = Some(MedianInterval { low: None, high: None, ..interval(f64::NAN) });
    report.rows[1].standing = Some(ContenderStanding::Unclear);
    report.repetitions[0].value = Some(f64::INFINITY);
    let data = read_data(&report.format_html().unwrap());
    assert_eq!(data["rows"][1]["ratio"]["median"], Value::Null);
    assert_eq!(data["repetitions"][0][4], Value::Null);
}

#[test]
fn a_campaign_that_has_not_begun_has_a_page() {
    let mut report = make_report(0, &["one"]);
    report.environments.clear();
    report.state = State::Open;
    let page = report.format_html().unwrap();
    assert!(page.contains("Nothing has run.") && page.contains("not complete"));
}

#[test]
fn a_campaign_of_failures_names_them_and_has_no_verdicts() {
    let mut report = make_report(1, &["one"]);
    for row in &mut report.rows {
        (row.value, row.failed, row.end) = (None, 6, Some(PointEnd::Failed));
        row.results.clear();
    }
    for repetition in &mut report.repetitions {
        (repetition.value, repetition.mark) = (None, PointMark::TimedOut);
    }
    report.failures.push(Failed {
        parameters: report.rows[0].parameters.clone(),
        contender: "one".to_owned(),
        failed: 6,
        of: 6,
        reason: "killed after 1 s".to_owned(),
        is_given_up: true,
    });
    let page = report.format_html().unwrap();
    assert!(
        page.contains("6 of 6") && page.contains("killed after 1 s") && page.contains("given up")
    );
    assert!(page.contains("0 disturbed, 6 failed"));
    assert!(!page.contains("Verdicts by contender"));
}

#[test]
fn environments_come_in_the_order_of_their_use() {
    let mut report = make_report(1, &["one"]);
    for (name, host) in [("a", "later"), ("b", "unused")] {
        let facts = json!({"host": host});
        report.environments.insert(name.to_owned(), facts);
    }
    report.repetitions[5].environment = "a".to_owned();
    let described = report.describe_environments();
    let hosts: Vec<&Value> = described.iter().map(|it| &it["host"]).collect();
    assert_eq!(hosts, ["node01", "later", "unused"]);
    assert_eq!(described[0]["differences"], json!([]));
    assert_eq!(described[1]["differences"][0]["here"], "later");
    let page = report.format_html().unwrap();
    assert_eq!(page.matches("<time data-seconds=\"17").count(), 4);
    assert_eq!(page.matches("<time").count(), 4);
}

#[test]
fn verdicts_and_goals_are_counted() {
    let mut report = make_report(3, &["one", "two", "time"]);
    report.rows[4].standing = Some(ContenderStanding::Worse);
    report.rows[7].standing = None;
    // It is better in the other direction.
    for row in report.rows.iter_mut().skip(2).step_by(3) {
        row.better = Better::Less;
        row.ratio = None;
        row.standing = None;
    }
    for (size, outcome) in
        [GoalOutcome::Met, GoalOutcome::Met, GoalOutcome::Unclear].into_iter().enumerate()
    {
        report.goals.push(GoalRow {
            parameters: report.rows[3 * size].parameters.clone(),
            goal: "two / one at least 1".to_owned(),
            ratio: Some(interval(1.0 + size as f64)),
            outcome,
            meets_by_median: None,
        });
    }
    let [standing] = &report.tally_standings()[..] else {
        panic!("one contender is compared");
    };
    assert_eq!((standing.good, standing.bad, standing.unclear), (1, 1, 1));
    let [goal] = &report.tally_goals()[..] else {
        panic!("one goal");
    };
    assert_eq!((goal.good, goal.bad, goal.unclear), (2, 0, 1));
    assert_eq!(goal.range, "1.000 to 3.000");
    let markdown = report.format_markdown();
    assert!(markdown.contains("Goals: 2 met, 0 missed, 1 unclear, of 3."), "{markdown}");
}

#[test]
fn a_page_of_a_thousand_points_is_small() {
    let page = make_report(1000, &["one", "two"]).format_html().unwrap();
    let data = read_data(&page);
    assert_eq!(data["rows"].as_array().unwrap().len(), 2000);
    assert!(page.len() < 2 << 20, "{} bytes", page.len());
}
