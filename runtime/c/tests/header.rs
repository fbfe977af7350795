//! The C header is the one that the Rust functions give, and is C99 and C++. The Fortran module has the same calls.

#![allow(clippy::expect_used, clippy::print_stderr)]

use std::path::{Path, PathBuf};

use headers::{check_committed, check_compiles};

#[path = "../../../devices/kernel/tests/headers/mod.rs"]
mod headers;

/// The files with calls, in the order of the header.
const SOURCES: [&str; 8] = [
    "status", "memory", "handles", "session", "matrix", "product", "split", "balancer",
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
    check_committed(&package().join("include/isochron.h"), &make_header());
}

#[test]
fn the_header_is_c99_and_cpp() {
    let plain = "#include \"isochron.h\"\n\
                 int main(void) { isochron_session_t *s = 0; return isochron_close(s); }\n";
    let with_mpi = format!(
        "#include \"isochron.h\"\n{MADE_UP_MPI}#include \"isochron.h\"\n#include \"isochron.h\"\n\
         int main(void) {{ isochron_session_t *s = 0; return isochron_open_comm(0, 0, &s); }}\n"
    );
    for program in [plain, &with_mpi] {
        check_compiles(&package().join("include"), program);
    }
}
