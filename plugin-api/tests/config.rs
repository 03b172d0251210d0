//! What `#[derive(Config)]` makes: a reader, and a schema that says the same.

#![expect(clippy::unwrap_used, reason = "helpers of tests, which panic as tests do")]

use std::collections::BTreeMap;

use serde_json::{Value, json};
use weir_plugin_api::Config;

/// Which flights
/// are late.
#[derive(Config, Debug, PartialEq)]
struct Late {
    /// From how many "minutes" on.
    minutes: i64,
    carrier: Option<String>,
    #[config(default = -3)]
    least: i8,
    #[config(default = "UA")]
    own: String,
    #[config(default)]
    rules: Vec<Rule>,
    /// By airport.
    #[config(default)]
    limits: BTreeMap<String, f64>,
    #[config(default = Action::SendBack)]
    action: Action,
}

/// A rule.
#[derive(Config, Debug, PartialEq)]
struct Rule {
    property: String,
    #[config(default = true)]
    required: bool,
}

#[derive(Config, Debug, PartialEq)]
enum Action {
    Drop,
    SendBack,
}

#[derive(Config)]
struct Nothing;

fn schema<T: Config>() -> Value {
    serde_json::from_str(T::SCHEMA).unwrap()
}

#[track_caller]
fn refused(json: &str, because: &str) {
    let error = Late::parse(json).unwrap_err().to_string();
    assert!(error.contains(because), "{error}");
}

#[test]
fn the_schema_says_what_is_read() {
    let rule = json!({
        "type": "object", "additionalProperties": false, "description": "A rule.",
        "properties": { "property": {"type": "string"}, "required": {"type": "boolean", "default": true} },
        "required": ["property"],
    });
    let expected = json!({
        "type": "object", "additionalProperties": false, "description": "Which flights are late.",
        "properties": {
            "minutes": {
                "type": "integer", "minimum": i64::MIN, "maximum": i64::MAX,
                "description": "From how many \"minutes\" on."
            },
            "carrier": {"type": "string"},
            "least": {"type": "integer", "minimum": -128, "maximum": 127, "default": -3},
            "own": {"type": "string", "default": "UA"},
            "rules": {"type": "array", "items": rule},
            "limits": {
                "type": "object", "additionalProperties": {"type": "number"}, "description": "By airport."
            },
            "action": {"type": "string", "enum": ["drop", "send-back"]},
        },
        "required": ["minutes"],
    });
    assert_eq!(schema::<Late>(), expected);
}

#[test]
fn what_is_left_out_has_its_default() {
    let late = Late::parse(r#"{"minutes": 60}"#).unwrap();
    let expected = Late {
        minutes: 60,
        carrier: None,
        least: -3,
        own: "UA".into(),
        rules: vec![],
        limits: BTreeMap::new(),
        action: Action::SendBack,
    };
    assert_eq!(late, expected);
}

#[test]
fn what_is_given_is_read() {
    let late = Late::parse(
        r#"{"minutes": 1, "carrier": "DL", "rules": [{"property": "tenant"}], "limits": {"ORD": 0.5}, "action": "drop"}"#,
    )
    .unwrap();
    assert_eq!(late.carrier.as_deref(), Some("DL"));
    assert_eq!(late.rules, [Rule { property: "tenant".into(), required: true }]);
    assert_eq!(late.limits["ORD"], 0.5);
    assert_eq!(late.action, Action::Drop);
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    refused("{}", "missing field `minutes`");
    refused(r#"{"minutes": 60, "hours": 1}"#, "unknown field `hours`");
    refused(r#"{"minutes": "60"}"#, "invalid type: string");
    refused(r#"{"minutes": 1, "least": 200}"#, "invalid value: integer `200`");
    refused(r#"{"minutes": 1, "rules": [{}]}"#, "missing field `property`");
    refused(r#"{"minutes": 1, "action": "keep"}"#, "unknown variant `keep`");
    refused("", "EOF");
}

#[test]
fn no_configuration_is_an_empty_object() {
    for schema in [schema::<()>(), schema::<Nothing>()] {
        assert_eq!((&schema["type"], &schema["additionalProperties"]), (&json!("object"), &json!(false)));
    }
    <()>::parse("{}").unwrap();
    Nothing::parse("{}").unwrap();
    assert!(<()>::parse(r#"{"x": 1}"#).is_err());
    assert!(Nothing::parse(r#"{"x": 1}"#).is_err());
}
