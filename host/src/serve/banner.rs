//! What `weir serve` says once it can be used. Fits a screen; the first lines have a fixed form, so that
//! a script can read the addresses.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use weir_extension::{ExtensionInfo, RefusedFile};

use crate::cli::output;
use crate::token::Token;

/// The most extensions that are named.
const MOST_SHOWN: usize = 8;

/// What is said.
pub(super) struct Facts<'a> {
    pub(super) pulsar: SocketAddr,
    pub(super) admin: SocketAddr,
    pub(super) data: PathBuf,
    pub(super) plugins: PathBuf,
    pub(super) token: Option<&'a Token>,
    pub(super) extensions: &'a [ExtensionInfo],
    pub(super) refused: &'a [RefusedFile],
}

pub(super) fn print(facts: &Facts<'_>) {
    output::write(&render(facts));
}

fn render(facts: &Facts<'_>) -> String {
    let mut text = String::new();
    let mut line = |line: std::fmt::Arguments<'_>| {
        writeln!(text, "{line}").expect("a String takes everything");
    };
    line(format_args!("weir {}", env!("CARGO_PKG_VERSION")));
    line(format_args!("pulsar   pulsar://{}", facts.pulsar));
    line(format_args!("admin    http://{}", facts.admin));
    line(format_args!("data     {}", facts.data.display()));
    line(format_args!("plugins  {}", facts.plugins.display()));
    if let Some(token) = facts.token {
        match &token.made {
            Some(file) => {
                line(format_args!(
                    "token    {} (shown this once; kept in {})",
                    token.reveal(),
                    file.display()
                ));
            }
            None => line(format_args!("token    needed to register extensions and bindings")),
        }
    }
    line(format_args!(""));
    line(format_args!("extensions"));
    for row in rows(facts.extensions) {
        line(format_args!("  {row}"));
    }
    if facts.extensions.len() > MOST_SHOWN {
        line(format_args!("  … and {} more: weir extension list", facts.extensions.len() - MOST_SHOWN));
    }
    for file in facts.refused.iter().take(MOST_SHOWN) {
        line(format_args!("  not in force: {}: {}", file.path.display(), file.reason));
    }
    line(format_args!(""));
    line(format_args!("try next"));
    for command in commands(facts) {
        line(format_args!("  {command}"));
    }
    text
}

/// Name, form, version, state, in columns.
fn rows(extensions: &[ExtensionInfo]) -> Vec<String> {
    let shown = &extensions[..extensions.len().min(MOST_SHOWN)];
    let width = shown.iter().map(|e| e.class.as_str().len()).max().unwrap_or(0);
    shown
        .iter()
        .map(|e| {
            let form = e.form.as_str();
            format!("{:width$}  {form:9}  {:8}  {}", e.class.as_str(), e.version, e.state)
        })
        .collect()
}

/// Three commands that work as they stand, in another terminal.
fn commands(facts: &Facts<'_>) -> [String; 3] {
    let reachable = |address: SocketAddr| match address.ip().is_unspecified() {
        true => SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), address.port()),
        false => address,
    };
    let mut url = String::new();
    if facts.admin.port() != 8080 || !facts.admin.ip().is_loopback() {
        url = format!(" --url http://{}", reachable(facts.admin));
    }
    let mut service = String::new();
    if facts.pulsar.port() != 6650 || !facts.pulsar.ip().is_loopback() {
        service = format!(" --service-url pulsar://{}", reachable(facts.pulsar));
    }
    [
        format!("weir extension list{url}"),
        format!(
            "echo 'hello, weir' | weir produce hello{service}; weir consume hello -s first -n 1 --from-start{service}"
        ),
        format!("weir topic stats hello{url}"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts<'a>(pulsar: &str, admin: &str, token: Option<&'a Token>) -> Facts<'a> {
        Facts {
            pulsar: pulsar.parse().unwrap(),
            admin: admin.parse().unwrap(),
            data: "/d".into(),
            plugins: "/p".into(),
            token,
            extensions: &[],
            refused: &[],
        }
    }

    #[test]
    fn addresses_stand_in_lines_of_a_fixed_form() {
        let text = render(&facts("127.0.0.1:6650", "127.0.0.1:8080", None));
        for line in ["pulsar   pulsar://127.0.0.1:6650", "admin    http://127.0.0.1:8080", "data     /d"] {
            assert!(text.lines().any(|l| l == line), "{line:?} is not in:\n{text}");
        }
        assert!(!text.contains("--url"), "{text}");
        assert!(text.lines().count() <= 24);
    }

    #[test]
    fn commands_name_addresses_that_are_not_the_defaults() {
        let text = render(&facts("0.0.0.0:7000", "127.0.0.1:41000", None));
        assert!(text.contains("--service-url pulsar://127.0.0.1:7000"), "{text}");
        assert!(text.contains("--url http://127.0.0.1:41000"), "{text}");
    }
}
