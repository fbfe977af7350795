//! The process in the background that makes a cluster, holds its hosts and is its switch.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::thread::UnshareFlags;

use crate::cluster::remove_remains;
use crate::error::{ClusterError, During};
use crate::groups::{Groups, SWITCH};
use crate::host;
use crate::launch::write_agent;
use crate::link;
use crate::spec::Spec;
use crate::state::{ClusterState, EmulatedHost, create_folder, network_of};
use crate::switch::{Switch, serve_frames};
use crate::system;

/// A host's process, which ends when `input` is closed.
struct HostProcess {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// Makes the cluster, says `ready`, and holds it until this process is ended, or with `tied` until standard input ends.
///
/// `program` is the command `isochron-cluster`.
///
/// # Errors
/// Returns [`ClusterError::Missing`] if the system refuses; nothing is left of the cluster then.
pub fn keep_cluster(
    spec: &Spec,
    program: &Path,
    tied: bool,
    say: impl FnOnce(&str),
) -> Result<(), ClusterError> {
    let groups = Groups::of_cluster(&spec.name)?;
    let hosts: Vec<_> =
        (0..spec.n_hosts).map(|idx| (host::host_name(idx), spec.quota(idx))).collect();
    groups.claim(&spec.name)?;
    let made = groups
        .create(&hosts)
        .and_then(|()| groups.join(SWITCH))
        .and_then(|()| make_cluster(spec, program));
    let (holders, devices) = match made {
        Ok(made) => made,
        Err(error) => {
            // The removal may fail too; the first error is reported.
            let _ = groups.leave().and_then(|()| remove_remains(&spec.name));
            return Err(error);
        }
    };
    if tied {
        let name = spec.name.clone();
        std::thread::spawn(move || end_with_input(&name));
    }
    say("ready");
    hold_hosts(spec, holders, devices)
}

/// Makes the hosts and their network.
fn make_cluster(
    spec: &Spec,
    program: &Path,
) -> Result<(Vec<HostProcess>, Vec<File>), ClusterError> {
    let folder = create_folder(&spec.name)?;
    host::write_hosts(spec.n_hosts, &folder.join("hosts"))?;
    write_agent(&spec.name, program)?;
    system::leave_namespaces(UnshareFlags::NEWNET)
        .map_err(|error| ClusterError::Missing(format!("namespaces cannot be made ({error})")))?;
    let mut holders = start_hosts(spec, program)?;
    let hosts = describe_hosts(&holders)?;
    let devices = if spec.needs_switch() {
        link::make_taps(&hosts)?
    } else {
        link::make_bridge(&hosts, spec.bandwidth)?;
        Vec::new()
    };
    for holder in &mut holders {
        holder.input.write_all(b"linked\n").during("a host")?;
        expect_line("ready", &mut holder.output)?;
    }
    let state = ClusterState { spec: spec.clone(), hosts };
    state.write()?;
    Ok((holders, devices))
}

fn start_hosts(spec: &Spec, program: &Path) -> Result<Vec<HostProcess>, ClusterError> {
    let text = serde_json::to_string(spec).during("the cluster")?;
    // All of them make their namespaces while we wait for the first.
    let mut holders: Vec<_> = (0..spec.n_hosts)
        .map(|idx| start_host(&text, idx, program))
        .collect::<Result<_, ClusterError>>()?;
    for holder in &mut holders {
        expect_line("made", &mut holder.output)?;
    }
    Ok(holders)
}

fn start_host(spec: &str, idx: usize, program: &Path) -> Result<HostProcess, ClusterError> {
    let mut child = Command::new(program)
        .args(["host", spec, &idx.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .during(program.display())?;
    let pipes = child.stdin.take().zip(child.stdout.take());
    let (input, output) = pipes.ok_or_else(|| ClusterError::Program {
        what: program.display().to_string(),
        message: "has no standard input and output".to_owned(),
    })?;
    Ok(HostProcess { child, input, output: BufReader::new(output) })
}

fn describe_hosts(holders: &[HostProcess]) -> Result<Vec<EmulatedHost>, ClusterError> {
    holders
        .iter()
        .enumerate()
        .map(|(idx, holder)| {
            let pid = holder.child.id();
            Ok(EmulatedHost {
                name: host::host_name(idx),
                address: host::host_address(idx),
                pid,
                network: network_of(pid).during(format_args!("/proc/{pid}/ns/net"))?,
            })
        })
        .collect()
}

/// Reads a line, which must be `word`. Any other line is the reason why a process of ours could not go on.
pub(crate) fn expect_line(word: &str, output: &mut impl BufRead) -> Result<(), ClusterError> {
    let mut line = String::new();
    output.read_line(&mut line).during("isochron-cluster")?;
    match line.trim_end() {
        line if line == word => Ok(()),
        line => Err(match line.strip_prefix(MISSING) {
            Some(what) => ClusterError::Missing(what.to_owned()),
            None => ClusterError::Program {
                what: "isochron-cluster".to_owned(),
                message: if line.is_empty() { "ended early" } else { line }.to_owned(),
            },
        }),
    }
}

/// Start of the line by which a process of ours says that the machine cannot emulate hosts.
const MISSING: &str = "missing: ";

/// Returns the line by which a process of ours tells another one why it ends.
pub fn farewell_line(error: &ClusterError) -> String {
    let line = match error {
        ClusterError::Missing(what) => format!("{MISSING}{what}"),
        error => error.to_string(),
    };
    line.replace('\n', " ")
}

/// Forwards frames for ever, or just waits for ever if the kernel's bridge forwards them.
fn hold_hosts(
    spec: &Spec,
    holders: Vec<HostProcess>,
    devices: Vec<File>,
) -> Result<(), ClusterError> {
    if devices.is_empty() {
        loop {
            std::thread::park();
        }
    }
    let switch = Switch::of_spec(spec);
    let outcome = serve_frames(switch, devices).during("the switch");
    drop(holders);
    outcome
}

/// Takes the cluster down when its owner has ended without doing so.
fn end_with_input(name: &str) {
    let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
    let gone = Groups::of_cluster(name)
        .and_then(|groups| groups.leave())
        .and_then(|()| remove_remains(name));
    std::process::exit(i32::from(gone.is_err()));
}
