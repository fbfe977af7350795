//! Settings as text, `name=value`.

use std::str::FromStr;

use isochron::hierarchy::SplitOptions;
use isochron::partition::{BenchmarkConfig, PartitionConfig};
use isochron::plan::{Problem, SearchConfig, list_problems};
use isochron::prelude::{
    BalanceConfig, ElementType, LoopPart, ProductConfig, RebalanceConfig, SessionBuilder, Split,
    Strategy,
};

use crate::status::CallFailure;

/// Settings of a session, when it is opened.
pub(crate) const OF_SESSION: [&str; 8] =
    ["platform", "grouping", "blas", "element", "store", "models", "reserved_cores", "host_scope"];

/// Settings of products, which may change between them.
pub(crate) const OF_PRODUCTS: [&str; 5] = ["block", "panel", "split", "strategy", "epsilon"];

/// Settings of a balancer.
const OF_BALANCER: [&str; 13] = [
    "granule",
    "sweeps",
    "trigger",
    "window",
    "cooldown",
    "warm_up",
    "check_every",
    "max_move",
    "growth",
    "retry_after",
    "move_unit_s",
    "max_local",
    "weight",
];

/// Splits settings that are separated by spaces. Where there are semicolons or lines, these alone separate.
pub(crate) fn split_settings(text: &str) -> Result<Vec<(&str, &str)>, CallFailure> {
    let settings: Vec<&str> = if text.contains([';', '\n']) {
        text.split([';', '\n']).map(str::trim).collect()
    } else {
        text.split_whitespace().collect()
    };
    settings
        .into_iter()
        .filter(|setting| !setting.is_empty())
        .map(|setting| {
            let pair = setting.split_once('=');
            let pair = pair.map(|(name, value)| (name.trim(), value.trim()));
            pair.filter(|(name, _)| !name.is_empty()).ok_or_else(|| {
                let reason = "write name=value without spaces, or end each setting by a semicolon";
                CallFailure::setting(format!("{setting}: {reason}"))
            })
        })
        .collect()
}

/// Refuses a name: tells which call has a setting of this name, or else the nearest one that exists.
pub(crate) fn refuse_name(name: &str, known: &[&str]) -> CallFailure {
    let others: [(&[&str], &str); 7] = [
        (&OF_SESSION, "isochron_open"),
        (&OF_PRODUCTS, "isochron_set"),
        (&OF_BALANCER, "isochron_balancer"),
        (&OF_SPLIT, "isochron_split"),
        (&OF_BENCHMARK, "isochron_benchmark"),
        (&OF_PARTITION, "isochron_partition"),
        (&OF_SEARCH, "isochron_search_plan"),
    ];
    if let Some((_, call)) = others.iter().find(|(names, _)| names.contains(&name)) {
        return CallFailure::setting(format!(
            "there is no setting {name} here: it is one of {call}"
        ));
    }
    // Fortran's programmers may write capitals.
    let small = name.to_lowercase();
    let nearest = known
        .iter()
        .max_by(|a, b| strsim::jaro_winkler(a, &small).total_cmp(&strsim::jaro_winkler(b, &small)));
    let nearest = nearest.copied().unwrap_or_default();
    CallFailure::setting(format!("there is no setting {name}: do you mean {nearest}?"))
}

/// Reads the value of a setting.
fn read_value<T: FromStr<Err: ToString>>(name: &str, value: &str) -> Result<T, CallFailure> {
    value.parse().map_err(|error: T::Err| {
        let reason = explain_number(error.to_string());
        CallFailure::setting(format!("{name}={value}: {reason}"))
    })
}

/// Replaces what the standard library says about numbers by what is wanted.
fn explain_number(reason: String) -> String {
    let is_whole = ["digit found", "number too", "integer from empty"];
    if is_whole.iter().any(|words| reason.contains(words)) {
        return format!("use a whole number that is not negative ({reason})");
    }
    if reason.contains("float") { format!("use a number such as 1.05 ({reason})") } else { reason }
}

/// Applies a setting of a session.
pub(crate) fn apply_to_session(
    builder: SessionBuilder,
    name: &str,
    value: &str,
) -> Result<SessionBuilder, CallFailure> {
    Ok(match name {
        "platform" => builder.platform_file(value),
        "models" => builder.models(value),
        "grouping" => builder.grouping(read_value(name, value)?),
        "blas" => builder.blas(read_value(name, value)?),
        "element" => builder.element(read_value(name, value)?),
        "store" => builder.store(read_value(name, value)?),
        "host_scope" => builder.host_scope(read_value(name, value)?),
        "reserved_cores" => {
            let cores = value.split(',').map(|core| read_value(name, core));
            builder.reserved_cores(cores.collect::<Result<Vec<u32>, CallFailure>>()?)
        }
        _ => return Err(refuse_name(name, &[&OF_SESSION[..], &OF_PRODUCTS].concat())),
    })
}

/// The way in which products are planned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProductSettings {
    pub block: Option<usize>,
    pub panel: Option<usize>,
    pub split: Split,
    pub strategy: Strategy,
    pub epsilon: f64,
}

impl Default for ProductSettings {
    fn default() -> Self {
        let ProductConfig { block, panel, split, balance, .. } = ProductConfig::default();
        let BalanceConfig { strategy, epsilon, .. } = balance;
        Self { block, panel, split, strategy, epsilon }
    }
}

impl ProductSettings {
    /// Applies a setting; returns `false` if it is no such setting.
    pub fn apply(&mut self, name: &str, value: &str) -> Result<bool, CallFailure> {
        match name {
            "block" => self.block = read_width(name, value)?,
            "panel" => self.panel = read_width(name, value)?,
            "split" => self.split = read_value(name, value)?,
            "strategy" => self.strategy = read_value(name, value)?,
            "epsilon" => self.epsilon = read_value(name, value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns the value of a setting as text; `None` if it is no such setting.
    pub fn show(&self, name: &str) -> Option<String> {
        Some(match name {
            "block" => show_width(self.block),
            "panel" => show_width(self.panel),
            "split" => self.split.to_string(),
            "strategy" => self.strategy.to_string(),
            "epsilon" => self.epsilon.to_string(),
            _ => return None,
        })
    }

    /// Returns the configuration of a product.
    pub fn to_config(self) -> ProductConfig {
        let defaults = ProductConfig::default();
        ProductConfig {
            block: self.block,
            panel: self.panel,
            split: self.split,
            balance: BalanceConfig {
                strategy: self.strategy,
                epsilon: self.epsilon,
                ..defaults.balance
            },
            ..defaults
        }
    }
}

/// The width that leaves it to the plan.
const AUTO: &str = "auto";

fn read_width(name: &str, value: &str) -> Result<Option<usize>, CallFailure> {
    match value {
        AUTO => Ok(None),
        _ => read_value(name, value).map(Some),
    }
}

fn show_width(width: Option<usize>) -> String {
    width.map_or_else(|| AUTO.to_owned(), |width| width.to_string())
}

/// Reads the settings of a balancer, and of this rank's part.
pub(crate) fn read_balancer(text: &str) -> Result<(RebalanceConfig, LoopPart), CallFailure> {
    let (mut config, mut part) = (RebalanceConfig::default(), LoopPart::default());
    for (name, value) in split_settings(text)? {
        match name {
            "granule" => config.granule = read_value(name, value)?,
            "sweeps" => config.sweeps = Some(read_value(name, value)?),
            "trigger" => config.trigger = read_value(name, value)?,
            "window" => config.window = read_value(name, value)?,
            "cooldown" => config.cooldown = read_value(name, value)?,
            "warm_up" => config.warm_up = read_value(name, value)?,
            "check_every" => config.check_every = read_value(name, value)?,
            "max_move" => config.max_move = read_value(name, value)?,
            "growth" => config.growth = read_value(name, value)?,
            "retry_after" => config.retry_after = read_value(name, value)?,
            "move_unit_s" => config.move_unit_s = Some(read_value(name, value)?),
            "max_local" => part.max_local = Some(read_value(name, value)?),
            "weight" => part.weight = read_value(name, value)?,
            _ => return Err(refuse_name(name, &OF_BALANCER)),
        }
    }
    Ok((config, part))
}

/// Settings of a split.
const OF_SPLIT: [&str; 3] = ["fit", "partitioner", "granule"];

/// Reads the settings of a split.
pub(crate) fn read_split(text: &str) -> Result<SplitOptions, CallFailure> {
    let mut how = SplitOptions::default();
    for (name, value) in split_settings(text)? {
        match name {
            "fit" => how.fit = read_value(name, value)?,
            "partitioner" => how.partitioner = read_value(name, value)?,
            "granule" => how.granule = read_value(name, value)?,
            _ => return Err(refuse_name(name, &OF_SPLIT)),
        }
    }
    Ok(how)
}

/// Settings of a benchmark, which a partition has too.
const OF_BENCHMARK: [&str; 6] =
    ["min_reps", "max_reps", "confidence", "precision", "max_seconds", "unbound"];

/// Applies a setting of a benchmark; returns `false` if it is no such setting.
fn apply_to_benchmark(
    config: &mut BenchmarkConfig,
    name: &str,
    value: &str,
) -> Result<bool, CallFailure> {
    match name {
        "min_reps" => config.measure.min_reps = read_value(name, value)?,
        "max_reps" => config.measure.max_reps = read_value(name, value)?,
        "confidence" => config.measure.confidence = read_value(name, value)?,
        "precision" => config.measure.precision = read_value(name, value)?,
        "max_seconds" => config.measure.max_seconds = read_value(name, value)?,
        "unbound" => config.unbound = read_value(name, value)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// Reads the settings of a benchmark.
pub(crate) fn read_benchmark(text: &str) -> Result<BenchmarkConfig, CallFailure> {
    let mut config = BenchmarkConfig::default();
    for (name, value) in split_settings(text)? {
        if !apply_to_benchmark(&mut config, name, value)? {
            return Err(refuse_name(name, &OF_BENCHMARK));
        }
    }
    Ok(config)
}

/// Settings of a search for plans.
const OF_SEARCH: [&str; 4] = ["element", "blocks", "explain", "equal_ranks"];

/// Reads the settings of a search for plans. Returns the multiplication of these sizes in each block size, and what is to be told.
pub(crate) fn read_search(
    text: &str,
    sizes: [usize; 3],
) -> Result<(Vec<Problem>, SearchConfig), CallFailure> {
    let (mut element, mut blocks) = (ElementType::F64, SearchConfig::BLOCKS.to_vec());
    let mut config = SearchConfig::default();
    for (name, value) in split_settings(text)? {
        match name {
            "element" => element = read_value(name, value)?,
            "blocks" => {
                let read = value.split(',').map(|block| read_value(name, block));
                blocks = read.collect::<Result<_, _>>()?;
            }
            "explain" => config.explain = read_value(name, value)?,
            "equal_ranks" => config.equal_ranks = read_value(name, value)?,
            _ => return Err(refuse_name(name, &OF_SEARCH)),
        }
    }
    Ok((list_problems(sizes, element, &blocks)?, config))
}

/// Settings of a partition, without those of its benchmarks.
const OF_PARTITION: [&str; 5] = ["epsilon", "max_iterations", "fit", "partitioner", "granule"];

/// Reads the settings of a partition.
pub(crate) fn read_partition(text: &str) -> Result<PartitionConfig, CallFailure> {
    let (mut config, mut benchmark) = (PartitionConfig::default(), BenchmarkConfig::default());
    for (name, value) in split_settings(text)? {
        if apply_to_benchmark(&mut benchmark, name, value)? {
            continue;
        }
        match name {
            "epsilon" => config.epsilon = read_value(name, value)?,
            "max_iterations" => config.max_iterations = read_value(name, value)?,
            "fit" => config.fit = read_value(name, value)?,
            "partitioner" => config.partitioner = read_value(name, value)?,
            "granule" => config.granule = read_value(name, value)?,
            _ => return Err(refuse_name(name, &[&OF_PARTITION[..], &OF_BENCHMARK].concat())),
        }
    }
    let BenchmarkConfig { measure, unbound } = benchmark;
    Ok(PartitionConfig { measure, unbound, ..config })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spaces_separate_settings_unless_semicolons_or_lines_do() {
        let settings = split_settings(" block=64  split=k ").unwrap();
        assert_eq!(settings, [("block", "64"), ("split", "k")]);
        let settings = split_settings("platform = my files/a.toml; blas=mkl\nblock= 64;").unwrap();
        let wanted = [("platform", "my files/a.toml"), ("blas", "mkl"), ("block", "64")];
        assert_eq!(settings, wanted);
        for wrong in ["block 64", "block = 64", "=64"] {
            let failure = split_settings(wrong).unwrap_err();
            assert!(format!("{failure:?}").contains("without spaces"), "{failure:?}");
        }
        assert_eq!(split_settings("").unwrap(), []);
    }

    #[test]
    fn an_unknown_name_names_the_nearest() {
        let failure = read_balancer("triger=1.2").unwrap_err();
        assert!(format!("{failure:?}").contains("do you mean trigger?"), "{failure:?}");
        let failure = apply_to_session(SessionBuilder::default(), "granule", "2").err();
        assert!(format!("{failure:?}").contains("it is one of isochron_balancer"), "{failure:?}");
        for (name, nearest) in [("blok", "block"), ("BLAS", "blas")] {
            let failure = apply_to_session(SessionBuilder::default(), name, "64").err();
            assert!(
                format!("{failure:?}").contains(&format!("do you mean {nearest}?")),
                "{failure:?}"
            );
        }
    }

    #[test]
    fn a_value_of_another_type_is_named_with_its_setting() {
        let failure = read_balancer("weight=x").unwrap_err();
        assert!(format!("{failure:?}").contains("use a number"), "{failure:?}");
        let failure = read_partition("unbound=maybe").unwrap_err();
        assert!(format!("{failure:?}").contains("unbound=maybe"), "{failure:?}");
        for text in ["granule=-1", "window=x", "sweeps=", "window=99999999999999999999"] {
            let failure = read_balancer(text).unwrap_err();
            assert!(
                format!("{failure:?}").contains(&format!("{text}: use a whole number")),
                "{failure:?}"
            );
        }
    }

    #[test]
    fn every_setting_of_a_product_can_be_shown_and_read_back() {
        let mut settings = ProductSettings::default();
        for name in OF_PRODUCTS {
            let shown = settings.show(name).unwrap();
            assert!(settings.apply(name, &shown).unwrap(), "{name}={shown}");
            assert_eq!(settings.show(name).unwrap(), shown);
        }
        assert!(!settings.apply("blok", "1").unwrap());
    }
}
