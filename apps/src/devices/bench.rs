//! `isochron devices bench`: speed over sizes, alone and together.

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;

use clap::Args;
use isochron::comm::LocalComm;
use isochron::output::{DOCUMENT_BYTES, PartialFile, check_distinct};
use isochron::session::{Session, SessionConfig};
use isochron_devices::blas::BlasChoice;
use isochron_devices::{DeviceInfo, ElementType, Grouping, MeasureConfig};
use isochron_plot::draw_plots;
use num_complex::{Complex32, Complex64};

use super::measured::{HostMeasurements, MEASUREMENT_NAMES};
use super::points;
use super::report;
use super::sizes::SizeArguments;
use crate::failure::Failure;
use crate::measuring::MeasuringArguments;
use crate::output::{self, name_path};

/// The sizes to measure, and the files to write.
///
/// By default a measurement is repeated as in the literature on performance models: at least 10000 times up to n = 1024,
/// 100 times up to 5120 and 5 times beyond, until the mean is known to 2.5 % with 95 % confidence.
#[derive(Args)]
pub struct BenchArguments {
    #[command(flatten)]
    sizes: SizeArguments,
    /// Block size b: the inner dimension of the update
    #[arg(long, default_value_t = 128)]
    pub(super) block: usize,
    /// Platform file; the devices of its first node are measured [default: those of this host]
    #[arg(long, value_name = "FILE")]
    platform: Option<PathBuf>,
    /// Cores that form one device, in place of the platform file's rule: auto (by NUMA domain and
    /// kind), package, numa, kind or node
    #[arg(long)]
    group: Option<Grouping>,
    /// BLAS of the CPU devices: auto, embedded, openblas, mkl, blis or a library's path
    #[arg(long, default_value_t = BlasChoice::default())]
    blas: BlasChoice,
    /// Type of the elements: f32, f64, c32 or c64 (complex numbers in single and double precision)
    #[arg(long = "type", value_name = "TYPE", default_value_t = ElementType::default())]
    element: ElementType,
    #[command(flatten)]
    measuring: MeasuringArguments,
    /// Folder for points files: NAME-alone.points and NAME-together.points of each device
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    out: Option<PathBuf>,
    /// File for a plot of speed against size (SVG)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    svg: Option<PathBuf>,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// Runs the command; returns the text that it prints.
pub fn run(arguments: &BenchArguments) -> Result<String, Failure> {
    let sizes = arguments.sizes.list(arguments.block)?;
    for &n in &sizes {
        arguments.config(n).validate().map_err(Failure::input)?;
    }
    let comm = LocalComm::new();
    let mut session = Session::new(&comm, &arguments.session_config())?;
    let (mut files, plot) = create_files(arguments, session.devices())?;
    let measured = measure_devices(arguments, &sizes, &mut session)?;
    for (name, text) in points::make_files(&measured, arguments.block) {
        if let Some(file) = files.remove(&name) {
            file.fill(&text)?;
        }
    }
    if let Some(file) = plot {
        file.fill(&draw_plots(&report::make_plots(&measured)))?;
    }
    if arguments.json {
        output::json_line(&report::make_document(&measured, arguments.block))
    } else {
        Ok(report::format_text(&measured, arguments.block))
    }
}

impl BenchArguments {
    /// Returns the repetitions of the update of size `n`.
    pub(super) fn config(&self, n: usize) -> MeasureConfig {
        self.measuring.apply_to(MeasureConfig::thorough(n))
    }

    fn session_config(&self) -> SessionConfig {
        SessionConfig {
            platform: self.platform.clone(),
            grouping: self.group,
            blas: self.blas.clone(),
            ..Default::default()
        }
    }
}

/// Creates the points files, by their names, and the file of the plot: what cannot be written is known before the work.
fn create_files(
    arguments: &BenchArguments,
    devices: &[DeviceInfo],
) -> Result<(BTreeMap<String, PartialFile>, Option<PartialFile>), Failure> {
    let mut names = Vec::new();
    if let Some(folder) = &arguments.out {
        std::fs::create_dir_all(folder)
            .map_err(|error| Failure::run(format!("cannot make {}: {error}", folder.display())))?;
        for (number, device) in devices.iter().enumerate() {
            for word in &MEASUREMENT_NAMES[..devices.len().min(2)] {
                let option = format!("--out (device {number})");
                let name = points::name_file(device, word);
                names.push((option, folder.join(&name), name));
            }
        }
    }
    let points = names.iter().map(|(option, path, _)| (&**option, &**path));
    let outputs = points.chain(name_path(("--svg", &arguments.svg)));
    check_distinct(name_path(("--platform", &arguments.platform)), outputs)?;
    let mut files = BTreeMap::new();
    for (_, path, name) in names {
        files.insert(name, PartialFile::create(&path, DOCUMENT_BYTES)?);
    }
    Ok((files, output::create_file(arguments.svg.as_deref())?))
}

fn measure_devices(
    arguments: &BenchArguments,
    sizes: &[usize],
    session: &mut Session<'_>,
) -> Result<HostMeasurements, Failure> {
    let team = session.team();
    let found = match arguments.element {
        ElementType::F32 => arguments.measure::<f32>(sizes, team),
        ElementType::F64 => arguments.measure::<f64>(sizes, team),
        ElementType::C32 => arguments.measure::<Complex32>(sizes, team),
        ElementType::C64 => arguments.measure::<Complex64>(sizes, team),
    };
    show_progress("");
    Ok(found.map_err(isochron::Error::from)?)
}

/// Replaces the last line of standard error, if that is a terminal.
pub(super) fn show_progress(text: &str) {
    if std::io::stderr().is_terminal() {
        let _ = write!(std::io::stderr(), "\r\x1b[K{text}");
    }
}
