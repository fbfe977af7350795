use std::path::Path;

use super::*;
use crate::point::Parameter;

const WHOLE: &str = r#"
name = "unlike hosts"
exclude = ["size == 8192 and ranks == 2"]

[sweep]
size = [4096, 8192]
hosts = ["1:4", "1:2:4:8"]

[[zip]]
ranks = [2, 4]
hosts = ["1:4", "1:2:4:8"]

[[contender]]
name = "ours"
command = "isochron mxm --size {size} --pace '{hosts}' --json --out {folder}/{{folder}}"
launch = "mpirun -n {ranks}"
env = { OMP_NUM_THREADS = "{ranks}", OUT = "{folder}" }
result = { json = ["wall_s", "balance_s", "gflops"] }

[[contender]]
name = "pdgemm"
command = "pdgemm {size} 256 {grid}"
result = { regex = 'GFLOPS (?P<gflops>[0-9.]+) in (?P<wall_s>[0-9.]+) s' }
tune = { grid = ["1 2", "2 1"] }
value = "wall_s"
limit_s = 60

[repeat]
min = 4
precision = 0.05
seconds = 3600

[[goal]]
ratio = ["pdgemm.wall_s", "ours.wall_s + ours.balance_s"]
at_least = 1.0
"#;

/// Changes of the file: what is there, what takes its place, the line of the mistake, and a part of the message.
const MISTAKES: &[(&str, &str, usize, &str)] = &[
    ("min = 4", "mim = 4", 29, "unknown key `mim`: did you mean `min`?"),
    ("value = \"wall_s\"", "valeu = \"wall_s\"", 25, "did you mean `value`?"),
    ("{size} --pace", "{sise} --pace", 15, "unknown parameter `{sise}`: did you mean `size`?"),
    (
        "size = [4096, 8192]",
        "size = [4096, 8192]\nfolder = [1]",
        7,
        "`folder` is a column of the reports already, or the folder",
    ),
    ("ranks == 2\"", "rank == 2\"", 3, "unknown parameter `rank`: did you mean `ranks`?"),
    ("ranks == 2\"", "ranks == 3\"", 3, "excludes no point"),
    ("ranks == 2\"", "ranks == 2 or true\"", 3, "leaves no point"),
    ("8192 and", "8192 &&", 3, "write `and`"),
    (
        "\"1:4\", \"1:2:4:8\"]\n\n[[zip]]",
        "\"1:4\", \"1:8\"]\n\n[[zip]]",
        9,
        "no row of this [[zip]] has hosts=1:8",
    ),
    ("\"1:4\", \"1:2:4:8\"]\n\n[[zip]]", "\"1:4\"]\n\n[[zip]]", 9, "no point has hosts=1:2:4:8"),
    ("ranks = [2, 4]", "ranks = [2, 4, 6]", 9, "`hosts` has 2, `ranks` has 3"),
    (
        "ranks = [2, 4]\nhosts = [\"1:4\", \"1:2:4:8\"]",
        "ranks = [2]\nhosts = [\"1:4\"]",
        9,
        "no row of this [[zip]] has",
    ),
    (
        "size = [4096, 8192]",
        "size = [4096, 8192]\nspare = [1, 2]",
        7,
        "no contender uses the parameter `spare`",
    ),
    ("size = [4096, 8192]", "size = []", 6, "`size` has no values"),
    ("size = [4096, 8192]", "size = [4096, [1]]", 6, "expected a number, a string"),
    (
        "grid = [\"1 2\", \"2 1\"]",
        "gird = [\"1 2\"]",
        22,
        "unknown parameter `{grid}`: did you mean `gird`?",
    ),
    ("tune = { grid", "tune = { grid = [\"1 1\"], size", 24, "`size` is a parameter already"),
    (
        "\"pdgemm.wall_s\"",
        "\"pdgem.wall_s\"",
        34,
        "unknown contender `pdgem`: did you mean `pdgemm`?",
    ),
    (
        "ours.balance_s\"",
        "ours.balance\"",
        34,
        "`ours` has no result `balance`: did you mean `balance_s`?",
    ),
    ("at_least = 1.0", "", 33, "`at_least` or `at_most`"),
    ("value = \"wall_s\"", "value = \"gflops\"", 25, "add better = \"more\""),
    ("limit_s = 60", "limit_s = 0", 26, "above 0"),
    ("limit_s = 60", "keep = true", 26, "has no `json`"),
    ("name = \"pdgemm\"", "name = \"p\\ndgemm\"", 21, "`p\\ndgemm` is no name for readers"),
    ("ratio = [\"pdgemm.wall_s\"", "ratio = [\"p-dgemm.wall_s\"", 34, "unknown contender"),
    ("at_least = 1.0", "at_least = nan", 33, "`at_most`, which are numbers"),
    (
        "[repeat]",
        "[values]\nmedian = \"2 * wall_s\"\n[repeat]",
        29,
        "`median` is a column of the reports already",
    ),
    ("name = \"pdgemm\"", "name = \"ours\"", 21, "two contenders are called `ours`"),
    ("--pace '{hosts}'", "--pace '{hosts}", 15, "open quotation"),
    ("min = 4", "min = 40", 28, "`min` is at least 1 and at most `max`"),
    ("min = 4", "min = 4\nexact = true", 28, "leave out the other keys"),
    ("name = \"unlike hosts\"", "", 1, "missing key `name`"),
    (
        "\n[sweep]",
        "nodes = \"rank / 2\"\n\n[sweep]",
        4,
        "unknown parameter `rank`: did you mean `ranks`?",
    ),
    (
        "\n[sweep]",
        "nodes = \"ranks / 4\"\n\n[sweep]",
        4,
        "`ranks / 4` is 0.5 at hosts=1:4 ranks=2 size=4096: a number of nodes is whole",
    ),
    ("\n[sweep]", "nodes = 0\n\n[sweep]", 4, "`0` is 0 at hosts=1:4"),
    ("\n[sweep]", "nodes = \"hosts\"\n\n[sweep]", 4, "`hosts` is no number at hosts=1:4"),
    ("\n[sweep]", "nodes = [1]\n\n[sweep]", 4, "expected a number, a string"),
    ("name = \"unlike", "node = 4\nname = \"unlike", 2, "did you mean `nodes`?"),
    (
        "value = \"wall_s\"",
        "value = \"wall_s\"\nwhen = \"rank == 2\"",
        26,
        "unknown parameter `rank`: did you mean `ranks`?",
    ),
    ("value = \"wall_s\"", "value = \"wall_s\"\nwhen = \"ranks == 3\"", 26, "holds at no point"),
    (
        "value = \"wall_s\"",
        "value = \"wall_s\"\ntune_when = \"ranks == 2\"",
        26,
        "no tuned values are left at hosts=1:2:4:8",
    ),
    ("at_least = 1.0", "at_least = 1.0\nvalue = \"ours.wall_s\"", 33, "either `ratio` or `value`"),
    (
        "[repeat]",
        "[values]\nsped = \"speed / size\"\n[repeat]",
        29,
        "no contender has all results of `sped`",
    ),
    ("[repeat]", "[values]\nsize = \"2 * wall_s\"\n[repeat]", 29, "`size` is no name for a value"),
    ("name = \"pdgemm\"", "name = \"hosts\"", 21, "`hosts` is a parameter already"),
];

fn parse(text: &str) -> Result<Campaign, Mistake> {
    Campaign::parse(text, PathBuf::from("/"), false)
}

#[test]
fn a_campaign_has_the_points_of_its_sweep_joined_with_its_zip() {
    let campaign = parse(WHOLE).unwrap();
    let points: Vec<String> =
        campaign.points.iter().map(|point| describe_parameters(&point.parameters)).collect();
    assert_eq!(
        points,
        [
            "hosts=1:4 ranks=2 size=4096",
            "hosts=1:2:4:8 ranks=4 size=4096",
            "hosts=1:2:4:8 ranks=4 size=8192",
        ]
    );
    assert_eq!(
        (campaign.repeat.min, campaign.repeat.max, campaign.repeat.seconds),
        (4, 15, Some(3600.0))
    );
    let [ours, pdgemm] = &campaign.contenders[..] else {
        panic!("two contenders");
    };
    assert_eq!((ours.value.source(), ours.limit_s), ("wall_s", 600.0));
    assert_eq!(pdgemm.limit_s, 60.0);
    let parameters = &campaign.points[1].parameters;
    let line = ours.make_command(parameters, &Parameters::new()).unwrap();
    let words = "mpirun -n 4 isochron mxm --size 4096 --pace 1:2:4:8 --json --out";
    assert_eq!(line.words[..11], words.split(' ').collect::<Vec<_>>());
    let shown = line.describe();
    assert!(
        shown.starts_with("OMP_NUM_THREADS=4 OUT='{folder}' mpirun -n 4 ")
            && shown.ends_with(" --out '{folder}/{folder}'"),
        "{shown}"
    );
    let line = line.locate(Path::new("/a folder"));
    assert_eq!(
        (line.words[11].as_str(), line.env["OUT"].as_str()),
        ("/a folder/{folder}", "/a folder")
    );
    // A tuned text of two words is two words.
    let tuned = [("grid".to_owned(), Parameter::Text("1 2".to_owned()))].into();
    let line = pdgemm.make_command(parameters, &tuned).unwrap();
    assert_eq!(line.words, ["pdgemm", "4096", "256", "1", "2"]);
}

#[test]
fn mistakes_are_told_with_their_line_and_the_nearest_name() {
    for &(good, bad, line, part) in MISTAKES {
        let text = WHOLE.replacen(good, bad, 1);
        assert_ne!(text, WHOLE, "{good}");
        let mistake = parse(&text).expect_err(bad);
        assert!(mistake.reason.contains(part), "{bad}: {}", mistake.reason);
        let found = 1 + text[..mistake.at].matches('\n').count();
        assert_eq!(found, line, "{bad}: {}", mistake.reason);
    }
}

#[test]
fn a_goal_that_reads_a_contender_of_another_name_is_told_which() {
    for name in ["pd-gemm", "pd gemm", "v2.0", "2nd", "größe (alt)", "a/b"] {
        let text = WHOLE.replace("name = \"pdgemm\"", &format!("name = \"{name}\""));
        let text = text.replace("pdgemm.wall_s", &format!("{name}.wall_s"));
        let reason = parse(&text).expect_err(name).reason;
        assert!(reason.contains(&format!("the contender `{name}`")), "{name}: {reason}");
        // Without a goal the name is one like others.
        let (text, _) = text.split_once("[[goal]]").unwrap();
        assert!(parse(text).is_ok(), "{name}");
    }
}

#[test]
fn points_need_the_nodes_that_the_file_says() {
    let list = |nodes: &str| {
        let text = format!("nodes = {nodes}\n{WHOLE}");
        parse(&text).unwrap().list_nodes()
    };
    assert_eq!(list("\"ranks / 2\""), [1, 2].into());
    assert_eq!(list("3"), [3].into());
    assert!(parse(WHOLE).unwrap().list_nodes().is_empty());
    let campaign = parse(&format!("nodes = \"ranks / 2\"\n{WHOLE}")).unwrap();
    assert_eq!(campaign.restrict(2).points[..], campaign.points[1..]);
    // A parameter that only decides how many nodes a job has is used.
    let text = WHOLE.replacen("size = [4096", "spare = [1, 2]\nsize = [4096", 1);
    assert!(parse(&text).is_err());
    assert!(parse(&format!("nodes = \"spare\"\n{text}")).is_ok());
}

#[test]
fn a_campaign_without_parameters_has_one_point() {
    let text = "name = \"a\"\n[[contender]]\nname = \"b\"\ncommand = \"true\"\n";
    let campaign = parse(text).unwrap();
    assert_eq!(campaign.points.len(), 1);
    assert_eq!(campaign.contenders[0].value.source(), TOOK);
}

#[test]
fn exact_values_have_one_round() {
    let text =
        "name = \"a\"\n[[contender]]\nname = \"b\"\ncommand = \"true\"\n[repeat]\nexact = true\n";
    let repeat = parse(text).unwrap().repeat;
    assert_eq!((repeat.min, repeat.max, repeat.again), (1, 1, 0));
    assert_eq!(repeat.confidence, 1.0);
}

#[test]
fn exclude_below_a_table_is_told_where_it_belongs() {
    let text = WHOLE.replacen("exclude = [\"size == 8192 and ranks == 2\"]\n", "", 1).replacen(
        "[[contender]]",
        "exclude = [\"size == 8192 and ranks == 2\"]\n[[contender]]",
        1,
    );
    let mistake = parse(&text).unwrap_err();
    assert!(mistake.reason.contains("above the first table"), "{}", mistake.reason);
}

#[test]
fn the_definition_of_a_contender_is_what_it_measures() {
    let definition = |text: &str| parse(text).unwrap().contenders[1].definition.clone();
    let whole = definition(WHOLE);
    assert_eq!(definition(&WHOLE.replacen("limit_s = 60", "limit_s = 90", 1)), whole);
    assert_ne!(definition(&WHOLE.replacen("256", "128", 1)), whole);
    let ours = |text: &str| parse(text).unwrap().contenders[0].clone();
    let kept = ours(&WHOLE.replacen("command", "keep = true\ncommand", 1));
    assert!(kept.keep);
    assert_eq!(kept.definition, ours(WHOLE).definition);
}

/// Returns the file of one contender with these tables, whose command has these names.
fn write_file(tables: &str, names: &str, tune: &str) -> String {
    let names: String = names.chars().map(|name| format!(" {{{name}}}")).collect();
    format!(
        "name = \"c\"\n{tables}[[contender]]\nname = \"one\"\ncommand = \"echo{names}\"\n{tune}\n"
    )
}

#[test]
fn lists_of_any_length_make_at_most_100000_points_and_trials() {
    let list = |name: char, length: usize| {
        let values: Vec<String> = (0..length).map(|value| value.to_string()).collect();
        format!("{name} = [{}]", values.join(","))
    };
    let lists = |names: &str, length: usize, end: &str| -> String {
        let lists = names.chars().map(|name| list(name, length) + end);
        lists.collect()
    };
    let sweep = |names: &str, length| format!("[sweep]\n{}", lists(names, length, "\n"));
    let zip = |names: &str, length| format!("[[zip]]\n{}", lists(names, length, "\n"));
    let tune = |names: &str, length| format!("tune = {{ {} }}", lists(names, length, ", "));
    let tune = |names: &str, length| tune(names, length).replace(",  }", " }");
    for (file, count) in [
        (write_file(&sweep("ab", 316), "ab", ""), Ok((99_856, 1))),
        (write_file(&sweep("ab", 317), "ab", ""), Err("[sweep] makes more than 100000 points")),
        (write_file(&sweep("abcdefgh", 1000), "abcdefgh", ""), Err("[sweep] makes more")),
        (write_file(&(sweep("a", 316) + &zip("bc", 316)), "abc", ""), Ok((99_856, 1))),
        (
            write_file(&(sweep("a", 20_000) + &zip("b", 20_000)), "ab", ""),
            Err("this [[zip]] makes more than 100000 points"),
        ),
        (
            write_file(&(sweep("a", 1) + &zip("b", 50_000) + &zip("c", 50_000)), "abc", ""),
            Err("this [[zip]] makes more than"),
        ),
        (write_file(&(sweep("a", 100_000) + &zip("ab", 100_000)), "ab", ""), Ok((100_000, 1))),
        (
            write_file(&(sweep("a", 99_999) + &zip("ab", 100_000)), "ab", ""),
            Err("no point has a=99999 b=99999"),
        ),
        (
            write_file(&(sweep("a", 100_000) + &zip("ab", 99_999)), "ab", ""),
            Err("no row of this [[zip]] has a=99999"),
        ),
        (write_file("", "ab", &tune("ab", 316)), Ok((1, 99_856))),
        (
            write_file("", "abcdef", &tune("abcdef", 20)),
            Err("at 1 points `tune` makes more than 100000 trials"),
        ),
        (write_file(&sweep("c", 1000), "abc", &tune("ab", 10)), Ok((1000, 100))),
        (
            write_file(&sweep("c", 1000), "abc", &tune("ab", 11)),
            Err("at 1000 points `tune` makes more than"),
        ),
    ] {
        match (parse(&file), count) {
            (Ok(campaign), Ok((points, trials))) => {
                let tunings = campaign.contenders[0].list_tunings(&campaign.points[0].parameters);
                assert_eq!((campaign.points.len(), tunings.len()), (points, trials));
            }
            (Err(mistake), Err(reason)) => {
                assert!(mistake.reason.contains(reason), "{}", mistake.reason);
                assert!(mistake.at > 0);
            }
            (found, expected) => panic!("{expected:?}: {:?}", found.map(|it| it.points.len())),
        }
    }
}

#[test]
fn numbers_that_no_record_can_hold_are_refused() {
    for number in ["inf", "-inf", "+inf", "nan", "-nan"] {
        for (good, bad) in [
            ("size = [4096, 8192]", format!("size = [4096, 8192, {number}]")),
            ("ranks = [2, 4]", format!("ranks = [2, {number}]")),
            ("grid = [\"1 2\", \"2 1\"]", format!("grid = [{number}]")),
        ] {
            let mistake = parse(&WHOLE.replacen(good, &bad, 1)).unwrap_err();
            assert!(mistake.reason.contains("records cannot hold"), "{bad}: {}", mistake.reason);
        }
    }
}

#[test]
fn equal_numbers_that_are_written_in_two_ways_are_refused_in_all_lists() {
    for (one, other, is_one) in [
        ("3.1", "3.10", true),
        ("1e3", "1000.0", true),
        ("0.5", "+0.5", true),
        ("3.10", "3.10", false),
        ("3.1", "3.11", false),
        ("1", "1.0", false),
        ("\"3.1\"", "3.10", false),
        ("\"3.1\"", "\"3.10\"", false),
    ] {
        let sweep = format!("[sweep]\na = [{one}, {other}]\n");
        let apart = format!("[sweep]\na = [{one}]\nb = [{other}]\n");
        let zip = format!("[[zip]]\na = [{one}, {other}]\nb = [1, 2]\n");
        let tune = format!("tune = {{ a = [{one}, {other}] }}");
        for (file, is_list) in [
            (write_file(&sweep, "a", ""), is_one || one == other),
            (write_file(&apart, "ab", ""), false),
            (write_file(&zip, "ab", ""), false),
            (write_file("", "a", &tune), false),
        ] {
            match parse(&file) {
                Ok(_) => assert!(!is_one && !is_list, "{file}"),
                Err(mistake) => {
                    let reason = if is_list { "is there twice" } else { "are one number" };
                    assert!(is_one || is_list, "{file}");
                    assert!(mistake.reason.contains(reason), "{}", mistake.reason);
                    // The copy of an older file is read.
                    let copy = Campaign::parse(&file, PathBuf::from("/"), true);
                    assert_eq!(copy.is_ok(), !is_list, "{file}");
                }
            }
        }
    }
}

#[test]
fn points_are_joined_with_the_rows_that_agree() {
    let set = |names: &str, digits: usize| -> Parameters {
        let values = names.chars().enumerate();
        values
            .map(|(place, name)| {
                let digit = digits / 3usize.pow(place as u32) % 3;
                // Numbers of two kinds and a text are three values.
                let value = match digit {
                    0 => Parameter::Whole(1),
                    1 => Parameter::Number(1.5),
                    _ => Parameter::Text("1".to_owned()),
                };
                (name.to_string(), value)
            })
            .collect()
    };
    let agree = |one: &Parameters, other: &Parameters| {
        one.iter().all(|(name, value)| other.get(name).is_none_or(|there| there == value))
    };
    let mut random = fastrand::Rng::with_seed(1);
    for (names, of_rows) in [("ab", "bc"), ("ab", "c"), ("ab", "ab"), ("abc", "ca")] {
        for _ in 0..200 {
            let mut draw = |names: &str| -> Vec<Parameters> {
                let number = random.usize(1..6);
                (0..number).map(|_| set(names, random.usize(0..27))).collect()
            };
            let (points, rows) = (draw(names), draw(of_rows));
            let lone_row = rows.iter().find(|row| !points.iter().any(|point| agree(point, row)));
            let lone_point = points.iter().find(|point| !rows.iter().any(|row| agree(point, row)));
            match (join(&points, &rows), lone_row, lone_point) {
                (Err(reason), _, Some(point)) => {
                    let point = describe_parameters(point);
                    assert_eq!(reason, format!("no row of this [[zip]] has {point}"));
                }
                (Err(reason), Some(_), None) => {
                    assert!(reason.starts_with("no point has "), "{reason}");
                }
                (joined, ..) => {
                    let pairs =
                        points.iter().flat_map(|point| rows.iter().map(move |row| (point, row)));
                    let pairs = pairs.filter(|(point, row)| agree(point, row));
                    let expected: Vec<Parameters> = pairs
                        .map(|(point, row)| point.clone().into_iter().chain(row.clone()).collect())
                        .collect();
                    assert_eq!(joined, Ok(expected));
                }
            }
        }
    }
}

#[test]
fn a_rate_is_no_time() {
    let better = |result: &str, value: &str| {
        let text = format!(
            "name = \"a\"\n[[contender]]\nname = \"b\"\ncommand = \"true\"\nresult = {result}\n{value}"
        );
        parse(&text).map(|campaign| campaign.contenders[0].better)
    };
    for name in [
        "wall_s",
        "t_s",
        "busy_s",
        "step_s",
        "person_s",
        "b_s",
        "per_step_s",
        "hop_s",
        "gib_read_s",
    ] {
        assert_eq!(better(&format!("{{ json = [\"{name}\"] }}"), ""), Ok(Better::Less), "{name}");
    }
    for name in [
        "gb_per_s",
        "per_s",
        "flops_per_s",
        "GB_s",
        "read_mib_s",
        "gflops_s",
        "ops_s",
        "Mbit_s",
        "net_bytes_s",
        "flop_s",
    ] {
        for result in
            [format!("{{ json = [\"{name}\"] }}"), format!("{{ regex = '(?P<{name}>.)' }}")]
        {
            let refused = better(&result, "").unwrap_err().reason;
            assert!(refused.contains("add better = \"more\""), "{name}: {refused}");
            assert_eq!(better(&result, "better = \"more\""), Ok(Better::More));
        }
    }
    for place in ["GB/s", "/memory/GB~1s", "/link/bytes_per_s"] {
        assert!(
            better(&format!("{{ json = {{ read_s = \"{place}\" }} }}"), "").is_err(),
            "{place}"
        );
    }
    let result = "{ json = [\"wall_s\", \"a_s\"] }";
    for value in ["1 / wall_s", "1e9/wall_s", "a_s / wall_s"] {
        for values in [
            format!("value = \"{value}\""),
            format!("value = \"x_s\"\n[values]\nx_s = \"{value}\""),
            format!("value = \"wall_s + x_s\"\n[values]\nx_s = \"{value}\""),
            format!("value = \"y_s\"\n[values]\nx_s = \"{value}\"\ny_s = \"2 * x_s\""),
        ] {
            let refused = better(result, &values).unwrap_err().reason;
            assert!(refused.contains("add better = \"more\""), "{values}: {refused}");
        }
    }
    assert_eq!(
        better(
            result,
            "value = \"sum_s\"\n[values]\nrate = \"1 / wall_s\"\nsum_s = \"wall_s + a_s\""
        ),
        Ok(Better::Less)
    );
    // Work over a rate is a time.
    let ideal = "value = \"ideal_s\"\n[values]\nideal_s = \"2e-9 * 8**3 / gflops\"";
    assert_eq!(better("{ json = [\"gflops\"] }", ideal), Ok(Better::Less));
    assert_eq!(better(result, "value = \"wall_s + a_s\""), Ok(Better::Less));
}
