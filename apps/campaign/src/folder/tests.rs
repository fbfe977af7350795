use rustix::io::Errno;

use super::lock::FolderLock;
use super::*;

#[test]
fn a_file_stands_for_the_lock_where_there_are_none() {
    let folder = tempfile::tempdir().unwrap();
    let take = || FolderLock::take_by(folder.path(), |_| Err(Errno::NOSYS));
    let lock = take().unwrap();
    let refused = take().unwrap_err().to_string();
    assert!(
        refused.contains(&format!("process {} on ", std::process::id())),
        "{refused}"
    );
    assert!(refused.contains("remove engine.json"), "{refused}");
    drop(lock);
    drop(take().unwrap());
    // An engine that was killed on this host, and one on another host, whose end cannot be seen.
    let sign = folder.path().join("engine.json");
    let own = serde_json::json!({"host": host_name(), "process": 4_000_000});
    fs::write(&sign, own.to_string()).unwrap();
    drop(take().unwrap());
    fs::write(&sign, r#"{"host": "elsewhere", "process": 4000000}"#).unwrap();
    let refused = take().unwrap_err().to_string();
    assert!(
        refused.contains("process 4000000 on elsewhere"),
        "{refused}"
    );
}

#[test]
fn a_folder_of_something_else_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = read_folder(folder.path()).unwrap_err().to_string();
    assert!(refused.contains("is no folder of a campaign"), "{refused}");
    let refused = read_folder(&folder.path().join("missing"))
        .unwrap_err()
        .to_string();
    assert!(refused.contains("missing"), "{refused}");
}
