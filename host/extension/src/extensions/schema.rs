//! Configurations against the JSON Schema that an artifact declares for them.
//!
//! The schema comes from the artifact, so from a stranger: it may name no other document (nothing is
//! fetched), its patterns are matched in linear time, and its size is bounded, with its references
//! written out: forty definitions that each refer twice to the next are a schema of 4 KB that would be
//! checked until the end of the world, and a chain of thousands would be compiled until the end of the
//! stack.

use std::collections::HashMap;
use std::ptr;

use serde_json::Value;

/// The largest schema that is taken, in bytes of JSON. The samples' have some hundreds.
pub const MAX_SCHEMA_BYTES: usize = 256 * 1024;

/// How many values a schema may come to with each reference replaced by what it refers to. The samples'
/// come to less than a hundred.
const MAX_WRITTEN_OUT: u64 = 100_000;

/// How deep a schema may nest, references followed.
const MAX_DEPTH: usize = 100;

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
    /// When it is no JSON Schema, is too large, or refers to itself or to another document.
    pub(crate) fn compile(schema: &Value) -> Result<Self, String> {
        let size = schema.to_string().len();
        if size > MAX_SCHEMA_BYTES {
            return Err(format!("its schema has {size} bytes, at most {MAX_SCHEMA_BYTES} are taken"));
        }
        References { root: schema, known: HashMap::new() }.written_out(schema, 0).map_err(|reason| {
            format!("its configuration schema is not a valid JSON Schema as weir takes them: {reason}")
        })?;
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

/// Follows the references of a schema, before anything else does.
struct References<'s> {
    root: &'s Value,
    /// What was counted, by place: what is referred to twice is looked at once.
    known: HashMap<*const Value, u64>,
}

impl<'s> References<'s> {
    /// How many values `at` comes to, references written out.
    fn written_out(&mut self, at: &'s Value, depth: usize) -> Result<u64, String> {
        if depth > MAX_DEPTH {
            return Err(format!("it nests deeper than {MAX_DEPTH}, or refers to itself"));
        }
        if let Some(count) = self.known.get(&ptr::from_ref(at)) {
            return Ok(*count);
        }
        let mut count = 1;
        match at {
            Value::Array(items) => {
                for item in items {
                    count += self.written_out(item, depth + 1)?;
                }
            }
            Value::Object(members) => {
                for (key, member) in members {
                    let next = match (key.as_str(), member) {
                        ("$ref", Value::String(to)) => self.target(to)?,
                        // These two find their target only as a configuration is checked, and this one
                        // changes what a reference means.
                        ("$dynamicRef" | "$recursiveRef", Value::String(_)) => {
                            return Err(format!("{key} is not taken, $ref is"));
                        }
                        ("$id", Value::String(_)) if depth > 0 => {
                            return Err("$id is taken for the whole only".to_owned());
                        }
                        ("$schema", Value::String(draft)) if draft.contains("draft-04") => {
                            return Err("draft 4 is not taken, later ones are".to_owned());
                        }
                        _ => member,
                    };
                    count += self.written_out(next, depth + 1)?;
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        if count > MAX_WRITTEN_OUT {
            return Err(format!(
                "it is larger than {MAX_WRITTEN_OUT} values with its references written out"
            ));
        }
        self.known.insert(ptr::from_ref(at), count);
        Ok(count)
    }

    /// What a reference refers to.
    fn target(&self, to: &str) -> Result<&'s Value, String> {
        let place = to.strip_prefix('#').filter(|pointer| !pointer.contains('%'));
        place.and_then(|pointer| self.root.pointer(pointer)).ok_or_else(|| {
            format!("{:?} is no place in it, written as #/…/…", to.chars().take(100).collect::<String>())
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
