//! Facts about the hosts and the programs on which the times of a campaign depend.

mod host;
mod others;

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use self::host::describe_this_host;
use self::others::OtherHosts;
pub use self::others::describe_host;
pub(crate) use self::others::{find_reference, list_failed_launchers, list_unlike_hosts};
use crate::file::Campaign;
use crate::files::host_name;
use crate::point::to_hex;

/// Starts of the names of variables that change how programs run.
const VARIABLES: &str = "BLIS_ CRAY_ CUBLAS_ CUDA_ DOTNET_ FI_ GLIBC_TUNABLES GODEBUG GOGC GOMAXPROCS GOMEMLIMIT GOMP_ GPU_ HIP_ \
                         HSA_ HUGETLB_ ISOCHRON_ I_MPI_ JAVA_ JAX_ JDK_ JULIA_ KMP_ LANG LC_ LD_AUDIT LD_BIND_ LD_PRELOAD \
                         MALLOC_ MIMALLOC_ MKL_ MPICH_ MPIR_ MV2_ NCCL_ NODE_OPTIONS NUMBA_ NUMEXPR_ NVIDIA_ OMPI_MCA_ OMP_ \
                         OPENBLAS_ PMIX_MCA_ POLARS_ PRTE_MCA_ PYTHON PYTORCH_ RAYON_ ROCR_ SLURM_CPUS_ SLURM_JOB_ TBB_ \
                         TCMALLOC_ TF_ TOKIO_ TORCH_ UCX_ VECLIB_ XLA_ _JAVA_OPTIONS";

/// Variables among them that differ from job to job and change nothing.
const PASSING: &str = "ISOCHRON_CAMPAIGN OMPI_MCA_orte_tmpdir_base SLURM_JOB_END_TIME SLURM_JOB_ID SLURM_JOB_START_TIME";

/// Parts of the names of libraries on which a program's speed depends.
const LIBRARIES: &str = "blas mkl blis mpi cuda cublas ucx fabric omp";

/// Largest file whose content is part of its fingerprint, in bytes. Of larger ones, which are data, the size is.
const LARGEST: u64 = 256 << 20;

/// Describes this host and the programs of a campaign, and the hosts on which its launchers start a `describer`, a command that
/// calls [`describe_host`]. `folder` is the campaign's.
pub(crate) fn describe_environment(
    campaign: &Campaign,
    folder: &Path,
    describer: &[String],
    stop: &AtomicBool,
) -> Value {
    let others = OtherHosts::find(campaign, folder, describer, stop);
    let mut facts = describe_this_host();
    facts["variables"] = read_variables();
    facts["programs"] = read_programs(campaign);
    for (name, fact) in others.compare(&host_name()) {
        facts[name] = fact;
    }
    facts
}

fn read_variables() -> Value {
    let variables = env::vars_os().filter_map(|(name, value)| {
        let name = name.into_string().ok().filter(|name| is_told(name))?;
        Some((name, Value::from(value.to_string_lossy())))
    });
    Value::Object(variables.collect())
}

fn is_told(name: &str) -> bool {
    // Slurm has variables for each part of a heterogeneous job, such as `SLURM_JOB_ID_HET_GROUP_1`.
    let part = name.find("_HET_GROUP_");
    let of_job = &name[..part.unwrap_or(name.len())];
    VARIABLES.split(' ').any(|start| name.starts_with(start))
        && PASSING.split(' ').all(|it| it != of_job)
}

/// Returns the programs and files that the commands of a campaign name, by these names, with their fingerprints and libraries.
/// Where they lie makes no difference.
fn read_programs(campaign: &Campaign) -> Value {
    let lines = campaign.cells().filter_map(|cell| campaign.first_command(cell));
    let words: BTreeSet<String> = lines.flat_map(|line| line.words).collect();
    let files =
        words.into_iter().filter_map(|word| Some((find_file(&word, &campaign.folder)?, word)));
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
    env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join(word)).find(is_file)
}

/// Returns the SHA-256 of a file; of a large one its size.
fn hash_file(path: &Path) -> Option<String> {
    let size = fs::metadata(path).ok()?.len();
    if size > LARGEST {
        return Some(format!("{size} bytes"));
    }
    Some(to_hex(&Sha256::digest(fs::read(path).ok()?)))
}

/// Returns the MPI, BLAS and CUDA libraries that the loader takes for a program.
fn list_libraries(program: &Path) -> BTreeSet<String> {
    let told = print_of("ldd", &[&program.to_string_lossy()]).unwrap_or_default();
    let paths = told.lines().filter_map(|line| {
        let path = line.split_once("=> ")?.1.split(" (").next()?;
        let path = fs::canonicalize(path).ok()?;
        let name = path.file_name()?.to_string_lossy().to_lowercase();
        let matters = LIBRARIES.split(' ').any(|part| name.contains(part));
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
    let line = told.lines().find(|line| line.chars().any(|c| c.is_ascii_digit()))?;
    Some(line.trim().to_owned())
}

/// Returns what a program prints; `None` if it is missing or fails.
fn print_of(program: &str, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new(program);
    let output = command.args(arguments).stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Lists the places in which two descriptions of environments differ, each with both values.
pub(crate) fn list_differences(first: &Value, second: &Value) -> Vec<(String, Value, Value)> {
    let no_members = Map::new();
    let [left, right] = [first, second].map(|value| match value {
        Value::Object(members) => Some(members),
        Value::Null => Some(&no_members),
        _ => None,
    });
    let (Some(left), Some(right)) = (left, right) else {
        let differs = first != second;
        return differs
            .then(|| (String::new(), first.clone(), second.clone()))
            .into_iter()
            .collect();
    };
    let names: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
    let mut differences = Vec::new();
    for name in names {
        let [one, other] = [left, right].map(|members| members.get(name).unwrap_or(&Value::Null));
        let within = list_differences(one, other).into_iter();
        differences.extend(within.map(|(place, one, other)| {
            (format!("{name} {place}").trim_end().to_owned(), one, other)
        }));
    }
    differences
}

/// Formats a fact for readers.
pub(crate) fn describe_fact(fact: &Value) -> String {
    match fact {
        Value::Null => "unknown".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_named_by_their_places() {
        let first = json!({"kernel": "6.1", "cpu": {"quota_cores": null, "cores": "0-3"}, "programs": {"/a": {"sha256": "1"}}});
        let second =
            json!({"kernel": "6.1", "cpu": {"quota_cores": 0.5, "cores": "0-3"}, "programs": {}});
        let expected = [
            ("cpu quota_cores".to_owned(), Value::Null, json!(0.5)),
            ("programs /a sha256".to_owned(), json!("1"), Value::Null),
        ];
        assert_eq!(list_differences(&first, &second), expected);
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

    #[test]
    fn variables_that_change_how_programs_run_are_told() {
        for name in [
            "LC_ALL",
            "LC_NUMERIC",
            "LANG",
            "LD_PRELOAD",
            "RAYON_NUM_THREADS",
            "NUMEXPR_NUM_THREADS",
            "JULIA_NUM_THREADS",
            "GOMAXPROCS",
            "OMP_NUM_THREADS",
            "OPENBLAS_NUM_THREADS",
            "MKL_NUM_THREADS",
            "MALLOC_ARENA_MAX",
            "GLIBC_TUNABLES",
            "TBB_NUM_THREADS",
            "PYTHONHASHSEED",
            "VECLIB_MAXIMUM_THREADS",
            "NUMBA_NUM_THREADS",
            "POLARS_MAX_THREADS",
            "I_MPI_PIN",
            "GOGC",
            "TF_NUM_INTEROP_THREADS",
            "SLURM_JOB_NUM_NODES_HET_GROUP_1",
        ] {
            assert!(is_told(name), "{name}");
        }
        // They differ from login to login, from repetition to repetition, or are secret.
        for name in [
            "HOME",
            "SSH_CONNECTION",
            "PWD",
            "AWS_SECRET_ACCESS_KEY",
            "SLURM_JOB_ID",
            "SLURM_JOB_ID_HET_GROUP_1",
            "ISOCHRON_CAMPAIGN",
            "TERM",
        ] {
            assert!(!is_told(name), "{name}");
        }
    }
}
