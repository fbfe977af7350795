//! The contents of a bundle.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::files::{
    copy, copy_as, copy_files, file_name, is_for_linking, list_files, write_program,
};
use super::kernels;
use super::launcher::{BundledLauncher, LauncherKind};
use super::libraries::{Needs, glibc_version, is_of_the_c_library, needed_by, path_of};
use super::plugins::plugins_of;
use crate::machine;
use crate::manuals::write_manuals;
use crate::mpi::MpiInstallation;
use crate::steps::execute;
use crate::workspace::Workspace;

/// A bundle that is being made.
pub struct Bundle<'a> {
    root: PathBuf,
    mpi: &'a MpiInstallation,
    launcher: &'a BundledLauncher,
    /// Installed paths of the programs, plugins and libraries that were copied: the loader finds their libraries from
    /// there. Of two libraries of one name, that of the first file is taken.
    gathered: Vec<PathBuf>,
}

impl<'a> Bundle<'a> {
    /// Makes an empty bundle.
    pub fn new(
        root: PathBuf,
        mpi: &'a MpiInstallation,
        launcher: &'a BundledLauncher,
    ) -> Result<Self> {
        if root.exists() {
            fs::remove_dir_all(&root).with_context(|| root.display().to_string())?;
        }
        for folder in ["bin", "libexec/hydra", "lib/glibc", "etc", "share"] {
            fs::create_dir_all(root.join(folder))?;
        }
        Ok(Self { root, mpi, launcher, gathered: Vec::new() })
    }

    /// Adds programs of this project.
    pub fn add_programs(&mut self, workspace: &Workspace, names: &[&str]) -> Result<()> {
        for name in names {
            let built = workspace.binary(self.mpi.kind, name);
            let copied = copy(&built, &self.root.join("libexec"))?;
            // Line numbers in backtraces are not worth two thirds of the size.
            if machine::can_run("strip", &["--version"]) {
                execute(Command::new("strip").arg("--strip-debug").arg(copied))?;
            }
            self.gathered.push(built);
        }
        Ok(())
    }

    /// Adds the emulated CUDA: one file by all names of the driver and of cuBLAS, so that both share their state.
    pub fn add_emulator(&mut self, workspace: &Workspace) -> Result<()> {
        let folder = self.root.join("lib/emulated-cuda");
        fs::create_dir_all(&folder)?;
        let built =
            workspace.target(self.mpi.kind).join("release").join("libisochron_cuda_emulator.so");
        copy(&built, &folder)?;
        for name in
            ["libcuda.so", "libcuda.so.1", "libcublas.so", "libcublas.so.12", "libcublas.so.13"]
        {
            symlink(file_name(&built), folder.join(name))?;
        }
        self.gathered.push(built);
        write_program(&self.root.join("bin/isochron-gpu-check"), include_str!("gpu-check.sh"))
    }

    /// Adds the campaigns of a GPU with their platform files, as they lie in the repository, and the program that measures them.
    pub fn add_campaigns(&self, workspace: &Workspace) -> Result<()> {
        let (campaigns, platforms) = (Path::new("bench/campaigns"), Path::new("cluster-configs"));
        for folder in [campaigns, platforms] {
            fs::create_dir_all(self.root.join(folder))?;
        }
        for file in list_files(&workspace.root().join(campaigns))? {
            if file_name(&file).starts_with("gpu-") {
                copy(&file, &self.root.join(campaigns))?;
            }
        }
        for name in ["gpu-and-cores.toml", "one-gpu.toml", "shared-gpu.toml"] {
            let file = workspace.root().join(platforms).join(name);
            copy(&file, &self.root.join(platforms))?;
        }
        write_program(&self.root.join("bin/isochron-gpu-bench"), include_str!("gpu-bench.sh"))
    }

    /// Adds the MPI library's programs, plugins and texts, and the plugins of its libraries.
    pub fn add_mpi(&mut self) -> Result<()> {
        let libexec = self.root.join("libexec");
        for program in &self.launcher.programs {
            copy_as(&program.path, &libexec.join(self.place_of(program.name)))?;
            self.gathered.push(program.path.clone());
        }
        for (folder, place) in &self.launcher.folders {
            if place.starts_with("lib/") {
                self.add_plugins(folder, "", place)?;
            } else {
                copy_files(folder, &self.root.join(place))?;
            }
        }
        for library in needed_by(&self.gathered, self.mpi)? {
            if let Some((folder, plugins)) = plugins_of(&library) {
                self.add_plugins(&folder, plugins.wanted, plugins.place)?;
            }
        }
        Ok(())
    }

    /// Returns the place of an MPI library's program in `libexec`. Hydra starts the proxy next to itself without our
    /// environment, so a script has to be there.
    fn place_of(&self, name: &str) -> String {
        match name {
            "hydra_pmi_proxy" => format!("hydra/{name}"),
            _ => name.to_owned(),
        }
    }

    /// Adds the plugins in a folder whose names begin with `wanted`. A plugin that cannot be loaded here cannot be
    /// loaded from the bundle either: it is left out with a message.
    fn add_plugins(&mut self, folder: &Path, wanted: &str, place: &str) -> Result<()> {
        let to = self.root.join(place);
        fs::create_dir_all(&to)?;
        for plugin in list_files(folder)? {
            let name = file_name(&plugin);
            if is_for_linking(&plugin) || !name.starts_with(wanted) {
                continue;
            }
            let missing = Needs::of(&plugin, self.mpi)?.missing;
            if missing.is_empty() {
                copy(&plugin, &to)?;
                self.gathered.push(plugin);
            } else {
                println!("left out: {place}/{name}, because it needs {}", missing.join(" and "));
            }
        }
        Ok(())
    }

    /// Adds the BLAS that the program takes by default, if it is installed.
    pub fn add_blas(&mut self) -> Result<()> {
        // It belongs to the administrator's programs, which are on few users' paths.
        let mut listed = ["ldconfig", "/sbin/ldconfig", "/usr/sbin/ldconfig"]
            .iter()
            .filter_map(|program| machine::read_output(program, &["-p"]));
        let listed = listed.next().context("ldconfig is needed to find the BLAS")?;
        match path_of("libopenblas.so.0", &listed) {
            Some(path) => {
                copy(&path, &self.root.join("lib"))?;
                self.gathered.push(path);
            }
            None => {
                println!("OpenBLAS is not installed: the bundle computes with its embedded BLAS");
            }
        }
        Ok(())
    }

    /// Adds the interface of kernels and the example kernels in C.
    pub fn add_kernels(&mut self, workspace: &Workspace) -> Result<()> {
        let libraries = kernels::add_kernels(workspace, &self.root)?;
        self.gathered.extend(libraries);
        Ok(())
    }

    /// Adds the libraries that the programs and plugins so far are linked with.
    ///
    /// # Errors
    /// Fails if a library is not found; the message names it.
    pub fn add_libraries(&self) -> Result<()> {
        let lib = self.root.join("lib");
        for library in needed_by(&self.gathered, self.mpi)? {
            let folder = if is_of_the_c_library(&file_name(&library)) {
                lib.join("glibc")
            } else {
                lib.clone()
            };
            copy(&library, &folder)?;
        }
        Ok(())
    }

    /// Writes the scripts that users call, and the environment that they set.
    pub fn write_scripts(&self, programs: &[&str]) -> Result<()> {
        let kind = self.launcher.kind;
        for name in kind.scripts().iter().chain(programs) {
            let arguments = match *name {
                "mpirun" => kind.arguments(),
                _ => "",
            };
            self.write_script(&format!("bin/{name}"), name, arguments)?;
        }
        if kind == LauncherKind::Hydra {
            let program = self.place_of("hydra_pmi_proxy");
            self.write_script("libexec/hydra_pmi_proxy", &program, "")?;
        }
        write_program(&self.root.join("etc/no-ssh"), include_str!("no-ssh.sh"))?;
        let loader = list_files(&self.root.join("lib/glibc"))?
            .iter()
            .map(|path| file_name(path))
            .find(|name| name.starts_with("ld-linux"))
            .context("the C library's loader was not found")?;
        let environment = include_str!("environment.sh")
            .replace("@GLIBC@", &glibc_version()?)
            .replace("@LOADER@", &loader)
            .replace("@MPI@\n", kind.environment());
        Ok(fs::write(self.root.join("etc/environment.sh"), environment)?)
    }

    /// Writes a script at `place` that starts a program of `libexec`.
    fn write_script(&self, place: &str, program: &str, arguments: &str) -> Result<()> {
        let text = include_str!("launcher.sh")
            .replace("@PROGRAM@", program)
            .replace("@ARGUMENTS@", arguments);
        write_program(&self.root.join(place), &text)
    }

    /// Adds the man pages, the shell completions and the schemas of documents.
    pub fn add_manuals(&self, workspace: &Workspace) -> Result<()> {
        let program = workspace.binary(self.mpi.kind, "isochron");
        write_manuals(&program, &self.root.join("share"))
    }

    /// Writes the text about the contents and about the needs of a host.
    pub fn write_texts(&self, version: &str, arch: &str, with_tests: bool) -> Result<()> {
        let mut text = include_str!("README.txt").to_owned();
        if with_tests {
            text.push_str(include_str!("README-tests.txt"));
        }
        let text = text
            .replace("@VERSION@", version)
            .replace("@ARCH@", arch)
            .replace("@MPI@", &self.launcher.version)
            .replace("@HOSTS@", self.launcher.kind.hosts_option())
            .replace("@GLIBC@", &glibc_version()?);
        Ok(fs::write(self.root.join("README.txt"), text)?)
    }
}
