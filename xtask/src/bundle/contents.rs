//! What lies in a bundle.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::files::{copy, copy_as, copy_files, file_name, files, is_for_linking, write_program};
use super::launcher::{Kind, Launcher};
use super::libraries::{Needs, glibc_version, is_of_the_c_library, needed_by, path_of};
use super::plugins::plugins_of;
use crate::machine;
use crate::mpi::Mpi;
use crate::steps::execute;
use crate::workspace::Workspace;

/// A bundle in the making.
pub struct Bundle<'a> {
    root: PathBuf,
    mpi: &'a Mpi,
    launcher: &'a Launcher,
    /// The programs, plugins and libraries that were copied, where they are installed: there the loader finds for them
    /// what they were linked with. What comes first decides between libraries of one name.
    gathered: Vec<PathBuf>,
}

impl<'a> Bundle<'a> {
    /// An empty one.
    pub fn new(root: PathBuf, (mpi, launcher): (&'a Mpi, &'a Launcher)) -> Result<Self> {
        if root.exists() {
            fs::remove_dir_all(&root).with_context(|| root.display().to_string())?;
        }
        for folder in ["bin", "libexec/hydra", "lib/glibc", "etc", "share"] {
            fs::create_dir_all(root.join(folder))?;
        }
        Ok(Self {
            root,
            mpi,
            launcher,
            gathered: Vec::new(),
        })
    }

    /// Our own programs.
    pub fn add_programs(&mut self, workspace: &Workspace, names: &[&str]) -> Result<()> {
        for name in names {
            let built = workspace.binary(self.mpi.kind, name);
            let copied = copy(&built, &self.root.join("libexec"))?;
            // Line numbers in backtraces are not worth two thirds of the size.
            if machine::runs("strip", &["--version"]) {
                execute(Command::new("strip").arg("--strip-debug").arg(copied))?;
            }
            self.gathered.push(built);
        }
        Ok(())
    }

    /// What stands for the CUDA driver and cuBLAS: one file by all of their names, so that both share what they know.
    pub fn add_emulator(&mut self, workspace: &Workspace) -> Result<()> {
        let folder = self.root.join("lib/emulated-cuda");
        fs::create_dir_all(&folder)?;
        let release = workspace.target(self.mpi.kind).join("release");
        let built = release.join("libisochron_cuda_emulator.so");
        copy(&built, &folder)?;
        for name in [
            "libcuda.so",
            "libcuda.so.1",
            "libcublas.so",
            "libcublas.so.12",
            "libcublas.so.13",
        ] {
            symlink(file_name(&built), folder.join(name))?;
        }
        self.gathered.push(built);
        write_program(
            &self.root.join("bin/isochron-gpu-check"),
            include_str!("gpu-check.sh"),
        )
    }

    /// The MPI library's programs, plugins and texts, and what its libraries load by themselves.
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

    /// Where a program of the MPI library lies in `libexec`. Hydra starts the proxy that lies beside it, without our
    /// environment, so that a script has to be there.
    fn place_of(&self, name: &str) -> String {
        match name {
            "hydra_pmi_proxy" => format!("hydra/{name}"),
            _ => name.to_owned(),
        }
    }

    /// The plugins in a folder whose names begin with `wanted`. Those that cannot be loaded here, and so neither in the
    /// bundle, are left out with a word.
    fn add_plugins(&mut self, folder: &Path, wanted: &str, place: &str) -> Result<()> {
        let to = self.root.join(place);
        fs::create_dir_all(&to)?;
        for plugin in files(folder)? {
            let name = file_name(&plugin);
            if is_for_linking(&plugin) || !name.starts_with(wanted) {
                continue;
            }
            let missing = Needs::of(&plugin, self.mpi)?.missing;
            if missing.is_empty() {
                copy(&plugin, &to)?;
                self.gathered.push(plugin);
            } else {
                println!(
                    "left out: {place}/{name}, for want of {}",
                    missing.join(" and ")
                );
            }
        }
        Ok(())
    }

    /// The BLAS that the program takes by itself, if it is installed.
    pub fn add_blas(&mut self) -> Result<()> {
        // It belongs to the administrator's programs, which are on few users' paths.
        let programs = ["ldconfig", "/sbin/ldconfig", "/usr/sbin/ldconfig"];
        let mut listed = programs
            .iter()
            .filter_map(|program| machine::output(program, &["-p"]));
        let listed = listed
            .next()
            .context("ldconfig is needed to find the BLAS")?;
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

    /// What all programs and plugins gathered so far are linked with.
    ///
    /// # Errors
    /// Naming a library that is not found.
    pub fn add_libraries(&self) -> Result<()> {
        let lib = self.root.join("lib");
        for library in needed_by(&self.gathered, self.mpi)? {
            let folder = match is_of_the_c_library(&file_name(&library)) {
                true => lib.join("glibc"),
                false => lib.clone(),
            };
            copy(&library, &folder)?;
        }
        Ok(())
    }

    /// The scripts that users call, and what they set.
    pub fn write_scripts(&self, programs: &[&str]) -> Result<()> {
        let kind = self.launcher.kind;
        let write = |place: &str, program: &str, arguments: &str| {
            let text = include_str!("launcher.sh")
                .replace("@PROGRAM@", program)
                .replace("@ARGUMENTS@", arguments);
            write_program(&self.root.join(place), &text)
        };
        for name in kind.scripts().iter().chain(programs) {
            let arguments = match *name {
                "mpirun" => kind.arguments(),
                _ => "",
            };
            write(&format!("bin/{name}"), name, arguments)?;
        }
        if kind == Kind::Hydra {
            let program = self.place_of("hydra_pmi_proxy");
            write("libexec/hydra_pmi_proxy", &program, "")?;
        }
        write_program(&self.root.join("etc/no-ssh"), include_str!("no-ssh.sh"))?;
        let loader = files(&self.root.join("lib/glibc"))?
            .iter()
            .map(|path| file_name(path))
            .find(|name| name.starts_with("ld-linux"))
            .context("the C library's loader was not found")?;
        let environment = include_str!("environment.sh")
            .replace("@GLIBC@", &glibc_version()?)
            .replace("@LOADER@", &loader)
            .replace("@MPI@\n", kind.environment());
        Ok(fs::write(
            self.root.join("etc/environment.sh"),
            environment,
        )?)
    }

    /// The text that says what is inside, and what a host must have.
    pub fn write_texts(&self, (version, arch): (&str, &str), with_tests: bool) -> Result<()> {
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
