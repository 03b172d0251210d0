//! Commands to frames on their way out.

use bytes::{Bytes, BytesMut};
use weir_wire::pulsar::command::{Command, CommandError, CommandMessage, CommandSuccess, KeyValue};
use weir_wire::pulsar::{ServerError, frame};

use std::collections::BTreeMap;

use super::outbox::Outgoing;

/// The frame of a command alone.
pub(super) fn simple(command: impl Into<Command>) -> Outgoing {
    let mut head = BytesMut::new();
    frame::encode(&command.into(), &mut head);
    Outgoing::from(head.freeze())
}

/// The frame of a delivery; the entry is shared, not copied.
pub(super) fn message(command: CommandMessage, entry: Bytes) -> Outgoing {
    let mut head = BytesMut::new();
    frame::encode_header(&command.into(), entry.len(), &mut head);
    Outgoing { head: head.freeze(), body: entry }
}

/// "Done."
pub(super) fn success(request_id: u64) -> Outgoing {
    simple(CommandSuccess { request_id, schema: None })
}

/// "No", for one request.
pub(super) fn error(request_id: u64, error: ServerError, message: String) -> Outgoing {
    simple(CommandError { request_id, error: error as i32, message })
}

/// Properties as the rooms below take them; the last one of a name stands, as in Pulsar.
pub(super) fn properties(pairs: Vec<KeyValue>) -> BTreeMap<String, String> {
    pairs.into_iter().map(|pair| (pair.key, pair.value)).collect()
}
