//! The control groups of this process and their mount points, in versions 1 and 2.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// A folder that describes a control group, and the version of control groups, 1 or 2.
pub type GroupFolder = (PathBuf, u32);

/// Finds the folders of the groups of this process that `controller` (`memory`, `cpu`) confines, on a file system with
/// this root. Each is followed by those of the visible groups above it.
pub fn find_groups(root: &Path, controller: &str) -> Vec<GroupFolder> {
    let cgroup = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let place = (root.to_owned(), controller.to_owned(), cgroup);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    known
        .entry(place)
        .or_insert_with_key(|(_, _, cgroup)| {
            let mountinfo = fs::read_to_string(root.join("proc/self/mountinfo"));
            parse_groups(root, cgroup, &mountinfo.unwrap_or_default(), controller)
        })
        .clone()
}

/// The folders of each root, controller and content of `cgroup`. The list of mounts is slow to read, and a plan asks several
/// times.
static KNOWN: Mutex<BTreeMap<(PathBuf, String, String), Vec<GroupFolder>>> =
    Mutex::new(BTreeMap::new());

/// Finds the folders in the contents of the process's `cgroup` and `mountinfo` files.
fn parse_groups(root: &Path, cgroup: &str, mountinfo: &str, controller: &str) -> Vec<GroupFolder> {
    let mut folders = Vec::new();
    for line in cgroup.lines() {
        // `4:memory:/job/1` in version 1, `0::/job/1` in version 2.
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let version = match controllers {
            "" => 2,
            list if list.split(',').any(|c| c == controller) => 1,
            _ => continue,
        };
        for (mount, below) in
            mountinfo.lines().filter_map(|m| match_mount(m, path, version, controller))
        {
            let mount = root.join(mount);
            folders.extend(below.ancestors().map(|group| (mount.join(group), version)));
        }
    }
    folders
}

/// Returns the mount point that a line of `mountinfo` describes, without the leading `/`, and the group `path` below
/// it, if the mount has that version.
fn match_mount<'a>(
    line: &'a str,
    path: &'a str,
    version: u32,
    controller: &str,
) -> Option<(&'a Path, &'a Path)> {
    // `36 31 0:29 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory`
    let (left, right) = line.split_once(" - ")?;
    let mut right = right.split(' ');
    let (kind, options) = (right.next()?, right.nth(1)?);
    let matches = match kind {
        "cgroup2" => version == 2,
        "cgroup" => version == 1 && options.split(',').any(|o| o == controller),
        _ => false,
    };
    if !matches {
        return None;
    }
    let mut left = left.split(' ').skip(3);
    let (mount_root, mount) = (left.next()?, left.next()?);
    // In a container the mount shows only a part of the hierarchy. A group outside it is seen from its top.
    let below = Path::new(path).strip_prefix(mount_root);
    Some((Path::new(mount).strip_prefix("/").ok()?, below.unwrap_or(Path::new(""))))
}

/// Writes a made-up `/proc` and `/sys`: paths and contents.
#[cfg(test)]
pub(crate) fn make_tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_other_controllers_do_not_count() {
        let mounts = "33 31 0:30 / /sys/fs/cgroup/cpuacct rw - cgroup cgroup rw,cpuacct\n\
                      41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let root = Path::new("/r");
        let other = parse_groups(root, "2:cpuacct:/a\n4:memory:/a\n", mounts, "memory");
        assert_eq!(other, []);
        let folders = parse_groups(root, "0::/a/b\n", mounts, "memory");
        assert_eq!(folders[0].0, Path::new("/r/sys/fs/cgroup/unified/a/b"));
        assert_eq!(folders.len(), 3);
    }
}
