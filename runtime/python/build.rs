//! Lets the module find an MPI library that pip has installed, which lies in the `lib` folder of the environment.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is_linux = std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux");
    if is_linux && std::env::var_os("CARGO_FEATURE_MPI").is_some() {
        // The module lies in lib/python3.N/site-packages/isochron.
        println!("cargo::rustc-cdylib-link-arg=-Wl,-rpath,$ORIGIN/../../..");
    }
}
