//! Facts about a host.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use isochron_base::cpu_quota_cores;
use serde_json::{Value, json};

use crate::gpus::Gpus;

/// Starts of the names of kernel options that change how fast programs run.
const KERNEL_OPTIONS: &str = "amd_pstate cpufreq cpuidle default_hugepagesz hugepages idle intel_idle intel_pstate iommu \
                              isolcpus mitigations nohz processor.max_cstate transparent_hugepage";

/// Describes this host.
pub(super) fn describe_this_host() -> Value {
    let root = Path::new("/");
    let mut facts = HostFiles { root }.describe();
    facts["host"] = host_name().into();
    facts["gpus"] = Gpus::open().describe();
    facts["cpu"]["quota_cores"] = cpu_quota_cores().into();
    facts
}

/// Returns the name of this host.
pub(crate) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The files in which the system describes itself.
struct HostFiles<'r> {
    root: &'r Path,
}

impl HostFiles<'_> {
    /// Returns the first line of a file, if it has one.
    fn read(&self, path: &str) -> Option<String> {
        let text = fs::read_to_string(self.root.join(path)).ok()?;
        let line = text.lines().next()?.trim().to_owned();
        (!line.is_empty()).then_some(line)
    }

    /// Returns the value of the line `name: value` of a file, or of `name=value`.
    fn read_field(&self, path: &str, name: &str) -> Option<String> {
        let text = fs::read_to_string(self.root.join(path)).ok()?;
        text.lines().find_map(|line| {
            let (field, value) = line.split_once([':', '='])?;
            (field.trim() == name).then(|| value.trim().trim_matches('"').to_owned())
        })
    }

    /// Returns the options of the kernel that decide on speed, such as isolated cores; those of its start alone differ from host to
    /// host.
    fn read_kernel_options(&self) -> Option<String> {
        let line = self.read("proc/cmdline")?;
        let words = line.split_whitespace().filter(|word| {
            let name = word.split('=').next().unwrap_or_default();
            KERNEL_OPTIONS.split(' ').any(|start| name.starts_with(start))
        });
        Some(words.collect::<Vec<_>>().join(" "))
    }

    fn describe_cpu(&self) -> Value {
        let cpus = "sys/devices/system/cpu";
        let governors: BTreeSet<String> = list_numbered(&self.root.join(cpus), "cpu")
            .into_iter()
            .filter_map(|cpu| self.read(&format!("{cpus}/{cpu}/cpufreq/scaling_governor")))
            .collect();
        json!({
            "model": self.read_field("proc/cpuinfo", "model name"),
            "microcode": self.read_field("proc/cpuinfo", "microcode"),
            "cores": self.read(&format!("{cpus}/online")),
            "allowed": self.read_field("proc/self/status", "Cpus_allowed_list"),
            "governors": governors,
            "max_khz": self.read(&format!("{cpus}/cpu0/cpufreq/scaling_max_freq")),
            "boost": self.read(&format!("{cpus}/cpufreq/boost")),
            "no_turbo": self.read(&format!("{cpus}/intel_pstate/no_turbo")),
            "smt": self.read(&format!("{cpus}/smt/control")),
        })
    }

    fn describe_numa(&self) -> Value {
        let nodes = "sys/devices/system/node";
        let described = list_numbered(&self.root.join(nodes), "node").into_iter().map(|node| {
            let cores = self.read(&format!("{nodes}/{node}/cpulist"));
            let number = node.trim_start_matches("node");
            let memory = self
                .read_field(&format!("{nodes}/{node}/meminfo"), &format!("Node {number} MemTotal"));
            (node, json!({"cores": cores, "memory": memory}))
        });
        Value::Object(described.collect())
    }

    fn describe(&self) -> Value {
        let group = self.read("proc/self/cgroup");
        let group = group.as_deref().and_then(|line| line.strip_prefix("0::/"));
        let group = format!("sys/fs/cgroup/{}", group.unwrap_or_default());
        json!({
            "cpu": self.describe_cpu(),
            "numa": self.describe_numa(),
            "memory": self.read_field("proc/meminfo", "MemTotal"),
            "memory_limit": self.read(&format!("{group}/memory.max")),
            "huge_pages": self.read("sys/kernel/mm/transparent_hugepage/enabled"),
            "kernel": self.read("proc/sys/kernel/osrelease"),
            "kernel_options": self.read_kernel_options(),
            "system": self.read_field("etc/os-release", "PRETTY_NAME"),
        })
    }
}

/// Lists the entries of a folder that are called `name` with a number.
fn list_numbered(folder: &Path, name: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names
        .filter(|entry| {
            entry.strip_prefix(name).is_some_and(|number| number.parse::<u32>().is_ok())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_made_up_host_is_described() {
        let root = tempfile::tempdir().unwrap();
        for (path, content) in [
            ("proc/cpuinfo", "processor\t: 0\nmodel name\t: A CPU\nmicrocode\t: 0x2b\n"),
            (
                "proc/cmdline",
                "BOOT_IMAGE=/vmlinuz root=UUID=1-2 ro isolcpus=2-3 nohz_full=2-3 mitigations=off quiet\n",
            ),
            ("proc/meminfo", "MemTotal:  1000 kB\n"),
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n"),
            ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave\n"),
            ("sys/devices/system/node/node0/cpulist", "0-1\n"),
            ("sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:   900 kB\n"),
            ("proc/self/cgroup", "0::/job\n"),
            ("etc/os-release", "NAME=x\nPRETTY_NAME=\"A System 1\"\n"),
        ] {
            let file = root.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, content).unwrap();
        }
        let facts = HostFiles { root: root.path() }.describe();
        assert_eq!(facts["cpu"]["model"], "A CPU");
        assert_eq!(facts["cpu"]["microcode"], "0x2b");
        assert_eq!(facts["kernel_options"], "isolcpus=2-3 nohz_full=2-3 mitigations=off");
        assert_eq!(facts["cpu"]["governors"], json!(["performance", "powersave"]));
        assert_eq!(facts["numa"]["node0"], json!({"cores": "0-1", "memory": "900 kB"}));
        assert_eq!(facts["memory"], "1000 kB");
        assert_eq!(facts["system"], "A System 1");
        assert_eq!(facts["kernel"], Value::Null);
    }
}
