//! The datagrams between the ranks' watchers.
//!
//! MPI cannot be used: another thread calls it, and it is what hangs. Datagrams need no connections, so the head rank of a large
//! job needs one socket, a lost one is followed by the next, and nothing blocks. Each rank sends a sign every second to the
//! speakers, which answer with their own.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use serde::{Deserialize, Serialize};

use super::process::read_numbering;
use super::sign::{Sign, TOKEN_BYTES, WORD_BYTES, Word};

/// Seconds without a sign of a speaker after which it is sought at all its addresses.
const SEEK_S: f64 = 4.0;
/// Copies of a datagram that is not sent again later.
const COPIES: usize = 3;

/// A rank as the others have to know it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Peer {
    pub host: String,
    pub process: u32,
    /// Identity of the numbers of processes there.
    pub numbering: String,
    addresses: Vec<SocketAddr>,
    /// The head rank's is that of the job.
    token: [u8; TOKEN_BYTES],
}

/// A socket that is known to no other rank yet.
#[derive(Debug)]
pub struct Endpoint {
    socket: Option<UdpSocket>,
    is_v6: bool,
}

/// The socket of a rank that knows the others.
#[derive(Debug)]
pub struct Channel {
    socket: UdpSocket,
    is_v6: bool,
    me: usize,
    token: [u8; TOKEN_BYTES],
    speakers: Vec<Speaker>,
    /// The address from which each rank's last sign came.
    known: Vec<Option<SocketAddr>>,
}

/// The head rank or the deputy.
#[derive(Debug)]
struct Speaker {
    rank: usize,
    addresses: Vec<SocketAddr>,
    /// Seconds since its last sign.
    silent_s: f64,
}

impl Peer {
    /// Returns `true` if the ranks' processes have numbers of the same host and container.
    pub fn has_processes_of(&self, other: &Self) -> bool {
        self.host == other.host && self.numbering == other.numbering
    }
}

impl Endpoint {
    /// Opens a socket. Where none can be had, the rank is watched by itself only.
    pub fn open() -> Self {
        let v6 = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0));
        let is_v6 = v6.is_ok();
        let socket = v6.or_else(|_| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)));
        let socket = socket.and_then(|socket| socket.set_nonblocking(true).map(|()| socket));
        Self {
            socket: socket.ok(),
            is_v6,
        }
    }

    /// Describes this rank, which runs on `host`.
    pub fn describe(&self, host: &str) -> Peer {
        let socket = self.socket.as_ref();
        let port = socket
            .and_then(|socket| socket.local_addr().ok())
            .map(|address| address.port());
        let addresses = list_addresses().into_iter();
        Peer {
            host: host.to_owned(),
            process: std::process::id(),
            numbering: read_numbering(),
            addresses: port
                .map(|port| {
                    addresses
                        .map(|address| SocketAddr::new(address, port))
                        .collect()
                })
                .unwrap_or_default(),
            token: read_token().unwrap_or_default(),
        }
    }

    /// Makes the channel of rank `me`; `None` if this rank has no socket, or the head rank has no secret.
    pub fn join(self, peers: &[Peer], me: usize, speakers: &[usize]) -> Option<Channel> {
        if peers[0].token == <[u8; TOKEN_BYTES]>::default() {
            return None;
        }
        let others = speakers.iter().filter(|&&rank| rank != me);
        Some(Channel {
            socket: self.socket?,
            is_v6: self.is_v6,
            me,
            token: peers[0].token,
            speakers: others
                .map(|&rank| Speaker {
                    rank,
                    addresses: list_reachable(&peers[rank], &peers[me]),
                    silent_s: f64::INFINITY,
                })
                .collect(),
            known: vec![None; peers.len()],
        })
    }
}

impl Channel {
    /// The socket, for those who wait until a datagram comes.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Receives a datagram of this job; `None` if there is no more. The speakers answer with `own`, their last sign.
    pub fn receive(&mut self, own: Option<&Sign>, is_speaker: bool) -> Option<Word> {
        // One byte more, so that longer ones are not taken for words.
        let mut bytes = [0; WORD_BYTES + 1];
        loop {
            let (count, from) = match self.socket.recv_from(&mut bytes) {
                Ok(received) => received,
                // Nobody listens where a datagram was sent.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
                Err(_) => return None,
            };
            let word = Word::decode(&bytes[..count], &self.token);
            let Some(word) = word.filter(|word| (word.rank as usize) < self.known.len()) else {
                continue;
            };
            let rank = word.rank as usize;
            self.known[rank] = Some(from);
            match self
                .speakers
                .iter_mut()
                .find(|speaker| speaker.rank == rank)
            {
                Some(speaker) => speaker.silent_s = 0.0,
                None if is_speaker && !word.sign.has_ended => {
                    if let Some(own) = own {
                        self.send(own, false, from);
                    }
                }
                None => {}
            }
            return Some(word);
        }
    }

    /// Sends this rank's sign to the speakers, `elapsed_s` after the last time.
    pub fn send_sign(&mut self, sign: &Sign, elapsed_s: f64) {
        for speaker in &mut self.speakers {
            speaker.silent_s += elapsed_s;
        }
        for speaker in &self.speakers {
            match self.known[speaker.rank].filter(|_| speaker.silent_s < SEEK_S) {
                Some(address) => self.send(sign, false, address),
                None => {
                    for &address in &speaker.addresses {
                        self.send(sign, false, address);
                    }
                }
            }
        }
    }

    /// Sends a sign that no other one follows soon, to all ranks that are known: the first or the last one, or the end of the job.
    pub fn send_once(&self, sign: &Sign, ends_job: bool) {
        let sought = self
            .speakers
            .iter()
            .filter(|speaker| self.known[speaker.rank].is_none())
            .flat_map(|speaker| speaker.addresses.iter().copied());
        let addresses: Vec<_> = self.known.iter().flatten().copied().chain(sought).collect();
        for _ in 0..COPIES {
            for &address in &addresses {
                self.send(sign, ends_job, address);
            }
        }
    }

    fn send(&self, sign: &Sign, ends_job: bool, to: SocketAddr) {
        let word = Word {
            rank: self.me as u32,
            sign: *sign,
            ends_job,
        };
        let to = match to.ip() {
            IpAddr::V4(address) if self.is_v6 => {
                SocketAddr::new(address.to_ipv6_mapped().into(), to.port())
            }
            _ => to,
        };
        // The next one says as much.
        let _ = self.socket.send_to(&word.encode(&self.token), to);
    }
}

/// Reads random bytes.
fn read_token() -> io::Result<[u8; TOKEN_BYTES]> {
    let mut token = [0; TOKEN_BYTES];
    io::Read::read_exact(&mut fs::File::open("/dev/urandom")?, &mut token)?;
    Ok(token)
}

/// Lists the addresses of a rank that another one can reach: those of its own host on that host only.
fn list_reachable(of: &Peer, from: &Peer) -> Vec<SocketAddr> {
    let is_same = of.host == from.host;
    of.addresses
        .iter()
        .copied()
        .filter(|address| is_same || !address.ip().is_loopback())
        .collect()
}

/// Lists the addresses of this host, as far as the system tells.
fn list_addresses() -> Vec<IpAddr> {
    let v4 = fs::read_to_string("/proc/net/fib_trie").unwrap_or_default();
    let v6 = fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
    let mut addresses = vec![IpAddr::V4(Ipv4Addr::LOCALHOST)];
    for address in parse_v4(&v4).into_iter().chain(parse_v6(&v6)) {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    addresses
}

/// Reads the local addresses of the table of routes: the leaves of the tree, each followed by its kinds.
fn parse_v4(text: &str) -> Vec<IpAddr> {
    let lines = text.lines().map(str::trim);
    lines
        .clone()
        .zip(lines.skip(1))
        .filter(|(_, kind)| kind.ends_with("host LOCAL"))
        .filter_map(|(leaf, _)| leaf.strip_prefix("|-- ")?.parse().ok())
        .map(IpAddr::V4)
        .collect()
}

/// Reads the addresses that are valid beyond their link.
fn parse_v6(text: &str) -> Vec<IpAddr> {
    let fields = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    fields
        .filter(|fields| fields.get(3) == Some(&"00"))
        .filter_map(|fields| u128::from_str_radix(fields[0], 16).ok())
        .map(|bits| Ipv6Addr::from_bits(bits).into())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::activity::Activity;
    use super::super::pulse::{ProcessWork, Pulse, QUIET_S};
    use super::*;

    #[test]
    fn addresses_are_read_from_the_tables_of_the_system() {
        let text = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n     |-- 10.0.0.0\n        /24 link \
                    UNICAST\n     |-- 10.0.0.7\n        /32 host LOCAL\n     |-- 10.0.0.255\n        /32 link BROADCAST\n";
        assert_eq!(parse_v4(text), [IpAddr::V4(Ipv4Addr::new(10, 0, 0, 7))]);
        let text = "fe800000000000000000000000000001 02 40 20 80 eth0\n20010db8000000000000000000000001 02 40 00 80 eth0\n";
        let global: IpAddr = "2001:db8::1".parse().unwrap();
        assert_eq!(parse_v6(text), [global]);
    }

    #[test]
    fn ranks_hear_each_other_and_nobody_else() {
        let [head, other, stranger] = [(); 3].map(|()| Endpoint::open());
        let describe = |endpoint: &Endpoint| endpoint.describe("a");
        let peers = [describe(&head), describe(&other)];
        let strangers = [describe(&stranger), peers[0].clone()];
        let sign = Pulse::new(QUIET_S).beat(1.0, Activity::default(), ProcessWork::default);
        let speakers = [0, 1];
        let mut channels = [(head, 0), (other, 1)]
            .map(|(endpoint, me)| endpoint.join(&peers, me, &speakers).unwrap());
        let mut intruder = stranger.join(&strangers, 0, &speakers).unwrap();
        for _ in 0..2 {
            intruder.send_sign(&sign, 1.0);
            channels[1].send_sign(&sign, 1.0);
            // Only the datagram of the job arrives.
            let word = loop {
                if let Some(word) = channels[0].receive(Some(&sign), true) {
                    break word;
                }
            };
            assert_eq!((word.rank, word.sign), (1, sign));
        }
    }
}
