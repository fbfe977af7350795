//! Files of one name that several ranks see: one file, or different ones.

use std::io;
use std::os::unix::fs::MetadataExt as _;

use rustix::fs::fstatfs;
use serde::{Deserialize, Serialize};

use super::watched::WatchedFile;

/// The identity of the running kernel. Every start of a machine has its own.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// File systems in which all hosts find the same inode numbers and times: NFS, Lustre, GPFS, BeeGFS, CephFS, CIFS, SMB2, PanFS,
/// GFS2, OCFS2 and OrangeFS.
const SHARED: [u32; 11] = [
    0x6969,
    0x0bd0_0bd0,
    0x4750_4653,
    0x1983_0326,
    0x00c3_6400,
    0xff53_4d42,
    0xfe53_4d42,
    0xaad7_aaea,
    0x0116_1970,
    0x7461_636f,
    0x2003_0528,
];

/// Reads the identity of the running kernel; empty if the system does not tell.
pub fn read_kernel_id() -> String {
    std::fs::read_to_string(BOOT_ID).unwrap_or_default().trim().to_owned()
}

/// A file that a rank sees, as other ranks compare it with theirs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SeenFile {
    kernel: String,
    device: u64,
    inode: u64,
    /// Length, and times of the last change of content and status, on a file system that hosts share.
    shared_state: Option<[i64; 5]>,
}

impl SeenFile {
    /// Looks at a file.
    ///
    /// # Errors
    /// Fails if the system does not tell the state of the file.
    pub(super) fn of(file: &WatchedFile) -> io::Result<Self> {
        let metadata = file.file().metadata()?;
        let is_shared = fstatfs(file.file()).is_ok_and(|it| SHARED.contains(&(it.f_type as u32)));
        let state = [
            file.len().cast_signed(),
            metadata.mtime(),
            metadata.mtime_nsec(),
            metadata.ctime(),
            metadata.ctime_nsec(),
        ];
        Ok(Self {
            kernel: read_kernel_id(),
            device: metadata.dev(),
            inode: metadata.ino(),
            shared_state: is_shared.then_some(state),
        })
    }

    /// Returns `true` if both are known to be one file.
    ///
    /// Files of one kernel are one if device and inode are. The device has other numbers on other hosts, so files of two
    /// hosts are known to be one only on a file system that hosts share, by inode, length and times. A copy has another time of
    /// change, which no program can set.
    pub(super) fn is_known_to_be(&self, other: &Self) -> bool {
        let is_here = self.kernel == other.kernel && !self.kernel.is_empty();
        let is_same =
            if is_here { self.device == other.device } else { self.shared_state.is_some() };
        is_same && self.inode == other.inode && self.shared_state == other.shared_state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn see(path: &std::path::Path) -> SeenFile {
        SeenFile::of(&WatchedFile::open(path).unwrap()).unwrap()
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
        let state = Some([7, 1, 2, 3, 4]);
        let here = SeenFile { kernel: "one".to_owned(), shared_state: state, ..see(file.path()) };
        let there =
            SeenFile { kernel: "other".to_owned(), device: here.device + 1, ..here.clone() };
        assert!(there.is_known_to_be(&here));
        for shared_state in [None, Some([7, 1, 2, 3, 5])] {
            let other = SeenFile { shared_state, ..there.clone() };
            assert!(!other.is_known_to_be(&here) && !here.is_known_to_be(&other));
        }
        // A system that does not tell its kernel is not known to be the same as another such system.
        let nameless = SeenFile { kernel: String::new(), shared_state: None, ..here };
        assert!(!nameless.is_known_to_be(&nameless.clone()));
    }
}
