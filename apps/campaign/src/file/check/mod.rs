//! Checks of a campaign file.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use isochron_base::printable::escape;
use regex::Regex;
use toml::Spanned;
use toml::de::DeValue;

use super::combine::{MOST, combine_all, join};
use super::raw::{Lists, RawContender, RawFile, RawGoal};
use super::{
    Better, Campaign, CampaignGoal, ComputedValue, Contender, FOLDER, Repeat, TOOK,
    fingerprint_definition,
};
use crate::expression::Expression;
use crate::point::{CampaignPoint, Parameter, Parameters, describe_parameters};
use crate::reading::ResultRule;
use crate::template::{Template, is_name};

/// Longest time of a repetition unless the file says otherwise.
const LIMIT_S: f64 = 600.0;

/// Names of the folder of results, of columns of the reports and of the value of all contenders. A parameter has another one.
const TAKEN: &str = "command contender disturbed end failed folder found goal median notes outcome ratio ratio_high \
                     ratio_low rounds took_s value value_high value_low value_of verdict";

/// A mistake in a campaign file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mistake {
    /// Its place, in bytes from the beginning.
    pub at: usize,
    pub reason: String,
}

impl Mistake {
    fn new(span: Range<usize>, reason: impl Into<String>) -> Self {
        Self { at: span.start, reason: reason.into() }
    }
}

impl Campaign {
    /// Reads the text of a campaign file, or of the copy of one that was begun; commands run in `folder`.
    pub(super) fn parse(text: &str, folder: PathBuf, is_copy: bool) -> Result<Self, Mistake> {
        let raw: RawFile = toml::from_str(text).map_err(|error| Mistake {
            at: error.span().map_or(0, |span| span.start),
            reason: describe_refusal(error.message()),
        })?;
        let mut points = list_points(&raw)?;
        let names = list_parameters(&raw);
        if let Some(nodes) = &raw.nodes {
            set_nodes(&mut points, nodes, &names)?;
        }
        let space = Space {
            numbers: match read_numbers(text, &raw) {
                Err(mistake) if !is_copy => return Err(mistake),
                read => Arc::new(read.unwrap_or_default()),
            },
            names,
            points: &points,
        };
        let values = check_values(&raw, &space)?;
        let contenders =
            raw.contender.iter().map(|contender| check_contender(contender, &space, &values));
        let contenders: Vec<Contender> = contenders.collect::<Result<_, _>>()?;
        check_names(&raw)?;
        check_use(&raw, &contenders)?;
        check_places(&raw, &contenders, &space)?;
        if !is_copy {
            check_meanings(&raw, &contenders)?;
        }
        if let Some((name, value)) = values.iter().find(|(name, _)| {
            let names =
                |contender: &Contender| contender.value_names().contains(&name.get_ref().as_str());
            !contenders.iter().any(names)
        }) {
            let reason =
                format!("no contender has all results of `{}`: {}", name.get_ref(), value.source());
            return Err(Mistake::new(name.span(), reason));
        }
        let goals = raw.goal.iter().map(|goal| check_goal(goal, &contenders, &space));
        Ok(Self {
            goals: goals.collect::<Result<_, _>>()?,
            repeat: check_repeat(raw.repeat.as_ref())?,
            values: values.iter().map(|(name, _)| name.get_ref().clone()).collect(),
            name: raw.name.into_inner(),
            about: raw.about,
            seed: raw.seed,
            points,
            contenders,
            text: text.to_owned(),
            folder,
        })
    }
}

/// The parameters with the points that they make.
struct Space<'r> {
    /// Numbers as the file writes them, by their bits.
    numbers: Arc<BTreeMap<u64, String>>,
    names: BTreeSet<&'r str>,
    points: &'r [CampaignPoint],
}

impl Space<'_> {
    /// Returns the numbers of the points at which a condition on parameters holds; all without one.
    fn find_points(&self, when: Option<&Spanned<String>>) -> Result<BTreeSet<usize>, Mistake> {
        let Some(text) = when else {
            return Ok((0..self.points.len()).collect());
        };
        let at = |reason: String| Mistake::new(text.span(), reason);
        let condition = read_expression(text.get_ref(), &self.names).map_err(at)?;
        let mut found = BTreeSet::new();
        for (number, point) in self.points.iter().enumerate() {
            if condition.holds(&point.parameters).map_err(at)? {
                found.insert(number);
            }
        }
        if found.is_empty() {
            return Err(at(format!("`{}` holds at no point", condition.source())));
        }
        Ok(found)
    }
}

/// Refuses points without a contender, points at which a contender has no tuned values, and commands that cannot be split.
fn check_places(raw: &RawFile, contenders: &[Contender], space: &Space<'_>) -> Result<(), Mistake> {
    for (number, point) in space.points.iter().enumerate() {
        if !contenders.iter().any(|contender| contender.points.contains(&number)) {
            let reason = format!("no contender runs at {}", describe_parameters(&point.parameters));
            return Err(Mistake::new(raw.name.span(), reason));
        }
        for (contender, raw) in contenders.iter().zip(&raw.contender) {
            if !contender.points.contains(&number) {
                continue;
            }
            let tunings = contender.list_tunings(&point.parameters);
            let Some(tuned) = tunings.first() else {
                let span = raw.tune_when.as_ref().map_or(0..0, Spanned::span);
                let reason = format!(
                    "no tuned values are left at {}",
                    describe_parameters(&point.parameters)
                );
                return Err(Mistake::new(span, reason));
            };
            let made = contender.make_command(&point.parameters, tuned);
            made.map_err(|reason| Mistake::new(raw.command.span(), reason))?;
        }
    }
    Ok(())
}

/// Reads the values that are computed from results, in the order of the file.
fn check_values<'r>(
    raw: &'r RawFile,
    space: &Space<'_>,
) -> Result<Vec<(&'r Spanned<String>, Expression)>, Mistake> {
    let mut values: Vec<_> = raw.values.iter().collect();
    values.sort_by_key(|(name, _)| name.span().start);
    values
        .into_iter()
        .map(|(name, text)| {
            let named = name.get_ref().as_str();
            if !is_name(named) || space.names.contains(named) {
                let reason = format!("`{named}` is no name for a value, or has another meaning");
                return Err(Mistake::new(name.span(), reason));
            }
            let expression = Expression::parse(text.get_ref());
            let expression = expression.map_err(|reason| Mistake::new(text.span(), reason))?;
            Ok((name, expression))
        })
        .collect()
}

/// Returns those of the values that can be computed from some results and the parameters. A result of the same name is not
/// computed.
fn choose_values(
    values: &[(&Spanned<String>, Expression)],
    result: &ResultRule,
    space: &Space<'_>,
) -> Vec<ComputedValue> {
    let results = result.names();
    let mut known: BTreeSet<&str> = results.iter().copied().chain([TOOK]).collect();
    known.extend(&space.names);
    let mut chosen = Vec::new();
    for (name, expression) in values {
        let name = name.get_ref().as_str();
        let names = expression.names();
        if !results.contains(&name) && names.iter().all(|name| known.contains(name.as_str())) {
            known.insert(name);
            chosen.push(ComputedValue { name: name.to_owned(), expression: expression.clone() });
        }
    }
    chosen
}

/// Rewrites a message about an unknown key so that it names the nearest key.
fn describe_refusal(message: &str) -> String {
    let message = message.lines().collect::<Vec<_>>().join(", ");
    let mut quoted = message.split('`').skip(1).step_by(2);
    match quoted.next() {
        Some(unknown) if message.starts_with("unknown field") => {
            format!("unknown key `{unknown}`{}", suggest(unknown, quoted))
        }
        _ => message.replace("missing field", "missing key"),
    }
}

/// Names the nearest of some names to an unknown one, or all of them.
fn suggest<'n>(unknown: &str, names: impl IntoIterator<Item = &'n str>) -> String {
    let names: BTreeSet<&str> = names.into_iter().collect();
    let nearest = names
        .iter()
        .map(|name| (strsim::damerau_levenshtein(unknown, name), name))
        .min()
        .filter(|(distance, name)| *distance <= 1 + name.len() / 3);
    if let Some((_, nearest)) = nearest {
        return format!(": did you mean `{nearest}`?");
    }
    if names.is_empty() {
        return ": there are none".to_owned();
    }
    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    format!(": known are {}", names.join(", "))
}

/// Returns the names of all parameters.
fn list_parameters(raw: &RawFile) -> BTreeSet<&str> {
    let zipped = raw.zip.iter().flat_map(|zip| zip.get_ref().keys());
    let names = raw.sweep.keys().chain(zipped);
    names.map(|name| name.get_ref().as_str()).collect()
}

/// Returns all lists of values.
fn list_lists(raw: &RawFile) -> impl Iterator<Item = &Lists> {
    let zips = raw.zip.iter().map(Spanned::get_ref);
    let tunes = raw.contender.iter().map(|contender| &contender.tune);
    [&raw.sweep].into_iter().chain(zips).chain(tunes)
}

/// Returns the numbers of all lists as the file writes them, by their bits. `3.10` may be a version, and is no `3.1`: both would be
/// one point.
fn read_numbers(text: &str, raw: &RawFile) -> Result<BTreeMap<u64, String>, Mistake> {
    let mut numbers = BTreeMap::new();
    for list in list_lists(raw).flat_map(BTreeMap::values) {
        // The syntax is known to be right.
        let written = text.get(list.span()).and_then(|it| DeValue::parse(it).ok());
        let written = written.as_ref().and_then(|it| it.get_ref().as_array());
        let floats = written.into_iter().flatten();
        for new in floats.filter_map(|it| Some(it.get_ref().as_float()?.as_str())) {
            let number = new.parse().unwrap_or(f64::NAN);
            let old = numbers.entry(number.to_bits()).or_insert_with(|| new.to_owned());
            if old != new {
                let reason =
                    format!("`{old}` and `{new}` are one number: write both alike, or as texts");
                return Err(Mistake::new(list.span(), reason));
            }
        }
    }
    Ok(numbers)
}

fn check_lists(lists: &Lists) -> Result<(), Mistake> {
    for (key, list) in lists {
        let (name, values) = (key.get_ref(), list.get_ref());
        // JSON, which records are of, has neither `inf` nor `nan`.
        let is_lost = |value: &&Parameter| serde_json::to_value(value).is_ok_and(|it| it.is_null());
        let (at, reason) = if name == "exclude" {
            let reason = "`exclude` stands above the first table of the file";
            (key.span(), reason.to_owned())
        } else if !is_name(name) {
            let reason = format!("`{name}` is no name: use letters, digits and `_`");
            (key.span(), reason)
        } else if values.is_empty() {
            (list.span(), format!("`{name}` has no values"))
        } else if let Some(it) = values.iter().find(is_lost) {
            let reason = format!("records cannot hold the number {it}: write a text, \"{it}\"");
            (list.span(), reason)
        } else {
            continue;
        };
        return Err(Mistake::new(at, reason));
    }
    Ok(())
}

/// Lists the points: all combinations of the sweep, joined with the rows of each zip, without those excluded.
fn list_points(raw: &RawFile) -> Result<Vec<CampaignPoint>, Mistake> {
    check_lists(&raw.sweep)?;
    // In the order of the file.
    let mut lists: Vec<_> = raw.sweep.iter().collect();
    lists.sort_by_key(|(name, _)| name.span().start);
    let swept = combine_all(lists.iter().map(|(name, values)| (name.get_ref(), values.get_ref())));
    let first = lists.first().map_or(0..0, |(name, _)| name.span());
    let mut points = swept.ok_or_else(|| {
        Mistake::new(first.clone(), format!("[sweep] makes more than {MOST} points"))
    })?;
    for zip in &raw.zip {
        points = join_zip(points, zip)?;
    }
    for text in &raw.exclude {
        points = exclude(points, text, &list_parameters(raw))?;
    }
    let mut seen = BTreeSet::new();
    let points: Vec<CampaignPoint> = points.into_iter().map(CampaignPoint::new).collect();
    match points.iter().find(|point| !seen.insert(point.id.clone())) {
        Some(twice) => Err(Mistake::new(
            first,
            format!("the point {} is there twice", describe_parameters(&twice.parameters)),
        )),
        None => Ok(points),
    }
}

fn join_zip(points: Vec<Parameters>, zip: &Spanned<Lists>) -> Result<Vec<Parameters>, Mistake> {
    check_lists(zip.get_ref())?;
    let lists = zip.get_ref();
    let lengths = lists.values().map(|values| values.get_ref().len());
    let lengths: BTreeSet<usize> = lengths.collect();
    let (1, Some(length)) = (lengths.len(), lengths.first()) else {
        let lengths = lists
            .iter()
            .map(|(name, values)| format!("`{}` has {}", name.get_ref(), values.get_ref().len()));
        let lengths = lengths.collect::<Vec<_>>().join(", ");
        let reason = format!("the lists of a [[zip]] are of one length: {lengths}");
        return Err(Mistake::new(zip.span(), reason));
    };
    let row = |row: usize| {
        let values = lists.iter();
        let values =
            values.map(|(name, values)| (name.get_ref().clone(), values.get_ref()[row].clone()));
        values.collect()
    };
    let rows: Vec<Parameters> = (0..*length).map(row).collect();
    join(&points, &rows).map_err(|reason| Mistake::new(zip.span(), reason))
}

fn exclude(
    points: Vec<Parameters>,
    text: &Spanned<String>,
    parameters: &BTreeSet<&str>,
) -> Result<Vec<Parameters>, Mistake> {
    let at = |reason: String| Mistake::new(text.span(), reason);
    let excluded = read_expression(text.get_ref(), parameters).map_err(at)?;
    let before = points.len();
    let mut kept = Vec::new();
    for point in points {
        if !excluded.holds(&point).map_err(at)? {
            kept.push(point);
        }
    }
    if kept.is_empty() {
        return Err(at(format!("`{}` leaves no point", excluded.source())));
    }
    if kept.len() == before {
        return Err(at(format!("`{}` excludes no point", excluded.source())));
    }
    Ok(kept)
}

/// Sets the number of nodes that each point needs.
fn set_nodes(
    points: &mut [CampaignPoint],
    nodes: &Spanned<Parameter>,
    parameters: &BTreeSet<&str>,
) -> Result<(), Mistake> {
    let at = |reason: String| Mistake::new(nodes.span(), reason);
    let expression = read_expression(&nodes.get_ref().to_string(), parameters).map_err(at)?;
    for point in points {
        let number = expression.number(&point.parameters);
        let is_count =
            |number: &f64| (1.0..=f64::from(u32::MAX)).contains(number) && number.fract() == 0.0;
        let Some(number) = number.filter(is_count) else {
            let found = number.map_or_else(|| "no number".to_owned(), |number| number.to_string());
            return Err(at(format!(
                "`{}` is {found} at {}: a number of nodes is whole, and 1 or more",
                expression.source(),
                describe_parameters(&point.parameters)
            )));
        };
        point.nodes = Some(number as u32);
    }
    Ok(())
}

/// Reads an expression whose names are all parameters.
fn read_expression(source: &str, parameters: &BTreeSet<&str>) -> Result<Expression, String> {
    let expression = Expression::parse(source)?;
    let names = expression.names();
    match names.iter().find(|name| !parameters.contains(name.as_str())) {
        Some(unknown) => {
            let suggestion = suggest(unknown, parameters.iter().copied());
            Err(format!("unknown parameter `{unknown}`{suggestion}"))
        }
        None => Ok(expression),
    }
}

/// Refuses contenders with an unprintable name or with the name of another one. Goals read only names of letters, digits and `_`.
fn check_names(raw: &RawFile) -> Result<(), Mistake> {
    let mut seen = BTreeSet::new();
    let parameters = list_parameters(raw);
    for contender in &raw.contender {
        let name = contender.name.get_ref();
        let reason = if name.trim().is_empty() || escape(name) != *name {
            format!("`{}` is no name for readers", escape(name))
        } else if parameters.contains(name.as_str()) {
            format!("`{name}` is a parameter already")
        } else if !seen.insert(name) {
            format!("two contenders are called `{name}`")
        } else {
            continue;
        };
        return Err(Mistake::new(contender.name.span(), reason));
    }
    Ok(())
}

/// Refuses parameters that no command and no expression has, and tuned values that their command does not have.
fn check_use(raw: &RawFile, contenders: &[Contender]) -> Result<(), Mistake> {
    let in_commands = contenders.iter().flat_map(Contender::used_names);
    let mut used: BTreeSet<String> = in_commands.map(str::to_owned).collect();
    for contender in contenders {
        let computed = contender.computed.iter().map(|value| &value.expression);
        let expressions = computed.chain(&contender.tune_when).chain([&contender.value]);
        used.extend(expressions.flat_map(Expression::names));
    }
    // The syntax of the number of nodes is known to be right.
    let nodes = raw.nodes.iter();
    let nodes = nodes.filter_map(|it| Expression::parse(&it.get_ref().to_string()).ok());
    used.extend(nodes.flat_map(|nodes| nodes.names()));
    let zipped = raw.zip.iter().flat_map(|zip| zip.get_ref().keys());
    if let Some(unused) = raw.sweep.keys().chain(zipped).find(|name| !used.contains(name.get_ref()))
    {
        let reason = format!(
            "no contender uses the parameter `{0}`: put `{{{0}}}` into a command",
            unused.get_ref()
        );
        return Err(Mistake::new(unused.span(), reason));
    }
    for (raw, contender) in raw.contender.iter().zip(contenders) {
        let used = contender.used_names();
        if let Some(unused) = raw.tune.keys().find(|name| !used.contains(name.get_ref().as_str())) {
            let reason =
                format!("the command of `{}` has no `{{{}}}`", contender.name, unused.get_ref());
            return Err(Mistake::new(unused.span(), reason));
        }
    }
    Ok(())
}

impl Contender {
    /// Returns the names in its command, launcher and variables.
    fn used_names(&self) -> BTreeSet<&str> {
        let templates = self.launch.iter().chain([&self.command]).chain(self.env.values());
        templates.flat_map(Template::names).collect()
    }
}

fn check_contender(
    raw: &RawContender,
    space: &Space<'_>,
    values: &[(&Spanned<String>, Expression)],
) -> Result<Contender, Mistake> {
    let parameters = &space.names;
    check_lists(&raw.tune)?;
    let tuned = raw.tune.keys().map(|name| name.get_ref().as_str());
    if let Some(twice) = raw.tune.keys().find(|name| parameters.contains(name.get_ref().as_str())) {
        let reason = format!("`{}` is a parameter already", twice.get_ref());
        return Err(Mistake::new(twice.span(), reason));
    }
    let known: BTreeSet<&str> = parameters.iter().copied().chain(tuned).collect();
    let in_commands: BTreeSet<&str> = known.iter().copied().chain([FOLDER]).collect();
    if raw.command.get_ref().trim().is_empty() {
        return Err(Mistake::new(raw.command.span(), "the command is empty"));
    }
    let result = match &raw.result {
        Some(result) => ResultRule::new(result.get_ref())
            .map_err(|reason| Mistake::new(result.span(), reason))?,
        None => ResultRule::Nothing,
    };
    let points = space.find_points(raw.when.as_ref())?;
    let trials = raw
        .tune
        .values()
        .fold(points.len(), |trials, values| trials.saturating_mul(values.get_ref().len()));
    if let (Some((name, _)), true) = (raw.tune.first_key_value(), trials > MOST) {
        let reason = format!("at {} points `tune` makes more than {MOST} trials", points.len());
        return Err(Mistake::new(name.span(), reason));
    }
    let computed = choose_values(values, &result, space);
    let (value, better) = check_value(raw, &result, &computed, parameters)?;
    let tune_when = raw.tune_when.as_ref().map(|text| {
        read_expression(text.get_ref(), &known).map_err(|reason| Mistake::new(text.span(), reason))
    });
    let env = raw
        .env
        .iter()
        .map(|(name, text)| Ok((name.get_ref().clone(), read_template(text, &in_commands)?)));
    let tune =
        raw.tune.iter().map(|(name, values)| (name.get_ref().clone(), values.get_ref().clone()));
    Ok(Contender {
        name: raw.name.get_ref().clone(),
        command: read_template(&raw.command, &in_commands)?,
        launch: raw
            .launch
            .as_ref()
            .map(|launch| read_template(launch, &in_commands))
            .transpose()?,
        env: env.collect::<Result<_, _>>()?,
        tune: tune.collect(),
        tune_when: tune_when.transpose()?,
        points,
        computed,
        value,
        better,
        limit_s: check_limit(raw.limit_s.as_ref())?,
        keep: check_keep(raw.keep.as_ref(), &result)?,
        definition: fingerprint_definition(raw),
        numbers: Arc::clone(&space.numbers),
        result,
    })
}

/// Reads a text whose names are all `known`.
fn read_template(text: &Spanned<String>, known: &BTreeSet<&str>) -> Result<Template, Mistake> {
    let at = |reason: String| Mistake::new(text.span(), reason);
    let template = Template::parse(text.get_ref()).map_err(at)?;
    if let Some(unknown) = template.names().into_iter().find(|name| !known.contains(name)) {
        let suggestion = suggest(unknown, known.iter().copied());
        return Err(at(format!("unknown parameter `{{{unknown}}}`{suggestion}")));
    }
    Ok(template)
}

fn check_limit(limit: Option<&Spanned<f64>>) -> Result<f64, Mistake> {
    let Some(limit) = limit else {
        return Ok(LIMIT_S);
    };
    let limit_s = *limit.get_ref();
    if limit_s.is_finite() && limit_s > 0.0 {
        Ok(limit_s)
    } else {
        Err(Mistake::new(limit.span(), "`limit_s` is a number of seconds above 0"))
    }
}

fn check_keep(keep: Option<&Spanned<bool>>, result: &ResultRule) -> Result<bool, Mistake> {
    match keep {
        Some(keep) if *keep.get_ref() && !matches!(result, ResultRule::Json(_)) => Err(
            Mistake::new(keep.span(), "`keep` keeps a JSON document, and `result` has no `json`"),
        ),
        keep => Ok(keep.is_some_and(|keep| *keep.get_ref())),
    }
}

/// Returns the value of a contender by which it is compared, and whether less of it is better.
fn check_value(
    raw: &RawContender,
    result: &ResultRule,
    computed: &[ComputedValue],
    parameters: &BTreeSet<&str>,
) -> Result<(Expression, Better), Mistake> {
    let computed = computed.iter().map(|value| value.name.as_str());
    let names: Vec<&str> = result.names().into_iter().chain([TOOK]).chain(computed).collect();
    let first = names.first().copied().unwrap_or(TOOK);
    let at = |reason: String| Mistake::new(raw.value_span(), reason);
    let value = raw.value.as_ref().map_or(first, |value| value.get_ref());
    let value = Expression::parse(value).map_err(at)?;
    let used = value.names();
    if let Some(unknown) = used
        .iter()
        .find(|name| !names.contains(&name.as_str()) && !parameters.contains(name.as_str()))
    {
        return Err(at(format!("unknown result `{unknown}`{}", suggest(unknown, names))));
    }
    Ok((value, raw.better.unwrap_or(Better::Less)))
}

/// Refuses what would be misread. A parameter or a value has no name that the reports have. A value that is no time needs to
/// say whether more is better. Older files may have both.
fn check_meanings(raw: &RawFile, contenders: &[Contender]) -> Result<(), Mistake> {
    let names = list_lists(raw).flat_map(BTreeMap::keys);
    let mut names = names.chain(raw.values.keys());
    if let Some(name) = names.find(|name| TAKEN.split(' ').any(|it| it == name.get_ref())) {
        let (span, name) = (name.span(), name.get_ref());
        let reason = format!("`{name}` is a column of the reports already, or the folder");
        return Err(Mistake::new(span, reason));
    }
    for (raw, contender) in raw.contender.iter().zip(contenders) {
        if raw.better.is_none() && !contender.is_time() {
            let reason = format!(
                "`{}` is no time in seconds: add better = \"more\" or better = \"less\"",
                contender.value.source()
            );
            return Err(Mistake::new(raw.value_span(), reason));
        }
    }
    Ok(())
}

impl RawContender {
    /// Returns the place of the value, or of the name if the file does not say the value.
    fn value_span(&self) -> Range<usize> {
        let value = self.value.as_ref().map(Spanned::span);
        value.unwrap_or_else(|| self.name.span())
    }
}

impl Contender {
    /// Returns `true` if the value is a time: of times, and no quotient of them, which is a rate or a ratio.
    fn is_time(&self) -> bool {
        let names = self.value.names();
        let are_times = names.iter().all(|name| self.is_time_name(name));
        // Values are computed from those before them.
        let mut quotients = Vec::new();
        for value in &self.computed {
            if self.divides_times(&value.expression, &quotients) {
                quotients.push(&value.name);
            }
        }
        !names.is_empty() && are_times && !self.divides_times(&self.value, &quotients)
    }

    fn is_time_name(&self, name: &str) -> bool {
        name.ends_with("_s") && !is_rate(name, &self.result)
    }

    /// Returns `true` for an expression with a quotient of times, or with one of these values.
    fn divides_times(&self, expression: &Expression, quotients: &[&String]) -> bool {
        let names = expression.names();
        let has_time = names.iter().any(|name| self.is_time_name(name));
        has_time && expression.source().contains('/')
            || quotients.iter().any(|name| names.contains(*name))
    }
}

/// Returns `true` for a result that ends in `_s` and is a rate, by its name, such as `gb_per_s` or `gb_s`, or by its place in a
/// document, such as `GB/s`.
fn is_rate(name: &str, result: &ResultRule) -> bool {
    let rates = "(?i)((^|_)(per|[kmgtpe]i?b|[kmgtpe]?(bit|byte|flop|op)s?)_|/|~1)s$";
    let is_rate = |text: &str| Regex::new(rates).is_ok_and(|rates| rates.is_match(text));
    let mut places = match result {
        ResultRule::Json(places) => places.iter(),
        _ => [].iter(),
    };
    is_rate(name) || places.any(|(of, place)| of == name && is_rate(place))
}

fn check_goal(
    goal: &Spanned<RawGoal>,
    contenders: &[Contender],
    space: &Space<'_>,
) -> Result<CampaignGoal, Mistake> {
    let RawGoal { name, when, ratio, value, at_least, at_most } = goal.get_ref();
    let (above, below) = match (ratio, value) {
        (Some([above, below]), None) => (above, Some(below)),
        (None, Some(value)) => (value, None),
        _ => {
            return Err(Mistake::new(goal.span(), "a goal has either `ratio` or `value`"));
        }
    };
    let mut bounds = at_least.iter().chain(at_most).peekable();
    if bounds.peek().is_none() || bounds.any(|bound| bound.is_nan()) {
        let reason = "a goal has `at_least` or `at_most`, which are numbers";
        return Err(Mistake::new(goal.span(), reason));
    }
    let side = |text| read_side(text, contenders, space);
    Ok(CampaignGoal {
        name: name.clone(),
        above: side(above)?,
        below: below.map(side).transpose()?,
        points: space.find_points(when.as_ref())?,
        at_least: *at_least,
        at_most: *at_most,
    })
}

/// Reads one side of a goal's ratio, whose names are values of contenders, such as `ours.wall_s`, and parameters.
fn read_side(
    text: &Spanned<String>,
    contenders: &[Contender],
    space: &Space<'_>,
) -> Result<Expression, Mistake> {
    let at = |reason: String| {
        let names = contenders.iter().map(|contender| &contender.name);
        let unread =
            names.filter(|name| !is_name(name)).find(|name| text.get_ref().contains(name.as_str()));
        let reason = unread.map_or(reason, |name| {
            format!(
                "a goal cannot read the contender `{name}`: in its name use letters, digits and `_`"
            )
        });
        Mistake::new(text.span(), reason)
    };
    let expression = Expression::parse(text.get_ref()).map_err(at)?;
    for name in expression.names() {
        if space.names.contains(name.as_str()) {
            continue;
        }
        let (contender, value) = name.split_once('.').unwrap_or((&name, ""));
        let Some(found) = contenders.iter().find(|other| other.name == contender) else {
            let suggestion = suggest(contender, contenders.iter().map(|other| other.name.as_str()));
            return Err(at(format!("unknown contender `{contender}`{suggestion}")));
        };
        if !found.value_names().contains(&value) {
            let suggestion = suggest(value, found.value_names());
            return Err(at(format!("`{contender}` has no result `{value}`{suggestion}")));
        }
    }
    Ok(expression)
}

fn check_repeat(raw: Option<&Spanned<Repeat>>) -> Result<Repeat, Mistake> {
    let Some(raw) = raw else {
        return Ok(Repeat::default());
    };
    let repeat = *raw.get_ref();
    let only_exact = Repeat { exact: true, ..Repeat::default() };
    let reason = if repeat == only_exact {
        return Ok(Repeat { min: 1, max: 1, confidence: 1.0, again: 0, ..repeat });
    } else if repeat.exact {
        "`exact` values have one round: leave out the other keys"
    } else if repeat.min == 0 || repeat.min > repeat.max {
        "`min` is at least 1 and at most `max`"
    } else if !(repeat.precision > 0.0 && repeat.precision.is_finite()) {
        "`precision` is a number above 0"
    } else if !(repeat.confidence > 0.0 && repeat.confidence < 1.0) {
        "`confidence` is a number between 0 and 1"
    } else if repeat.seconds.is_some_and(|it| it.is_nan() || it <= 0.0) {
        "`seconds` is a number above 0"
    } else {
        let seconds = repeat.seconds.filter(|it| it.is_finite());
        return Ok(Repeat { seconds, ..repeat });
    };
    Err(Mistake::new(raw.span(), reason))
}

#[cfg(test)]
mod tests;
