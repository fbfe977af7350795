//! The bundle as a container image: one layer over nothing, in an archive of the OCI image format, made by umoci without a daemon.
//!
//! busybox gives what a host gives to a bundle. It has no `getconf`, so the bundle's own C library is used.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::files::copy_as;
use super::launcher::{LauncherKind, locate_program};
use super::trial::MULTIPLICATION;
use crate::machine;
use crate::steps::execute;

const ENTRY_POINT: &str = "/opt/isochron/bin/isochron";

/// Folders that programs and container runtimes look for.
const FOLDERS: [&str; 8] = ["bin", "dev", "etc", "opt", "proc", "root", "sys", "tmp"];

/// Open MPI refuses root, the user of a container, unless told twice. The notice about the C library is left out.
const ENVIRONMENT: [&str; 4] = [
    "PATH=/opt/isochron/bin:/usr/local/bin:/usr/bin:/bin",
    "OMPI_ALLOW_RUN_AS_ROOT=1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
    "ISOCHRON_BUNDLE_TOLD=1",
];

/// Runs a program in the folder `$1`, with this machine's devices and processes.
const ENTER: &str = r#"cd "$1" && shift || exit
for part in dev proc sys; do mount --rbind /$part $part || exit; done
exec chroot . /bin/env -i "$@""#;

/// Makes an image of the folder of a bundle.
///
/// # Errors
/// Fails if umoci or busybox is missing, or a file cannot be written.
pub fn pack(bundle: &Path, archive: &Path) -> Result<()> {
    let folder = archive.with_extension("");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let root = folder.join("root");
    write_root(bundle, &root)?;
    umoci(&folder, &["init", "--layout=image"])?;
    umoci(&folder, &["new", "--image=image:isochron"])?;
    umoci(&folder, &["insert", "--rootless", "--image=image:isochron", "root", "/"])?;
    let mut config = vec!["config", "--image=image:isochron", "--config.entrypoint", ENTRY_POINT];
    config.extend(ENVIRONMENT.iter().flat_map(|set| ["--config.env", *set]));
    umoci(&folder, &config)?;
    umoci(&folder, &["gc", "--layout=image"])?;
    let mut tar = Command::new("tar");
    execute(tar.arg("-cf").arg(archive).arg("-C").arg(folder.join("image")).arg("."))
}

fn umoci(folder: &Path, words: &[&str]) -> Result<()> {
    execute(Command::new("umoci").args(words).current_dir(folder))
}

/// Writes the files of the image: the bundle, busybox under all of its names, and the account of root.
fn write_root(bundle: &Path, root: &Path) -> Result<()> {
    for name in FOLDERS {
        fs::create_dir_all(root.join(name))?;
    }
    fs::set_permissions(root.join("tmp"), Permissions::from_mode(0o1777))?;
    fs::write(root.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n")?;
    fs::write(root.join("etc/group"), "root:x:0:\n")?;
    let busybox = root.join("bin/busybox");
    copy_as(&locate_program("busybox")?, &busybox)?;
    let names = machine::read_output("busybox", &["--list"]).context("busybox tells no names")?;
    for name in names.lines().filter(|name| *name != "busybox") {
        symlink("busybox", busybox.with_file_name(name))?;
    }
    execute(Command::new("cp").arg("-a").arg(bundle).arg(root.join("opt/isochron")))
}

/// Unpacks an image, and multiplies in it by itself, and with two ranks by its launcher.
///
/// # Errors
/// Fails if the image is damaged, or a run fails.
pub fn try_out(archive: &Path, folder: &Path, kind: LauncherKind) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder.join("image"))?;
    execute(Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(folder.join("image")))?;
    umoci(folder, &["unpack", "--rootless", "--image=image:isochron", "unpacked"])?;
    if !machine::can_run("unshare", &["--map-root-user", "--mount", "true"]) {
        println!("not run: this machine grants no namespaces of users");
        return Ok(());
    }
    let launched = [&["mpirun"], kind.two_ranks()].concat();
    for launcher in [&[], &launched[..]] {
        let mut inside = Command::new("unshare");
        inside.args(["--map-root-user", "--mount", "sh", "-c", ENTER, "sh"]);
        inside.arg(folder.join("unpacked/rootfs")).args(ENVIRONMENT).args(launcher);
        execute(inside.arg(ENTRY_POINT).args(MULTIPLICATION))?;
    }
    Ok(())
}
