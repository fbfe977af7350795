//! Points files of published clusters, which the platform files in `cluster-configs` name.
//!
//! The times of Rosebud and of dahu are published. Those of all other processors are assumed, because the thesis and its paper show
//! speeds in figures only: a constant speed as long as A, B and C fit the memory, and beyond it the speed of computers that page.
//!
//! # References
//! Clarke's thesis, tables 2.1, 4.1, 5.2 and 5.3. Alonso, Reddy and Lastovetsky 2009, tables 1 and 2. Cornebize, "High performance
//! computing: towards better performance predictions and experiments", 2021.

use std::path::Path;

use anyhow::{Context as _, ensure};

use crate::rosebud;

const DAHU: &str = include_str!("../../cluster-configs/data/dahu-dgemm.csv");

/// Side of a block of C in elements: the best one of the thesis (5.2.3).
const BLOCK: f64 = 128.0;

/// Cores of a node of dahu. An assumption: the data do not tell it, and their 27 GFLOP/s are the speed of one core.
const DAHU_CORES: f64 = 32.0;

/// Operations of a core in a cycle, by its kind. The name of a file has the clock in GHz behind it.
const CORES: [(&str, f64); 3] = [("xeon", 4.0), ("opteron", 2.0), ("netburst", 2.0)];

/// The part of these operations that a core reaches. An assumption: the usual part of a large product.
const REACHED: f64 = 0.9;

/// 10⁹ operations per second of a GPU. An assumption: three quarters and half of the peak, since panels travel to it.
const GPUS: [(&str, f64); 2] = [("t10", 60.0), ("c2050", 250.0)];

/// Speeds beyond the memory, by multiples of it: relative to the speed within it. An assumption, also of GPUs: as rosebud05 (19008 and
/// 21384 elements a side) and rosebud01 (9504).
const PAGING: [(f64, f64); 3] = [(1.03, 0.50), (1.30, 0.26), (2.04, 0.16)];

/// The files to write.
#[derive(clap::Args)]
pub struct ClustersArguments {
    /// Platform files; the points files that they name are written beside them
    #[arg(required = true)]
    platforms: Vec<std::path::PathBuf>,
}

/// Writes the points files that platform files name.
///
/// # Errors
/// Fails for a processor that is not known, and if a file cannot be read or written.
pub fn run(arguments: &ClustersArguments) -> anyhow::Result<()> {
    for platform in &arguments.platforms {
        let folder = platform.parent().unwrap_or(Path::new("."));
        for name in list_points(&std::fs::read_to_string(platform)?) {
            let path = folder.join(name);
            std::fs::create_dir_all(path.parent().unwrap_or(folder))?;
            let text = make_points(name).with_context(|| name.to_owned())?;
            std::fs::write(&path, text).with_context(|| path.display().to_string())?;
        }
    }
    Ok(())
}

/// Lists the points files that a platform file names.
fn list_points(platform: &str) -> impl Iterator<Item = &str> {
    platform.split("points = \"").skip(1).filter_map(|text| text.split('"').next())
}

/// Makes the points file of this name: `models/rosebud/01.points` and `models/dahu/1.points` for computers 1, or
/// `models/assumed/xeon2.27-4-24gb.points` for 4 cores of 2.27 GHz with 24 GB.
fn make_points(name: &str) -> anyhow::Result<String> {
    let name = name.strip_suffix(".points").context("no points file")?;
    match name.split('/').collect::<Vec<_>>()[..] {
        ["models", "rosebud", number] => make_rosebud(number),
        ["models", "dahu", number] => make_dahu(number),
        ["models", "assumed", processor] => make_assumed(processor),
        _ => anyhow::bail!("no model of a published cluster"),
    }
}

/// Makes the points of a computer of Rosebud. A product is as many updates as there are blocks along k.
fn make_rosebud(number: &str) -> anyhow::Result<String> {
    let pair = ["05", "07", "03", "01"].iter().position(|known| *known == number);
    let speed = &rosebud::read_speeds()?[2 * pair.context("no such computer")?];
    let points = speed.knots.iter().map(|&(n, flops)| {
        let blocks = n / rosebud::BLOCK as f64;
        (blocks * blocks, 2.0 * n.powi(3) / flops / blocks)
    });
    Ok(format_points(rosebud::BLOCK as f64, "report UCD-CSI-2009-2, tables 2 and 3", points))
}

/// Makes the points of a node of dahu: the mean speed of its cores over the weeks of the data.
fn make_dahu(number: &str) -> anyhow::Result<String> {
    let rows = DAHU.lines().map(|row| row.split(',').collect::<Vec<_>>());
    let rows = rows.filter(|row| row.get(1) == Some(&number));
    let gflops: Vec<f64> = rows.map(|row| row[3].parse()).collect::<Result<_, _>>()?;
    ensure!(!gflops.is_empty(), "no times of node {number}");
    let mean = gflops.iter().sum::<f64>() / gflops.len() as f64;
    let source = format!("data/dahu-dgemm.csv; assumed: {DAHU_CORES} cores a node");
    let block_s = 2.0 * BLOCK.powi(3) / (DAHU_CORES * mean * 1e9);
    Ok(format_points(BLOCK, &source, [1.0, 1e6].map(|d| (d, d * block_s))))
}

/// Makes the points of an assumed processor: name, number of cores and gigabytes of memory.
fn make_assumed(name: &str) -> anyhow::Result<String> {
    let [processor, cores, memory] = name.split('-').collect::<Vec<_>>()[..] else {
        anyhow::bail!("no processor, cores and memory")
    };
    // A, B and C fill a memory, and C that of a GPU.
    let (gflops, element_bytes) = match GPUS.iter().find(|(gpu, _)| *gpu == processor) {
        Some(&(_, gflops)) => (gflops, 8.0),
        None => {
            let kind = CORES.iter().find(|(kind, _)| processor.starts_with(kind));
            let (kind, operations) = kind.context("no such processor")?;
            (REACHED * operations * processor[kind.len()..].parse::<f64>()?, 24.0)
        }
    };
    let gigabytes: f64 = memory.strip_suffix("gb").context("no memory")?.parse()?;
    let blocks = gigabytes * 2f64.powi(30) / (element_bytes * BLOCK * BLOCK);
    let source = format!("assumed: {gflops:.2} GFLOP/s each, and {blocks:.0} blocks in memory");
    let per_s = cores.parse::<f64>()? * gflops * 1e9 / (2.0 * BLOCK.powi(3));
    let sizes = [(1.0, 1.0), (blocks, 1.0)].into_iter();
    let points = sizes.chain(PAGING.map(|(times, speed)| (times * blocks, speed)));
    let points = points.map(|(d, speed)| (d.floor(), d.floor() / (speed * per_s)));
    Ok(format_points(BLOCK, &source, points))
}

/// Formats sizes in blocks with the seconds of an update.
fn format_points(block: f64, source: &str, points: impl IntoIterator<Item = (f64, f64)>) -> String {
    let lines = points.into_iter().map(|(d, t_s)| format!("{d} {t_s:.6e}\n"));
    let lines: String = lines.collect();
    format!(
        "# format: isochron-points 1\n# kernel: rank-b update, dgemm\n# block: {block}\n# source: {source}\n{lines}"
    )
}

#[cfg(test)]
mod tests {
    use isochron_core::plan::{ModelledCluster, Problem};
    use isochron_core::session::PlatformSpec;
    use isochron_devices::DeviceKind;
    use isochron_hierarchy::balance::BalanceConfig;

    use super::*;

    /// Nodes, cores and GPUs as printed, apart from the cores of HCL's and dahu's nodes, and a size.
    const CLUSTERS: [(&str, [usize; 3], usize); 6] = [
        ("grid5000-grenoble-90", [90, 432, 12], 150_016),
        ("grid5000-grenoble-75", [75, 24 * 2 + 13 * 4 + 13 * 6 + 25 * 8, 0], 96_000),
        ("grid5000-lille-64", [64, 20 * 4 + 44 * 8, 0], 80_000),
        ("hcl-16", [16, 16, 0], 16_384),
        ("rosebud", [8, 2 * (1 + 2 + 8 + 4), 0], 19_008),
        ("dahu-32", [32, 32 * 32, 0], 65_536),
    ];

    #[test]
    fn published_clusters_have_their_nodes_and_points_and_are_planned() -> anyhow::Result<()> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cluster-configs");
        for (name, [nodes, cores, gpus], size) in CLUSTERS {
            let path = folder.join(name).with_extension("toml");
            let text = std::fs::read_to_string(&path)?;
            for points in list_points(&text) {
                let kept = std::fs::read_to_string(folder.join(points))?;
                ensure!(kept == make_points(points)?, "{points} was made by something else");
            }
            let platform = PlatformSpec::from_toml(&text, &folder)?;
            let devices: Vec<_> = platform.nodes().iter().flat_map(|node| node.devices()).collect();
            let found = devices.iter().filter(|device| device.kind() == DeviceKind::Cuda).count();
            let counted = devices.iter().map(|device| device.count_cores()).sum::<usize>();
            assert_eq!([platform.nodes().len(), counted, found], [nodes, cores, gpus], "{name}");
            let problem = Problem::new(size, size, size, 128)?;
            let ahead =
                ModelledCluster::load(&path, None)?.plan(problem, &BalanceConfig::default())?;
            let areas = ahead.plan.layout().areas();
            let (rows, cols) = problem.c_blocks();
            assert_eq!((areas.len(), areas.iter().sum::<u64>()), (nodes, rows * cols), "{name}");
            assert!(ahead.wall_s >= ahead.compute_s && ahead.compute_s > 0.0, "{name}");
        }
        Ok(())
    }
}
