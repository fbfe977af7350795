//! Ranks and campaigns in jobs of Slurm, whose daemons run on emulated hosts.
//!
//! `cargo xtask test --all` installs Slurm and runs these tests.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use isochron_cluster::EmulatedCluster;
use isochron_tests::emulator::emulate;
use isochron_tests::launch::{HANGS, Outcome, is_whole, native_libraries, open_mpi, run};
use serde_json::Value;

use crate::command::{Folder, json};
use crate::docs::{find_root, write_program};
use isochron_tests::cluster;

/// The settings of Slurm that do not depend on the test.
const SETTINGS: &str = "\
ClusterName=emulated
SlurmctldHost=iso-1
AuthType=auth/munge
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SwitchType=switch/none
ReturnToService=2
KillWait=5
MinJobAge=3600
SlurmdParameters=config_overrides
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
";

/// Slurm on emulated hosts, with its controller on the first one.
struct Slurm {
    cluster: EmulatedCluster,
    folder: Folder,
}

impl Slurm {
    /// Starts Slurm on some hosts of two cores; `None` where the machine cannot emulate hosts.
    fn start(test: &str, hosts: usize) -> Option<Self> {
        let nodes = format!("NodeName=iso-[1-{hosts}] CPUs=2 RealMemory=1000\n");
        Self::start_on(test, &vec!["none"; hosts], &nodes)
    }

    /// Starts Slurm on hosts with these quotas, which `nodes` tells Slurm.
    fn start_on(test: &str, quotas: &[&str], nodes: &str) -> Option<Self> {
        let cluster = cluster::bring_up(test, quotas.len(), None, quotas)?;
        let folder = Folder::new();
        let place = folder.path("");
        let mut settings = format!("{SETTINGS}AuthInfo=socket={place}munge.socket\n");
        for (key, file) in [
            ("StateSaveLocation", "controller"),
            ("SlurmdSpoolDir", "spool.%n"),
            ("TmpFS", "tmp.%n"),
            ("SlurmctldPidFile", "controller.pid"),
            ("SlurmdPidFile", "daemon.%n.pid"),
            ("SlurmctldLogFile", "controller.log"),
            ("SlurmdLogFile", "daemon.%n.log"),
        ] {
            writeln!(settings, "{key}={place}{file}").expect("a string");
        }
        settings += nodes;
        folder.write("slurm.conf", &settings);
        // Any device does: Slurm only counts it.
        folder.write("gres.conf", "NodeName=iso-[3-4] Name=gpu File=/dev/null\n");
        let slurm = Self { cluster, folder };
        slurm.start_daemons();
        Some(slurm)
    }

    fn start_daemons(&self) {
        fs::create_dir(self.folder.path("controller")).expect("a folder");
        self.folder.write("munge.key", &"a key of 32 bytes at the least. ".repeat(32));
        fs::set_permissions(self.folder.path("munge.key"), Permissions::from_mode(0o600))
            .expect("a file of ours");
        let mut munged = vec!["munged".to_owned(), "--force".to_owned()];
        munged.extend(
            ["key", "pid", "log", "seed"].map(|kind| {
                format!("--{kind}-file={}", self.folder.path(&format!("munge.{kind}")))
            }),
        );
        munged.push(format!("--socket={}", self.folder.path("munge.socket")));
        self.run_on("iso-1", &munged).success();
        self.run_on("iso-1", &["slurmctld"]).success();
        let hosts = &self.cluster.state().hosts;
        for host in hosts {
            fs::create_dir(self.folder.path(&format!("tmp.{}", host.name))).expect("a folder");
            self.run_on(&host.name, &["slurmd"]).success();
        }
        self.wait_until("all nodes are idle", || {
            let idle = self.run_on("iso-1", &["sinfo", "-h", "-t", "idle", "-o", "%D"]);
            idle.stdout.trim() == hosts.len().to_string()
        });
    }

    /// Makes a command on a host.
    fn command<W: AsRef<OsStr>>(&self, host: &str, words: &[W]) -> Command {
        let mut command = self.cluster.command(host, words).expect("a host");
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .current_dir(self.folder.path(""))
            .env("SLURM_CONF", self.folder.path("slurm.conf"))
            .env("PATH", format!("{}:{path}", self.folder.path("")));
        command
    }

    fn run_on<W: AsRef<OsStr>>(&self, host: &str, words: &[W]) -> Outcome {
        run(self.command(host, words), HANGS)
    }

    /// Runs the words of a line on the first host, and returns what they print.
    fn print(&self, line: &str) -> String {
        let words: Vec<&str> = line.split_whitespace().collect();
        self.run_on("iso-1", &words).success()
    }

    /// Waits until `is_done`, which `what` tells in words.
    fn wait_until(&self, what: &str, is_done: impl Fn() -> bool) {
        let start = Instant::now();
        while !is_done() {
            assert!(start.elapsed() < HANGS, "not in time: {what}\n{}", self.read_logs());
            thread::sleep(Duration::from_millis(200));
        }
    }

    /// Returns the logs of the daemons and jobs.
    fn read_logs(&self) -> String {
        let entries = fs::read_dir(self.folder.path("")).expect("a folder").flatten();
        let paths = entries
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|end| end == "log" || end == "out"));
        paths.map(|path| format!("== {}\n{}", path.display(), read(&path))).collect()
    }

    /// Returns the state of a job; nothing once it has ended.
    fn job_state(&self, job: &str) -> String {
        let states = "PENDING,RUNNING,COMPLETING,REQUEUED,SUSPENDED";
        self.print(&format!("squeue -h -o %T -t {states} -j {job}")).trim().to_owned()
    }

    /// Waits until a job is in the queue again for this many times.
    fn wait_for_queue(&self, job: &str, times: u32) {
        self.wait_until(&format!("job {job} is queued again"), || {
            let restarts = format!(" Restarts={times} ");
            self.job_state(job) == "PENDING"
                && self.print(&format!("scontrol show job {job}")).contains(&restarts)
        });
    }

    /// Starts a queued job now: Slurm holds those that it has queued again back for two minutes.
    fn start_job(&self, job: &str) {
        self.print(&format!("scontrol update JobId={job} StartTime=now"));
        self.wait_until(&format!("job {job} runs"), || self.job_state(job) == "RUNNING");
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[test]
fn srun_starts_ranks_on_the_cores_that_slurm_gives_them() {
    if !is_whole() {
        return;
    }
    let Some(slurm) = Slurm::start("srun", 2) else {
        return;
    };
    let [open_mpi, mpich] = native_libraries();
    // MPICH as Debian builds it may hang in MPI_Finalize if its ranks talk over TCP.
    for (mpi, options, hosts) in [
        (&open_mpi, "--mpi=pmix -N 2 -n 4 -c 1", &["iso-1", "iso-1", "iso-2", "iso-2"][..]),
        (&mpich, "--mpi=pmi2 -N 1 -n 2 -c 1", &["iso-1", "iso-1"]),
    ] {
        let line = format!(
            "srun {options} {} mxm --size 256 --strategy homogeneous --store none --verify exact --json",
            mpi.isochron.display()
        );
        let report = json(&slurm.print(&line));
        assert_eq!(report["verified"], true, "{report}");
        let nodes = report["nodes"].as_array().expect("nodes");
        let found: Vec<_> =
            nodes.iter().map(|node| node["host"].as_str().expect("a host")).collect();
        assert_eq!(found, hosts);
        let cores: BTreeSet<String> = nodes
            .iter()
            .map(|node| {
                let device = &node["devices"][0];
                assert_eq!(device["cores"].as_array().map(Vec::len), Some(1), "{report}");
                assert_eq!(device["pinned"], true, "{report}");
                format!("{} {}", node["host"], device["cores"][0])
            })
            .collect();
        assert_eq!(cores.len(), hosts.len(), "{cores:?}");
    }
}

/// A contender whose first repetition in jobs of each size ends at once. Each other waits until the file `go` is there.
const CONTENDER: &str = "#!/bin/sh
if ! mkdir \"passed-$1\" 2> /dev/null; then
    touch \"waiting-$1\"
    while [ ! -e go ]; do sleep 0.1; done
fi
echo \"measured $1\"
";

/// Four points, half of which need one node and half two.
const CAMPAIGN: &str = r#"
name = "trial"
nodes = "n"
[sweep]
n = [1, 2]
other = ["a", "b"]
[[contender]]
name = "waits"
launch = "srun -N {n} -n 1"
command = "sh waits {n} {other}"
result = { regex = 'measured (?P<n_s>[0-9]+)' }
[repeat]
min = 2
max = 2
again = 0
"#;

/// Returns the lines of the points that need a number of nodes.
fn read_points(slurm: &Slurm, nodes: usize) -> Vec<Value> {
    let file = slurm.folder.path(&format!("results/nodes-{nodes}/points.jsonl"));
    read(Path::new(&file)).lines().map(json).collect()
}

#[test]
fn a_campaign_goes_on_in_job_after_job_until_it_ends() {
    if !is_whole() {
        return;
    }
    let Some(slurm) = Slurm::start("jobs", 3) else {
        return;
    };
    let mpi = open_mpi();
    let isochron = mpi.isochron.display();
    slurm.folder.write("waits", CONTENDER);
    slurm.folder.write("trial.toml", CAMPAIGN);
    let script = slurm.print(&format!(
        "{isochron} campaign script trial.toml --dir results -- --exclusive --time=2"
    ));
    slurm.folder.write("job", &script);
    let told = slurm.print("bash job");
    let jobs: Vec<&str> =
        told.lines().filter_map(|line| line.strip_prefix("Submitted batch job ")).collect();
    let [one, two] = jobs[..] else {
        panic!("{told}");
    };
    // Both run at the same time, and come to their time limits with something left.
    for job in [one, two] {
        slurm.wait_for_queue(job, 1);
        let log = read(Path::new(&slurm.folder.path(&format!("slurm-{job}.out"))));
        assert!(log.contains("stopped; the same command goes on"), "{log}");
    }
    assert_eq!([1, 2].map(|nodes| read_points(&slurm, nodes).len()), [1, 1]);
    // A node fails under the next job of two nodes while it measures.
    fs::remove_file(slurm.folder.path("waiting-2")).expect("a contender that waited");
    slurm.start_job(two);
    slurm.wait_until("a contender waits", || Path::new(&slurm.folder.path("waiting-2")).exists());
    let host = slurm.print(&format!("squeue -h -o %B -j {two}"));
    let host = host.trim();
    slurm.print(&format!("scontrol update NodeName={host} State=DOWN Reason=test"));
    slurm.wait_for_queue(two, 2);
    // The node comes back by itself once its daemon reports.
    let resume = format!("scontrol update NodeName={host} State=RESUME");
    slurm.run_on("iso-1", &resume.split(' ').collect::<Vec<_>>());
    slurm.folder.write("go", "");
    for job in [one, two] {
        slurm.print(&format!("scontrol update JobId={job} StartTime=now"));
        slurm.wait_until(&format!("job {job} ends"), || slurm.job_state(job).is_empty());
    }
    let status = json(&slurm.print(&format!("{isochron} campaign status results --json")));
    assert_eq!(
        (&status["state"], &status["points_ended"], &status["repetitions"]),
        (&"ended".into(), &4.into(), &8.into()),
        "{status}\n{}",
        slurm.read_logs()
    );
    for nodes in [1, 2] {
        let points = read_points(&slurm, nodes);
        let places = points.iter().map(|line| format!("{} {}", line["point"], line["round"]));
        assert_eq!(places.collect::<BTreeSet<_>>().len(), 4, "{points:?}");
        assert!(points.iter().all(|line| line["status"] == "done"), "{points:?}");
    }
}

/// Two partitions of unlike hosts. Each host of the second one has a GPU.
const PARTITIONS: &str = "\
GresTypes=gpu
SchedulerParameters=bf_interval=1
NodeName=iso-[1-2] CPUs=1 RealMemory=1000
NodeName=iso-[3-4] CPUs=2 RealMemory=1000 Gres=gpu:1
PartitionName=slow Nodes=iso-[1-2]
PartitionName=fast Nodes=iso-[3-4]
";

/// Stands for `isochron`: hosts have a driver of CUDA only if they have a GPU.
///
/// Its two parts do not end at the same moment, since `srun` of Slurm before 24.11 may then wait for ever.
const WITH_DRIVER: &str = "#!/bin/sh
case $(hostname) in
iso-[34]) LD_LIBRARY_PATH=@DRIVER @PROGRAM \"$@\"; status=$?; sleep 1; exit $status ;;
esac
exec @PROGRAM \"$@\"
";

/// A campaign whose contender has ranks in both parts of a heterogeneous job.
const BOTH: &str = r#"
name = "both"
[sweep]
n = [128, 256]
[[contender]]
name = "ours"
launch = "srun --het-group=0,1 --mpi=pmix"
command = "isochron mxm --size {n}"
result = { regex = 'wall_s=(?P<wall_s>\S+)' }
[repeat]
min = 1
max = 1
again = 0
"#;

/// Returns the job script of the guide that has parts in two partitions.
fn read_guide() -> String {
    let guide = fs::read_to_string(find_root().join("docs/guide.md")).expect("a guide");
    let mut blocks = guide.split("```sh\n").filter_map(|text| text.split("```").next());
    blocks.find(|block| block.contains("#SBATCH hetjob")).expect("a job").to_owned()
}

/// Returns the hosts of a report, each with the kinds of its devices and the number of their cores.
fn list_devices(report: &Value) -> Vec<String> {
    assert_eq!(report["verified"], true, "{report}");
    let nodes = report["nodes"].as_array().expect("nodes").iter();
    let described = nodes.map(|node| {
        let devices = node["devices"].as_array().expect("devices").iter().map(|device| {
            let cores = device["cores"].as_array().expect("cores").len();
            format!(" {} {cores}", device["kind"].as_str().expect("a kind"))
        });
        format!("{}{}", node["host"].as_str().expect("a host"), devices.collect::<String>())
    });
    described.collect()
}

#[test]
fn a_heterogeneous_job_is_one_world_over_two_partitions() {
    if !is_whole() {
        return;
    }
    let quotas = ["50%", "50%", "none", "none"];
    let Some(slurm) = Slurm::start_on("parts", &quotas, PARTITIONS) else {
        return;
    };
    let mpi = open_mpi();
    let folder = &slurm.folder;
    let driver = folder.path("driver");
    fs::create_dir(&driver).expect("a folder");
    emulate(&mut Command::new("true"), Path::new(&driver));
    let program = mpi.isochron.display().to_string();
    let program = WITH_DRIVER.replace("@DRIVER", &driver).replace("@PROGRAM", &program);
    write_program(Path::new(&folder.path("isochron")), &program);
    let read_file = |name: &str| read(Path::new(&folder.path(name)));

    folder.write("job", &read_guide());
    slurm.print("sbatch --wait --output=job.out job");
    let slow = ["iso-1 cpu 1", "iso-2 cpu 1"].map(str::to_owned);
    let fast = ["iso-3 cpu 1 cuda 1", "iso-4 cpu 1 cuda 1"].map(str::to_owned);
    assert_eq!(list_devices(&json(&read_file("run.json"))), [slow, fast].concat());
    let health = json(&read_file("health.json"));
    let devices = health["devices"].as_array().expect("devices");
    let hosts: BTreeSet<&str> = devices.iter().filter_map(|it| it["host"].as_str()).collect();
    assert_eq!(hosts, BTreeSet::from(["iso-1", "iso-2", "iso-3", "iso-4"]), "{health}");

    folder.write("both.toml", BOTH);
    let options = "--partition=slow --nodes=2 --exclusive : --partition=fast --nodes=2 --exclusive";
    let line = format!("isochron campaign script both.toml --dir results -- {options}");
    folder.write("both.sbatch", &slurm.print(&line));
    slurm.print("sbatch --wait --output=both.out both.sbatch");
    let points = read_file("results/points.jsonl");
    let points: Vec<Value> = points.lines().map(json).collect();
    assert!(points.len() == 2 && points.iter().all(|it| it["status"] == "done"), "{points:?}");
    let report = slurm.print("isochron campaign report results");
    assert!(report.contains("iso-1 iso-2 iso-3 iso-4"), "{report}");
}
