//! The store under kernels that are no update of a multiplication.

use super::namespaces::start_by_script;
use super::*;
use crate::command::{UNLIKE, compile, json};

/// Starts a rank on a host of another name.
const ELSEWHERE: &str = "exec unshare --uts sh -c 'hostname elsewhere && exec \"$@\"' sh \"$@\"";

#[test]
fn a_balancing_that_another_host_has_done_costs_the_measurement_of_the_even_division() {
    for mpi in libraries() {
        let folder = Folder::new();
        let kernel = compile(&folder, "unlike", UNLIKE);
        let line = format!("balance {kernel} --units 3000 --min-reps 2 --max-reps 2 --json");
        let mut here = mpi.line_command(2, &line);
        use_store(&mut here, &folder.path("store"));
        run(here, HANGS).success();
        let words: Vec<&str> = line.split(' ').collect();
        let Some(elsewhere) = start_by_script(&mpi, &folder, ELSEWHERE, &words) else {
            return;
        };
        let found = json(&run(elsewhere, HANGS).success());
        for rank in found["ranks"].as_array().expect("ranks") {
            assert_eq!(
                (&rank["host"], &rank["known"]),
                (&"elsewhere".into(), &"store+probe".into())
            );
        }
        let notices = found["notices"].to_string();
        assert_eq!(notices.matches("are checked: other host").count(), 2, "{notices}");
        let history = found["history"].as_array().expect("divisions").iter();
        let units: Vec<u64> =
            history.filter_map(|division| division["units"][0].as_u64()).collect();
        // The next division follows the other host's times, by which the first rank takes three times as long.
        assert!(units[0] == 1500 && units[1] < 1500, "{found}");
        let runs = read_runs(&folder);
        let added = runs.iter().filter(|run| run.key.conditions.host == "elsewhere");
        assert_eq!(added.count(), 2, "{runs:?}");
    }
}
