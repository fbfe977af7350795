//! The C header is the one that the Rust functions give, and is C99 and C++. The Fortran module has the same calls.

#![allow(clippy::expect_used, clippy::print_stderr)]

use std::path::{Path, PathBuf};
use std::process::Command;

/// The files with calls, in the order of the header.
const SOURCES: [&str; 7] = [
    "status", "memory", "handles", "session", "matrix", "product", "balancer",
];

/// Stands for `mpi.h`.
const MADE_UP_MPI: &str = "\
#ifdef __cplusplus
extern \"C\" {
#endif
typedef struct communicator *MPI_Comm;
int MPI_Initialized(int *flag);
int MPI_Finalized(int *flag);
int MPI_Comm_c2f(MPI_Comm comm);
#ifdef __cplusplus
}
#endif
#define MPI_VERSION 3
";

fn package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn read_header() -> String {
    std::fs::read_to_string(package().join("include/isochron.h")).unwrap_or_default()
}

/// Makes the header. The marks of Rust's documentation are taken out.
fn make_header() -> String {
    let config = cbindgen::Config::from_file(package().join("cbindgen.toml"));
    let mut builder = cbindgen::Builder::new().with_config(config.expect("a configuration"));
    for source in SOURCES {
        builder = builder.with_src(package().join(format!("src/{source}.rs")));
    }
    let mut made = Vec::new();
    builder.generate().expect("a header").write(&mut made);
    let made = String::from_utf8(made).expect("text");
    made.replace("// # Safety\n// ", "// Safety: ")
        .replace('`', "")
}

#[test]
fn the_generated_header_is_the_committed_one() {
    let made = make_header();
    let path = package().join("include/isochron.h");
    if std::env::var_os("ISOCHRON_WRITE_DOCS").is_some() {
        std::fs::create_dir_all(path.with_file_name("")).expect("a folder");
        std::fs::write(&path, &made).expect("a writable folder");
    }
    let how = "ISOCHRON_WRITE_DOCS=1 cargo xtask test -- generated";
    assert_eq!(
        read_header(),
        made,
        "{}: write it by `{how}`",
        path.display()
    );
}

#[test]
fn the_header_is_c99_and_cpp() {
    let folder = tempfile::tempdir().expect("a folder");
    let plain = "#include \"isochron.h\"\n\
                 int main(void) { isochron_session_t *s = 0; return isochron_close(s); }\n";
    let with_mpi = format!(
        "#include \"isochron.h\"\n{MADE_UP_MPI}#include \"isochron.h\"\n#include \"isochron.h\"\n\
         int main(void) {{ isochron_session_t *s = 0; return isochron_open_comm(0, 0, &s); }}\n"
    );
    for (compiler, ending, standard) in [("cc", "c", "-std=c99"), ("c++", "cpp", "-std=c++11")] {
        for (name, source) in [("plain", plain), ("with_mpi", &with_mpi)] {
            let file = folder.path().join(name).with_extension(ending);
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
            assert!(output.status.success(), "{compiler} {name}: {output:?}");
        }
    }
}
