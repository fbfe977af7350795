//! The datagrams between the ranks' watchers.
//!
//! MPI cannot be used: another thread calls it, and it is what hangs. Datagrams need no connections. The head rank of a large
//! job needs one socket, a lost datagram is followed by the next, and nothing blocks. Each rank sends a sign every second to the
//! head, which sends its own to all.
//!
//! Between hosts a rank listens on all its addresses. It must tell its port before it knows the others, and only their signs show
//! which network passes datagrams. The keyed code protects the job, not the address.
//!
//! A rank behind a translation of addresses is heard and watched, and hears nothing. A datagram goes to all addresses of a rank,
//! and the first one counts.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher24;

use super::judge::HEAD;
use super::process::read_numbering;
use super::sign::{MOST_BYTES, SECRET_BYTES, Sign, Word};

/// Copies of a datagram that is not sent again later.
const COPIES: usize = 3;
/// Most datagrams that are received at once: a flood does not keep the watcher from its other work.
const MOST_AT_ONCE: usize = 64;

/// A rank as the others have to know it. It cannot be printed, since it holds the secret.
#[derive(Clone, Serialize, Deserialize)]
pub struct Peer {
    pub host: String,
    pub process: u32,
    /// Identity of the numbers of processes there.
    pub numbering: String,
    addresses: Vec<SocketAddr>,
    /// The head rank's is that of the job.
    secret: [u8; SECRET_BYTES],
}

/// A socket that is known to no other rank yet.
#[derive(Debug)]
pub struct Endpoint(Option<UdpSocket>);

/// The socket of a rank that knows the others. It has the secret, and is not printed.
pub struct Channel {
    socket: UdpSocket,
    is_v6: bool,
    me: usize,
    secret: SipHasher24,
    /// The number of this rank's last datagram.
    counter: u64,
    /// `true` once a look has found no more datagrams.
    is_drained: bool,
    contacts: Vec<Contact>,
}

/// A rank as this one reaches and hears it.
#[derive(Debug)]
struct Contact {
    addresses: Vec<SocketAddr>,
    /// The number of its last datagram.
    counter: u64,
}

impl Peer {
    /// Returns `true` if the ranks' processes have numbers of the same host and container.
    pub fn has_processes_of(&self, other: &Self) -> bool {
        self.host == other.host && self.numbering == other.numbering
    }
}

impl Endpoint {
    /// Opens a socket, which no other host reaches if all ranks are on this one. Between hosts any of their networks may be the
    /// one that lets datagrams pass. Where no socket can be had, the rank is watched by itself only.
    pub fn open(is_local: bool) -> Self {
        let socket = if is_local {
            UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))
        } else {
            UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))
                .or_else(|_| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)))
        };
        Self(socket.ok())
    }

    /// Describes this rank, which runs on `host`.
    pub fn describe(&self, host: &str) -> Peer {
        let bound = self.0.as_ref().and_then(|socket| socket.local_addr().ok());
        let addresses = match bound {
            Some(bound) if bound.ip().is_loopback() => vec![bound.ip()],
            _ => list_addresses(),
        };
        let on_port = |address| Some(SocketAddr::new(address, bound?.port()));
        Peer {
            host: host.to_owned(),
            process: std::process::id(),
            numbering: read_numbering(),
            addresses: addresses.into_iter().filter_map(on_port).collect(),
            secret: read_secret().unwrap_or_default(),
        }
    }

    /// Makes the channel of rank `me`; `None` if this rank has no socket, or the head rank has no secret.
    pub fn join(self, peers: &[Peer], me: usize) -> Option<Channel> {
        if peers[0].secret == <[u8; SECRET_BYTES]>::default() {
            return None;
        }
        let socket = self.0?;
        socket.set_nonblocking(true).ok()?;
        let contacts = peers
            .iter()
            .map(|peer| Contact { addresses: list_reachable(peer, &peers[me]), counter: 0 });
        Some(Channel {
            is_v6: socket.local_addr().ok()?.is_ipv6(),
            socket,
            me,
            secret: SipHasher24::new_with_key(&peers[0].secret),
            counter: 0,
            is_drained: true,
            contacts: contacts.collect(),
        })
    }
}

impl Channel {
    /// The socket, for those who wait until a datagram comes.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Receives the words of this job that have come, or the first ones of many.
    pub fn receive(&mut self) -> Vec<Word> {
        let mut bytes = [0; MOST_BYTES];
        let mut words = Vec::new();
        for _ in 0..MOST_AT_ONCE {
            match self.socket.recv_from(&mut bytes) {
                Ok((count, _)) => words.extend(self.accept(&bytes[..count])),
                // Nobody listens where a datagram was sent.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(_) => {
                    self.is_drained = true;
                    break;
                }
            }
        }
        words
    }

    /// Returns `true` if all datagrams were read at one time since the last call. Under a flood the system drops signs.
    pub fn take_drained(&mut self) -> bool {
        std::mem::take(&mut self.is_drained)
    }

    /// Reads a datagram; `None` if it is no word of this job, or came before.
    fn accept(&mut self, bytes: &[u8]) -> Option<Word> {
        let word = Word::decode(bytes, &self.secret)?;
        let contact = self.contacts.get_mut(word.rank)?;
        if word.rank == self.me || word.counter <= contact.counter {
            return None;
        }
        contact.counter = word.counter;
        Some(word)
    }

    /// Sends this rank's sign to the head, and that of the head to all ranks.
    pub fn send_sign(&mut self, sign: &Sign) {
        self.send(sign, false, &self.list_addresses(false));
    }

    /// Sends a sign that no other one follows soon, the first or the last one, or the end of the job, which goes to all ranks.
    pub fn send_once(&mut self, sign: &Sign, ends_job: bool) {
        let addresses = self.list_addresses(ends_job);
        for _ in 0..COPIES {
            self.send(sign, ends_job, &addresses);
        }
    }

    /// Lists the addresses of the head, or of all ranks, to which the head sends.
    fn list_addresses(&self, of_all: bool) -> Vec<SocketAddr> {
        let ranks = (0..self.contacts.len()).filter(|&rank| rank != self.me);
        let ranks = ranks.filter(|&rank| of_all || self.me == HEAD || rank == HEAD);
        ranks.flat_map(|rank| &self.contacts[rank].addresses).copied().collect()
    }

    fn send(&mut self, sign: &Sign, ends_job: bool, addresses: &[SocketAddr]) {
        self.counter += 1;
        let word = Word { rank: self.me, counter: self.counter, sign: *sign, ends_job };
        let bytes = word.encode(&self.secret);
        for &to in addresses {
            let to = match to.ip() {
                IpAddr::V4(address) if self.is_v6 => {
                    SocketAddr::new(address.to_ipv6_mapped().into(), to.port())
                }
                _ => to,
            };
            // The next one says as much.
            let _ = self.socket.send_to(&bytes, to);
        }
    }
}

/// Reads random bytes.
fn read_secret() -> io::Result<[u8; SECRET_BYTES]> {
    let mut secret = [0; SECRET_BYTES];
    io::Read::read_exact(&mut fs::File::open("/dev/urandom")?, &mut secret)?;
    Ok(secret)
}

/// Lists the addresses of a rank that another one can reach: those of its own host on that host only.
fn list_reachable(of: &Peer, from: &Peer) -> Vec<SocketAddr> {
    let is_same = of.host == from.host;
    of.addresses.iter().copied().filter(|address| is_same || !address.ip().is_loopback()).collect()
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
    let fields = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    fields
        .filter(|fields| fields.get(3) == Some(&"00"))
        .filter_map(|fields| u128::from_str_radix(fields[0], 16).ok())
        .map(|bits| Ipv6Addr::from_bits(bits).into())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::activity::Activity;
    use super::super::pulse::{Pulse, QUIET_S};
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

    /// Makes the channels of two ranks of a host, with the address of the first one and a sign.
    fn join_pair() -> ([Channel; 2], SocketAddr, Sign) {
        let [head, other] = [(); 2].map(|()| Endpoint::open(true));
        let peers = [&head, &other].map(|endpoint| endpoint.describe("a"));
        let channels =
            [(head, 0), (other, 1)].map(|(endpoint, me)| endpoint.join(&peers, me).unwrap());
        let sign = Pulse::new(QUIET_S).beat(1.0, Activity::default(), || 0.0);
        (channels, peers[0].addresses[0], sign)
    }

    /// Receives until a word comes.
    fn wait_for_word(channel: &mut Channel) -> Word {
        loop {
            if let Some(word) = channel.receive().pop() {
                return word;
            }
        }
    }

    /// An eavesdropper sends again what it has seen, before and after the word itself; a stranger sends what it likes.
    #[test]
    fn ranks_hear_each_other_and_nobody_else() {
        let ([mut head, mut other], address, sign) = join_pair();
        assert_eq!(head.socket.local_addr().unwrap(), address);
        assert!(address.ip().is_loopback(), "{address}");
        let stranger = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let send = |bytes: &[u8]| stranger.send_to(bytes, address).unwrap();
        for counter in 1..=20 {
            let word = Word { rank: 1, counter, sign, ends_job: false };
            let seen = word.encode(&other.secret);
            let is_faster = counter % 3 == 0;
            if is_faster {
                send(&seen);
                assert_eq!(wait_for_word(&mut head), word);
            }
            other.send_sign(&sign);
            if !is_faster {
                assert_eq!(wait_for_word(&mut head), word);
                head.send_sign(&sign);
                assert_eq!(wait_for_word(&mut other).rank, HEAD);
            }
            send(&seen);
            for bit in 0..8 {
                let mut forged = seen.clone();
                forged[counter as usize] ^= 1 << bit;
                send(&forged);
            }
            assert_eq!(head.receive(), []);
        }
    }

    #[test]
    fn a_flood_is_taken_in_by_parts() {
        let ([mut head, mut other], address, sign) = join_pair();
        for _ in 0..2 * MOST_AT_ONCE {
            other.socket.send_to(b"flood", address).unwrap();
        }
        other.send_sign(&sign);
        head.take_drained();
        for _ in 0..2 {
            assert_eq!(head.receive(), []);
            assert!(!head.take_drained());
        }
        wait_for_word(&mut head);
        assert!(head.take_drained());
    }
}
