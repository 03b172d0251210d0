//! The command line: one file for each family of commands.
//!
//! Everything but `serve` and `config` asks a running weir, through `weir-client`. What is printed is a
//! table for people or, with `-o json`, JSON for programs. Exit codes: 0 done, 1 refused or failed,
//! 2 wrong usage.

mod config;
mod consume;
mod extension;
mod filter;
pub(crate) mod output;
mod pairs;
mod produce;
mod serve;
mod topic;

use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum};
use weir_client::{Admin, Client, ClientOptions};

/// A plugin host for message brokers: extensions decide which topics a client may see and which messages
/// a subscription gets.
#[derive(Debug, Parser)]
#[command(
    name = "weir",
    version,
    propagate_version = true,
    arg_required_else_help = true,
    after_help = "Example:\n  weir serve &\n  echo hello | weir produce greetings\n  weir consume greetings -s me -n 1 --from-start"
)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// What every command takes.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Options of every command")]
struct Global {
    /// How to print: a table for people, JSON for programs.
    #[arg(short = 'o', long = "output", global = true, value_enum, default_value_t = Format::Table)]
    output: Format,
    /// The admin address of the weir to ask [env: WEIR_URL] [default: http://127.0.0.1:8080]
    #[arg(long, global = true, value_name = "URL")]
    url: Option<String>,
    /// Its Pulsar address [env: WEIR_SERVICE_URL] [default: pulsar://127.0.0.1:6650]
    #[arg(long, global = true, value_name = "URL")]
    service_url: Option<String>,
    /// The token that registering needs where the admin address is not loopback [env: WEIR_TOKEN]
    #[arg(long, global = true, value_name = "TOKEN")]
    token: Option<String>,
}

/// Where a weir is asked that was started without a word about its addresses.
const URL: &str = "http://127.0.0.1:8080";
const SERVICE_URL: &str = "pulsar://127.0.0.1:6650";

/// In which form to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Table,
    /// For programs.
    Json,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start weir: broker, listeners, extensions.
    Serve(serve::Serve),
    /// Register, list and remove extensions.
    #[command(subcommand)]
    Extension(extension::Extension),
    /// Bind filters to topics and subscriptions.
    #[command(subcommand)]
    Filter(filter::Filter),
    /// List, create, change and delete topics.
    #[command(subcommand)]
    Topic(topic::Topic),
    /// Publish messages: one for each line of standard input, or of a file.
    Produce(produce::Produce),
    /// Receive messages and print them.
    Consume(consume::Consume),
    /// Check a configuration file, or print the configuration that would be used.
    #[command(subcommand)]
    Config(config::Config),
    /// Print the completions of a shell.
    #[command(after_help = "Example:\n  weir completions bash > /etc/bash_completion.d/weir")]
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
    /// Compiles a component, or opens a library, within limits; started by weir for itself.
    #[command(hide = true)]
    Child,
}

/// Runs the command that the process was started with.
pub(crate) fn main() -> ExitCode {
    // Wrong usage ends here, with exit code 2.
    let Cli { global, command } = Cli::parse();
    let result = match command {
        Command::Child => return weir_extension::child_main(),
        Command::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "weir", &mut text);
            output::write(&String::from_utf8_lossy(&text));
            Ok(())
        }
        Command::Serve(serve) => serve.run(),
        Command::Config(config) => config.run(&global),
        Command::Extension(extension) => extension.run(&global),
        Command::Filter(filter) => on_runtime(filter.run(&global)),
        Command::Topic(topic) => on_runtime(topic.run(&global)),
        Command::Produce(produce) => on_runtime(produce.run(&global)),
        Command::Consume(consume) => on_runtime(consume.run(&global)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::error(&error);
            ExitCode::FAILURE
        }
    }
}

/// Runs a command that talks to a running weir.
fn on_runtime(command: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let result = runtime.block_on(command);
    // A thread that still reads standard input does not keep the process.
    runtime.shutdown_background();
    result
}

impl Global {
    fn admin(&self) -> anyhow::Result<Admin> {
        let url = self.url.clone().or_else(|| variable("WEIR_URL")).unwrap_or_else(|| URL.to_owned());
        Ok(Admin::new(&url, self.token.clone().or_else(|| variable("WEIR_TOKEN")))?)
    }

    async fn client(&self) -> anyhow::Result<Client> {
        let url = self.service_url.clone().or_else(|| variable("WEIR_SERVICE_URL"));
        let url = url.unwrap_or_else(|| SERVICE_URL.to_owned());
        Ok(Client::connect(&url, ClientOptions::default()).await?)
    }
}

/// A variable of the environment, if it says anything. Read here and not by the parser of arguments, which
/// would show whatever a variable sets as part of what a command needs.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Whether somebody looks at what goes to standard error, so that progress can be shown.
fn watched() -> bool {
    std::io::stderr().is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_holds_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_says_what_it_does_and_gives_an_example() {
        fn check(command: &clap::Command, path: &str) {
            for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help")
            {
                let path = format!("{path} {}", sub.get_name());
                assert!(sub.get_about().is_some(), "{path} does not say what it does");
                if sub.has_subcommands() {
                    check(sub, &path);
                } else {
                    let after = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
                    assert!(after.contains(&path), "{path} gives no example of itself: {after:?}");
                }
            }
        }
        check(&Cli::command(), "weir");
    }

    /// The words of a shell's line, of each command in it: `a | weir b 'c d'; weir e > f &`.
    fn commands(line: &str) -> Vec<Vec<String>> {
        let (mut commands, mut words) = (Vec::new(), vec![String::new()]);
        let mut quote = None;
        for c in line.chars() {
            let word = words.last_mut().unwrap();
            match (quote, c) {
                (Some(open), c) if c == open => quote = None,
                (None, '\'' | '"') => quote = Some(c),
                (None, ' ') => words.push(String::new()),
                (None, '|' | ';' | '&') => commands.push(std::mem::replace(&mut words, vec![String::new()])),
                _ => word.push(c),
            }
        }
        commands.push(words);
        let words =
            |words: Vec<String>| words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>();
        commands.into_iter().map(words).filter(|words| !words.is_empty()).collect()
    }

    /// Whether a file that an example names is there after `make run`, whose samples lie in the drop folder.
    fn is_there(file: &str) -> bool {
        let workspace = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let samples = std::fs::read_to_string(workspace.join("plugins/guests.mk")).unwrap();
        workspace.join(file).exists()
            || samples.split_whitespace().any(|word| word.trim_end_matches(';') == file)
    }

    #[test]
    fn every_example_can_be_run_as_it_stands() {
        fn check(command: &clap::Command, run: &mut Vec<String>) {
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for line in after.lines().filter(|line| line.starts_with("  ")) {
                for words in commands(line).into_iter().filter(|words| words[0] == "weir") {
                    let end = words.iter().position(|word| word == ">").unwrap_or(words.len());
                    if let Err(error) = Cli::try_parse_from(&words[..end]) {
                        panic!("{line}: {error}");
                    }
                    for word in &words[1..end] {
                        let ending =
                            std::path::Path::new(word).extension().and_then(|ending| ending.to_str());
                        if matches!(ending, Some("toml" | "wasm" | "so" | "json" | "jsonl" | "md" | "txt")) {
                            assert!(is_there(word), "{line}: there is no {word}");
                        }
                    }
                    run.push(words.join(" "));
                }
            }
            command.get_subcommands().for_each(|sub| check(sub, run));
        }
        let mut run = Vec::new();
        check(&Cli::command(), &mut run);
        assert!(run.len() > 20, "{run:?}");
        assert!(!is_there("plugins/nothing.wasm"));
    }
}
