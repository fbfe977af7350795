//! Models of the store between which units are divided: all are of the same work.

use std::path::PathBuf;

use isochron_core::store::{Identity, StoreKey, read_clock_s};
use isochron_hierarchy::model::Point;

use super::folders::{Folders, find_key, name_path};
use crate::failure::Failure;

/// Reads the times of named models of devices or kernels, all for the same work. Their unit is an element of C, or a unit of
/// the kernel.
pub fn read_alike(names: &[PathBuf]) -> Result<Vec<Vec<Point>>, Failure> {
    let models = Folders::find()?.read()?;
    let keys = names.iter().map(|name| find_key(&models, &name_path(name)));
    let keys: Vec<StoreKey> = keys.collect::<Result<_, _>>()?;
    check_alike(&keys)?;
    let now_s = read_clock_s();
    let known = keys.iter().map(|key| models.find(key, now_s));
    Ok(known.map(|known| known.map_or_else(Vec::new, |known| known.points)).collect())
}

/// Refuses models whose units are not the same work.
fn check_alike(keys: &[StoreKey]) -> Result<(), Failure> {
    for key in keys {
        if !matches!(key.identity, Identity::Device(_) | Identity::Kernel(_)) {
            let model = describe_model(key);
            let reason =
                format!("{model} is neither of a device nor of a kernel: units go to these alone");
            return Err(Failure::input(reason));
        }
    }
    for pair in keys.windows(2) {
        let [one, other] = [&pair[0], &pair[1]].map(|key| key.identity.describe_work());
        if one != other {
            return Err(Failure::input(format!(
                "{} and {} are of unlike work: kernel, element type and width must be equal",
                describe_model(&pair[0]),
                describe_model(&pair[1])
            )));
        }
    }
    Ok(())
}

fn describe_model(key: &StoreKey) -> String {
    format!("model {} ({})", key.name(), key.identity.describe_work())
}
