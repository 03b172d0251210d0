//! Names of namespaces and topics, as every room below the protocols spells them.
//!
//! A name is checked once, here, and is valid wherever it is held. Neither percent-encoding nor any
//! other spelling is undone: what a client wrote is what listings, cursors and statistics show.

use std::fmt;
use std::sync::Arc;

/// Longest name that is taken, in bytes, counted over the whole spelling.
///
/// Names are keys of the store and lie in every listing; Pulsar itself sets no bound.
pub const MAX_NAME_BYTES: usize = 4096;

/// Whether a topic's messages are kept on disk. The first word of a topic's full name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Domain {
    /// `persistent://…`
    Persistent,
    /// `non-persistent://…`
    NonPersistent,
}

impl Domain {
    /// The word before `://`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Persistent => "persistent",
            Self::NonPersistent => "non-persistent",
        }
    }
}

/// `tenant/namespace`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamespaceName(Arc<str>);

/// The full name of a topic: `persistent://tenant/namespace/local`.
///
/// Short forms (`local`, `tenant/namespace/local`) are completed as Pulsar does, with
/// `persistent://` and `public/default`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicName(Arc<str>);

/// Why a text is not the name of a topic or namespace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a valid {what} name: {reason}")]
pub struct NameError {
    /// `"topic"`, `"namespace"` or `"tenant"`.
    pub what: &'static str,
    /// The text that was refused, cut to 200 characters.
    pub text: String,
    /// What is wrong with it and what would be right.
    pub reason: String,
}

const PARTITION: &str = "-partition-";

impl NamespaceName {
    /// Checks `tenant/namespace`: two parts of `[-=:.\w]+` each, as Pulsar's `NamedEntity` allows.
    ///
    /// # Errors
    /// When there are not two parts, or a part is empty or has another character.
    pub fn new(text: &str) -> Result<Self, NameError> {
        let refuse = |reason: String| Err(NameError { what: "namespace", text: cut(text), reason });
        let mut parts = text.split('/');
        let (Some(tenant), Some(namespace), None) = (parts.next(), parts.next(), parts.next()) else {
            return refuse("expected tenant/namespace".into());
        };
        for part in [tenant, namespace] {
            if let Some(reason) = bad_part(part) {
                return refuse(reason);
            }
        }
        if text.len() > MAX_NAME_BYTES {
            return refuse(format!("longer than {MAX_NAME_BYTES} bytes"));
        }
        Ok(Self(text.into()))
    }

    /// The part before the slash.
    pub fn tenant(&self) -> &str {
        self.0.split_once('/').expect("checked when made").0
    }

    /// The part after the slash.
    pub fn local(&self) -> &str {
        self.0.split_once('/').expect("checked when made").1
    }

    /// `tenant/namespace`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TopicName {
    /// Checks and completes a topic's name.
    ///
    /// # Errors
    /// When the domain is neither `persistent` nor `non-persistent`, when tenant or namespace are not
    /// [names of their own](NamespaceName::new), or when the local part is empty, holds a control
    /// character, or is too long.
    pub fn new(text: &str) -> Result<Self, NameError> {
        let refuse = |reason: String| Err(NameError { what: "topic", text: cut(text), reason });
        let (domain, rest) = match text.split_once("://") {
            Some(("persistent", rest)) => (Domain::Persistent, rest),
            Some(("non-persistent", rest)) => (Domain::NonPersistent, rest),
            Some((other, _)) => {
                return refuse(format!("its domain is {other:?}, expected persistent or non-persistent"));
            }
            None => (Domain::Persistent, text),
        };
        let parts: Vec<&str> = rest.splitn(3, '/').collect();
        let (namespace, local) = match parts[..] {
            [local] if !text.contains("://") => ("public/default".to_owned(), local),
            [tenant, namespace, local] => (format!("{tenant}/{namespace}"), local),
            _ => return refuse("expected persistent://tenant/namespace/topic, or a bare topic".into()),
        };
        if let Err(error) = NamespaceName::new(&namespace) {
            return refuse(error.reason);
        }
        if local.is_empty() {
            return refuse("the part after the namespace is empty".into());
        }
        if is_dots(local) {
            return refuse(format!("a topic named {local:?} cannot be reached by its URL"));
        }
        if let Some(c) = local.chars().find(|c| c.is_control()) {
            return refuse(format!("it holds the control character {c:?}"));
        }
        let full = format!("{}://{namespace}/{local}", domain.as_str());
        if full.len() > MAX_NAME_BYTES {
            return refuse(format!("longer than {MAX_NAME_BYTES} bytes"));
        }
        Ok(Self(full.into()))
    }

    /// The full name, with its domain.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The word before `://`.
    pub fn domain(&self) -> Domain {
        if self.0.starts_with("persistent://") { Domain::Persistent } else { Domain::NonPersistent }
    }

    /// The name without its domain: `tenant/namespace/local`. This is what patterns are matched with.
    pub fn without_domain(&self) -> &str {
        self.0.split_once("://").expect("checked when made").1
    }

    /// The namespace it lies in.
    pub fn namespace(&self) -> NamespaceName {
        let rest = self.without_domain();
        let end = rest.match_indices('/').nth(1).expect("checked when made").0;
        NamespaceName(rest[..end].into())
    }

    /// The part after the namespace.
    pub fn local(&self) -> &str {
        let rest = self.without_domain();
        &rest[rest.match_indices('/').nth(1).expect("checked when made").0 + 1..]
    }

    /// The index of the partition that this name names, if it names one.
    ///
    /// As in Pulsar: the last `-partition-` followed by a whole number (of 31 bits, as Java's) without
    /// sign or leading zeros. A name that is nothing else is a name of its own.
    pub fn partition(&self) -> Option<u32> {
        let (base, digits) = self.local().rsplit_once(PARTITION)?;
        let canonical = digits == "0" || !digits.starts_with(['0', '+', '-']);
        let index = digits.parse::<i32>().ok().filter(|_| canonical && !base.is_empty() && !is_dots(base))?;
        u32::try_from(index).ok()
    }

    /// The name of the partitioned topic that this is a partition of, else itself.
    #[must_use]
    pub fn base(&self) -> Self {
        match self.partition() {
            Some(_) => Self(self.0.rsplit_once(PARTITION).expect("it has a partition").0.into()),
            None => self.clone(),
        }
    }

    /// The name of one partition of this topic.
    #[must_use]
    pub fn with_partition(&self, index: u32) -> Self {
        Self(format!("{}{PARTITION}{index}", self.0).into())
    }
}

/// What is wrong with one part of a namespace, or with a tenant.
fn bad_part(part: &str) -> Option<String> {
    if part.is_empty() {
        return Some("a part of it is empty".into());
    }
    // Pulsar takes them, but HTTP clients and proxies resolve them away: nobody could ever delete it.
    if is_dots(part) {
        return Some(format!("{part:?} cannot be part of a URL"));
    }
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '=' | ':' | '.' | '_');
    let bad = part.chars().find(|c| !good(*c))?;
    Some(format!("{part:?} holds {bad:?}; letters, digits and -=:._ are allowed"))
}

/// What a URL means as "here" and "one up", encoded or not.
fn is_dots(part: &str) -> bool {
    matches!(part, "." | "..")
}

fn cut(text: &str) -> String {
    text.chars().take(200).collect()
}

macro_rules! spelled {
    ($name:ident) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.serialize_str(&self.0)
            }
        }
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                Self::new(&String::deserialize(d)?).map_err(serde::de::Error::custom)
            }
        }
    };
}
spelled!(NamespaceName);
spelled!(TopicName);

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, full: &str, base: &str, partition: Option<u32>) {
        let name = TopicName::new(text).unwrap();
        assert_eq!((name.as_str(), name.base().as_str(), name.partition()), (full, base, partition));
    }

    #[track_caller]
    fn refused(text: &str, because: &str) {
        let error = TopicName::new(text).unwrap_err().to_string();
        assert!(error.contains(because), "{error}");
    }

    #[test]
    fn short_names_are_completed() {
        check("t", "persistent://public/default/t", "persistent://public/default/t", None);
        check("a/b/t", "persistent://a/b/t", "persistent://a/b/t", None);
    }

    #[test]
    fn partitions_are_told_from_names_that_look_like_them() {
        let full = |local: &str| format!("persistent://a/b/{local}");
        check(&full("x-partition-12"), &full("x-partition-12"), &full("x"), Some(12));
        for odd in [
            "x-partition-01",
            "x-partition--1",
            "x-partition-a",
            "x-partition-+1",
            "x-partition-",
            "-partition-1",
            "..-partition-1",
            "x-partition-2147483648",
        ] {
            check(&full(odd), &full(odd), &full(odd), None);
        }
    }

    #[test]
    fn a_name_is_kept_as_it_was_spelled() {
        for local in ["a:b", "a b", "100%25", "a+b", "grüße", "a/b/c"] {
            assert_eq!(TopicName::new(&format!("persistent://a/b/{local}")).unwrap().local(), local);
        }
    }

    #[test]
    fn bad_names_say_what_is_wrong() {
        refused("xx://a/b/c", "domain is \"xx\"");
        refused("persistent://a/b", "expected persistent://tenant/namespace/topic");
        refused("persistent://a b/c/d", "holds ' '");
        refused("persistent://a/b/", "is empty");
        refused("persistent://a/b/x\ny", "control character");
        refused("persistent://../b/c", "\"..\" cannot be part of a URL");
        refused("persistent://a/b/..", "cannot be reached by its URL");
        refused("", "is empty");
        refused(&"x".repeat(5000), "longer than");
    }
}
