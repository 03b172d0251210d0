//! `weir serve`.

use std::path::PathBuf;

use anyhow::{Context as _, anyhow};
use clap::Args;

use super::config::Chosen;
use crate::config::{Log, LogFormat, log_filter};

/// See [`crate::serve`].
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  weir serve --data data --plugins plugins --set listen.pulsar=0.0.0.0:6650"
)]
pub(super) struct Serve {
    #[command(flatten)]
    chosen: Chosen,
    /// The data folder: --set storage.data=DIR.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The drop folder: --set plugins.folder=DIR.
    #[arg(long, value_name = "DIR")]
    plugins: Option<PathBuf>,
}

impl Serve {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let mut settings = Vec::new();
        for (key, folder) in [("storage.data", &self.data), ("plugins.folder", &self.plugins)] {
            if let Some(folder) = folder {
                let folder = folder.to_str().with_context(|| format!("{} is not text", folder.display()))?;
                settings.push(format!("{key}={folder}"));
            }
        }
        let config = self.chosen.load(settings)?;
        log_to_stderr(&config.log)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let result = runtime.block_on(crate::serve::run(config));
        // What still blocks (a disk, a library) does not keep the process.
        runtime.shutdown_background();
        result
    }
}

fn log_to_stderr(log: &Log) -> anyhow::Result<()> {
    let filter = log_filter(&log.filter).map_err(|reason| anyhow!("log.filter {reason}"))?;
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(super::watched())
        .with_writer(std::io::stderr);
    match log.format {
        LogFormat::Text => subscriber.with_target(false).init(),
        LogFormat::Json => subscriber.json().init(),
    }
    Ok(())
}
