//! The hosts on which the launchers of a campaign start programs.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use super::host::describe_this_host;
use super::list_differences;
use crate::file::{Campaign, CommandLine};
use crate::files::{host_name, replace_file};
use crate::process::run_process;

/// Name of the folder, within the campaign's, where hosts describe themselves. Only the engine that holds the campaign uses it.
const HOSTS: &str = ".isochron-hosts";

/// Time that all launchers together have to start the programs that describe their hosts.
const LIMIT: Duration = Duration::from_secs(120);

/// Name of the fact that tells how hosts differ from the reference.
const UNLIKE: &str = "unlike_hosts";

/// Name of the fact that describes the reference, if it is not the engine's host.
const REFERENCE: &str = "reference_host";

/// Name of the fact that lists launchers of which no host is known, with the reasons.
const FAILED: &str = "hosts_unknown_of";

/// The difference of a host whose facts are not known.
const UNKNOWN: &str = "unknown: it does not share the folder of the campaign";

/// Part by which the memory of alike hosts may differ.
const MEMORY: f64 = 0.01;

/// Prefix of the line that names a host. A launcher may print its own words before it.
const MARK: &str = "isochron.host ";

/// Writes the facts of this host into `folder`, if it exists here, unless another process of the host does so. Returns the line
/// that the process is to print.
pub fn describe_host(folder: &Path) -> String {
    let name = host_name();
    let file = find_file(folder, &name);
    let lock = file.with_extension("lock");
    // Without the folder the engine knows the name alone.
    if OpenOptions::new().write(true).create_new(true).open(lock).is_ok() {
        let facts = describe_this_host().to_string();
        let _ = replace_file(&file, facts.as_bytes());
    }
    format!("{MARK}{name}")
}

fn find_file(folder: &Path, host: &str) -> PathBuf {
    folder.join(format!("{host}.json"))
}

/// Lists the hosts in what a launcher has printed.
fn list_hosts(printed: &str) -> impl Iterator<Item = &str> {
    let names = printed.lines().filter_map(|line| {
        let (_, name) = line.split_once(MARK)?;
        name.split_whitespace().next()
    });
    names.filter(|name| !name.contains('/'))
}

/// The hosts on which the launchers of a campaign start programs.
#[derive(Debug, Default)]
pub(super) struct OtherHosts {
    /// Facts about each host; `None` for one that does not share the folder of the campaign.
    hosts: BTreeMap<String, Option<Value>>,
    /// Launchers that named no host, each with the reason.
    failed: Vec<String>,
}

impl OtherHosts {
    /// Has each launcher of a campaign start the describing program, until `stop` is set.
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
        let mut launchers: BTreeMap<String, CommandLine> = BTreeMap::new();
        let lines = campaign.cells().filter_map(|cell| campaign.first_command(cell));
        for mut line in lines.filter(|line| line.launcher > 0) {
            line.words.truncate(line.launcher);
            launchers.insert(line.describe(), line);
        }
        let start = Instant::now();
        let own = folder.join(HOSTS);
        // A killed engine leaves its folder, whose facts may be old.
        let emptied = fs::remove_dir_all(&own)
            .or_else(|error| match error.kind() {
                io::ErrorKind::NotFound => Ok(()),
                _ => Err(error),
            })
            .and_then(|()| fs::create_dir(&own));
        if let Err(error) = emptied {
            found.failed.push(format!("{}: {error}", own.display()));
            return found;
        }
        for (number, (name, mut line)) in launchers.into_iter().enumerate() {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let shared = own.join(number.to_string());
            if let Err(error) = fs::create_dir(&shared) {
                found.failed.push(format!("{name}: {error}"));
                continue;
            }
            line = line.locate(folder);
            line.words.extend_from_slice(describer);
            line.words.push(shared.to_string_lossy().into_owned());
            let limit = LIMIT.saturating_sub(start.elapsed());
            let ended = run_process(&line, &campaign.folder, folder, limit, stop);
            let hosts: Vec<&str> = list_hosts(&ended.stdout).collect();
            if hosts.is_empty() || !ended.has_succeeded() {
                let reason = ended.find_last_line();
                let reason = reason.unwrap_or_else(|| "it printed nothing".to_owned());
                found.failed.push(format!("{name}: {reason}"));
            } else {
                for host in hosts {
                    found.note_host(&shared, host);
                }
            }
        }
        let _ = fs::remove_dir_all(&own);
        found
    }

    fn note_host(&mut self, shared: &Path, host: &str) {
        let facts = self.hosts.entry(host.to_owned()).or_default();
        if facts.is_none() {
            let text = fs::read(find_file(shared, host));
            *facts = text.ok().and_then(|text| serde_json::from_slice(&text).ok());
        }
    }

    /// Lists the hosts, and what differs on each from a reference: the engine's host, called `here`, or else the first host.
    pub fn compare(&self, here: &str) -> Map<String, Value> {
        let mut facts = Map::new();
        if !self.failed.is_empty() {
            facts.insert(FAILED.to_owned(), self.failed.clone().into());
        }
        if self.hosts.is_empty() {
            return facts;
        }
        let names: Vec<&str> = self.hosts.keys().map(String::as_str).collect();
        facts.insert("hosts".to_owned(), names.join(" ").into());
        let own = self.hosts.get(here).and_then(Option::as_ref);
        let reference = own.or_else(|| self.hosts.values().flatten().next());
        let differing = self.hosts.iter().filter_map(|(name, there)| {
            let differences = match (reference, there) {
                (Some(reference), Some(there)) => Value::Object(compare(reference, there)),
                _ => Value::from(UNKNOWN),
            };
            let is_alike = differences.as_object().is_some_and(Map::is_empty);
            (!is_alike).then(|| (name.clone(), differences))
        });
        facts.insert(UNLIKE.to_owned(), Value::Object(differing.collect()));
        if let (None, Some(reference)) = (own, reference) {
            facts.insert(REFERENCE.to_owned(), reference.clone());
        }
        facts
    }
}

/// Returns the facts about a host that differ from those of a reference, by their places.
fn compare(reference: &Value, there: &Value) -> Map<String, Value> {
    let [reference, there] = [reference, there].map(keep_comparable);
    let differences = list_differences(&reference, &there).into_iter();
    differences
        .filter(|(_, one, other)| !is_same_memory(one, other))
        .map(|(place, _, there)| (place, there))
        .collect()
}

/// Returns the facts in which hosts may be alike, with a place for those of each GPU.
fn keep_comparable(facts: &Value) -> Value {
    let mut facts = facts.clone();
    if let Some(facts) = facts.as_object_mut() {
        facts.remove("host");
        if let Some(cpu) = facts.get_mut("cpu").and_then(Value::as_object_mut) {
            // The cores of one process.
            cpu.remove("allowed");
        }
        if let Some(Value::Array(gpus)) = facts.remove("gpus") {
            let gpus = gpus.into_iter().enumerate().map(|(number, mut gpu)| {
                gpu.as_object_mut().map(|gpu| gpu.remove("uuid"));
                (number.to_string(), gpu)
            });
            facts.insert("gpus".to_owned(), Value::Object(gpus.collect()));
        }
    }
    facts
}

/// Returns `true` for about as much memory: the firmware of alike hosts takes a little more or less.
fn is_same_memory(one: &Value, other: &Value) -> bool {
    let [one, other] = [one, other].map(|memory| {
        let kilobytes = memory.as_str()?.strip_suffix(" kB")?;
        kilobytes.trim().parse::<f64>().ok()
    });
    one.zip(other).is_some_and(|(one, other)| (one - other).abs() <= MEMORY * one)
}

/// Returns the name of the host with which those of the launchers are compared.
pub(crate) fn find_reference(facts: &Value) -> &str {
    let own = facts[REFERENCE]["host"].as_str();
    own.or_else(|| facts["host"].as_str()).unwrap_or("unknown")
}

/// Lists the launchers of which no host is known, with the reasons.
pub(crate) fn list_failed_launchers(facts: &Value) -> Vec<&str> {
    let failed = facts[FAILED].as_array().into_iter().flatten();
    failed.filter_map(Value::as_str).collect()
}

/// Lists what differs on the hosts of the launchers, in a description of an environment: the host, the place of the fact and the
/// fact. The place is empty for a host whose facts are not known.
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
        write("launch.sh", "for host in $1; do HOST=$host \"$2\" \"$3\" \"$4\" || exit 1; done\n");
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
        // A folder of the user, and what a killed engine left.
        fs::create_dir_all(results.join("hosts")).unwrap();
        fs::create_dir_all(results.join(HOSTS).join("0")).unwrap();
        let describer = ["sh", "describe.sh"].map(str::to_owned);
        let found = OtherHosts::find(&campaign, &results, &describer, &AtomicBool::new(false));
        let left: Vec<_> = fs::read_dir(&results).unwrap().flatten().collect();
        assert_eq!(left.len(), 1, "{left:?}");
        assert!(results.join("hosts").exists());
        found
    }

    #[test]
    fn what_differs_on_other_hosts_is_told() {
        let describe = "echo \"{\\\"host\\\": \\\"$HOST\\\", \\\"cpu\\\": {\\\"model\\\": \\\"$HOST\\\"}}\" > $1/$HOST.json\necho isochron.host $HOST\n";
        let found = find_hosts(&["a b", "a c"], describe);
        let mut expected = json!({
            "hosts": "a b c",
            "unlike_hosts": {"b": {"cpu model": "b"}, "c": {"cpu model": "c"}},
        });
        assert_eq!(Value::Object(found.compare("a")), expected);
        // The engine's host is none of them.
        expected["reference_host"] = json!({"host": "a", "cpu": {"model": "a"}});
        assert_eq!(Value::Object(found.compare("login")), expected);
        assert_eq!(find_reference(&expected), "a");
    }

    #[test]
    fn alike_hosts_differ_in_nothing() {
        let host = |name: &str, cores: &str, memory: &str, uuid: &str, driver: &str| {
            json!({
                "host": name,
                "cpu": {"model": "A CPU", "allowed": cores},
                "memory": memory,
                "gpus": [{"uuid": uuid, "driver": driver}],
            })
        };
        let one = host("a", "0", "263921234 kB", "GPU-1", "570");
        let other = host("b", "1-3", "263919999 kB", "GPU-2", "570");
        assert_eq!(compare(&one, &other), Map::new());
        let old = host("c", "0", "131921234 kB", "GPU-3", "550");
        let expected = json!({"gpus 0 driver": "550", "memory": "131921234 kB"});
        assert_eq!(Value::Object(compare(&one, &old)), expected);
    }

    #[test]
    fn hosts_without_the_folder_and_launchers_that_fail_are_told() {
        let found = find_hosts(
            &["a b", "bad"],
            "test $HOST = bad && echo no such host >&2 && exit 1; echo isochron.host $HOST\n",
        );
        let facts = found.compare("a");
        assert_eq!(facts["hosts"], "a b");
        assert_eq!(facts["unlike_hosts"], json!({"a": UNKNOWN, "b": UNKNOWN}));
        assert_eq!(facts["hosts_unknown_of"], json!(["sh launch.sh bad: no such host"]));
    }

    #[test]
    fn launchers_that_name_no_host_are_told_and_a_wish_to_stop_ends_the_search() {
        let found = find_hosts(&["a"], "exit 0\n");
        assert_eq!(found.failed, ["sh launch.sh a: it printed nothing"]);
        let campaign =
            "name = \"hosts\"\n[[contender]]\nname = \"c\"\ncommand = \"true\"\nlaunch = \"env\"\n";
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("hosts.toml");
        fs::write(&file, campaign).unwrap();
        let campaign = Campaign::read(&file).unwrap();
        let describer = ["true".to_owned()];
        let found = OtherHosts::find(&campaign, folder.path(), &describer, &AtomicBool::new(true));
        assert!(found.hosts.is_empty() && found.failed.is_empty());
    }

    #[test]
    fn this_host_describes_itself() {
        let folder = tempfile::tempdir().unwrap();
        let line = format!("[1,0]<stdout>:{}\n", describe_host(folder.path()));
        let name = list_hosts(&line).next().unwrap();
        let facts = fs::read(find_file(folder.path(), name)).unwrap();
        let facts: Value = serde_json::from_slice(&facts).unwrap();
        assert_eq!(facts["host"], name);
        assert!(facts["cpu"].get("quota_cores").is_some(), "{facts}");
        let line = describe_host(Path::new("/no/such/folder"));
        assert_eq!(line, format!("isochron.host {name}"));
    }
}
