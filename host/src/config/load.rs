//! Reads the configuration from where it may stand, and says clearly what is wrong with it.

use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::Config;
use super::check::problems;

/// Where values may come from; a later one of these wins.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    /// The file, if one was named.
    pub(crate) file: Option<PathBuf>,
    /// The environment: all variables, of which those for weir are taken.
    pub(crate) environment: Vec<(String, String)>,
    /// `key=value`, as given to `--set`.
    pub(crate) settings: Vec<String>,
}

/// Why there is no configuration. Each says where, what, and what would be right.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    /// The file cannot be read.
    #[error("configuration file {file} cannot be read: {source}")]
    Unreadable {
        /// Which file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A value is not what it should be.
    #[error("{place}: {reason}")]
    Wrong {
        /// The file, the variable or the option that it stands in.
        place: String,
        /// What is wrong.
        reason: String,
    },
    /// Values that are read and cannot be used: a line for each, with the place where it was set.
    #[error("{0}")]
    Inconsistent(String),
}

/// Variables that are for the command line, not for the configuration.
const COMMAND_LINE: [&str; 4] = ["WEIR_CONFIG", "WEIR_URL", "WEIR_SERVICE_URL", "WEIR_TOKEN"];

/// Merges the sources and checks the whole.
///
/// # Errors
/// See [`ConfigError`].
pub(crate) fn load(sources: &Sources) -> Result<Config, ConfigError> {
    let mut table = Table::new();
    // Which keys were set where, the later one below.
    let mut set_in = Vec::new();
    if let Some(file) = &sources.file {
        table = read(file)?;
    }
    for (name, value) in &sources.environment {
        let Some(path) = path_of_variable(name) else { continue };
        set(&mut table, &path, value).map_err(|reason| wrong(name.clone(), reason))?;
        parse(&table).map_err(|reason| wrong(name.clone(), reason))?;
        set_in.push((path.join("."), name.clone()));
    }
    for setting in &sources.settings {
        let place = format!("--set {setting}");
        let set_one = || {
            let (key, value) =
                setting.split_once('=').ok_or("expected key=value, as in listen.pulsar=0.0.0.0:6650")?;
            Ok((path_of_key(key.trim())?, value.trim()))
        };
        let (path, value) = set_one().map_err(|reason: String| wrong(place.clone(), reason))?;
        set(&mut table, &path, value).map_err(|reason| wrong(place.clone(), reason))?;
        parse(&table).map_err(|reason| wrong(place.clone(), reason))?;
        set_in.push((path.join("."), place));
    }
    let place = sources.file.as_ref().map_or("configuration".into(), |file| file.display().to_string());
    let config = parse(&table).map_err(|reason| wrong(place.clone(), reason))?;
    let problems = problems(&config);
    if problems.is_empty() {
        return Ok(config);
    }
    let place_of = |key: &str| {
        let set = set_in.iter().rev().find(|(set, _)| key.replace('"', "").starts_with(set.as_str()));
        set.map_or(place.as_str(), |(_, place)| place)
    };
    let lines = problems.iter().map(|problem| format!("{}: {problem}", place_of(&problem.key)));
    Err(ConfigError::Inconsistent(lines.collect::<Vec<_>>().join("\n")))
}

fn wrong(place: String, reason: String) -> ConfigError {
    ConfigError::Wrong { place, reason }
}

fn read(file: &Path) -> Result<Table, ConfigError> {
    let text = std::fs::read_to_string(file)
        .map_err(|source| ConfigError::Unreadable { file: file.to_owned(), source })?;
    // Read as a whole first: only then does the parser know the line of what is wrong.
    let with_line = toml::from_str::<Config>(&text);
    if let Err(error) = with_line {
        let reason = suggest(error.to_string().trim_end());
        return Err(wrong(file.display().to_string(), reason));
    }
    text.parse().map_err(|error: toml::de::Error| wrong(file.display().to_string(), error.to_string()))
}

fn parse(table: &Table) -> Result<Config, String> {
    table.clone().try_into().map_err(|error: toml::de::Error| suggest(error.to_string().trim_end()))
}

/// Adds the nearest known key to the parser's message about an unknown one.
fn suggest(message: &str) -> String {
    let quoted =
        |text: &str| -> Vec<String> { text.split('`').skip(1).step_by(2).map(ToOwned::to_owned).collect() };
    let nearest = message.lines().find_map(|line| {
        let (_, rest) = line.split_once("unknown field ")?;
        let names = quoted(rest);
        let (unknown, known) = names.split_first()?;
        let distance = |name: &String| strsim::damerau_levenshtein(unknown, name);
        let best = known.iter().min_by_key(|name| distance(name))?;
        // Further away than half its length, a name is a guess and no help.
        (distance(best) <= best.len().div_ceil(2)).then(|| best.clone())
    });
    match nearest {
        Some(name) => format!("{message}\ndid you mean `{name}`?"),
        None => message.to_owned(),
    }
}

/// `WEIR_LISTEN_TOKEN_FILE` is `listen.token-file`. `None` for a variable that is not the configuration's.
fn path_of_variable(name: &str) -> Option<Vec<String>> {
    if COMMAND_LINE.contains(&name) {
        return None;
    }
    let (section, key) = name.strip_prefix("WEIR_")?.split_once('_')?;
    let section = section.to_ascii_lowercase();
    // Class names have dots and capitals, so extensions and bindings cannot be spelled this way.
    defaults().get(&section)?.as_table()?;
    Some(vec![section, key.to_ascii_lowercase().replace('_', "-")])
}

/// The parts of a dotted key, quoted parts included: `extensions."demo.A".deadline`.
fn path_of_key(key: &str) -> Result<Vec<String>, String> {
    let bad = || format!("{key:?} is not a key; expected section.key, as in listen.pulsar");
    if key.contains(['\n', '#']) {
        return Err(bad());
    }
    let table: Table =
        format!("{key} = 0").parse().map_err(|_shown_in_other_words: toml::de::Error| bad())?;
    let mut path = Vec::new();
    let mut level = Some(&table);
    while let Some((part, value)) = level.and_then(|table| table.iter().next()) {
        path.push(part.clone());
        level = value.as_table();
    }
    Ok(path)
}

/// Writes a value at a path. What the default has as text is taken as it stands; everything else is
/// read as TOML, or taken as text when it is none.
fn set(table: &mut Table, path: &[String], text: &str) -> Result<(), String> {
    let default = path.iter().try_fold(&Value::Table(defaults()), |value, part| value.get(part)).cloned();
    let written =
        || format!("value = {text}").parse::<Table>().ok().and_then(|mut table| table.remove("value"));
    let value = match default {
        Some(Value::String(_)) => Value::String(text.to_owned()),
        _ => written().unwrap_or_else(|| Value::String(text.to_owned())),
    };
    let (last, above) = path.split_last().ok_or("the key is empty")?;
    let mut level = table;
    for part in above {
        level = level
            .entry(part.clone())
            .or_insert_with(|| Value::Table(Table::new()))
            .as_table_mut()
            .ok_or_else(|| format!("{part} is a value, it has no keys below it"))?;
    }
    level.insert(last.clone(), value);
    Ok(())
}

fn defaults() -> Table {
    Table::try_from(Config::default()).expect("the default configuration is TOML: a test prints it")
}
