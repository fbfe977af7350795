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
