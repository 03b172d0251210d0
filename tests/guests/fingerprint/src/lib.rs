//! Reads every field there is, and lets each bit of it decide: whoever judges the same messages through
//! another form, and passes one value on wrongly, gets other answers.

use std::time::Duration;

use weir_plugin_api::{Config, Error, Field, Fields, Message, MessageFilter, Verdict, export};

/// What is read besides.
#[derive(Config)]
struct Fingerprint {
    /// Properties that only the configuration names.
    #[config(default)]
    also: Vec<String>,
    /// Whether payloads are read.
    #[config(default = true)]
    payload: bool,
}

impl MessageFilter for Fingerprint {
    type Config = Self;
    const CLASS: &'static str = "demo.Fingerprint";
    const READS: Fields = Fields::property("a")
        .and_property("b")
        .and(Field::Key)
        .and(Field::OrderingKey)
        .and(Field::Topic)
        .and(Field::Producer)
        .and(Field::PublishTime)
        .and(Field::EventTime)
        .and(Field::SequenceId);

    fn new(config: Self) -> Result<Self, Error> {
        Ok(config)
    }

    fn reads(&self) -> Fields {
        let reads = if self.payload { Self::READS.and(Field::Payload) } else { Self::READS };
        self.also.iter().fold(reads, |reads, name| reads.and_configured(name.as_str()))
    }

    fn judge(&mut self, message: &Message<'_>) -> Result<Verdict, Error> {
        let mut hash = Fnv::new();
        hash.text(message.property("a"));
        hash.text(message.property("b"));
        for name in &self.also {
            hash.text(message.property(name));
        }
        hash.text(message.key());
        hash.bytes(message.ordering_key());
        hash.text(message.topic());
        hash.text(message.producer());
        hash.number(message.publish_time());
        hash.number(message.event_time());
        hash.number(message.sequence_id());
        if self.payload {
            hash.bytes(Some(&message.payload()?));
        }
        match hash.0 % 4 {
            0 => Ok(Verdict::Accept),
            1 => Ok(Verdict::Reject),
            2 => Ok(Verdict::Reschedule(Duration::from_millis(hash.0 >> 40))),
            _ => Err(Error::new(format_args!("its fingerprint is {:016x}", hash.0))),
        }
    }
}

/// FNV-1a, over the values with their lengths.
struct Fnv(u64);

impl Fnv {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn byte(&mut self, byte: u8) {
        self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }

    /// Missing is a byte, present another and the value: missing and empty differ.
    fn bytes(&mut self, bytes: Option<&[u8]>) {
        self.byte(u8::from(bytes.is_some()));
        let bytes = bytes.unwrap_or_default();
        for byte in u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_le_bytes() {
            self.byte(byte);
        }
        bytes.iter().for_each(|byte| self.byte(*byte));
    }

    fn text(&mut self, text: Option<&str>) {
        self.bytes(text.map(str::as_bytes));
    }

    fn number(&mut self, number: Option<i64>) {
        self.bytes(number.map(i64::to_le_bytes).as_ref().map(<[u8; 8]>::as_slice));
    }
}

export!(Fingerprint);
