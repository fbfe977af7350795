//! Plugins that libraries open by themselves when they run.

use std::path::{Path, PathBuf};

use super::files::file_name;

/// The plugins of a library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plugins {
    /// The start of the library's name.
    owner: &'static str,
    /// Their folder next to the library.
    folder: &'static str,
    /// Their place in the bundle.
    pub place: &'static str,
    /// The start of the names of useful plugins.
    pub wanted: &'static str,
}

/// All known plugins. One of hwloc finds the GPUs on the buses; its others need the libraries of a desktop.
const PLUGINS: [Plugins; 5] = [
    plugins("libhwloc.so", "hwloc", "lib/hwloc", "hwloc_pci"),
    plugins("libpmix.so", "pmix", "lib/pmix", ""),
    plugins("libprrte.so", "prte", "lib/prte", ""),
    plugins("libucs.so", "ucx", "lib/ucx", ""),
    plugins("libfabric.so", "libfabric", "lib/libfabric", ""),
];

const fn plugins(
    owner: &'static str,
    folder: &'static str,
    place: &'static str,
    wanted: &'static str,
) -> Plugins {
    Plugins { owner, folder, place, wanted }
}

/// Returns the folder of plugins of a library, if it has any.
pub fn plugins_of(library: &Path) -> Option<(PathBuf, Plugins)> {
    let name = file_name(library);
    let mut all = PLUGINS.into_iter();
    let plugins = all.find(|plugins| name.starts_with(plugins.owner))?;
    let folder = library.canonicalize().ok()?;
    let folder = folder.with_file_name(plugins.folder);
    folder.is_dir().then_some((folder, plugins))
}
