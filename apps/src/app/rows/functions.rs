//! The times of a kernel over numbers of rows, of every rank: measured here, or read from files.

use std::path::Path;
use std::time::Instant;

use isochron_core::comm::{agree, share_outcome};
use isochron_core::internal::read_points;
use isochron_core::plan::KnownFrom;
use isochron_core::prelude::*;
use isochron_hierarchy::model::Point;

use super::options::RowsArguments;
use super::stored::StoredSizes;
use crate::measure::{
    CampaignSizes, Effort, FileKind, FullModels, OpenKernel, PointsFiles, WIDTH, flatten_point,
};

/// The measured times of all ranks, the same on every rank.
#[derive(Default)]
pub struct RowFunctions {
    /// The points of each rank, ascending; without those of sizes that take too long. Empty if nothing is known.
    pub points: Vec<Vec<Point>>,
    /// The file of each rank.
    pub files: Vec<Option<String>>,
    /// The origin of each rank's points; empty if they were read from files, or nothing is known.
    pub known: Vec<KnownFrom>,
    /// Unusual findings about the model store, one line each.
    pub notices: Vec<String>,
    /// The options of measuring; `None` if nothing was measured here.
    pub measured_with: Option<String>,
    /// Seconds of measuring.
    pub measuring_s: f64,
}

/// Reads the time functions that the arguments name, or measures them; none are needed to divide evenly. `room` are
/// the rows that each rank has memory for.
///
/// # Errors
/// On every rank: those of the kernel and of the files.
///
/// # Collective
/// All ranks.
pub fn find_functions(
    comm: &dyn Comm,
    arguments: &RowsArguments,
    kernel: OpenKernel,
    config: &MeasureConfig,
    room: &[u64],
) -> Result<RowFunctions, Error> {
    if arguments.is_measured() {
        let most = room.iter().copied().min().unwrap_or(0);
        return measure_functions(comm, arguments, kernel, config, most);
    }
    let name = kernel.work.run.name();
    let read = (comm.rank() == 0).then(|| read_functions(arguments, name, comm.size()));
    let points = share_outcome(comm, 0, read)?;
    let files = arguments.models.iter().cycle().take(comm.size());
    Ok(RowFunctions {
        points,
        files: files.map(|file| Some(file.display().to_string())).collect(),
        ..RowFunctions::default()
    })
}

/// Measures every rank at once, as they will run, at the sizes that neither the files nor the model store have.
fn measure_functions(
    comm: &dyn Comm,
    arguments: &RowsArguments,
    mut kernel: OpenKernel,
    config: &MeasureConfig,
    most: u64,
) -> Result<RowFunctions, Error> {
    let begun = Instant::now();
    // Files get times that were measured, not the store's medians of several runs.
    let known = match &arguments.out {
        Some(_) => Vec::new(),
        None => kernel.work.store.find_kernels(comm)?,
    };
    let sizes = arguments.list_sizes(most);
    let files = match comm.rank() {
        0 => PointsFiles::open(arguments.out.as_deref(), FileKind::Points, &kernel.parts).map(Some),
        _ => Ok(None),
    };
    let mut files = agree(comm, files)?;
    files.iter_mut().for_each(PointsFiles::drop_unfinished);
    let names = comm.share(0, files.as_ref().map(PointsFiles::list_paths))?;
    let mut campaign = FullModels {
        comm,
        work: Box::new(kernel.work),
        config: *config,
        effort: Effort::Same,
        sizes: CampaignSizes::Listed(sizes.clone()),
        own: comm.rank()..comm.rank() + 1,
        points: Vec::new(),
        lacking: vec![Vec::new(); comm.size()],
    };
    let stored = StoredSizes::new(&known, &sizes);
    let has_probe = stored.is_to_scale();
    let stored = stored.check(&mut campaign, &kernel.parts)?;
    let added = files.as_mut().map_or(Ok(()), |files| stored.add_to(files, &campaign.lacking));
    agree(comm, added)?;
    campaign.sizes = CampaignSizes::Listed(sizes);
    campaign.run(files)?;
    // Sizes above one that is hopeless to all ranks are not measured.
    let is_measured = has_probe || stored.count() < campaign.points.len();
    let origin = match (stored.count(), is_measured) {
        (0, _) => KnownFrom::Fresh,
        (_, true) => KnownFrom::StoreAndProbe,
        (_, false) => KnownFrom::Store,
    };
    Ok(RowFunctions {
        points: (0..comm.size()).map(|rank| list_points(&campaign, rank)).collect(),
        files: names,
        known: vec![origin; comm.size()],
        notices: campaign.work.end(comm)?,
        measured_with: is_measured.then_some(kernel.measured_with),
        measuring_s: begun.elapsed().as_secs_f64(),
    })
}

/// Lists the points of a rank without those of sizes that take too long.
fn list_points(campaign: &FullModels<'_>, rank: usize) -> Vec<Point> {
    let points = campaign.points.iter();
    points
        .filter_map(|(_, points)| points[rank].as_ref().map(flatten_point))
        .filter(|point| point.reps > 0)
        .collect()
}

/// Reads the points of each rank.
fn read_functions(
    arguments: &RowsArguments,
    kernel: &str,
    ranks: usize,
) -> Result<Vec<Vec<Point>>, Error> {
    let read = arguments.models.iter().map(|path| read_function(path, kernel, arguments.size));
    let read: Vec<Vec<Point>> = read.collect::<Result<_, _>>()?;
    Ok(read.iter().cycle().take(ranks).cloned().collect())
}

/// Reads the points of a file that was measured with this kernel and these rows, as far as its headers tell.
fn read_function(path: &Path, kernel: &str, width: usize) -> Result<Vec<Point>, Error> {
    let file = read_points(path)?;
    for (key, wanted) in [("kernel", kernel.to_owned()), (WIDTH, width.to_string())] {
        if let Some(found) = file.headers.get(key).filter(|found| **found != wanted) {
            let reason = format!("its {key} is {found}, and {wanted} is needed");
            return Err(Error::file(path, reason));
        }
    }
    let mut points = file.points;
    points.retain(|point| point.reps > 0);
    if points.is_empty() { Err(Error::file(path, "holds no measured points")) } else { Ok(points) }
}
