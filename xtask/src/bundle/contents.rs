//! What lies in a bundle.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::files::{copy, copy_as, copy_files, file_name, files, write_program};
use super::launcher::{Kind, Launcher};
use super::libraries::{Needs, glibc_version, is_of_the_c_library, needed_by, path_of};
use super::plugins::{PLUGINS, plugins_of};
use crate::mpi::Mpi;
use crate::probe::{Machine, Probe};
use crate::steps::execute;
use crate::workspace::Workspace;
use std::process::Command;

/// A bundle in the making.
pub struct Bundle<'a> {
    root: PathBuf,
    mpi: &'a Mpi,
    launcher: &'a Launcher,
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
        })
    }

    /// Our own programs.
    pub fn add_programs(&self, workspace: &Workspace, names: &[&str]) -> Result<()> {
        for name in names {
            let built = workspace.binary(self.mpi.kind, name);
            let copied = copy(&built, &self.root.join("libexec"))?;
            // Line numbers in backtraces are not worth two thirds of the size.
            if Machine.runs("strip", &["--version"]) {
                execute(Command::new("strip").arg("--strip-debug").arg(copied))?;
            }
        }
        Ok(())
    }

    /// The MPI library's programs, plugins and texts, and what its libraries load by themselves.
    pub fn add_mpi(&self) -> Result<()> {
        let libexec = self.root.join("libexec");
        for program in &self.launcher.programs {
            copy_as(&program.path, &libexec.join(self.place_of(program.name)))?;
        }
        for (folder, place) in &self.launcher.folders {
            copy_files(folder, "", &self.root.join(place))?;
        }
        self.leave_out_unusable("lib/openmpi")?;
        let mut users = files(&libexec)?;
        users.extend(files(&self.root.join("lib/openmpi"))?);
        for library in needed_by(&users, self.mpi)? {
            if let Some((folder, plugins)) = plugins_of(&library) {
                let place = self.root.join(plugins.place);
                copy_files(&folder, plugins.wanted, &place)?;
                self.leave_out_unusable(plugins.place)?;
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

    /// Removes plugins that cannot be loaded here, and so neither in the bundle, and says why.
    fn leave_out_unusable(&self, folder: &str) -> Result<()> {
        for plugin in files(&self.root.join(folder))? {
            let missing = Needs::of(&plugin, self.mpi)?.missing;
            if !missing.is_empty() {
                println!(
                    "left out: {folder}/{}, for want of {}",
                    file_name(&plugin),
                    missing.join(" and ")
                );
                fs::remove_file(&plugin)?;
            }
        }
        Ok(())
    }

    /// The BLAS that the program takes by itself, if it is installed.
    pub fn add_blas(&self) -> Result<()> {
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
    ///
    /// # Errors
    /// Naming a library that is not found.
    pub fn add_libraries(&self) -> Result<()> {
        let lib = self.root.join("lib");
        let mut gathered = Vec::new();
        let folders = ["libexec", "libexec/hydra", "lib", "lib/openmpi"];
        let plugins = PLUGINS.iter().map(|plugins| plugins.place);
        for folder in folders.into_iter().chain(plugins) {
            gathered.extend(files(&self.root.join(folder))?);
        }
        for library in needed_by(&gathered, self.mpi)? {
            let folder = match is_of_the_c_library(&file_name(&library)) {
                true => lib.join("glibc"),
                false => lib.clone(),
            };
            // Some find those in the bundle already, beside themselves.
            if library.parent() != Some(&folder) {
                copy(&library, &folder)?;
            }
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
            .replace("@GLIBC@", &glibc_version(&Machine)?)
            .replace("@LOADER@", &loader)
            .replace("@MPI@\n", kind.environment());
        Ok(fs::write(
            self.root.join("etc/environment.sh"),
            environment,
        )?)
    }

    /// The text that says what is inside, and what a host must have.
    pub fn write_texts(&self, version: &str, arch: &str) -> Result<()> {
        let text = include_str!("README.txt")
            .replace("@VERSION@", version)
            .replace("@ARCH@", arch)
            .replace("@MPI@", &self.launcher.version)
            .replace("@HOSTS@", self.launcher.kind.hosts_option())
            .replace("@GLIBC@", &glibc_version(&Machine)?);
        Ok(fs::write(self.root.join("README.txt"), text)?)
    }
}
