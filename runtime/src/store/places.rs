//! The folders of the store.

use std::ffi::OsStr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, VariantNames};

/// The use of the store.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Default,
    Serialize,
    Deserialize,
    Display,
    EnumString,
    VariantNames,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case", parse_err_ty = String, parse_err_fn = unknown_mode)]
pub enum StoreMode {
    /// Nothing is read or written.
    #[default]
    None,
    /// Times of earlier runs are read.
    Read,
    /// They are read, and those of this run are written.
    ReadWrite,
}

fn unknown_mode(text: &str) -> String {
    format!("unknown use of the store {text}: use none, read or read-write")
}

/// The reason why there is no folder for the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoStorePlace {
    /// The user wants none.
    #[error("{STORE_VARIABLE} is empty")]
    Declined,
    /// The system knows no home folder of the user.
    #[error("there is no home folder; set {STORE_VARIABLE} to a folder")]
    Homeless,
}

/// The folders of the store: the user's, and those of the site, which are only read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorePlaces {
    /// The folder that is written.
    pub user: PathBuf,
    /// The folders that are read beside it.
    pub sites: Vec<PathBuf>,
}

/// The environment variable that names the folders.
pub const STORE_VARIABLE: &str = "ISOCHRON_STORE";

/// Name of the folder among the user's data, and among those of the site.
const FOLDER: &str = "isochron";
const MODELS: &str = "models";

impl StorePlaces {
    /// Finds the folders: those in `ISOCHRON_STORE`, which colons separate, the first of them the user's; without it those of
    /// the XDG rules.
    ///
    /// # Errors
    /// Returns [`NoStorePlace`] if the variable names no folder, or there is no home.
    pub fn find() -> Result<Self, NoStorePlace> {
        match std::env::var_os(STORE_VARIABLE) {
            Some(list) => Self::from_list(&list).ok_or(NoStorePlace::Declined),
            None => Self::from_xdg(&xdg::BaseDirectories::with_prefix(FOLDER))
                .ok_or(NoStorePlace::Homeless),
        }
    }

    fn from_list(list: &OsStr) -> Option<Self> {
        let mut paths = std::env::split_paths(list).filter(|path| !path.as_os_str().is_empty());
        let user = paths.next()?;
        Some(Self { user, sites: paths.collect() })
    }

    fn from_xdg(folders: &xdg::BaseDirectories) -> Option<Self> {
        let user = folders.get_data_home()?.join(MODELS);
        let sites = folders.get_data_dirs().into_iter().map(|folder| folder.join(MODELS));
        Some(Self { user, sites: sites.collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_folder_of_the_list_is_the_users() {
        let found = StorePlaces::from_list(OsStr::new("/a:/b:/c")).unwrap();
        assert_eq!(found.user, PathBuf::from("/a"));
        assert_eq!(found.sites, [PathBuf::from("/b"), PathBuf::from("/c")]);
        assert!(StorePlaces::from_list(OsStr::new("/a")).unwrap().sites.is_empty());
        assert_eq!(StorePlaces::from_list(OsStr::new("")), None);
    }

    #[test]
    fn the_folders_are_those_of_the_xdg_rules() {
        let found = StorePlaces::from_xdg(&xdg::BaseDirectories::with_prefix(FOLDER));
        if let Some(found) = found {
            assert!(found.user.ends_with("isochron/models"));
            assert!(found.sites.iter().all(|site| site.ends_with("isochron/models")));
        }
    }

    #[test]
    fn the_uses_have_names() {
        for mode in [StoreMode::None, StoreMode::Read, StoreMode::ReadWrite] {
            assert_eq!(mode.to_string().parse(), Ok(mode));
        }
        assert!("write".parse::<StoreMode>().unwrap_err().contains("read-write"));
    }
}
