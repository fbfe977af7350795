//! The command line.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::str::FromStr;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand, ValueEnum};
use isochron_cluster::{
    ClusterError, EmulatedCluster, MpiFamily, MpiLauncher, Spec, check, cluster_names, host,
    keeper, split_remote, take_down,
};

/// Variable with the name of the cluster that a program runs beside, or on.
const NAME_VARIABLE: &str = "ISOCHRON_CLUSTER_NAME";

/// Emulate several hosts on this machine, and start ranks on them.
///
/// The hosts iso-1, iso-2, ... are Linux namespaces of their own, with a network between them of the bandwidth and
/// latency asked for. They share the files, the cores and the memory of this machine.
#[derive(Parser)]
#[command(
    name = "cargo xtask cluster",
    bin_name = "cargo xtask cluster",
    disable_help_subcommand = true
)]
struct ClusterArguments {
    #[command(subcommand)]
    task: ClusterTask,
}

/// The name of a cluster.
#[derive(clap::Args)]
struct Which {
    /// Name of the cluster [default: that of the command `with` around this one, or else `default`]
    #[arg(long)]
    name: Option<String>,
}

impl Which {
    fn name(&self) -> String {
        let around = || std::env::var(NAME_VARIABLE).ok();
        let name = self.name.clone().or_else(around);
        name.unwrap_or_else(|| "default".to_owned())
    }
}

/// The cluster asked for, as written: the parser accepts every value, so that a wrong one ends with our own one-line
/// message.
#[derive(clap::Args)]
struct Up {
    /// Number of hosts
    hosts: String,
    /// Bandwidth of each host's link, in each direction: 1gbit, 100mbit
    #[arg(long, value_name = "RATE")]
    bandwidth: Option<String>,
    /// Latency from host to host, one way: 100us, 1ms
    #[arg(long, value_name = "TIME")]
    latency: Option<String>,
    /// CPU time of each host in percent of a core, or none; one for each host, or one for all: 100%,25%
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    quota: Vec<String>,
    /// Cores to bind the hosts to, in turn: 0,1
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    cpus: Vec<String>,
    /// Hosts in each group, behind an uplink: 3,3
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    groups: Vec<String>,
    /// Bandwidth of each group's uplink, in each direction [default: that of a host]
    #[arg(long, value_name = "RATE", requires = "groups")]
    uplink: Option<String>,
    /// Links that are not as the others: iso-3:rate=50mbit (or out, in, latency, loss), iso-1+iso-4:rate=25mbit (or
    /// latency)
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    slow: Vec<String>,
    #[command(flatten)]
    which: Which,
}

#[derive(Subcommand)]
enum ClusterTask {
    /// Bring a cluster up
    Up(Up),
    /// Bring a cluster up, run a program beside it, and take the cluster down
    With {
        #[command(flatten)]
        up: Up,
        /// The program and its arguments; commands of this kind in it mean this cluster
        #[arg(required = true, last = true)]
        words: Vec<String>,
    },
    /// Start ranks of an MPI program on the hosts by mpirun
    Run {
        /// Ranks on each host (2,1,1), or a total to deal evenly (4); one on each host unless given
        #[arg(long, value_name = "LIST")]
        ranks: Option<String>,
        /// The library that the program was built with
        #[arg(long, value_enum, default_value = "openmpi")]
        mpi: MpiName,
        #[command(flatten)]
        which: Which,
        /// The program and its arguments
        #[arg(required = true, last = true)]
        words: Vec<String>,
    },
    /// Run a program on one host; a plain `mpirun --host iso-1,iso-2` works there
    Exec {
        /// The host: iso-1
        host: String,
        #[command(flatten)]
        which: Which,
        /// The program and its arguments
        #[arg(required = true, last = true)]
        words: Vec<String>,
    },
    /// Change the CPU time of a host, also while programs run on it
    Quota {
        /// The host: iso-1
        host: String,
        /// CPU time in percent of a core, or none: 25%
        quota: String,
        #[command(flatten)]
        which: Which,
    },
    /// Show the clusters that are up
    Status,
    /// Measure the real figures of the network and the hosts
    Check {
        /// As JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        which: Which,
    },
    /// Take a cluster down, with every process on its hosts
    Down {
        /// Take all of them down
        #[arg(long, conflicts_with = "name")]
        all: bool,
        #[command(flatten)]
        which: Which,
    },
    /// Stand for ssh
    #[command(hide = true)]
    Rsh {
        #[command(flatten)]
        which: Which,
        #[arg(last = true)]
        words: Vec<String>,
    },
    /// Make and hold a cluster
    #[command(hide = true)]
    Keep {
        spec: String,
        #[arg(long)]
        tied: bool,
    },
    /// Cut the link of a host
    #[command(hide = true)]
    Cut {
        host: String,
        #[command(flatten)]
        which: Which,
    },
    /// Be a host
    #[command(hide = true)]
    Host { spec: String, idx: usize },
    /// Answer a ping-pong
    #[command(hide = true)]
    Pong { address: String },
    /// Play ping-pong
    #[command(hide = true)]
    Ping { address: String, rounds: u64, bytes: u64 },
    /// Compute
    #[command(hide = true)]
    Spin,
}

#[derive(Clone, Copy, ValueEnum)]
enum MpiName {
    Openmpi,
    Mpich,
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    match run_task(ClusterArguments::parse().task) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            let is_usage = error.downcast_ref().is_some_and(|error| {
                matches!(
                    error,
                    ClusterError::Value { .. }
                        | ClusterError::Missing(_)
                        | ClusterError::UpAlready(_)
                        | ClusterError::NotUp(_)
                )
            });
            ExitCode::from(if is_usage { 2 } else { 1 })
        }
    }
}

fn run_task(task: ClusterTask) -> Result<ExitCode> {
    match task {
        ClusterTask::With { up, words } => return run_with(&up, &words),
        ClusterTask::Up(up) => {
            let cluster = EmulatedCluster::bring_up_detached(&own_program()?, &up.to_spec()?)?;
            println!("{}", describe_cluster(&cluster)?);
            Ok(())
        }
        ClusterTask::Run { ranks, mpi, which, words } => {
            start_ranks(&which.name(), ranks.as_deref(), mpi, &words)
        }
        ClusterTask::Exec { host, which, words } => enter_host(&which.name(), &host, &words),
        ClusterTask::Quota { host, quota, which } => {
            let quota = quota.parse()?;
            let mut cluster = EmulatedCluster::find(&own_program()?, &which.name())?;
            Ok(cluster.change_quota(&host, quota)?)
        }
        ClusterTask::Status => show_status(),
        ClusterTask::Check { json, which } => show_measured(&which.name(), json),
        ClusterTask::Down { all: false, which } => report_down(&which.name()),
        ClusterTask::Down { all: true, .. } => {
            cluster_names().iter().try_for_each(|name| report_down(name))
        }
        ClusterTask::Rsh { which, words } => {
            let (host, command) = split_remote(&words)?;
            enter_host(&which.name(), host, &["sh".to_owned(), "-c".to_owned(), command])
        }
        ClusterTask::Keep { spec, tied } => {
            let program = own_program()?;
            report_outcome(keeper::keep_cluster(
                &serde_json::from_str(&spec)?,
                &program,
                tied,
                print_line,
            ))
        }
        ClusterTask::Cut { host, which } => {
            let cluster = EmulatedCluster::find(&own_program()?, &which.name())?;
            Ok(host::cut_link(cluster.state(), &host)?)
        }
        ClusterTask::Host { spec, idx } => {
            report_outcome(host::hold_host(&serde_json::from_str(&spec)?, idx, print_line))
        }
        ClusterTask::Pong { address } => Ok(check::answer_pings(&address, print_line)?),
        ClusterTask::Ping { address, rounds, bytes } => {
            print_line(&serde_json::to_string(&check::send_pings(&address, rounds, bytes)?)?);
            Ok(())
        }
        ClusterTask::Spin => {
            print_line(&serde_json::to_string(&check::measure_spin())?);
            Ok(())
        }
    }?;
    Ok(ExitCode::SUCCESS)
}

/// Runs a program while a cluster is up; returns its exit status.
fn run_with(up: &Up, words: &[String]) -> Result<ExitCode> {
    let (program, args) = words.split_first().context("no program to run")?;
    let _cluster = EmulatedCluster::bring_up(&own_program()?, &up.to_spec()?)?;
    let mut command = Command::new(program);
    command.args(args).env(NAME_VARIABLE, up.which.name());
    let status = command.status().with_context(|| program.clone())?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

impl Up {
    fn to_spec(&self) -> Result<Spec, ClusterError> {
        let mut spec =
            Spec::new(&self.which.name(), parse_number("number of hosts", &self.hosts)?)?;
        if let Some(text) = &self.bandwidth {
            spec.bandwidth = Some(text.parse()?);
        }
        if let Some(text) = &self.latency {
            spec.latency = text.parse()?;
        }
        let quotas = self.quota.iter().map(|text| text.parse());
        spec.quotas = quotas.collect::<Result<_, _>>()?;
        let cpus = self.cpus.iter().map(|text| parse_number("CPU", text));
        spec.cpus = cpus.collect::<Result<_, _>>()?;
        let groups = self.groups.iter().map(|text| parse_number("groups", text));
        spec.groups = groups.collect::<Result<_, _>>()?;
        spec.uplink = self.uplink.as_ref().map(|text| text.parse()).transpose()?;
        spec.flaws = self.slow.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
        Ok(spec)
    }
}

fn parse_number<T: FromStr>(name: &'static str, text: &str) -> Result<T, ClusterError> {
    text.parse().map_err(|_| ClusterError::Value {
        name,
        value: text.to_owned(),
        reason: "write a whole number".to_owned(),
    })
}

fn own_program() -> Result<PathBuf> {
    std::env::current_exe().context("the path of this program")
}

/// Prints a line for the process that started this one, which may no longer listen.
fn print_line(line: &str) {
    let mut output = std::io::stdout();
    let _ = writeln!(output, "{line}").and_then(|()| output.flush());
}

fn report_outcome(outcome: Result<(), ClusterError>) -> Result<()> {
    if let Err(error) = &outcome {
        print_line(&keeper::farewell_line(error));
    }
    Ok(outcome?)
}

/// Replaces this process by a program on a host.
fn enter_host(name: &str, host: &str, words: &[String]) -> Result<()> {
    let cluster = EmulatedCluster::find(&own_program()?, name)?;
    let (program, args) = words.split_first().context("no program to run")?;
    Err(host::enter_host(cluster.state(), host, program, args).into())
}

fn start_ranks(name: &str, ranks: Option<&str>, mpi: MpiName, words: &[String]) -> Result<()> {
    let cluster = EmulatedCluster::find(&own_program()?, name)?;
    let (library, variable) = match mpi {
        MpiName::Openmpi => (MpiFamily::OpenMpi, "ISOCHRON_MPIRUN_OPENMPI"),
        MpiName::Mpich => (MpiFamily::Mpich, "ISOCHRON_MPIRUN_MPICH"),
    };
    let mpirun = std::env::var_os(variable).unwrap_or_else(|| "mpirun".into()).into();
    let ranks = match ranks {
        None => vec![1; cluster.state().hosts.len()],
        Some(text) if text.contains(',') => text
            .split(',')
            .map(|text| parse_number("ranks", text))
            .collect::<Result<_, ClusterError>>()?,
        Some(text) => cluster.deal_ranks(parse_number("ranks", text)?),
    };
    let mut command = cluster.mpirun_command(&MpiLauncher { mpi: library, mpirun }, &ranks)?;
    command.args(words);
    let shown: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
    eprintln!("$ cargo xtask cluster {}", shown.join(" "));
    Err(command.exec()).context("isochron-cluster")
}

fn describe_cluster(cluster: &EmulatedCluster) -> Result<String> {
    let state = cluster.state();
    let spec = &state.spec;
    let bandwidth = spec.bandwidth.map_or("unlimited".to_owned(), |rate| rate.to_string());
    let mut text = format!(
        "cluster `{}`: {} hosts, bandwidth {bandwidth}, latency {}",
        spec.name,
        state.hosts.len(),
        spec.latency
    );
    for (idx, (host, running)) in state.hosts.iter().zip(cluster.n_processes()?).enumerate() {
        let quota = spec.quota(idx).map(|cores| format!(", {}% of a core", cores * 100.0));
        let cpu = spec.cpu(idx).map(|cpu| format!(", on CPU {cpu}"));
        text += &format!(
            "\n  {:<8} {:<12} {running} processes{}{}",
            host.name,
            host.address,
            quota.unwrap_or_default(),
            cpu.unwrap_or_default()
        );
    }
    Ok(text)
}

fn show_status() -> Result<()> {
    let names = cluster_names();
    if names.is_empty() {
        println!("no cluster is up");
    }
    for name in names {
        match EmulatedCluster::find(&own_program()?, &name) {
            Ok(cluster) => println!("{}", describe_cluster(&cluster)?),
            Err(ClusterError::NotUp(_)) => {
                println!("cluster `{name}`: remains of one that was killed; `down` removes them")
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn report_down(name: &str) -> Result<()> {
    if take_down(name)? {
        println!("cluster `{name}` is down");
    } else {
        println!("no cluster `{name}` is up");
    }
    Ok(())
}

fn show_measured(name: &str, json: bool) -> Result<()> {
    let cluster = EmulatedCluster::find(&own_program()?, name)?;
    let measured = check::measure_cluster(&cluster)?;
    if json {
        println!("{}", serde_json::to_string_pretty(&measured)?);
        return Ok(());
    }
    let spec = &cluster.state().spec;
    let asked = spec.bandwidth.map_or("as much as there is".to_owned(), |rate| rate.to_string());
    println!("asked for: bandwidth {asked}, latency {}", spec.latency);
    println!(
        "{:<16} {:>14} {:>14} {:>14} {:>14}",
        "over TCP", "latency, us", "median, us", "there, Mbit/s", "back, Mbit/s"
    );
    for link in &measured.links {
        println!(
            "{:<16} {:>14.1} {:>14.1} {:>14.1} {:>14.1}",
            format!("{} - {}", link.from, link.to),
            link.latency_min_s * 1e6,
            link.latency_median_s * 1e6,
            link.there_bits_per_s * 1e-6,
            link.back_bits_per_s * 1e-6
        );
    }
    println!(
        "{:<16} {:>14} {:>14} {:>14}",
        "all computing", "quota, cores", "got, cores", "of one's speed"
    );
    for (idx, speed) in measured.speeds.iter().enumerate() {
        let quota = spec.quota(idx).map_or("none".to_owned(), |cores| format!("{cores:.2}"));
        println!("{:<16} {quota:>14} {:>14.2} {:>14.2}", speed.host, speed.cores, speed.relative);
    }
    Ok(())
}
