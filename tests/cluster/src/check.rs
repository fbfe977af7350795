//! Measured figures of the network and the hosts, over plain TCP and by a loop of arithmetic.

use std::ffi::OsStr;
use std::hint::black_box;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::iter;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::cluster::EmulatedCluster;
use crate::error::{ClusterError, During};
use crate::spec::Spec;

/// Time for which a host computes to show its speed: many periods of a CPU quota.
const SPIN: Duration = Duration::from_secs(1);
/// Bytes sent at once.
const CHUNK: usize = 1 << 17;

/// Measured figures of one link.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LinkFigures {
    /// Host at one end.
    pub from: String,
    /// Host at the other.
    pub to: String,
    /// Half of the shortest round trip of a byte, in seconds.
    pub latency_min_s: f64,
    /// Half of the median round trip of a byte, in seconds.
    pub latency_median_s: f64,
    /// Payload from the first host to the second, in bits per second.
    pub there_bits_per_s: f64,
    /// Payload back.
    pub back_bits_per_s: f64,
}

/// Measured speed of one host while all of them computed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HostSpeed {
    /// The host.
    pub host: String,
    /// CPU time per wall time: its share of a core.
    pub cores: f64,
    /// Work done, relative to that of one core on the idle machine just before.
    pub relative: f64,
}

/// Measured figures of a cluster.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClusterFigures {
    /// The link between the first host and each other.
    pub links: Vec<LinkFigures>,
    /// Each host's speed while all of them compute.
    pub speeds: Vec<HostSpeed>,
}

/// The messages of a ping-pong.
#[derive(Clone, Copy, Debug)]
struct Amount {
    rounds: u64,
    bytes: u64,
}

/// Measures links and speeds of `cluster`, which should be idle.
///
/// # Errors
/// Returns [`ClusterError::Program`] if a measurement fails.
pub fn measure_cluster(cluster: &EmulatedCluster) -> Result<ClusterFigures, ClusterError> {
    Ok(ClusterFigures { links: measure_links(cluster)?, speeds: measure_speeds(cluster)? })
}

/// Measures the link between the first host and each other, one after the other.
///
/// # Errors
/// Returns [`ClusterError::Program`] if a measurement fails.
pub fn measure_links(cluster: &EmulatedCluster) -> Result<Vec<LinkFigures>, ClusterError> {
    let hosts = &cluster.state().hosts;
    hosts.iter().skip(1).map(|other| measure_link(cluster, &hosts[0].name, &other.name)).collect()
}

fn measure_link(
    cluster: &EmulatedCluster,
    from: &str,
    to: &str,
) -> Result<LinkFigures, ClusterError> {
    let amount = Amount::for_spec(&cluster.state().spec);
    let address = &cluster.state().host(to)?.address;
    let mut server = start_on(cluster, to, &["pong", address])?;
    let mut line = String::new();
    if let Some(output) = server.stdout.take() {
        BufReader::new(output).read_line(&mut line).during(to)?;
    }
    let (rounds, bytes) = (amount.rounds.to_string(), amount.bytes.to_string());
    let client = start_on(cluster, from, &["ping", line.trim(), &rounds, &bytes])?;
    let seconds: [f64; 4] = read_answer(client)?;
    wait_for_output(server)?;
    let bits = amount.bytes as f64 * 8.0;
    Ok(LinkFigures {
        from: from.to_owned(),
        to: to.to_owned(),
        latency_min_s: seconds[0],
        latency_median_s: seconds[1],
        there_bits_per_s: bits / seconds[2],
        back_bits_per_s: bits / seconds[3],
    })
}

impl Amount {
    /// Returns about a second of round trips, and the payload that a third of a second carries, within bounds.
    fn for_spec(spec: &Spec) -> Self {
        let round_trip_s = 2.0 * spec.latency.duration().as_secs_f64();
        let bytes_per_s = spec.bandwidth.map_or(f64::INFINITY, |rate| rate.bits_per_s() / 8.0);
        Self {
            rounds: (1.0 / round_trip_s).clamp(5.0, 1000.0) as u64,
            bytes: (bytes_per_s / 3.0).clamp(65_536.0, f64::from(1 << 26)) as u64,
        }
    }
}

/// Answers one ping-pong at `address`, after it has printed the port.
///
/// # Errors
/// Fails if the connection breaks.
pub fn answer_pings(address: &str, say: impl FnOnce(&str)) -> io::Result<()> {
    let listener = TcpListener::bind((address, 0))?;
    say(&listener.local_addr()?.to_string());
    let (mut stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    let mut numbers = [0; 16];
    stream.read_exact(&mut numbers)?;
    // Both numbers came as eight bytes each, the lowest first.
    let numbers = u128::from_le_bytes(numbers);
    let (rounds, bytes) = (numbers as u64, (numbers >> 64) as u64);
    let mut byte = [0];
    for _ in 0..rounds {
        stream.read_exact(&mut byte)?;
        stream.write_all(&byte)?;
    }
    for _ in 0..2 {
        receive_bytes(&mut stream, bytes)?;
        stream.write_all(&byte)?;
    }
    for _ in 0..2 {
        stream.read_exact(&mut byte)?;
        send_bytes(&mut stream, bytes)?;
    }
    Ok(())
}

/// Plays ping-pong with [`answer_pings`]. Returns half of the shortest and of the median round trip, and the time of
/// `bytes` there and back, in seconds. The second transfer each way counts, after TCP has adapted to the link.
///
/// # Errors
/// Fails if the connection breaks.
pub fn send_pings(address: &str, rounds: u64, bytes: u64) -> io::Result<[f64; 4]> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.write_all(&[rounds.to_le_bytes(), bytes.to_le_bytes()].concat())?;
    let mut byte = [0];
    let mut trips = Vec::new();
    for _ in 0..rounds {
        let start = Instant::now();
        stream.write_all(&byte)?;
        stream.read_exact(&mut byte)?;
        trips.push(start.elapsed().as_secs_f64() / 2.0);
    }
    trips.sort_by(f64::total_cmp);
    let (mut there_s, mut back_s) = (0.0, 0.0);
    for _ in 0..2 {
        let start = Instant::now();
        send_bytes(&mut stream, bytes)?;
        stream.read_exact(&mut byte)?;
        there_s = start.elapsed().as_secs_f64();
    }
    for _ in 0..2 {
        let start = Instant::now();
        stream.write_all(&byte)?;
        receive_bytes(&mut stream, bytes)?;
        back_s = start.elapsed().as_secs_f64();
    }
    let [shortest_s, median_s] =
        [0, trips.len() / 2].map(|idx| trips.get(idx).copied().unwrap_or(f64::NAN));
    Ok([shortest_s, median_s, there_s, back_s])
}

fn send_bytes(stream: &mut TcpStream, bytes: u64) -> io::Result<()> {
    let data = io::repeat(1).take(bytes);
    // Copied by the buffer of the source, so in writes of this size.
    io::copy(&mut BufReader::with_capacity(CHUNK, data), stream).map(drop)
}

fn receive_bytes(stream: &mut TcpStream, bytes: u64) -> io::Result<()> {
    let mut data = BufReader::with_capacity(CHUNK, stream.take(bytes));
    match io::copy(&mut data, &mut io::sink())? {
        n_read if n_read < bytes => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

/// Computes for a while, and returns the work per second and the CPU time per wall time.
pub fn measure_spin() -> [f64; 2] {
    let start = Instant::now();
    let before_s = process_cpu_s();
    let mut work = 0.0;
    let mut numbers = [1.0_f64; 8];
    while start.elapsed() < SPIN {
        for _ in 0..2000 {
            for number in &mut numbers {
                *number = number.mul_add(black_box(0.999), 0.001);
            }
        }
        work += 1.0;
    }
    black_box(numbers);
    let elapsed_s = start.elapsed().as_secs_f64();
    [work / elapsed_s, (process_cpu_s() - before_s) / elapsed_s]
}

fn process_cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Measures the speed of each host while all of them compute.
///
/// # Errors
/// Returns [`ClusterError::Program`] if a measurement fails.
pub fn measure_speeds(cluster: &EmulatedCluster) -> Result<Vec<HostSpeed>, ClusterError> {
    let mut alone = Command::new(cluster.program());
    alone.arg("spin");
    let [whole, _]: [f64; 2] = read_answer(start_child(alone)?)?;
    let hosts = &cluster.state().hosts;
    let children: Vec<_> = hosts
        .iter()
        .map(|host| start_on(cluster, &host.name, &["spin"]))
        .collect::<Result<_, _>>()?;
    hosts
        .iter()
        .zip(children)
        .map(|(host, child)| {
            let [work, cores]: [f64; 2] = read_answer(child)?;
            Ok(HostSpeed { host: host.name.clone(), cores, relative: work / whole })
        })
        .collect()
}

/// Starts our own program on a host.
fn start_on(cluster: &EmulatedCluster, host: &str, args: &[&str]) -> Result<Child, ClusterError> {
    let program = cluster.program().as_os_str();
    let words = iter::once(program).chain(args.iter().map(OsStr::new));
    start_child(cluster.command(host, words)?)
}

fn start_child(mut command: Command) -> Result<Child, ClusterError> {
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command.spawn().during(format_args!("{command:?}"))
}

fn read_answer<T: DeserializeOwned>(child: Child) -> Result<T, ClusterError> {
    let output = wait_for_output(child)?;
    serde_json::from_slice(&output).during("a measurement")
}

fn wait_for_output(child: Child) -> Result<Vec<u8>, ClusterError> {
    let output = child.wait_with_output().during("a measurement")?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(ClusterError::Program {
        what: "a measurement".to_owned(),
        message: output.status.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ping_pong_ends_and_measures_both_ways() {
        let (sender, port) = std::sync::mpsc::channel();
        let server = std::thread::spawn(move || {
            answer_pings("127.0.0.1", |line| sender.send(line.to_owned()).unwrap())
        });
        let seconds = send_pings(&port.recv().unwrap(), 10, 300_000).unwrap();
        server.join().unwrap().unwrap();
        assert!(seconds.iter().all(|s| *s > 0.0), "{seconds:?}");
        assert!(seconds[0] <= seconds[1]);
    }
}
