//! The state of a cluster that is up, in a file that any process of the machine can read.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{ClusterError, During};
use crate::spec::Spec;

/// Folder of the clusters' files. It is empty after a start of the machine, which ends all clusters.
const FOLDER: &str = "/run/isochron-cluster";

/// Tries to make a folder in it while other clusters remove it.
const CREATION_TRIES: usize = 100;

/// A cluster that is up.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClusterState {
    /// Its specification.
    pub spec: Spec,
    /// The hosts, in order.
    pub hosts: Vec<EmulatedHost>,
}

/// One emulated host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmulatedHost {
    /// Its hostname, `iso-1` for the first.
    pub name: String,
    /// Its address on the cluster's network.
    pub address: String,
    /// The process that holds its namespaces.
    pub pid: u32,
    /// Its network namespace as the system names it, `net:[4026532251]`.
    pub network: String,
}

impl ClusterState {
    /// Returns the host called `name`.
    ///
    /// # Errors
    /// Returns [`ClusterError::Value`] if there is none.
    pub fn host(&self, name: &str) -> Result<&EmulatedHost, ClusterError> {
        Ok(&self.hosts[self.find_host(name)?])
    }

    /// Returns the index of the host called `name`.
    ///
    /// # Errors
    /// Returns [`ClusterError::Value`] if there is none.
    pub(crate) fn find_host(&self, name: &str) -> Result<usize, ClusterError> {
        self.hosts.iter().position(|host| host.name == name).ok_or_else(|| {
            let hosts = self.hosts.len();
            let reason = format!("the hosts of this cluster are iso-1 to iso-{hosts}");
            ClusterError::value("host", name, &reason)
        })
    }

    pub(crate) fn read(name: &str) -> Result<Self, ClusterError> {
        let file = cluster_folder(name).join("cluster.json");
        let text = match fs::read_to_string(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(ClusterError::NotUp(name.to_owned()));
            }
            text => text.during(file.display())?,
        };
        serde_json::from_str(&text).during(file.display())
    }

    pub(crate) fn write(&self) -> Result<(), ClusterError> {
        let file = cluster_folder(&self.spec.name).join("cluster.json");
        let text = serde_json::to_string_pretty(self).during(file.display())?;
        fs::write(&file, text).during(file.display())
    }
}

/// Returns the folder of cluster `name`.
pub(crate) fn cluster_folder(name: &str) -> PathBuf {
    Path::new(FOLDER).join(name)
}

/// Makes the folder of cluster `name`.
///
/// The one above it may go at any moment, with the last folder of another cluster, and is then made again.
pub(crate) fn create_folder(name: &str) -> Result<PathBuf, ClusterError> {
    let folder = cluster_folder(name);
    let mut tries = 1;
    loop {
        match fs::create_dir_all(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && tries < CREATION_TRIES => {
                tries += 1;
            }
            made => return made.during(folder.display()).map(|()| folder),
        }
    }
}

/// Removes the folder of cluster `name`, and the one above it with the last.
pub(crate) fn remove_folder(name: &str) -> Result<(), ClusterError> {
    let folder = cluster_folder(name);
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(error).during(folder.display());
        }
        _ => {}
    }
    // The system refuses it while other clusters have folders in it.
    let _ = fs::remove_dir(FOLDER);
    Ok(())
}

/// Lists the names of all clusters that have a folder.
pub(crate) fn list_names() -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(FOLDER)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// Returns the network namespace of a process as the system names it.
pub(crate) fn network_of(pid: u32) -> io::Result<String> {
    Ok(fs::read_link(format!("/proc/{pid}/ns/net"))?.to_string_lossy().into_owned())
}
