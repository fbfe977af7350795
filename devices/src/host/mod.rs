//! The host of a process: its hardware, its limits, its memory and its threads. Nothing here knows devices.

pub mod topology;

pub(crate) mod cpu_time;
pub(crate) mod file_kind;
pub(crate) mod fork;
pub(crate) mod heap;
pub(crate) mod huge_pages;
pub(crate) mod loader;
pub(crate) mod memory;
pub(crate) mod operation;
pub(crate) mod process;
pub(crate) mod threads;

/// Writes a made-up `/proc` and `/sys`: paths and contents.
#[cfg(test)]
pub(crate) fn make_tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    root
}
