use super::{Config, Sources, load};

const FILE: &str = include_str!("../../../conf/host.toml");

fn with_text(text: &str, environment: &[(&str, &str)], settings: &[&str]) -> Result<Config, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("host.toml");
    std::fs::write(&file, text).unwrap();
    let sources = Sources {
        file: Some(file),
        environment: environment.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
        settings: settings.iter().map(|s| (*s).to_owned()).collect(),
    };
    load(&sources).map_err(|error| error.to_string())
}

#[track_caller]
fn refused(text: &str, settings: &[&str], parts: &[&str]) {
    let error = with_text(text, &[], settings).unwrap_err();
    for part in parts {
        assert!(error.contains(part), "{part:?} is not in:\n{error}");
    }
}

#[test]
fn the_file_shows_every_key_with_its_default() {
    assert_eq!(toml::from_str::<Config>(FILE).unwrap(), Config::default());

    let shown: toml::Table = FILE.parse().unwrap();
    let defaults = toml::Table::try_from(Config::default()).unwrap();
    for (section, keys) in defaults.iter().filter_map(|(name, value)| Some((name, value.as_table()?))) {
        for key in keys.keys() {
            assert!(shown.get(section).and_then(|s| s.get(key)).is_some(), "{section}.{key} is not shown");
        }
    }
}

#[test]
fn each_key_of_the_file_has_a_sentence_above_it() {
    let lines: Vec<&str> = FILE.lines().collect();
    for pair in lines.windows(2).filter(|pair| pair[1].contains(" = ") && !pair[1].starts_with('#')) {
        assert!(pair[0].starts_with("# "), "{:?} has no sentence", pair[1]);
    }
}

#[test]
fn the_examples_of_the_file_are_accepted_as_they_stand() {
    let start = FILE.find("# [extensions.").unwrap();
    let example: String = FILE[start..]
        .lines()
        .filter_map(|line| line.strip_prefix("# "))
        .filter(|l| !l.contains("None by"))
        .fold(String::new(), |text, line| text + line + "\n");
    let config = with_text(&example, &[], &[]).unwrap();
    assert_eq!(config.bindings().unwrap().len(), 1);
    assert_eq!(config.extensions.len(), 1);
}

#[test]
fn the_command_line_beats_the_environment_beats_the_file() {
    let text = "[listen]\npulsar = '1.1.1.1:1'\nadmin = '1.1.1.1:1'\nadvertised = 'a'";
    let environment = [("WEIR_LISTEN_ADMIN", "2.2.2.2:2"), ("WEIR_LISTEN_PULSAR", "2.2.2.2:2")];
    let config = with_text(text, &environment, &["listen.pulsar=3.3.3.3:3"]).unwrap();
    assert_eq!(config.listen.pulsar, "3.3.3.3:3");
    assert_eq!(config.listen.admin, "2.2.2.2:2");
    assert_eq!(config.listen.advertised, "a");
}

#[test]
fn settings_are_read_by_the_type_of_their_key() {
    let settings = [
        "listen.token=12345",
        "limits.connections=7",
        "limits.keep-alive=2m",
        "limits.max-message-size=1MiB",
        "plugins.native-sha256=[]",
        "broker.auto-create-topics=false",
        "extensions.\"demo.A\".deadline=\"5ms\"",
        "extensions.\"demo.A\".config={ minutes = 3 }",
    ];
    let config = with_text("", &[], &settings).unwrap();
    assert_eq!(config.listen.token, "12345");
    assert_eq!(config.limits.connections, 7);
    assert_eq!(config.limits.keep_alive.as_secs(), 120);
    assert_eq!(config.limits.max_message_size.bytes(), 1 << 20);
    assert!(!config.broker.auto_create_topics);
    let (class, extension) = config.extensions.first_key_value().unwrap();
    assert_eq!((class.as_str(), extension.deadline.as_millis()), ("demo.A", 5));
    assert_eq!(extension.config, Some(serde_json::json!({ "minutes": 3 })));
}

#[test]
fn variables_of_the_command_line_and_of_others_are_left_alone() {
    let environment =
        [("WEIR_URL", "x"), ("WEIR_SERVICE_URL", "x"), ("HOME", "x"), ("WEIR_OTHER_THING", "x")];
    assert_eq!(with_text("", &environment, &[]).unwrap(), Config::default());
}

#[test]
fn an_unknown_key_names_its_place_and_the_nearest() {
    refused("[listen]\npulzar = 'x'", &[], &["host.toml", "line 2", "`pulzar`", "did you mean `pulsar`?"]);
    refused("[listn]\n", &[], &["`listn`", "did you mean `listen`?"]);
    refused("", &["limits.conections=5"], &["--set limits.conections=5", "did you mean `connections`?"]);
    let error = with_text("", &[("WEIR_LIMITS_KEEPALIVE", "1s")], &[]).unwrap_err();
    assert!(
        error.contains("WEIR_LIMITS_KEEPALIVE") && error.contains("did you mean `keep-alive`?"),
        "{error}"
    );
}

#[test]
fn a_wrong_value_says_what_was_expected() {
    refused("[limits]\nkeep-alive = 'soon'", &[], &["line 2", "\"soon\" is not a duration", "\"50ms\""]);
    refused("[limits]\nmax-message-size = '5 stone'", &[], &["\"5 stone\" is not a size", "\"64MiB\""]);
    refused("", &["listen.pulsar=6650"], &["listen.pulsar is \"6650\"", "expected host:port"]);
    refused("", &["listen.advertised=pulsar://x"], &["without a scheme"]);
    refused("", &["nonsense"], &["expected key=value"]);
    refused("[[bindings]]\nfilters = ['a']", &[], &["bindings[0] has neither topic nor pattern"]);
    refused("[[bindings]]\ntopic = 'a'\nfilters = []", &[], &["bindings[0] names no filter"]);
    refused("[[bindings]]\ntopic = 'x://'\nfilters = ['a']", &[], &["is not a valid topic name"]);
    refused("[extensions.\"a b\"]\n", &[], &["holds ' '"]);
}

/// A value that each key refuses, and what is said then.
const REFUSED: &[(&str, &str)] = &[
    ("listen.pulsar=6650", "listen.pulsar is \"6650\", expected host:port"),
    ("listen.admin=localhost:http", "listen.admin is \"localhost:http\", expected host:port"),
    ("listen.advertised=weir.example:99999", "expected host or host:port without a scheme"),
    ("listen.token=two words", "listen.token holds a space"),
    ("storage.data=", "storage.data is empty, expected a folder"),
    ("storage.max-entries-per-ledger=0", "expected at least 1"),
    ("broker.cluster=a/b", "broker.cluster is \"a/b\", expected letters, digits and"),
    ("broker.max-partitions=0", "expected at least 1"),
    ("broker.max-partitions=4000000000", "expected at most 1000000"),
    ("broker.withhold-first-pause=0s", "broker.withhold-first-pause is 0s, expected at least 1ms"),
    ("broker.withhold-longest-pause=1000years", "expected at most 1year"),
    ("broker.max-withheld=0", "expected at least 1"),
    ("plugins.folder=", "plugins.folder is empty, expected a folder"),
    ("plugins.folder=data/extensions/artifacts", "which lies in data/extensions, where weir keeps files"),
    ("plugins.poll=0s", "plugins.poll is 0s, expected at least 10ms"),
    ("plugins.native-sha256=['abc']", "holds \"abc\", expected 64 hex digits"),
    ("plugins.max-native-libraries=1000000", "expected at most 100000"),
    ("plugins.max-artifact-size=1TiB", "is not a size"),
    ("plugins.max-artifact-size=100G", "plugins.max-artifact-size is 100GiB, expected at most 1GiB"),
    ("plugins.keep-versions=1000000", "expected at most 1000"),
    ("plugins.trial-messages=10000000000", "expected at most 1000000000"),
    ("plugins.trial-minimum=0", "plugins.trial-minimum is 0, expected at least 1"),
    ("plugins.trial-minimum=2000", "is 2000, expected at most plugins.trial-messages, which is 1000"),
    ("plugins.trial-broken=1", "\"1\" is not a share; expected a number from 0 to 100 and %, as in \"0.5%\""),
    ("plugins.trial-broken=101%", "\"101%\" is not a share"),
    ("plugins.trial-broken=-1%", "\"-1%\" is not a share"),
    ("plugins.trial-broken=1.00001%", "\"1.00001%\" is not a share"),
    ("listing.class=no class", "holds ' '"),
    ("listing.pattern-max-length=1000000000", "expected at most 100000"),
    ("listing.concurrent-calls=0", "expected a nonzero"),
    ("listing.concurrent-calls=100000", "expected at most 1024"),
    ("listing.max-in-flight=0", "expected a nonzero"),
    ("listing.max-topics=0", "listing.max-topics is 0, expected at least 1"),
    ("listing.max-properties=1000000", "expected at most 10000"),
    ("listing.max-property-length=0", "expected at least 1"),
    ("limits.max-message-size=2GiB", "limits.max-message-size is 2GiB, expected at most 1GiB"),
    ("limits.max-message-size=0", "limits.max-message-size is 0B, expected at least 1KiB"),
    ("limits.connections=0", "limits.connections is 0, expected at least 1"),
    ("limits.handles-per-connection=0", "expected at least 1"),
    ("limits.handshake-timeout=0s", "expected at least 1ms"),
    ("limits.keep-alive=0s", "expected at least 1ms"),
    ("limits.pending-requests=0", "expected at least 1"),
    ("limits.pending-publish=0", "limits.pending-publish is 0B, expected at least 1KiB"),
    ("limits.pending-output=0", "limits.pending-output is 0B, expected at least 1KiB"),
    ("limits.pending-deliveries=0", "limits.pending-deliveries is 0B, expected at least 1KiB"),
    ("limits.all-deliveries=16MiB", "expected at least four times limits.max-message-size, which is 5MiB"),
    ("limits.admin-body=100G", "limits.admin-body is 100GiB, expected at most 1GiB"),
    ("limits.admin-connections=0", "expected at least 1"),
    ("limits.admin-idle=0s", "expected at least 1ms"),
    ("limits.judging-threads=1000000", "expected at most 1024"),
    ("limits.drain-timeout=1000years", "expected at most 1year"),
    ("log.filter=inof", "log.filter is \"inof\", of which \"inof\" has no level; expected a level"),
    ("log.filter=info,fjall=loud", "of which \"fjall=loud\" has no level"),
    ("log.filter=", "has no level"),
    ("log.filter=weir[{=debug", "log.filter is \"weir[{=debug\""),
    ("log.format=xml", "expected `text` or `json`"),
    ("extensions.\"demo.A\".deadline=\"0s\"", "extensions.\"demo.A\".deadline is 0s, expected at least"),
    ("extensions.\"demo.A\".memory=\"1KiB\"", "expected at least 64KiB"),
    ("extensions.\"demo.A\".memory=\"8GiB\"", "expected at most 4GiB"),
];

/// Keys of which any value of their type is right, and why.
const ANY_VALUE: &[(&str, &str)] = &[
    ("listen.token-file", "a file that cannot be read refuses the start, and one that is missing is made"),
    ("broker.auto-create-topics", "yes or no"),
    ("listing.evaluate-patterns", "yes or no"),
];

#[test]
fn every_key_refuses_something_or_says_why_not() {
    for (setting, reason) in REFUSED {
        refused("", &[setting], &[reason, &format!("--set {setting}")]);
    }
    let longest =
        "broker.withhold-longest-pause is 1m, expected at least broker.withhold-first-pause, which is 2m";
    refused("", &["broker.withhold-first-pause=2m"], &[longest]);
    let defaults = toml::Table::try_from(Config::default()).unwrap();
    for (section, keys) in defaults.iter().filter_map(|(name, value)| Some((name, value.as_table()?))) {
        for key in keys.keys().map(|key| format!("{section}.{key}")) {
            let tried = REFUSED.iter().any(|(setting, _)| setting.split('=').next() == Some(&key));
            let any = ANY_VALUE.iter().any(|(name, _)| *name == key);
            assert!(tried ^ any, "{key} has neither a check nor a reason why it has none");
        }
    }
}

#[test]
fn listeners_may_not_meet() {
    let with = |pulsar: &str, admin: &str| {
        with_text("", &[], &[&format!("listen.pulsar={pulsar}"), &format!("listen.admin={admin}")]).map(drop)
    };
    for (pulsar, admin) in [
        ("127.0.0.1:7000", "127.0.0.1:7000"),
        ("0.0.0.0:7000", "127.0.0.1:7000"),
        ("127.0.0.1:7000", "localhost:7000"),
        ("127.0.0.1:7000", "[::]:7000"),
        ("weir.example:7000", "weir.example:7000"),
    ] {
        let error = with(pulsar, admin).unwrap_err();
        assert!(error.contains("which listen.pulsar takes already"), "{pulsar} and {admin}: {error}");
    }
    for (pulsar, admin) in [("127.0.0.1:0", "127.0.0.1:0"), ("127.0.0.1:7000", "127.0.0.2:7000")] {
        with(pulsar, admin).unwrap();
    }
}

#[test]
fn addresses_to_advertise() {
    for good in ["weir.example", "weir.example:7650", "10.0.0.1", "::1", "[::1]", "[::1]:6650"] {
        with_text("", &[], &[&format!("listen.advertised={good}")]).unwrap();
    }
    for bad in ["pulsar://x", "x/y", "x:0", "x:port", "[::1", "a b", ":6650"] {
        refused("", &[&format!("listen.advertised={bad}")], &["listen.advertised is", "without a scheme"]);
    }
}

#[test]
fn levels_of_the_log() {
    for good in ["info", "off", "WARN", "info,fjall=warn", "weir[pulsar{peer=1}]=debug,warn"] {
        with_text("", &[], &[&format!("log.filter={good}")])
            .unwrap_or_else(|error| panic!("{good}: {error}"));
    }
}

#[test]
fn bindings_that_cannot_be_used_are_refused() {
    let one = |text: &str| format!("[[bindings]]\nfilters = ['demo.A']\n{text}\n");
    let pattern = one("pattern = 'public/default/('");
    refused(&pattern, &[], &["bindings[0] is refused: pattern \"public/default/(\"", "unclosed group"]);
    let flights = one("topic = 'flights'\nsubscription = 's'");
    let full = one("topic = 'persistent://public/default/flights'\nsubscription = 's'");
    let twice = format!("{flights}{}{full}", one("topic = 'flights'"));
    refused(&twice, &[], &["host.toml: bindings[2] has the topic and the subscription of bindings[0]"]);
    let twice = one("pattern = 'a/b/.*'").repeat(2);
    refused(&twice, &[], &["bindings[1] has the pattern and the subscription of bindings[0]"]);
    let same = format!("{}{}", one("pattern = 'a/b/.*'"), one("pattern = 'persistent://a/b/.*'"));
    refused(&same, &[], &["bindings[1] is refused: patterns", "both match the same topics"]);
    refused(&one("topic = 'flights-partition-1'"), &[], &["bindings[0] is refused", "is one partition"]);
    refused(
        &one("topic = 'a'\nsubscription = ''"),
        &[],
        &["bindings[0] is refused: a subscription has 1 to"],
    );
    let lister = "[[bindings]]\ntopic = 'a'\nfilters = ['weir.PropertyEquality']";
    refused(lister, &[], &["bindings[0] is refused: weir.PropertyEquality is not a filter"]);
    let filters = vec!["'demo.A'"; 33].join(",");
    let many = format!("[[bindings]]\ntopic = 'a'\nfilters = [{filters}]");
    refused(&many, &[], &["bindings[0] is refused: a binding may name 32 filters"]);
}

#[test]
fn all_that_is_wrong_is_told_at_once_and_where_it_was_set() {
    let text = "[limits]\nconnections = 0\nkeep-alive = '0s'";
    let error = with_text(text, &[("WEIR_LISTEN_ADMIN", "nowhere")], &["limits.connections=0"]).unwrap_err();
    let lines: Vec<&str> = error.lines().collect();
    assert_eq!(lines.len(), 3, "{error}");
    assert!(lines[0].starts_with("WEIR_LISTEN_ADMIN: listen.admin is"), "{error}");
    assert!(lines[1].starts_with("--set limits.connections=0: limits.connections is 0"), "{error}");
    assert!(lines[2].contains("host.toml: limits.keep-alive is 0s"), "{error}");
}

#[test]
fn what_is_printed_can_be_read_again() {
    let settings =
        ["extensions.\"demo.A\".config={ a = [1] }", "bindings=[{topic=\"t\", filters=[\"demo.A\"]}]"];
    let config = with_text("", &[], &settings).unwrap();
    assert_eq!(toml::from_str::<Config>(&toml::to_string(&config).unwrap()).unwrap(), config);
}

#[test]
fn sizes_are_shown_in_the_largest_whole_unit() {
    for (text, shown) in
        [("10K", "10KiB"), ("1536", "1536B"), ("5gib", "5GiB"), ("0", "0B"), ("2048", "2KiB")]
    {
        assert_eq!(text.parse::<super::ByteSize>().unwrap().to_string(), shown);
    }
    for bad in ["", "1.5G", "10X", "-1", "99999999999G"] {
        assert!(bad.parse::<super::ByteSize>().is_err(), "{bad}");
    }
}
