//! The C header is the one that the Rust types give, and is C99 and C++.

#![allow(clippy::expect_used, clippy::print_stderr)]

use std::path::{Path, PathBuf};
use std::process::Command;

fn package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

#[test]
fn the_generated_header_is_the_committed_one() {
    let folder = package();
    let config =
        cbindgen::Config::from_file(folder.join("cbindgen.toml")).expect("a configuration");
    let builder = cbindgen::Builder::new().with_config(config);
    let bindings = builder.with_src(folder.join("src/abi.rs")).generate();
    let mut made = Vec::new();
    bindings.expect("a header").write(&mut made);
    let (made, path) = (
        String::from_utf8(made).expect("text"),
        folder.join("include/isochron_kernel.h"),
    );
    if std::env::var_os("ISOCHRON_WRITE_DOCS").is_some() {
        std::fs::write(&path, &made).expect("a writable folder");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let how = "ISOCHRON_WRITE_DOCS=1 cargo xtask test -- generated";
    assert_eq!(committed, made, "{}: write it by `{how}`", path.display());
}

#[test]
fn the_header_is_c99_and_cpp() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = "#include \"isochron_kernel.h\"\n\
                  const isochron_kernel_t isochron_kernel = {ISOCHRON_KERNEL_ABI, \"none\", 0, 0, 0, 0};\n";
    for (compiler, name, standard) in [("cc", "k.c", "-std=c99"), ("c++", "k.cpp", "-std=c++11")] {
        let file = folder.path().join(name);
        std::fs::write(&file, source).expect("a writable folder");
        let mut command = Command::new(compiler);
        command.args([
            standard,
            "-pedantic",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-fsyntax-only",
        ]);
        command.arg("-I").arg(package().join("include")).arg(&file);
        let Ok(output) = command.output() else {
            eprintln!("skipped: there is no {compiler}");
            continue;
        };
        assert!(output.status.success(), "{compiler}: {output:?}");
    }
}
