//! The command line.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand, ValueEnum};
use isochron_cluster::{
    Cluster, Error, Launcher, Library, Spec, check, down, host, keeper, names, remote,
};

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
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

/// Which cluster.
#[derive(clap::Args)]
struct Which {
    /// Name of the cluster
    #[arg(long, default_value = "default")]
    name: String,
}

/// What is asked for, as written: a wrong value is refused with one line of our own.
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
    #[command(flatten)]
    which: Which,
}

#[derive(Subcommand)]
enum Task {
    /// Bring a cluster up
    Up(Up),
    /// Start ranks of an MPI program on the hosts by mpirun
    Run {
        /// How many on each host (2,1,1), or in all, dealt evenly (4); one on each host unless given
        #[arg(long, value_name = "LIST")]
        ranks: Option<String>,
        /// The library that the program was built with
        #[arg(long, value_enum, default_value = "openmpi")]
        mpi: Mpi,
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
    /// Show what is up
    Status,
    /// Measure what the network and the hosts really give
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
    /// Be a host
    #[command(hide = true)]
    Host { spec: String, idx: usize },
    /// Answer a ping-pong
    #[command(hide = true)]
    Pong { address: String },
    /// Play ping-pong
    #[command(hide = true)]
    Ping {
        address: String,
        rounds: u64,
        bytes: u64,
    },
    /// Compute
    #[command(hide = true)]
    Spin,
}

#[derive(Clone, Copy, ValueEnum)]
enum Mpi {
    Openmpi,
    Mpich,
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    match run(Arguments::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            let is_usage = error.downcast_ref().is_some_and(|error| {
                matches!(
                    error,
                    Error::Value { .. } | Error::Missing(_) | Error::UpAlready(_) | Error::NotUp(_)
                )
            });
            ExitCode::from(if is_usage { 2 } else { 1 })
        }
    }
}

fn run(task: Task) -> Result<()> {
    match task {
        Task::Up(up) => {
            let cluster = Cluster::up_detached(&own_program()?, &up.spec()?)?;
            println!("{}", describe(&cluster)?);
            Ok(())
        }
        Task::Run {
            ranks,
            mpi,
            which,
            words,
        } => mpirun(&which.name, ranks.as_deref(), mpi, &words),
        Task::Exec { host, which, words } => enter(&which.name, &host, &words),
        Task::Status => status(),
        Task::Check { json, which } => show_measured(&which.name, json),
        Task::Down { all: false, which } => take_down(&which.name),
        Task::Down { all: true, .. } => names().iter().try_for_each(|name| take_down(name)),
        Task::Rsh { which, words } => {
            let (host, command) = remote(&words)?;
            enter(
                &which.name,
                host,
                &["sh".to_owned(), "-c".to_owned(), command],
            )
        }
        Task::Keep { spec, tied } => {
            let program = own_program()?;
            tell(keeper::keep(
                &serde_json::from_str(&spec)?,
                &program,
                tied,
                say,
            ))
        }
        Task::Host { spec, idx } => tell(host::hold(&serde_json::from_str(&spec)?, idx, say)),
        Task::Pong { address } => Ok(check::pong(&address, say)?),
        Task::Ping {
            address,
            rounds,
            bytes,
        } => {
            say(&serde_json::to_string(&check::ping(
                &address, rounds, bytes,
            )?)?);
            Ok(())
        }
        Task::Spin => {
            say(&serde_json::to_string(&check::spin())?);
            Ok(())
        }
    }
}

impl Up {
    fn spec(&self) -> Result<Spec, Error> {
        let mut spec = Spec::new(&self.which.name, number("number of hosts", &self.hosts)?)?;
        if let Some(text) = &self.bandwidth {
            spec.bandwidth = Some(text.parse()?);
        }
        if let Some(text) = &self.latency {
            spec.latency = text.parse()?;
        }
        let quotas = self.quota.iter().map(|text| text.parse());
        spec.quotas = quotas.collect::<Result<_, _>>()?;
        let cpus = self.cpus.iter().map(|text| number("CPU", text));
        spec.cpus = cpus.collect::<Result<_, _>>()?;
        Ok(spec)
    }
}

fn number<T: FromStr>(name: &'static str, text: &str) -> Result<T, Error> {
    text.parse().map_err(|_| Error::Value {
        name,
        value: text.to_owned(),
        reason: "write a whole number".to_owned(),
    })
}

fn own_program() -> Result<PathBuf> {
    std::env::current_exe().context("the path of this program")
}

/// A line for the process that started this one; it is not our concern whether that one still listens.
fn say(line: &str) {
    let mut output = std::io::stdout();
    let _ = writeln!(output, "{line}").and_then(|()| output.flush());
}

fn tell(outcome: Result<(), Error>) -> Result<()> {
    if let Err(error) = &outcome {
        say(&keeper::farewell(error));
    }
    Ok(outcome?)
}

/// Replaces this process by a program on a host.
fn enter(name: &str, host: &str, words: &[String]) -> Result<()> {
    let cluster = Cluster::find(&own_program()?, name)?;
    let (program, args) = words.split_first().context("no program to run")?;
    Err(host::enter(cluster.state(), host, program, args).into())
}

fn mpirun(name: &str, ranks: Option<&str>, mpi: Mpi, words: &[String]) -> Result<()> {
    let cluster = Cluster::find(&own_program()?, name)?;
    let (library, variable) = match mpi {
        Mpi::Openmpi => (Library::OpenMpi, "ISOCHRON_MPIRUN_OPENMPI"),
        Mpi::Mpich => (Library::Mpich, "ISOCHRON_MPIRUN_MPICH"),
    };
    let mpirun = std::env::var_os(variable)
        .unwrap_or_else(|| "mpirun".into())
        .into();
    let ranks = match ranks {
        None => vec![1; cluster.state().hosts.len()],
        Some(text) if text.contains(',') => text
            .split(',')
            .map(|text| number("ranks", text))
            .collect::<Result<_, Error>>()?,
        Some(text) => cluster.dealt(number("ranks", text)?),
    };
    let mut command = cluster.mpirun(
        &Launcher {
            mpi: library,
            mpirun,
        },
        &ranks,
    )?;
    command.args(words);
    let shown: Vec<_> = command
        .get_args()
        .map(|word| word.to_string_lossy())
        .collect();
    eprintln!("$ cargo xtask cluster {}", shown.join(" "));
    Err(command.exec()).context("isochron-cluster")
}

fn describe(cluster: &Cluster) -> Result<String> {
    let state = cluster.state();
    let spec = &state.spec;
    let bandwidth = spec
        .bandwidth
        .map_or("unlimited".to_owned(), |rate| rate.to_string());
    let mut text = format!(
        "cluster `{}`: {} hosts, bandwidth {bandwidth}, latency {}",
        spec.name,
        state.hosts.len(),
        spec.latency
    );
    for (idx, (host, running)) in state.hosts.iter().zip(cluster.n_processes()?).enumerate() {
        let quota = spec
            .quota(idx)
            .map(|cores| format!(", {}% of a core", cores * 100.0));
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

fn status() -> Result<()> {
    let names = names();
    if names.is_empty() {
        println!("no cluster is up");
    }
    for name in names {
        match Cluster::find(&own_program()?, &name) {
            Ok(cluster) => println!("{}", describe(&cluster)?),
            Err(Error::NotUp(_)) => {
                println!("cluster `{name}`: remains of one that was killed; `down` removes them")
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn take_down(name: &str) -> Result<()> {
    if down(name)? {
        println!("cluster `{name}` is down");
    } else {
        println!("no cluster `{name}` is up");
    }
    Ok(())
}

fn show_measured(name: &str, json: bool) -> Result<()> {
    let cluster = Cluster::find(&own_program()?, name)?;
    let measured = check::measure(&cluster)?;
    if json {
        println!("{}", serde_json::to_string_pretty(&measured)?);
        return Ok(());
    }
    let spec = &cluster.state().spec;
    let asked = spec
        .bandwidth
        .map_or("as much as there is".to_owned(), |rate| rate.to_string());
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
        let quota = spec
            .quota(idx)
            .map_or("none".to_owned(), |cores| format!("{cores:.2}"));
        println!(
            "{:<16} {quota:>14} {:>14.2} {:>14.2}",
            speed.host, speed.cores, speed.relative
        );
    }
    Ok(())
}
