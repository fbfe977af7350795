//! The times that `isochron measure mxm` adds to the store.

use super::*;

#[test]
fn a_run_begins_with_the_models_that_were_measured_before() {
    for mpi in libraries() {
        let folder = make_folder();
        let line = "measure mxm --block 8 --panel 8 --to 64 --points 3 --max-reps 3 --platform";
        let platform = folder.path("slow.toml");
        for (options, segments_written) in [("none", 0), ("read", 0), ("read-write", 1)] {
            let mut command = mpi.line_command(2, &format!("{line} {platform} --store {options}"));
            use_store(&mut command, &folder.path("store"));
            run(command, HANGS).success();
            assert_eq!(segments(&folder).len(), segments_written, "{options}");
        }
        let runs = read_runs(&folder);
        assert_eq!(runs.len(), 3, "one for each device");
        for run in runs {
            let units: Vec<u64> = run.samples.iter().map(|sample| sample.units).collect();
            assert_eq!(units, [64, 32 * 64, 64 * 64]);
            assert!(run.samples.iter().all(|sample| sample.seconds.len() >= 2));
        }
        let report = multiply(&mpi, &folder, "");
        assert_eq!(list_known(&report), [KnownFrom::Store; 3]);
        assert_eq!(count_looks(&report), 0, "nothing is looked at");
    }
}

#[test]
fn a_campaign_that_is_killed_keeps_the_repetitions_of_every_size() {
    let mpi = open_mpi();
    let folder = make_folder();
    let line =
        "measure mxm --block 8 --panel 8 --from 2 --to 6 --points 3 --min-reps 2 --max-reps 3";
    let (platform, out) = (folder.path("slow.toml"), folder.path("out"));
    let line = format!("{line} --platform {platform} --out {out}");
    // The head rank is killed when the store has the last size, which the points files do not have yet.
    for (killed_at, sizes) in [(Some("named:3"), 3), (None, 4)] {
        let mut command = mpi.line_command(2, &line);
        use_store(&mut command, &folder.path("store"));
        if let Some(stage) = killed_at {
            command.env("ISOCHRON_TEST_KILLED_AT", stage);
        }
        let outcome = run(command, HANGS);
        assert_eq!(outcome.status == Some(0), killed_at.is_none());
        let runs = read_runs(&folder);
        let samples: Vec<&Series> = runs.iter().flat_map(|run| &run.samples).collect();
        assert_eq!(samples.len(), 3 * sizes, "of each device");
        assert!(samples.iter().all(|sample| sample.seconds.len() >= 2));
        let largest = samples.iter().map(|sample| sample.units).max();
        assert_eq!(largest, Some(6 * 64));
    }
}
