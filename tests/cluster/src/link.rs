//! Network cards and the kernel's bridge, by `ip` and `tc`.

use std::fs::File;
use std::io::{self, Write};
use std::process::{Command, Stdio};

use crate::error::{ClusterError, During};
use crate::spec::Spec;
use crate::state::EmulatedHost;
use crate::switch::{MTU, OVERHEAD};
use crate::system;
use crate::units::Rate;

/// Name of the network card of every host.
pub(crate) const CARD: &str = "eth0";
/// Burst of a link after a pause, in bytes, and in seconds at its rate. A larger one would let short messages
/// pass as if there were no limit; one below a frame or two would let nothing pass.
const BURST: (f64, f64) = (32_768.0, 50e-6);
/// Largest queue of a link, in bytes.
const MAX_WAITING: usize = 64 << 20;

/// Joins the hosts by the kernel's bridge, each by a pair of virtual cards; run in the network of the bridge.
pub(crate) fn make_bridge(
    hosts: &[EmulatedHost],
    bandwidth: Option<Rate>,
) -> Result<(), ClusterError> {
    let mut lines = String::from("link add bridge0 type bridge\nlink set bridge0 up\n");
    for (idx, host) in hosts.iter().enumerate() {
        let pid = host.pid;
        lines += &format!(
            "link add port{idx} mtu {MTU} type veth peer name {CARD} mtu {MTU} netns {pid}\n\
             link set port{idx} master bridge0 up\n"
        );
    }
    run_batch("ip", &lines)?;
    match bandwidth {
        Some(rate) => {
            let ports = (0..hosts.len()).map(|idx| shaper_line(&format!("port{idx}"), rate));
            run_batch("tc", &ports.collect::<String>())
        }
        None => Ok(()),
    }
}

/// Cuts the link of host `idx` at the bridge, as if its cable were pulled; run in the network of the bridge.
pub(crate) fn cut_port(idx: usize) -> Result<(), ClusterError> {
    run_batch("ip", &format!("link set port{idx} down\n"))
}

/// Gives each host a network card; the returned files read and write its frames.
pub(crate) fn make_taps(hosts: &[EmulatedHost]) -> Result<Vec<File>, ClusterError> {
    let mut lines = String::new();
    let mut devices = Vec::new();
    for (idx, host) in hosts.iter().enumerate() {
        let name = format!("port{idx}");
        let missing =
            |error| ClusterError::Missing(format!("/dev/net/tun makes no network card ({error})"));
        devices.push(system::make_tap(&name).map_err(missing)?);
        lines += &format!("link set {name} netns {} name {CARD}\n", host.pid);
    }
    run_batch("ip", &lines)?;
    Ok(devices)
}

/// Puts this network's own cards into service; run in the network of a host.
pub(crate) fn set_up_card(address: &str, spec: &Spec) -> Result<(), ClusterError> {
    let lines =
        format!("link set lo up\nlink set {CARD} mtu {MTU} up\naddr add {address}/24 dev {CARD}\n");
    run_batch("ip", &lines)?;
    // Also in front of the switch: frames that wait here count against the sender's buffers, while frames that wait in
    // the device would be lost if there were too many.
    match spec.bandwidth {
        Some(rate) => run_batch("tc", &shaper_line(CARD, rate)),
        None => Ok(()),
    }
}

/// Returns the line by which `tc` limits the rate of `card`.
fn shaper_line(card: &str, rate: Rate) -> String {
    let bits_per_s = rate.bits_per_s();
    let burst = BURST.0.max(bits_per_s / 8.0 * BURST.1).ceil();
    format!(
        "qdisc replace dev {card} root tbf rate {bits_per_s:.0}bit burst {burst}b overhead {OVERHEAD} limit {MAX_WAITING}b\n"
    )
}

/// Runs `ip` or `tc` once for many lines.
fn run_batch(program: &str, lines: &str) -> Result<(), ClusterError> {
    let mut child = Command::new(program)
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| not_started(program, &error))?;
    if let Some(mut input) = child.stdin.take() {
        // If it stops reading, its status and its output say more.
        let _ = input.write_all(lines.as_bytes());
    }
    let output = child.wait_with_output().during(program)?;
    if output.status.success() {
        return Ok(());
    }
    // `Command failed -:3` tells the line.
    let said = String::from_utf8_lossy(&output.stderr);
    let at = said.lines().find_map(|line| line.split_once("failed -:"));
    let line = at
        .and_then(|(_, number)| number.trim().parse::<usize>().ok())
        .and_then(|number| lines.lines().nth(number - 1));
    Err(ClusterError::Missing(format!(
        "`{program} {}`: {}",
        line.unwrap_or_default(),
        said.lines().next().unwrap_or("failed")
    )))
}

/// Returns the error of a missing `ip` or `tc`.
pub(crate) fn not_started(program: &str, error: &io::Error) -> ClusterError {
    ClusterError::Missing(format!("`{program}` does not start ({error}); it is part of iproute2"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fast_link_may_send_more_at_once() {
        for (rate, expected) in [
            ("1gbit", " rate 1000000000bit burst 32768b "),
            ("10gbit", " rate 10000000000bit burst 62500b "),
        ] {
            let line = shaper_line("eth0", rate.parse().unwrap());
            assert!(line.contains(expected), "{line}");
        }
    }

    #[test]
    fn a_program_that_is_not_there_is_named_with_its_package() {
        let message = run_batch("no-such-ip", "").unwrap_err().to_string();
        assert!(message.contains("`no-such-ip`") && message.contains("iproute2"), "{message}");
    }
}
