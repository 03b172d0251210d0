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
    refused("", &["limits.max-message-size=2GiB"], &["at most 1GiB"]);
    refused("", &["nonsense"], &["expected key=value"]);
    refused("[[bindings]]\nfilters = ['a']", &[], &["bindings[0] has neither topic nor pattern"]);
    refused("[[bindings]]\ntopic = 'a'\nfilters = []", &[], &["bindings[0] names no filter"]);
    refused("[[bindings]]\ntopic = 'x://'\nfilters = ['a']", &[], &["is not a valid topic name"]);
    refused("[extensions.\"a b\"]\n", &[], &["holds ' '"]);
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
