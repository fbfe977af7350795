//! Models given by hand: points files in a folder, one for each device.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use isochron_devices::ElementType;
use isochron_hierarchy::model::{PiecewiseFpm, Point, SpeedModel as _};

use super::known::{KnownFrom, KnownTimes, split_ranks};
use crate::error::Error;
use crate::input::platform;
use isochron_devices::internal::{NodeSpec, SavedModel};
use isochron_hierarchy::printable::show_name;
use isochron_hierarchy::times::find_noise;

/// Word in the header `kernel` of a file with times of updates of C.
const KERNEL: &str = "gemm";

/// The models of all devices of a job, in the order of the ranks.
#[derive(Clone)]
pub(crate) struct GivenModels {
    models: Vec<(PathBuf, SavedModel)>,
    /// Number of each rank's devices.
    counts: Vec<usize>,
}

impl GivenModels {
    /// Reads the files of a folder for the devices of each rank, which have these names.
    ///
    /// # Errors
    /// Returns [`Error::File`] for the folder or for a file: one that is missing, cannot be read, or is of another
    /// kernel.
    pub fn load(folder: &Path, ranks: &[Vec<String>]) -> Result<Self, Error> {
        let metadata = folder.metadata();
        if metadata.is_ok_and(|metadata| !metadata.is_dir()) {
            return Err(Error::file(folder, "is not a folder: full models are files in one"));
        }
        std::fs::read_dir(folder).map_err(|error| Error::file(folder, error))?;
        let mut models = Vec::new();
        for (rank, devices) in ranks.iter().enumerate() {
            for device in devices {
                let names = list_names(ranks.len(), rank, device, devices.len());
                let mut paths = names.iter().map(|name| folder.join(name));
                let Some(path) = paths.find(|path| path.symlink_metadata().is_ok()) else {
                    let reason = format!(
                        "has no model of device {device} of rank {rank}: there is no {}",
                        names.join(", and no ")
                    );
                    return Err(Error::file(folder, reason));
                };
                let model = read_model(&path).map_err(|reason| Error::file(&path, reason))?;
                models.push((path, model));
            }
        }
        Ok(Self { models, counts: ranks.iter().map(Vec::len).collect() })
    }

    /// Takes the points files that the devices of a platform file name.
    ///
    /// # Errors
    /// Returns [`Error::File`] for the platform file, with the first device that names none.
    pub fn of_platform(path: &Path, nodes: &[NodeSpec]) -> Result<Self, Error> {
        let mut models = Vec::new();
        for (rank, node) in nodes.iter().enumerate() {
            for device in node.devices() {
                let Some(model) = device.saved_model() else {
                    let reason = format!(
                        "device {} of node {rank} has no points: measure it by `isochron measure mxm`, and give the folder by --models",
                        show_name(device.name())
                    );
                    return Err(Error::file(path, reason));
                };
                models.push((path.to_owned(), model.clone()));
            }
        }
        let counts = nodes.iter().map(|node| node.devices().len()).collect();
        Ok(Self { models, counts })
    }

    /// Rows and columns of the blocks of the first device.
    pub fn block(&self) -> usize {
        self.models.first().map_or(1, |(_, model)| model.block as usize)
    }

    /// Returns the points of each rank's devices, in blocks of a size that all have in common.
    ///
    /// # Errors
    /// Returns [`Error::File`] for a file with blocks of another size than the first one's.
    pub fn list_points(&self) -> Result<Vec<Vec<Vec<Point>>>, Error> {
        let mut models = self.models.iter();
        let of_ranks = self.counts.iter().map(|&count| {
            let devices = models.by_ref().take(count).map(|(path, model)| {
                let first = self.models[0].1.block;
                if model.block == first {
                    return Ok(model.points.clone());
                }
                let reason =
                    format!("has blocks of {} elements a side, and others of {first}", model.block);
                Err(Error::file(path, reason))
            });
            devices.collect()
        });
        of_ranks.collect()
    }

    /// Returns the models of the devices of some ranks, in this order.
    pub fn among(&self, ranks: &[usize]) -> Self {
        let of_rank = |&rank: &usize| {
            let first: usize = self.counts[..rank].iter().sum();
            self.models[first..first + self.counts[rank]].iter().cloned()
        };
        Self {
            models: ranks.iter().flat_map(of_rank).collect(),
            counts: ranks.iter().map(|&rank| self.counts[rank]).collect(),
        }
    }

    /// Returns the models of the same devices with twice the memory: a size is as fast as half of it was, if that was faster.
    ///
    /// # Errors
    /// Returns [`Error::Model`] if the points of a device make no model.
    pub fn with_twice_the_memory(&self) -> Result<Self, Error> {
        let models = self.models.iter().map(|(path, saved)| {
            let model = PiecewiseFpm::from_points(saved.points.clone())?;
            let sizes = saved.points.iter().flat_map(|point| [point.d, 2 * point.d]);
            let sizes: BTreeSet<u64> = sizes.collect();
            let points = sizes.into_iter().map(|d| {
                let t_s = model.time_s(d as f64).min(2.0 * model.time_s(0.5 * d as f64));
                Point { d, t_s, reps: 1, ci_s: 0.0 }
            });
            Ok((path.clone(), SavedModel { points: points.collect(), ..saved.clone() }))
        });
        let models = models.collect::<Result<_, Error>>()?;
        Ok(Self { models, counts: self.counts.clone() })
    }

    /// Returns the relative standard error of the times of the device that is known least; 0 without intervals.
    pub fn noise(&self) -> f64 {
        self.models.iter().map(|(_, model)| find_noise(&model.points)).fold(0.0, f64::max)
    }

    /// Returns the times of updates of this width with elements of this type, for each rank's devices.
    ///
    /// # Errors
    /// Returns [`Error::File`] for a file with times of another type.
    pub fn find_devices(
        &self,
        element: ElementType,
        width: usize,
    ) -> Result<Vec<Vec<KnownTimes>>, Error> {
        let devices = self.models.iter().map(|(path, model)| {
            let other = model.element.filter(|&other| other != element);
            if let Some(other) = other {
                let reason =
                    format!("its times are those of {other}, and the matrices are of {element}");
                return Err(Error::file(path, reason));
            }
            let area = model.block * model.block;
            let factor = width as f64 / model.block as f64;
            let points = model
                .points
                .iter()
                .map(|point| Point { d: point.d.saturating_mul(area), ..point.scale_time(factor) });
            Ok(KnownTimes { points: points.collect(), from: KnownFrom::Models })
        });
        let devices = devices.collect::<Result<Vec<_>, _>>()?;
        Ok(split_ranks(devices, self.counts.iter().copied()))
    }
}

/// Lists the names that the file of a device may have: those of `isochron measure mxm --out`, and that of `isochron
/// measure gemm --out` if the rank has no other device.
fn list_names(ranks: usize, rank: usize, device: &str, devices: usize) -> Vec<String> {
    let device = device.replace(|c: char| !c.is_alphanumeric() && !"._-".contains(c), "_");
    let prefix = match ranks {
        1 => String::new(),
        _ => format!("rank{rank}-"),
    };
    let mut names =
        vec![format!("{prefix}{device}-together.points"), format!("{prefix}{device}-alone.points")];
    if devices == 1 {
        names.push(format!("{prefix}{KERNEL}.points"));
    }
    names
}

fn read_model(path: &Path) -> Result<SavedModel, String> {
    let model = platform::read_model(path)?;
    match &model.kernel {
        Some(kernel) if !kernel.split([' ', ',']).any(|word| word == KERNEL) => {
            Err(format!("its times are those of kernel {kernel}, and mxm needs {KERNEL}"))
        }
        _ => Ok(model),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(folder: &Path, ranks: &[Vec<String>]) -> Result<GivenModels, String> {
        GivenModels::load(folder, ranks).map_err(|error| error.to_string())
    }

    #[test]
    fn every_device_finds_its_file_and_its_times_are_scaled_to_the_update() {
        let folder = tempfile::tempdir().unwrap();
        let ranks = [vec!["cpu0".to_owned()], vec!["a/b".to_owned(), "c".to_owned()]];
        let points = "# block: 4\n# kernel: gemm\n# element: f64\n10 0.5 3 0.1\n";
        for name in ["rank0-gemm", "rank1-a_b-together", "rank1-c-alone"] {
            std::fs::write(folder.path().join(format!("{name}.points")), points).unwrap();
        }
        // As `isochron measure mxm` writes it, with updates twice as deep.
        let deep = points.replace("gemm", "update of mxm, gemm") + "# panel: 8\n";
        std::fs::write(folder.path().join("rank1-a_b-together.points"), deep).unwrap();
        let given = load(folder.path(), &ranks).unwrap();
        let devices = given.find_devices(ElementType::F64, 16).unwrap();
        assert_eq!([devices[0].len(), devices[1].len()], [1, 2]);
        let [point] = devices[1][1].points[..] else {
            panic!("{devices:?}");
        };
        assert_eq!((point.d, point.t_s, point.ci_s, point.reps), (160, 2.0, 0.4, 3));
        assert_eq!(devices[1][0].points[0].t_s, 1.0);
        let refused = given.find_devices(ElementType::F32, 16).unwrap_err();
        assert!(refused.to_string().contains("rank0-gemm.points"), "{refused}");
    }

    #[test]
    fn what_is_missing_or_of_another_kernel_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let ranks = [vec!["cpu0".to_owned()]];
        let path = folder.path().join("gemm.points");
        let missing = load(&folder.path().join("no"), &ranks).err().unwrap();
        assert!(missing.contains("/no"), "{missing}");
        let nothing = load(folder.path(), &ranks).err().unwrap();
        assert!(nothing.contains("device cpu0 of rank 0"), "{nothing}");
        assert!(nothing.contains("no gemm.points"), "{nothing}");
        for (text, part) in [
            ("# block: 4\n# kernel: naive-gemm\n1 1\n", "kernel naive-gemm"),
            ("# block: 4\n# kernel: jacobi\n1 1\n", "kernel jacobi"),
            ("# kernel: gemm\n1 1\n", "# block: N"),
            ("# block: 4\n# kernel: gemm\n", "no points"),
            ("# block: 4\n1 x\n", "line 2"),
        ] {
            std::fs::write(&path, text).unwrap();
            let refused = load(folder.path(), &ranks).err().unwrap();
            assert!(refused.contains("gemm.points") && refused.contains(part), "{refused}");
        }
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        let refused = load(folder.path(), &ranks).err().unwrap();
        assert!(refused.contains("is a folder"), "{refused}");
    }
}
