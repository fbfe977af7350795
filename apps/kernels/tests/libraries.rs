//! Kernels from shared libraries: those in C of this package, and ones that cannot be used.

#![allow(clippy::expect_used)]

use isochron_devices::DeviceError;
use isochron_devices::kernel::{
    Kernel, KernelError, KernelPlace, KernelRun, LibraryKernel, OwnRun, RunEnd,
};
use isochron_kernels::{KernelParameters, NAMES, make_kernel};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use tempfile::TempDir;

/// Compiles a source as C99 into a shared library; returns the compiler's complaints.
fn compile(source: &Path, library: &Path) -> Result<(), String> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new("cc");
    command.args(["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O2"]);
    command.args(["-shared", "-fPIC", "-I"]).arg(package.join("../../devices/kernel/include"));
    command.arg(source).arg("-o").arg(library);
    let output = command.output().expect("a compiler");
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// Compiles a kernel with this text in place of its table.
fn compile_text(folder: &TempDir, name: &str, text: &str) -> PathBuf {
    let (source, library) = (folder.path().join(name), folder.path().join(format!("{name}.so")));
    std::fs::write(&source, format!("#include \"isochron_kernel.h\"\n{text}\n")).expect("a folder");
    let source_c = source.with_extension("c");
    std::fs::rename(&source, &source_c).expect("a folder");
    compile(&source_c, &library).expect("a library");
    library
}

#[test]
fn the_kernels_in_c_run_and_do_the_same_work_as_those_in_rust() {
    let folder = tempfile::tempdir().expect("a folder");
    let blas: Arc<dyn isochron_devices::Blas> = Arc::new(isochron_devices::EmbeddedBlas);
    for name in ["jacobi", "dgemv"] {
        let source = format!("{}/c/{name}.c", env!("CARGO_MANIFEST_DIR"));
        let library = folder.path().join(format!("{name}.so"));
        compile(Path::new(&source), &library).expect("a library");
        let kernel = open(&library).expect("a kernel");
        assert_eq!(kernel.name(), format!("{name} in C"));
        check_run(name, kernel, &blas);
    }
}

/// Checks that a library's kernel states the work of the built-in one, and runs it.
fn check_run(name: &str, kernel: LibraryKernel, blas: &Arc<dyn isochron_devices::Blas>) {
    let ours = make_kernel(name, KernelParameters::default(), blas).expect("a kernel");
    assert_eq!(kernel.complexity(7), ours.complexity(7), "{name}");
    let mut run = OwnRun::new(name, Box::new(kernel), f64::INFINITY).expect("a run");
    for d in [1, 6] {
        run.initialize(d).expect("memory");
        let done = run.execute().expect("a run");
        assert!(matches!(done, RunEnd::Done(time_s) if time_s > 0.0), "{name}");
        run.finalize().expect("an end");
    }
}

/// Opens the only kernel of a library.
fn open(library: &Path) -> Result<LibraryKernel, DeviceError> {
    LibraryKernel::open(KernelPlace { file: library, name: None })
}

#[test]
fn the_kernels_in_rust_are_loaded_by_name_from_one_library() {
    // The folder of this program is beside that of the examples.
    let library = std::env::current_exe()
        .expect("a path")
        .parent()
        .and_then(Path::parent)
        .expect("a folder")
        .join("examples/libkernels_library.so");
    assert!(library.exists(), "build it first: cargo build --example kernels_library");
    let blas: Arc<dyn isochron_devices::Blas> = Arc::new(isochron_devices::EmbeddedBlas);
    for name in NAMES {
        let place = KernelPlace { file: &library, name: Some(name) };
        let kernel = LibraryKernel::open(place).expect("a kernel");
        assert_eq!(kernel.name(), format!("{name} in Rust"));
        check_run(name, kernel, &blas);
    }
    let message = open(&library).map(|_| ()).expect_err("several kernels").to_string();
    assert!(message.contains("named as FILE:NAME"), "{message}");
}

#[test]
fn a_library_in_c_has_several_kernels() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = format!(
        "{FUNCTIONS}ISOCHRON_DECLARE_KERNEL(one_d);\nconst isochron_kernel_t isochron_kernel_one_d = \
         {{ISOCHRON_KERNEL_ABI, \"k\", complexity, initialize, execute, finalize}};"
    );
    let library = compile_text(&folder, "several", &text);
    let found = ["one-d", "two-d"].map(|name| {
        let place = KernelPlace { file: &library, name: Some(name) };
        LibraryKernel::open(place).map(|kernel| kernel.name().to_owned())
    });
    assert!(matches!(&found[0], Ok(name) if name == "k"), "{found:?}");
    let message = found[1].as_ref().expect_err("no such kernel").to_string();
    let words = "it has no symbol isochron_kernel_two_d: is the name behind the colon right?";
    assert!(message.contains(words), "{message}");
}

/// The functions of a kernel.
const FUNCTIONS: &str = "
static double complexity(uint64_t d) { return (double)d; }
static int32_t initialize(uint64_t d, void **context) { *context = 0; return d == 9 ? ISOCHRON_KERNEL_NO_MEMORY : 0; }
static int32_t execute(void *context, const isochron_flag_t *interrupted) { (void)context; return *interrupted ? -1 : 42; }
static int32_t finalize(void *context) { (void)context; return 0; }
";

/// The start of the kernel's table.
const TABLE: &str = "const isochron_kernel_t isochron_kernel = ";

#[test]
fn a_library_that_cannot_be_used_is_named_with_the_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = folder.path().join("text.so");
    std::fs::write(&text, "no library").expect("a folder");
    let other = compile_text(&folder, "other", "extern int other; int other = 1;");
    let whole = "\"k\", complexity, initialize, execute, finalize};";
    let newer = format!("{FUNCTIONS}{TABLE} {{99, {whole}");
    let lacks = format!(
        "{FUNCTIONS}{TABLE} {{ISOCHRON_KERNEL_ABI, \"k\", complexity, initialize, 0, finalize}};\nint32_t (*used)(void *, const isochron_flag_t *) = execute;"
    );
    for (library, reason) in [
        (folder.path().join("missing.so"), "cannot open shared object file"),
        (text, "file too short"),
        (other, "it has no symbol isochron_kernel"),
        (
            compile_text(&folder, "newer", &newer),
            "version 99 of the kernel interface, and this is version 1",
        ),
        (compile_text(&folder, "lacks", &lacks), "it has no function execute"),
    ] {
        let error = open(&library).map(|_| ()).expect_err("no kernel");
        assert!(matches!(error, DeviceError::KernelLibrary { .. }), "{error}");
        let message = error.to_string();
        let name = library.display().to_string();
        assert!(message.contains(&name) && message.contains(reason), "{message}");
    }
}

#[test]
fn errors_of_a_library_are_those_of_its_numbers() {
    let folder = tempfile::tempdir().expect("a folder");
    let table = format!(
        "{FUNCTIONS}{TABLE} {{ISOCHRON_KERNEL_ABI, 0, complexity, initialize, execute, finalize}};"
    );
    let library = compile_text(&folder, "failing", &table);
    let mut kernel = open(&library).expect("a kernel");
    assert_eq!(kernel.name(), "failing", "a kernel without a name has that of its file");
    assert_eq!(kernel.initialize(9), Err(KernelError::NoMemory));
    assert_eq!(kernel.initialize(1), Ok(()));
    let interrupt = isochron_kernel::Interrupt::default();
    assert_eq!(kernel.execute(&interrupt), Err(KernelError::Code(42)));
    interrupt.set(true);
    assert_eq!(kernel.execute(&interrupt), Err(KernelError::Interrupted));
}

/// The kernel whose table this program exports itself.
mod exported {
    use isochron_kernels::Jacobi;

    isochron_kernel::export_kernel!(Jacobi, c"jacobi in Rust");
}

#[test]
fn a_kernel_in_rust_is_exported_as_one_in_c() {
    let table = &exported::isochron_kernel;
    assert_eq!(table.abi, isochron_kernel::ISOCHRON_KERNEL_ABI);
    let functions = (table.complexity, table.initialize, table.execute, table.finalize);
    let (Some(complexity), Some(initialize), Some(execute), Some(finalize)) = functions else {
        panic!("a function is missing");
    };
    let mut context = std::ptr::null_mut();
    let interrupt = isochron_kernel::Interrupt::default();
    // SAFETY: the order of calls is that of the interface, and the context is passed on as it came.
    unsafe {
        assert_eq!(complexity(5), 2.0 * 1024.0 * 5.0);
        assert_eq!(initialize(5, &raw mut context), 0);
        assert_eq!(execute(context, interrupt.as_ptr()), 0);
        interrupt.set(true);
        assert_eq!(execute(context, interrupt.as_ptr()), -1);
        assert_eq!(finalize(context), 0);
        assert_eq!(initialize(u64::MAX, &raw mut context), -2);
    }
}
