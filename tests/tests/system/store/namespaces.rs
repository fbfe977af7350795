//! Ranks in namespaces, in which they stand for other hosts: they change names and mounts.

use super::*;

/// The namespaces of a job.
const NAMESPACES: [&str; 3] = ["--map-root-user", "--mount", "--uts"];

/// Makes a job of `isochron` on two ranks that uses the store. A script starts each rank, whose command is its arguments, in
/// namespaces of the job. Returns `None` if the system allows no namespaces.
pub fn start_by_script(
    mpi: &Mpi,
    folder: &Folder,
    script: &str,
    words: &[&str],
) -> Option<Command> {
    let mut trial = Command::new("unshare");
    let trial = trial.args(NAMESPACES).arg("true").status();
    if !trial.is_ok_and(|status| status.success()) {
        eprintln!("skipped: no namespaces here");
        return None;
    }
    let script = folder.write("rank.sh", script);
    let isochron = mpi.isochron.display().to_string();
    let words = [&[&*script, &isochron][..], words].concat();
    let job = mpi.command(2, Path::new("sh"), &words);
    let mut command = Command::new("unshare");
    command.args(NAMESPACES).arg(job.get_program());
    command.args(job.get_args());
    for (name, value) in job.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    use_store(&mut command, &folder.path("store"));
    Some(command)
}
