//! How an extension is configured: a JSON object, and a JSON Schema that says so to everybody else.

use crate::verdict::Error;

/// A configuration. `#[derive(Config)]` makes it of a struct:
///
/// ```
/// use weir_plugin_api::Config;
///
/// /// Which flights are late.
/// #[derive(Config)]
/// struct Late {
///     /// From how many minutes on.
///     minutes: i64,
///     /// Only those of this carrier.
///     carrier: Option<String>,
///     #[config(default = 10)]
///     most: u32,
/// }
/// assert!(Late::SCHEMA.contains(r#""description":"From how many minutes on.""#));
/// assert_eq!(Late::parse(r#"{"minutes": 60}"#).unwrap().most, 10);
/// assert!(Late::parse(r#"{"minutes": 60, "hours": 1}"#).is_err());
/// ```
///
/// Fields that are an `Option`, or have a `default`, may be left out; unknown ones are refused. A field
/// may be a number, `bool`, `String`, another struct or enum without values that derives `Config`, an
/// `Option` or `Vec` of one, or a `BTreeMap` from `String` to one.
pub trait Config: Sized {
    /// The JSON Schema (2020-12) that a configuration must meet, made by the compiler.
    const SCHEMA: &'static str;

    /// Reads a configuration.
    ///
    /// # Errors
    /// When it is no JSON, or does not meet the schema.
    fn parse(json: &str) -> Result<Self, Error>;
}

/// No configuration: only `{}` is accepted.
impl Config for () {
    const SCHEMA: &'static str = r#"{"type":"object","additionalProperties":false}"#;

    fn parse(json: &str) -> Result<Self, Error> {
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Nothing {}
        let Nothing {} = serde_json::from_str(json)?;
        Ok(())
    }
}

/// A type that a field of a configuration may have.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be part of a configuration",
    note = "use a number, bool, String, Option, Vec, BTreeMap<String, _>, or a type that derives Config"
)]
pub trait Schema {
    /// What its JSON looks like: a JSON Schema, an object with at least one key.
    const JSON: &'static str;
}

macro_rules! schemas {
    ($($type:ty => $schema:literal,)*) => { $(impl Schema for $type { const JSON: &'static str = $schema; })* };
}
schemas! {
    bool => r#"{"type":"boolean"}"#,
    String => r#"{"type":"string"}"#,
    f32 => r#"{"type":"number"}"#,
    f64 => r#"{"type":"number"}"#,
    i8 => r#"{"type":"integer","minimum":-128,"maximum":127}"#,
    i16 => r#"{"type":"integer","minimum":-32768,"maximum":32767}"#,
    i32 => r#"{"type":"integer","minimum":-2147483648,"maximum":2147483647}"#,
    i64 => r#"{"type":"integer","minimum":-9223372036854775808,"maximum":9223372036854775807}"#,
    u8 => r#"{"type":"integer","minimum":0,"maximum":255}"#,
    u16 => r#"{"type":"integer","minimum":0,"maximum":65535}"#,
    u32 => r#"{"type":"integer","minimum":0,"maximum":4294967295}"#,
    u64 => r#"{"type":"integer","minimum":0,"maximum":18446744073709551615}"#,
}

/// The length of texts joined.
pub const fn joined_len(parts: &[&str]) -> usize {
    let mut len = 0;
    let mut part = 0;
    while part < parts.len() {
        len += parts[part].len();
        part += 1;
    }
    len
}

/// Joins texts while compiling; `LEN` is their [`joined_len`].
pub const fn joined<const LEN: usize>(parts: &[&str]) -> [u8; LEN] {
    let mut bytes = [0; LEN];
    let mut at = 0;
    let mut part = 0;
    while part < parts.len() {
        let text = parts[part].as_bytes();
        let mut i = 0;
        while i < text.len() {
            bytes[at] = text[i];
            at += 1;
            i += 1;
        }
        part += 1;
    }
    bytes
}

/// A schema without the brace that closes it: a field adds its own description and default there. Where
/// the type has one too, the later key counts, which is the field's.
pub const fn open(schema: &str) -> &str {
    schema.split_at(schema.len() - 1).0
}

/// What was joined, as text.
pub const fn as_text(bytes: &'static [u8]) -> &'static str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(_) => panic!("texts joined are text"),
    }
}
