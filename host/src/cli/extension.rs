//! `weir extension`.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Subcommand;
use serde_json::Value;
use weir_client::admin::model;
use weir_extension::{Extensions, Inspection, Limits, Options};

use super::output::{self, Table};
use super::{Format, Global, on_runtime};

#[derive(Debug, Subcommand)]
pub(super) enum Extension {
    /// List every extension: class, form, version, checksum, state; and files that were refused.
    #[command(after_help = "Example:\n  weir extension list -o json")]
    List,
    /// Show everything that is known of one extension.
    #[command(after_help = "Example:\n  weir extension show demo.LateFlights")]
    Show {
        /// The class name.
        class: String,
    },
    /// Show what an extension has logged: time, level, version, text. Only the last lines are kept.
    #[command(
        after_help = "Examples:\n  weir extension logs demo.LateFlights -n 20\n  weir extension logs demo.LateFlights -f -o json"
    )]
    Logs {
        /// The class name.
        class: String,
        /// Go on with the lines that it logs from now on.
        #[arg(short, long)]
        follow: bool,
        /// How many of the last lines to show first; at most a thousand are kept.
        #[arg(short = 'n', long, value_name = "N", default_value_t = 100)]
        lines: usize,
    },
    /// Register a component with the running weir, in place of the version it has.
    #[command(
        after_help = "Example:\n  weir extension register plugins/late-flights.wasm --config '{\"minutes\": 30}'"
    )]
    Register {
        /// The component. Native libraries are taken from the plug-in folder only.
        file: PathBuf,
        /// The class that it is registered as; by default the one that it declares.
        #[arg(long)]
        class: Option<String>,
        /// Its configuration: JSON, or a file that holds it. Both come into force, or neither does.
        #[arg(long, value_name = "FILE|JSON")]
        config: Option<String>,
        /// Even if these very bytes were in force and were taken back.
        #[arg(long)]
        force: bool,
    },
    /// Go back to the version before. The one in force is not taken again, unless it is forced.
    #[command(after_help = "Example:\n  weir extension rollback demo.LateFlights")]
    Rollback {
        /// The class name.
        class: String,
    },
    /// Configure a registered extension: checked against the schema that it declares, in force at once.
    #[command(after_help = "Example:\n  weir extension configure demo.LateFlights '{\"minutes\": 30}'")]
    Configure {
        /// The class name.
        class: String,
        /// The configuration: JSON, or a file that holds it.
        #[arg(value_name = "FILE|JSON")]
        config: String,
    },
    /// Say what an artifact is, without registering it. Loads it here: only inspect what you trust.
    #[command(after_help = "Example:\n  weir extension inspect plugins/late-flights.wasm")]
    Inspect {
        /// The artifact: a component or a native library.
        file: PathBuf,
    },
    /// Remove an extension from the running weir.
    #[command(after_help = "Example:\n  weir extension remove demo.LateFlights --force")]
    Remove {
        /// The class name.
        class: String,
        /// Even if bindings name it; their subscriptions pause then.
        #[arg(long)]
        force: bool,
    },
}

impl Extension {
    pub(super) fn run(self, global: &Global) -> anyhow::Result<()> {
        match self {
            Self::Inspect { file } => print_inspection(&inspect(&file)?, global.output),
            Self::List => on_runtime(list(global)),
            Self::Show { class } => on_runtime(show(global, &class)),
            Self::Logs { class, follow, lines } => on_runtime(logs(global, &class, follow, lines)),
            Self::Register { file, class, config, force } => {
                let bytes =
                    std::fs::read(&file).with_context(|| format!("{} cannot be read", file.display()))?;
                let class = match class {
                    Some(class) => class,
                    None => inspect(&file)
                        .context("the class that it declares cannot be found out; name it with --class")?
                        .class
                        .to_string(),
                };
                let config = config.as_deref().map(read_config).transpose()?;
                on_runtime(register(global, &class, bytes, config.as_ref(), force))
            }
            Self::Rollback { class } => on_runtime(roll_back(global, &class)),
            Self::Configure { class, config } => {
                let config = read_config(&config)?;
                on_runtime(async {
                    global.admin()?.set_extension_config(&class, &config).await?;
                    done(global.output, &format!("{class} is configured"))
                })
            }
            Self::Remove { class, force } => on_runtime(async {
                global.admin()?.remove_extension(&class, force).await?;
                done(global.output, &format!("{class} is removed"))
            }),
        }
    }
}

/// Opens an artifact in this process, in a folder that goes with it.
fn inspect(file: &Path) -> anyhow::Result<Inspection> {
    let folder = std::env::temp_dir().join(format!("weir-inspect-{}", std::process::id()));
    let inspected = || {
        let extensions = Extensions::open(Options::new(folder.clone(), Limits::default()), Vec::new())
            .with_context(|| format!("{} cannot be used", folder.display()))?;
        extensions.inspect(file).with_context(|| file.display().to_string())
    };
    let inspection = inspected();
    // A folder that stays behind holds a copy of what was inspected, and nothing else.
    let _stays_behind = std::fs::remove_dir_all(&folder);
    inspection
}

/// What begins as an object of JSON is one; everything else names a file.
fn read_config(given: &str) -> anyhow::Result<Value> {
    if given.trim_start().starts_with('{') {
        return serde_json::from_str(given).context("the configuration is not JSON");
    }
    let text = std::fs::read(given).with_context(|| format!("{given} cannot be read"))?;
    serde_json::from_slice(&text).with_context(|| format!("{given} is not JSON"))
}

async fn list(global: &Global) -> anyhow::Result<()> {
    let admin = global.admin()?;
    let extensions = admin.extensions().await?;
    let refused = admin.refused_files().await?;
    if global.output == Format::Json {
        return output::json(&serde_json::json!({ "extensions": extensions, "refused": refused }));
    }
    let mut table = Table::new(&["class", "kind", "form", "version", "crc32", "state", "source"]);
    for extension in &extensions {
        table.row([
            extension.class.clone(),
            extension.kinds.join(", "),
            extension.form.clone(),
            extension.version.clone(),
            or_dash(&extension.crc32),
            extension.state.clone(),
            extension.source.clone(),
        ]);
    }
    table.print();
    for model::Extension { class, .. } in extensions.iter().filter(|extension| extension.is_unconfigured()) {
        output::line(&format!(
            "\n{class} waits for a configuration: weir extension configure {class} '{{…}}', \
             or bindings bring one each"
        ));
    }
    for extension in &extensions {
        if let Some(refusal) = last_refusal(extension) {
            output::line(&format!("\n{}: last refusal: {refusal}", extension.class));
        }
    }
    for model::RefusedFile { path, reason, since, .. } in &refused {
        output::line(&format!("\nnot in force: {path} (since {}): {reason}", output::moment(*since)));
    }
    Ok(())
}

/// What was refused last, and when.
fn last_refusal(extension: &model::Extension) -> Option<String> {
    let error = extension.last_error.as_ref()?;
    Some(match extension.last_error_at {
        Some(at) => format!("{}: {error}", output::moment(at)),
        None => error.clone(),
    })
}

async fn show(global: &Global, class: &str) -> anyhow::Result<()> {
    let extension = global.admin()?.extension(class).await?;
    if global.output == Format::Json {
        return output::json(&extension);
    }
    let last_refusal = last_refusal(&extension);
    let model::Extension { kinds, form, version, state, since, source, crc32, sha256, other, .. } = extension;
    let mut table = Table::new(&["", class]);
    for (name, value) in [
        ("kind", kinds.join(", ")),
        ("form", form),
        ("version", version),
        ("state", state),
        ("since", output::moment(since)),
        ("source", source),
        ("crc32", or_dash(&crc32)),
        ("sha256", or_dash(&sha256)),
        ("last refusal", last_refusal.unwrap_or_else(|| "-".into())),
    ] {
        table.row([name.to_owned(), value]);
    }
    for (name, value) in &other {
        rows_of(name, value, &mut table);
    }
    table.print();
    Ok(())
}

async fn logs(global: &Global, class: &str, follow: bool, n: usize) -> anyhow::Result<()> {
    let mut lines = global.admin()?.extension_logs(class, n, follow).await?;
    while let Some(line) = lines.next().await? {
        if global.output == Format::Json {
            output::line(&serde_json::to_string(&line)?);
            continue;
        }
        let model::LogLine { at, level, version, text, .. } = line;
        let (level, version, text) = (level.to_uppercase(), printable(&version), printable(&text));
        output::line(&format!("{} {level:5} {version} {text}", output::moment(at)));
    }
    Ok(())
}

/// Without control characters, whoever the server is: a terminal obeys them.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\t' { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// A row for a value, or for each that it holds: `counts` as "counts calls", "counts accepted", …
fn rows_of(name: &str, value: &Value, table: &mut Table) {
    let name = name.replace('-', " ");
    match value {
        Value::Object(values) => {
            values.iter().for_each(|(of, value)| rows_of(&format!("{name} {of}"), value, table));
        }
        Value::Array(values) => {
            // Told by its number, from 1 on.
            values
                .iter()
                .zip(1..)
                .for_each(|(value, n): (_, usize)| rows_of(&format!("{name} {n}"), value, table));
        }
        Value::String(text) => table.row([name, text.clone()]),
        Value::Number(millis) if [" since", " until", " at"].iter().any(|of| name.ends_with(of)) => {
            table.row([name, millis.as_u64().map_or_else(|| "-".into(), output::moment)]);
        }
        Value::Null => table.row([name, "-".into()]),
        other => table.row([name, other.to_string()]),
    }
}

async fn register(
    global: &Global,
    class: &str,
    bytes: Vec<u8>,
    config: Option<&Value>,
    force: bool,
) -> anyhow::Result<()> {
    let registered = global.admin()?.register(class, bytes.into(), config, force).await?;
    if global.output == Format::Json {
        return output::json(&registered);
    }
    let what = match (registered.unchanged, registered.replaced) {
        (true, _) if registered.configured => "was in force already, and is configured now",
        (true, _) => "was in force already: nothing has changed",
        (false, true) => "is in force, in place of the version before",
        (false, false) => "is in force",
    };
    output::line(&format!("{class} {what} (sha256 {})", registered.sha256));
    Ok(())
}

async fn roll_back(global: &Global, class: &str) -> anyhow::Result<()> {
    let rolled_back = global.admin()?.roll_back_extension(class).await?;
    if global.output == Format::Json {
        return output::json(&rolled_back);
    }
    let model::RolledBack { version, sha256, from_version, from_sha256, configuration_too, .. } = rolled_back;
    let with = if configuration_too { ", with the configuration that it had" } else { "" };
    output::line(&format!("{class} is back to version {version}{with} (sha256 {sha256})"));
    output::line(&format!(
        "version {from_version} is not taken again unless it is forced (sha256 {from_sha256})"
    ));
    Ok(())
}

fn print_inspection(inspection: &Inspection, format: Format) -> anyhow::Result<()> {
    if format == Format::Json {
        return output::json(inspection);
    }
    let mut table = Table::new(&["", inspection.class.as_str()]);
    let kinds: Vec<&str> = inspection.kinds.iter().map(|kind| kind.as_str()).collect();
    for (name, value) in [
        ("kind", kinds.join(", ")),
        ("form", inspection.form.as_str().to_owned()),
        ("version", inspection.version.clone()),
        ("contract", inspection.contract.clone()),
        ("crc32", inspection.crc32.clone()),
        ("sha256", inspection.sha256.clone()),
        ("size", format!("{} bytes", inspection.size)),
        ("configuration", inspection.schema.to_string()),
    ] {
        table.row([name.to_owned(), value]);
    }
    table.print();
    Ok(())
}

/// Says that something is done; nothing needs saying to a program.
pub(super) fn done(format: Format, text: &str) -> anyhow::Result<()> {
    if format == Format::Table {
        output::line(text);
    }
    Ok(())
}

fn or_dash(text: &str) -> String {
    if text.is_empty() { "-".into() } else { text.to_owned() }
}
