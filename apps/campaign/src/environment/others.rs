//! The hosts on which the launchers of a campaign start programs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Map, Value};

use super::host::{describe_this_host, host_name};
use super::list_differences;
use crate::file::{Campaign, CommandLine};
use crate::folder::replace_file;
use crate::process::run_process;

/// Start of the name of the folder, within the campaign's, where hosts describe themselves.
const HOSTS: &str = ".hosts";

/// Time that a launcher has to start the programs that describe their hosts.
const LIMIT: Duration = Duration::from_secs(60);

/// Name of the fact that tells how hosts differ from the engine's.
const UNLIKE: &str = "unlike_hosts";

/// The difference of a host whose facts are not known.
const UNKNOWN: &str = "unknown: it does not share the folder of the campaign";

/// What is before the name in the line of a host. Launchers may put words of their own before both.
const MARK: &str = "isochron.host ";

/// Describes this host for the engine that had a launcher start this process: in a file in `folder`, if the hosts share it.
/// Returns the line that the process is to print.
pub fn describe_host(folder: &Path) -> String {
    let name = host_name();
    let facts = Value::Object(describe_this_host()).to_string();
    // Without the folder the engine knows the name alone.
    let _ = replace_file(&find_file(folder, &name), facts.as_bytes());
    format!("{MARK}{name}")
}

fn find_file(folder: &Path, host: &str) -> PathBuf {
    folder.join(format!("{host}.json"))
}

/// Lists the hosts in what a launcher has printed.
fn list_hosts(printed: &str) -> impl Iterator<Item = &str> {
    let names = printed.lines().filter_map(|line| line.split_once(MARK));
    names
        .map(|(_, name)| name.trim())
        .filter(|name| !name.contains('/'))
}

/// The hosts on which the launchers of a campaign start programs.
#[derive(Debug, Default)]
pub(super) struct OtherHosts {
    /// Facts about each host; `None` for one that does not share the folder of the campaign.
    hosts: BTreeMap<String, Option<Value>>,
    /// Launchers that did not start the describing program.
    failed: Vec<String>,
}

impl OtherHosts {
    /// Has each launcher of a campaign start the describing program once.
    pub fn find(
        campaign: &Campaign,
        folder: &Path,
        describer: &[String],
        stop: &AtomicBool,
    ) -> Self {
        let mut found = Self::default();
        if describer.is_empty() {
            return found;
        }
        // A folder of this engine alone: whatever else is there belongs to the user.
        let name = format!("{HOSTS}-{}-{}", host_name(), std::process::id());
        let shared = folder.join(name);
        let is_made = fs::create_dir(&shared).is_ok();
        let launchers = campaign
            .cells()
            .filter_map(|cell| campaign.first_launcher(cell));
        let launchers: BTreeMap<String, CommandLine> =
            launchers.map(|line| (line.describe(), line)).collect();
        for (name, mut line) in launchers {
            if !is_made || stop.load(Ordering::Relaxed) {
                found.failed.push(name);
                continue;
            }
            line.words.extend_from_slice(describer);
            line.words.push(shared.to_string_lossy().into_owned());
            let ended = run_process(&line, &campaign.folder, folder, LIMIT, stop);
            if !ended.has_succeeded() {
                found.failed.push(name);
                continue;
            }
            for host in list_hosts(&ended.stdout) {
                let facts = fs::read(find_file(&shared, host));
                let facts = facts
                    .ok()
                    .and_then(|text| serde_json::from_slice(&text).ok());
                found.hosts.insert(host.to_owned(), facts);
            }
        }
        if is_made {
            let _ = fs::remove_dir_all(&shared);
        }
        found
    }

    /// Lists the hosts, and what differs on each from `here`, the facts about the engine's host.
    pub fn compare(&self, here: &Map<String, Value>) -> Map<String, Value> {
        let mut facts = Map::new();
        if !self.failed.is_empty() {
            facts.insert("hosts_unknown_of".to_owned(), self.failed.clone().into());
        }
        if self.hosts.is_empty() {
            return facts;
        }
        let names: Vec<&str> = self.hosts.keys().map(String::as_str).collect();
        facts.insert("hosts".to_owned(), names.join(" ").into());
        let here = Value::Object(here.clone());
        let differing = self.hosts.iter().filter_map(|(name, there)| {
            let differences = there.as_ref().map_or_else(
                || Value::from(UNKNOWN),
                |there| {
                    let differences = list_differences(&here, there).into_iter();
                    let differences = differences
                        .filter(|(place, ..)| place != "host")
                        .map(|(place, _, there)| (place, there));
                    Value::Object(differences.collect())
                },
            );
            let is_alike = differences.as_object().is_some_and(Map::is_empty);
            (!is_alike).then(|| (name.clone(), differences))
        });
        facts.insert(UNLIKE.to_owned(), Value::Object(differing.collect()));
        facts
    }
}

/// Lists what differs on the hosts of the launchers from the engine's, in a description of an environment: the host, the place
/// of the fact and the fact. The place is empty for a host whose facts are not known.
pub(crate) fn list_unlike_hosts(facts: &Value) -> Vec<(String, String, Value)> {
    let mut unlike = Vec::new();
    for (host, differences) in facts[UNLIKE].as_object().into_iter().flatten() {
        match differences {
            Value::Object(differences) => unlike.extend(
                differences
                    .iter()
                    .map(|(place, there)| (host.clone(), place.clone(), there.clone())),
            ),
            told => unlike.push((host.clone(), String::new(), told.clone())),
        }
    }
    unlike
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A campaign whose launchers start the describing script once for each word of theirs, as if it was a host.
    fn find_hosts(launchers: &[&str], describer: &str) -> OtherHosts {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write(
            "launch.sh",
            "for host in $1; do HOST=$host \"$2\" \"$3\" \"$4\" || exit 1; done\n",
        );
        write("describe.sh", describer);
        let mut text = "name = \"hosts\"\n".to_owned();
        for (number, hosts) in launchers.iter().enumerate() {
            text += &format!(
                "[[contender]]\nname = \"c{number}\"\ncommand = \"true\"\nlaunch = \"sh launch.sh '{hosts}'\"\n"
            );
        }
        write("hosts.toml", &text);
        let campaign = Campaign::read(&folder.path().join("hosts.toml")).unwrap();
        let results = folder.path().join("results");
        fs::create_dir(&results).unwrap();
        let describer = ["sh", "describe.sh"].map(str::to_owned);
        let found = OtherHosts::find(&campaign, &results, &describer, &AtomicBool::new(false));
        assert_eq!(fs::read_dir(&results).unwrap().count(), 0);
        found
    }

    #[test]
    fn what_differs_on_other_hosts_is_told() {
        let describe = "echo \"{\\\"host\\\": \\\"$HOST\\\", \\\"cpu\\\": {\\\"model\\\": \\\"$HOST\\\"}}\" > $1/$HOST.json\necho isochron.host $HOST\n";
        let found = find_hosts(&["a b", "a c"], describe);
        let here = json!({"host": "a", "cpu": {"model": "a"}});
        let expected = json!({
            "hosts": "a b c",
            "unlike_hosts": {"b": {"cpu model": "b"}, "c": {"cpu model": "c"}},
        });
        assert_eq!(
            Value::Object(found.compare(here.as_object().unwrap())),
            expected
        );
    }

    #[test]
    fn hosts_without_the_folder_and_launchers_that_fail_are_told() {
        let found = find_hosts(
            &["a b", "bad"],
            "test $HOST = bad && exit 1; echo isochron.host $HOST\n",
        );
        let facts = found.compare(&Map::new());
        assert_eq!(facts["hosts"], "a b");
        assert_eq!(facts["unlike_hosts"], json!({"a": UNKNOWN, "b": UNKNOWN}));
        assert_eq!(facts["hosts_unknown_of"], json!(["sh launch.sh bad"]));
    }

    #[test]
    fn this_host_describes_itself() {
        let folder = tempfile::tempdir().unwrap();
        let line = format!("[1,0]<stdout>:{}\n", describe_host(folder.path()));
        let name = list_hosts(&line).next().unwrap();
        let facts = fs::read(find_file(folder.path(), name)).unwrap();
        let facts: Value = serde_json::from_slice(&facts).unwrap();
        assert_eq!(facts["host"], name);
        let line = describe_host(Path::new("/no/such/folder"));
        assert_eq!(line, format!("isochron.host {name}"));
    }
}
