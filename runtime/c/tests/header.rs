//! The C header is the one that the Rust functions give, and is C99 and C++. The Fortran module has the same calls.

#![allow(clippy::expect_used, clippy::print_stderr)]

use std::collections::BTreeSet;
use std::path::PathBuf;

use isochron_support::headers::{check_committed, check_compiles};

/// The files with calls, in the order of the header.
const SOURCES: [&str; 14] = [
    "version",
    "status",
    "memory",
    "handles",
    "session",
    "matrix",
    "element",
    "product",
    "times",
    "split",
    "balancer",
    "group",
    "partition",
    "predict",
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
MPI_Comm MPI_Comm_f2c(int comm);
#ifdef __cplusplus
}
#endif
#define MPI_VERSION 3
#define MPI_COMM_NULL 0
";

fn package() -> PathBuf {
    // That of the run: a copy of the project takes over what was compiled, and these tests write into it.
    std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from)
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
    String::from_utf8(made)
        .expect("text")
        .replace("// # Safety\n// ", "// Safety: ")
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
         int main(void) {{ isochron_session_t *s = 0; MPI_Comm g; return isochron_open_comm(0, 0, &s) + isochron_group_comm(0, 0, 0, &g); }}\n"
    );
    let folders = ["include", "../../devices/kernel/include"].map(|folder| package().join(folder));
    for program in [plain, &with_mpi] {
        check_compiles(&folders, program);
    }
}

/// Returns the calls, settings, constants and structs of a header, as `interface.txt` writes them.
fn list_interface(header: &str) -> Vec<String> {
    let (mut found, mut settings) = (Vec::new(), Vec::new());
    for line in header.lines() {
        if let Some(row) = line.strip_prefix("// | ") {
            let names = row.split(" |").next().unwrap_or_default();
            settings.extend(names.split(", ").filter(|&name| name != "setting"));
        } else if let Some(constant) = line.strip_prefix("#define ISOCHRON_") {
            let name = constant.split_once(' ').map(|(name, _)| name);
            let name = name.filter(|name| !name.starts_with("ABI_"));
            found.extend(name.map(|name| format!("constant ISOCHRON_{name}")));
        } else if let Some(name) = line.strip_prefix("} isochron_") {
            found.push(format!("struct isochron_{}", name.trim_end_matches(';')));
        } else if let Some(call) = find_declared(line) {
            found.push(format!("call {call}"));
            let settings = settings.drain(..);
            found.extend(settings.map(|setting| format!("setting {setting} of {call}")));
        }
    }
    found
}

/// Returns the name of the call that a line of a header declares.
fn find_declared(line: &str) -> Option<&str> {
    let rest = ["int ", "const char *"].iter().find_map(|kind| line.strip_prefix(kind))?;
    let (name, _) = rest.split_once('(')?;
    name.starts_with("isochron_").then_some(name)
}

/// Whoever adds to the interface writes it below a version, and the last one of these is that of the header.
#[test]
fn what_is_added_to_the_interface_raises_its_version() {
    let text = std::fs::read_to_string(package().join("interface.txt")).expect("the list");
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let (versions, listed): (Vec<&str>, Vec<&str>) =
        lines.partition(|line| line.starts_with("version "));
    let made = make_header();
    let had = list_interface(&made);
    assert!(had.len() > 60, "{had:?}");
    let had: BTreeSet<&str> = had.iter().map(String::as_str).collect();
    let known: BTreeSet<&str> = listed.iter().copied().collect();
    let differing: Vec<&&str> = had.symmetric_difference(&known).collect();
    assert!(differing.is_empty(), "interface.txt and the header differ: {differing:?}");
    assert_eq!(known.len(), listed.len(), "each line comes once");
    let major = env!("CARGO_PKG_VERSION_MAJOR");
    for (index, version) in versions.iter().enumerate() {
        assert_eq!(*version, format!("version {major}.{}", index + 1));
    }
    for (name, value) in [("MAJOR", major.to_owned()), ("MINOR", versions.len().to_string())] {
        let line = format!("#define ISOCHRON_ABI_{name} {value}\n");
        assert!(made.contains(&line), "{line}");
    }
}
