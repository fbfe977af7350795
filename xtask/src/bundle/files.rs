//! Copying files, and writing programs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Writes a script that can be run.
pub fn write_program(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text)?;
    Ok(fs::set_permissions(
        path,
        fs::Permissions::from_mode(0o755),
    )?)
}

/// Copies a file, or what a link leads to, under its own name.
pub fn copy(file: &Path, folder: &Path) -> Result<PathBuf> {
    copy_as(file, &folder.join(file_name(file)))
}

/// Copies a file, or what a link leads to.
pub fn copy_as(file: &Path, copied: &Path) -> Result<PathBuf> {
    fs::copy(file, copied)
        .with_context(|| format!("cannot copy {} to {}", file.display(), copied.display()))?;
    Ok(copied.to_owned())
}

/// Copies what a folder holds, but for archives.
pub fn copy_files(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for file in files(from)?.iter().filter(|file| !is_for_linking(file)) {
        copy(file, to)?;
    }
    Ok(())
}

/// Whether a file is an archive, which only linkers read.
pub fn is_for_linking(file: &Path) -> bool {
    let end = file.extension();
    end.is_some_and(|end| end == "a" || end == "la")
}

/// The files in a folder, not those below it; none where there is no such folder.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let paths = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    let mut files: Vec<_> = paths.into_iter().filter(|path| path.is_file()).collect();
    files.sort();
    Ok(files)
}

/// The last part of a path.
pub fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}
