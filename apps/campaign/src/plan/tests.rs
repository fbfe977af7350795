use std::fs;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use super::*;
use crate::run::{run, run_nodes};

/// Two points on one node and one on four, with a contender that keeps documents.
const JOBS: &str = r#"
name = "jobs"
nodes = "ranks // 2"
[sweep]
ranks = [2, 3, 8]
[[contender]]
name = "one"
command = "echo '{{\"ranks\": {ranks}, \"text\": \"0123456789\"}}'"
result = { json = ["ranks"] }
better = "more"
keep = true
limit_s = 90
[repeat]
min = 2
max = 4
precision = 1e-9
again = 0
"#;

struct Trial {
    folder: tempfile::TempDir,
}

impl Trial {
    fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("jobs.toml"), text).unwrap();
        Self { folder }
    }

    fn campaign(&self) -> Campaign {
        Campaign::read(&self.folder.path().join("jobs.toml")).unwrap()
    }

    fn results(&self) -> PathBuf {
        self.folder.path().join("results")
    }

    fn plan(&self) -> CampaignPlan {
        CampaignPlan::new(&self.campaign(), &self.results(), None).unwrap()
    }
}

#[test]
fn node_hours_are_bounded_by_limits_and_then_told_by_repetitions() {
    let trial = Trial::new(JOBS);
    let plan = trial.plan();
    let told = |plan: &CampaignPlan| -> Vec<(u32, usize, usize, usize)> {
        let parts = plan.parts.iter();
        parts.map(|part| (part.nodes, part.points, part.left.least, part.left.most)).collect()
    };
    assert_eq!(told(&plan), [(1, 2, 4, 8), (4, 1, 2, 4)]);
    assert_eq!((plan.left.least_s, plan.left.most_s), (None, 12.0 * 90.0));
    // Eight repetitions of 90 s on one node, four on four.
    let hours = plan.parts.iter().map(|part| (part.least_node_hours, part.most_node_hours));
    assert_eq!(hours.collect::<Vec<_>>(), [(None, 0.2), (None, 0.4)]);
    let (campaign, stop) = (trial.campaign(), AtomicBool::new(false));
    run_nodes(&campaign, &trial.results(), 1, &[], &stop, &mut |_| {}).unwrap();
    let plan = trial.plan();
    assert_eq!(told(&plan), [(1, 2, 0, 0), (4, 1, 2, 4)]);
    assert_eq!((plan.parts[0].least_node_hours, plan.parts[0].most_node_hours), (Some(0.0), 0.0));
    // By the repetitions of the same contender on one node.
    let most = plan.parts[1].most_node_hours;
    assert_eq!(plan.parts[1].least_node_hours.unwrap(), most / 2.0);
    assert!(most > 0.0 && most < 0.4, "{most}");
}

#[test]
fn the_disk_of_a_campaign_is_that_of_its_lines_and_documents_so_far() {
    let trial = Trial::new(JOBS);
    let before = trial.plan().disk;
    assert_eq!((before.present_bytes, before.more_bytes), (0, 12 * 500));
    assert!(before.lacks_documents && before.free_bytes.is_some());
    let (campaign, stop) = (trial.campaign(), AtomicBool::new(false));
    run_nodes(&campaign, &trial.results(), 1, &[], &stop, &mut |_| {}).unwrap();
    let after = trial.plan().disk;
    let part = trial.results().join("nodes-1");
    let lines = fs::metadata(part.join("points.jsonl")).unwrap().len();
    // Two documents, of 8 repetitions; 4 repetitions are left.
    let documents: u64 = fs::read_dir(part.join("documents"))
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum();
    assert_eq!(after.more_bytes, (lines + documents) / 2);
    assert!(!after.lacks_documents);
    assert!(after.present_bytes > lines + documents, "{after:?}");
    run(&campaign, &trial.results(), &[], &stop, &mut |_| {}).unwrap();
    assert_eq!(trial.plan().disk.more_bytes, 0);
}

#[test]
fn a_folder_in_which_a_campaign_cannot_run_has_no_plan() {
    let trial = Trial::new(JOBS);
    let (campaign, stop) = (trial.campaign(), AtomicBool::new(false));
    run_nodes(&campaign, &trial.results(), 1, &[], &stop, &mut |_| {}).unwrap();
    for (changed, reason) in [
        (JOBS.replace("echo", "echo -n"), "another contender `one`"),
        (JOBS.replace("\"jobs\"", "\"other\""), "holds the campaign `jobs`"),
        (JOBS.replace("nodes = \"ranks // 2\"\n", ""), "no longer has `nodes`"),
    ] {
        fs::write(trial.folder.path().join("jobs.toml"), changed).unwrap();
        let refused = CampaignPlan::new(&trial.campaign(), &trial.results(), None).unwrap_err();
        assert!(refused.to_string().contains(reason), "{refused}");
    }
}

#[test]
fn what_only_a_shell_would_understand_and_missing_programs_are_noted() {
    let notes = |command: &str, more: &str| {
        let text = format!(
            "name = \"jobs\"\n[sweep]\nx = [1]\ny = [\"#3\", \"2\"]\n[[contender]]\nname = \"a\"\ncommand = {command:?}\n{more}\n[repeat]\nmax = 6\n"
        );
        Trial::new(&text).plan().notes.join("\n")
    };
    for (word, end) in [
        ("<", "< big.txt"),
        ("|", "| tail -1"),
        (">", "> out"),
        ("2>&1", "2>&1"),
        ("&&", "&& true"),
        (";", "; true"),
        ("true;", "true; true"),
        ("~/data", "~/data"),
        ("*.txt", "*.txt"),
        ("&", "&"),
        ("$HOME", "$HOME"),
        ("${", "$${{x}}"),
        ("`", "`date`"),
        ("#", "# all"),
        ("||", "|| true"),
    ] {
        let notes = notes(&format!("echo {{x}} \"{{y}}\" {end}"), "");
        assert!(notes.contains("no shell runs commands") && notes.contains(word), "{end}: {notes}");
    }
    // However many there are, they are one note.
    let many = "echo {x} \"{y}\" <{z}";
    let sweep = |length: usize| {
        let values: Vec<String> = (1..=length).map(|value| value.to_string()).collect();
        let text = format!(
            "name = \"jobs\"\n[sweep]\nx = [1]\ny = [1]\nz = [{}]\n[[contender]]\nname = \"a\"\ncommand = {many:?}\n[repeat]\nmax = 6\n",
            values.join(",")
        );
        Trial::new(&text).plan().notes
    };
    for (length, names) in [(1, "one has `<1`:"), (9, "one has `<1` (and 8 like it):")] {
        let notes = sweep(length);
        assert!(notes.len() == 1 && notes[0].contains(names), "{notes:?}");
    }
    // A value that cuts off the rest.
    assert!(notes("echo {y} --size {x}", "").contains("`#3`"));
    for quiet in [
        "sh -c 'echo {x} \"{y}\" < a | b; c && d $HOME ~ *.c > e'",
        "echo {x} \"{y} | # $ ;\"",
        "echo {x} a#b '{y}' 1:4 --f=~ a\\;b",
        "env A='1|2' echo {x} '{y}'",
    ] {
        assert_eq!(notes(quiet, ""), "", "{quiet}");
    }
    for (command, launch) in [
        ("no-such {x} '{y}'", ""),
        ("no-such {x} '{y}'", "launch = 'env A={x}'"),
        ("true {x} '{y}'", "launch = 'no-such -n 4'"),
    ] {
        assert_eq!(
            notes(command, launch),
            "there is no program `no-such` on this host",
            "{command} {launch}"
        );
    }
}
