//! Plans without the nodes that they are for.

use serde_json::Value;

use super::{Folder, json, refused, run_line};
use isochron_tests::launch::open_mpi;

#[test]
fn a_cluster_that_was_measured_is_planned_without_it() {
    let folder = Folder::new();
    let (platform, models) = (folder.path("platform.toml"), folder.path("models"));
    let mpi = open_mpi();
    mpi.run_line(2, &format!("config --network --out {platform}")).success();
    let measure = "measure mxm --block 32 --from 1 --to 64 --points 3 --max-reps 3 --alone";
    mpi.run_line(2, &format!("{measure} --platform {platform} --out {models}")).success();
    let line = format!("plan --platform {platform} --models {models} --size 256 --block 32,64");
    let found = json(&run_line(&format!("{line} --json")).success());
    let candidates = found["candidates"].as_array().expect("a list");
    // Of each block size four free ways, two grids of both strategies, and the faster node alone.
    assert_eq!(candidates.len(), 2 * (4 + 4 + 1), "{found}");
    let holds = |found: &&Value| {
        let [low_s, high_s] = [0, 1].map(|end| found["bounds_s"][end].as_f64());
        low_s < found["wall_s"].as_f64() && found["wall_s"].as_f64() < high_s
    };
    assert_eq!(candidates.iter().filter(holds).count(), candidates.len(), "{found}");
    let times_s: Vec<f64> =
        candidates.iter().filter_map(|found| found["wall_s"].as_f64()).collect();
    // Of ways that take within 1 % of the least time the one with fewest nodes comes first.
    assert!(times_s[1..].is_sorted() && times_s[0] > 0.0, "{times_s:?}");
    let nodes = found["plan"]["nodes"].as_array().map(Vec::len);
    assert!(matches!(nodes, Some(1 | 2)), "{found}");
    assert_ne!(found["plan"]["tuning"]["network"], Value::Null);
    let text = run_line(&format!("{line} --explain --list 18")).success();
    for part in ["by models", "kl in 2x1", "binding: the ", "links twice as fast: "] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn what_a_plan_lacks_is_named() {
    let folder = Folder::new();
    let bare =
        folder.write("bare.toml", "schema = 1\n[[node]]\n[[node.device]]\nname = \"cpu0\"\n");
    let line = |rest: &str| format!("plan --platform {bare} {rest}");
    refused(&line("--size 64"), &[], &["bare.toml", "has no [network]"]);
    refused(&line(""), &[], &["--size"]);
    refused("plan --size 64 --platform /not/there.toml", &[], &["/not/there.toml"]);
    refused(&line("--size 64 --block 0"), &[], &["--block"]);
}
