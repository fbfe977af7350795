//! Installation of missing software where that is allowed, and instructions elsewhere.

use std::process::Command;

use anyhow::Result;

use crate::machine;
use crate::needs::{Goal, Need, list_missing};
use crate::packages::Manager;
use crate::steps::{Steps, execute};

/// Something required is missing, and we may not or cannot install it.
///
/// The message holds one command for each package manager.
#[derive(Debug)]
pub struct CannotInstall {
    needs: Vec<Need>,
}

/// The way to provide missing needs.
#[derive(Debug, PartialEq, Eq)]
enum InstallRoute {
    /// Nothing is missing.
    Ready,
    /// Run apt-get, as root or through sudo.
    Apt { sudo: bool },
    /// Nothing required is missing: go on without these.
    DoWithout(Vec<Need>),
    /// The user has to install these.
    Refuse(Vec<Need>),
}

impl std::error::Error for CannotInstall {}

impl std::fmt::Display for CannotInstall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("this machine lacks\n")?;
        for need in &self.needs {
            writeln!(f, "  - {}", need.name())?;
        }
        f.write_str("Install it in one of these ways, then run the same command again:")?;
        for manager in Manager::ALL {
            if let Some(command) = manager.command(&self.needs) {
                write!(f, "\n  {:<8} {command}", manager.name())?;
            }
        }
        f.write_str("\n(module names differ between sites: `module avail` lists yours)")
    }
}

/// Makes sure that the machine has what `goal` wants.
///
/// # Errors
/// Returns [`CannotInstall`] when something required stays missing.
pub fn ensure(goal: Goal, steps: &mut Steps) -> Result<()> {
    let mut needs = list_missing(goal);
    if let InstallRoute::Apt { sudo } = route(goal, &needs) {
        // If it fails, needs are still missing afterwards.
        let outcome = steps.run("install system packages", || apt_get(&needs, sudo));
        if let Err(error) = outcome {
            eprintln!("warning: {error:#}");
        }
        needs = list_missing(goal);
    }
    match verdict(goal, needs) {
        InstallRoute::Refuse(needs) => Err(CannotInstall { needs }.into()),
        InstallRoute::DoWithout(needs) => {
            let names: Vec<_> = needs.iter().map(|need| need.name()).collect();
            println!("going on without {}", names.join(", "));
            Ok(())
        }
        InstallRoute::Ready | InstallRoute::Apt { .. } => Ok(()),
    }
}

/// Before installing: apt-get when something is missing and we may run it.
fn route(goal: Goal, needs: &[Need]) -> InstallRoute {
    if needs.is_empty() || !machine::can_run("apt-get", &["--version"]) {
        return verdict(goal, needs.to_vec());
    }
    if machine::read_output("id", &["-u"]).is_some_and(|id| id.trim() == "0") {
        InstallRoute::Apt { sudo: false }
    } else if machine::can_run("sudo", &["-n", "true"]) {
        InstallRoute::Apt { sudo: true }
    } else {
        verdict(goal, needs.to_vec())
    }
}

/// When nothing more can be installed.
fn verdict(goal: Goal, needs: Vec<Need>) -> InstallRoute {
    if needs.is_empty() {
        InstallRoute::Ready
    } else if needs.iter().any(|need| need.is_required(goal)) {
        InstallRoute::Refuse(needs)
    } else {
        InstallRoute::DoWithout(needs)
    }
}

fn apt_get(needs: &[Need], sudo: bool) -> Result<()> {
    // An unreachable third-party source fails the update and need not stop the installation.
    if let Err(error) = execute(&mut apt_command(sudo, &["update"])) {
        eprintln!("warning: {error:#}");
    }
    let mut words = vec!["install", "-y", "--no-install-recommends"];
    words.extend(Manager::Apt.packages(needs));
    execute(&mut apt_command(sudo, &words))
}

/// apt-get that asks nothing, and waits for another apt-get to end.
fn apt_command(sudo: bool, words: &[&str]) -> Command {
    let mut command = Command::new(if sudo { "sudo" } else { "env" });
    if sudo {
        command.args(["-n", "env"]);
    }
    command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get"]);
    command.args(["-q", "-o", "DPkg::Lock::Timeout=300"]).args(words);
    command
}
