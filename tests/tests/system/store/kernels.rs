//! The store under kernels that are no update of a multiplication.

use serde_json::Value;

use super::namespaces::start_by_script;
use super::*;
use crate::command::{UNLIKE, compile, json};

/// Starts a rank on a host of another name.
const ELSEWHERE: &str = "exec unshare --uts sh -c 'hostname elsewhere && exec \"$@\"' sh \"$@\"";

/// Runs a command of `isochron` on two ranks, with the store.
fn run_here(mpi: &Mpi, folder: &Folder, line: &str) -> Value {
    let words: Vec<&str> = line.split(' ').collect();
    let mut command = mpi.command(2, &mpi.isochron, &words);
    use_store(&mut command, &folder.path("store"));
    json(&run(command, HANGS).success())
}

/// Runs it on a host of another name; `None` if the system allows no namespaces.
fn run_elsewhere(mpi: &Mpi, folder: &Folder, line: &str) -> Option<Value> {
    let words: Vec<&str> = line.split(' ').collect();
    let command = start_by_script(mpi, folder, ELSEWHERE, &words)?;
    let found = json(&run(command, HANGS).success());
    for rank in found["ranks"].as_array().expect("ranks") {
        assert_eq!(rank["host"], "elsewhere", "{found}");
    }
    Some(found)
}

/// Checks what both ranks knew before they ran.
fn check_known(found: &Value, known: &str) {
    for rank in found["ranks"].as_array().expect("ranks") {
        assert_eq!(rank["known"], known, "{found}");
    }
}

/// Checks that the kernels of both ranks are told to be checked because of the host's name.
fn check_notices(found: &Value) {
    let notices = found["notices"].as_array().expect("notices").iter();
    let notices: Vec<&str> = notices.filter_map(Value::as_str).collect();
    let told = notices.iter().filter(|notice| notice.ends_with("are checked: other host"));
    assert_eq!(told.count(), 2, "{notices:?}");
}

/// Returns the sizes that jobs on the host of another name have added to the store, of each kernel.
fn list_sizes_elsewhere(folder: &Folder) -> Vec<Vec<u64>> {
    let mut runs = read_runs(folder);
    runs.retain(|run| run.key.conditions.host == "elsewhere");
    runs.iter()
        .map(|run| run.samples.iter())
        .map(|samples| samples.map(|sample| sample.units).collect())
        .collect()
}

#[test]
fn a_balancing_that_another_host_has_done_costs_the_measurement_of_the_even_division() {
    for mpi in libraries() {
        let folder = Folder::new();
        let kernel = compile(&folder, "unlike", UNLIKE);
        let line = format!("balance {kernel} --units 3000 --min-reps 2 --max-reps 2 --json");
        run_here(&mpi, &folder, &line);
        let Some(found) = run_elsewhere(&mpi, &folder, &line) else {
            return;
        };
        check_known(&found, "store+probe");
        check_notices(&found);
        let units: Vec<u64> = found["history"]
            .as_array()
            .expect("divisions")
            .iter()
            .filter_map(|division| division["units"][0].as_u64())
            .collect();
        assert_eq!(units[0], 1500, "{found}");
        // The next division follows the other host's times, by which the first rank takes three times as long.
        assert!(units[1] < 1500, "{found}");
        let sizes = list_sizes_elsewhere(&folder);
        assert_eq!(sizes.len(), 2, "{sizes:?}");
    }
}

#[test]
fn a_model_is_measured_as_a_whole_on_a_host_of_another_name() {
    let [mpi, _] = libraries();
    let folder = Folder::new();
    let line = "measure dgemv --width 64 --from 16 --to 64 --points 4 --max-reps 3 --json";
    run_here(&mpi, &folder, line);
    if run_elsewhere(&mpi, &folder, line).is_none() {
        return;
    }
    assert_eq!(list_sizes_elsewhere(&folder), [[16, 32, 48, 64]; 2]);
}
