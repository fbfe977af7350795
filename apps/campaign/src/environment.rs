//! Facts about the host and the programs on which the times of a campaign depend.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::file::Campaign;
use crate::point::{fingerprint, to_hex};

/// Starts of the names of variables that change how programs run.
const VARIABLES: [&str; 18] = [
    "BLIS_",
    "CUDA_",
    "FI_",
    "GOMP_",
    "HIP_",
    "ISOCHRON_",
    "KMP_",
    "MKL_",
    "MPICH_",
    "NCCL_",
    "OMPI_MCA_",
    "OMP_",
    "OPENBLAS_",
    "PRTE_MCA_",
    "ROCR_",
    "SLURM_JOB_",
    "SLURM_CPUS_",
    "UCX_",
];

/// Variables among them that differ from job to job and change nothing.
const PASSING: [&str; 4] = [
    "OMPI_MCA_orte_tmpdir_base",
    "SLURM_JOB_END_TIME",
    "SLURM_JOB_ID",
    "SLURM_JOB_START_TIME",
];

/// Starts of the names of kernel options that change how fast programs run.
const KERNEL_OPTIONS: [&str; 14] = [
    "amd_pstate",
    "cpufreq",
    "cpuidle",
    "default_hugepagesz",
    "hugepages",
    "idle",
    "intel_idle",
    "intel_pstate",
    "iommu",
    "isolcpus",
    "mitigations",
    "nohz",
    "processor.max_cstate",
    "transparent_hugepage",
];

/// Facts about each GPU that `nvidia-smi` prints.
const GPU_FACTS: &str = "name,uuid,driver_version,vbios_version,clocks.max.sm,clocks.max.memory,clocks.applications.graphics,\
                         power.limit,ecc.mode.current,pcie.link.gen.max,pcie.link.width.current,mig.mode.current,memory.total,\
                         persistence_mode,compute_mode";

/// Parts of the names of libraries on which a program's speed depends.
const LIBRARIES: [&str; 9] = [
    "blas", "mkl", "blis", "mpi", "cuda", "cublas", "ucx", "fabric", "omp",
];

/// Largest file whose content is part of its fingerprint, in bytes. Of larger ones, which are data, the size is.
const LARGEST: u64 = 256 << 20;

/// An environment with its name.
#[derive(Debug, Clone)]
pub(crate) struct Environment {
    /// Fingerprint of the facts.
    pub name: String,
    pub facts: Value,
}

impl Environment {
    /// Reads the environment of this host and the programs of a campaign.
    pub fn read(campaign: &Campaign) -> Self {
        let root = Path::new("/");
        let mut facts = HostFiles { root }.describe();
        facts.insert("host".to_owned(), host_name().into());
        facts.insert("gpus".to_owned(), read_gpus());
        facts.insert("variables".to_owned(), read_variables());
        facts.insert("programs".to_owned(), read_programs(campaign));
        let facts = Value::Object(facts);
        Self {
            name: fingerprint(&facts),
            facts,
        }
    }
}

/// Returns the name of this host.
pub(crate) fn host_name() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
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
            KERNEL_OPTIONS.iter().any(|start| name.starts_with(start))
        });
        Some(words.collect::<Vec<_>>().join(" "))
    }

    fn describe_cpu(&self, group: &str) -> Value {
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
            "quota": self.read(&format!("{group}/cpu.max")),
            "smt": self.read(&format!("{cpus}/smt/control")),
        })
    }

    fn describe_numa(&self) -> Value {
        let nodes = "sys/devices/system/node";
        let described = list_numbered(&self.root.join(nodes), "node")
            .into_iter()
            .map(|node| {
                let cores = self.read(&format!("{nodes}/{node}/cpulist"));
                let number = node.trim_start_matches("node");
                let memory = self.read_field(
                    &format!("{nodes}/{node}/meminfo"),
                    &format!("Node {number} MemTotal"),
                );
                (node, json!({"cores": cores, "memory": memory}))
            });
        Value::Object(described.collect())
    }

    fn describe(&self) -> Map<String, Value> {
        let group = self.read("proc/self/cgroup");
        let group = group.as_deref().and_then(|line| line.strip_prefix("0::/"));
        let group = format!("sys/fs/cgroup/{}", group.unwrap_or_default());
        let facts = [
            ("cpu", self.describe_cpu(&group)),
            ("numa", self.describe_numa()),
            ("memory", self.read_field("proc/meminfo", "MemTotal").into()),
            (
                "memory_limit",
                self.read(&format!("{group}/memory.max")).into(),
            ),
            (
                "huge_pages",
                self.read("sys/kernel/mm/transparent_hugepage/enabled")
                    .into(),
            ),
            ("kernel", self.read("proc/sys/kernel/osrelease").into()),
            ("kernel_options", self.read_kernel_options().into()),
            (
                "system",
                self.read_field("etc/os-release", "PRETTY_NAME").into(),
            ),
        ];
        facts
            .map(|(name, fact)| (name.to_owned(), fact))
            .into_iter()
            .collect()
    }
}

/// Lists the entries of a folder that are called `name` with a number.
fn list_numbered(folder: &Path, name: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names
        .filter(|entry| {
            entry
                .strip_prefix(name)
                .is_some_and(|number| number.parse::<u32>().is_ok())
        })
        .collect()
}

/// Returns what `nvidia-smi` tells of the GPUs; an empty list without it.
fn read_gpus() -> Value {
    let facts: Vec<&str> = GPU_FACTS.split(',').map(str::trim).collect();
    let mut gpus: Vec<Map<String, Value>> = Vec::new();
    if let Some(told) = query_gpus(&facts) {
        add_facts(&mut gpus, &facts, &told);
    } else if query_gpus(&facts[..1]).is_some() {
        // A driver that lacks one of the facts refuses to tell any.
        for fact in facts {
            add_facts(&mut gpus, &[fact], &query_gpus(&[fact]).unwrap_or_default());
        }
    }
    Value::from_iter(gpus.into_iter().map(Value::Object))
}

fn query_gpus(facts: &[&str]) -> Option<String> {
    let query = format!("--query-gpu={}", facts.join(","));
    print_of("nvidia-smi", &[&query, "--format=csv,noheader"])
}

/// Adds facts to the GPUs that lines of comma-separated values tell of, one a line.
fn add_facts(gpus: &mut Vec<Map<String, Value>>, facts: &[&str], told: &str) {
    gpus.resize(gpus.len().max(told.lines().count()), Map::new());
    for (gpu, line) in gpus.iter_mut().zip(told.lines()) {
        let values = line.split(',').map(|value| Value::from(value.trim()));
        gpu.extend(facts.iter().map(|&fact| fact.to_owned()).zip(values));
    }
}

fn read_variables() -> Value {
    let variables = env::vars_os().filter_map(|(name, value)| {
        let name = name.into_string().ok()?;
        let is_told =
            VARIABLES.iter().any(|start| name.starts_with(start)) && !PASSING.contains(&&*name);
        is_told.then(|| (name, Value::from(value.to_string_lossy())))
    });
    Value::Object(variables.collect())
}

/// Returns the programs and files that the commands of a campaign name, by these names, with their fingerprints and libraries.
/// Where they lie makes no difference.
fn read_programs(campaign: &Campaign) -> Value {
    let lines = campaign
        .cells()
        .filter_map(|cell| campaign.first_command(cell));
    let words: BTreeSet<String> = lines.flat_map(|line| line.words).collect();
    let files = words
        .into_iter()
        .filter_map(|word| Some((find_file(&word, &campaign.folder)?, word)));
    let files = files.map(|(file, word)| {
        let facts = json!({
            "sha256": hash_file(&file),
            "libraries": list_libraries(&file),
            "version": read_launcher_version(&file),
        });
        (word, facts)
    });
    Value::Object(files.collect())
}

/// Returns the file that a word of a command line names, as a path or as a program.
fn find_file(word: &str, folder: &Path) -> Option<PathBuf> {
    let is_file = |path: &PathBuf| path.is_file();
    if word.contains('/') || folder.join(word).is_file() {
        return Some(folder.join(word)).filter(is_file);
    }
    env::split_paths(&env::var_os("PATH")?)
        .map(|folder| folder.join(word))
        .find(is_file)
}

/// Returns the SHA-256 of a file; of a large one its size.
fn hash_file(path: &Path) -> Option<String> {
    let size = fs::metadata(path).ok()?.len();
    if size > LARGEST {
        return Some(format!("{size} bytes"));
    }
    let mut hash = Sha256::new();
    let mut file = fs::File::open(path).ok()?;
    let mut buffer = vec![0; 1 << 20];
    loop {
        match io::Read::read(&mut file, &mut buffer) {
            Ok(0) => return Some(to_hex(&hash.finalize())),
            Ok(read) => hash.update(&buffer[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
}

/// Returns the MPI, BLAS and CUDA libraries that the loader takes for a program.
fn list_libraries(program: &Path) -> BTreeSet<String> {
    let told = print_of("ldd", &[&program.to_string_lossy()]).unwrap_or_default();
    let paths = told.lines().filter_map(|line| {
        let path = line.split_once("=> ")?.1.split(" (").next()?;
        let path = fs::canonicalize(path).ok()?;
        let name = path.file_name()?.to_string_lossy().to_lowercase();
        let matters = LIBRARIES.iter().any(|part| name.contains(part));
        matters.then(|| path.to_string_lossy().into_owned())
    });
    paths.collect()
}

/// Returns the first line of a launcher's version.
fn read_launcher_version(program: &Path) -> Option<String> {
    let name = program.file_name()?.to_str()?;
    let is_launcher = ["mpirun", "mpiexec", "srun", "orterun", "prterun"]
        .iter()
        .any(|start| name.starts_with(start));
    let told = is_launcher.then(|| print_of(&program.to_string_lossy(), &["--version"]))??;
    let line = told
        .lines()
        .find(|line| line.chars().any(|c| c.is_ascii_digit()))?;
    Some(line.trim().to_owned())
}

/// Returns what a program prints; `None` if it is missing or fails.
fn print_of(program: &str, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new(program);
    let output = command.args(arguments).stdin(Stdio::null()).output().ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Lists the places in which two descriptions of environments differ, each with both values.
pub(crate) fn list_differences(first: &Value, second: &Value) -> Vec<(String, Value, Value)> {
    let mut differences = Vec::new();
    add_differences("", first, second, &mut differences);
    differences
}

fn add_differences(
    place: &str,
    first: &Value,
    second: &Value,
    differences: &mut Vec<(String, Value, Value)>,
) {
    let no_members = Map::new();
    match (first, second) {
        (Value::Object(_), Value::Object(_) | Value::Null) | (Value::Null, Value::Object(_)) => {
            let [left, right] =
                [first, second].map(|value| value.as_object().unwrap_or(&no_members));
            let names: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
            for name in names {
                let member = if place.is_empty() {
                    name.clone()
                } else {
                    format!("{place} {name}")
                };
                let [one, other] =
                    [left, right].map(|members| members.get(name).unwrap_or(&Value::Null));
                add_differences(&member, one, other, differences);
            }
        }
        _ if first != second => differences.push((place.to_owned(), first.clone(), second.clone())),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_named_by_their_places() {
        let first = json!({"kernel": "6.1", "cpu": {"quota": null, "cores": "0-3"}, "programs": {"/a": {"sha256": "1"}}});
        let second =
            json!({"kernel": "6.1", "cpu": {"quota": "max", "cores": "0-3"}, "programs": {}});
        let expected = [
            ("cpu quota".to_owned(), Value::Null, json!("max")),
            ("programs /a sha256".to_owned(), json!("1"), Value::Null),
        ];
        assert_eq!(list_differences(&first, &second), expected);
    }

    #[test]
    fn a_made_up_host_is_described() {
        let root = tempfile::tempdir().unwrap();
        for (path, content) in [
            (
                "proc/cpuinfo",
                "processor\t: 0\nmodel name\t: A CPU\nmicrocode\t: 0x2b\n",
            ),
            (
                "proc/cmdline",
                "BOOT_IMAGE=/vmlinuz root=UUID=1-2 ro isolcpus=2-3 nohz_full=2-3 mitigations=off quiet\n",
            ),
            ("proc/meminfo", "MemTotal:  1000 kB\n"),
            (
                "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
                "performance\n",
            ),
            (
                "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor",
                "powersave\n",
            ),
            ("sys/devices/system/node/node0/cpulist", "0-1\n"),
            (
                "sys/devices/system/node/node0/meminfo",
                "Node 0 MemTotal:   900 kB\n",
            ),
            ("proc/self/cgroup", "0::/job\n"),
            ("sys/fs/cgroup/job/cpu.max", "200000 100000\n"),
            ("etc/os-release", "NAME=x\nPRETTY_NAME=\"A System 1\"\n"),
        ] {
            let file = root.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, content).unwrap();
        }
        let facts = Value::Object(HostFiles { root: root.path() }.describe());
        assert_eq!(facts["cpu"]["model"], "A CPU");
        assert_eq!(facts["cpu"]["microcode"], "0x2b");
        assert_eq!(
            facts["kernel_options"],
            "isolcpus=2-3 nohz_full=2-3 mitigations=off"
        );
        assert_eq!(
            facts["cpu"]["governors"],
            json!(["performance", "powersave"])
        );
        assert_eq!(
            facts["numa"]["node0"],
            json!({"cores": "0-1", "memory": "900 kB"})
        );
        assert_eq!(facts["cpu"]["quota"], "200000 100000");
        assert_eq!(facts["memory"], "1000 kB");
        assert_eq!(facts["system"], "A System 1");
        assert_eq!(facts["kernel"], Value::Null);
    }

    #[test]
    fn what_nvidia_tells_has_names() {
        let mut gpus = Vec::new();
        add_facts(
            &mut gpus,
            &["name", "uuid"],
            "NVIDIA H100, GPU-1\nNVIDIA H100, GPU-2\n",
        );
        add_facts(&mut gpus, &["clocks.max.sm"], "1980 MHz\n1755 MHz\n");
        // A fact that the driver does not know.
        add_facts(&mut gpus, &["mig.mode.current"], "");
        let gpus = json!(gpus);
        assert_eq!(
            gpus[1],
            json!({"name": "NVIDIA H100", "uuid": "GPU-2", "clocks.max.sm": "1755 MHz"})
        );
    }

    #[test]
    fn files_are_known_by_their_content() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("drive.py");
        fs::write(&file, "abc").unwrap();
        let found = find_file("drive.py", folder.path()).unwrap();
        let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash_file(&found).as_deref(), Some(hash));
        assert!(find_file("sh", folder.path()).is_some());
        assert_eq!(find_file("no-such-program", folder.path()), None);
    }
}
