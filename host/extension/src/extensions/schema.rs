//! Configurations against the JSON Schema that an artifact declares for them.
//!
//! The schema comes from the artifact, so from a stranger: it may name no other document (nothing is
//! fetched), its patterns are matched in linear time, and its size is bounded.

use serde_json::Value;

/// The largest schema that is taken, in bytes of JSON. The samples' have some hundreds.
pub const MAX_SCHEMA_BYTES: usize = 256 * 1024;

/// The largest configuration that is taken, in bytes of JSON. It is kept in memory once a version and
/// handed to every instance.
pub const MAX_CONFIG_BYTES: usize = 256 * 1024;

/// A configuration is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Where in the configuration, as a JSON pointer; empty for the whole.
    pub path: String,
    /// What is wrong there.
    pub reason: String,
    /// The extension was asked and *broke*, where it should have said no.
    pub broke: bool,
}

impl Refusal {
    /// Of a configuration as a whole.
    pub(crate) fn whole(reason: String) -> Self {
        Self { path: String::new(), reason, broke: false }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", super::errors::at(&self.path), self.reason)
    }
}

/// A compiled schema.
pub(crate) struct Schema {
    validator: jsonschema::Validator,
}

impl Schema {
    /// Compiles what an artifact declared.
    ///
    /// # Errors
    /// When it is no JSON Schema, is too large, or refers to another document.
    pub(crate) fn compile(schema: &Value) -> Result<Self, String> {
        let size = schema.to_string().len();
        if size > MAX_SCHEMA_BYTES {
            return Err(format!("its schema has {size} bytes, at most {MAX_SCHEMA_BYTES} are taken"));
        }
        jsonschema::options()
            .with_pattern_options(jsonschema::PatternOptions::regex())
            .build(schema)
            .map(|validator| Self { validator })
            .map_err(|error| {
                format!(
                    "its configuration schema is not a valid JSON Schema: {}",
                    one_line(&error.to_string())
                )
            })
    }

    /// Checks a configuration.
    ///
    /// # Errors
    /// With the first place that is wrong, and why.
    pub(crate) fn check(&self, config: &Value) -> Result<(), Refusal> {
        self.validator.validate(config).map_err(|error| Refusal {
            path: error.instance_path().to_string(),
            reason: one_line(&error.to_string()),
            broke: false,
        })
    }
}

/// A foreign sentence, cut to a length that fits a line of a table.
fn one_line(text: &str) -> String {
    const MAX_CHARS: usize = 300;
    let line = text.lines().next().unwrap_or("no reason given");
    match line.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}
