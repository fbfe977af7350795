//! The C header is the one that the Rust types give, and is C99 and C++.

#![allow(clippy::expect_used, clippy::print_stderr)]

use std::path::PathBuf;

use isochron_support::headers::{check_committed, check_compiles};

fn package() -> PathBuf {
    // That of the run: a copy of the project takes over what was compiled, and these tests write into it.
    std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from)
}

#[test]
fn the_generated_header_is_the_committed_one() {
    let folder = package();
    let config =
        cbindgen::Config::from_file(folder.join("cbindgen.toml")).expect("a configuration");
    let bindings =
        cbindgen::Builder::new().with_config(config).with_src(folder.join("src/abi.rs")).generate();
    let mut made = Vec::new();
    bindings.expect("a header").write(&mut made);
    let made = String::from_utf8(made).expect("text");
    check_committed(&folder.join("include/isochron_kernel.h"), &made);
}

#[test]
fn the_header_is_c99_and_cpp() {
    let program = "#include \"isochron_kernel.h\"\n\
                   const isochron_kernel_t isochron_kernel = {ISOCHRON_KERNEL_ABI, \"none\", 0, 0, 0, 0};\n";
    check_compiles(&[package().join("include")], program);
}
