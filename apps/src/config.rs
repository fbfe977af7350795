//! `isochron config`: a platform file of the hosts of a job.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use isochron_core::Error;
use isochron_core::comm::{Comm, agree};
use isochron_core::internal::{FoundDevices, measure_network};
use isochron_devices::{Grouping, Topology};
use isochron_hierarchy::printable::show_name;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::named_values::name_all;
use crate::output::{self, Answer, escape_toml};

/// The rule by which devices are made, and the file.
#[derive(Args)]
pub struct ConfigArguments {
    /// Cores that form one device: auto (by NUMA domain and kind), package, numa, kind or node
    #[arg(long, default_value_t = Grouping::default())]
    #[arg(value_parser = name_all::<Grouping>(), hide_possible_values = true)]
    group: Grouping,
    /// Measure the network between the ranks too, for `isochron plan`
    #[arg(long)]
    network: bool,
    /// File for the platform [default: standard output]
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    out: Option<PathBuf>,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// Seconds of a run for which the network is measured as precisely as `mxm` would.
const RUN_S: f64 = 60.0;

/// A rank's node, as it tells the head rank.
#[derive(Serialize, Deserialize)]
struct FoundNode {
    host: String,
    devices: Vec<FoundDevice>,
}

/// A device of a node.
#[derive(Serialize, Deserialize)]
struct FoundDevice {
    name: String,
    /// Its logical cores.
    cores: Vec<u32>,
    /// `true` if it has these cores for itself.
    pinned: bool,
    /// The number and the model of a GPU.
    gpu: Option<(usize, String)>,
}

/// Describes the nodes of the job in a platform file: the devices that each rank would have without one.
///
/// # Collective
/// All ranks.
pub fn run(comm: &dyn Comm, arguments: &ConfigArguments) -> Result<Option<Answer>, Failure> {
    let file = match comm.rank() {
        0 => output::create_file(arguments.out.as_deref()),
        _ => Ok(None),
    };
    let file = agree(comm, file)?;
    let topology = agree(comm, Topology::discover().map_err(Error::from))?;
    let found = FoundDevices::find(comm, &topology, arguments.group)?;
    let network = if arguments.network {
        measure_network(comm, RUN_S, found.find_message_cost(comm, &topology)?)?
    } else {
        None
    };
    let nodes = comm.gather(&FoundNode::new(comm.host_name(), found))?;
    if comm.rank() > 0 {
        return Ok(None);
    }
    let mut text = write_platform(&nodes);
    if let Some(network) = &network {
        text += "\n";
        text += &toml::to_string(&json!({ "network": network })).map_err(Failure::run)?;
    }
    let is_printed = arguments.json || file.is_none();
    if let Some(file) = file {
        file.fill(&text)?;
    }
    if !is_printed {
        return Ok(None);
    }
    let answer = if arguments.json {
        let mut document = make_document(&nodes);
        if let Some(network) = network {
            document["network"] = json!(network);
        }
        Answer::new(true, &document, |_| String::new())?
    } else {
        // The names in a platform file are whole.
        Answer::document(text)
    };
    Ok(Some(answer))
}

impl FoundNode {
    fn new(host: &str, found: FoundDevices) -> Self {
        let FoundDevices { devices, gpus } = found;
        let groups = devices.groups.into_iter().map(|group| FoundDevice {
            name: group.name,
            cores: group.cores.iter().map(|core| core.core).collect(),
            pinned: group.pin,
            gpu: None,
        });
        let hosts = devices.gpus.iter().map(|host| {
            let gpu = &gpus[host.gpu];
            FoundDevice {
                name: format!("cuda{}", gpu.ordinal),
                cores: vec![host.core.core],
                pinned: host.pin,
                gpu: Some((gpu.ordinal, gpu.name.clone())),
            }
        });
        Self { host: host.to_owned(), devices: groups.chain(hosts).collect() }
    }
}

impl FoundDevice {
    /// Returns its cores as a platform file names them: their numbers, or how many they are if others have them as well.
    fn describe_cores(&self) -> Value {
        if self.pinned { json!(self.cores) } else { json!(self.cores.len()) }
    }
}

/// Writes a name as a string of TOML.
fn quote(name: &str) -> String {
    escape_toml(&json!(name).to_string()).into_owned()
}

/// Writes the platform in TOML, whose strings and lists of numbers are those of JSON.
fn write_platform(nodes: &[FoundNode]) -> String {
    let mut text =
        "# The devices that each rank has without a platform file. Edit them, or add `pace`.\n\
                    # The ranks of a host get its nodes, in this order.\n\
                    schema = 1\n"
            .to_owned();
    for (rank, node) in nodes.iter().enumerate() {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n[[node]] # rank {rank}\nhost = {}\n", quote(&node.host));
        for device in &node.devices {
            let _ = write!(text, "\n[[node.device]]\nname = {}\n", quote(&device.name));
            if let Some((ordinal, model)) = &device.gpu {
                let model = show_name(model);
                let _ = write!(text, "kind = \"cuda\"\ngpu = {ordinal} # {model}\n");
            }
            let _ = writeln!(text, "cores = {}", device.describe_cores());
        }
    }
    text
}

/// Makes the same platform as a document for scripts.
fn make_document(nodes: &[FoundNode]) -> Value {
    let nodes = nodes.iter().map(|node| {
        let devices = node.devices.iter().map(|device| {
            let mut entry = json!({"name": device.name, "cores": device.describe_cores()});
            if let Some((ordinal, _)) = &device.gpu {
                entry["kind"] = json!("cuda");
                entry["gpu"] = json!(ordinal);
            }
            entry
        });
        json!({"host": node.host, "device": devices.collect::<Vec<_>>()})
    });
    json!({"schema": 1, "node": nodes.collect::<Vec<_>>()})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_that_others_have_as_well_are_a_number_and_gpus_have_theirs() {
        let device = |name: &str, pinned, gpu| FoundDevice {
            name: name.to_owned(),
            cores: vec![2, 3],
            pinned,
            gpu,
        };
        let node = FoundNode {
            host: "a \"host\"".to_owned(),
            devices: vec![
                device("cpu0", true, None),
                device("cpu1", false, None),
                device("cuda1", true, Some((1, "NVIDIA\nH200".to_owned()))),
            ],
        };
        let text = write_platform(&[node]);
        for part in [
            "host = \"a \\\"host\\\"\"\n",
            "cores = [2,3]\n",
            "cores = 2\n",
            "kind = \"cuda\"\ngpu = 1 # NVIDIA\\nH200\ncores = [2,3]\n",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}
