use rustix::io::Errno;

use super::lock::{FolderLock, remove_gone};
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
fn of_engines_that_see_one_that_is_gone_only_one_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let take = || FolderLock::take_by(folder.path(), |_| Err(Errno::NOSYS));
    let [sign, removal] =
        ["engine.json", "engine-removal.json"].map(|name| folder.path().join(name));
    let gone = serde_json::json!({"host": host_name(), "process": 4_000_000}).to_string();
    fs::write(&sign, &gone).unwrap();
    // Both have seen it. The first one takes its place, and the second one begins to.
    let first = take().unwrap();
    let taken = fs::read_to_string(&sign).unwrap();
    let refused = remove_gone(folder.path()).unwrap_err().to_string();
    let own = format!("process {} on ", std::process::id());
    assert!(refused.contains(&own), "{refused}");
    assert_eq!(fs::read_to_string(&sign).unwrap(), taken);
    assert!(!removal.exists());
    // The first one has ended before the second one begins.
    drop(first);
    remove_gone(folder.path()).unwrap();
    drop(take().unwrap());
    // The first one is at it.
    fs::write(&sign, &gone).unwrap();
    fs::write(&removal, r#"{"host": "elsewhere", "process": 4000000}"#).unwrap();
    let refused = take().unwrap_err().to_string();
    for part in ["process 4000000 on elsewhere", "remove engine-removal.json"] {
        assert!(refused.contains(part), "{refused}");
    }
    assert_eq!(fs::read_to_string(&sign).unwrap(), gone);
}

#[test]
fn engines_that_begin_together_beside_one_that_is_gone_are_one() {
    let gone = serde_json::json!({"host": host_name(), "process": 4_000_000}).to_string();
    for _ in 0..200 {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("engine.json"), &gone).unwrap();
        let takes = std::thread::scope(|scope| {
            let engines = [(); 4].map(|()| {
                scope.spawn(|| FolderLock::take_by(folder.path(), |_| Err(Errno::NOSYS)))
            });
            engines.map(|engine| engine.join().unwrap())
        });
        // All locks are kept up to here.
        let taken = takes.iter().filter(|take| take.is_ok()).count();
        assert_eq!(taken, 1, "{takes:?}");
    }
}

#[test]
fn a_file_of_something_else_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("own.toml");
    let text = "name = \"own\"\n[[contender]]\nname = \"one\"\ncommand = \"true\"\n";
    fs::write(&file, text).unwrap();
    let campaign = Campaign::read(&file).unwrap();
    let (dir, kept) = (folder.path(), folder.path().join(FILE));
    for other in ["title = \"a drive\"\n", &text.replace("own", "other")] {
        fs::write(&kept, other).unwrap();
        for refused in [
            CampaignFolder::open(dir, &campaign).map(|_| ()),
            read_begun(dir, &campaign).map(|_| ()),
        ] {
            let refused = refused.unwrap_err();
            assert!(
                refused.to_string().contains(
                    "campaign.toml: is the file of something else than the campaign `own`"
                ),
                "{refused}"
            );
        }
        assert_eq!(fs::read_to_string(&kept).unwrap(), other);
    }
    // One that was changed before the first repetition is replaced.
    fs::write(&kept, text.replace("true", "false")).unwrap();
    CampaignFolder::open(dir, &campaign).unwrap();
    assert_eq!(fs::read_to_string(&kept).unwrap(), text);
}
