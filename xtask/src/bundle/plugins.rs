//! Plugins that libraries open by themselves when they run.

use std::path::{Path, PathBuf};

use super::files::file_name;

/// The plugins of a library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plugins {
    /// The start of the library's name.
    owner: &'static str,
    /// The folder beside it where they are.
    folder: &'static str,
    /// Where they lie in the bundle.
    pub place: &'static str,
    /// The start of the names of those that are of use here.
    pub wanted: &'static str,
}

/// All that are known. Of hwloc's, one finds the GPUs on the buses; the others draw in half of a desktop.
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
    Plugins {
        owner,
        folder,
        place,
        wanted,
    }
}

/// The folder of plugins of a library, if it has any.
pub fn plugins_of(library: &Path) -> Option<(PathBuf, Plugins)> {
    let name = file_name(library);
    let mut all = PLUGINS.into_iter();
    let plugins = all.find(|plugins| name.starts_with(plugins.owner))?;
    let folder = library.canonicalize().ok()?;
    let folder = folder.with_file_name(plugins.folder);
    folder.is_dir().then_some((folder, plugins))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_lie_beside_their_library() {
        let folder = std::env::temp_dir().join(format!("isochron-plugins-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("hwloc")).unwrap();
        let library = folder.join("libhwloc.so.15");
        std::fs::write(&library, "").unwrap();
        let (found, plugins) = plugins_of(&library).unwrap();
        assert!(found.ends_with("hwloc"));
        assert_eq!((plugins.place, plugins.wanted), ("lib/hwloc", "hwloc_pci"));
        std::fs::write(folder.join("libucs.so.0"), "").unwrap();
        assert_eq!(plugins_of(&folder.join("libucs.so.0")), None);
        assert_eq!(plugins_of(&folder.join("libm.so.6")), None);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
