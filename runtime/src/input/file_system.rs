//! Kinds of file systems, as far as readers of files need them.

use std::fs::File;

use rustix::fs::fstatfs;

/// File systems of one host which note the time of every change: ext2 to ext4, XFS, btrfs, F2FS, ZFS, bcachefs and overlays
/// of these. A temporary file system in memory notes no change through a mapping.
const WITH_TIMES: [u32; 7] =
    [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x2fc1_2fc1, 0xca45_1a4e, 0x794c_7630];

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

/// The kind of a file system, by the number that the system gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileSystem(u32);

impl FileSystem {
    /// Returns the kind of a file's file system; an unknown one if the system does not tell.
    pub fn of(file: &File) -> Self {
        Self(fstatfs(file).map_or(0, |found| found.f_type as u32))
    }

    /// Returns `true` if a file there has one inode number and the same times on all hosts.
    pub fn is_shared(self) -> bool {
        SHARED.contains(&self.0)
    }

    /// Returns `true` if every change of a file shows in its times.
    pub fn notes_changes(self) -> bool {
        WITH_TIMES.contains(&self.0)
    }
}
