use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::lock::{Claim, FolderLock};
use super::*;
use crate::report::CampaignReport;
use crate::run::run;
use crate::status::CampaignStatus;

/// Returns the claim of an engine that was killed: its process has gone, or another one has its number.
fn make_gone() -> Claim {
    let mut gone = Claim::own();
    gone.started = gone.started.map(|started| started + 1);
    gone
}

fn write_claim(folder: &Path, claim: &Claim) {
    let text = serde_json::to_string(claim).unwrap();
    fs::write(folder.join("engine.json"), text).unwrap();
}

#[test]
fn only_an_engine_that_is_gone_loses_its_folder() {
    let of = |change: fn(&mut Claim)| {
        let mut claim = Claim::own();
        change(&mut claim);
        claim
    };
    let elsewhere = |claim: &mut Claim| claim.processes = Some("another kernel".to_owned());
    let own = std::process::id();
    // With a beat or without one; the process of the engine that is not refused.
    for (claim, beats, refused) in [
        (of(|_| ()), false, true),
        (make_gone(), false, false),
        (make_gone(), true, false),
        (of(|claim| claim.holder.process = 4_000_000), false, false),
        (of(|claim| claim.holder.process = 0), false, false),
        (of(|claim| claim.holder.process = u32::MAX), false, false),
        // On another host, or in a container, the number of a process says nothing.
        (of(elsewhere), false, false),
        (of(elsewhere), true, true),
        (of(|claim| claim.processes = None), false, false),
        (of(|claim| claim.processes = None), true, true),
    ] {
        let folder = tempfile::tempdir().unwrap();
        write_claim(folder.path(), &claim);
        let path = folder.path().join("engine.json");
        let done = AtomicBool::new(false);
        let taken = std::thread::scope(|scope| {
            scope.spawn(|| {
                let file = OpenOptions::new().write(true).open(&path).unwrap();
                let mut time = std::time::SystemTime::now();
                while beats && !done.load(Ordering::Relaxed) {
                    time += std::time::Duration::from_secs(1);
                    file.set_modified(time).unwrap();
                    std::thread::yield_now();
                }
            });
            let taken = FolderLock::take(folder.path());
            done.store(true, Ordering::Relaxed);
            taken
        });
        match taken {
            Ok(lock) => {
                assert!(!refused, "{claim:?}");
                lock.check().unwrap();
                assert_eq!(find_holder(folder.path()).unwrap().process, own);
                drop(lock);
                assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
            }
            Err(error) => {
                assert!(refused, "{claim:?}: {error}");
                assert!(error.to_string().contains("runs this campaign already"));
                assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
            }
        }
    }
}

#[test]
fn readers_see_an_engine_that_lives() {
    let folder = tempfile::tempdir().unwrap();
    let find = || find_holder(folder.path());
    assert_eq!(find(), None);
    let mut claim = Claim::own();
    write_claim(folder.path(), &claim);
    assert_eq!(find().as_ref(), Some(&claim.holder));
    write_claim(folder.path(), &make_gone());
    assert_eq!(find(), None);
    // By the age of its last beat.
    claim.processes = None;
    write_claim(folder.path(), &claim);
    assert_eq!(find(), Some(claim.holder));
    let file = OpenOptions::new().write(true).open(folder.path().join("engine.json")).unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!(find(), None);
}

#[test]
fn engines_that_begin_together_beside_one_that_is_gone_are_one() {
    for _ in 0..200 {
        let folder = tempfile::tempdir().unwrap();
        write_claim(folder.path(), &make_gone());
        let takes = std::thread::scope(|scope| {
            let engines = [(); 4].map(|()| scope.spawn(|| FolderLock::take(folder.path())));
            engines.map(|engine| engine.join().unwrap())
        });
        // All are kept up to here.
        let taken = takes.iter().filter(|take| take.is_ok()).count();
        assert_eq!(taken, 1, "{takes:?}");
        takes.iter().flatten().for_each(|lock| lock.check().unwrap());
    }
}

#[test]
fn an_engine_that_is_at_it_is_told_with_the_file_that_it_has_made() {
    let folder = tempfile::tempdir().unwrap();
    let mut gone = make_gone();
    gone.number = 7;
    write_claim(folder.path(), &gone);
    let next = folder.path().join("engine-7.json");
    fs::write(&next, serde_json::to_string(&gone).unwrap()).unwrap();
    let refused = FolderLock::take(folder.path()).unwrap_err().to_string();
    assert!(refused.contains("remove engine-7.json"), "{refused}");
}

/// A campaign with two points and three rounds, and its folder of results.
struct Trial {
    folder: tempfile::TempDir,
}

impl Trial {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let text = "name = \"own\"\n[sweep]\nsize = [1, 2]\n[[contender]]\nname = \"one\"\ncommand = \"echo '{{\\\"a_s\\\": {size}}}'\"\n\
                    result = { json = [\"a_s\"] }\nkeep = true\n[repeat]\nmax = 3\nagain = 0\n";
        fs::write(folder.path().join("own.toml"), text).unwrap();
        Self { folder }
    }

    fn campaign(&self) -> Campaign {
        Campaign::read(&self.folder.path().join("own.toml")).unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("results").join(name)
    }

    fn points(&self) -> Option<Vec<u8>> {
        fs::read(self.path(POINTS)).ok()
    }

    /// Runs the campaign; before each repetition `observe` gets its number.
    fn run(&self, mut observe: impl FnMut(usize)) -> Result<CampaignStatus, CampaignError> {
        let mut number = 0;
        let stop = AtomicBool::new(false);
        run(&self.campaign(), &self.path(""), &[], &stop, &mut |_| {
            observe(number);
            number += 1;
        })
    }

    /// Checks that every reader refuses the folder with this reason, and that an engine leaves the lines as they are.
    fn check_refused(&self, reason: &str) {
        let before = self.points();
        for refused in [
            self.run(|_| panic!("it runs")).map(|_| ()),
            read_begun(&self.path(""), &self.campaign()).map(|_| ()),
            CampaignStatus::read(&self.path("")).map(|_| ()),
            CampaignReport::read(&self.path("")).map(|_| ()),
        ] {
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains(reason), "{reason}: {refused}");
        }
        assert_eq!(self.points(), before, "{reason}");
    }
}

#[test]
fn lines_that_are_none_of_a_campaign_are_refused_and_kept() {
    let trial = Trial::new();
    trial.run(|_| ()).unwrap();
    let whole = String::from_utf8(trial.points().unwrap()).unwrap();
    let last = whole.lines().last().unwrap();
    let begin = whole.strip_suffix(&format!("{last}\n")).unwrap();
    let newer = last.replacen("\"schema\":1", "\"schema\":2", 1);
    let named = |key: &str, name: &str| {
        let (before, after) = last.split_once(&format!("\"{key}\":\"")).unwrap();
        let (_, after) = after.split_once('"').unwrap();
        format!("{before}\"{key}\":\"{name}\"{after}\n")
    };
    let (hidden, upper) = ("../../own.toml", "..%2F..%2Fown.ab");
    for (line, reason) in [
        ("{\"my\":\"data\"}\n".to_owned(), "is no repetition"),
        ("{\"my\":\"data\"}".to_owned(), "is no repetition"),
        ("{\"my\":\"data\", \"cut\":".to_owned(), "is no repetition"),
        ("{\"schema\":\"https://js".to_owned(), "is no repetition"),
        ("{\"schema\":1,\"campaign\":\"own\"}".to_owned(), "is no repetition"),
        (newer[..newer.len() / 2].to_owned(), "is no repetition"),
        (newer.clone(), "has version 2 of the format"),
        ("my notes\n".to_owned(), "is no repetition"),
        ("my notes".to_owned(), "is no repetition"),
        ("{\"schema\":1}\n".to_owned(), "is no repetition"),
        ("\0\0\n".to_owned(), "is no repetition"),
        (newer.clone() + "\n", "has version 2 of the format"),
        ("{\"schema\":9,\"new\":[]}\n".to_owned(), "is no repetition"),
        // Half a line, and a whole one behind it.
        (format!("{}{last}\n", &last[..50]), "is no repetition"),
        (named("environment", hidden), "`../../own.toml` is no finger"),
        (named("environment", upper), "`..%2F..%2Fown.ab` is no finger"),
        (named("document", hidden), "`../../own.toml` is no finger"),
    ] {
        for (begin, number) in [("", 1), (begin, 6)] {
            fs::write(trial.path(POINTS), format!("{begin}{line}")).unwrap();
            trial.check_refused(&format!("{POINTS}:{number}: {reason}"));
        }
        if line.ends_with('\n') {
            fs::write(trial.path(POINTS), format!("{begin}{line}{last}\n")).unwrap();
            trial.check_refused(&format!("{POINTS}:6: {reason}"));
        }
    }
}

#[test]
fn a_line_without_its_end_alone_is_cut_off() {
    let trial = Trial::new();
    trial.run(|_| ()).unwrap();
    let (path, whole) = (trial.path(POINTS), trial.points().unwrap());
    let begin = 1 + whole[..whole.len() - 1].iter().rposition(|&byte| byte == b'\n').unwrap();
    for end in begin..whole.len() {
        for zeros in [0, 3] {
            let torn = [&whole[..end], &vec![0; zeros]].concat();
            fs::write(&path, torn).unwrap();
            let (repetitions, length) = read_points(&path).unwrap();
            // A line that lacks its end alone is whole.
            let found =
                if (end, zeros) == (whole.len() - 1, 0) { (6, whole.len()) } else { (5, begin) };
            assert_eq!((repetitions.len(), length as usize), found, "{end}");
        }
    }
    for (lines, left) in [(6, 0), (5, 1)] {
        let kept: Vec<&[u8]> = whole.split_inclusive(|&it| it == b'\n').collect();
        let kept = kept[..lines].concat();
        fs::write(&path, &kept[..kept.len() - 1]).unwrap();
        let mut run = 0;
        trial.run(|_| run += 1).unwrap();
        assert_eq!(run, left);
        assert!(trial.points().unwrap().starts_with(&kept));
        assert_eq!(read_points(&path).unwrap().0.len(), 6);
    }
    fs::write(&path, &whole).unwrap();
    // A flipped bit of a whole line is refused by its number, or cannot be seen.
    for bit in 8 * begin..8 * (whole.len() - 1) {
        let mut flipped = whole.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, &flipped).unwrap();
        match read_points(&path) {
            Ok((repetitions, length)) => {
                assert_eq!((repetitions.len(), length), (6, whole.len() as u64));
            }
            Err(CampaignError::Line { line, .. }) => assert!(line >= 6, "{line}"),
            Err(other) => panic!("{other}"),
        }
    }
    // An editor leaves empty lines.
    let edited = [b"\n", &whole[..begin], b" \n", &whole[begin..], b"\n"].concat();
    fs::write(&path, &edited).unwrap();
    assert_eq!(trial.run(|_| panic!("it runs")).unwrap().repetitions, 6);
    assert_eq!(trial.points().unwrap(), edited);
}

#[test]
fn a_folder_that_changes_in_mid_run_ends_it() {
    let moved = |trial: &Trial| trial.folder.path().join("moved");
    let append = |trial: &Trial, text: &str| {
        let mut points = OpenOptions::new().append(true).open(trial.path(POINTS)).unwrap();
        points.write_all(text.as_bytes()).unwrap();
    };
    type Change<'c> = &'c dyn Fn(&Trial);
    // The repetitions that are left to the next run.
    let changes: [(Change<'_>, usize); 11] = [
        (&|trial| fs::remove_file(trial.path(POINTS)).unwrap(), 6),
        (&|trial| fs::write(trial.path(POINTS), "").unwrap(), 6),
        (&|trial| fs::remove_dir_all(trial.path("")).unwrap(), 6),
        (&|trial| fs::rename(trial.path(""), moved(trial)).unwrap(), 6),
        (
            &|trial| {
                fs::rename(trial.path(""), moved(trial)).unwrap();
                fs::create_dir(trial.path("")).unwrap();
            },
            6,
        ),
        (
            &|trial| {
                fs::rename(trial.path(POINTS), trial.path("old")).unwrap();
                fs::copy(trial.path("old"), trial.path(POINTS)).unwrap();
            },
            2,
        ),
        // Half a line, and a whole one, of an engine of which this one knows nothing.
        (&|trial| append(trial, "{\"schema\":1,\"camp"), 2),
        (
            &|trial| {
                let text = fs::read_to_string(trial.path(POINTS)).unwrap();
                append(trial, &format!("{}\n", text.lines().next().unwrap()));
            },
            2,
        ),
        // Without locks, another engine has taken this one for gone.
        (&|trial| write_claim(&trial.path(""), &make_gone()), 2),
        (&|trial| fs::remove_file(trial.path("engine.json")).unwrap(), 2),
        (&|trial| fs::write(trial.path("engine.json"), "{").unwrap(), 2),
    ];
    for (number, (change, left)) in changes.into_iter().enumerate() {
        // In mid-run, and during the last repetition.
        for at in [4, 5] {
            let trial = Trial::new();
            let mut after = None;
            let ended = trial.run(|repetition| {
                if repetition == at {
                    change(&trial);
                    after = trial.points();
                }
            });
            let ended = ended.unwrap_err();
            assert!(
                matches!(ended, CampaignError::Write { .. }) && !ended.is_of_input(),
                "{number}: {ended}"
            );
            assert_eq!(trial.points(), after, "{number}");
            let mut run = 0;
            trial.run(|_| run += 1).unwrap();
            assert_eq!(run, if left == 6 { 6 } else { 6 - at }, "{number}");
            trial.run(|_| panic!("it runs")).unwrap();
        }
    }
}

#[test]
fn links_and_pipes_of_a_strangers_folder_are_neither_followed_nor_waited_for() {
    type Make<'m> = &'m dyn Fn(&Path, &Path);
    let make: [Make<'_>; 3] = [
        &|path, target| symlink(target, path).unwrap(),
        &|path, target| symlink(target.with_extension("missing"), path).unwrap(),
        &|path, _| mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap(),
    ];
    let model = Trial::new();
    model.run(|_| ()).unwrap();
    let line = read_points(&model.path(POINTS)).unwrap().0.remove(0);
    let environment = format!("env/{}.json", line.environment);
    let document = format!("documents/{}.json", line.document.unwrap());
    for make in make {
        for (name, reason) in [
            (POINTS, Some("is no file of this folder")),
            (FILE, None),
            (&environment, None),
            (&document, None),
            ("engine.json", None),
            ("report.md", None),
            ("report.html", None),
        ] {
            let trial = Trial::new();
            trial.run(|_| ()).unwrap();
            let target = trial.folder.path().join("secret.json");
            fs::write(&target, "\"secret\"").unwrap();
            let path = trial.path(name);
            let _ = fs::remove_file(&path);
            make(&path, &target);
            let report = CampaignReport::read(&trial.path(""));
            if let Ok(report) = report {
                report.write(&trial.path("")).unwrap();
                let page = fs::read_to_string(trial.path("report.html")).unwrap();
                assert!(!page.contains("secret"), "{name}");
            }
            let _ = CampaignStatus::read(&trial.path(""));
            let ran = trial.run(|_| ());
            if let Some(reason) = reason {
                let refused = ran.unwrap_err().to_string();
                assert!(refused.contains(reason), "{name}: {refused}");
            }
            assert_eq!(fs::read_to_string(&target).unwrap(), "\"secret\"", "{name}");
            assert!(!target.with_extension("missing").exists(), "{name}");
        }
    }
}

#[test]
fn links_in_the_place_of_a_folder_are_refused_and_not_followed() {
    let nodes = "name = \"own\"\nnodes = \"size\"";
    for (name, has_nodes, is_new) in [
        ("env", false, false),
        ("documents", false, false),
        ("env", false, true),
        ("documents", false, true),
        ("nodes-2", true, false),
        ("nodes-2", true, true),
        ("nodes-2/env", true, false),
        ("nodes-2/documents", true, false),
    ] {
        let trial = Trial::new();
        let file = trial.folder.path().join("own.toml");
        if has_nodes {
            let text = fs::read_to_string(&file).unwrap();
            fs::write(&file, text.replacen("name = \"own\"", nodes, 1)).unwrap();
        }
        let (path, target) = (trial.path(name), trial.folder.path().join("elsewhere"));
        if is_new {
            fs::create_dir(trial.path("")).unwrap();
            fs::create_dir(&target).unwrap();
        } else {
            trial.run(|_| ()).unwrap();
            fs::rename(&path, &target).unwrap();
        }
        symlink(&target, &path).unwrap();
        let list = || {
            let entries = fs::read_dir(&target).unwrap().flatten();
            entries.map(|it| it.file_name()).collect::<BTreeSet<_>>()
        };
        let before = list();
        let refused = [
            trial.run(|_| ()).map(|_| ()),
            CampaignStatus::read(&trial.path("")).map(|_| ()),
            CampaignReport::read(&trial.path("")).map(|_| ()),
        ];
        for refused in &refused[..if is_new { 1 } else { 3 }] {
            let refused = refused.as_ref().unwrap_err().to_string();
            assert!(refused.contains(&format!("{name}: is no folder of this one")), "{refused}");
        }
        assert_eq!(list(), before, "{name}");
    }
}

#[test]
fn the_copy_of_an_older_file_is_read_and_a_new_one_of_its_kind_refused() {
    for (change, refusal) in [
        (["size", "value"], "`value` is a column of the reports"),
        (["size", "ratio"], "`ratio` is a column of the reports"),
        (["a_s", "gb_per_s"], "`gb_per_s` is no time in seconds"),
        (["a_s", "mb_s"], "`mb_s` is no time in seconds"),
    ] {
        let trial = Trial::new();
        trial.run(|_| ()).unwrap();
        // As an older program would have left it.
        let file = trial.folder.path().join("own.toml");
        for path in [&file, &trial.path(FILE), &trial.path(POINTS)] {
            let text = fs::read_to_string(path).unwrap();
            fs::write(path, text.replace(change[0], change[1])).unwrap();
        }
        let refused = Campaign::read(&file).unwrap_err().to_string();
        assert!(refused.contains(refusal), "{refused}");
        let folder = trial.path("");
        let points = Campaign::read_copy(&file).unwrap().points;
        let lines = fs::read_to_string(trial.path(POINTS)).unwrap();
        let lines = lines.lines().map(|line| {
            let mut line: Repetition = serde_json::from_str(line).unwrap();
            let mut points = points.iter();
            let point = points.find(|it| it.parameters == line.parameters).unwrap();
            line.point.clone_from(&point.id);
            serde_json::to_string(&line).unwrap() + "\n"
        });
        fs::write(trial.path(POINTS), lines.collect::<String>()).unwrap();
        assert_eq!(CampaignStatus::read(&folder).unwrap().repetitions, 6);
        let report = CampaignReport::read(&folder).unwrap();
        assert!(report.rows.iter().all(|row| row.value.is_some()));
        let compared =
            crate::compare::CampaignComparison::read(std::slice::from_ref(&folder), &folder)
                .unwrap();
        assert_eq!(compared.points.len(), 2);
    }
}

#[test]
fn a_round_of_any_number_is_read_at_once() {
    let trial = Trial::new();
    trial.run(|_| ()).unwrap();
    let text = String::from_utf8(trial.points().unwrap()).unwrap();
    for round in [100_000_000, u32::MAX - 1, u32::MAX] {
        let far = text.replacen("\"round\":2", &format!("\"round\":{round}"), 1);
        fs::write(trial.path(POINTS), far).unwrap();
        CampaignStatus::read(&trial.path("")).unwrap();
        let report = CampaignReport::read(&trial.path("")).unwrap();
        report.write(&trial.path("")).unwrap();
        crate::plan::CampaignPlan::new(&trial.campaign(), &trial.path(""), None).unwrap();
        // The round that is missing is measured.
        trial.run(|_| ()).unwrap();
    }
}

/// Time after which a reader hangs. In seconds that grow with the square of the points, they take longer.
const HANGS: std::time::Duration = std::time::Duration::from_secs(60);

/// Reads 20,000 points in all ways, some of them with a missing program, a failure, or a number of nodes of their own.
fn read_many() {
    let trial = Trial::new();
    let (file, folder) = (trial.folder.path().join("own.toml"), trial.path(""));
    let many: Vec<String> = (1..20_001).map(|size| size.to_string()).collect();
    let text = fs::read_to_string(&file).unwrap();
    let text = text.replace("[1, 2]", &format!("[{}]", many.join(",")));
    let plan = || crate::plan::CampaignPlan::new(&trial.campaign(), &folder, None).unwrap();
    fs::write(&file, text.replace("echo", "./program-{size}")).unwrap();
    let notes = plan().notes;
    let others = "`./program-1` (and 19999 like it)";
    assert!(notes.len() == 2 && notes[1].contains(others), "{notes:?}");
    let nodes = "name = \"own\"\nnodes = \"size\"";
    fs::write(&file, text.replacen("name = \"own\"", nodes, 1)).unwrap();
    assert_eq!(plan().parts.len(), 20_000);
    fs::write(&file, text.replace("max = 3", "max = 3\nmin = 1\nseconds = 0.5")).unwrap();
    let ran = trial.run(|_| ()).unwrap();
    assert!((1..20_000).contains(&ran.points_ended), "{ran:?}");
    let model = read_points(&trial.path(POINTS)).unwrap().0.remove(0);
    let lines = trial.campaign().points.into_iter().enumerate();
    let lines = lines.map(|(number, point)| {
        let mut line = model.clone();
        (line.point, line.parameters) = (point.id, point.parameters);
        if number % 2 == 0 {
            line.status = crate::record::Status::Failed;
        }
        serde_json::to_string(&line).unwrap() + "\n"
    });
    fs::write(trial.path(POINTS), lines.collect::<String>()).unwrap();
    let status = CampaignStatus::read(&folder).unwrap();
    assert_eq!((status.repetitions, status.failures.len()), (20_000, 10_000));
    let report = CampaignReport::read(&folder).unwrap();
    report.write(&folder).unwrap();
    assert_eq!(report.rows.len(), 20_000);
    trial.run(|_| panic!("its time is used up")).unwrap();
    let folders = [folder.clone()];
    let compared = crate::compare::CampaignComparison::read(&folders, &folder).unwrap();
    assert_eq!(compared.points.len(), 20_000);
}

#[test]
fn many_points_are_read_in_seconds_that_grow_with_them() {
    let (sender, done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        read_many();
        let _ = sender.send(());
    });
    done.recv_timeout(HANGS).expect("an answer");
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
