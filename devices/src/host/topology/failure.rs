//! The words for what hwloc refuses.

use std::error::Error;
use std::io;

use hwlocality::errors::RawHwlocError;

/// The largest major version of hwloc whose files this build reads.
const READ_VERSION: u32 = 2;

/// Describes an error of hwloc by its cause in the system.
pub fn describe_error(error: &(dyn Error + 'static)) -> String {
    // Errors wrap those that hwloc itself has returned.
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(RawHwlocError { api, errno }) = error.downcast_ref::<RawHwlocError>() {
            let reason = errno.map_or_else(
                || "it gives no reason".to_owned(),
                |errno| io::Error::from_raw_os_error(errno.0).to_string(),
            );
            return format!("hwloc refuses it in {api}: {reason}");
        }
        cause = error.source();
    }
    error.to_string()
}

/// Describes why this machine cannot be read. `variables` are the environment variables that are set.
pub fn explain_machine(reason: &str, variables: impl Iterator<Item = String>) -> String {
    let names: Vec<String> = variables.filter(|name| name.starts_with("HWLOC_")).collect();
    if names.is_empty() {
        format!("{reason}. Is /sys mounted, and may this process read it?")
    } else {
        format!(
            "{reason}. Environment variables tell hwloc what to read: unset {}",
            names.join(", ")
        )
    }
}

/// Describes why a description of a made-up host cannot be read.
pub fn explain_synthetic(description: &str) -> String {
    if description.contains('\0') {
        return "it holds a zero byte".to_owned();
    }
    "hwloc does not know this notation: give levels from the outside to the inside, each a type with its number in the level \
     above, the last one `pu`, such as `pack:2 numa:2 l3:1 core:8 pu:2`"
        .to_owned()
}

/// Describes why the text of a file with a saved host cannot be read.
pub fn explain_xml(xml: &str) -> String {
    const SAVE: &str = "save the host by `lstopo host.xml`";
    if xml.trim().is_empty() {
        return format!("it is empty: {SAVE}");
    }
    let Some((_, rest)) = xml.split_once("<topology") else {
        return format!("it is no file of hwloc, which has an element `topology`: {SAVE}");
    };
    let version =
        rest.split('>').next().unwrap_or_default().split_once("version=").map(|(_, value)| value);
    let version = version.and_then(|value| value.split(['"', '\'']).nth(1));
    let major = version.and_then(|version| version.split('.').next()?.parse::<u32>().ok());
    match (version, major) {
        (Some(version), Some(major)) if major > READ_VERSION => format!(
            "it was saved by hwloc {version}, and this build reads files of hwloc {READ_VERSION}: save the host by `lstopo \
             --of xml --export-xml-flags v2 host.xml`"
        ),
        _ if !xml.contains("</topology>") => {
            format!("it ends before its last element: {SAVE} again")
        }
        _ => format!("hwloc finds its content broken: {SAVE} again, and do not edit the file"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_broken_file_is_told_by_its_kind() {
        for (xml, part) in [
            ("", "is empty"),
            (" \n", "is empty"),
            ("hello", "no file of hwloc"),
            ("<topology version=\"3.0\"></topology>", "saved by hwloc 3.0, and"),
            ("<?xml?><topology\n version='10.1'>", "saved by hwloc 10.1, and"),
            ("<topology version=\"2.0\"><object", "ends before"),
            ("<topology version=\"2.0\"></topology>", "broken"),
            ("<topology></topology>", "broken"),
        ] {
            let told = explain_xml(xml);
            assert!(told.contains(part) && told.contains("lstopo"), "{xml}: {told}");
        }
    }

    #[test]
    fn an_error_of_hwloc_has_the_systems_words() {
        let error =
            hwlocality::Topology::builder().from_xml("<topology version=\"3.0\"></topology>");
        let refused = error.unwrap().build().unwrap_err();
        let told = describe_error(&refused);
        assert!(
            told.starts_with("hwloc refuses it in hwloc_topology_load: Invalid argument"),
            "{told}"
        );
    }

    #[test]
    fn variables_of_hwloc_are_named_if_there_are_some() {
        let set = ["HOME", "HWLOC_COMPONENTS"].map(str::to_owned);
        let told = explain_machine("refused", set.into_iter());
        assert!(told.ends_with("unset HWLOC_COMPONENTS"), "{told}");
        assert!(explain_machine("refused", std::iter::empty()).contains("/sys"));
    }
}
