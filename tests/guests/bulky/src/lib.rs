//! Accepts messages whose payload, JSON or TOML and compressed or not, has a text that matches a regular
//! expression. Only `make bench` builds it: a component of the size that common crates make, of which most
//! is theirs.

use std::borrow::Cow;
use std::io::Read;

use flate2::read::GzDecoder;
use regex::Regex;
use serde_json::Value;
use weir_plugin_api::{Config, Error, Field, Fields, Message, MessageFilter, Verdict, export};

/// What is looked for.
#[derive(Config)]
struct Wanted {
    /// The regular expression.
    #[config(default = r"^[\p{Greek}\p{Cyrillic}\w]+@example\.com$")]
    pattern: String,
    /// Whether case counts.
    #[config(default = false)]
    ignore_case: bool,
}

struct Bulky {
    pattern: Regex,
}

impl MessageFilter for Bulky {
    type Config = Wanted;
    const CLASS: &'static str = "demo.Bulky";
    const READS: Fields = Fields::of(Field::Payload);

    fn new(wanted: Wanted) -> Result<Self, Error> {
        let flags = if wanted.ignore_case { "(?i)" } else { "" };
        let pattern = Regex::new(&format!("{flags}{}", wanted.pattern)).map_err(Error::new)?;
        Ok(Self { pattern })
    }

    fn judge(&mut self, message: &Message<'_>) -> Result<Verdict, Error> {
        let payload = message.payload()?;
        let payload = unpacked(&payload)?;
        let value = match serde_json::from_slice(&payload) {
            Ok(value) => value,
            Err(no_json) => toml::from_slice(&payload)
                .map_err(|no_toml| Error::new(format_args!("no JSON: {no_json}; no TOML: {no_toml}")))?,
        };
        Ok(Verdict::accept_if(holds(&value, &self.pattern)))
    }
}

/// The payload, out of the frame that it is compressed in, if it is in one.
fn unpacked(payload: &[u8]) -> Result<Cow<'_, [u8]>, Error> {
    let mut out = Vec::new();
    let read = match payload {
        [0x1f, 0x8b, ..] => GzDecoder::new(payload).read_to_end(&mut out),
        [0x04, 0x22, 0x4d, 0x18, ..] => {
            return lz4_flex::decompress_size_prepended(&payload[4..]).map(Cow::Owned).map_err(Error::new);
        }
        [0xff, 0x06, ..] => snap::read::FrameDecoder::new(payload).read_to_end(&mut out),
        _ => return Ok(payload.into()),
    };
    read.map_err(Error::new)?;
    Ok(out.into())
}

/// Whether any text in the value matches.
fn holds(value: &Value, pattern: &Regex) -> bool {
    match value {
        Value::String(text) => pattern.is_match(text),
        Value::Array(values) => values.iter().any(|value| holds(value, pattern)),
        Value::Object(values) => values.values().any(|value| holds(value, pattern)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

export!(Bulky);
