//! Copying files, and writing programs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Writes a script and makes it executable.
pub fn write_program(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text)?;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o755))?)
}

/// Copies a file, or the target of a link, under its own name.
pub fn copy(file: &Path, folder: &Path) -> Result<PathBuf> {
    copy_as(file, &folder.join(file_name(file)))
}

/// Copies a file, or the target of a link.
pub fn copy_as(file: &Path, copied: &Path) -> Result<PathBuf> {
    fs::copy(file, copied)
        .with_context(|| format!("cannot copy {} to {}", file.display(), copied.display()))?;
    Ok(copied.to_owned())
}

/// Copies the files of a folder except archives.
pub fn copy_files(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for file in list_files(from)?.iter().filter(|file| !is_for_linking(file)) {
        copy(file, to)?;
    }
    Ok(())
}

/// Returns `true` if a file is an archive, which only linkers read.
pub fn is_for_linking(file: &Path) -> bool {
    let end = file.extension();
    end.is_some_and(|end| end == "a" || end == "la")
}

/// Lists the files directly in a folder, sorted; none if the folder does not exist.
pub fn list_files(folder: &Path) -> Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut files: Vec<_> = fs::read_dir(folder)
        .with_context(|| folder.display().to_string())?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?
        .into_iter()
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    Ok(files)
}

/// Returns the last part of a path.
pub fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
