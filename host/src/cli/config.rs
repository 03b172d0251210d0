//! `weir config`: is a file right, and what would be used.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Format, Global, output, variable};
use crate::config::{self, Sources};

#[derive(Debug, Subcommand)]
pub(super) enum Config {
    /// Say what is wrong with a configuration file, and where.
    #[command(after_help = "Example:\n  weir config check conf/host.toml")]
    Check {
        /// The file.
        file: PathBuf,
    },
    /// Print the configuration that `serve` would use, every key with its value.
    #[command(
        after_help = "Example:\n  weir config print --config conf/host.toml --set limits.connections=50"
    )]
    Print(Chosen),
}

/// Where the configuration comes from; the environment comes in between.
#[derive(Clone, Debug, Args)]
pub(super) struct Chosen {
    /// The configuration file; conf/host.toml in the sources shows every key [env: WEIR_CONFIG]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Set one key, over what file and environment say. May be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl Chosen {
    /// Merges file, environment, `settings` and `--set`, the last one first.
    pub(super) fn load(&self, settings: Vec<String>) -> anyhow::Result<config::Config> {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        let sources = Sources {
            file: self.config.clone().or_else(|| variable("WEIR_CONFIG").map(PathBuf::from)),
            // A variable that is not text is not one of weir's: those are all read as text.
            environment: std::env::vars_os().filter_map(text).collect(),
            settings: settings.into_iter().chain(self.set.iter().cloned()).collect(),
        };
        Ok(config::load(&sources)?)
    }
}

impl Config {
    pub(super) fn run(self, global: &Global) -> anyhow::Result<()> {
        match self {
            Self::Check { file } => {
                let shown = file.display().to_string();
                config::load(&Sources { file: Some(file), ..Sources::default() })?;
                match global.output {
                    Format::Table => output::line(&format!("{shown} is right")),
                    Format::Json => output::json(&serde_json::json!({ "file": shown, "right": true }))?,
                }
            }
            Self::Print(chosen) => {
                let config = chosen.load(Vec::new())?;
                match global.output {
                    Format::Table => output::write(&toml::to_string(&config)?),
                    Format::Json => output::json(&config)?,
                }
            }
        }
        Ok(())
    }
}
