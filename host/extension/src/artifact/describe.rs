//! What artifacts say of themselves, read with suspicion: both forms answer in JSON.

use serde::Deserialize;
use serde_json::Value;

use crate::artifact::{Description, OpenError};
use crate::extensions::{ClassName, Kind};
use crate::filter::{Broke, BrokeKind};
use crate::message::Field;

/// The longest description that is read: a schema of a thousand properties is a tenth of it.
const MAX_DESCRIPTION: usize = 1 << 20;

/// The most fields that a filter may read; a batch has a column for each.
const MAX_FIELDS: usize = 256;

/// The major version of the contract that this host speaks, for both forms.
pub(crate) const CONTRACT: &str = "1";

#[derive(Deserialize)]
struct Answer {
    class: String,
    kinds: Vec<Kind>,
    #[serde(default)]
    version: String,
    contract: String,
    #[serde(default = "anything")]
    schema: Value,
}

/// The schema that every configuration satisfies.
fn anything() -> Value {
    Value::Bool(true)
}

impl Description {
    /// Reads what `describe` gave back. Keys that this host does not know are left alone: a later minor
    /// may say more.
    ///
    /// # Errors
    /// When it is not the JSON that the contract asks for, or speaks of another contract.
    pub(crate) fn parse(json: &str) -> Result<Self, OpenError> {
        let refuse = |why: String| Err(OpenError(why));
        if json.len() > MAX_DESCRIPTION {
            return refuse(format!(
                "its description has {} bytes, at most {MAX_DESCRIPTION} are read",
                json.len()
            ));
        }
        let answer: Answer = match serde_json::from_str(json) {
            Ok(answer) => answer,
            Err(error) => {
                return refuse(format!(
                    "its description is not what the contract asks for ({error}): {}",
                    cut(json)
                ));
            }
        };
        let class = ClassName::new(&answer.class).map_err(|error| OpenError(format!("its {error}")))?;
        if answer.contract.split('.').next() != Some(CONTRACT) {
            return refuse(format!(
                "{class} was built for contract {}, this host speaks {CONTRACT}.x",
                cut(&answer.contract)
            ));
        }
        let mut kinds = answer.kinds;
        kinds.sort_unstable();
        kinds.dedup();
        if kinds.is_empty() {
            return refuse(format!("{class} says that it is neither a filter nor a lister"));
        }
        Ok(Self {
            class,
            kinds,
            version: cut(&answer.version),
            contract: answer.contract,
            schema: answer.schema,
        })
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum FieldAnswer {
    Property { property: String },
    Named { field: String },
}

/// Reads the fields that an extension says it will read, as [`BrokeKind::BadAnswer`] where it may not.
pub(crate) fn fields_of(json: &str) -> Result<Vec<Field>, Broke> {
    fields(json).map_err(|reason| Broke { kind: BrokeKind::BadAnswer, reason })
}

/// Reads a list of fields: `{"property": name}` or `{"field": one of Field::NAMED}` each.
fn fields(json: &str) -> Result<Vec<Field>, String> {
    let wrong =
        |why: String| format!("the fields that it wants to read are not what the contract asks for: {why}");
    if json.len() > MAX_DESCRIPTION {
        return Err(wrong(format!("{} bytes", json.len())));
    }
    let answers: Vec<FieldAnswer> =
        serde_json::from_str(json).map_err(|error| wrong(format!("{error}: {}", cut(json))))?;
    if answers.len() > MAX_FIELDS {
        return Err(wrong(format!("{} fields, at most {MAX_FIELDS} are read", answers.len())));
    }
    answers
        .into_iter()
        .map(|answer| match answer {
            FieldAnswer::Property { property } => Ok(Field::Property(property.into())),
            FieldAnswer::Named { field } => {
                let known = Field::NAMED.iter().find(|(name, _)| *name == field);
                known.map(|(_, field)| field.clone()).ok_or_else(|| {
                    let names = Field::NAMED.map(|(name, _)| name).join(", ");
                    wrong(format!("{:?} is none of {names}", cut(&field)))
                })
            }
        })
        .collect()
}

/// Foreign text, short enough for a sentence.
fn cut(text: &str) -> String {
    text.chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_read() {
        let json = r#"{"class":"demo.A","kinds":["filter"],"version":"2","contract":"1.7","new":[]}"#;
        let found = Description::parse(json).unwrap();
        assert_eq!(
            (found.class.as_str(), &found.kinds[..], &*found.version),
            ("demo.A", &[Kind::Filter][..], "2")
        );
        assert_eq!(found.schema, Value::Bool(true));
    }

    #[track_caller]
    fn refused(json: &str, because: &str) {
        let error = Description::parse(json).unwrap_err().to_string();
        assert!(error.contains(because), "{error}");
    }

    #[test]
    fn a_bad_description_says_what_is_wrong() {
        refused("{", "is not what the contract asks for");
        refused(r#"{"class":"a","kinds":["sorter"],"contract":"1.0"}"#, "sorter");
        refused(r#"{"class":"a b","kinds":["filter"],"contract":"1.0"}"#, "holds ' '");
        refused(r#"{"class":"a","kinds":[],"contract":"1.0"}"#, "neither a filter nor a lister");
        refused(r#"{"class":"a","kinds":["filter"],"contract":"2.0"}"#, "contract 2.0, this host speaks 1.x");
        refused(&" ".repeat(MAX_DESCRIPTION + 1), "at most 1048576");
    }

    #[test]
    fn fields_are_read() {
        let found = fields(r#"[{"property":"a"},{"field":"event-time"}]"#).unwrap();
        assert_eq!(found, [Field::Property("a".into()), Field::EventTime]);
        let error = fields(r#"[{"field":"colour"}]"#).unwrap_err();
        assert!(error.contains("\"colour\" is none of key, ordering-key"), "{error}");
        assert!(fields("7").is_err());
        let many = format!("[{}]", vec![r#"{"field":"key"}"#; 257].join(","));
        assert!(fields(&many).unwrap_err().contains("at most 256"));
    }
}
