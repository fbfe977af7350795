//! Models from files.

use std::fmt::Display;
use std::path::Path;

use isochron_hierarchy::model::{Fit, ModelFile, SpeedModel, Surface, SurfaceFile};

use crate::failure::Failure;

/// A failure to use what `path` names.
pub fn failed(path: &Path, reason: impl Display) -> Failure {
    Failure::input(format!("{}: {reason}", path.display()))
}

/// Reads a points file that holds points.
pub fn read(path: &Path) -> Result<ModelFile, Failure> {
    let file = ModelFile::parse(&text(path)?).map_err(|error| failed(path, error))?;
    if file.points.is_empty() {
        return Err(failed(path, "holds no points"));
    }
    Ok(file)
}

/// Reads points files and makes a model of each.
pub fn models<P: AsRef<Path>>(paths: &[P], fit: Fit) -> Result<Vec<Box<dyn SpeedModel>>, Failure> {
    let model = |path: &P| {
        let path = path.as_ref();
        fit.model(&read(path)?.points)
            .map_err(|error| failed(path, error))
    };
    paths.iter().map(model).collect()
}

/// Reads a surface file and makes a model of it.
pub fn surface(path: &Path) -> Result<Surface, Failure> {
    let file = SurfaceFile::parse(&text(path)?).map_err(|error| failed(path, error))?;
    if file.points.is_empty() {
        return Err(failed(path, "holds no points"));
    }
    Surface::from_points(file.points).map_err(|error| failed(path, error))
}

/// What the partitioners take models as.
pub fn borrowed(models: &[Box<dyn SpeedModel>]) -> Vec<&dyn SpeedModel> {
    models.iter().map(|model| &**model).collect()
}

fn text(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| failed(path, error))
}
