//! Files of one name that several ranks see: one file, or different ones.

use serde::{Deserialize, Serialize};

use super::watched::{FileVersion, WatchedFile};

/// The identity of the running kernel. Every start of a machine has its own.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Reads the identity of the running kernel; empty if the system does not tell.
pub fn read_kernel_id() -> String {
    std::fs::read_to_string(BOOT_ID).unwrap_or_default().trim().to_owned()
}

/// A file that a rank sees, as other ranks compare it with theirs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenFile {
    kernel: String,
    device: u64,
    is_shared: bool,
    state: FileVersion,
}

impl From<&WatchedFile> for SeenFile {
    fn from(file: &WatchedFile) -> Self {
        Self {
            kernel: read_kernel_id(),
            device: file.device(),
            is_shared: file.file_system().is_shared(),
            state: file.state(),
        }
    }
}

impl SeenFile {
    /// Returns `true` if both are known to be one file.
    ///
    /// Files of one kernel are one if device and inode are. The device has other numbers on other hosts, so files of two
    /// hosts are known to be one only on a file system that hosts share, by inode, length and times. A copy has another time of
    /// change, which no program can set.
    pub fn is_known_to_be(&self, other: &Self) -> bool {
        if self.kernel == other.kernel && !self.kernel.is_empty() {
            self.device == other.device && self.state.inode() == other.state.inode()
        } else {
            self.is_shared && other.is_shared && self.state == other.state
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn see(path: &std::path::Path) -> SeenFile {
        SeenFile::from(&WatchedFile::open(path).unwrap())
    }

    #[test]
    fn files_of_one_kernel_are_one_by_device_and_inode() {
        let folder = tempfile::tempdir().unwrap();
        let [one, copy, link] = ["one", "copy", "link"].map(|name| folder.path().join(name));
        std::fs::write(&one, "content").unwrap();
        std::fs::copy(&one, &copy).unwrap();
        std::fs::hard_link(&one, &link).unwrap();
        let seen = see(&one);
        assert!(seen.is_known_to_be(&see(&one)) && see(&link).is_known_to_be(&seen));
        assert!(!see(&copy).is_known_to_be(&seen));
        let elsewhere = SeenFile { device: seen.device + 1, ..seen.clone() };
        assert!(!elsewhere.is_known_to_be(&seen));
    }

    #[test]
    fn files_of_two_kernels_are_one_only_where_hosts_share_them() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let here = SeenFile { kernel: "one".to_owned(), is_shared: true, ..see(file.path()) };
        let there =
            SeenFile { kernel: "other".to_owned(), device: here.device + 1, ..here.clone() };
        assert!(there.is_known_to_be(&here));
        let local = SeenFile { is_shared: false, ..there.clone() };
        assert!(!local.is_known_to_be(&here) && !here.is_known_to_be(&local));
        std::fs::write(file.path(), "changed").unwrap();
        let changed = SeenFile { state: see(file.path()).state, ..there };
        assert!(!changed.is_known_to_be(&here));
        // A system that does not tell its kernel is not known to be the same as another such system.
        let nameless = SeenFile { kernel: String::new(), is_shared: false, ..here };
        assert!(!nameless.is_known_to_be(&nameless.clone()));
    }
}
