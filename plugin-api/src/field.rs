//! What of a message a filter reads: declared, so that nothing else is carried to it.

/// A field of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// A property that the producer set, by its name. Text.
    Property(&'static str),
    /// The partition key. Text; missing if the message has none.
    Key,
    /// The ordering key. Bytes.
    OrderingKey,
    /// The full name of the topic. Text.
    Topic,
    /// The producer's name. Text.
    Producer,
    /// When the producer published it, in milliseconds since 1970. A number.
    PublishTime,
    /// The event time that the producer set, in milliseconds since 1970. A number; missing if it set none.
    EventTime,
    /// The producer's sequence id. A number.
    SequenceId,
    /// What the producer sent, decompressed. Bytes.
    Payload,
}

impl Field {
    /// The name that the contract has for it; `None` for a property.
    const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::Property(_) => return None,
            Self::Key => "key",
            Self::OrderingKey => "ordering-key",
            Self::Topic => "topic",
            Self::Producer => "producer",
            Self::PublishTime => "publish-time",
            Self::EventTime => "event-time",
            Self::SequenceId => "sequence-id",
            Self::Payload => "payload",
        })
    }
}

/// The fields that a filter reads, in order: the place of each is its slot.
///
/// ```
/// use weir_plugin_api::{Field, Fields};
///
/// const READS: Fields = Fields::property("delay").and_property("carrier").and(Field::Key);
/// ```
///
/// Looking a field up compares it with each that is declared. The compiler does that once and for all
/// for a constant; properties that only the configuration names cost a few nanoseconds more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fields {
    declared: [Field; Self::MAX],
    len: usize,
    /// Properties that only the configuration names. Their slots follow those of `declared`.
    configured: Vec<Box<str>>,
}

impl Fields {
    /// The most fields that can be declared in a constant. More can be added by the configuration, with
    /// [`and_configured`](Self::and_configured).
    pub const MAX: usize = 32;

    /// No field: the verdict is the same for every message.
    pub const NONE: Self = Self { declared: [Field::Key; Self::MAX], len: 0, configured: Vec::new() };

    /// One property, by its name.
    pub const fn property(name: &'static str) -> Self {
        Self::NONE.and(Field::Property(name))
    }

    /// One field.
    pub const fn of(field: Field) -> Self {
        Self::NONE.and(field)
    }

    /// These, and a property.
    #[must_use]
    pub const fn and_property(self, name: &'static str) -> Self {
        self.and(Field::Property(name))
    }

    /// These, and a field.
    ///
    /// # Panics
    /// When there are [`MAX`](Self::MAX) already; in a constant that is an error of the compiler.
    #[must_use]
    pub const fn and(mut self, field: Field) -> Self {
        assert!(self.len < Self::MAX, "a filter declares at most 32 fields");
        self.declared[self.len] = field;
        self.len += 1;
        self
    }

    /// These, and a property that the configuration names. For [`MessageFilter::reads`](crate::MessageFilter::reads).
    #[must_use]
    pub fn and_configured(mut self, name: impl Into<String>) -> Self {
        self.configured.push(name.into().into_boxed_str());
        self
    }

    /// Whether the others come first here, in the same order: they have the same slots then.
    pub(crate) fn begins_with(&self, others: &Self) -> bool {
        let declared = self.declared[..self.len].starts_with(&others.declared[..others.len]);
        declared && self.configured.starts_with(&others.configured)
    }

    /// How many there are.
    #[cfg(target_family = "wasm")]
    pub(crate) fn len(&self) -> usize {
        self.len + self.configured.len()
    }

    /// The slot of a property.
    #[inline(always)]
    pub(crate) fn slot_of_property(&self, name: &str) -> Option<usize> {
        for (slot, field) in self.declared[..self.len].iter().enumerate() {
            if let Field::Property(declared) = field
                && same(declared.as_bytes(), name.as_bytes())
            {
                return Some(slot);
            }
        }
        let place = self.configured.iter().position(|c| same(c.as_bytes(), name.as_bytes()))?;
        Some(self.len + place)
    }

    /// The slot of a field that is no property.
    #[inline(always)]
    pub(crate) fn slot_of(&self, field: Field) -> Option<usize> {
        self.declared[..self.len].iter().position(|declared| *declared == field)
    }

    /// The list that `configure` answers with.
    pub(crate) fn to_json(&self) -> String {
        let mut json = String::from("[");
        let declared = self.declared[..self.len].iter().copied();
        for field in declared {
            match (field, field.name()) {
                (Field::Property(name), _) => push_pair(&mut json, "property", name),
                (_, name) => push_pair(&mut json, "field", name.expect("only properties have none")),
            }
        }
        for name in &self.configured {
            push_pair(&mut json, "property", name);
        }
        json.push(']');
        json
    }
}

fn push_pair(json: &mut String, key: &str, value: &str) {
    if json.len() > 1 {
        json.push(',');
    }
    json.push_str("{\"");
    json.push_str(key);
    json.push_str("\":");
    crate::json::push_string(json, value);
    json.push('}');
}

/// Equality of names. Written out, since on wasm `==` is a call to a loop over bytes; names are short.
#[inline(always)]
fn same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && {
        let mut difference = 0;
        for (a, b) in one.iter().zip(other) {
            difference |= a ^ b;
        }
        difference == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READS: Fields = Fields::property("delay").and_property("carrier").and(Field::Key);

    #[test]
    fn a_slot_is_the_place_in_the_declaration() {
        assert_eq!(READS.slot_of_property("delay"), Some(0));
        assert_eq!(READS.slot_of_property("carrier"), Some(1));
        assert_eq!(READS.slot_of(Field::Key), Some(2));
        assert_eq!(READS.slot_of_property("dela"), None);
        assert_eq!(READS.slot_of(Field::Payload), None);
    }

    #[test]
    fn configured_properties_come_after_the_declared() {
        let reads = READS.and_configured(String::from("tail")).and(Field::Payload);
        assert_eq!(reads.slot_of(Field::Payload), Some(3));
        assert_eq!(reads.slot_of_property("tail"), Some(4));
        assert_eq!(
            reads.to_json(),
            r#"[{"property":"delay"},{"property":"carrier"},{"field":"key"},{"field":"payload"},{"property":"tail"}]"#
        );
    }

    #[test]
    fn fields_keep_their_slots_when_others_follow() {
        assert!(READS.begins_with(&READS));
        assert!(READS.and(Field::Topic).and_configured("tail").begins_with(&READS));
        assert!(!Fields::property("delay").begins_with(&READS));
        assert!(!Fields::property("carrier").and_property("delay").and(Field::Key).begins_with(&READS));
    }

    #[test]
    fn names_are_escaped() {
        let json = Fields::property("a\"b\\\n").to_json();
        let read: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(read[0]["property"], "a\"b\\\n");
    }

    #[test]
    fn every_field_has_the_name_of_the_contract() {
        let all = Fields::of(Field::Key)
            .and(Field::OrderingKey)
            .and(Field::Topic)
            .and(Field::Producer)
            .and(Field::PublishTime)
            .and(Field::EventTime)
            .and(Field::SequenceId)
            .and(Field::Payload);
        let read: Vec<std::collections::BTreeMap<String, String>> =
            serde_json::from_str(&all.to_json()).unwrap();
        let names: Vec<&str> = read.iter().map(|f| f["field"].as_str()).collect();
        let expected = [
            "key",
            "ordering-key",
            "topic",
            "producer",
            "publish-time",
            "event-time",
            "sequence-id",
            "payload",
        ];
        assert_eq!(names, expected);
    }
}
