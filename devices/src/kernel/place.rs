//! The place of a kernel among shared libraries.

use std::path::Path;

/// The symbol of the only kernel of a library, and the start of the symbols of several ones.
const SYMBOL: &str = "isochron_kernel";

/// The place of a kernel: a shared library and, if that has several kernels, the name of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelPlace<'a> {
    /// The file of the library.
    pub file: &'a Path,
    /// The name; `None` for the only kernel.
    pub name: Option<&'a str>,
}

impl<'a> KernelPlace<'a> {
    /// Reads `FILE`, or `FILE:NAME` if there is no file of this whole name.
    #[must_use]
    pub fn parse(text: &'a str) -> Self {
        let whole = Path::new(text);
        match text.rsplit_once(':') {
            Some((file, name)) if !whole.exists() && !file.is_empty() && !name.contains('/') => {
                Self { file: Path::new(file), name: Some(name) }
            }
            _ => Self { file: whole, name: None },
        }
    }

    /// Returns the symbol of the kernel: `isochron_kernel`, or `isochron_kernel_NAME` with `_` for each `-`.
    #[must_use]
    pub fn symbol(&self) -> String {
        match self.name {
            Some(name) => format!("{SYMBOL}_{}", name.replace('-', "_")),
            None => SYMBOL.to_owned(),
        }
    }

    /// Returns a name for files about the kernel: that of its library, without folder and ending, and its own.
    #[must_use]
    pub fn stem(&self) -> String {
        let stem = self.file.file_stem().unwrap_or_default().to_string_lossy();
        match self.name {
            Some(name) => format!("{stem}-{name}"),
            None => stem.into_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_follows_the_last_colon_unless_that_is_a_file() {
        for (text, file, name, symbol, stem) in [
            ("a/k.so", "a/k.so", None, "isochron_kernel", "k"),
            (
                "./a:b/libk.so:naive-gemm",
                "./a:b/libk.so",
                Some("naive-gemm"),
                "isochron_kernel_naive_gemm",
                "libk-naive-gemm",
            ),
            ("./a:b/k.so", "./a:b/k.so", None, "isochron_kernel", "k"),
            (":k", ":k", None, "isochron_kernel", ":k"),
        ] {
            let place = KernelPlace::parse(text);
            assert_eq!((place.file, place.name), (Path::new(file), name), "{text}");
            assert_eq!((&*place.symbol(), &*place.stem()), (symbol, stem), "{text}");
        }
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("k.so:b");
        std::fs::write(&path, "").expect("a file");
        let text = path.to_str().expect("text");
        assert_eq!(KernelPlace::parse(text).name, None);
    }
}
