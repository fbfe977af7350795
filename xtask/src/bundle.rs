//! `cargo xtask bundle`: one archive of the program, the libraries that it needs and a launcher.
//!
//! ```text
//! isochron-VERSION-ARCH-linux/
//!   bin/       isochron, mpirun, orted: scripts that find the rest from where they lie
//!   libexec/   the programs themselves
//!   lib/       their libraries; lib/openmpi, lib/pmix, lib/ucx: what those load when they run;
//!              lib/glibc: the C library, for hosts with an older one
//!   share/     Open MPI's texts
//!   etc/       the environment that the scripts set
//! ```

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::build;
use crate::install;
use crate::mpi::{Library, Mpi};
use crate::needs::Goal;
use crate::probe::{Machine, Probe};
use crate::steps::{Steps, execute};
use crate::workspace::Workspace;

/// Programs of this project that go into every bundle.
const PROGRAMS: &[&str] = &["isochron"];

/// Those that a bundle for trying out a machine holds besides.
const TESTS: &[&str] = &["isochron-cases", "isochron-cuda-cases"];

/// Libraries that belong to the C library, by the start of their names.
const GLIBC: &[&str] = &[
    "ld-linux",
    "libc.so",
    "libm.so",
    "libmvec.so",
    "libpthread.so",
    "libdl.so",
    "librt.so",
    "libresolv.so",
    "libutil.so",
    "libanl.so",
    "libnss_",
];

/// Builds, gathers and packs; prints where the archive is.
///
/// # Errors
/// When a step fails: no Open MPI, a library that is not found, no `tar`.
pub fn run(workspace: &Workspace, steps: &mut Steps, with_tests: bool) -> Result<()> {
    install::ensure(Goal::Run, steps)?;
    let mpi = build::prepare(workspace, Library::OpenMpi)?;
    let packages = if with_tests {
        [build::ISOCHRON_AND_CASES, &["--bin", "isochron-cuda-cases"]].concat()
    } else {
        build::ISOCHRON.to_vec()
    };
    build::release(workspace, steps, &mpi, &packages)?;
    let (version, arch) = (env!("CARGO_PKG_VERSION"), std::env::consts::ARCH);
    let name = format!("isochron-{version}-{arch}-linux");
    let folder = workspace.target(Library::OpenMpi).join("bundle");
    let archive = folder.join(format!("{name}.tar.gz"));
    steps.run("gather", || {
        let bundle = Bundle::new(folder.join(&name), &mpi)?;
        bundle.add_programs(workspace, with_tests)?;
        bundle.add_mpi()?;
        bundle.add_blas()?;
        bundle.add_libraries()?;
        bundle.write_scripts(with_tests)?;
        bundle.write_texts(version, arch)
    })?;
    steps.run("pack", || {
        let mut tar = Command::new("tar");
        tar.arg("-czf").arg(&archive).arg("-C").arg(&folder);
        execute(tar.arg(&name))
    })?;
    steps.run("try", || attempt(&archive, &folder.join("try")))?;
    println!("\n{}", archive.display());
    Ok(())
}

/// Unpacks the archive elsewhere and multiplies with what is in it, on one rank and on two.
fn attempt(archive: &Path, folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)?;
    let mut tar = Command::new("tar");
    execute(
        tar.arg("-xzf")
            .arg(archive)
            .arg("-C")
            .arg(folder)
            .arg("--strip-components=1"),
    )?;
    let [isochron, mpirun] = ["isochron", "mpirun"].map(|name| folder.join("bin").join(name));
    let multiplication = ["mxm", "--size", "300", "--verify", "probe"];
    execute(bare(&isochron).args(multiplication))?;
    let two_ranks = ["--oversubscribe", "--bind-to", "none", "-n", "2"];
    execute(
        bare(&mpirun)
            .args(two_ranks)
            .arg(&isochron)
            .args(multiplication),
    )
}

/// A program with nothing of our environment but what every user has, and leave to run as root.
fn bare(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", "/usr/bin:/bin");
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1");
    command.env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command
}

/// A bundle in the making.
struct Bundle<'a> {
    root: PathBuf,
    mpi: &'a Mpi,
    folders: Folders,
}

/// Where Open MPI is installed.
struct Folders {
    programs: PathBuf,
    plugins: PathBuf,
    texts: PathBuf,
}

impl<'a> Bundle<'a> {
    fn new(root: PathBuf, mpi: &'a Mpi) -> Result<Self> {
        if root.exists() {
            fs::remove_dir_all(&root).with_context(|| root.display().to_string())?;
        }
        for folder in ["bin", "libexec", "lib/glibc", "etc", "share"] {
            fs::create_dir_all(root.join(folder))?;
        }
        let folders = Folders::find(&mpi.launcher, &Machine)?;
        Ok(Self { root, mpi, folders })
    }

    fn add_programs(&self, workspace: &Workspace, with_tests: bool) -> Result<()> {
        for name in programs(with_tests) {
            let copied = copy(
                &workspace.binary(Library::OpenMpi, name),
                &self.root.join("libexec"),
            )?;
            // Line numbers in backtraces are not worth two thirds of the size.
            if Machine.runs("strip", &["--version"]) {
                execute(Command::new("strip").arg("--strip-debug").arg(copied))?;
            }
        }
        Ok(())
    }

    /// Open MPI's programs, plugins and texts, and what its libraries load by themselves.
    fn add_mpi(&self) -> Result<()> {
        let libexec = self.root.join("libexec");
        copy(&self.folders.programs.join("orted"), &libexec)?;
        let launcher = copy(&self.folders.programs.join("orterun"), &libexec)?;
        fs::rename(launcher, libexec.join("mpirun"))?;
        copy_files(&self.folders.plugins, &self.root.join("lib/openmpi"))?;
        copy_files(&self.folders.texts, &self.root.join("share/openmpi"))?;
        for (library, plugins, place) in [
            ("libpmix.so", "pmix", "lib/pmix"),
            ("libucs.so", "ucx", "lib/ucx"),
        ] {
            let needed = needed_by(&files(&self.root.join("lib/openmpi"))?)?;
            let library = needed
                .iter()
                .find(|path| file_name(path).starts_with(library));
            let folder =
                library.and_then(|path| Some(fs::canonicalize(path).ok()?.with_file_name(plugins)));
            if let Some(folder) = folder.filter(|folder| folder.is_dir()) {
                copy_files(&folder, &self.root.join(place))?;
            }
        }
        Ok(())
    }

    /// The BLAS that the program takes by itself, if it is installed.
    fn add_blas(&self) -> Result<()> {
        let listed = Machine.output("ldconfig", &["-p"]).unwrap_or_default();
        match path_of("libopenblas.so.0", &listed) {
            Some(path) => copy(&path, &self.root.join("lib")).map(drop),
            None => {
                println!("OpenBLAS is not installed: the bundle computes with its embedded BLAS");
                Ok(())
            }
        }
    }

    /// What all programs and plugins gathered so far are linked with.
    fn add_libraries(&self) -> Result<()> {
        let lib = self.root.join("lib");
        let mut gathered = Vec::new();
        for folder in ["libexec", "lib", "lib/openmpi", "lib/pmix", "lib/ucx"] {
            gathered.extend(files(&self.root.join(folder))?);
        }
        for library in needed_by(&gathered)? {
            let name = file_name(&library);
            let belongs = GLIBC.iter().any(|start| name.starts_with(start));
            copy(
                &library,
                &if belongs {
                    lib.join("glibc")
                } else {
                    lib.clone()
                },
            )?;
        }
        Ok(())
    }

    fn write_scripts(&self, with_tests: bool) -> Result<()> {
        let launcher = include_str!("bundle/launcher.sh");
        let write = |name: &str, arguments: &str| {
            let text = launcher
                .replace("@PROGRAM@", name)
                .replace("@ARGUMENTS@", arguments);
            write_program(&self.root.join("bin").join(name), &text)
        };
        write_program(
            &self.root.join("etc/no-ssh"),
            include_str!("bundle/no-ssh.sh"),
        )?;
        write("mpirun", "--prefix \"$here\" ")?;
        write("orted", "")?;
        for name in programs(with_tests) {
            write(name, "")?;
        }
        let loader = files(&self.root.join("lib/glibc"))?
            .iter()
            .map(|path| file_name(path))
            .find(|name| name.starts_with("ld-linux"))
            .context("the C library's loader was not found")?;
        let environment = include_str!("bundle/environment.sh")
            .replace("@GLIBC@", &glibc_version(&Machine)?)
            .replace("@LOADER@", &loader);
        Ok(fs::write(
            self.root.join("etc/environment.sh"),
            environment,
        )?)
    }

    fn write_texts(&self, version: &str, arch: &str) -> Result<()> {
        let mpi = Machine
            .output(&self.mpi.launcher, &["--version"])
            .unwrap_or_default();
        let text = include_str!("bundle/README.txt")
            .replace("@VERSION@", version)
            .replace("@ARCH@", arch)
            .replace("@MPI@", mpi.lines().next().unwrap_or("Open MPI").trim())
            .replace("@GLIBC@", &glibc_version(&Machine)?);
        Ok(fs::write(self.root.join("README.txt"), text)?)
    }
}

impl Folders {
    /// Asks the installation of this launcher.
    fn find(launcher: &str, probe: &dyn Probe) -> Result<Self> {
        let info = launcher.replace("mpirun", "ompi_info");
        let told = [info.as_str(), "ompi_info"]
            .iter()
            .find_map(|info| probe.output(info, &["--path", "all", "--parsable"]))
            .context("ompi_info was not found beside the launcher")?;
        let folder = |key: &str| {
            let mut lines = told.lines();
            let value = lines.find_map(|line| {
                line.strip_prefix("path:")?
                    .strip_prefix(key)?
                    .strip_prefix(':')
            });
            value
                .map(PathBuf::from)
                .with_context(|| format!("ompi_info does not tell {key}"))
        };
        Ok(Self {
            programs: folder("bindir")?,
            plugins: folder("pkglibdir")?,
            texts: folder("pkgdatadir")?,
        })
    }
}

fn programs(with_tests: bool) -> impl Iterator<Item = &'static str> {
    let tests = if with_tests { TESTS } else { &[] };
    PROGRAMS.iter().chain(tests).copied()
}

/// Writes a script that can be run.
fn write_program(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text)?;
    Ok(fs::set_permissions(
        path,
        fs::Permissions::from_mode(0o755),
    )?)
}

/// Copies a file, or what a link leads to, under its own name.
fn copy(file: &Path, folder: &Path) -> Result<PathBuf> {
    let copied = folder.join(file_name(file));
    fs::copy(file, &copied)
        .with_context(|| format!("cannot copy {} to {}", file.display(), folder.display()))?;
    Ok(copied)
}

/// Copies what a folder holds, but for archives, which only linkers read.
fn copy_files(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for file in files(from)? {
        let linking = file
            .extension()
            .is_some_and(|end| end == "a" || end == "la");
        if !linking {
            copy(&file, to)?;
        }
    }
    Ok(())
}

/// The files in a folder, not those below it; none where there is no such folder.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let paths = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    Ok(paths.into_iter().filter(|path| path.is_file()).collect())
}

fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// The libraries that the loader finds for these files. What it does not find is a plugin's affair: a plugin
/// that cannot be loaded is passed over.
fn needed_by(files: &[PathBuf]) -> Result<BTreeSet<PathBuf>> {
    ensure!(Machine.runs("ldd", &["--version"]), "ldd was not found");
    let mut needed = BTreeSet::new();
    for file in files {
        // Scripts and texts are no dynamic executables, which ldd answers with an error.
        let told = Machine
            .output("ldd", &[&file.to_string_lossy()])
            .unwrap_or_default();
        needed.extend(told.lines().filter_map(library));
    }
    Ok(needed)
}

/// The path in a line of ldd: `name => path (address)`, or `path (address)` for the loader.
fn library(line: &str) -> Option<PathBuf> {
    let path = line.split("=>").last()?.split_whitespace().next()?;
    path.starts_with('/').then(|| PathBuf::from(path))
}

/// The path of a library in the loader's list, as `ldconfig -p` prints it.
fn path_of(name: &str, listed: &str) -> Option<PathBuf> {
    let mut lines = listed.lines().map(str::trim);
    let line = lines.find(|line| line.split_whitespace().next() == Some(name))?;
    line.split("=> ").nth(1).map(PathBuf::from)
}

/// Version of the C library here, such as `2.36`.
fn glibc_version(probe: &dyn Probe) -> Result<String> {
    let told = probe.output("getconf", &["GNU_LIBC_VERSION"]);
    let version = told
        .as_deref()
        .and_then(|told| told.trim().strip_prefix("glibc "));
    version
        .map(str::to_owned)
        .context("bundles are made on Linux with the GNU C library")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::Fake;

    #[test]
    fn libraries_are_read_from_what_the_loader_says() {
        let path = |line| library(line).map(|path| path.display().to_string());
        let mpi = "\tlibmpi.so.40 => /lib/libmpi.so.40 (0x00007f0cd8de1000)";
        assert_eq!(path(mpi).as_deref(), Some("/lib/libmpi.so.40"));
        let loader = "\t/lib64/ld-linux-x86-64.so.2 (0x00007f0cd957d000)";
        assert_eq!(path(loader).as_deref(), Some("/lib64/ld-linux-x86-64.so.2"));
        assert_eq!(path("\tlinux-vdso.so.1 (0x00007f0cd957b000)"), None);
        assert_eq!(path("\tlibx.so => not found"), None);
        assert_eq!(path("\tstatically linked"), None);
    }

    #[test]
    fn a_library_is_found_by_its_whole_name() {
        let listed = "2 libs found\n\tlibopenblas.so (libc6,x86-64) => /a\n\tlibopenblas.so.0 (libc6,x86-64) => /b\n";
        assert_eq!(path_of("libopenblas.so.0", listed), Some("/b".into()));
        assert_eq!(path_of("libmkl_rt.so.2", listed), None);
    }

    #[test]
    fn open_mpi_tells_where_it_is() {
        let paths = "path:prefix:/usr\npath:bindir:/usr/bin\npath:pkglibdir:/usr/lib/openmpi\npath:pkgdatadir:/usr/share/openmpi\n";
        let machine = Fake {
            outputs: vec![("ompi_info.openmpi --path all --parsable", paths)],
            ..Fake::default()
        };
        let folders = Folders::find("mpirun.openmpi", &machine).unwrap();
        assert_eq!(folders.plugins, Path::new("/usr/lib/openmpi"));
        assert!(Folders::find("/opt/bin/mpirun", &Fake::default()).is_err());
    }
}
