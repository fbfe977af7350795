use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Output};

use super::*;

/// A campaign that needs one, two and four nodes.
const FILE: &str = r#"
name = "unlike hosts"
nodes = "ranks / 2"
[sweep]
ranks = [4, 2, 8]
[[contender]]
name = "ours"
launch = "srun -n {ranks}"
command = "multiply"
"#;

/// Stands for the commands of a cluster: each notes its words.
const NOTE: &str = "#!/bin/sh\necho \"${0##*/} $*\" >> \"${0%/*}/noted\"\n";

/// A folder with a campaign, its script, and commands that stand for those of a cluster.
struct Cluster {
    folder: tempfile::TempDir,
}

impl Cluster {
    /// Makes a cluster whose engine does this.
    fn new(engine: &str) -> Self {
        let cluster = Self { folder: tempfile::tempdir().unwrap() };
        fs::write(cluster.path("unlike.toml"), FILE).unwrap();
        for (name, text) in
            [("sbatch", NOTE), ("scontrol", NOTE), ("an engine", &format!("{NOTE}{engine}"))]
        {
            fs::write(cluster.path(name), text).unwrap();
            fs::set_permissions(cluster.path(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::write(cluster.path("job"), cluster.format(&[])).unwrap();
        cluster
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn try_format(&self, options: &[String]) -> Result<String, CampaignError> {
        let script = JobScript {
            campaign: &Campaign::read(&self.path("unlike.toml")).unwrap(),
            file: &self.path("unlike.toml"),
            folder: &self.path("results"),
            program: &self.path("an engine"),
            options,
        };
        script.format()
    }

    fn format(&self, options: &[String]) -> String {
        self.try_format(options).unwrap()
    }

    /// Takes the number of nodes out of the campaign.
    fn forget_nodes(&self) {
        fs::write(self.path("unlike.toml"), FILE.replace("nodes = \"ranks / 2\"\n", "")).unwrap();
    }

    /// Runs the script with these words and variables; returns its end, and the lines that commands have noted.
    fn run(&self, words: &[&str], variables: &[(&str, &str)]) -> (Output, String) {
        let output = Command::new("bash")
            .arg(self.path("job"))
            .args(words)
            .env_clear()
            .env("PATH", format!("{}:/usr/bin:/bin", self.folder.path().display()))
            .envs(variables.iter().copied())
            .output()
            .unwrap();
        let noted = fs::read_to_string(self.path("noted")).unwrap_or_default();
        let folder = format!("{}/", self.folder.path().display());
        (output, noted.replace(&folder, ""))
    }

    /// Runs the script as a job of two nodes.
    fn run_job(&self) -> (Output, String) {
        self.run(&[], &[("SLURM_JOB_ID", "7"), ("SLURM_JOB_NUM_NODES", "2")])
    }
}

/// What an engine notes in a job of two nodes.
const STARTED: &str = "an engine campaign run unlike.toml --dir results --nodes 2\n";

/// Writes a line of `points.jsonl`.
const POINT: &str =
    "mkdir -p \"${0%/*}/results/nodes-2\"; echo >> \"${0%/*}/results/nodes-2/points.jsonl\"\n";

/// Tells the script of its time limit, and ends when the script says so.
const LATE: &str = "trap 'exit 1' TERM\nkill -USR1 $PPID\nwhile :; do sleep 0.01; done\n";

#[test]
fn the_script_submits_itself_for_each_number_of_nodes() {
    let cluster = Cluster::new("");
    let (output, noted) = cluster.run(&["--partition=all"], &[]);
    assert!(output.status.success(), "{output:?}");
    let lines = [1, 2, 4].map(|nodes| format!("sbatch --nodes={nodes} --partition=all job\n"));
    assert_eq!(noted, lines.concat());
}

#[test]
fn a_job_runs_the_points_of_its_size_and_ends_as_the_engine_does() {
    let (output, noted) = Cluster::new("exit 0").run_job();
    assert_eq!((output.status.code(), &*noted), (Some(0), STARTED), "{output:?}");
    let (output, noted) = Cluster::new("exit 2").run_job();
    assert_eq!((output.status.code(), &*noted), (Some(2), STARTED), "{output:?}");
}

#[test]
fn a_job_goes_back_into_the_queue_at_its_time_limit() {
    let (output, noted) = Cluster::new(&format!("{POINT}{LATE}")).run_job();
    assert_eq!(noted, format!("{STARTED}scontrol requeue 7\n"), "{output:?}");
}

#[test]
fn a_job_too_short_for_a_repetition_fails() {
    let (output, noted) = Cluster::new(LATE).run_job();
    assert_eq!((output.status.code(), &*noted), (Some(1), STARTED));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("give it more time"), "{told}");
}

#[test]
fn a_campaign_that_ends_at_the_time_limit_has_ended() {
    let late = LATE.replace("exit 1", "exit 0");
    let (output, noted) = Cluster::new(&format!("{POINT}{late}")).run_job();
    assert_eq!((output.status.code(), &*noted), (Some(0), STARTED), "{output:?}");
}

#[test]
fn options_are_a_line_of_their_own() {
    let options = ["-p", "gpu", "--time=2:00:00", "--comment", "two words"].map(str::to_owned);
    let text = Cluster::new("").format(&options);
    let given = "#SBATCH -p gpu --time=2:00:00 --comment 'two words'\n";
    assert!(text.contains(given), "{text}");
    let head = "#!/bin/bash\n# A job of the campaign \"unlike hosts\". ";
    assert!(text.starts_with(head), "{text}");
    assert!(text.contains("\n#SBATCH --job-name=unlike-hosts\n#SBATCH --nodes=1\n"), "{text}");
}

#[test]
fn the_parts_of_a_heterogeneous_job_have_their_own_options() {
    let options = ["-p", "slow", ":", "-p", "fast"].map(str::to_owned);
    let cluster = Cluster::new("exit 0");
    let refused = cluster.try_format(&options).unwrap_err().to_string();
    assert!(refused.contains("`nodes` does not say"), "{refused}");
    cluster.forget_nodes();
    let text = cluster.format(&options);
    assert!(text.contains("#SBATCH -p slow\n#SBATCH hetjob\n#SBATCH -p fast\n"), "{text}");
}

#[test]
fn a_heterogeneous_job_has_the_nodes_of_all_its_parts() {
    // Slurm says of the first part alone how many nodes "the job" has.
    let variables = ["", "_HET_GROUP_0", "_HET_GROUP_1"];
    let variables = variables.map(|part| format!("SLURM_JOB_NUM_NODES{part}"));
    let mut variables: Vec<_> = variables.iter().map(|name| (name.as_str(), "2")).collect();
    variables.push(("SLURM_JOB_ID", "7"));
    let (_, noted) = Cluster::new("exit 0").run(&[], &variables);
    assert_eq!(noted, STARTED.replace("nodes 2", "nodes 4"));
}

#[test]
fn a_campaign_that_does_not_say_how_many_nodes_has_one_job() {
    let cluster = Cluster::new("exit 0");
    cluster.forget_nodes();
    fs::write(cluster.path("job"), cluster.format(&[])).unwrap();
    let (output, noted) = cluster.run_job();
    let started = STARTED.replace(" --nodes 2", "");
    assert_eq!((output.status.code(), noted), (Some(0), started), "{output:?}");
}

#[test]
fn no_name_and_no_option_becomes_a_line_of_the_script() {
    let cluster = Cluster::new("exit 0\n");
    let lines = |name: &str| {
        let named = Campaign {
            name: name.to_owned(),
            ..Campaign::read(&cluster.path("unlike.toml")).unwrap()
        };
        let script = JobScript {
            campaign: &named,
            file: &cluster.path("unlike.toml"),
            folder: &cluster.path("results"),
            program: &cluster.path("an engine"),
            options: &[],
        };
        script.format().unwrap().lines().count()
    };
    for name in
        ["a\ntouch pwned #", "a\r\nb", "\n#SBATCH --uid=0", "a\u{85}b\u{2028}c", "`touch pwned`"]
    {
        assert_eq!(lines(name), lines("unlike hosts"), "{name:?}");
    }
    for option in ["--comment=a\ntouch pwned", "-J\rx"] {
        let refused = cluster.try_format(&[option.to_owned()]).unwrap_err().to_string();
        assert!(refused.contains("a line ends in it"), "{refused}");
    }
}
